"""Kernels of the partition into balanced clusters: scores of the matching, division of graphs, moves between clusters."""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray

__all__ = ["count_inside", "fill_inside", "move_between", "rate_edges"]

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
