"""Coarse graphs of a hard assignment: ``A' = S^T A S``, row after row.

Two passes. The first goes through the nodes in order and writes the entries of each, end points
replaced by their supernodes, behind those of the other members of its supernode: reads are sequential, which
is what counts when the numbering of a graph is scattered. The second sorts and merges each row through a set of
bits, one per column, which is read in order: no comparison is made, and none is guessed wrong. A row
whose columns are close together needs one word, others a tree of words; only a few entries far apart are
faster inserted one by one.

Sums are taken in a fixed order (members ascending, entries as stored), in float64: the result of a
graph does not depend on what else is in the block.

Two things that halve the time: large arrays are allocated by numpy and passed in, because numpy asks the
system for huge pages and numba does not; and positions are unsigned, because numba tests signed ones for
counting from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from tgp.kernels._prims import lowest_bit

__all__ = ["contract", "degree_norm", "filter_entries", "max_norm", "members_of"]

Array = npt.NDArray[Any]

# Codes of tgp.kernels.csr, repeated because numba does not notice edits across files.
_SUM, _MEAN, _MIN, _MAX, _MUL = 0, 1, 2, 3, 4

_U = np.uint64
_ONE = np.uint64(1)

_SIX, _TWELVE, _EIGHTEEN, _LAST = np.uint64(6), np.uint64(12), np.uint64(18), np.uint64(63)

_NEAR = 64
"""Columns of a row that span fewer than this are bits of one word."""

_FEW = 12
"""Rows up to this length are sorted by insertion where one word does not do."""

_MOST = 2**31 - 1


def contract(
    indptr: Array,
    indices: Array,
    weight: Array,
    weighted: bool,
    cluster: Array,
    num_supernodes: int,
    op: int,
    drop_loops: bool,
    tiny: float,
) -> tuple[Array, Array, Array]:
    """``(indptr, indices, weight)`` of the coarse block.

    Args:
        cluster: ``[N]`` int32 supernode of each node, ``-1`` drops a node and its edges.
        op: how parallel edges merge, a code of :mod:`tgp.kernels.csr`.
        drop_loops: leave out edges inside a supernode.
        tiny: leave out entries with ``|w| <= tiny``; negative keeps all.
    """
    if op == _MEAN and weighted:
        return _contract_mean(indptr, indices, weight, cluster, num_supernodes, drop_loops, tiny)
    size = len(indices)
    start = np.empty(num_supernodes, np.int64)
    stop = np.empty(num_supernodes, np.int64)
    cols = np.empty(size, np.int32)
    values = np.empty(size if weighted else 0)
    _gather(indptr, indices, weight, weighted, cluster, drop_loops, start, stop, cols, values)
    sums = np.empty(num_supernodes if weighted else 0)
    out_ptr = np.empty(num_supernodes + 1, np.int64)
    total = _merge_rows(start, stop, cols, values, weighted, op, tiny, sums, out_ptr)
    # Gives the unused end back without a copy.
    cols.resize(total, refcheck=False)
    values.resize(total if weighted else 0, refcheck=False)
    return out_ptr, cols, values


def _contract_mean(
    indptr: Array,
    indices: Array,
    weight: Array,
    cluster: Array,
    num_supernodes: int,
    drop_loops: bool,
    tiny: float,
) -> tuple[Array, Array, Array]:
    """Sums over counts. Rare enough that the kernels need not know it."""
    ones = np.ones(len(indices))
    rows = (True, cluster, num_supernodes, _SUM, drop_loops, -1.0)
    out_ptr, cols, total = contract(indptr, indices, weight, *rows)
    _, _, count = contract(indptr, indices, ones, *rows)
    return filter_entries(out_ptr, cols, total / count, True, False, tiny)


@njit(cache=True, nogil=True)
def members_of(cluster, num_supernodes):
    """``(member_ptr [K + 1], members)``: the nodes of each supernode, ascending; dropped ones nowhere."""
    ptr = np.zeros(num_supernodes + 1, np.int64)
    for i in range(cluster.shape[0]):
        if cluster[i] >= 0:
            ptr[cluster[i] + 1] += 1
    for c in range(num_supernodes):
        ptr[c + 1] += ptr[c]
    slot = ptr[:-1].copy()
    members = np.empty(ptr[-1], np.int32)
    for i in range(cluster.shape[0]):
        c = cluster[i]
        if c >= 0:
            members[slot[c]] = i
            slot[c] += 1
    return ptr, members


@njit(cache=True, nogil=True)
def _gather(indptr, indices, weight, weighted, cluster, drop_loops, start, stop, cols, values):
    """Put the renamed entries of row ``c`` at ``start[c]:stop[c]``."""
    num_supernodes = stop.shape[0]
    num_nodes = cluster.shape[0]
    stop[:] = 0
    for u in range(num_nodes):
        c = cluster[u]
        if c >= 0:
            stop[np.uint32(c)] += indptr[u + 1] - indptr[u]
    total = np.int64(0)
    for c in range(num_supernodes):
        start[c] = total
        total += stop[c]
        stop[c] = start[c]
    for u in range(num_nodes):
        c = cluster[u]
        if c < 0:
            continue
        slot = _U(stop[np.uint32(c)])
        skip = c if drop_loops else np.int32(-1)
        for e in range(_U(indptr[u]), _U(indptr[u + 1])):
            # Written first, counted if it stays: no branch to guess.
            d = cluster[np.uint32(indices[e])]
            cols[slot] = d
            if weighted:
                values[slot] = weight[e]
            slot += _U((d >= 0) & (d != skip))
        stop[np.uint32(c)] = slot


@njit(cache=True, nogil=True)
def _join(old, new, op):
    if op == _MIN:
        return min(old, new)
    if op == _MAX:
        return max(old, new)
    if op == _MUL:
        return old * new
    return old + new


@njit(cache=True, nogil=True)
def _merge_few(cols, values, weighted, op, tiny, lo, hi, first):
    """Insert the entries ``lo:hi`` one by one into a sorted row at ``first <= lo``; returns its end."""
    end = first
    for i in range(lo, hi):
        col = cols[i]
        at = end
        while at > first and cols[at - _ONE] > col:
            at -= _ONE
        if at > first and cols[at - _ONE] == col:
            if weighted:
                values[at - _ONE] = _join(values[at - _ONE], values[i], op)
            continue
        w = values[i] if weighted else 0.0
        j = end
        while j > at:
            cols[j] = cols[j - _ONE]
            if weighted:
                values[j] = values[j - _ONE]
            j -= _ONE
        cols[at] = col
        if weighted:
            values[at] = w
        end += _ONE
    if not weighted:
        return end
    at = first
    for i in range(first, end):
        w = values[i]
        cols[at] = cols[i]
        values[at] = w
        at += _U(not abs(w) <= tiny)
    return at


@njit(cache=True, nogil=True)
def _merge_near(cols, values, weighted, op, tiny, lo, hi, first, low, sums):
    """The same for entries whose columns lie in ``low:low + 64``: they are the bits of one word."""
    found = _U(0)
    for i in range(lo, hi):
        bit = _U(cols[i] - low)
        if weighted:
            w = values[i]
            sums[bit] = _join(sums[bit], w, op) if (found >> bit) & _ONE else w
        found |= _ONE << bit
    at = first
    while found:
        bit = lowest_bit(found)
        found &= found - _ONE
        cols[at] = low + np.int32(bit)
        if weighted:
            values[at] = sums[bit]
            at += _U(not abs(sums[bit]) <= tiny)
        else:
            at += _ONE
    return at


@njit(cache=True, nogil=True)
def _merge_far(cols, values, weighted, op, tiny, lo, hi, first, low, high, bits, words, pages, sums):
    """The same for any columns between ``low`` and ``high``.

    A column is a bit of ``bits``. ``words`` tells which words of ``bits`` are not zero, ``pages`` which words
    of ``words``: what is set is found, in order, without a look at what is not. Everything is zero again at the end.
    """
    for i in range(lo, hi):
        col = _U(cols[i])
        word, page = col >> _SIX, col >> _TWELVE
        bit = _ONE << (col & _LAST)
        old = bits[word]
        if weighted:
            w = values[i]
            sums[col] = _join(sums[col], w, op) if old & bit else w
        bits[word] = old | bit
        words[page] |= _ONE << (word & _LAST)
        pages[page >> _SIX] |= _ONE << (page & _LAST)
    at = first
    for book in range(_U(low) >> _EIGHTEEN, (_U(high) >> _EIGHTEEN) + _ONE):
        in_book = pages[book]
        pages[book] = _U(0)
        while in_book:
            page = (book << _SIX) | lowest_bit(in_book)
            in_book &= in_book - _ONE
            in_page = words[page]
            words[page] = _U(0)
            while in_page:
                word = (page << _SIX) | lowest_bit(in_page)
                in_page &= in_page - _ONE
                in_word = bits[word]
                bits[word] = _U(0)
                while in_word:
                    col = (word << _SIX) | lowest_bit(in_word)
                    in_word &= in_word - _ONE
                    cols[at] = np.int32(col)
                    if weighted:
                        values[at] = sums[col]
                        at += _U(not abs(sums[col]) <= tiny)
                    else:
                        at += _ONE
    return at


@njit(cache=True, nogil=True)
def _merge_rows(start, stop, cols, values, weighted, op, tiny, sums, out_ptr):
    """Merge every row and close the gaps between them, in place; returns the number of entries."""
    size = stop.shape[0]
    bits = np.zeros((size >> 6) + 1, np.uint64)
    words = np.zeros((size >> 12) + 1, np.uint64)
    pages = np.zeros((size >> 18) + 1, np.uint64)
    near = np.empty(_NEAR)
    slot = _U(0)
    out_ptr[0] = 0
    for c in range(size):
        lo, hi = _U(start[c]), _U(stop[c])
        low, high = np.int32(_MOST), np.int32(-1)
        for i in range(lo, hi):
            low = min(low, cols[i])
            high = max(high, cols[i])
        if high - low < _NEAR:
            slot = _merge_near(cols, values, weighted, op, tiny, lo, hi, slot, low, near)
        elif hi - lo <= _FEW:
            slot = _merge_few(cols, values, weighted, op, tiny, lo, hi, slot)
        else:
            slot = _merge_far(
                cols, values, weighted, op, tiny, lo, hi, slot, low, high, bits, words, pages, sums
            )
        out_ptr[c + 1] = slot
    return np.int64(slot)


@njit(cache=True, nogil=True)
def filter_entries(indptr, indices, weight, weighted, drop_loops, tiny):
    """The block without self loops (if ``drop_loops``) and without ``|w| <= tiny`` (if ``tiny >= 0``)."""
    num_nodes = indptr.shape[0] - 1
    out_ptr = np.empty(num_nodes + 1, np.int64)
    out_ptr[0] = 0
    cols = np.empty(indices.shape[0], np.int32)
    values = np.empty(indices.shape[0] if weighted else 0, np.float64)
    slot = np.int64(0)
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            if drop_loops and indices[e] == i:
                continue
            if weighted:
                if abs(weight[e]) <= tiny:
                    continue
                values[slot] = weight[e]
            cols[slot] = indices[e]
            slot += 1
        out_ptr[i + 1] = slot
    return out_ptr, cols[:slot].copy(), values[: slot if weighted else 0].copy()


@njit(cache=True, nogil=True)
def degree_norm(indptr, indices, weight):
    """``w_ij / sqrt(d_i d_j)`` with ``d`` the row sums; a node with ``d <= 0`` has factor 0."""
    num_nodes = indptr.shape[0] - 1
    factor = np.zeros(num_nodes, np.float64)
    for i in range(num_nodes):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += weight[e]
        if total > 0.0:
            factor[i] = 1.0 / np.sqrt(total)
    out = np.empty(weight.shape[0], np.float64)
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            out[e] = weight[e] * factor[i] * factor[indices[e]]
    return out


@njit(cache=True, nogil=True)
def max_norm(edge_ptr, weight):
    """Weights divided by the largest ``|w|`` of their graph; an all-zero graph stays."""
    out = np.empty(weight.shape[0], np.float64)
    for g in range(edge_ptr.shape[0] - 1):
        largest = 0.0
        for e in range(edge_ptr[g], edge_ptr[g + 1]):
            largest = max(largest, abs(weight[e]))
        if largest == 0.0:
            largest = 1.0
        for e in range(edge_ptr[g], edge_ptr[g + 1]):
            out[e] = weight[e] / largest
    return out
