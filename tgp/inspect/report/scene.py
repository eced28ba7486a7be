"""One graph through its levels, ready to draw: places, colours, sizes. Shared by the report and the plots."""

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
"""Largest graph that is drawn; larger ones are drawn from the first level that is small enough."""

_CROWD = 3
"""The last level may be so many times larger, if no level is small enough."""

_PLAIN = 1 / 3
"""Strength of edges without weights, and of edges whose weights are all the same."""

_LINES = (40.0, 120.0, 400.0)
"""Edges become fainter where all of them together are so many times longer than the drawing is wide."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Picture:
    """One level of one graph.

    Args:
        level: number of the level; 0 is the input graph.
        method: the level method that made it, ``"input"`` for the input graph.
        num_nodes: nodes of the whole graph at this level.
        num_edges: edges of the whole graph at this level, as stored.
        nodes: ``[n]`` ids of the nodes drawn.
        places: ``[n, 2]``.
        members: ``[n]`` nodes of the first drawn level that each stands for.
        edges: ``[2, e]`` pairs of positions in ``nodes``, each once.
        strength: ``[e]`` weights between 0 and 1.
        target: ``[n]`` supernode that each node joins next, -1 if it is dropped; itself at the last level.
        colour: ``[n]`` number of the target's colour, -1 if dropped.
        share: ``[n]`` how much of the node its target takes, 1 unless the assignment is soft.
        centres: places of the targets in the next picture, by node; the node itself if there is none.
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
        """How faint edges must be so that nodes stand out, from 0 to 3: by the length of all lines in the drawing."""
        low, high = self.edges
        total = float(np.linalg.norm(self.places[low] - self.places[high], axis=1).sum())
        extent = float(np.ptp(self.places, axis=0).max()) if len(self.places) else 0.0
        return int(np.searchsorted(_LINES, total / max(extent, 1e-9)))

    @property
    def tied(self) -> npt.NDArray[np.bool_]:
        """``[n]`` nodes that share their next supernode with others: those a band should tie together."""
        _, where, count = np.unique(self.target, return_inverse=True, return_counts=True)
        return (count[where.reshape(-1)] > 1) & (self.target >= 0) & (not self.last)


@dataclass(frozen=True, eq=False)
class Scene:
    """One graph in one hierarchy.

    Args:
        graph: its id.
        hierarchy: name.
        sizes: nodes at every level, the input first.
        pictures: levels that are small enough to draw, finest first.
        ball: only the surroundings of one node are drawn, because every level is too large.
        reason: why the graph could not be coarsened, if so.
    """

    graph: int
    hierarchy: str
    sizes: tuple[int, ...]
    pictures: tuple[Picture, ...]
    ball: bool = False
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class _Graph:
    """A graph at one level while a scene is made."""

    method: str
    num_nodes: int
    num_edges: int
    edges: Ints
    strength: Floats
    owner: Ints | None = None
    share: Floats | None = None
    """Supernode of each node at the next level and how much of it; ``None`` at the last level."""


def simple_edges(edge_index: npt.NDArray[Any], weight: npt.NDArray[Any] | None) -> tuple[Ints, Floats]:
    """Each pair of neighbours once, without loops, with weights scaled to at most 1; a third if none differ."""
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
    """The graph in one or in all hierarchies. Input graphs that are drawn have the same places in each."""
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
    """A graph and its pooled graph.

    Args:
        edge_index: ``[2, E]`` edges.
        s: ``[N, K]`` assignment; rows of zeros are dropped nodes.
        coarse: ``[K, K]`` weights of the pooled graph.
        places: ``[N, 2]``, see :func:`tgp.inspect.report.placement.layout`.
        method: name of the pooler.
    """
    owner, share = _owners(s)
    edges, strength = simple_edges(edge_index, None)
    first = _Graph("input", len(s), np.shape(edge_index)[1], edges, strength, owner, share)
    ends = np.stack(np.nonzero(coarse))
    edges, strength = simple_edges(ends, np.asarray(coarse)[ends[0], ends[1]])
    last = _Graph(method, np.shape(s)[1], ends.shape[1], edges, strength)
    return _pictures([first, last], 0, np.arange(len(s)), places)


