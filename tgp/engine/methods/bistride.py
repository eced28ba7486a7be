r"""Bi-stride: keep every second front of a breadth-first search and link nodes that are two hops apart.

From `"Efficient Learning of Mesh-Based Physical Simulation with Bi-Stride Multi-Scale Graph Neural Network"
<https://arxiv.org/abs/2210.02573>`_ (ICML 2023). A breadth-first search from a seed :math:`s` divides a connected component by the
parity of the distance,

.. math::
    p_i = d(s, i) \; \mathrm{mod} \; 2 .

The nodes of the parity that has fewer nodes are kept. Two kept nodes are linked if they have a common neighbour,
:math:`(\mathbf{A}^2)_{ij} > 0`, so that a connected component stays connected. The seed is an end of the component: the node that is farthest
from its first node.

Good for:
    Levels of meshes, grids and other graphs of bounded degree, as in mesh-based simulation. Half of the nodes or fewer remain, evenly
    spread, and no geometry is needed.

Avoid when:
    All nodes should belong to a supernode: nodes are dropped. The weights matter: the method does not use them, and the coarse graph
    has none. The graph has hubs: links between two hops make it denser.

Complexity:
    ``O(N + E)`` time and memory on graphs of bounded degree. With hubs, time and coarse edges are at most ``2 span`` times as many as
    edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tgp.engine.level_method import GraphSizes, LevelBound, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.threads import run_over_ranges
from tgp.errors import InputError, ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import IndexArray, PtrArray
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
        value = self.span
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ParameterError(
                f"span is out of range: expected a whole number >= 1, got {value!r}", field="span"
            )


def assign(block: BlockCSR, params: BistrideParams, key: RandomKey) -> Assignment:
    """Keep the nodes of every second front of each connected component and drop the others.

    The seed of a component is found by a search from its node of the smallest index: the node of the smallest index at the largest
    distance. If both parities have the same number of nodes, the one of the seed is kept. An isolated node is kept. Edges count in
    both directions; weights and self loops have no effect.

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
    """Return the graphs of the kept nodes with links between those that have a common neighbour, without weights.

    Args:
        block: the graphs.
        assignment: a hard assignment with one node for each supernode, in ascending order.
        params: parameters of the links.

    Raises:
        InputError: if the assignment does not keep single nodes in ascending order.
    """
    from tgp.kernels import bistride as kernels
    from tgp.kernels.contract import merge_columns

    graphs, span, direct = _with_both_directions(block), int(params.span), params.keep_edges
    indptr, indices = graphs.indptr, graphs.indices
    cluster, nodes = _kept_nodes(assignment, graphs.num_nodes)
    near, count = np.empty(len(indices), np.int32), np.empty(graphs.num_nodes, np.int32)
    links = np.empty(len(nodes), np.int64)

    def list_neighbours(first: int, last: int) -> None:
        kernels.list_kept_neighbours(indptr, indices, cluster, first, last, near, count)

    def count_links(first: int, last: int) -> None:
        kernels.count_links(indptr, indices, nodes, count, span, direct, first, last, links)

    run_over_ranges(list_neighbours, indptr)
    run_over_ranges(count_links, np.arange(len(nodes) + 1))
    link_ptr, pieces = offsets(links), dict[int, tuple[PtrArray, IndexArray]]()

    def collect(first: int, last: int) -> None:
        for begin, end in _divide(link_ptr, first, last, max(_CHUNK, len(nodes))):
            start, stop = np.empty(end - begin, np.int64), np.empty(end - begin, np.int64)
            cols = np.empty(int(link_ptr[end] - link_ptr[begin]), np.int32)
            kernels.collect_links(
                indptr, indices, nodes, near, count, span, direct, begin, end, start, stop, cols
            )
            row_ptr, merged = merge_columns(start, stop, cols, len(nodes))
            pieces[begin] = row_ptr, merged.copy()  # releases the rest of the buffer

    run_over_ranges(collect, link_ptr + np.arange(len(link_ptr)))
    found = [pieces[begin] for begin in sorted(pieces)]
    counts = [np.diff(row_ptr) for row_ptr, _ in found]
    rows = [merged for _, merged in found]
    return BlockCSR(
        offsets(np.concatenate([*counts, np.empty(0, np.int64)])),
        np.concatenate([*rows, np.empty(0, np.int32)]),
        None,
        assignment.super_ptr,
    )


def _with_both_directions(block: BlockCSR) -> BlockCSR:
    """Return the unweighted block with the reverse of every edge."""
    from tgp.kernels import csr, mis

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
        40.0 * (nodes + edges) + 4.0 * links,
        sizes.nodes,
        np.minimum(links, 2.0**62).astype(np.int64),
    )


METHOD = LevelMethod(
    "bistride", BistrideParams, assign, connect, estimate=LevelEstimate(0.5, 1.0), bound=bound
)
