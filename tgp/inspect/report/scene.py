"""Place and colour the nodes of one graph at all of its levels. Used by the report and the plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from tgp.inspect.report.palette import COLOURS
from tgp.inspect.report.placement import layout, separate
from tgp.ragged import Level
from tgp.store import StoreReader

__all__ = [
    "MAX_NODES",
    "Picture",
    "Scene",
    "graph_scenes",
    "member_radius",
    "node_radius",
    "pooled_pictures",
    "simple_edges",
]

MAX_NODES = 400
"""Largest number of nodes of a drawing. A larger graph is drawn from the first level that is small enough."""

_CROWD = 3
"""If no level is small enough, the last level is drawn if it has at most this many times more nodes."""

_PLAIN = 1 / 3
"""Strength of edges without weights, and of edges with equal weights."""

_LINES = (40.0, 120.0, 400.0)
"""Total lengths of all edges, in widths of the drawing, from which on edges are drawn fainter."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Picture:
    """Placed nodes and edges of one level of one graph.

    Args:
        level: number of the level; 0 is the input graph.
        method: level method that made it; ``"input"`` for the input graph.
        num_nodes: number of nodes of the whole graph at this level.
        num_edges: number of stored edges of the whole graph at this level.
        nodes: ``[n]`` ids of the drawn nodes.
        places: ``[n, 2]`` coordinates.
        members: ``[n]`` number of nodes of the first drawn level that each node stands for.
        edges: ``[2, e]`` pairs of indices into ``nodes``, each pair once.
        strength: ``[e]`` weights between 0 and 1.
        target: ``[n]`` supernode of each node at the next level, -1 if the node is dropped; at the last level the node
            itself.
        colour: ``[n]`` index of the colour of the target, -1 if the node is dropped.
        share: ``[n]`` share of the node that belongs to its target; 1 unless the assignment is soft.
        centres: ``[n, 2]`` place of the target in the next picture; the place of the node if there is none.
        last: True for the last level.
    """

    level: int
    method: str
    num_nodes: int
    num_edges: int
    nodes: Ints
    places: Floats
    members: Ints
    edges: Ints
    strength: Floats
    target: Ints
    colour: Ints
    share: Floats
    centres: Floats
    last: bool

    @property
    def faint(self) -> int:
        """Index from 0 to 3 of the faintness of edges. Edges that fill the drawing are faint, so that nodes stay visible."""
        low, high = self.edges
        total = float(np.linalg.norm(self.places[low] - self.places[high], axis=1).sum())
        extent = float(np.ptp(self.places, axis=0).max()) if len(self.places) else 0.0
        return int(np.searchsorted(_LINES, total / max(extent, 1e-9)))

    @property
    def tied(self) -> npt.NDArray[np.bool_]:
        """``[n]`` True for nodes that share their supernode with others. Bands connect these nodes."""
        _, where, count = np.unique(self.target, return_inverse=True, return_counts=True)
        return (count[where.reshape(-1)] > 1) & (self.target >= 0) & (not self.last)


@dataclass(frozen=True, eq=False)
class Scene:
    """Pictures of one graph in one hierarchy.

    Args:
        graph: id of the graph.
        hierarchy: name of the hierarchy.
        sizes: number of nodes at every level, the input graph first.
        pictures: levels that are small enough to draw, finest first.
        ball: True if every level is too large, so that only the surroundings of one node are drawn.
        reason: reason why the graph could not be coarsened; ``None`` if it was coarsened.
    """

    graph: int
    hierarchy: str
    sizes: tuple[int, ...]
    pictures: tuple[Picture, ...]
    ball: bool = False
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class _Graph:
    """A graph at one level, and its assignment to the next level; no assignment at the last level."""

    method: str
    num_nodes: int
    num_edges: int
    edges: Ints
    strength: Floats
    owner: Ints | None = None
    share: Floats | None = None


