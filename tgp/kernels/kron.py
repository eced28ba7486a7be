"""Star-mesh elimination, the exact part of a Kron reduction, graph by graph.

Eliminating a node ``q`` of total weight ``s`` joins every two of its neighbours by ``w_i w_j / s``. Only rows of
nodes still to be eliminated need updating. What an eliminated row adds between kept nodes is
collected at the end, see :mod:`tgp.kernels.kron_rows`, so no row of a kept node is ever touched.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["eliminate"]

_KEPT, _LIVE, _GONE = 0, 1, 2
"""Marks of a node: kept, to be eliminated, eliminated."""
_CELLS = 4_000_000
"""Rows may take this many entries, enough for any graph of 1,000 nodes, plus four times those of the graph."""
_NO_LIMIT = np.int64(2**62)
_EXACT_DEGREE = 32
"""Rows up to this length are merged at once, so their degree is exact; longer ones when they must grow."""


@njit(cache=True, nogil=True)
def _heap_push(heap, size, key):
    """Add ``key``; the caller has made room."""
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if heap[parent] <= key:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = key


@njit(cache=True, nogil=True)
def _heap_pop(heap, size):
    """Remove and return the smallest of ``size`` keys."""
    top = heap[0]
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


@njit(cache=True, nogil=True)
def _longer(array, need):
    """A copy of ``array`` with room for ``need`` entries, at least twice as long."""
    out = np.empty(max(need, 2 * array.shape[0]), array.dtype)
    for i in range(array.shape[0]):
        out[i] = array[i]
    return out


@njit(cache=True, nogil=True)
def _grow_buffers(cols, vals, need):
    """The two arrays, longer if they have no room for ``need`` entries."""
    if need <= cols.shape[0]:
        return cols, vals
    return _longer(cols, need), _longer(vals, need)


@njit(cache=True, nogil=True)
def _merge_row(cols, vals, start, length, mark, slot):
    """Merge parallel entries of a row in place, leave out eliminated nodes; returns its new length.

    ``slot`` is scratch that holds -1 everywhere, before and after.
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


@njit(cache=True, nogil=True)
def _load_rows(indptr, indices, weight, lo, mark):
    """Rows (local ids) of dropped nodes that have dropped neighbours, each with room to grow."""
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


@njit(cache=True, nogil=True)
def _inverse(vals, lo, hi):
    """One over the sum, or 0 where positive and negative weights cancel: such a node joins nothing."""
    total = 0.0
    scale = 0.0
    for e in range(lo, hi):
        total += vals[e]
        scale += abs(vals[e])
    return 1.0 / total if abs(total) > 1e-12 * scale else 0.0


@njit(cache=True, nogil=True)
def _join(q, inv, start, length, room, cols, vals, used, mark, slot):
    """Add the mesh of ``q`` to the rows of its live neighbours; returns the (maybe moved) pool."""
    lo, hi = start[q], start[q] + length[q]
    for e in range(lo, hi):
        v = cols[e]
        if mark[v] != _LIVE:
            continue
        if length[v] + hi - lo > room[v]:
            length[v] = _merge_row(cols, vals, start[v], length[v], mark, slot)
        if length[v] + hi - lo > room[v]:
            room[v] = 2 * (length[v] + hi - lo)
            cols, vals = _grow_buffers(cols, vals, used + room[v])
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


@njit(cache=True, nogil=True)
def _rest(indptr, indices, weight, lo, mark, start, length, cols, vals, slot):
    """Rows of the nodes that are still live: nodes, offsets, columns, values."""
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


