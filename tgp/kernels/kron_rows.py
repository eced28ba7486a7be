"""Assembly of the rows of a Kron reduction.

    A' = A_PP + sum_q f_q f_q^T / s_q + sum_c w_c b_c^T

``P`` are the kept nodes, ``f_q`` the eliminated rows and ``s_q`` their sums; ``w_c`` and ``b_c`` belong to walks. The
result is computed one row at a time in one accumulator, without storing a product of matrices.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import fill_transpose, grow_buffers, kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray

__all__ = ["assemble_rows"]


@kernel
def _transposed(
    ptr: PtrArray, cols: IndexArray, vals: FloatArray, num_cols: int
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return the transpose of rows: offsets by column, rows (ascending in each column), values."""
    out_ptr = np.empty(num_cols + 1, np.int64)
    out = np.empty(cols.shape[0], np.int32)
    out_vals = np.empty(cols.shape[0])
    fill_transpose(ptr, cols, vals, True, out_ptr, out, out_vals)
    return out_ptr, out, out_vals


@kernel
def _supernodes_of(nodes: IndexArray, cluster: IndexArray) -> IndexArray:
    """Return the supernode of each node."""
    out = np.empty(nodes.shape[0], np.int32)
    for e in range(nodes.shape[0]):
        out[e] = cluster[nodes[e]]
    return out


@kernel
def assemble_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, cluster: IndexArray, nodes: IndexArray,
    eliminated: tuple[PtrArray, IndexArray, FloatArray, FloatArray],
    walked: tuple[PtrArray, IndexArray, FloatArray, PtrArray, IndexArray, FloatArray], threshold: float,
) -> tuple[PtrArray, IndexArray, FloatArray]:  # fmt: skip
    """Return the rows of the reduced graph for the kept ``nodes``, in their order.

    Args:
        indptr, indices, weight: Simple undirected graphs.
        cluster: ``[N]``, supernode of each kept node, negative for other nodes.
        nodes: ``[K]``, kept node of each supernode.
        eliminated: Offsets, kept columns, values and one over the sums of the eliminated rows.
        walked: Offsets, kept columns and weights ``w`` of the rows from which walks start, followed by offsets, kept
            columns and probabilities ``b`` of the nodes where walks end.
        threshold: Entries with ``|a| <= threshold`` and the diagonal are removed.

    Returns:
        Offsets, columns (supernodes, not sorted in a row), values. If there are no walks, the matrix is exactly
        symmetric.
    """
    f_ptr, f_nodes, f_vals, f_inv = eliminated
    w_ptr, w_nodes, w_vals, b_ptr, b_nodes, b_vals = walked
    size = nodes.shape[0]
    # With supernodes instead of nodes as columns, the accumulator is half as long and stays in a faster cache.
    f_cols = _supernodes_of(f_nodes, cluster)
    b_cols = _supernodes_of(b_nodes, cluster)
    t_ptr, t_row, t_val = _transposed(f_ptr, f_cols, f_vals, size)
    s_ptr, s_row, s_val = _transposed(w_ptr, _supernodes_of(w_nodes, cluster), w_vals, size)
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
                # Multiply the two entries first, so that (r, j) and (j, r) get the same bits.
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
            out_cols, out_vals = grow_buffers(out_cols, out_vals, size + count)
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
