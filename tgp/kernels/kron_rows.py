"""Put the rows of a Kron reduction together.

    A' = A_PP + sum_q f_q f_q^T / s_q + sum_c w_c b_c^T

``f_q`` are the eliminated rows and ``s_q`` their sums, ``w_c`` and ``b_c`` belong to walks; ``P`` are the kept nodes. One
row of the result at a time, in one accumulator: no product of matrices is ever stored.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["assemble"]


@njit(cache=True, nogil=True)
def _longer(array, need):
    """A copy of ``array`` with room for ``need`` entries, at least twice as long."""
    out = np.empty(max(need, 2 * array.shape[0]), array.dtype)
    for i in range(array.shape[0]):
        out[i] = array[i]
    return out


@njit(cache=True, nogil=True)
def _columns(ptr, cols, vals, n):
    """The transpose of rows: offsets by column, row, value. Rows ascend in every column."""
    out_ptr = np.zeros(n + 1, np.int64)
    for e in range(cols.shape[0]):
        out_ptr[cols[e] + 1] += 1
    for i in range(n):
        out_ptr[i + 1] += out_ptr[i]
    place = out_ptr[:-1].copy()
    out = np.empty(cols.shape[0], np.int32)
    out_vals = np.empty(cols.shape[0])
    for r in range(ptr.shape[0] - 1):
        for e in range(ptr[r], ptr[r + 1]):
            slot = place[cols[e]]
            place[cols[e]] = slot + 1
            out[slot] = r
            out_vals[slot] = vals[e]
    return out_ptr, out, out_vals


@njit(cache=True, nogil=True)
def _numbers(nodes, cluster):
    """The supernode of each node."""
    out = np.empty(nodes.shape[0], np.int32)
    for e in range(nodes.shape[0]):
        out[e] = cluster[nodes[e]]
    return out


@njit(cache=True, nogil=True)
def assemble(indptr, indices, weight, cluster, nodes, eliminated, walked, threshold):
    """Rows of the result for the kept ``nodes``, in their order.

    Args:
        indptr, indices, weight: simple undirected graphs.
        cluster: ``[N]`` int32, supernode of each kept node, negative for the others.
        nodes: ``[K]`` int32, the kept node of each supernode.
        eliminated: offsets, kept columns, values and one over the sums of the eliminated rows.
        walked: offsets, kept columns and weights ``w`` of the rows that walks start from, then offsets,
            kept columns and probabilities ``b`` of their ends.
        threshold: entries ``|a| <= threshold`` are left out, and so is the diagonal.

    Returns:
        Offsets, columns (supernodes, unsorted in a row), values. Without walks the matrix is symmetric
        bit for bit.
    """
    f_ptr, f_nodes, f_vals, f_inv = eliminated
    w_ptr, w_nodes, w_vals, b_ptr, b_nodes, b_vals = walked
    size = nodes.shape[0]
    # Supernodes instead of nodes: half the accumulator, so that it stays in a nearer cache.
    f_cols = _numbers(f_nodes, cluster)
    b_cols = _numbers(b_nodes, cluster)
    t_ptr, t_row, t_val = _columns(f_ptr, f_cols, f_vals, size)
    s_ptr, s_row, s_val = _columns(w_ptr, _numbers(w_nodes, cluster), w_vals, size)
    out_ptr = np.zeros(size + 1, np.int64)
    out_cols = np.empty(4 * size, np.int32)
    out_vals = np.empty(4 * size)
    acc = np.zeros(size)
    seen = np.zeros(size, np.bool_)
    touched = np.empty(size, np.int32)
    size = 0
    for r in range(nodes.shape[0]):
        count = 0
        for e in range(indptr[nodes[r]], indptr[nodes[r] + 1]):
            j = cluster[indices[e]]
            if j >= 0:
                seen[j] = True
                touched[count] = j
                count += 1
                acc[j] = weight[e]
        for t in range(t_ptr[r], t_ptr[r + 1]):
            q = t_row[t]
            for e in range(f_ptr[q], f_ptr[q + 1]):
                j = f_cols[e]
                if not seen[j]:
                    seen[j] = True
                    touched[count] = j
                    count += 1
                # The product of the two entries first: the same number for (r, j) and (j, r).
                acc[j] += (t_val[t] * f_vals[e]) * f_inv[q]
        for t in range(s_ptr[r], s_ptr[r + 1]):
            c = s_row[t]
            for e in range(b_ptr[c], b_ptr[c + 1]):
                j = b_cols[e]
                if not seen[j]:
                    seen[j] = True
                    touched[count] = j
                    count += 1
                acc[j] += s_val[t] * b_vals[e]
        if size + count > out_cols.shape[0]:
            out_cols = _longer(out_cols, size + count)
            out_vals = _longer(out_vals, size + count)
        for k in range(count):
            j = touched[k]
            if j != r and abs(acc[j]) > threshold:
                out_cols[size] = j
                out_vals[size] = acc[j]
                size += 1
            acc[j] = 0.0
            seen[j] = False
        out_ptr[r + 1] = size
    return out_ptr, out_cols[:size], out_vals[:size]
