"""The simple undirected graph behind stored edges: what spectral cuts and Kron reductions work on."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["undirected"]


@njit(cache=True, nogil=True)
def _mirror(indptr, indices, weight, weighted):
    """The transposed rows. Going through sources in order leaves every row sorted."""
    num_nodes = indptr.shape[0] - 1
    out_ptr = np.zeros(num_nodes + 1, np.int64)
    for e in range(indices.shape[0]):
        out_ptr[indices[e] + 1] += 1
    for i in range(num_nodes):
        out_ptr[i + 1] += out_ptr[i]
    slot = out_ptr[:-1].copy()
    out = np.empty(indices.shape[0], np.int32)
    out_weight = np.empty(indices.shape[0] if weighted else 0)
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            s = slot[indices[e]]
            slot[indices[e]] = s + 1
            out[s] = i
            if weighted:
                out_weight[s] = weight[e]
    return out_ptr, out, out_weight


@njit(cache=True, nogil=True)
def undirected(indptr, indices, weight, weighted):
    """Simple undirected graphs of a block of stored edges.

    Self loops go. Parallel edges merge: weights of the same direction add up, unweighted ones are
    one edge of weight 1. Of two directions the larger weight counts, a missing one never does. Edges of
    weight 0 are no edges.

    Args:
        indptr, indices: rows sorted by column.
        weight: ``[nnz]`` float64, or empty if ``weighted`` is false.
        weighted: whether ``weight`` counts.

    Returns:
        ``indptr`` int64, ``indices`` int32 and ``weight`` float64: symmetric bit for bit, rows
        sorted, no parallel edges, no zero weight.
    """
    num_nodes = indptr.shape[0] - 1
    in_ptr, in_index, in_weight = _mirror(indptr, indices, weight, weighted)
    out_ptr = np.zeros(num_nodes + 1, np.int64)
    # Pages that are never written cost nothing, so the bound of twice the input is not paid for.
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
