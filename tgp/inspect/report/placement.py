"""Compute places of nodes so that distances in the drawing follow distances in the graph.

All arrays are dense, so this is meant for graphs of at most some hundred nodes. The same graph always gets the same places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree, shortest_path
from scipy.spatial import cKDTree

from tgp.inspect.report.level_graphs import simple_edges
from tgp.kernels.array_types import Array, BoolArray, FloatArray, LongArray

__all__ = ["backbone", "layout", "project", "separate"]

Points = FloatArray
_STEPS, _FEWER_STEPS, _MANY = 80, 30, 400
"""Number of iterations of stress majorisation; the second one for components with more nodes than the third."""

_PIVOTS = 50
"""Number of nodes to which the first places keep the distances."""

_DENSE_FROM = 60
"""Smallest number of nodes of a graph from which :func:`backbone` selects edges."""

_SPACIOUS = 0.22
"""Mean distance of nodes, in square roots of the number of nodes, from which on a graph fills a plane without help."""

_GAP = 1.4
"""Largest gap between components in edge lengths; it is smaller if nodes are closer together than an edge is long."""


def layout(edge_index: Array, num_nodes: int, strength: Array | None = None) -> Points:
    """Place the nodes of a graph by stress majorisation. Connected components are packed in rows.

    Args:
        edge_index: ``[2, E]`` edges; directions and self-loops are ignored.
        num_nodes: number of nodes; more than some hundred take long.
        strength: ``[E]`` positive weights, which select the edges of :func:`backbone`; all equal if ``None``.

    Returns:
        ``[N, 2]`` coordinates in which a typical edge has length 1.
    """
    ends, strength = simple_edges(edge_index, strength)
    ends = ends[:, backbone(ends, num_nodes, strength)]
    graph = coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(num_nodes, num_nodes)).tocsr()
    if not num_nodes:
        return np.zeros((0, 2))
    count, component = connected_components(graph, directed=False)
    boxes = []
    for number in range(count):
        nodes = np.flatnonzero(component == number)
        boxes.append((nodes, _rotate(_stress(_count_hops(graph[nodes][:, nodes])))))
    return _pack(boxes, num_nodes)


def project(pos: Points, edge_index: Array, others: Sequence[Points | None]) -> list[Points | None]:
    """Convert positions of nodes to places of a drawing.

    Positions in three dimensions are projected onto the plane of their largest extents. The first axis points to the right,
    the second one upwards.

    Args:
        pos: ``[N, 2]`` or ``[N, 3]`` positions that determine the projection. Numbers are at most 1e100.
        edge_index: ``[2, E]`` edges between them. A typical edge has length 1 in the drawing.
        others: positions to convert. Those with another number of dimensions become ``None``.

    Returns:
        ``[M, 2]`` places of each of ``others``.
    """
    centre = pos.mean(0) if len(pos) else np.zeros(pos.shape[1])
    size = max(float(np.abs(pos - centre).max(initial=0.0)), 1e-100)

    def scaled(found: Points) -> Points:
        # Positions of a damaged store may lie anywhere.
        return np.clip((found - centre) / size, -1e3, 1e3)

    unit = scaled(pos)
    axes = np.eye(pos.shape[1])
    if pos.shape[1] == 3:
        axes = np.linalg.eigh(unit.T @ unit)[1][:, ::-1]
        axes = axes * np.where(axes[np.abs(axes).argmax(0), np.arange(3)] < 0, -1.0, 1.0)
    axes = axes[:, :2] * (1.0, -1.0)  # drawings have their origin in the upper left corner
    lengths = np.linalg.norm((unit[edge_index[0]] - unit[edge_index[1]]) @ axes, axis=1)
    lengths = lengths[lengths > 1e-9]
    scale = 1.0 / float(np.median(lengths)) if len(lengths) else float(np.sqrt(len(pos)))
    return [
        None if found is None or found.shape[1] != pos.shape[1] else scale * scaled(found) @ axes
        for found in others
    ]


def _count_hops(graph: csr_array) -> Points:
    """Return the number of edges between all pairs of nodes; infinite if they are not connected."""
    # scipy before 1.12 accepts only 32-bit indices here.
    indices, indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)
    graph = csr_array((graph.data, indices, indptr), graph.shape)
    return np.asarray(shortest_path(graph, directed=False, unweighted=True), np.float64)


def backbone(edge_index: Array, num_nodes: int, strength: Array | None = None) -> BoolArray:
    """Select the edges that determine the places of nodes.

    In a graph in which most nodes are a few edges apart, all nodes would be placed in one ball. There the edges of a
    maximum spanning forest and the two strongest edges of each node are selected. An edge is strong if it has a large weight
    relative to the degrees of its ends and if its ends have common neighbours.

    Args:
        edge_index: ``[2, E]`` edges, each pair of neighbours once and without self-loops.
        num_nodes: number of nodes.
        strength: ``[E]`` positive weights; all equal if ``None``.

    Returns:
        ``[E]`` True for the selected edges; all edges of small, sparse or spacious graphs are selected.
    """
    ends = np.asarray(edge_index, np.int64).reshape(2, -1)
    everything = np.ones(ends.shape[1], bool)
    if num_nodes < _DENSE_FROM or ends.shape[1] < 1.3 * num_nodes:
        return everything
    weight = (
        np.ones(ends.shape[1]) if strength is None else np.maximum(np.asarray(strength, np.float64), 1e-6)
    )
    shape = (num_nodes, num_nodes)
    links = coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=shape).tocsr()
    links = ((links + links.T) > 0).astype(np.float64)
    hops = _count_hops(links)
    near = hops[np.isfinite(hops) & (hops > 0)]
    if near.mean() > _SPACIOUS * np.sqrt((links.sum(1) > 0).sum()):
        return everything
    degree = np.maximum(links.sum(1), 1.0)
    common = np.asarray((links @ links)[ends[0], ends[1]]).reshape(-1)
    score = weight * (1.0 + common) / np.sqrt(degree[ends[0]] * degree[ends[1]])
    # Equal scores are ordered by position, so that the selection is unique.
    rank = np.empty(len(score))
    rank[np.lexsort((np.arange(len(score)), -score))] = np.arange(1, len(score) + 1)
    tree = minimum_spanning_tree(coo_array((rank, (ends[0], ends[1])), shape=shape).tocsr())
    chosen = np.isin(rank, tree.data)
    # The two strongest edges of each node: sort both directions of all edges by node and rank.
    node, edge = ends.reshape(-1), np.tile(np.arange(len(score)), 2)
    order = np.lexsort((rank[edge], node))
    first = np.searchsorted(node[order], np.arange(num_nodes))
    position = np.arange(len(order)) - first[node[order]]
    chosen[edge[order[position < 2]]] = True
    return chosen


def _stress(hops: Points) -> Points:
    """Minimize the sum of ``(|x_i - x_j| - d_ij)^2 / d_ij^2`` (SMACOF)."""
    n = len(hops)
    if n <= 2:
        return np.stack([np.arange(n, dtype=np.float64), np.zeros(n)], axis=1)
    weight = 1.0 / np.maximum(hops, 1.0) ** 2
    np.fill_diagonal(weight, 0.0)
    laplacian = np.diag(weight.sum(1)) - weight
    # The pseudo-inverse of a Laplacian matrix of a connected graph.
    inverse = np.linalg.inv(laplacian + 1.0 / n) - 1.0 / n
    places = _initial_places(hops)
    for _ in range(_STEPS if n <= _MANY else _FEWER_STEPS):
        square = (places**2).sum(1)
        apart = np.sqrt(np.maximum(square[:, None] + square - 2.0 * places @ places.T, 0.0))
        pull = weight * hops / np.maximum(apart, 1e-6)
        places = inverse @ (places * pull.sum(1)[:, None] - pull @ places)
    return places


def _initial_places(hops: Points) -> Points:
    """Return the places of pivot scaling, with noise that separates nodes with equal distances to all others."""
    nearest, pivots = hops[0], [0]
    while len(pivots) < min(_PIVOTS, len(hops)):  # every pivot is as far as possible from the ones before
        pivots.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, hops[pivots[-1]])
    squared = hops[:, pivots] ** 2
    centred = -0.5 * (squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean())
    values, vectors = np.linalg.eigh(centred.T @ centred)
    places: Points = centred @ vectors[:, -2:] / np.maximum(values[-2:], 1e-12) ** 0.25
    places *= (len(hops) / len(pivots)) ** 0.25
    noise: Points = 0.3 * np.random.default_rng(0).standard_normal((len(hops), 2))
    return places + noise


def _rotate(places: Points) -> Points:
    """Rotate places so that the longest extent is horizontal. The first node off an axis fixes its sign."""
    places = places - places.mean(0)
    _, axes = np.linalg.eigh(places.T @ places)
    turned: Points = places @ axes[:, ::-1]
    for axis in range(2):
        off = turned[np.abs(turned[:, axis]) > 1e-6, axis]
        if off.size and off[0] > 0:
            turned[:, axis] *= -1
    return turned


def _pack(boxes: list[tuple[LongArray, Points]], num_nodes: int) -> Points:
    """Arrange components in rows, largest first, with about the proportions of a page."""
    boxes = sorted(boxes, key=lambda box: -len(box[0]))
    gap = _GAP * min(1.0, 2.0 * _spacing(boxes[0][1]))
    sizes = [np.ptp(places, axis=0) + gap for _, places in boxes]
    across = max(max(s[0] for s in sizes), float(np.sqrt(1.5 * sum(s[0] * s[1] for s in sizes))))
    found = np.zeros((num_nodes, 2))
    x = y = height = 0.0
    for (nodes, places), size in zip(boxes, sizes, strict=True):
        if x and x + size[0] > across + 1e-9:
            x, y, height = 0.0, y + height, 0.0
        found[nodes] = places - places.min(0) + (x, y)
        x, height = x + size[0], max(height, float(size[1]))
    return found


def _spacing(places: Points) -> float:
    """Return the median distance between a node and its nearest neighbour."""
    return float(np.median(cKDTree(places).query(places, k=2)[0][:, 1])) if len(places) > 2 else 1.0


def separate(places: Points, gap: float, steps: int = 24) -> Points:
    """Push points apart that are closer together than ``gap``.

    Args:
        places: ``[n, 2]`` places.
        gap: distance to reach.
        steps: largest number of iterations.

    Returns:
        ``[n, 2]`` new places.
    """
    places = places.copy()
    if len(places) < 2 or not gap > 0:
        return places
    turn = (
        np.arange(len(places)) * 2.399963
    )  # multiples of the golden angle, so that coinciding points move in different directions
    away = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    for _ in range(steps):
        low, high = np.sort(cKDTree(places).query_pairs(gap, output_type="ndarray"), axis=1).T
        if not len(low):
            break
        order = np.lexsort((high, low))  # a fixed order of the sums makes the result reproducible
        low, high = low[order], high[order]
        delta = places[low] - places[high]
        apart = np.linalg.norm(delta, axis=1)
        delta = np.where(apart[:, None] < 1e-9, away[low] - away[high], delta)
        length = np.maximum(np.linalg.norm(delta, axis=1), 1e-9)
        push = (0.3 * (gap - apart) / length)[:, None] * delta
        np.add.at(places, low, push)
        np.add.at(places, high, -push)
    return places
