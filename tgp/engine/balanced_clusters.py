"""Steps after a partition: number the clusters, move nodes between them, and balance those of other programs."""

from __future__ import annotations

import numpy as np

from tgp.engine.bisection import SizeLimits
from tgp.engine.threads import run_over_ranges
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import IndexArray, PtrArray

__all__ = ["balance_clusters", "number_clusters", "refine_clusters"]

_PASSES = 8
"""Largest number of visits of each node when nodes move between clusters."""


def number_clusters(label: IndexArray, node_ptr: PtrArray) -> Assignment:
    """Return an assignment whose supernodes are numbered by their first node.

    Args:
        label: ``[N]`` label of each node, in ``[0, N)``. Graphs have no label in common.
        node_ptr: ``[B + 1]`` offsets of the graphs.
    """
    from tgp.kernels import communities as kernels

    cluster, super_ptr = np.empty(len(label), np.int32), np.empty(len(node_ptr), np.int64)
    kernels.number_labels(label, node_ptr, np.full(len(label), -1, np.int32), cluster, super_ptr)
    return Assignment("hard", super_ptr, cluster)


def refine_clusters(graphs: BlockCSR, found: Assignment, limits: SizeLimits) -> Assignment:
    """Move single nodes between clusters while the cut becomes smaller.

    Args:
        graphs: graphs of :func:`~tgp.engine.bisection.prepare_graphs`.
        found: clusters within the limits.
        limits: limits of the numbers of nodes.

    Returns:
        An assignment with the same number of supernodes, numbered by their first node.
    """
    from tgp.kernels import partition as kernels

    assert found.cluster is not None and graphs.weight is not None
    cluster = found.cluster.copy()
    size = np.bincount(cluster, minlength=found.num_supernodes).astype(np.int64)
    link, seen = np.zeros(found.num_supernodes), np.empty(graphs.num_nodes, np.int32)
    arrays = graphs.indptr, graphs.indices, graphs.weight, graphs.node_ptr

    def move(first: int, last: int) -> None:
        kernels.move_between(*arrays, first, last, *limits, _PASSES, link, seen, cluster, size)

    run_over_ranges(move, graphs.node_ptr + graphs.edge_ptr)
    return number_clusters(cluster, graphs.node_ptr)


def balance_clusters(graphs: BlockCSR, cluster: IndexArray, super_ptr: PtrArray, limits: SizeLimits) -> None:
    """Move nodes until no cluster is empty and all numbers of nodes are within the limits.

    Args:
        graphs: graphs of :func:`~tgp.engine.bisection.prepare_graphs`.
        cluster: ``[N]`` cluster of each node; changed.
        super_ptr: ``[B + 1]`` offsets of the clusters of each graph. Clusters can be empty.
        limits: limits of the numbers of nodes.
    """
    from tgp.kernels import partition as kernels

    assert graphs.weight is not None
    size = np.bincount(cluster, minlength=int(super_ptr[-1])).astype(np.int64)
    link, arrays = np.zeros(len(size)), (graphs.indptr, graphs.indices, graphs.weight, graphs.node_ptr)

    def balance(first: int, last: int) -> None:
        kernels.balance_clusters(*arrays, super_ptr, first, last, *limits, link, cluster, size)

    run_over_ranges(balance, graphs.node_ptr + graphs.edge_ptr)
