r"""Bi-stride: keep every second front of a breadth-first search and link nodes that are two hops apart.

From `"Efficient Learning of Mesh-Based Physical Simulation with Bi-Stride Multi-Scale Graph Neural Network"
<https://arxiv.org/abs/2210.02573>`_ (ICML 2023). A breadth-first search from a seed :math:`s` divides a connected component by the
parity of the distance,

.. math::
    p_i = d(s, i) \; \mathrm{mod} \; 2 .

The nodes of the parity that has fewer nodes are kept. Two kept nodes are linked if they have a common neighbour, so that a connected
component stays connected. The links of a weighted graph have the weights :math:`\mathbf{A} \mathbf{D}^{-1} \mathbf{A}`, those of an unweighted
graph have none. The seed is an end of the component: the node that is farthest from its first node.

Good for:
    Levels of meshes, grids and other graphs of bounded degree, as in mesh-based simulation. Half of the nodes or fewer remain, evenly
    spread, and no geometry is needed.

Avoid when:
    All nodes should belong to a supernode: nodes are dropped. The graph has hubs: links over two hops make it denser. The selection should
    follow the weights: only the coarse weights depend on them.

Complexity:
    ``O(N + E)`` time and memory on graphs of bounded degree. With hubs, time and coarse edges are at most ``2 span`` times as many as
    edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tgp.engine.level_method import GraphSizes, LevelBound, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.parameter_checks import check_whole
from tgp.engine.threads import run_over_ranges
from tgp.engine.undirected import make_undirected
from tgp.errors import InputError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = ["METHOD", "BistrideParams"]

_CHUNK = 1 << 20
"""Number of links that are collected before repetitions are removed."""


@dataclass(frozen=True)
class BistrideParams:
    """Parameters of the links.

    Args:
        keep_edges: link kept nodes that are neighbours, too, even if they have no common neighbour.
        span: two kept neighbours of a node are linked if they are at most this number of positions apart, in the order of their
            indices closed to a ring. All pairs are linked, as published, if a node has at most ``2 * span + 1`` kept neighbours.
            It prevents that a hub links all pairs of its neighbours.
    """

    keep_edges: bool = False
    span: int = 32

    def __post_init__(self) -> None:
        check_whole("span", self.span)


def assign(block: BlockCSR, params: BistrideParams, key: RandomKey) -> Assignment:
    """Keep the nodes of every second front of each connected component and drop the others.

    The seed of a component is found by a search from its node of the smallest index: the node of the smallest index at the largest
    distance. If both parities have the same number of nodes, the one of the seed is kept. An isolated node is kept. Edges count in
    both directions; weights and self loops have no effect here.

    Args:
        block: the graphs.
        params: parameters of the method; not used here.
        key: key of random numbers; not used.

    Returns:
        A hard assignment. Kept nodes are numbered in ascending order.
    """
    from tgp.kernels import bistride as kernels

    graphs = _with_both_directions(block)
    size, node_ptr = graphs.num_nodes, graphs.node_ptr
    mark, kept = np.zeros(size, np.int8), np.empty(size, np.int8)

    def run(first: int, last: int) -> None:
        most = int(np.diff(node_ptr[first : last + 1]).max(initial=0))
        queue = np.empty(most, np.int32)
        kernels.keep_fronts(graphs.indptr, graphs.indices, node_ptr, first, last, mark, queue, kept)

    run_over_ranges(run, node_ptr + graphs.edge_ptr)
    before = offsets(kept)
    return Assignment(
        "hard",
        before[node_ptr],
        np.where(kept, before[:-1], -1).astype(np.int32),
        representative=np.flatnonzero(kept).astype(np.int32),
    )


def connect(block: BlockCSR, assignment: Assignment, params: BistrideParams) -> BlockCSR:
    """Return the graphs of the kept nodes with links between those that have a common neighbour.

    The links of an unweighted graph have no weights. Otherwise the weight of a link is the sum of ``a b / d`` over the common neighbours, where
    ``a`` and ``b`` are the weights of the two edges, and ``d`` the sum of the weights of the neighbour. The weight between two nodes of
    the graph is half of the sum of all stored ones, and negative ones count as 0.

    Args:
        block: the graphs.
        assignment: a hard assignment with one node for each supernode, in ascending order.
        params: parameters of the links.

    Raises:
        InputError: if the assignment does not keep single nodes in ascending order.
    """
    graphs, links = _with_both_directions(block), _Links(int(params.span), params.keep_edges)
    links.prepare(graphs, assignment)
    link_ptr, pieces = links.count(), dict[int, tuple[PtrArray, IndexArray, FloatArray]]()

    def collect(first: int, last: int) -> None:
        for begin, end in _divide(link_ptr, first, last, max(_CHUNK, links.num_nodes)):
            pieces[begin] = links.collect(begin, end, int(link_ptr[end] - link_ptr[begin]))

    run_over_ranges(collect, link_ptr + np.arange(len(link_ptr)))
    found = [pieces[begin] for begin in sorted(pieces)]
    counts = [np.diff(row_ptr) for row_ptr, _, _ in found]
    indptr = offsets(np.concatenate([*counts, np.empty(0, np.int64)]))
    indices = np.concatenate([*(cols for _, cols, _ in found), np.empty(0, np.int32)])
    weight = np.concatenate([*(values for _, _, values in found), np.empty(0)])
    return BlockCSR(indptr, indices, None if graphs.weight is None else weight, assignment.super_ptr)


class _Links:
    """Links of kept nodes over a common neighbour.

    Args:
        span: see :class:`BistrideParams`.
        direct: link kept nodes that are neighbours, too.
    """

    def __init__(self, span: int, direct: bool) -> None:
        self.span, self.direct = span, direct

    def prepare(self, graphs: BlockCSR, assignment: Assignment) -> None:
        """List the kept neighbours of each node of undirected graphs."""
        from tgp.kernels import bistride as kernels
        from tgp.kernels import local_matching

        self.arrays = indptr, indices, weight, weighted = graphs.arrays()
        cluster, self.nodes = _kept_nodes(assignment, graphs.num_nodes)
        self.num_nodes = len(self.nodes)
        self.near, self.near_weight = np.empty(len(indices), np.int32), np.empty(len(weight))
        self.size = np.empty(graphs.num_nodes, np.int32)
        self.degree = np.empty(graphs.num_nodes if weighted else 0)

        def run(first: int, last: int) -> None:
            kernels.list_kept_neighbours(
                *self.arrays, cluster, first, last, self.near, self.near_weight, self.size
            )
            if weighted:
                local_matching.weighted_degree(*self.arrays, first, last, self.degree)

        run_over_ranges(run, indptr)

    def count(self) -> PtrArray:
        """Return the offsets of the rows of links, with room for repetitions."""
        from tgp.kernels import bistride as kernels

        links = np.empty(self.num_nodes, np.int64)
        rows = (*self.arrays[:2], self.nodes, self.size, self.span, self.direct)
        run_over_ranges(
            lambda first, last: kernels.count_links(*rows, first, last, links), np.arange(len(links) + 1)
        )
        return offsets(links)

    def collect(self, first: int, last: int, room: int) -> tuple[PtrArray, IndexArray, FloatArray]:
        """Return row pointers, columns and weights of the links of supernodes ``first .. last - 1``."""
        from tgp.kernels import bistride as kernels
        from tgp.kernels.contract import merge_columns

        weighted = self.arrays[3]
        start, stop = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
        cols, values = np.empty(room, np.int32), np.empty(room if weighted else 0)
        kernels.collect_links(
            *self.arrays, self.nodes, self.near, self.near_weight, self.size, self.degree, self.span, self.direct,
            first, last, start, stop, cols, values,
        )  # fmt: skip
        row_ptr, cols, values = merge_columns(start, stop, cols, values, weighted, self.num_nodes)
        return row_ptr, cols.copy(), values.copy()  # copies release the rest of the buffers


def _with_both_directions(block: BlockCSR) -> BlockCSR:
    """Return the block with the reverse of every edge, with the weights of :func:`make_undirected`."""
    from tgp.kernels import csr, mis

    if block.weight is not None:
        return make_undirected(block)
    if not (block.symmetry == mis.ASYMMETRIC).any():
        return block
    indptr, indices, _ = csr.symmetrise(block.indptr, block.indices, np.empty(0), False, csr.MAX)
    return BlockCSR(indptr, indices, None, block.node_ptr)


def _kept_nodes(assignment: Assignment, num_nodes: int) -> tuple[IndexArray, IndexArray]:
    """Return the supernode of each node and the node of each supernode."""
    cluster = assignment.cluster
    if cluster is None or len(cluster) != num_nodes:
        raise InputError(
            f"assignment belongs to another block: expected {num_nodes} nodes in a hard assignment, "
            f"got {0 if cluster is None else len(cluster)}",
            field="assignment",
        )
    nodes = np.flatnonzero(cluster >= 0).astype(np.int32)
    if len(nodes) != assignment.num_supernodes or (cluster[nodes] != np.arange(len(nodes))).any():
        raise InputError(
            f"assignment does not keep single nodes: expected one node for each of {assignment.num_supernodes} supernodes, in "
            f"ascending order, got {len(nodes)} nodes. Use an assignment of bistride or ndp",
            field="assignment",
        )
    return cluster, nodes


def _divide(link_ptr: PtrArray, first: int, last: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with about ``size`` links."""
    while first < last:
        end = int(np.searchsorted(link_ptr, link_ptr[first] + size))
        end = min(max(end, first + 1), last)
        yield first, end
        first = end


def bound(sizes: GraphSizes, params: BistrideParams) -> LevelBound:
    """Bound time, memory and links. A node with ``d`` neighbours links each of them with at most ``min(d, 2 span)`` others."""
    nodes, edges = sizes.nodes.astype(np.float64), sizes.edges.astype(np.float64)
    # A directed edge is used in both directions.
    each = np.minimum(2.0 * int(params.span), 2.0 * sizes.degree + nodes) + params.keep_edges
    links = np.minimum(2.0 * edges * each, nodes * nodes)
    return LevelBound(
        1e-9 * (100.0 * (nodes + edges) + 20.0 * links),
        60.0 * (nodes + edges) + 12.0 * links,
        sizes.nodes,
        np.minimum(links, 2.0**62).astype(np.int64),
    )


METHOD = LevelMethod(
    "bistride", BistrideParams, assign, connect, estimate=LevelEstimate(0.5, 1.0), bound=bound
)
