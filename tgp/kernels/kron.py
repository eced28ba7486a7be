"""Star-mesh elimination, the exact part of a Kron reduction, graph by graph.

Eliminating a node ``q`` of total weight ``s`` connects each pair of its neighbours by ``w_i w_j / s``. Only rows of
nodes that will be eliminated are updated. The contributions of eliminated rows to pairs of kept nodes are added at
the end, see :mod:`tgp.kernels.kron_rows`, so that rows of kept nodes are never modified.

Rows in progress are stored in the arrays ``cols`` and ``vals``: row ``i`` starts at ``start[i]``, has ``length[i]``
entries and space for ``room[i]``. Node ids inside a graph are local.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import grow_array, grow_buffers, kernel
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, IntArray, PtrArray

__all__ = ["eliminate"]

_KEPT, _LIVE, _GONE = 0, 1, 2
"""States of a node: kept, to be eliminated, eliminated."""
_MAX_ENTRIES = 4_000_000
"""Limit of stored entries, in addition to four times those of the graph. Sufficient for any graph of 1,000 nodes."""
_NO_LIMIT = np.int64(2**62)
_EXACT_DEGREE = 32
"""Longest row whose parallel entries are merged at once, so that its degree is exact. Longer rows are merged before
they have to grow."""


@kernel
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


@kernel
def _heap_pop(heap: PtrArray, size: int) -> int:
    """Remove and return the smallest of ``size`` keys."""
    top: int = heap[0]
    key = heap[size - 1]
    size -= 1
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = key
    return top


@kernel
def _merge_row(
    cols: IndexArray, vals: FloatArray, start: int, length: int, mark: IntArray, slot: PtrArray
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


@kernel
def _load_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, lo: int, mark: IntArray
) -> tuple[PtrArray, PtrArray, PtrArray, IndexArray, FloatArray]:
    """Copy the rows of dropped nodes that have dropped neighbours, with room to grow.

    Returns:
        ``start``, ``length``, ``room``, ``cols``, ``vals``.
    """
    n = mark.shape[0]
    start = np.zeros(n, np.int64)
    length = np.zeros(n, np.int64)
    room = np.zeros(n, np.int64)
    total = 0
    for i in range(n):
        if mark[i] == _LIVE:
            for e in range(indptr[lo + i], indptr[lo + i + 1]):
                if mark[indices[e] - lo] == _LIVE:
                    start[i] = total
                    length[i] = indptr[lo + i + 1] - indptr[lo + i]
                    room[i] = length[i] + length[i] // 2 + 4
                    total += room[i]
                    break
    cols = np.empty(total, np.int32)
    vals = np.empty(total)
    for i in range(n):
        for k in range(length[i]):
            e = indptr[lo + i] + k
            cols[start[i] + k] = indices[e] - lo
            vals[start[i] + k] = weight[e]
    return start, length, room, cols, vals


@kernel
def _inverse_sum(vals: FloatArray, lo: int, hi: int) -> float:
    """Return one over the sum of ``vals[lo:hi]``, or 0 if positive and negative weights cancel.

    With 0, the elimination of the node adds no edges.
    """
    total = 0.0
    scale = 0.0
    for e in range(lo, hi):
        total += vals[e]
        scale += abs(vals[e])
    return 1.0 / total if abs(total) > 1e-12 * scale else 0.0


@kernel
def _add_mesh(
    q: int, inv: float, start: PtrArray, length: PtrArray, room: PtrArray, cols: IndexArray, vals: FloatArray,
    used: int, mark: IntArray, slot: PtrArray,
) -> tuple[IndexArray, FloatArray, int]:  # fmt: skip
    """Add the edges from eliminating ``q`` to the rows of its live neighbours.

    Updates ``start``, ``length`` and ``room`` in place. Returns ``cols`` and ``vals``, which may be longer copies, and
    the number of used positions.
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
            cols, vals = grow_buffers(cols, vals, used + room[v])
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
        length[v] = end - start[v]
        if length[v] <= _EXACT_DEGREE:
            length[v] = _merge_row(cols, vals, start[v], length[v], mark, slot)
    return cols, vals, used