def simple_edges(edge_index: npt.NDArray[Any], weight: npt.NDArray[Any] | None) -> tuple[Ints, Floats]:
    """Return the edges of a graph for a drawing.

    Args:
        edge_index: ``[2, E]`` edges.
        weight: ``[E]`` weights, or ``None``.

    Returns:
        ``[2, e]`` pairs of neighbours, each pair once and without self-loops, and ``[e]`` strengths: the weights divided
        by the largest weight, or 1/3 if all weights are equal.
    """
    ends = np.sort(np.asarray(edge_index, np.int64).reshape(2, -1), axis=0)
    kept = ends[0] != ends[1]
    width = int(ends.max(initial=0)) + 1
    keys, place = np.unique(ends[0, kept] * width + ends[1, kept], return_inverse=True)
    pairs = np.stack([keys // width, keys % width])
    strength = np.full(pairs.shape[1], _PLAIN)
    if weight is not None and pairs.shape[1]:
        flat = np.abs(np.nan_to_num(np.asarray(weight, np.float64).reshape(-1), posinf=0.0, neginf=0.0))
        np.maximum.at(strength := np.zeros(pairs.shape[1]), place.reshape(-1), flat[kept])
        low, high = float(strength.min()), float(strength.max())
        strength = np.full(len(strength), _PLAIN) if high - low <= 1e-6 * high else strength / high
    return pairs, strength


def graph_scenes(
    reader: StoreReader, graph: int, hierarchy: str | None = None, *, max_nodes: int = MAX_NODES
) -> list[Scene]:
    """Place a graph in one or in all hierarchies. The input graph has the same places in all of them.

    Args:
        reader: store.
        graph: id of the graph.
        hierarchy: name of a hierarchy; all if ``None``.
        max_nodes: largest number of nodes of a drawing.

    Returns:
        One scene per hierarchy.
    """
    names = [*reader.hierarchies] if hierarchy is None else [reader.hierarchy(hierarchy).name]
    table = reader.read_graph(graph, [f for f in ("edge_index", "edge_weight") if f in reader.fields])
    num_nodes = int(table.node_ptr[-1])
    ends = table.fields["edge_index"].values if "edge_index" in table.fields else np.zeros((2, 0), np.int64)
    weight = table.fields["edge_weight"].values if "edge_weight" in table.fields else None
    edges, strength = simple_edges(
        ends, weight if weight is not None and weight.size == ends.shape[1] else None
    )
    first = _Graph("input", num_nodes, ends.shape[1], edges, strength)
    places = layout(edges, num_nodes) if num_nodes <= max_nodes else None
    return [_scene(reader, graph, name, first, places, max_nodes) for name in names]


def pooled_pictures(
    edge_index: npt.NDArray[Any],
    s: npt.NDArray[Any],
    coarse: npt.NDArray[Any],
    places: Floats,
    method: str,
) -> tuple[Picture, ...]:
    """Place a graph and its pooled graph.

    Args:
        edge_index: ``[2, E]`` edges.
        s: ``[N, K]`` assignment; rows of zeros are dropped nodes.
        coarse: ``[K, K]`` weights of the pooled graph.
        places: ``[N, 2]`` places of the nodes, see :func:`tgp.inspect.report.placement.layout`.
        method: name of the pooler.

    Returns:
        The pictures of the graph and of the pooled graph.
    """
    owner, share = _owners(s)
    edges, strength = simple_edges(edge_index, None)
    first = _Graph("input", len(s), np.shape(edge_index)[1], edges, strength, owner, share)
    ends = np.stack(np.nonzero(coarse))
    edges, strength = simple_edges(ends, np.asarray(coarse)[ends[0], ends[1]])
    last = _Graph(method, np.shape(s)[1], ends.shape[1], edges, strength)
    return _pictures([first, last], 0, np.arange(len(s)), places)


def node_radius(places: Floats, scale: float, thin: float, wide: float) -> float:
    """Choose the radius of the nodes of a drawing.

    Args:
        places: ``[n, 2]`` places of the nodes.
        scale: length of an edge of length 1 in the drawing.
        thin: smallest radius.
        wide: largest radius.
    """
    radius = min(max(0.3 * scale, thin), wide)
    if len(places) > 2:
        # In crowded drawings nodes are smaller, so that three of four do not touch their nearest neighbour.
        nearest = cKDTree(places).query(places, k=2)[0][:, 1]
        radius = min(radius, max(0.55 * float(np.quantile(nearest, 0.25)) * scale, thin))
    return radius


def member_radius(picture: Picture, base: float) -> Floats:
    """Return ``[n]`` radii of the nodes of a picture. They grow with the number of nodes that a node stands for."""
    radii: Floats = np.minimum(base * picture.members**0.32, 2.6 * base)
    return radii


def _owners(s: npt.NDArray[Any]) -> tuple[Ints, Floats]:
    """Return the supernode with the largest share of each node, and that share. Rows of zeros give -1."""
    size = np.abs(np.nan_to_num(np.asarray(s, np.float64)))
    total = size.sum(1)
    owner = np.where(total > 0, size.argmax(1) if size.shape[1] else -1, -1)
    return owner, np.where(total > 0, size.max(1, initial=0.0) / np.maximum(total, 1e-12), 1.0)


def _scene(
    reader: StoreReader, graph: int, name: str, first: _Graph, places: Floats | None, max_nodes: int
) -> Scene:
    levels = reader.read_levels(graph, name, arrays=("edge_weight", "cluster", "soft"))
    methods = [level.method for level in reader.hierarchies[name].levels]
    chain = _chain(first, levels, methods)
    failed = next((i for i, g in enumerate(chain) if i and not g.num_nodes), None)
    reason = None
    if failed is not None and chain[0].num_nodes:
        reason = next((f.reason for f in reader.failures(name) if f.graph == graph), None)
    if reason is not None:  # the levels after a failure are empty, but no nodes were dropped
        chain = chain[:failed]
    sizes = tuple(g.num_nodes for g in chain)
    small = next((i for i, size in enumerate(sizes) if size <= max_nodes), None)
    if small is None and len(sizes) > 1 and sizes[-1] <= _CROWD * max_nodes:
        small = len(sizes) - 1
    if small is None:
        chosen = _ball(chain[0], max_nodes * 3 // 4)
        edges, _ = _restrict(chain[0], chosen)
        pictures = _pictures(chain, 0, chosen, layout(edges, len(chosen)))
        return Scene(graph, name, sizes, pictures, ball=True, reason=reason)
    if small:
        places = layout(chain[small].edges, sizes[small])
    assert places is not None, "a graph that is small enough has places"
    pictures = _pictures(chain, small, np.arange(sizes[small]), places)
    return Scene(graph, name, sizes, pictures, reason=reason)


def _chain(first: _Graph, levels: list[Level], methods: list[str]) -> list[_Graph]:
    """Return the graphs of all levels, each with its assignment to the next level."""
    chain, before = [], first
    for level, method in zip(levels, methods, strict=True):
        given = level.assignment
        if given.soft is not None:
            owner, share = _owners(given.soft)
            owner[owner >= int(level.super_ptr[-1])] = -1
        else:
            owner = given.cluster if given.cluster is not None else np.full(before.num_nodes, -1)
            share = np.ones(before.num_nodes)
        chain.append(
            _Graph(
                before.method, before.num_nodes, before.num_edges, before.edges, before.strength,
                owner.astype(np.int64), np.nan_to_num(share.astype(np.float64)),
            )
        )  # fmt: skip
        edges, strength = simple_edges(level.edge_index, level.edge_weight)
        before = _Graph(method, int(level.super_ptr[-1]), level.edge_index.shape[1], edges, strength)
    return [*chain, before]


def _ball(graph: _Graph, size: int) -> Ints:
    """Return about ``size`` nodes around the node with most neighbours. Nearer nodes and smaller ids come first."""
    degree = np.bincount(graph.edges.reshape(-1), minlength=graph.num_nodes)
    inside = np.zeros(graph.num_nodes, bool)
    inside[int(degree.argmax())] = True
    while (count := int(inside.sum())) < size:
        touching = inside[graph.edges[0]] | inside[graph.edges[1]]
        reached = np.unique(graph.edges[:, touching])
        fresh = reached[~inside[reached]][: size - count]
        if not fresh.size:
            break
        inside[fresh] = True
    return np.flatnonzero(inside)


def _restrict(graph: _Graph, nodes: Ints) -> tuple[Ints, Floats]:
    """Return the edges between ``nodes`` as indices into ``nodes``, and their strengths."""
    where = np.full(graph.num_nodes, -1)
    where[nodes] = np.arange(len(nodes))
    ends = where[graph.edges]
    kept = (ends >= 0).all(0)
    return ends[:, kept], graph.strength[kept]


def _pictures(chain: list[_Graph], start: int, nodes: Ints, places: Floats) -> tuple[Picture, ...]:
    """Make the pictures from level ``start`` on. A supernode lies at the mean place of its members."""
    found: list[Picture] = []
    own = np.full(len(nodes), -1)
    members = np.ones(len(nodes), np.int64)
    extent = float(np.ptp(places, axis=0).max()) if len(places) else 0.0
    for level in range(start, len(chain)):
        if not len(nodes):
            break
        graph, last = chain[level], level == len(chain) - 1
        edges, strength = _restrict(graph, nodes)
        if last or graph.owner is None or graph.share is None:
            target, share = nodes, np.ones(len(nodes))
            heads, mean, size = nodes, places, members
            position = np.arange(len(nodes))
            joined = edges
        else:
            target, share = graph.owner[nodes], graph.share[nodes]
            heads, position = np.unique(target[target >= 0], return_inverse=True)
            mean, size, full = _merge_members(target, position, places, members, share, len(heads))
            mean = separate(mean, 0.028 * extent)
            joined = _restrict(chain[level + 1], heads)[0]
            position = full
        # If only the last level is drawn, colours have no meaning.
        alone = last and not found
        colours = (
            np.zeros(len(heads), np.int64) if alone else _choose_colours(joined, len(heads), position, own)
        )
        known = position >= 0
        colour = np.where(known, colours[position] if len(heads) else -1, -1)
        centres = np.where(known[:, None], mean[position] if len(heads) else places, places)
        found.append(
            Picture(
                level, graph.method, graph.num_nodes, graph.num_edges, nodes, places, members, edges, strength,
                target, colour, share, centres, last,
            )
        )  # fmt: skip
        nodes, places, members, own = heads, mean, size, colours
    return tuple(found)


def _merge_members(
    target: Ints, position: Ints, places: Floats, members: Ints, share: Floats, count: int
) -> tuple[Floats, Ints, Ints]:
    """Return the mean place and the members of each supernode, and the index of the supernode of each node or -1."""
    full = np.full(len(target), -1)
    full[target >= 0] = position.reshape(-1)
    kept = full >= 0
    weight = share[kept] * members[kept]
    total = np.maximum(np.bincount(full[kept], weight, minlength=count), 1e-12)
    mean = np.stack(
        [np.bincount(full[kept], weight * places[kept, axis], minlength=count) / total for axis in range(2)],
        axis=1,
    )
    size = np.bincount(full[kept], members[kept], minlength=count).astype(np.int64)
    return mean, size, full


def _choose_colours(edges: Ints, count: int, position: Ints, own: Ints) -> Ints:
    """Choose the colours of supernodes: the colour of a member if no neighbour has it, else the least used free colour."""
    wanted: list[list[int]] = [[] for _ in range(count)]
    for head, colour in zip(position.tolist(), own.tolist(), strict=True):
        if head >= 0 and colour >= 0:
            wanted[head].append(colour)
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for low, high in edges.T.tolist():
        neighbours[low].append(high)
        neighbours[high].append(low)
    colours, used = [-1] * count, [0] * COLOURS
    for head in range(count):
        taken = {colours[other] for other in neighbours[head]}
        free = [c for c in range(COLOURS) if c not in taken] or [*range(COLOURS)]
        liked = [c for c in wanted[head] if c in free]
        colours[head] = liked[0] if liked else min(free, key=lambda c: (used[c], c))
        used[colours[head]] += 1
    return np.array(colours, np.int64)
