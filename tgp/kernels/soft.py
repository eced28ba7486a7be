"""Coarse adjacency ``S^T A S`` of dense assignments, graph by graph."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["soft_product"]


@njit(cache=True, nogil=True)
def soft_product(indptr, indices, weight, node_ptr, soft, eps):
    """Rows of the block-diagonal ``S^T A S`` with ``k`` supernodes per graph.

    ``O(E k + N k^2)`` time; beside the result only ``k^2`` numbers are held.

    Args:
        weight: ``[nnz]`` float64.
        soft: ``[N, k]`` float32 rows of ``S``.
        eps: entries with ``|a| <= eps`` are left out.

    Returns:
        ``indptr`` int64, ``indices`` int32, ``weight`` float64, rows sorted.
    """
    num_graphs = node_ptr.shape[0] - 1
    k = soft.shape[1]
    bound = np.int64(0)
    for g in range(num_graphs):
        if indptr[node_ptr[g + 1]] > indptr[node_ptr[g]]:
            bound += k * k
    out_ptr = np.zeros(num_graphs * k + 1, np.int64)
    # Pages that are never written cost nothing, so the bound is not paid for.
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
