"""Coarse adjacency ``S^T A S`` of dense assignments, graph by graph."""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import Float32MatrixArray, FloatArray, IndexArray, PtrArray

__all__ = ["soft_product"]


@kernel
def soft_product(
    indptr: PtrArray,
    indices: IndexArray,
    weight: FloatArray,
    node_ptr: PtrArray,
    soft: Float32MatrixArray,
    eps: float,
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return the rows of the block-diagonal matrix ``S^T A S`` with ``k`` supernodes per graph.

    Takes ``O(E k + N k^2)`` time, and ``O(k^2)`` memory in addition to the result.

    Args:
        indptr, indices, weight: Rows of the block.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        soft: ``[N, k]``, rows of ``S``.
        eps: Entries with ``|a| <= eps`` are removed.

    Returns:
        ``indptr``, ``indices`` (sorted in each row) and ``weight``.
    """
    num_graphs = node_ptr.shape[0] - 1
    k = soft.shape[1]
    bound = np.int64(0)
    for g in range(num_graphs):
        if indptr[node_ptr[g + 1]] > indptr[node_ptr[g]]:
            bound += k * k
    out_ptr = np.zeros(num_graphs * k + 1, np.int64)
    # Upper bound of the size. Memory pages that are never written take no memory.
    out = np.empty(bound, np.int32)
    out_weight = np.empty(bound, np.float64)
    row = np.empty(k)
    coarse = np.empty((k, k))
    count = np.int64(0)
    for g in range(num_graphs):
        coarse[:] = 0.0
        for i in range(node_ptr[g], node_ptr[g + 1]):
            if indptr[i] == indptr[i + 1]:
                continue
            row[:] = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                value = weight[e]
                for a in range(k):
                    row[a] += value * soft[j, a]
            for a in range(k):
                value = np.float64(soft[i, a])
                if value != 0.0:
                    for b in range(k):
                        coarse[a, b] += value * row[b]
        if indptr[node_ptr[g + 1]] > indptr[node_ptr[g]]:
            for a in range(k):
                for b in range(k):
                    if abs(coarse[a, b]) > eps:
                        out[count] = g * k + b
                        out_weight[count] = coarse[a, b]
                        count += 1
                out_ptr[g * k + a + 1] = count
        else:
            for a in range(k):
                out_ptr[g * k + a + 1] = count
    return out_ptr, out[:count].copy(), out_weight[:count].copy()
