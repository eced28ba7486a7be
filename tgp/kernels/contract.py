"""Coarse graphs of a hard assignment: ``A' = S^T A S``, row by row.

There are two passes. The first pass visits the nodes in order. It writes the entries of each node, with end points
replaced by supernodes, to the range of the node's supernode. Reads are sequential, which matters most if
the nodes of a graph are numbered at random. The second pass sorts and merges each row with a bit set over the columns.
Reading the set in order needs no comparisons, so there are no mispredicted branches. If the columns of a row lie
close together, the set is one word, otherwise a tree of words. A short row whose columns lie far apart is sorted by
insertion, which is faster.

Sums are computed in float64 and in a fixed order (members ascending, entries as stored). The result of a graph does
not depend on the other graphs of the block.

Two details halve the time. Large arrays are allocated by numpy and passed to the kernels, because numpy requests huge
pages and numba does not. Positions are unsigned, because numba checks signed ones for negative indices.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import MEAN, SUM, kernel, lowest_bit, merge_weights
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray, WordArray

__all__ = ["contract", "degree_norm", "filter_entries", "max_norm", "merge_columns", "merge_rows"]


_U = np.uint64
_ONE = np.uint64(1)

_SIX, _TWELVE, _EIGHTEEN, _LAST = np.uint64(6), np.uint64(12), np.uint64(18), np.uint64(63)

_WORD_BITS = 64
"""A row whose columns span fewer than this many ids is merged in one word."""

_INSERTION_LENGTH = 12
"""Longest row that is sorted by insertion if one word is not sufficient."""

_MAX_INT32 = 2**31 - 1


def contract(
    indptr: PtrArray,
    indices: IndexArray,
    weight: FloatArray,
    weighted: bool,
    cluster: IndexArray,
    num_supernodes: int,
    op: int,
    drop_loops: bool,
    tiny: float,
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return ``(indptr, indices, weight)`` of the coarse block; rows are sorted.

    Args:
        indptr, indices: Rows of the block.
        weight: ``[nnz]``, or an empty array if ``weighted`` is false.
        weighted: Compute weights.
        cluster: ``[N]``, supernode of each node; -1 removes a node and its edges.
        num_supernodes: Number of supernodes of the block.
        op: Code of the operation that merges parallel edges, see :mod:`tgp.kernels._prims`.
        drop_loops: Remove edges inside a supernode.
        tiny: Remove entries with ``|w| <= tiny``. A negative value keeps all entries.
    """
    if op == MEAN and weighted:
        return _contract_mean(indptr, indices, weight, cluster, num_supernodes, drop_loops, tiny)
    size = len(indices)
    start = np.empty(num_supernodes, np.int64)
    stop = np.zeros(num_supernodes, np.int64)
    cols = np.empty(size, np.int32)
    values = np.empty(size if weighted else 0)
    _collect_entries(indptr, indices, weight, weighted, cluster, drop_loops, start, stop, cols, values)
    sums = np.empty(max(num_supernodes, _WORD_BITS) if weighted else 0)
    out_ptr = np.zeros(num_supernodes + 1, np.int64)
    bits = np.zeros((num_supernodes >> 6) + 1, np.uint64)
    words = np.zeros((num_supernodes >> 12) + 1, np.uint64)
    pages = np.zeros((num_supernodes >> 18) + 1, np.uint64)
    total = merge_rows(start, stop, cols, values, weighted, op, tiny, bits, words, pages, sums, out_ptr)
    # Release the unused end without a copy.
    cols.resize(total, refcheck=False)
    values.resize(total if weighted else 0, refcheck=False)
    return out_ptr, cols, values