def node_radius(places: Floats, scale: float, thin: float, wide: float) -> float:
    """Radius of a node on the page, between ``thin`` and ``wide``, if an edge of length 1 is ``scale`` long there."""
    radius = min(max(0.3 * scale, thin), wide)
    if len(places) > 2:
        # Where nodes are crowded, smaller ones: three of four do not touch their nearest.
        nearest = cKDTree(places).query(places, k=2)[0][:, 1]
        radius = min(radius, max(0.55 * float(np.quantile(nearest, 0.25)) * scale, thin))
    return radius


def member_radius(picture: Picture, base: float) -> Floats:
    """Radii of the nodes of a picture: larger the more nodes they stand for."""
    return np.minimum(base * picture.members**0.32, 2.6 * base)


def _owners(s: npt.NDArray[Any]) -> tuple[Ints, Floats]:
    """The supernode that takes most of each node and how much of it; -1 for rows of zeros."""
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
    if reason is not None:  # what follows is empty because it failed, not because nodes were dropped
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
    """The graphs of all levels, each with its assignment to the next."""
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
    """About ``size`` nodes around the node of most neighbours, nearest first, equals by number."""
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
    """Edges between ``nodes``, as positions in it."""
    where = np.full(graph.num_nodes, -1)
    where[nodes] = np.arange(len(nodes))
    ends = where[graph.edges]
    kept = (ends >= 0).all(0)
    return ends[:, kept], graph.strength[kept]


def _pictures(chain: list[_Graph], start: int, nodes: Ints, places: Floats) -> tuple[Picture, ...]:
    """Draw from level ``start`` on; supernodes lie over the mean place of their members."""
    found = []
    own = np.full(len(nodes), -1)
    members = np.ones(len(nodes), np.int64)
    extent = float(np.ptp(places, axis=0).max()) if len(places) else 0.0
    for step in range(start, len(chain)):
        if not len(nodes):
            break
        graph, last = chain[step], step == len(chain) - 1
        edges, strength = _restrict(graph, nodes)
        if last or graph.owner is None or graph.share is None:
            target, share = nodes, np.ones(len(nodes))
            heads, mean, size = nodes, places, members
            position = np.arange(len(nodes))
            joined = edges
        else:
            target, share = graph.owner[nodes], graph.share[nodes]
            heads, position = np.unique(target[target >= 0], return_inverse=True)
            mean, size, full = _gather(target, position, places, members, share, len(heads))
            mean = separate(mean, 0.028 * extent)
            joined = _restrict(chain[step + 1], heads)[0]
            position = full
        # Alone, a last level has nothing that its colours could refer to.
        alone = last and not found
        colours = np.zeros(len(heads), np.int64) if alone else _paint(joined, len(heads), position, own)
        known = position >= 0
        colour = np.where(known, colours[position] if len(heads) else -1, -1)
        centres = np.where(known[:, None], mean[position] if len(heads) else places, places)
        found.append(
            Picture(
                step, graph.method, graph.num_nodes, graph.num_edges, nodes, places, members, edges, strength,
                target, colour, share, centres, last,
            )
        )  # fmt: skip
        nodes, places, members, own = heads, mean, size, colours
    return tuple(found)


def _gather(
    target: Ints, position: Ints, places: Floats, members: Ints, share: Floats, count: int
) -> tuple[Floats, Ints, Ints]:
    """Mean place and total of members of each supernode, and the position of each node's supernode or -1."""
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


def _paint(edges: Ints, count: int, position: Ints, own: Ints) -> Ints:
    """Colours of supernodes: one of a member's if neighbours leave it free, else the one used least."""
    wanted: list[list[int]] = [[] for _ in range(count)]
    for head, colour in zip(position.tolist(), own.tolist(), strict=True):
        if head >= 0 and colour >= 0:
            wanted[head].append(colour)
    beside: list[list[int]] = [[] for _ in range(count)]
    for low, high in edges.T.tolist():
        beside[low].append(high)
        beside[high].append(low)
    colours, used = [-1] * count, [0] * COLOURS
    for head in range(count):
        taken = {colours[other] for other in beside[head]}
        free = [c for c in range(COLOURS) if c not in taken] or [*range(COLOURS)]
        liked = [c for c in wanted[head] if c in free]
        colours[head] = liked[0] if liked else min(free, key=lambda c: (used[c], c))
        used[colours[head]] += 1
    return np.array(colours, np.int64)
