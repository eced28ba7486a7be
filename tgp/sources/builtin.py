"""Seeded synthetic graphs that need no download and no torch.

Graph ``g`` of a set is a function of the parameters, the seed and ``g`` alone: asking for more graphs
leaves the first ones as they were, and every draw is a hash, so numpy versions do not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.errors import ParameterError, UnknownNameError
from tgp.ragged import Field, GraphTable
from tgp.values import convert_value, parse_call

__all__ = ["BUILTIN", "BuiltinSet", "DEFAULT_DATASET", "make_builtin"]

Ints = npt.NDArray[np.int64]

DEFAULT_DATASET = "molecules"
ATOMS = 4
"""Atom types of a molecule; drawn without looking at the label."""
_ATOM_SHARE = (0.62, 0.14, 0.16, 0.08)


@dataclass(frozen=True)
class BuiltinSet:
    """One synthetic set: what it is, its parameters with defaults, and the function that makes it."""

    name: str
    summary: str
    defaults: dict[str, int]
    make: Callable[..., GraphTable]


def make_builtin(spec: str) -> tuple[GraphTable, dict[str, object]]:
    """Make the set that ``"name:key=value:key=value"`` describes.

    Returns:
        the graphs and the fully resolved description ``{"name": ..., parameters...}``.
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


# Random numbers: splitmix64 of (seed, stream, a, b), so any draw can be made on its own.


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _bits(seed: int, stream: int, a: npt.ArrayLike, b: npt.ArrayLike = 0) -> npt.NDArray[np.uint64]:
    golden = np.uint64(0x9E3779B97F4A7C15)
    z = _mix(np.atleast_1d(np.uint64(seed) + golden))
    for part in (stream, a, b):
        z = _mix(z ^ (np.asarray(part).astype(np.uint64) + golden))
    return z


