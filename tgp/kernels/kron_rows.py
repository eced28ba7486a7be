"""Assembly of the rows of a Kron reduction.

    A' = A_PP + sum_q l_q r_q^T / s_q

``P`` are the kept nodes. For an eliminated row, ``l_q = r_q`` are its entries and ``s_q`` is its diagonal entry. For a
node from which walks start, ``l_q`` are its weights to kept nodes, ``r_q`` the probabilities of the ends of the walks,
and ``s_q = 1``. The result is computed one row at a time in one accumulator, without storing a product of matrices.
"""

from __future__ import annotations

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, PtrArray

__all__ = ["assemble_rows"]


@kernel
def assemble_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, cluster: IndexArray, nodes: IndexArray, low: int,
    high: int, left_ptr: PtrArray, left_row: IndexArray, left_val: FloatArray, shift: int, right_ptr: PtrArray,
    right_cols: IndexArray, right_vals: FloatArray, inv: FloatArray, threshold: FloatArray, acc: FloatArray,
    seen: BoolArray, touched: IndexArray, row_length: PtrArray, out_cols: IndexArray, out_vals: FloatArray,
    state: PtrArray,
) -> int:  # fmt: skip
    """Write the rows of the supernodes ``low`` to ``high - 1`` of the reduced graph.

    Args:
        indptr, indices, weight: Simple undirected graphs.
        cluster: ``[N]``, supernode of each kept node, -1 for other nodes.
        nodes: ``[K]``, kept node of each supernode.
        low, high: Range of supernodes.
        left_ptr, left_row, left_val: Entries of ``l`` by supernode, starting with supernode ``shift``.
        shift: First supernode of ``left_ptr``.
        right_ptr, right_cols, right_vals: Rows ``r``, whose columns are supernodes.
        inv: One over ``s``.
        threshold: ``[K]``. Entries ``|a| <= threshold`` and the diagonal are removed.
        acc, seen, touched: ``[K]`` scratch; ``acc`` and ``seen`` are zero on entry and on return.
        row_length: ``[K]`` output: number of entries of each row.
        out_cols, out_vals: Output: columns (not sorted in a row) and values.
        state: ``[1]``, number of used positions of ``out_cols``, before and after the call.

    Returns:
        The first supernode whose row does not fit into ``out_cols``, or ``high``. If no walks are used, the matrix is
        exactly symmetric.
    """
    size = state[0]
    for r in range(low, high):
        count = 0
        for e in range(indptr[nodes[r]], indptr[nodes[r] + 1]):
            j = cluster[indices[e]]
            if j >= 0:
                seen[j] = True
                touched[shift + count] = j
                count += 1
                acc[j] = weight[e]
        for t in range(left_ptr[r - shift], left_ptr[r - shift + 1]):
            q = left_row[t]
            for e in range(right_ptr[q], right_ptr[q + 1]):
                j = right_cols[e]
                if not seen[j]:
                    seen[j] = True
                    touched[shift + count] = j
                    count += 1
                # Multiply the two entries first, so that (r, j) and (j, r) get the same bits.
                acc[j] += (left_val[t] * right_vals[e]) * inv[q]
        fits = size + count <= out_cols.shape[0]
        for k in range(shift, shift + count):
            j = touched[k]
            if fits and j != r and abs(acc[j]) > threshold[r]:
                out_cols[size] = j
                out_vals[size] = acc[j]
                size += 1
            acc[j] = 0.0
            seen[j] = False
        if not fits:
            return r
        row_length[r] = size - state[0]
        state[0] = size
    return high
