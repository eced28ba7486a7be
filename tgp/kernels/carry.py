"""Reductions of attributes over the members of supernodes and coarse edges.

Members are given as a segment per row: the supernode of each node, or the coarse edge of each edge, -1 if it has none. Sums are
computed in float64, row after row. The result of a segment does not depend on the other segments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.kernels._prims import kernel
from tgp.kernels._vectors import add_four, clear_four, prefetch, store_four
from tgp.kernels.array_types import FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["add_rows", "count_majority", "find_edges", "group_rows", "sum_edges"]

_U = np.uint64
_ONE, _FOUR = np.uint64(1), np.uint64(4)

_AHEAD = np.uint64(8)
"""Number of nodes between the one whose edges are read and the one whose edges are requested from memory."""

_LINE, _MAX_BYTES = 64, 4096
"""Size of a line of the cache, and the largest part of a row that is requested."""


@kernel
def group_rows(segment: PtrArray, ptr: PtrArray, order: PtrArray) -> None:
    """Write the rows of each segment in ascending order.

    Args:
        segment: ``[M]`` segment of each row; -1 leaves a row out.
        ptr: ``[K + 1]`` zeros on entry, overwritten with the offsets of the segments in ``order``.
        order: ``[M]`` or at least as long as the number of rows with a segment, overwritten with the rows.
    """
    num_segments = ptr.shape[0] - 1
    for i in range(segment.shape[0]):
        if segment[i] >= 0:
            ptr[_U(segment[i]) + _ONE] += 1
    for s in range(num_segments):
        ptr[s + 1] += ptr[s]
    # ptr[s] serves as the write position of segment s and ends as the start of segment s + 1.
    for i in range(segment.shape[0]):
        if segment[i] >= 0:
            s = _U(segment[i])
            at = _U(ptr[s])
            order[at] = i
            ptr[s] = at + _ONE
    for s in range(num_segments, 0, -1):
        ptr[s] = ptr[s - 1]
    ptr[0] = 0


@kernel
def add_rows(
    values: MatrixArray, segment: PtrArray, weight: FloatArray, weighted: bool, out: MatrixArray
) -> None:
    """Add the rows of each segment to ``out``.

    Args:
        values: ``[M, D]`` rows.
        segment: ``[M]`` segment of each row; -1 leaves a row out.
        weight: ``[M]`` factor of each row, or an empty array if ``weighted`` is false. A row of weight 0 is left out.
        out: ``[K, D]`` sums so far.
    """
    num_columns = _U(values.shape[1])
    for i in range(_U(values.shape[0])):
        if segment[i] < 0 or (weighted and weight[i] == 0.0):
            continue
        s = _U(segment[i])
        for d in range(num_columns):
            out[s, d] += weight[i] * values[i, d] if weighted else values[i, d]


@kernel
def count_majority(
    code: PtrArray, ptr: PtrArray, order: PtrArray, count: PtrArray, winner: PtrArray, votes: PtrArray
) -> None:
    """Write the most frequent code of each segment, the smallest one of equally frequent ones.

    Args:
        code: ``[M]`` code of each row, from 0 on.
        ptr, order: rows of each segment, from :func:`group_rows`.
        count: ``[C]`` zeros, one for each code; zeros again on return.
        winner: ``[K]`` output, -1 for an empty segment.
        votes: ``[K]`` output, number of rows with that code.
    """
    for s in range(ptr.shape[0] - 1):
        best, most = np.int64(-1), np.int64(0)
        for i in range(_U(ptr[s]), _U(ptr[s + 1])):
            c = code[_U(order[i])]
            count[_U(c)] += 1
            if count[_U(c)] > most or (count[_U(c)] == most and c < best):
                best, most = c, count[_U(c)]
        for i in range(_U(ptr[s]), _U(ptr[s + 1])):
            count[_U(code[_U(order[i])])] = 0
        winner[s] = best
        votes[s] = most


@kernel(inner=True)
def _gather_columns(indices: IndexArray, cluster: IndexArray, columns: IndexArray) -> None:
    """Write the supernode of the target of each edge. Reading ahead in a short loop is faster than in the rows."""
    for e in range(_U(indices.shape[0])):
        columns[e] = cluster[np.uint32(indices[e])]


@kernel(inner=True)
def _prefetch_member(
    indptr: PtrArray,
    columns: IndexArray,
    members: PtrArray,
    m: np.uint64,
    rows: npt.NDArray[Any],
    width: np.uint64,
) -> None:
    """Request the edges of a later node from memory. Nodes of a supernode lie far apart, and waiting for them is most of the time.

    Args:
        indptr, columns, members: as in :func:`find_edges`.
        m: position in ``members`` of the node that is read now.
        rows: ``[E * width]`` values of the edges.
        width: number of values of an edge.
    """
    if m + _AHEAD + _AHEAD >= _U(members.shape[0]):
        return
    prefetch(indptr, _U(members[m + _AHEAD + _AHEAD]))
    u = _U(members[m + _AHEAD])
    low, high = _U(indptr[u]), _U(indptr[u + _ONE])
    prefetch(columns, low)
    prefetch(columns, high)
    low, high = low * width, high * width
    high = min(high, low + _U(_MAX_BYTES // rows.itemsize))
    while low < high:
        prefetch(rows, low)
        low += _U(_LINE // rows.itemsize)


@kernel
def find_edges(
    indptr: PtrArray, indices: IndexArray, cluster: IndexArray, columns: IndexArray, member_ptr: PtrArray, members: PtrArray,
    coarse_ptr: PtrArray, coarse: IndexArray, slot: IndexArray, out: PtrArray,
) -> None:  # fmt: skip
    """Write the coarse edge between the supernodes of the ends of each edge.

    For each coarse row, the position of every entry is written to ``slot``, then the edges of the members look it up. This
    is linear in the number of edges. Entries of earlier rows need not be removed: their positions lie before the row.

    Args:
        indptr: ``[N + 1]`` offsets of the edges of each node.
        indices: ``[E]`` target of each edge.
        cluster: ``[N]`` supernode of each node, -1 for a dropped node.
        columns: ``[E]`` buffer, overwritten with the supernode of the target of each edge.
        member_ptr, members: nodes of each supernode, from :func:`group_rows`.
        coarse_ptr, coarse: rows of the coarse graphs. The last one of several parallel entries is found.
        slot: ``[K]`` filled with -1, of a type that holds positions in ``coarse``.
        out: ``[E]`` filled with -1, overwritten with the position in ``coarse`` if there is one.
    """
    _gather_columns(indices, cluster, columns)
    for c in range(coarse_ptr.shape[0] - 1):
        first = coarse_ptr[c]
        for i in range(_U(first), _U(coarse_ptr[c + 1])):
            slot[np.uint32(coarse[i])] = i
        for m in range(_U(member_ptr[c]), _U(member_ptr[c + 1])):
            u = _U(members[m])
            _prefetch_member(indptr, columns, members, _U(m), out, _ONE)
            for e in range(_U(indptr[u]), _U(indptr[u + _ONE])):
                if columns[e] >= 0:
                    found = slot[np.uint32(columns[e])]
                    out[e] = found if found >= first else -1


@kernel(inner=True)
def _add_row(
    rows: npt.NDArray[Any], low: np.uint64, total: FloatArray, at: np.uint64, width: np.uint64
) -> None:
    """Add ``rows[low : low + width]`` to ``total[at : at + width]``."""
    if width == _FOUR:  # without the loops
        add_four(rows, low, total, at)
        return
    end = low + width
    while low + _FOUR <= end:
        add_four(rows, low, total, at)
        low += _FOUR
        at += _FOUR
    while low < end:
        total[at] += rows[low]
        low += _ONE
        at += _ONE


@kernel(inner=True)
def _clear_row(total: FloatArray, at: np.uint64, width: np.uint64) -> None:
    """Set ``total[at : at + width]`` to zero."""
    if width == _FOUR:
        clear_four(total, at)
        return
    end = at + width
    while at + _FOUR <= end:
        clear_four(total, at)
        at += _FOUR
    while at < end:
        total[at] = 0.0
        at += _ONE


@kernel(inner=True)
def _store_row(
    total: FloatArray, at: np.uint64, out: npt.NDArray[Any], low: np.uint64, width: np.uint64
) -> None:
    """Copy ``total[at : at + width]`` to ``out[low : low + width]``."""
    if width == _FOUR:
        store_four(total, at, out, low)
        return
    end = at + width
    while at + _FOUR <= end:
        store_four(total, at, out, low)
        at += _FOUR
        low += _FOUR
    while at < end:
        out[low] = total[at]
        at += _ONE
        low += _ONE


@kernel
def sum_edges(
    indptr: PtrArray, indices: IndexArray, cluster: IndexArray, columns: IndexArray, member_ptr: PtrArray, members: PtrArray,
    coarse_ptr: PtrArray, coarse: IndexArray, slot: IndexArray,
    values: MatrixArray, mean: bool, total: FloatArray, count: PtrArray, out: MatrixArray,
) -> None:  # fmt: skip
    """Write the sum or the mean of the edges of each coarse edge.

    The result equals that of :func:`find_edges` and :func:`add_rows`. It is computed row by row, so that the sums stay in the
    cache, and takes a fifth of the time. Edges without a coarse edge are added to an entry behind the row that is not
    read, because a branch would often be mispredicted.

    Args:
        indptr, indices, cluster, columns, member_ptr, members, coarse_ptr, coarse, slot: as in :func:`find_edges`.
        values: ``[E, D]`` rows of float32 or float64.
        mean: Divide the sums by the number of edges.
        total: Buffer for ``D`` sums of each entry of the longest coarse row, and of one more entry.
        count: Buffer for a number of each entry of the longest coarse row, and of one more entry.
        out: ``[coarse edges, D]`` output, of the type of the values.
    """
    _gather_columns(indices, cluster, columns)
    width = _U(values.shape[1])
    rows, result = values.reshape(values.size), out.reshape(out.size)
    for c in range(coarse_ptr.shape[0] - 1):
        first = coarse_ptr[c]
        length = _U(coarse_ptr[c + 1] - first)
        for q in range(length):
            slot[np.uint32(coarse[_U(first) + q])] = _U(first) + q
            count[q] = 0
            _clear_row(total, q * width, width)
        for m in range(_U(member_ptr[c]), _U(member_ptr[c + 1])):
            u = _U(members[m])
            _prefetch_member(indptr, columns, members, _U(m), rows, width)
            for e in range(_U(indptr[u]), _U(indptr[u + _ONE])):
                if columns[e] >= 0:
                    # A position before the row becomes a large number.
                    q = min(_U(np.int64(slot[np.uint32(columns[e])]) - first), length)
                    count[q] += 1
                    _add_row(rows, e * width, total, q * width, width)
        for q in range(length):
            if mean and count[q] > 1:
                for i in range(q * width, (q + _ONE) * width):
                    total[i] /= float(count[q])
            _store_row(total, q * width, result, (_U(first) + q) * width, width)