def _below(bound: npt.ArrayLike, seed: int, stream: int, a: npt.ArrayLike, b: npt.ArrayLike = 0) -> Ints:
    """Integers in ``[0, bound)``."""
    uniform = (_bits(seed, stream, a, b) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.minimum((uniform * bound).astype(np.int64), np.asarray(bound, np.int64) - 1)


def _ptr(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _within(ptr: Ints) -> Ints:
    """Position of every item inside its segment."""
    return np.arange(ptr[-1]) - np.repeat(ptr[:-1], np.diff(ptr))


def _table(
    node_ptr: Ints, edges: Ints, y: Ints | None, x: npt.NDArray[np.float32] | None = None
) -> GraphTable:
    """A table from undirected edges in global ids: simple graphs, both directions, sorted."""
    keep = edges[0] != edges[1]
    total = int(node_ptr[-1])
    one, other = edges[0][keep], edges[1][keep]
    key = np.sort(np.concatenate([one * total + other, other * total + one]))
    key = key[np.diff(key, prepend=-1) > 0]
    row, col = np.divmod(key, max(total, 1))
    num_graphs = len(node_ptr) - 1
    graph = np.searchsorted(node_ptr, row, side="right") - 1
    edge_ptr = _ptr(np.bincount(graph, minlength=num_graphs))
    local = np.stack([row, col]) - node_ptr[graph]
    features = np.ones((total, 1), np.float32) if x is None else x
    fields = {
        "x": Field("x", features, node_ptr),
        "edge_index": Field("edge_index", local, edge_ptr, axis=-1, shifted=True),
    }
    if y is not None:
        fields["y"] = Field("y", y, np.arange(num_graphs + 1))
    return GraphTable(node_ptr, fields)


# Molecules: rings threaded by two strands of bonds, parallel or crossing.


def molecules(num_graphs: int, seed: int, units: int) -> GraphTable:
    """Molecule-like graphs whose label shows on coarser levels only.

    A molecule has about ``units`` rings of 5 or 6 atoms with short side chains. Two strands of bonds run
    through all rings from the first to the last. In label 0 both visit the rings in the same order, so
    neighbouring rings are tied twice (a ribbon); in label 1 the second strand takes an order of its own
    (a cross-linked cage). Rings, degrees, and what message passing sees around an atom are alike in both
    classes; merging the atoms of a ring shows the difference. Atom types do not depend on the label.
    """
    if units < 4:
        raise ParameterError(f"'units' of molecules must be at least 4, got {units}", field="units")
    g = np.arange(num_graphs)
    label = (_below(2, seed, 0, g // 2) + g) % 2  # each pair of graphs has both labels
    parts = units - 1 + _below(3, seed, 1, g)
    part_ptr = _ptr(parts)
    graph, place = np.repeat(g, parts), _within(part_ptr)
    ring = 5 + _below(2, seed, 2, graph, place)
    atom_ptr = _ptr(ring + _below(3, seed, 3, graph, place))  # the ring, then its side chain
    node_ptr = atom_ptr[part_ptr]

    wander = _below(2**50, seed, 4, graph, place)
    wander = np.where(label[graph] == 1, wander, place)
    wander = np.where(place == 0, -1, np.where(place == parts[graph] - 1, 2**50, wander))
    second = np.lexsort((wander, graph))  # rings in the order of the second strand
    bonds = [_ring_bonds(ring, atom_ptr)]
    for strand, order in enumerate((np.arange(len(place)), second)):
        leaves = atom_ptr[order] + ring[order] // 2 + strand
        enters = atom_ptr[order] + strand
        inside = graph[1:] == graph[:-1]
        bonds.append(np.stack([leaves[:-1][inside], enters[1:][inside]]))
    shuffled = _shuffle_nodes(seed, node_ptr)
    return _table(node_ptr, shuffled[np.concatenate(bonds, axis=1)], label, _atoms(seed, node_ptr))


def _ring_bonds(ring: Ints, atom_ptr: Ints) -> Ints:
    """Bonds along the atoms of every part, and the one that closes its ring."""
    inner = np.flatnonzero(_within(atom_ptr) > 0)
    closing = np.stack([atom_ptr[:-1], atom_ptr[:-1] + ring - 1])
    return np.concatenate([np.stack([inner - 1, inner]), closing], axis=1)


def _shuffle_nodes(seed: int, node_ptr: Ints) -> Ints:
    """New id of every node: a random order inside each graph, so that ids tell nothing."""
    graph = np.repeat(np.arange(len(node_ptr) - 1), np.diff(node_ptr))
    order = np.lexsort((_bits(seed, 5, graph, _within(node_ptr)), graph))
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    return new


def _atoms(seed: int, node_ptr: Ints) -> npt.NDArray[np.float32]:
    graph = np.repeat(np.arange(len(node_ptr) - 1), np.diff(node_ptr))
    draw = _below(10_000, seed, 6, graph, _within(node_ptr))
    kind = np.searchsorted(np.cumsum(_ATOM_SHARE[:-1]) * 10_000, draw, side="right")
    return np.eye(ATOMS, dtype=np.float32)[kind]


# Families of random graphs.


def grid(num_graphs: int, seed: int, num_nodes: int) -> GraphTable:
    """Rectangular grids of about ``num_nodes`` nodes; label 1 wraps around (a torus)."""
    g = np.arange(num_graphs)
    label = (_below(2, seed, 0, g // 2) + g) % 2
    side = max(3, round(num_nodes**0.5))
    width = np.maximum(3, side - _below(1 + side // 4, seed, 1, g))
    height = np.maximum(3, num_nodes // width)
    node_ptr = _ptr(width * height)
    graph = np.repeat(g, width * height)
    position, base = _within(node_ptr), node_ptr[graph]
    w, h, wraps = width[graph], height[graph], label[graph] == 1
    row, col = position // w, position % w
    node = np.arange(node_ptr[-1])
    across = np.where(wraps, True, col + 1 < w)
    down = np.where(wraps, True, row + 1 < h)
    right = np.stack([node, base + row * w + (col + 1) % w])[:, across]
    below = np.stack([node, base + ((row + 1) % h) * w + col])[:, down]
    return _table(node_ptr, np.concatenate([right, below], axis=1), label)


def erdos_renyi(num_graphs: int, seed: int, num_nodes: int, degree: int) -> GraphTable:
    """Uniform random graphs with about ``degree`` neighbours per node."""
    node_ptr = np.arange(num_graphs + 1) * num_nodes
    draws = num_nodes * degree // 2
    graph, draw = np.divmod(np.arange(num_graphs * draws), max(draws, 1))
    ends = [node_ptr[graph] + _below(num_nodes, seed, 1 + i, graph, draw) for i in range(2)]
    return _table(node_ptr, np.stack(ends), None)


def barabasi_albert(num_graphs: int, seed: int, num_nodes: int, edges: int) -> GraphTable:
    """Preferential attachment: every node brings ``edges`` edges; heavy-tailed degrees."""
    per_graph = num_nodes * edges
    graph, draw = np.divmod(np.arange(num_graphs * per_graph), max(per_graph, 1))
    source = draw // max(edges, 1)
    # The other end of edge e copies a random end among the 2e ends before it, whose value may be a copy
    # itself: follow the pointers until all rest on a source.
    pick = np.where(source == 0, 0, _below(np.maximum(2 * source * edges, 1), seed, 1, graph, draw))
    pending = pick % 2 == 1
    while pending.any():
        at = graph[pending] * per_graph + pick[pending] // 2
        pick[pending] = pick[at]
        pending = pick % 2 == 1
    start = graph * num_nodes
    ends = np.stack([start + source, start + pick // 2 // max(edges, 1)])
    return _table(np.arange(num_graphs + 1) * num_nodes, ends, None)


def blocks(num_graphs: int, seed: int, num_nodes: int, inside: int, outside: int) -> GraphTable:
    """Stochastic block models; the label is the number of communities (2, 3 or 4) minus 2."""
    g = np.arange(num_graphs)
    label = _below(3, seed, 0, g)
    count = label + 2
    node_ptr = np.arange(num_graphs + 1) * num_nodes
    edges = []
    for stream, per_node in ((1, inside), (3, outside)):
        draws = num_nodes * per_node // 2
        graph, draw = np.divmod(np.arange(num_graphs * draws), max(draws, 1))
        one = _below(num_nodes, seed, stream, graph, draw)
        if stream == 1:  # the other end in the same community: same remainder
            members = (num_nodes - one % count[graph] - 1) // count[graph] + 1
            other = one % count[graph] + count[graph] * _below(members, seed, stream + 1, graph, draw)
        else:
            other = _below(num_nodes, seed, stream + 1, graph, draw)
        edges.append(node_ptr[graph] + np.stack([one, other]))
    return _table(node_ptr, np.concatenate(edges, axis=1), label)


# Graphs with a label per node.


def families(num_graphs: int, seed: int, num_nodes: int, noise: int) -> GraphTable:
    """Networks of three families; the label says how their edges came about.

    Label 0: uniformly drawn edges; 1: preferential attachment; 2: a ring of near neighbours. In every family
    ``noise`` percent of the edges are drawn uniformly instead. A graph has ``num_nodes`` nodes more or less
    half of them, and every node brings two or three edges, so neither size nor density tells the family:
    the degrees around a node do. A network without pooling learns it, and pooling must not lose it.
    """
    if num_nodes < 8 or noise > 100:
        raise ParameterError(
            f"families needs at least 8 nodes and at most 100 percent noise, got {num_nodes} and {noise}",
            field="num_nodes" if num_nodes < 8 else "noise",
        )
    g = np.arange(num_graphs)
    label = (_below(3, seed, 0, g // 3) + g) % 3  # every three graphs have all labels
    sizes = num_nodes // 2 + _below(num_nodes + 1, seed, 1, g)
    per_node = 2 + _below(2, seed, 2, g)
    node_ptr, edge_ptr = _ptr(sizes), _ptr(sizes * per_node)
    graph, draw = np.repeat(g, np.diff(edge_ptr)), _within(edge_ptr)
    source, step = np.divmod(draw, per_node[graph])
    # Preferential: a random end of an earlier edge of the graph, as in barabasi_albert.
    pick = np.where(source == 0, 0, _below(np.maximum(2 * source * per_node[graph], 1), seed, 3, graph, draw))
    while (pending := pick % 2 == 1).any():
        pick[pending] = pick[edge_ptr[graph[pending]] + pick[pending] // 2]
    uniform = [_below(sizes[graph], seed, 4 + i, graph, draw) for i in range(2)]
    kind = np.where(_below(100, seed, 6, graph, draw) < noise, 0, label[graph])
    near = (source + 1 + step) % sizes[graph]
    target = np.choose(kind, [uniform[0], pick // 2 // per_node[graph], near])
    ends = np.stack([np.where(kind == 0, uniform[1], source), target])
    return _table(node_ptr, _shuffle_nodes(seed, node_ptr)[node_ptr[graph] + ends], label)


def regions(num_graphs: int, seed: int, num_nodes: int, parts: int, labels: int, noise: int) -> GraphTable:
    """Maps for node classification: grids of about ``num_nodes`` cells, cut into ``parts`` regions.

    A region takes the cells nearest to its centre and has one of ``labels`` labels. A cell's features show
    its label; in ``noise`` percent of the cells they show a random one instead. So a cell alone tells
    little, and its neighbourhood the more the larger it is.
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
    graph, place = np.divmod(np.arange(num_graphs * cells), cells)
    row, col = place // width, place % width
    nearest = np.full(len(place), np.iinfo(np.int64).max)
    y = np.zeros(len(place), np.int64)
    for part in range(parts):
        at = [_below(size, seed, 1 + axis, graph, part) for axis, size in enumerate((height, width))]
        distance = (row - at[0]) ** 2 + (col - at[1]) ** 2
        y[distance < nearest] = part % labels
        nearest = np.minimum(nearest, distance)
    drawn = _below(labels, seed, 4, graph, place)
    seen = np.where(_below(100, seed, 3, graph, place) < noise, drawn, y)
    node = np.arange(len(place))
    edges = [
        np.stack([node, node + step])[:, inside]
        for step, inside in ((1, col + 1 < width), (width, row + 1 < height))
    ]
    table = _table(node_ptr, np.concatenate(edges, axis=1), None, np.eye(labels, dtype=np.float32)[seen])
    table.fields["y"] = Field("y", y, node_ptr)
    return table


BUILTIN: dict[str, BuiltinSet] = {
    entry.name: entry
    for entry in (
        BuiltinSet(
            "molecules",
            "Molecule-like graphs: ribbons or cages of rings, told apart on coarser levels",
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
            "Stochastic block models; the label counts the communities",
            {"num_graphs": 200, "seed": 0, "num_nodes": 64, "inside": 6, "outside": 1},
            blocks,
        ),
        BuiltinSet(
            "families",
            "Networks grown in three ways, told apart by the degrees around a node",
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
