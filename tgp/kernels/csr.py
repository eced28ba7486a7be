"""Edge lists to compressed rows, and what is done to rows: transpose, merge, mirror, components.

Everything is linear in nodes + entries. Rows are sorted by column on the way in (except for
:func:`sort_edges`) and on the way out. ``weight`` is an empty array where ``weighted`` is false.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tgp.kernels._prims import scan, uf_find, uf_union

__all__ = [
    "BAD_COL",
    "BAD_ROW",
    "CROSSING",
    "MAX",
    "MEAN",
    "MIN",
    "MUL",
    "SUM",
    "build_rows",
    "check_edges",
    "coalesce",
    "components",
    "is_symmetric",
    "row_ids",
    "sort_edges",
    "symmetrise",
    "take_graphs",
    "transpose",
]

SUM, MEAN, MIN, MAX, MUL = 0, 1, 2, 3, 4
"""Codes of the ways to merge parallel edges."""

BAD_ROW, BAD_COL, CROSSING = 1, 2, 3
"""Findings of :func:`check_edges`."""


@njit(cache=True, nogil=True)
def check_edges(rows, cols, node_ptr):
    """Return ``(finding, position)`` of the first bad edge, ``(0, -1)`` if all are good."""
    num_nodes = node_ptr[-1]
    many = node_ptr.shape[0] > 2
    graph = 0
    for e in range(rows.shape[0]):
        r = rows[e]
        c = cols[e]
        if r < 0 or r >= num_nodes:
            return BAD_ROW, e
        if c < 0 or c >= num_nodes:
            return BAD_COL, e
        if many:
            if r < node_ptr[graph] or r >= node_ptr[graph + 1]:
                # Rows mostly come graph after graph: try the next one before a binary search.
                graph += 1
                if graph + 1 >= node_ptr.shape[0] or r < node_ptr[graph] or r >= node_ptr[graph + 1]:
                    graph = np.searchsorted(node_ptr, r, side="right") - 1
            if c < node_ptr[graph] or c >= node_ptr[graph + 1]:
                return CROSSING, e
    return 0, -1


@njit(cache=True, nogil=True)
def _order_by(keys, order, num_keys):
    """Stable counting sort of ``order`` by ``keys[order]``; returns the offsets and the new order."""
    counts = np.zeros(num_keys, np.int64)
    for e in range(keys.shape[0]):
        counts[keys[e]] += 1
    ptr = scan(counts)
    for k in range(num_keys):
        counts[k] = ptr[k]
    out = np.empty(order.shape[0], np.int64)
    for i in range(order.shape[0]):
        k = keys[order[i]]
        out[counts[k]] = order[i]
        counts[k] += 1
    return ptr, out


@njit(cache=True, nogil=True)
def sort_edges(rows, cols, num_nodes):
    """Return ``indptr`` and the stable order that sorts entries by row, then column."""
    size = rows.shape[0]
    order = np.arange(size)
    by_row = True
    by_both = True
    for e in range(1, size):
        if rows[e] < rows[e - 1]:
            by_row = False
            by_both = False
            break
        if rows[e] == rows[e - 1] and cols[e] < cols[e - 1]:
            by_both = False
    if by_both and by_row:
        counts = np.zeros(num_nodes, np.int64)
        for e in range(size):
            counts[rows[e]] += 1
        return scan(counts), order
    _, order = _order_by(cols, order, num_nodes)
    return _order_by(rows, order, num_nodes)


@njit(cache=True, nogil=True)
def build_rows(rows, cols, weight, weighted, num_nodes):
    """``(indptr, indices, weight)`` of an edge list whose ids were checked."""
    indptr, order = sort_edges(rows, cols, num_nodes)
    size = rows.shape[0]
    indices = np.empty(size, np.int32)
    values = np.empty(size if weighted else 0, np.float64)
    for i in range(size):
        indices[i] = cols[order[i]]
    if weighted:
        for i in range(size):
            values[i] = weight[order[i]]
    return indptr, indices, values


@njit(cache=True, nogil=True)
def row_ids(indptr):
    """``[nnz]`` int32 row of each entry."""
    out = np.empty(indptr[-1], np.int32)
    for i in range(indptr.shape[0] - 1):
        for e in range(indptr[i], indptr[i + 1]):
            out[e] = i
    return out


@njit(cache=True, nogil=True)
def take_graphs(indptr, indices, weight, weighted, node_ptr, ids):
    """``(indptr, indices, weight, node_ptr)`` of the graphs ``ids``, in that order."""
    new_ptr = np.empty(ids.shape[0] + 1, np.int64)
    new_ptr[0] = 0
    entries = np.int64(0)
    for i in range(ids.shape[0]):
        lo, hi = node_ptr[ids[i]], node_ptr[ids[i] + 1]
        new_ptr[i + 1] = new_ptr[i] + hi - lo
        entries += indptr[hi] - indptr[lo]
    new_indptr = np.empty(new_ptr[-1] + 1, np.int64)
    new_indptr[0] = 0
    new_indices = np.empty(entries, np.int32)
    values = np.empty(entries if weighted else 0, np.float64)
    row = np.int64(0)
    pos = np.int64(0)
    for i in range(ids.shape[0]):
        lo, hi = node_ptr[ids[i]], node_ptr[ids[i] + 1]
        shift = new_ptr[i] - lo
        start = indptr[lo]
        for u in range(lo, hi):
            row += 1
            new_indptr[row] = pos + indptr[u + 1] - start
        stop = indptr[hi]
        for e in range(start, stop):
            new_indices[pos + e - start] = indices[e] + shift
        if weighted:
            for e in range(start, stop):
                values[pos + e - start] = weight[e]
        pos += stop - start
    return new_indptr, new_indices, values, new_ptr


@njit(cache=True, nogil=True)
def transpose(indptr, indices, weight, weighted):
    """``(indptr, indices, weight)`` of the transposed matrix; parallel entries keep their order."""
    num_nodes = indptr.shape[0] - 1
    size = indices.shape[0]
    counts = np.zeros(num_nodes, np.int64)
    for e in range(size):
        counts[indices[e]] += 1
    out_ptr = scan(counts)
    out = np.empty(size, np.int32)
    values = np.empty(size if weighted else 0, np.float64)
    for i in range(num_nodes):
        counts[i] = out_ptr[i]
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            slot = counts[indices[e]]
            counts[indices[e]] += 1
            out[slot] = i
            if weighted:
                values[slot] = weight[e]
    return out_ptr, out, values


@njit(cache=True, nogil=True)
def _merge(old, new, op):
    if op == MIN:
        return min(old, new)
    if op == MAX:
        return max(old, new)
    if op == MUL:
        return old * new
    return old + new


@njit(cache=True, nogil=True)
def coalesce(indptr, indices, weight, weighted, op):
    """Merge parallel entries by ``op``, in their stored order."""
    num_nodes = indptr.shape[0] - 1
    counts = np.zeros(num_nodes, np.int64)
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            if e == indptr[i] or indices[e] != indices[e - 1]:
                counts[i] += 1
    out_ptr = scan(counts)
    out = np.empty(out_ptr[-1], np.int32)
    values = np.empty(out_ptr[-1] if weighted else 0, np.float64)
    for i in range(num_nodes):
        slot = out_ptr[i] - 1
        copies = 0
        for e in range(indptr[i], indptr[i + 1]):
            if e == indptr[i] or indices[e] != indices[e - 1]:
                if weighted and op == MEAN and copies > 1:
                    values[slot] /= copies
                slot += 1
                copies = 1
                out[slot] = indices[e]
                if weighted:
                    values[slot] = weight[e]
            else:
                copies += 1
                if weighted:
                    values[slot] = _merge(values[slot], weight[e], op)
        if weighted and op == MEAN and copies > 1:
            values[slot] /= copies
    return out_ptr, out, values


@njit(cache=True, nogil=True)
def symmetrise(indptr, indices, weight, weighted, op):
    """Union of the edges and their mirror images; parallel and opposite edges merge by ``op``.

    ``op`` is ``MAX`` or ``SUM``. A self loop is its own mirror image and counts once.
    """
    back_ptr, back, back_weight = transpose(indptr, indices, weight, weighted)
    num_nodes = indptr.shape[0] - 1
    counts = np.zeros(num_nodes, np.int64)
    size = 2 * indices.shape[0]
    out = np.empty(size, np.int32)
    values = np.empty(size if weighted else 0, np.float64)
    slot = np.int64(-1)
    for i in range(num_nodes):
        a, a_end = indptr[i], indptr[i + 1]
        b, b_end = back_ptr[i], back_ptr[i + 1]
        first = slot + 1
        while a < a_end or b < b_end:
            if b >= b_end or (a < a_end and indices[a] <= back[b]):
                col = indices[a]
                w = weight[a] if weighted else 1.0
                a += 1
            else:
                col = back[b]
                w = back_weight[b] if weighted else 1.0
                b += 1
                if col == i:
                    continue
            if slot < first or out[slot] != col:
                slot += 1
                out[slot] = col
                if weighted:
                    values[slot] = w
            elif weighted:
                values[slot] = _merge(values[slot], w, op)
        counts[i] = slot + 1 - first
    return scan(counts), out[: slot + 1].copy(), values[: slot + 1].copy()


@njit(cache=True, nogil=True)
def is_symmetric(indptr, indices):
    """Whether every edge has its mirror image with the same multiplicity; weights do not matter."""
    num_nodes = indptr.shape[0] - 1
    cursor = indptr[:-1].copy()
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            # Rows come in ascending order, so the mirror image must be the next entry of row j.
            if cursor[j] >= indptr[j + 1] or indices[cursor[j]] != i:
                return False
            cursor[j] += 1
    return True


@njit(cache=True, nogil=True)
def components(indptr, indices, node_ptr):
    """Weakly connected components: ``(component [N] int32, component_ptr [B + 1])``.

    Components are numbered through the block, graph after graph, by smallest member.
    """
    num_nodes = indptr.shape[0] - 1
    parent = np.arange(num_nodes)
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            uf_union(parent, i, indices[e])
    label = np.empty(num_nodes, np.int32)
    ptr = np.empty(node_ptr.shape[0], np.int64)
    ptr[0] = 0
    count = np.int64(0)
    for g in range(node_ptr.shape[0] - 1):
        for i in range(node_ptr[g], node_ptr[g + 1]):
            root = uf_find(parent, i)
            if root == i:
                label[i] = count
                count += 1
            else:
                label[i] = label[root]
        ptr[g + 1] = count
    return label, ptr