@njit(cache=True, nogil=True)
def _eliminate(indptr, indices, weight, lo, mark, budget, cells):
    """Eliminate the live nodes of the graph that starts at ``lo``, those with few neighbours first.

    Returns the rows at their elimination (offsets, kept columns, values), one over their sums, and the
    rows that are left when the work or the memory is used up. Ids are local; ``mark`` is changed.
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
            # All neighbours are kept: nothing to update, the row is final as it stands.
            work += degree * degree
            f_inv[rows] = _inverse(weight, indptr[lo + i], indptr[lo + i + 1])
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
        if work > budget or used > cells:
            break
        mark[q] = _GONE
        inv = _inverse(vals, start[q], start[q] + length[q])
        f_cols, f_vals = _grow_buffers(f_cols, f_vals, size + length[q])
        for e in range(start[q], start[q] + length[q]):
            if mark[cols[e]] == _KEPT:
                f_cols[size] = cols[e]
                f_vals[size] = vals[e]
                size += 1
        f_inv[rows] = inv
        rows += 1
        f_ptr[rows] = size
        cols, vals, used = _join(q, inv, start, length, room, cols, vals, used, mark, slot)
        if pending + length[q] > heap.shape[0]:
            heap = _longer(heap, pending + length[q])
        for e in range(start[q], start[q] + length[q]):
            v = cols[e]
            if mark[v] == _LIVE:
                _heap_push(heap, pending, (length[v] << 32) | v)
                pending += 1
    rest = _rest(indptr, indices, weight, lo, mark, start, length, cols, vals, slot)
    return f_ptr[: rows + 1], f_cols[:size], f_vals[:size], f_inv[:rows], rest


@njit(cache=True, nogil=True)
def _append(ptr, cols, vals, rows, more_ptr, more_cols, more_vals, shift):
    """Add rows behind ``rows`` others, their columns shifted."""
    count = more_ptr.shape[0] - 1
    size = ptr[rows]
    if rows + count + 1 > ptr.shape[0]:
        ptr = _longer(ptr, rows + count + 1)
    cols, vals = _grow_buffers(cols, vals, size + more_cols.shape[0])
    for r in range(count):
        ptr[rows + 1 + r] = size + more_ptr[r + 1]
    for e in range(more_cols.shape[0]):
        cols[size + e] = more_cols[e] + shift
        vals[size + e] = more_vals[e]
    return ptr, cols, vals


@njit(cache=True, nogil=True)
def _marks(kept, lo, hi):
    """Marks of a graph's nodes before elimination."""
    mark = np.empty(hi - lo, np.int8)
    for i in range(lo, hi):
        mark[i - lo] = _KEPT if kept[i] else _LIVE
    return mark


@njit(cache=True, nogil=True)
def eliminate(indptr, indices, weight, node_ptr, kept, exact_work, first_work):
    """Eliminate the nodes of every graph that are not kept.

    Work is the sum of squared row lengths. A graph that needs more than ``exact_work``, or too much
    memory, is done again up to ``first_work`` per stored entry only: what is left is for
    :mod:`tgp.kernels.kron_walk`. Walks need positive weights, so a graph with a negative weight goes all the way.

    Args:
        indptr, indices, weight: simple undirected graphs, see :mod:`tgp.kernels.undirected`.
        node_ptr: start of each graph.
        kept: ``[N]`` bool.
        exact_work: see above.
        first_work: see above.

    Returns:
        Eliminated rows (offsets, kept columns, values, one over the row sum), then rows that are
        left (node, offsets, columns, values) and how many each graph has of these. Ids are those of the block.
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
        work, cells = exact_work, _CELLS + 4 * entries
        for e in range(indptr[lo], indptr[hi]):
            if weight[e] < 0.0:
                work, cells = _NO_LIMIT, _NO_LIMIT
                break
        mark = _marks(kept, lo, hi)
        ptr, cols, vals, inv, rest = _eliminate(indptr, indices, weight, lo, mark, work, cells)
        if rest[0].shape[0] > 0:
            mark = _marks(kept, lo, hi)
            ptr, cols, vals, inv, rest = _eliminate(
                indptr, indices, weight, lo, mark, first_work * entries, cells
            )
            left[g] = rest[0].shape[0]
            for r in range(left[g]):
                r_nodes[others + r] = rest[0][r] + lo
            r_ptr, r_cols, r_vals = _append(r_ptr, r_cols, r_vals, others, rest[1], rest[2], rest[3], lo)
            others += left[g]
        for r in range(inv.shape[0]):
            f_inv[rows + r] = inv[r]
        f_ptr, f_cols, f_vals = _append(f_ptr, f_cols, f_vals, rows, ptr, cols, vals, lo)
        rows += inv.shape[0]
    eliminated = (f_ptr[: rows + 1], f_cols[: f_ptr[rows]], f_vals[: f_ptr[rows]], f_inv[:rows])
    rest = (r_nodes[:others], r_ptr[: others + 1], r_cols[: r_ptr[others]], r_vals[: r_ptr[others]])
    return eliminated, rest, left