@kernel
def _remaining_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, lo: int, mark: IntArray, start: PtrArray,
    length: PtrArray, cols: IndexArray, vals: FloatArray, slot: PtrArray,
) -> tuple[IndexArray, PtrArray, IndexArray, FloatArray]:  # fmt: skip
    """Return the rows of the nodes that are not eliminated yet: nodes, offsets, columns, values."""
    n = mark.shape[0]
    nodes = np.empty(n, np.int32)
    count = 0
    size = 0
    for i in range(n):
        if mark[i] == _LIVE:
            nodes[count] = i
            count += 1
            size += length[i] + indptr[lo + i + 1] - indptr[lo + i]
    ptr = np.zeros(count + 1, np.int64)
    out_cols = np.empty(size, np.int32)
    out_vals = np.empty(size)
    size = 0
    for r in range(count):
        i = nodes[r]
        if length[i] > 0:
            found = _merge_row(cols, vals, start[i], length[i], mark, slot)
            for k in range(found):
                out_cols[size + k] = cols[start[i] + k]
                out_vals[size + k] = vals[start[i] + k]
        else:
            first = indptr[lo + i]
            found = indptr[lo + i + 1] - first
            for k in range(found):
                out_cols[size + k] = indices[first + k] - lo
                out_vals[size + k] = weight[first + k]
        size += found
        ptr[r + 1] = size
    return nodes[:count], ptr, out_cols[:size], out_vals[:size]


@kernel
def _eliminate_graph(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, lo: int, mark: IntArray, budget: int, max_entries: int
) -> tuple[PtrArray, IndexArray, FloatArray, FloatArray, tuple[IndexArray, PtrArray, IndexArray, FloatArray]]:  # fmt: skip
    """Eliminate the live nodes of the graph that starts at ``lo``, nodes with few neighbours first.

    Stops when the work exceeds ``budget`` or the memory exceeds ``max_entries``. Updates ``mark`` in place.

    Returns:
        Rows at the time of their elimination (offsets, kept columns, values), one over their sums, and the remaining
        rows, see :func:`_remaining_rows`. Ids are local.
    """
    n = mark.shape[0]
    start, length, room, cols, vals = _load_rows(indptr, indices, weight, lo, mark)
    used = cols.shape[0]
    f_ptr = np.zeros(n + 1, np.int64)
    f_inv = np.empty(n)
    f_cols = np.empty(indptr[lo + n] - indptr[lo], np.int32)
    f_vals = np.empty(f_cols.shape[0])
    rows, size, work, pending = 0, 0, 0, 0
    heap = np.empty(n, np.int64)
    slot = np.full(n, -1, np.int64)
    for i in range(n):
        if mark[i] != _LIVE:
            continue
        degree = indptr[lo + i + 1] - indptr[lo + i]
        if length[i] > 0:
            _heap_push(heap, pending, (degree << 32) | i)
            pending += 1
        elif work + degree * degree <= budget:
            # All neighbours are kept: no row changes, and this row is final.
            work += degree * degree
            f_inv[rows] = _inverse_sum(weight, indptr[lo + i], indptr[lo + i + 1])
            for e in range(indptr[lo + i], indptr[lo + i + 1]):
                f_cols[size] = indices[e] - lo
                f_vals[size] = weight[e]
                size += 1
            rows += 1
            f_ptr[rows] = size
            mark[i] = _GONE
    while pending > 0:
        key = _heap_pop(heap, pending)
        pending -= 1
        q = key & 0xFFFFFFFF
        if mark[q] == _GONE or length[q] != key >> 32:
            continue
        length[q] = _merge_row(cols, vals, start[q], length[q], mark, slot)
        work += length[q] * length[q]
        if work > budget or used > max_entries:
            break
        mark[q] = _GONE
        inv = _inverse_sum(vals, start[q], start[q] + length[q])
        f_cols, f_vals = grow_buffers(f_cols, f_vals, size + length[q])
        for e in range(start[q], start[q] + length[q]):
            if mark[cols[e]] == _KEPT:
                f_cols[size] = cols[e]
                f_vals[size] = vals[e]
                size += 1
        f_inv[rows] = inv
        rows += 1
        f_ptr[rows] = size
        cols, vals, used = _add_mesh(q, inv, start, length, room, cols, vals, used, mark, slot)
        if pending + length[q] > heap.shape[0]:
            heap = grow_array(heap, pending + length[q])
        for e in range(start[q], start[q] + length[q]):
            v = cols[e]
            if mark[v] == _LIVE:
                _heap_push(heap, pending, (length[v] << 32) | v)
                pending += 1
    rest = _remaining_rows(indptr, indices, weight, lo, mark, start, length, cols, vals, slot)
    return f_ptr[: rows + 1], f_cols[:size], f_vals[:size], f_inv[:rows], rest


