"""Seeded synthetic graphs. They need no download and no torch.

Graph ``g`` of a set depends only on the parameters, the seed and ``g``. More graphs therefore do not change the first
ones. Random numbers are hashes, so they do not depend on the version of numpy. All functions that make a set take the
number of graphs and the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.errors import ParameterError, UnknownNameError
from tgp.kernels.array_types import LongArray
from tgp.ragged import Field, GraphTable
from tgp.ragged.offsets import offsets, run_ids, run_positions
from tgp.sources.hashed_draws import draw_below, draw_hashes
from tgp.values import convert_value, parse_call

__all__ = ["BUILTIN", "BuiltinSet", "DEFAULT_DATASET", "make_builtin"]


DEFAULT_DATASET = "molecules"
ATOMS = 4
"""Number of atom types. The type of an atom does not depend on the label of its molecule."""
_ATOM_SHARE = (0.62, 0.14, 0.16, 0.08)


@dataclass(frozen=True)
class BuiltinSet:
    """A synthetic dataset.

    Args:
        name: Name of the set.
        summary: Description of one line.
        defaults: Default value of each parameter.
        make: Function that makes the graphs from the parameters.
    """

    name: str
    summary: str
    defaults: dict[str, int]
    make: Callable[..., GraphTable]


def make_builtin(spec: str) -> tuple[GraphTable, dict[str, object]]:
    """Make a synthetic dataset.

    Args:
        spec: Name and parameters: ``"name:key=value:key=value"``.

    Returns:
        The graphs, and a dictionary with the name and all parameters.

    Raises:
        UnknownNameError: If there is no such set or parameter.
        ParameterError: If a parameter has an invalid value.

    Examples:
        >>> table, description = make_builtin("grid:num_graphs=2")
        >>> table.num_graphs, description
        (2, {'name': 'grid', 'num_graphs': 2, 'seed': 0, 'num_nodes': 64})
    """
    name, given = parse_call(spec)
    entry = BUILTIN.get(name.lower())
    if entry is None:
        raise UnknownNameError("built-in dataset", name, BUILTIN)
    values = dict(entry.defaults)
    for key, text in given.items():
        if key not in values:
            raise UnknownNameError(f"parameter of {entry.name}", key, values)
        values[key] = _parse_integer(entry.name, key, text)
    if values["num_graphs"] < 1:
        raise ParameterError(
            f"'num_graphs' of {entry.name} must be at least 1, got {values['num_graphs']}", field="num_graphs"
        )
    return entry.make(**values), {"name": entry.name, **values}


def _parse_integer(name: str, key: str, text: str) -> int:
    value: int = convert_value(text, int, f"{name}:{key}", field=key, from_text=True)
    if value < 0:
        raise ParameterError(f"{name}:{key} must be at least 0, got {value}", field=key)
    return value


def _make_table(
    node_ptr: LongArray, edges: LongArray, y: LongArray | None, x: npt.NDArray[np.float32] | None = None
) -> GraphTable:
    """Make a table of simple graphs from undirected edges with global ids."""
    keep = edges[0] != edges[1]
    total = int(node_ptr[-1])
    one, other = edges[0][keep], edges[1][keep]
    key = np.sort(np.concatenate([one * total + other, other * total + one]))
    key = key[np.diff(key, prepend=-1) > 0]
    row, col = np.divmod(key, max(total, 1))
    num_graphs = len(node_ptr) - 1
    graph = np.searchsorted(node_ptr, row, side="right") - 1
    edge_ptr = offsets(np.bincount(graph, minlength=num_graphs))
    local = np.stack([row, col]) - node_ptr[graph]
    features = np.ones((total, 1), np.float32) if x is None else x
    fields = {
        "x": Field("x", features, node_ptr),
        "edge_index": Field("edge_index", local, edge_ptr, axis=-1, shifted=True),
    }
    if y is not None:
        fields["y"] = Field("y", y, np.arange(num_graphs + 1))
    return GraphTable(node_ptr, fields)


# Molecules


def molecules(num_graphs: int, seed: int, units: int) -> GraphTable:
    """Make molecule-like graphs whose label is visible on coarser levels only.

    A molecule has about ``units`` rings of 5 or 6 atoms with short side chains. Two chains of bonds connect all rings
    from the first to the last. With label 0, both chains visit the rings in the same order, so that neighbouring rings
    have two bonds (a ribbon). With label 1, the second chain visits the rings in another order (a cage). Ring sizes,
    degrees and the neighbourhoods of atoms have the same distribution in both classes. The difference is visible when
    the atoms of each ring are merged. Atom types do not depend on the label.
    """
    if units < 4:
        raise ParameterError(f"'units' of molecules must be at least 4, got {units}", field="units")
    g = np.arange(num_graphs)
    label = (draw_below(2, seed, 0, g // 2) + g) % 2  # each pair of graphs has both labels
    parts = units - 1 + draw_below(3, seed, 1, g)
    part_ptr = offsets(parts)
    graph, position = np.repeat(g, parts), run_positions(part_ptr)
    ring = 5 + draw_below(2, seed, 2, graph, position)
    atom_ptr = offsets(
        ring + draw_below(3, seed, 3, graph, position)
    )  # atoms of the ring, then of its side chain
    node_ptr = atom_ptr[part_ptr]

    rank = draw_below(2**50, seed, 4, graph, position)
    rank = np.where(label[graph] == 1, rank, position)
    rank = np.where(position == 0, -1, np.where(position == parts[graph] - 1, 2**50, rank))
    second = np.lexsort((rank, graph))  # rings in the order of the second chain
    bonds = [_ring_bonds(ring, atom_ptr)]
    for chain, order in enumerate((np.arange(len(position)), second)):
        start = atom_ptr[order] + ring[order] // 2 + chain
        end = atom_ptr[order] + chain
        inside = graph[1:] == graph[:-1]
        bonds.append(np.stack([start[:-1][inside], end[1:][inside]]))
    shuffled = _shuffle_nodes(seed, node_ptr)
    return _make_table(
        node_ptr, shuffled[np.concatenate(bonds, axis=1)], label, _atom_features(seed, node_ptr)
    )


def _ring_bonds(ring: LongArray, atom_ptr: LongArray) -> LongArray:
    """Return the bonds along the atoms of each part, and the bond that closes its ring."""
    inner = np.flatnonzero(run_positions(atom_ptr) > 0)
    closing = np.stack([atom_ptr[:-1], atom_ptr[:-1] + ring - 1])
    return np.concatenate([np.stack([inner - 1, inner]), closing], axis=1)


def _shuffle_nodes(seed: int, node_ptr: LongArray) -> LongArray:
    """Return a new id for each node: a random order inside each graph, so that ids carry no information."""
    graph = run_ids(node_ptr)
    order = np.lexsort((draw_hashes(seed, 5, graph, run_positions(node_ptr)), graph))
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    return new


def _atom_features(seed: int, node_ptr: LongArray) -> npt.NDArray[np.float32]:
    graph = run_ids(node_ptr)
    draw = draw_below(10_000, seed, 6, graph, run_positions(node_ptr))
    kind = np.searchsorted(np.cumsum(_ATOM_SHARE[:-1]) * 10_000, draw, side="right")
    return np.eye(ATOMS, dtype=np.float32)[kind]


# Random graphs


def grid(num_graphs: int, seed: int, num_nodes: int) -> GraphTable:
    """Make rectangular grids (label 0) and tori (label 1) of about ``num_nodes`` nodes."""
    g = np.arange(num_graphs)
    label = (draw_below(2, seed, 0, g // 2) + g) % 2
    side = max(3, round(num_nodes**0.5))
    width = np.maximum(3, side - draw_below(1 + side // 4, seed, 1, g))
    height = np.maximum(3, num_nodes // width)
    node_ptr = offsets(width * height)
    graph = np.repeat(g, width * height)
    position, base = run_positions(node_ptr), node_ptr[graph]
    w, h, wraps = width[graph], height[graph], label[graph] == 1
    row, col = position // w, position % w
    node = np.arange(node_ptr[-1])
    across = np.where(wraps, True, col + 1 < w)
    down = np.where(wraps, True, row + 1 < h)
    right = np.stack([node, base + row * w + (col + 1) % w])[:, across]
    below = np.stack([node, base + ((row + 1) % h) * w + col])[:, down]
    return _make_table(node_ptr, np.concatenate([right, below], axis=1), label)


def erdos_renyi(num_graphs: int, seed: int, num_nodes: int, degree: int) -> GraphTable:
    """Make uniform random graphs of ``num_nodes`` nodes with a mean degree of about ``degree``."""
    node_ptr = np.arange(num_graphs + 1) * num_nodes
    draws = num_nodes * degree // 2
    graph, draw = np.divmod(np.arange(num_graphs * draws), max(draws, 1))
    ends = [node_ptr[graph] + draw_below(num_nodes, seed, 1 + i, graph, draw) for i in range(2)]
    return _make_table(node_ptr, np.stack(ends), None)


def barabasi_albert(num_graphs: int, seed: int, num_nodes: int, edges: int) -> GraphTable:
    """Make graphs by preferential attachment. Each node adds ``edges`` edges, and degrees have a heavy tail."""
    per_graph = num_nodes * edges
    graph, draw = np.divmod(np.arange(num_graphs * per_graph), max(per_graph, 1))
    source = draw // max(edges, 1)
    # The target of an edge is a random end of the edges of earlier nodes. An even number selects the source of such an
    # edge; an odd number selects its target, which is itself a selection: follow it until all numbers are even.
    pick = np.where(source == 0, 0, draw_below(np.maximum(2 * source * edges, 1), seed, 1, graph, draw))
    pending = pick % 2 == 1
    while pending.any():
        at = graph[pending] * per_graph + pick[pending] // 2
        pick[pending] = pick[at]
        pending = pick % 2 == 1
    start = graph * num_nodes
    ends = np.stack([start + source, start + pick // 2 // max(edges, 1)])
    return _make_table(np.arange(num_graphs + 1) * num_nodes, ends, None)


def blocks(num_graphs: int, seed: int, num_nodes: int, inside: int, outside: int) -> GraphTable:
    """Make stochastic block models. The label is the number of communities (2, 3 or 4) minus 2.

    A node has about ``inside`` neighbours in its community and about ``outside`` neighbours anywhere.
    """
    g = np.arange(num_graphs)
    label = draw_below(3, seed, 0, g)
    count = label + 2
    node_ptr = np.arange(num_graphs + 1) * num_nodes
    edges = []
    for stream, per_node in ((1, inside), (3, outside)):
        draws = num_nodes * per_node // 2
        graph, draw = np.divmod(np.arange(num_graphs * draws), max(draws, 1))
        one = draw_below(num_nodes, seed, stream, graph, draw)
        if stream == 1:  # nodes of a community have the same remainder modulo the number of communities
            members = (num_nodes - one % count[graph] - 1) // count[graph] + 1
            other = one % count[graph] + count[graph] * draw_below(members, seed, stream + 1, graph, draw)
        else:
            other = draw_below(num_nodes, seed, stream + 1, graph, draw)
        edges.append(node_ptr[graph] + np.stack([one, other]))
    return _make_table(node_ptr, np.concatenate(edges, axis=1), label)


def points(num_graphs: int, seed: int, num_nodes: int, neighbors: int) -> GraphTable:
    """Make random points in the unit square, joined to their nearest neighbours, with positions in ``pos``.

    Points of label 0 are uniform. Points of label 1 are denser towards the left side.
    """
    from scipy.spatial import cKDTree

    g = np.arange(num_graphs)
    label = (draw_below(2, seed, 0, g // 2) + g) % 2
    node_ptr = np.arange(num_graphs + 1) * num_nodes
    graph, place = np.divmod(np.arange(num_graphs * num_nodes), max(num_nodes, 1))
    pos = np.stack([draw_below(2**20, seed, 1 + axis, graph, place) for axis in range(2)], axis=1) * 2.0**-20
    pos[:, 0] = np.where(label[graph] == 1, pos[:, 0] ** 2, pos[:, 0])
    near = max(min(neighbors, num_nodes - 1), 0)
    ends = np.zeros((2, 0), np.int64)
    if near:
        rows = [
            cKDTree(pos[a : a + num_nodes]).query(pos[a : a + num_nodes], near + 1)[1][:, 1:] + a
            for a in node_ptr[:-1]
        ]
        ends = np.stack([np.repeat(np.arange(len(pos)), near), np.concatenate(rows).ravel()])
    fields = _make_table(node_ptr, ends, label).fields
    return GraphTable(node_ptr, {**fields, "pos": Field("pos", pos.astype(np.float32), node_ptr)})


def families(num_graphs: int, seed: int, num_nodes: int, noise: int) -> GraphTable:
    """Make random graphs of three families. The label is the family.

    Label 0: uniformly random edges. Label 1: preferential attachment. Label 2: a ring of near neighbours. Each node
    adds two or three edges, and sizes vary, so neither size nor density determines the family, but the degrees around
    a node do. A network without pooling learns this, and pooling must keep the information.

    Sizes are between 0.5 and 1.5 times ``num_nodes``. ``noise`` percent of the edges are uniformly random.
    """
    if num_nodes < 8 or noise > 100:
        raise ParameterError(
            f"families needs at least 8 nodes and at most 100 percent noise, got {num_nodes} and {noise}",
            field="num_nodes" if num_nodes < 8 else "noise",
        )
    g = np.arange(num_graphs)
    label = (draw_below(3, seed, 0, g // 3) + g) % 3  # three consecutive graphs have all labels
    sizes = num_nodes // 2 + draw_below(num_nodes + 1, seed, 1, g)
    per_node = 2 + draw_below(2, seed, 2, g)
    node_ptr, edge_ptr = offsets(sizes), offsets(sizes * per_node)
    graph, draw = np.repeat(g, np.diff(edge_ptr)), run_positions(edge_ptr)
    source, step = np.divmod(draw, per_node[graph])
    # Preferential attachment as in `barabasi_albert`.
    pick = np.where(
        source == 0, 0, draw_below(np.maximum(2 * source * per_node[graph], 1), seed, 3, graph, draw)
    )
    while (pending := pick % 2 == 1).any():
        pick[pending] = pick[edge_ptr[graph[pending]] + pick[pending] // 2]
    uniform = [draw_below(sizes[graph], seed, 4 + i, graph, draw) for i in range(2)]
    kind = np.where(draw_below(100, seed, 6, graph, draw) < noise, 0, label[graph])
    near = (source + 1 + step) % sizes[graph]
    target = np.choose(kind, [uniform[0], pick // 2 // per_node[graph], near])
    ends = np.stack([np.where(kind == 0, uniform[1], source), target])
    return _make_table(node_ptr, _shuffle_nodes(seed, node_ptr)[node_ptr[graph] + ends], label)


def regions(num_graphs: int, seed: int, num_nodes: int, parts: int, labels: int, noise: int) -> GraphTable:
    """Make maps for node classification: grids of cells that are divided into regions.

    A region consists of the cells that are nearest to its centre. All of its cells have the same label. The features
    of a cell are its label, or a random label in ``noise`` percent of the cells. A single cell therefore carries little
    information, and a larger neighbourhood carries more.

    A map has about ``num_nodes`` cells, ``parts`` regions and ``labels`` different labels.
    """
    if not (parts and labels):
        raise ParameterError(
            f"'parts' and 'labels' of regions must be at least 1, got {parts} and {labels}", field="parts"
        )
    if noise > 100:
        raise ParameterError(f"'noise' of regions must be at most 100, got {noise}", field="noise")
    width = max(2, round(num_nodes**0.5))
    height = max(2, num_nodes // width)
    cells = width * height
    node_ptr = np.arange(num_graphs + 1) * cells
    graph, position = np.divmod(np.arange(num_graphs * cells), cells)
    row, col = position // width, position % width
    nearest = np.full(len(position), np.iinfo(np.int64).max)
    y = np.zeros(len(position), np.int64)
    for part in range(parts):
        at = [draw_below(size, seed, 1 + axis, graph, part) for axis, size in enumerate((height, width))]
        distance = (row - at[0]) ** 2 + (col - at[1]) ** 2
        y[distance < nearest] = part % labels
        nearest = np.minimum(nearest, distance)
    drawn = draw_below(labels, seed, 4, graph, position)
    seen = np.where(draw_below(100, seed, 3, graph, position) < noise, drawn, y)
    node = np.arange(len(position))
    edges = [
        np.stack([node, node + step])[:, inside]
        for step, inside in ((1, col + 1 < width), (width, row + 1 < height))
    ]
    table = _make_table(node_ptr, np.concatenate(edges, axis=1), None, np.eye(labels, dtype=np.float32)[seen])
    return GraphTable(node_ptr, {**table.fields, "y": Field("y", y, node_ptr)})


BUILTIN: dict[str, BuiltinSet] = {
    entry.name: entry
    for entry in (
        BuiltinSet(
            "molecules",
            "Molecule-like graphs: ribbons or cages of rings, which differ on coarser levels",
            {"num_graphs": 500, "seed": 0, "units": 8},
            molecules,
        ),
        BuiltinSet(
            "grid", "Rectangular grids and tori", {"num_graphs": 200, "seed": 0, "num_nodes": 64}, grid
        ),
        BuiltinSet(
            "er",
            "Uniform random graphs",
            {"num_graphs": 200, "seed": 0, "num_nodes": 64, "degree": 4},
            erdos_renyi,
        ),
        BuiltinSet(
            "ba",
            "Preferential attachment, heavy-tailed degrees",
            {"num_graphs": 200, "seed": 0, "num_nodes": 64, "edges": 2},
            barabasi_albert,
        ),
        BuiltinSet(
            "sbm",
            "Stochastic block models; the label is the number of communities",
            {"num_graphs": 200, "seed": 0, "num_nodes": 64, "inside": 6, "outside": 1},
            blocks,
        ),
        BuiltinSet(
            "points",
            "Random points joined to their nearest neighbours, with positions",
            {"num_graphs": 200, "seed": 0, "num_nodes": 64, "neighbors": 4},
            points,
        ),
        BuiltinSet(
            "families",
            "Graphs of three random models, which differ in the degrees around a node",
            {"num_graphs": 500, "seed": 0, "num_nodes": 40, "noise": 20},
            families,
        ),
        BuiltinSet(
            "regions",
            "One map of noisy cells with a label per node, for node classification",
            {"num_graphs": 1, "seed": 0, "num_nodes": 4096, "parts": 24, "labels": 4, "noise": 85},
            regions,
        ),
    )
}
