"""Simple undirected graphs from stored edges: the input of spectral cuts, Kron reductions and coding trees."""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import fill_transpose, kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray

__all__ = ["undirected", "undirected_sum"]


@kernel
def undirected(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return the simple undirected graphs of stored edges, with the larger weight of two opposite edges.

    Self loops are removed. Parallel edges in the same direction are merged: weights are added, and unweighted edges
    become one edge of weight 1. If both directions exist, the larger weight is used. Edges of weight 0 are removed.

    Args:
        indptr, indices: Rows sorted by column.
        weight: ``[nnz]``, or an empty array if ``weighted`` is false.
        weighted: Use the weights.

    Returns:
        ``indptr``, ``indices`` and ``weight``: exactly symmetric, rows sorted, no parallel edges, no weight 0.
    """
    num_nodes = indptr.shape[0] - 1
    in_ptr = np.empty(num_nodes + 1, np.int64)
    in_index = np.empty(indices.shape[0], np.int32)
    in_weight = np.empty(indices.shape[0] if weighted else 0)
    fill_transpose(indptr, indices, weight, weighted, in_ptr, in_index, in_weight)
    out_ptr = np.zeros(num_nodes + 1, np.int64)
    # Upper bound of the size. Memory pages that are never written take no memory.
    out = np.empty(2 * indices.shape[0], np.int32)
    out_weight = np.empty(2 * indices.shape[0])
    count = 0
    for i in range(num_nodes):
        a, a_end = indptr[i], indptr[i + 1]
        b, b_end = in_ptr[i], in_ptr[i + 1]
        while a < a_end or b < b_end:
            if b >= b_end or (a < a_end and indices[a] < in_index[b]):
                col = indices[a]
            else:
                col = in_index[b]
            forward, backward = 0.0, 0.0
            has_forward, has_backward = False, False
            while a < a_end and indices[a] == col:
                forward += weight[a] if weighted else 1.0
                has_forward = True
                a += 1
            while b < b_end and in_index[b] == col:
                backward += in_weight[b] if weighted else 1.0
                has_backward = True
                b += 1
            if not weighted:
                value = 1.0
            elif has_forward and has_backward:
                value = max(forward, backward)
            else:
                value = forward + backward
            if col != i and value != 0.0:
                out[count] = col
                out_weight[count] = value
                count += 1
        out_ptr[i + 1] = count
    return out_ptr, out[:count], out_weight[:count]


@kernel
def undirected_sum(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, back_ptr: PtrArray, back: IndexArray,
    back_weight: FloatArray, weighted: bool,
) -> tuple[PtrArray, IndexArray, FloatArray, int]:  # fmt: skip
    """Return the simple undirected graphs of stored edges, with the weights of both directions added.

    Self loops are removed. If the graph is unweighted, the result has an edge of weight 1 wherever there is an edge in
    either direction. If it is weighted, all weights stored between two nodes, in either direction, are added; a sum
    of 0 means that there is no edge.

    Args:
        indptr, indices, weight: Rows sorted by column.
        back_ptr, back, back_weight: The transposed rows.
        weighted: Use the weights. Both weight arrays may be empty if false.

    Returns:
        ``indptr``, ``indices``, ``weight``, and the first node with a negative weight (or -1).
    """
    num_nodes = indptr.shape[0] - 1
    out_ptr = np.empty(num_nodes + 1, np.int64)
    # Upper bound of the size. Memory pages that are never written take no memory.
    out = np.empty(2 * indices.shape[0], np.int32)
    value = np.empty(2 * indices.shape[0])
    bad = -1
    size = np.int64(0)
    for i in range(num_nodes):
        out_ptr[i] = size
        a, a_end = indptr[i], indptr[i + 1]
        b, b_end = back_ptr[i], back_ptr[i + 1]
        while a < a_end or b < b_end:
            if b >= b_end or (a < a_end and indices[a] < back[b]):
                col = indices[a]
            else:
                col = back[b]
            forward, backward = 0.0, 0.0
            while a < a_end and indices[a] == col:
                forward += weight[a] if weighted else 1.0
                a += 1
            while b < b_end and back[b] == col:
                backward += back_weight[b] if weighted else 1.0
                b += 1
            w = forward + backward
            if col != i and w != 0.0:
                out[size] = col
                value[size] = w if weighted else 1.0
                size += 1
                if w < 0.0 and bad < 0:
                    bad = i
    out_ptr[num_nodes] = size
    return out_ptr, out[:size], value[:size], bad