@kernel
def _append_rows(
    ptr: PtrArray, cols: IndexArray, vals: FloatArray, rows: int, more_ptr: PtrArray, more_cols: IndexArray,
    more_vals: FloatArray, shift: int,
) -> tuple[PtrArray, IndexArray, FloatArray]:  # fmt: skip
    """Append rows to the first ``rows`` rows, adding ``shift`` to their columns; return the (possibly copied) arrays."""
    count = more_ptr.shape[0] - 1
    size = ptr[rows]
    if rows + count + 1 > ptr.shape[0]:
        ptr = grow_array(ptr, rows + count + 1)
    cols, vals = grow_buffers(cols, vals, size + more_cols.shape[0])
    for r in range(count):
        ptr[rows + 1 + r] = size + more_ptr[r + 1]
    for e in range(more_cols.shape[0]):
        cols[size + e] = more_cols[e] + shift
        vals[size + e] = more_vals[e]
    return ptr, cols, vals


@kernel
def _initial_marks(kept: BoolArray, lo: int, hi: int) -> IntArray:
    """Return the states of the nodes of a graph before elimination."""
    mark = np.empty(hi - lo, np.int8)
    for i in range(lo, hi):
        mark[i - lo] = _KEPT if kept[i] else _LIVE
    return mark


@kernel
def eliminate(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, kept: BoolArray, exact_work: int,
    first_work: int,
) -> tuple[
    tuple[PtrArray, IndexArray, FloatArray, FloatArray], tuple[IndexArray, PtrArray, IndexArray, FloatArray], PtrArray
]:  # fmt: skip
    """Eliminate the nodes of every graph that are not kept.

    Work is measured as the sum of squared row lengths. A graph that needs more work than ``exact_work``, or too much
    memory, is processed again, but only up to ``first_work`` per stored entry; :mod:`tgp.kernels.kron_walk` handles
    the remaining rows. Walks need positive weights, so a graph with a negative weight is eliminated completely.

    Args:
        indptr, indices, weight: Simple undirected graphs, see :mod:`tgp.kernels.undirected`.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        kept: ``[N]``.
        exact_work: Largest work of a complete elimination.
        first_work: Work per stored entry of a partial elimination.

    Returns:
        Eliminated rows (offsets, kept columns, values, one over the row sum), remaining rows (node, offsets, columns,
        values), and the number of remaining rows of each graph. Ids are those of the block.
    """
    f_ptr, f_cols, f_vals = np.zeros(kept.shape[0] + 1, np.int64), np.empty(0, np.int32), np.empty(0)
    f_inv = np.empty(kept.shape[0])
    r_ptr, r_cols, r_vals = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)
    r_nodes = np.empty(kept.shape[0], np.int32)
    left = np.zeros(node_ptr.shape[0] - 1, np.int64)
    rows, others = 0, 0
    for g in range(node_ptr.shape[0] - 1):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        entries = indptr[hi] - indptr[lo]
        if entries == 0:
            continue
        work, max_entries = exact_work, _MAX_ENTRIES + 4 * entries
        for e in range(indptr[lo], indptr[hi]):
            if weight[e] < 0.0:
                work, max_entries = _NO_LIMIT, _NO_LIMIT
                break
        mark = _initial_marks(kept, lo, hi)
        ptr, cols, vals, inv, rest = _eliminate_graph(indptr, indices, weight, lo, mark, work, max_entries)
        if rest[0].shape[0] > 0:
            mark = _initial_marks(kept, lo, hi)
            ptr, cols, vals, inv, rest = _eliminate_graph(
                indptr, indices, weight, lo, mark, first_work * entries, max_entries
            )
            left[g] = rest[0].shape[0]
            for r in range(left[g]):
                r_nodes[others + r] = rest[0][r] + lo
            r_ptr, r_cols, r_vals = _append_rows(r_ptr, r_cols, r_vals, others, rest[1], rest[2], rest[3], lo)
            others += left[g]
        for r in range(inv.shape[0]):
            f_inv[rows + r] = inv[r]
        f_ptr, f_cols, f_vals = _append_rows(f_ptr, f_cols, f_vals, rows, ptr, cols, vals, lo)
        rows += inv.shape[0]
    eliminated = (f_ptr[: rows + 1], f_cols[: f_ptr[rows]], f_vals[: f_ptr[rows]], f_inv[:rows])
    rest = (r_nodes[:others], r_ptr[: others + 1], r_cols[: r_ptr[others]], r_vals[: r_ptr[others]])
    return eliminated, rest, left
