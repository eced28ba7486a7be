"""Simple undirected graphs from stored edges: the input of spectral cuts, Kron reductions and coding trees."""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import fill_transpose, kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray

__all__ = ["undirected", "undirected_sum"]


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
    back_ptr, back = np.empty(len(indptr), np.int64), np.empty(len(indices), np.int32)
    back_weight = np.empty(len(indices) if weighted else 0)
    fill_transpose(indptr, indices, weight, weighted, back_ptr, back, back_weight)
    return _merge_directions(indptr, indices, weight, back_ptr, back, back_weight, weighted, False)


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
    out_ptr, out, value = _merge_directions(
        indptr, indices, weight, back_ptr, back, back_weight, weighted, True
    )
    bad = -1
    if weighted and len(value) and value.min() < 0.0:
        bad = int(np.searchsorted(out_ptr, np.argmax(value < 0.0), side="right")) - 1
    return out_ptr, out, value, bad


def _merge_directions(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, back_ptr: PtrArray, back: IndexArray,
    back_weight: FloatArray, weighted: bool, add: bool,
) -> tuple[PtrArray, IndexArray, FloatArray]:  # fmt: skip
    # Upper bound of the size. Memory pages that are never written take no memory.
    out, value = np.empty(2 * len(indices), np.int32), np.empty(2 * len(indices))
    out_ptr = np.zeros(len(indptr), np.int64)
    size = _fill_undirected(
        indptr, indices, weight, back_ptr, back, back_weight, weighted, add, out_ptr, out, value
    )
    return out_ptr, out[:size], value[:size]


@kernel
def _fill_undirected(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, back_ptr: PtrArray, back: IndexArray,
    back_weight: FloatArray, weighted: bool, add: bool, out_ptr: PtrArray, out: IndexArray, value: FloatArray,
) -> int:  # fmt: skip
    """Merge rows and transposed rows; write ``out_ptr``, ``out`` and ``value``, and return the number of entries.

    Args:
        indptr, indices, weight: Rows sorted by column.
        back_ptr, back, back_weight: The transposed rows.
        weighted: Use the weights; otherwise every weight is 1.
        add: Add the weights of both directions. If false, use the larger one.
        out_ptr, out, value: Output. The first offset is zero on entry.
    """
    size = 0
    for i in range(indptr.shape[0] - 1):
        a, a_end = indptr[i], indptr[i + 1]
        b, b_end = back_ptr[i], back_ptr[i + 1]
        while a < a_end or b < b_end:
            if b >= b_end or (a < a_end and indices[a] < back[b]):
                col = indices[a]
            else:
                col = back[b]
            forward, backward = 0.0, 0.0
            first_a, first_b = a, b
            while a < a_end and indices[a] == col:
                if weighted:
                    forward += weight[a]
                a += 1
            while b < b_end and back[b] == col:
                if weighted:
                    backward += back_weight[b]
                b += 1
            w = 1.0
            if weighted:
                w = forward + backward
                if not add and a > first_a and b > first_b:
                    w = forward
                    if backward > forward:
                        w = backward
            if col != i and w != 0.0:
                out[size] = col
                value[size] = w
                size += 1
        out_ptr[i + 1] = size
    return size
