"""Coarse adjacency ``S^T A S`` of dense assignments, graph by graph."""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import Float32MatrixArray, FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["soft_product"]


@kernel
def _multiply_soft(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, soft: Float32MatrixArray, eps: float,
    row: FloatArray, coarse: MatrixArray, out_ptr: PtrArray, out: IndexArray, out_weight: FloatArray,
) -> int:  # fmt: skip
    """Write the rows of ``S^T A S``, see :func:`soft_product`; return the number of entries."""
    k = soft.shape[1]
    count = 0
    for g in range(node_ptr.shape[0] - 1):
        for a in range(k):
            for b in range(k):
                coarse[a, b] = 0.0
        for i in range(node_ptr[g], node_ptr[g + 1]):
            if indptr[i] == indptr[i + 1]:
                continue
            for a in range(k):
                row[a] = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                value = weight[e]
                for a in range(k):
                    row[a] += value * soft[j, a]
            for a in range(k):
                share = np.float64(soft[i, a])
                if share != 0.0:
                    for b in range(k):
                        coarse[a, b] += share * row[b]
        has_edges = indptr[node_ptr[g + 1]] > indptr[node_ptr[g]]
        for a in range(k):
            for b in range(k if has_edges else 0):
                if abs(coarse[a, b]) > eps:
                    out[count] = g * k + b
                    out_weight[count] = coarse[a, b]
                    count += 1
            out_ptr[g * k + a + 1] = count
    return count


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
    k = soft.shape[1]
    # Upper bound of the size. Memory pages that are never written take no memory.
    bound = k * k * int(np.count_nonzero(np.diff(indptr[node_ptr])))
    out_ptr = np.zeros((len(node_ptr) - 1) * k + 1, np.int64)
    out, out_weight = np.empty(bound, np.int32), np.empty(bound)
    scratch = np.empty(k), np.empty((k, k))
    count = _multiply_soft(indptr, indices, weight, node_ptr, soft, eps, *scratch, out_ptr, out, out_weight)
    return out_ptr, out[:count].copy(), out_weight[:count].copy()
