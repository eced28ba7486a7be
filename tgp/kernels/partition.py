"""Kernels of the partition into balanced clusters: scores of the matching, division of graphs, moves between clusters."""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray

__all__ = ["balance_clusters", "count_inside", "fill_inside", "move_between", "rate_edges"]

_U = np.uint64


@kernel
def rate_edges(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, size: PtrArray, first: int, last: int,
    score: FloatArray,
) -> None:  # fmt: skip
    """Write ``w_ij^2 / (size_i size_j)`` to ``score`` ``[nnz]`` for the rows ``first..last``."""
    for i in range(first, last):
        mine = float(size[i])
        for e in range(_U(indptr[i]), _U(indptr[i + 1])):
            score[e] = weight[e] * weight[e] / (mine * float(size[np.uint32(indices[e])]))


@kernel
def count_inside(
    indptr: PtrArray, indices: IndexArray, label: IndexArray, position: IndexArray, first: int, last: int,
    counts: PtrArray,
) -> None:  # fmt: skip
    """Count the entries of each row ``first..last`` whose two nodes have the same label.

    Args:
        indptr, indices: Rows.
        label: ``[N]`` label of each node; rows with a label below 0 are left out.
        position: ``[N]`` row of the result for each node.
        first, last: Range of nodes.
        counts: Output, number of entries of each row of the result.
    """
    for v in range(first, last):
        own = label[v]
        if own < 0:
            continue
        count = np.int64(0)
        for e in range(_U(indptr[v]), _U(indptr[v + 1])):
            count += np.int64(label[np.uint32(indices[e])] == own)
        counts[position[v]] = count


@kernel
def fill_inside(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, label: IndexArray, position: IndexArray, first: int,
    last: int, out_ptr: PtrArray, out: IndexArray, values: FloatArray,
) -> None:  # fmt: skip
    """Write the entries that :func:`count_inside` counts to the rows of the result.

    Args:
        indptr, indices, weight, label, position, first, last: See :func:`count_inside`.
        out_ptr: Offsets of the rows of the result.
        out, values: Output, columns and weights.
    """
    for v in range(first, last):
        own = label[v]
        if own < 0:
            continue
        at = _U(out_ptr[position[v]])
        for e in range(_U(indptr[v]), _U(indptr[v + 1])):
            u = np.uint32(indices[e])
            if label[u] == own:
                out[at] = position[u]
                values[at] = weight[e]
                at += _U(1)


@kernel
def move_between(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, first: int, last: int,
    least: PtrArray, most: PtrArray, passes: int, link: FloatArray, seen: IndexArray, cluster: IndexArray,
    size: PtrArray,
) -> None:  # fmt: skip
    """Move single nodes to the neighbouring cluster to which they have the largest weight, while the cut becomes smaller.

    A node also moves if the cut stays the same and the sizes of the two clusters become more equal. Nodes are visited in order.

    Args:
        indptr, indices, weight: Undirected rows without parallel edges. The sums of weights are exact.
        node_ptr: ``[graphs + 1]`` offsets of the graphs.
        first, last: Range of graphs.
        least, most: ``[graphs]`` smallest and largest number of nodes of a cluster.
        passes: Largest number of visits of each node.
        link: Scratch, one number per cluster, zero on entry and on return.
        seen: Scratch ``[N]``.
        cluster: ``[N]`` cluster of each node; changed.
        size: Number of nodes of each cluster; changed.
    """
    for g in range(first, last):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        for _ in range(passes):
            moves = 0
            for v in range(lo, hi):
                own = cluster[v]
                if size[own] <= least[g]:
                    continue
                start, stop = _U(indptr[v]), _U(indptr[v + 1])
                inside, outside = 0.0, False
                for e in range(start, stop):
                    u = np.uint32(indices[e])
                    outside |= cluster[u] != own
                if not outside:
                    continue
                found = lo
                for e in range(start, stop):
                    u = np.uint32(indices[e])
                    c = cluster[u]
                    if c == own:
                        if u != v:
                            inside += weight[e]
                    else:
                        if link[c] == 0.0:
                            seen[found] = c
                            found += 1
                        link[c] += weight[e]
                best, target = inside, own
                for i in range(lo, found):
                    c = seen[i]
                    value = link[c]
                    link[c] = 0.0
                    if size[c] >= most[g]:
                        continue
                    if value > best or (
                        value == best and size[c] + 1 < (size[own] if target == own else size[target] + 1)
                    ):
                        best, target = value, c
                if target != own:
                    cluster[v] = target
                    size[own] -= 1
                    size[target] += 1
                    moves += 1
            if moves == 0:
                break


@kernel
def balance_clusters(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, super_ptr: PtrArray, first: int,
    last: int, least: PtrArray, most: PtrArray, link: FloatArray, cluster: IndexArray, size: PtrArray,
) -> None:  # fmt: skip
    """Move nodes until every cluster has a number of nodes within the limits.

    First nodes leave clusters that are too large, then they join clusters that are too small. A node joins the cluster with room to
    which it has the largest weight. In the last two of the four passes a node without such a cluster joins the first one with
    room.

    Args:
        indptr, indices, weight, node_ptr, first, last, least, most: See :func:`move_between`.
        super_ptr: ``[graphs + 1]`` offsets of the clusters of each graph.
        link: Scratch, one number per cluster, zero on entry and on return.
        cluster: ``[N]`` cluster of each node; changed.
        size: Number of nodes of each cluster, 0 for an empty one; changed.
    """
    for g in range(first, last):
        # Passes 0 and 2 move nodes out of large clusters, 1 and 3 into small ones. Passes 0 and 1 stay at the boundary.
        for step in (0, 2, 1, 3):
            into_small = step % 2 == 1
            limit = least[g] if into_small else most[g]
            next_cluster = super_ptr[g]
            for v in range(node_ptr[g], node_ptr[g + 1]):
                own = cluster[v]
                if size[own] <= limit:
                    continue
                best, target = -1.0, np.int64(-1)
                for e in range(_U(indptr[v]), _U(indptr[v + 1])):
                    c = cluster[np.uint32(indices[e])]
                    link[c] += weight[e]
                    if link[c] > best and c != own and size[c] < limit:
                        best, target = link[c], np.int64(c)
                for e in range(_U(indptr[v]), _U(indptr[v + 1])):
                    link[cluster[np.uint32(indices[e])]] = 0.0
                if target < 0 and step >= 2:
                    while next_cluster < super_ptr[g + 1] and size[next_cluster] >= limit:
                        next_cluster += 1
                    if next_cluster == super_ptr[g + 1]:
                        break
                    target = next_cluster
                if target >= 0:
                    cluster[v] = target
                    size[own] -= 1
                    size[target] += 1