def _contract_mean(
    indptr: PtrArray,
    indices: IndexArray,
    weight: FloatArray,
    cluster: IndexArray,
    num_supernodes: int,
    drop_loops: bool,
    tiny: float,
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Divide sums by counts. This operation is rare, so the kernels do not support it."""
    ones = np.ones(len(indices))
    out_ptr, cols, total = contract(
        indptr, indices, weight, True, cluster, num_supernodes, SUM, drop_loops, -1.0
    )
    _, _, count = contract(indptr, indices, ones, True, cluster, num_supernodes, SUM, drop_loops, -1.0)
    return filter_entries(out_ptr, cols, total / count, True, False, tiny)


@kernel
def _collect_entries(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, cluster: IndexArray,
    drop_loops: bool, start: PtrArray, stop: PtrArray, cols: IndexArray, values: FloatArray,
) -> None:  # fmt: skip
    """Write the entries of supernode ``c``, not sorted, to ``cols`` and ``values`` at ``start[c]:stop[c]``.

    Writes ``start`` and ``stop`` ``[K]``, ``cols`` and ``values`` ``[nnz]``. ``stop`` is zero on entry. Columns are
    supernodes.
    """
    num_supernodes = stop.shape[0]
    num_nodes = cluster.shape[0]
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
            # Write each entry and advance only if it is valid. This avoids a branch that is often mispredicted.
            d = cluster[np.uint32(indices[e])]
            cols[slot] = d
            if weighted:
                values[slot] = weight[e]
            slot += _U((d >= 0) & (d != skip))
        stop[np.uint32(c)] = slot


@kernel
def merge_rows(
    start: PtrArray, stop: PtrArray, cols: IndexArray, values: FloatArray, weighted: bool, op: int, tiny: float,
    bits: WordArray, words: WordArray, pages: WordArray, sums: FloatArray, out_ptr: PtrArray,
) -> int:  # fmt: skip
    """Merge every row and remove the gaps between rows, in place; return the number of entries.

    A column is a bit of ``bits``. A bit of ``words`` marks a non-zero word of ``bits``, and a bit of ``pages`` marks a
    non-zero word of ``words``, so that columns are found in order without reading empty words. If the columns of a row lie
    in a range of 64, the bits are one word. The ways are written into one kernel, because a function for each takes twice
    the time to compile.

    Args:
        start, stop: ``[K]``, ranges of the rows in ``cols`` and ``values``.
        cols, values: Entries, overwritten by the merged rows.
        weighted, op, tiny: See :func:`contract`.
        bits, words, pages: Zeros, one bit for each supernode, word of ``bits`` and word of ``words``.
        sums: Scratch of at least ``K`` and 64 numbers, or empty if ``weighted`` is false.
        out_ptr: ``[K + 1]`` output: offsets of the merged rows. The first one is zero on entry.
    """
    slot = _U(0)
    for c in range(stop.shape[0]):
        lo, hi = _U(start[c]), _U(stop[c])
        low, high = np.int32(_MAX_INT32), np.int32(-1)
        for i in range(lo, hi):
            col = cols[i]
            if col < low:
                low = col
            if col > high:
                high = col
        first = slot
        if high - low < _WORD_BITS:
            found = _U(0)
            for i in range(lo, hi):
                bit = _U(cols[i] - low)
                if weighted:
                    w = values[i]
                    if (found >> bit) & _ONE:
                        w = merge_weights(sums[bit], w, op)
                    sums[bit] = w
                found |= _ONE << bit
            while found:
                bit = lowest_bit(found)
                found &= found - _ONE
                cols[slot] = low + np.int32(bit)
                if weighted:
                    values[slot] = sums[bit]
                slot += _ONE
        elif hi - lo <= _INSERTION_LENGTH:
            for i in range(lo, hi):
                col = cols[i]
                at = slot
                while at > first and cols[at - _ONE] > col:
                    at -= _ONE
                if at > first and cols[at - _ONE] == col:
                    if weighted:
                        values[at - _ONE] = merge_weights(values[at - _ONE], values[i], op)
                    continue
                w = values[i] if weighted else 0.0
                j = slot
                while j > at:
                    cols[j] = cols[j - _ONE]
                    if weighted:
                        values[j] = values[j - _ONE]
                    j -= _ONE
                cols[at] = col
                if weighted:
                    values[at] = w
                slot += _ONE
        else:
            for i in range(lo, hi):
                place = _U(cols[i])
                word, page = place >> _SIX, place >> _TWELVE
                bit = _ONE << (place & _LAST)
                old = bits[word]
                if weighted:
                    w = values[i]
                    if old & bit:
                        w = merge_weights(sums[place], w, op)
                    sums[place] = w
                bits[word] = old | bit
                words[page] |= _ONE << (word & _LAST)
                pages[page >> _SIX] |= _ONE << (page & _LAST)
            for book in range(_U(low) >> _EIGHTEEN, (_U(high) >> _EIGHTEEN) + _ONE):
                while pages[book]:
                    page = (book << _SIX) | lowest_bit(pages[book])
                    pages[book] &= pages[book] - _ONE
                    in_page = words[page]
                    words[page] = _U(0)
                    while in_page:
                        word = (page << _SIX) | lowest_bit(in_page)
                        in_page &= in_page - _ONE
                        in_word = bits[word]
                        bits[word] = _U(0)
                        while in_word:
                            place = (word << _SIX) | lowest_bit(in_word)
                            in_word &= in_word - _ONE
                            cols[slot] = np.int32(place)
                            if weighted:
                                values[slot] = sums[place]
                            slot += _ONE
        if weighted and tiny >= 0.0:
            end = slot
            slot = first
            for i in range(first, end):
                w = values[i]
                cols[slot] = cols[i]
                values[slot] = w
                slot += _U(not abs(w) <= tiny)
        out_ptr[c + 1] = slot
    num_entries: int = np.int64(slot)
    return num_entries


def merge_columns(
    start: PtrArray,
    stop: PtrArray,
    cols: IndexArray,
    values: FloatArray,
    weighted: bool,
    num_columns: int,
    op: int = SUM,
    tiny: float = -1.0,
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Sort the columns of each row and merge the values of equal ones; return ``(indptr, indices, values)``.

    Args:
        start, stop: ``[rows]``, ranges of the rows in ``cols``, ascending.
        cols: Columns of all rows, overwritten.
        values: Values of the entries, overwritten, or an empty array if ``weighted`` is false.
        weighted: Use the values.
        num_columns: Number of columns.
        op: Code of the operation that merges values, by default the sum. It is not ``MEAN``.
        tiny: Remove entries with ``|w| <= tiny``. A negative value keeps all entries.
    """
    out_ptr, sums = (
        np.zeros(len(start) + 1, np.int64),
        np.empty(max(num_columns, _WORD_BITS) if weighted else 0),
    )
    bits, words, pages = (np.zeros((num_columns >> shift) + 1, np.uint64) for shift in (6, 12, 18))
    total = merge_rows(start, stop, cols, values, weighted, op, tiny, bits, words, pages, sums, out_ptr)
    return out_ptr, cols[:total], values[:total]


def filter_entries(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, drop_loops: bool, tiny: float
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return the rows without self loops (if ``drop_loops``) and without ``|w| <= tiny`` (if ``tiny >= 0``)."""
    out_ptr = np.zeros(len(indptr), np.int64)
    cols = np.empty(len(indices), np.int32)
    values = np.empty(len(indices) if weighted else 0)
    total = _filter_entries(indptr, indices, weight, weighted, drop_loops, tiny, out_ptr, cols, values)
    cols.resize(total, refcheck=False)
    values.resize(total if weighted else 0, refcheck=False)
    return out_ptr, cols, values


@kernel
def _filter_entries(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, drop_loops: bool, tiny: float,
    out_ptr: PtrArray, cols: IndexArray, values: FloatArray,
) -> int:  # fmt: skip
    """Write the entries that remain to ``out_ptr``, ``cols`` and ``values``; return their number."""
    slot = 0
    for i in range(indptr.shape[0] - 1):
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
    return slot


def degree_norm(indptr: PtrArray, indices: IndexArray, weight: FloatArray) -> FloatArray:
    """Return ``w_ij / sqrt(d_i d_j)``, where ``d`` are the row sums; the factor of a node with ``d <= 0`` is 0."""
    out = np.empty(len(weight))
    _fill_degree_norm(indptr, indices, weight, np.zeros(len(indptr) - 1), out)
    return out


@kernel(error_model="numpy")
def _fill_degree_norm(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, factor: FloatArray, out: FloatArray
) -> None:
    """Write the weights to ``out`` and the factors of the nodes, which are zero on entry, to ``factor``."""
    for i in range(factor.shape[0]):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += weight[e]
        if total > 0.0:
            factor[i] = 1.0 / math.sqrt(total)
    for i in range(factor.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            out[e] = weight[e] * factor[i] * factor[indices[e]]


@kernel
def max_norm(edge_ptr: PtrArray, weight: FloatArray) -> FloatArray:
    """Return the weights divided by the largest ``|w|`` of their graph; a graph with only zeros is not changed."""
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
