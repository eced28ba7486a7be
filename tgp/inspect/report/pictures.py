"""Place and colour the nodes of a graph and of its levels. Used by the report, the viewer and the plots."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from tgp.inspect.report.level_graphs import LevelGraph, largest_owners, restrict
from tgp.inspect.report.palette import COLOURS, LOOKS, choose_looks
from tgp.inspect.report.placement import backbone, layout, project, separate
from tgp.kernels.array_types import FloatArray, LongArray

__all__ = [
    "Picture",
    "chain_pictures",
    "level_pictures",
    "member_radius",
    "node_radius",
    "place_at_positions",
    "places_of",
    "pooled_pictures",
]

_LINES = (40.0, 120.0, 400.0)
"""Total lengths of all edges, in widths of the drawing, from which on edges are drawn fainter."""


@dataclass(frozen=True, eq=False)
class Picture:
    """Placed nodes and edges of one level of one graph.

    Args:
        level: number of the level; 0 is the input graph.
        method: level method that made it; ``"input"`` for the input graph.
        num_nodes: number of nodes of the whole graph at this level.
        num_edges: number of stored edges of the whole graph at this level.
        num_targets: number of nodes of the whole graph at the next level; 0 at the last level.
        nodes: ``[n]`` ids of the drawn nodes.
        places: ``[n, 2]`` coordinates.
        members: ``[n]`` number of input nodes that each node stands for.
        unit: number of input nodes that a node of the smallest size stands for.
        edges: ``[2, e]`` pairs of indices into ``nodes``, each pair once.
        strength: ``[e]`` weights between 0 and 1.
        core: ``[e]`` True for the edges that determine the places; the other edges are drawn very faint.
        target: ``[n]`` supernode of each node at the next level, -1 if the node is dropped; at the last level the node
            itself.
        look: ``[n]`` look of the target, -1 if the node is dropped; see :func:`tgp.inspect.report.palette.choose_looks`.
        share: ``[n]`` share of the node that belongs to its target; 1 unless the assignment is soft.
        centres: ``[n, 2]`` place of the target in the next picture; the place of the node if there is none.
        marked: index of the node that contains the middle of the drawn neighbourhood; -1 if there is none.
        last: True for the last level.
    """

    level: int
    method: str
    num_nodes: int
    num_edges: int
    num_targets: int
    nodes: LongArray
    places: FloatArray
    members: LongArray
    unit: float
    edges: LongArray
    strength: FloatArray
    core: npt.NDArray[np.bool_]
    target: LongArray
    look: LongArray
    share: FloatArray
    centres: FloatArray
    marked: int
    last: bool

    @property
    def colour(self) -> LongArray:
        """``[n]`` index of the colour of each node, -1 if the node is dropped."""
        return np.where(self.look >= 0, self.look % COLOURS, -1)

    @property
    def shape(self) -> LongArray:
        """``[n]`` index of the shape of each node."""
        return np.where(self.look >= 0, self.look // COLOURS, 0)

    @property
    def faint(self) -> int:
        """Index from 0 to 3 of the faintness of edges. Edges that fill the drawing are faint, so that nodes stay visible."""
        low, high = self.edges[:, self.core]
        total = float(np.linalg.norm(self.places[low] - self.places[high], axis=1).sum())
        extent = float(np.ptp(self.places, axis=0).max()) if len(self.places) else 0.0
        return int(np.searchsorted(_LINES, total / max(extent, 1e-9)))

    @property
    def tied(self) -> npt.NDArray[np.bool_]:
        """``[n]`` True for nodes that share their supernode with others. Bands connect these nodes."""
        _, where, count = np.unique(self.target, return_inverse=True, return_counts=True)
        return (count[where.reshape(-1)] > 1) & (self.target >= 0) & (not self.last)


def place_at_positions(chain: list[LevelGraph]) -> list[LevelGraph]:
    """Replace positions by places of a drawing. Levels have positions only if the input graph has."""
    first = chain[0]
    if first.pos is None:
        return [replace(graph, pos=None) for graph in chain]
    found = project(first.pos, first.ends, [graph.pos for graph in chain])
    return [replace(graph, pos=places) for graph, places in zip(chain, found, strict=True)]


def places_of(graph: LevelGraph, nodes: LongArray) -> FloatArray:
    """Return the places of some nodes: their positions, or those of a layout if they have none."""
    return layout(*_sides(graph, nodes)) if graph.pos is None else graph.pos[nodes]


def _sides(graph: LevelGraph, nodes: LongArray) -> tuple[LongArray, int, FloatArray]:
    """Return the arguments of :func:`tgp.inspect.report.placement.layout` for some nodes of a graph."""
    edges, strength = restrict(graph, nodes)
    return edges, len(nodes), strength


def pooled_pictures(
    edge_index: npt.NDArray[Any],
    s: npt.NDArray[Any],
    coarse: npt.NDArray[Any],
    places: FloatArray,
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
    owner, share = largest_owners(s)
    first = LevelGraph("input", np.ones(len(s), np.int64), np.asarray(edge_index), None, owner, share)
    ends = np.stack(np.nonzero(coarse))
    members = np.bincount(owner[owner >= 0], minlength=np.shape(s)[1])
    last = LevelGraph(method, members, ends, np.asarray(coarse)[ends[0], ends[1]])
    return level_pictures([first, last], 0, np.arange(len(s)), places)


def chain_pictures(chain: list[LevelGraph]) -> tuple[Picture, ...]:
    """Place a graph and its levels, which need not be in a store.

    Args:
        chain: the input graph and its levels. All levels but the last have owners.
    """
    nodes = np.arange(chain[0].num_nodes)
    return level_pictures(chain, 0, nodes, layout(*_sides(chain[0], nodes)))


def node_radius(places: FloatArray, scale: float, thin: float, wide: float) -> float:
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


def member_radius(picture: Picture, base: float) -> FloatArray:
    """Return ``[n]`` radii of the nodes of a picture. They grow with the number of nodes that a node stands for."""
    radii: FloatArray = base * np.clip((picture.members / picture.unit) ** 0.32, 1.0, 2.6)
    return radii


def level_pictures(
    chain: list[LevelGraph], start: int, nodes: LongArray, places: FloatArray, centre: int = -1
) -> tuple[Picture, ...]:
    """Return the pictures of a graph from level ``start`` on. A supernode lies at its own position or at the mean place of its members.

    Args:
        chain: graphs of all levels.
        start: first level to draw.
        nodes: nodes of that level to draw.
        places: their places.
        centre: input node whose supernodes are marked; -1 for none.
    """
    found: list[Picture] = []
    own = np.full(len(nodes), -1)
    extent = float(np.ptp(places, axis=0).max()) if len(places) else 0.0
    members = chain[start].members[nodes]
    unit = max(float(np.median(members)), 1.0) if len(members) else 1.0
    for level in range(start, len(chain)):
        if not len(nodes):
            break
        graph, last = chain[level], level == len(chain) - 1
        edges, strength = restrict(graph, nodes)
        if last or graph.owner is None or graph.share is None:
            target, share = nodes, np.ones(len(nodes))
            heads, mean, position, joined = nodes, places, np.arange(len(nodes)), edges
        else:
            target, share = graph.owner[nodes], graph.share[nodes]
            heads, position = _positions(target)
            above = chain[level + 1].pos
            if above is None:
                mean = _mean_places(position, places, share * graph.members[nodes], len(heads))
                mean = separate(mean, 0.028 * extent)
            else:
                mean = above[heads]
            joined = restrict(chain[level + 1], heads)[0]
        # The colours of many nodes that join nothing would have no meaning.
        alone = last and not found and len(heads) > LOOKS
        looks = np.zeros(len(heads), np.int64) if alone else choose_looks(joined, len(heads), position, own)
        known = position >= 0
        found.append(
            Picture(
                level, graph.method, graph.num_nodes, graph.num_edges,
                0 if last else chain[level + 1].num_nodes, nodes, places, graph.members[nodes], unit,
                edges, strength, backbone(edges, len(nodes), strength), target,
                np.where(known, looks[position] if len(heads) else -1, -1), share,
                np.where(known[:, None], mean[position] if len(heads) else places, places),
                _find(nodes, _supernode_at(chain, level, centre)), last,
            )
        )  # fmt: skip
        nodes, places, own = heads, mean, looks
    return tuple(found)


def _supernode_at(chain: list[LevelGraph], level: int, node: int) -> int:
    """Return the node of a level that contains an input node, or -1."""
    for graph in chain[:level]:
        if node < 0 or graph.owner is None:
            return -1
        node = int(graph.owner[node])
    return node


def _find(nodes: LongArray, wanted: int) -> int:
    where = np.flatnonzero(nodes == wanted) if wanted >= 0 else nodes[:0]
    return int(where[0]) if len(where) else -1


def _positions(target: LongArray) -> tuple[LongArray, LongArray]:
    """Return the supernodes that occur, and for each node the index of its supernode among them or -1."""
    kept = target >= 0
    position = np.full(len(target), -1)
    heads, inverse = np.unique(target[kept], return_inverse=True)
    position[kept] = inverse.reshape(-1)
    return heads, position


def _mean_places(position: LongArray, places: FloatArray, weight: FloatArray, count: int) -> FloatArray:
    """Return the weighted mean place of the members of each supernode."""
    kept = position >= 0
    weight = weight[kept]
    total = np.maximum(np.bincount(position[kept], weight, minlength=count), 1e-12)
    sums = [np.bincount(position[kept], weight * places[kept, axis], minlength=count) for axis in range(2)]
    mean: FloatArray = np.stack(sums, axis=1) / total[:, None]
    return mean
