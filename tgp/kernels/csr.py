"""Edge lists to compressed rows, and what is done to rows: transpose, merge, mirror, components.

Everything is linear in nodes + entries. Rows are sorted by column on the way in (edge lists need not be)
and on the way out. ``weight`` is an empty array where ``weighted`` is false. Large arrays are allocated
by numpy, which asks the system for huge pages, and passed in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
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

Array = npt.NDArray[Any]

SUM, MEAN, MIN, MAX, MUL = 0, 1, 2, 3, 4
"""Codes of the ways to merge parallel edges."""

BAD_ROW, BAD_COL, CROSSING = 1, 2, 3
"""Findings of :func:`check_edges`."""

_U = np.uint64
_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def _graph_of(node_ptr, node):
    """The graph that owns ``node``, by bisection."""
    low, high = 0, node_ptr.shape[0] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if node_ptr[middle] <= node:
            low = middle
        else:
            high = middle
    return low


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
                # Rows mostly come graph after graph: try the next one before a search.
                graph += 1
                if graph + 1 >= node_ptr.shape[0] or r < node_ptr[graph] or r >= node_ptr[graph + 1]:
                    graph = _graph_of(node_ptr, r)
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
    order = np.arange(rows.shape[0])
    _, order = _order_by(cols, order, num_nodes)
    return _order_by(rows, order, num_nodes)


def build_rows(
    rows: Array, cols: Array, weight: Array, weighted: bool, num_nodes: int
) -> tuple[Array, Array, Array]:
    """``(indptr, indices, weight)`` of an edge list whose ids were checked; parallel edges keep their order."""
    size = len(rows)
    indptr = np.empty(num_nodes + 1, np.int64)
    if _row_starts(rows, cols, indptr):
        return indptr, cols.astype(np.int32), weight.copy()
    # Put in order by column; the transpose of that is in order by row, then column.
    by_col = np.empty(size, np.int32)
    values = np.empty(size if weighted else 0)
    _group(cols, rows, weight, weighted, indptr, by_col, values)
    return transpose(indptr, by_col, values, weighted)


@njit(cache=True, nogil=True)
def _row_starts(rows, cols, indptr):
    """Fill ``indptr`` if entries are sorted by row, then column; returns whether they are."""
    size = rows.shape[0]
    for e in range(1, size):
        if rows[e] < rows[e - 1] or (rows[e] == rows[e - 1] and cols[e] < cols[e - 1]):
            return False
    row = np.int64(0)
    for e in range(size):
        while row <= rows[e]:
            indptr[row] = e
            row += 1
    indptr[row:] = size
    return True


@njit(cache=True, nogil=True)
def _group(keys, payload, weight, weighted, ptr, out, values):
    """Stable counting sort of ``payload`` and weights by ``keys``; fills the offsets ``ptr``."""
    ptr[:] = 0
    for e in range(keys.shape[0]):
        ptr[_U(keys[e] + 1)] += 1
    for k in range(ptr.shape[0] - 1):
        ptr[k + 1] += ptr[k]
    # ptr[k] serves as the cursor of group k and ends as the start of group k + 1.
    for e in range(keys.shape[0]):
        slot = _U(ptr[_U(keys[e])])
        out[slot] = payload[e]
        if weighted:
            values[slot] = weight[e]
        ptr[_U(keys[e])] = slot + _ONE
    for k in range(ptr.shape[0] - 1, 0, -1):
        ptr[k] = ptr[k - 1]
    ptr[0] = 0


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


def transpose(indptr: Array, indices: Array, weight: Array, weighted: bool) -> tuple[Array, Array, Array]:
    """``(indptr, indices, weight)`` of the transposed matrix; parallel entries keep their order."""
    out_ptr = np.empty(len(indptr), np.int64)
    out = np.empty(len(indices), np.int32)
    values = np.empty(len(indices) if weighted else 0)
    _transpose(indptr, indices, weight, weighted, out_ptr, out, values)
    return out_ptr, out, values


@njit(cache=True, nogil=True)
def _transpose(indptr, indices, weight, weighted, out_ptr, out, values):
    num_nodes = indptr.shape[0] - 1
    out_ptr[:] = 0
    for e in range(indices.shape[0]):
        out_ptr[np.uint32(indices[e]) + _ONE] += 1
    for i in range(num_nodes):
        out_ptr[i + 1] += out_ptr[i]
    for i in range(num_nodes):
        for e in range(_U(indptr[i]), _U(indptr[i + 1])):
            slot = _U(out_ptr[np.uint32(indices[e])])
            out[slot] = i
            if weighted:
                values[slot] = weight[e]
            out_ptr[np.uint32(indices[e])] = slot + _ONE
    for i in range(num_nodes, 0, -1):
        out_ptr[i] = out_ptr[i - 1]
    out_ptr[0] = 0


@njit(cache=True, nogil=True)
def _merge(old, new, op):
    if op == MIN:
        return min(old, new)
    if op == MAX:
        return max(old, new)
    if op == MUL:
        return old * new
    return old + new


def coalesce(
    indptr: Array, indices: Array, weight: Array, weighted: bool, op: int
) -> tuple[Array, Array, Array]:
    """``(indptr, indices, weight)`` with parallel entries merged by ``op``, in their stored order."""
    out_ptr = np.empty(len(indptr), np.int64)
    out = np.empty(len(indices), np.int32)
    values = np.empty(len(indices) if weighted else 0)
    total = _coalesce(indptr, indices, weight, weighted, op, out_ptr, out, values)
    out.resize(total, refcheck=False)
    values.resize(total if weighted else 0, refcheck=False)
    return out_ptr, out, values


@njit(cache=True, nogil=True)
def _coalesce(indptr, indices, weight, weighted, op, out_ptr, out, values):
    slot = np.int64(-1)
    out_ptr[0] = 0
    for i in range(indptr.shape[0] - 1):
        copies = 1
        for e in range(indptr[i], indptr[i + 1]):
            if e > indptr[i] and indices[e] == indices[e - 1]:
                copies += 1
                if weighted:
                    values[slot] = _merge(values[slot], weight[e], op)
                continue
            if weighted and op == MEAN and copies > 1:
                values[slot] /= copies
            copies = 1
            slot += 1
            out[slot] = indices[e]
            if weighted:
                values[slot] = weight[e]
        if weighted and op == MEAN and copies > 1:
            values[slot] /= copies
        out_ptr[i + 1] = slot + 1
    return slot + 1


def symmetrise(
    indptr: Array, indices: Array, weight: Array, weighted: bool, op: int
) -> tuple[Array, Array, Array]:
    """``(indptr, indices, weight)`` of the edges and their mirror images, merged by ``op``.

    ``op`` is ``MAX`` or ``SUM``; parallel and opposite edges merge alike. A self loop is its own mirror
    image and counts once.
    """
    back_ptr, back, back_weight = transpose(indptr, indices, weight, weighted)
    out_ptr = np.empty(len(indptr), np.int64)
    out = np.empty(2 * len(indices), np.int32)
    values = np.empty(2 * len(indices) if weighted else 0)
    total = _union(indptr, indices, weight, back_ptr, back, back_weight, weighted, op, out_ptr, out, values)
    out.resize(total, refcheck=False)
    values.resize(total if weighted else 0, refcheck=False)
    return out_ptr, out, values


@njit(cache=True, nogil=True)
def _union(indptr, indices, weight, back_ptr, back, back_weight, weighted, op, out_ptr, out, values):
    slot = np.int64(-1)
    out_ptr[0] = 0
    for i in range(indptr.shape[0] - 1):
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
        out_ptr[i + 1] = slot + 1
    return slot + 1


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
