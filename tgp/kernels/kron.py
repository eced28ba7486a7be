"""Star-mesh elimination, the exact part of a Kron reduction, graph by graph.

Eliminating a node ``q`` with the diagonal entry ``s`` connects each pair of its neighbours by ``w_i w_j / s``. Only rows
of nodes that will be eliminated are updated. The contributions of eliminated rows to pairs of kept nodes are added at
the end, see :func:`assemble_rows`, so that rows of kept nodes are never modified.

If all weights are positive, ``s`` is the sum of the row. A graph with a negative weight has the signed Laplacian, whose
diagonal is ``sum |w|``. There ``s`` is stored in ``diagonal`` and reduced by ``w^2 / s`` for each eliminated neighbour.

Rows in progress are stored in the arrays ``cols`` and ``vals``: row ``i`` starts at ``start[i]``, has ``length[i]``
entries and space for ``room[i]``. All arrays are allocated by the caller, :mod:`tgp.engine.kron_reduction`. A kernel
that runs out of space returns a code, and the caller repeats the graph with longer arrays.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import BoolArray, ByteArray, FloatArray, IndexArray, PtrArray

__all__ = ["DONE", "OVER_BUDGET", "assemble_rows", "eliminate", "remaining_rows"]

DONE, OUT_OF_SPACE, OVER_BUDGET = 0, 1, 2
"""Codes of :func:`eliminate`."""
ROWS, SIZE, CODE, GRAPH_ROWS, GRAPH_SIZE, WORK = 0, 1, 2, 3, 4, 5
"""Positions in the state of :func:`eliminate`."""
STATE_SIZE = 6

_KEPT, _LIVE, _GONE = 0, 1, 2
"""States of a node: kept, to be eliminated, eliminated."""
_EXACT_DEGREE = 32
"""Longest row whose parallel entries are merged at once, so that its degree is exact. Longer rows are merged before
they have to grow."""


@kernel(inner=True)
def _heap_push(heap: PtrArray, size: int, key: int) -> None:
    """Add ``key`` to a heap of ``size`` keys, which must have room for it."""
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if heap[parent] <= key:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = key


@kernel(inner=True)
def _merge_row(
    cols: IndexArray, vals: FloatArray, start: int, length: int, mark: ByteArray, slot: PtrArray
) -> int:
    """Merge parallel entries of a row in place and remove eliminated nodes; return the new length.

    ``slot`` is scratch that contains -1 everywhere on entry and on return.
    """
    count = 0
    for e in range(start, start + length):
        j = cols[e]
        if mark[j] == _GONE:
            continue
        if slot[j] < 0:
            slot[j] = start + count
            cols[start + count] = j
            vals[start + count] = vals[e]
            count += 1
        else:
            vals[slot[j]] += vals[e]
    for e in range(start, start + count):
        slot[cols[e]] = -1
    return count


@kernel(inner=True)
def _load_graph(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, cluster: IndexArray, lo: int, hi: int, mark: ByteArray,
    start: PtrArray, length: PtrArray, room: PtrArray, diagonal: FloatArray, cols: IndexArray, vals: FloatArray,
) -> int:  # fmt: skip
    """Copy the rows of dropped nodes that have dropped neighbours, with room to grow.

    Returns:
        Number of used positions of ``cols``, or -1 if it is too short.
    """
    for i in range(lo, hi):
        mark[i] = _KEPT if cluster[i] >= 0 else _LIVE
    used = 0
    for i in range(lo, hi):
        length[i] = 0
        diagonal[i] = 0.0
        if mark[i] == _KEPT:
            continue
        inner = False
        for e in range(indptr[i], indptr[i + 1]):
            diagonal[i] += abs(weight[e])
            if mark[indices[e]] == _LIVE:
                inner = True
        if inner:
            degree = indptr[i + 1] - indptr[i]
            start[i] = used
            length[i] = degree
            room[i] = degree + (degree >> 1) + 4
            used += room[i]
            if used > cols.shape[0]:
                return -1
            for k in range(degree):
                cols[start[i] + k] = indices[indptr[i] + k]
                vals[start[i] + k] = weight[indptr[i] + k]
    return used


@kernel(inner=True)
def _add_mesh(
    q: int, inv: float, start: PtrArray, length: PtrArray, room: PtrArray, cols: IndexArray, vals: FloatArray,
    used: int, mark: ByteArray, slot: PtrArray, diagonal: FloatArray,
) -> int:  # fmt: skip
    """Add the edges from eliminating ``q`` to the rows of its live neighbours.

    Returns:
        Number of used positions of ``cols``, or -1 if it is too short.
    """
    lo, hi = start[q], start[q] + length[q]
    for e in range(lo, hi):
        v = cols[e]
        if mark[v] != _LIVE:
            continue
        if length[v] + hi - lo > room[v]:
            length[v] = _merge_row(cols, vals, start[v], length[v], mark, slot)
        if length[v] + hi - lo > room[v]:
            room[v] = 2 * (length[v] + hi - lo)
            if used + room[v] > cols.shape[0]:
                return -1
            for k in range(length[v]):
                cols[used + k] = cols[start[v] + k]
                vals[used + k] = vals[start[v] + k]
            start[v] = used
            used += room[v]
        end = start[v] + length[v]
        for k in range(lo, hi):
            if cols[k] != v:
                cols[end] = cols[k]
                vals[end] = (vals[e] * vals[k]) * inv
                end += 1
        diagonal[v] -= (vals[e] * vals[e]) * inv
        length[v] = end - start[v]
        if length[v] <= _EXACT_DEGREE:
            length[v] = _merge_row(cols, vals, start[v], length[v], mark, slot)
    return used


@kernel
def eliminate(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, cluster: IndexArray, node_ptr: PtrArray, first: int,
    last: int, budget: int, max_entries: PtrArray, signed: ByteArray, mark: ByteArray, start: PtrArray,
    length: PtrArray, room: PtrArray, slot: PtrArray, diagonal: FloatArray, heap: PtrArray, cols: IndexArray,
    vals: FloatArray, f_ptr: PtrArray, f_inv: FloatArray, f_cols: IndexArray, f_vals: FloatArray, state: PtrArray,
) -> int:  # fmt: skip
    """Eliminate the nodes of the graphs ``first`` to ``last - 1`` that are not kept, nodes with few neighbours first.

    Args:
        indptr, indices, weight: Simple undirected graphs, see :mod:`tgp.kernels.undirected`.
        cluster: ``[N]``, supernode of each kept node, -1 for a dropped node.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        first, last: Range of graphs.
        budget: Largest work of a graph, the sum of squared row lengths.
        max_entries: ``[B]``, largest number of stored entries of each graph.
        signed: ``[B]``, 1 if a graph has a negative weight.
        mark, start, length, room, diagonal: ``[N]`` scratch.
        slot: ``[N]`` scratch, -1 everywhere.
        heap, cols, vals: Scratch. If it is too short, the call ends.
        f_ptr, f_inv, f_cols, f_vals: Output: offsets of the eliminated rows, one over their diagonal entries, kept
            columns (as supernodes) and values.
        state: ``[STATE_SIZE]``: number of rows and entries of the output, before and after the call; the code; both
            numbers at the beginning of the last graph, and its work.

    Returns:
        The graph at which the call ended, or ``last``. Its rows up to this point are part of the output.
    """
    rows, size = state[ROWS], state[SIZE]
    state[CODE] = DONE
    for g in range(first, last):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        state[GRAPH_ROWS], state[GRAPH_SIZE], state[WORK] = rows, size, 0
        if indptr[hi] == indptr[lo]:
            continue
        used = _load_graph(
            indptr, indices, weight, cluster, lo, hi, mark, start, length, room, diagonal, cols, vals
        )
        code, work, pending = DONE, 0, np.int64(0)  # a literal would compile the heap twice
        if used < 0 or hi - lo > heap.shape[0] or size + indptr[hi] - indptr[lo] > f_cols.shape[0]:
            code = OUT_OF_SPACE
            hi = lo
        for i in range(lo, hi):
            if mark[i] != _LIVE:
                continue
            degree = indptr[i + 1] - indptr[i]
            if length[i] > 0:
                _heap_push(heap, pending, (degree << 32) | i)
                pending += 1
            elif work + degree * degree <= budget:
                # All neighbours are kept: no row changes, and this row is final.
                work += degree * degree
                total = 0.0
                for e in range(indptr[i], indptr[i + 1]):
                    f_cols[size] = cluster[indices[e]]
                    f_vals[size] = weight[e]
                    size += 1
                    total += weight[e]
                if signed[g]:
                    total = diagonal[i]
                f_inv[rows] = 1.0 / total if total > 0.0 else 0.0
                rows += 1
                f_ptr[rows] = size
                mark[i] = _GONE
            else:
                code = OVER_BUDGET
        while pending > 0:
            # Remove the smallest key from the heap.
            key = heap[0]
            pending -= 1
            moved = heap[pending]
            i = 0
            while 2 * i + 1 < pending:
                child = 2 * i + 1
                if child + 1 < pending and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= moved:
                    break
                heap[i] = heap[child]
                i = child
            heap[i] = moved
            q = key & 0xFFFFFFFF
            if mark[q] == _GONE or length[q] != key >> 32:
                continue
            length[q] = _merge_row(cols, vals, start[q], length[q], mark, slot)
            work += length[q] * length[q]
            if work > budget or used > max_entries[g]:
                code = OVER_BUDGET
                break
            if size + length[q] > f_cols.shape[0] or pending + length[q] > heap.shape[0]:
                code = OUT_OF_SPACE
                break
            mark[q] = _GONE
            total, least = 0.0, 0.0
            for e in range(start[q], start[q] + length[q]):
                total += vals[e]
                least += abs(vals[e])
                if mark[cols[e]] == _KEPT:
                    f_cols[size] = cluster[cols[e]]
                    f_vals[size] = vals[e]
                    size += 1
            if signed[g]:
                # A signed Laplacian is diagonally dominant, and so is every reduction of it. Rounding must not change this.
                total = diagonal[q] if diagonal[q] > least else least
            inv = 1.0 / total if total > 0.0 else 0.0
            f_inv[rows] = inv
            rows += 1
            f_ptr[rows] = size
            used = _add_mesh(q, inv, start, length, room, cols, vals, used, mark, slot, diagonal)
            if used < 0:
                code = OUT_OF_SPACE
                break
            for e in range(start[q], start[q] + length[q]):
                v = cols[e]
                if mark[v] == _LIVE:
                    _heap_push(heap, pending, (length[v] << 32) | v)
                    pending += 1
        state[ROWS], state[SIZE], state[CODE], state[WORK] = rows, size, code, work
        if code != DONE:
            return g
    state[ROWS], state[SIZE] = rows, size
    return last


@kernel
def remaining_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, lo: int, hi: int, mark: ByteArray, start: PtrArray,
    length: PtrArray, cols: IndexArray, vals: FloatArray, slot: PtrArray, ptr: PtrArray, nodes: IndexArray,
    out_cols: IndexArray, out_vals: FloatArray,
) -> int:  # fmt: skip
    """Write the rows of the nodes ``lo`` to ``hi - 1`` that are not eliminated yet.

    Args:
        indptr, indices, weight: Simple undirected graphs.
        lo, hi: Nodes of the graph on which :func:`eliminate` ended.
        mark, start, length, cols, vals, slot: Scratch of :func:`eliminate`.
        ptr, nodes: Output: offsets of the rows and their nodes.
        out_cols, out_vals: Output: columns and values, with space for all entries.

    Returns:
        Number of rows.
    """
    count, size = 0, 0
    for i in range(lo, hi):
        if mark[i] != _LIVE:
            continue
        if length[i] > 0:
            length[i] = _merge_row(cols, vals, start[i], length[i], mark, slot)
            for e in range(start[i], start[i] + length[i]):
                out_cols[size] = cols[e]
                out_vals[size] = vals[e]
                size += 1
        else:
            for e in range(indptr[i], indptr[i + 1]):
                out_cols[size] = indices[e]
                out_vals[size] = weight[e]
                size += 1
        nodes[count] = i
        count += 1
        ptr[count] = size
    return count


@kernel
def assemble_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, cluster: IndexArray, nodes: IndexArray, low: int,
    high: int, left_ptr: PtrArray, left_row: IndexArray, left_val: FloatArray, shift: int, right_ptr: PtrArray,
    right_cols: IndexArray, right_vals: FloatArray, inv: FloatArray, threshold: FloatArray, acc: FloatArray,
    seen: BoolArray, touched: IndexArray, row_length: PtrArray, out_cols: IndexArray, out_vals: FloatArray,
    state: PtrArray,
) -> int:  # fmt: skip
    """Write the rows of the supernodes ``low`` to ``high - 1`` of the reduced graph ``A_PP + sum_q l_q r_q^T / s_q``.

    ``P`` are the kept nodes. For an eliminated row, ``l_q = r_q`` are its entries and ``s_q`` is its diagonal entry. For a node
    from which walks start, ``l_q`` are its weights to kept nodes, ``r_q`` the probabilities of the ends of the walks, and
    ``s_q = 1``. The result is computed one row at a time in one accumulator, without storing a product of matrices.

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
