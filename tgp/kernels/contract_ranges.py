"""Contraction of one large graph by ranges of supernodes: ``A' = S^T A S``.

Each kernel writes only what belongs to the supernodes ``low..high``, so that ranges can run on several threads. The two steps are:

1. :func:`list_members` lists the members of every supernode of a range and counts their entries. Prefix sums of the counts give ranges of
   equal work.
2. :func:`contract_range` collects the entries of a few supernodes, merges them while they are in the cache, and goes on to the
   next ones. Rows of members are requested from memory in advance, because nodes that are numbered at random lie far apart.

The members of a supernode are visited in ascending order. The order in which weights are added therefore does not depend on how
supernodes are cut, and it is that of :func:`tgp.kernels.contract.contract`.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels._vectors import prefetch
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray, WordArray
from tgp.kernels.contract import merge_rows

__all__ = ["BATCH_ROWS", "CHUNK", "contract_range", "list_members"]

_U = np.uint64
_ONE = np.uint64(1)

BATCH_ROWS = 1 << 10
"""Largest number of supernodes that are merged at a time."""

CHUNK = 1 << 10
"""Number of rows that are searched for members at a time."""

_MAX_INT32 = 2**31 - 1

_BATCH_ENTRIES = 1 << 12
"""Number of entries after which collected supernodes are merged."""

_AHEAD = np.uint64(8)
"""Number of members between the row that is read and the one that is requested from memory."""

_LINE = np.uint64(16)
"""Number of columns in a line of the cache."""


@kernel(inner=True)
def _take_rows(cluster: IndexArray, start: int, end: int, low: int, span: np.uint64, rows: IndexArray) -> int:
    """Write the rows ``start..end`` whose supernode is one of the ``span`` from ``low`` on to ``rows``; return their number."""
    least, most = np.int32(_MAX_INT32), np.int32(-1)
    for u in range(_U(start), _U(end)):
        least, most = min(least, cluster[u]), max(most, cluster[u])
    if most < low or least >= low + np.int64(span):
        return 0
    count = _U(0)
    for u in range(_U(start), _U(end)):
        # Write each row and advance only if it is a member. This avoids a branch that is often mispredicted.
        rows[count] = u
        count += _U(_U(np.int64(cluster[u]) - low) < span)
    size: int = np.int64(count)
    return size


@kernel
def list_members(
    indptr: PtrArray, cluster: IndexArray, low: int, high: int, shift: int, rows: IndexArray, member_ptr: IndexArray,
    members: IndexArray, entries: PtrArray,
) -> int:  # fmt: skip
    """List the members of the supernodes ``low..high``, ascending, and count their entries.

    Args:
        indptr: ``[N + 1]`` row pointers.
        cluster: ``[N]`` supernode of each row; -1 if it has none.
        low, high: Range of supernodes.
        shift: Binary logarithm of the number of supernodes in a group.
        rows: ``[CHUNK + 1]`` scratch.
        member_ptr: ``[high - low + 1]`` output: offsets of the supernodes in ``members``. It is zero on entry.
        members: ``[N]`` output.
        entries: ``[2 * groups]`` output: number of entries of each group of supernodes from ``low`` on, as two addends. It is zero on
            entry.

    Returns:
        The number of chunks of rows that contain members. It is larger than the number of members tells if nodes are numbered at random.
    """
    span, chunks, n = _U(high - low), 0, cluster.shape[0]
    for first in range(0, n, CHUNK):
        count = _take_rows(cluster, first, min(first + CHUNK, n), low, span, rows)
        chunks += count > 0
        for i in range(_U(count)):
            u = _U(rows[i])
            at = _U(np.int64(cluster[u]) - low)
            member_ptr[at + _ONE] += np.int32(1)
            # Two addends, because an addition that follows another one to the same place waits for it.
            entries[((at >> _U(shift)) << _ONE) | (u & _ONE)] += indptr[u + _ONE] - indptr[u]
    # From here on, member_ptr[i + 1] is the next place of supernode i. It ends as the start of supernode i + 1.
    start = np.int32(0)
    for i in range(span):
        size = member_ptr[i + _ONE]
        member_ptr[i + _ONE] = start
        start += size
    for first in range(0, n, CHUNK):
        count = _take_rows(cluster, first, min(first + CHUNK, n), low, span, rows)
        for i in range(_U(count)):
            at = _U(np.int64(cluster[np.uint32(rows[i])]) - low) + _ONE
            slot = member_ptr[at]
            members[np.uint32(slot)] = rows[i]
            member_ptr[at] = slot + np.int32(1)
    return chunks


@kernel
def contract_range(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, cluster: IndexArray, drop_loops: bool,
    op: int, tiny: float, scattered: bool, member_ptr: IndexArray, members: IndexArray, low: int, high: int, start: PtrArray,
    stop: PtrArray, batch_ptr: PtrArray, bits: WordArray, words: WordArray, pages: WordArray, sums: FloatArray,
    cols: IndexArray, values: FloatArray, out_ptr: PtrArray,
) -> int:  # fmt: skip
    """Write the merged rows of the supernodes ``low..high`` of a list of members; return the number of their entries.

    Args:
        indptr, indices, weight, weighted, cluster, op, drop_loops, tiny: See :func:`tgp.kernels.contract.contract`.
        scattered: Request the rows of members in advance, because they lie far apart.
        member_ptr, members: Members of supernodes, see :func:`list_members`.
        low, high: Range of supernodes in this list.
        start, stop: ``[BATCH_ROWS]`` scratch.
        batch_ptr: ``[BATCH_ROWS + 1]`` scratch.
        bits, words, pages, sums: See :func:`tgp.kernels.contract.merge_rows`.
        cols, values: Output, as long as the entries of the members.
        out_ptr: ``[high - low]`` output: ends of the merged rows.
    """
    done, c = np.int64(0), low
    last_member = _U(member_ptr[high])
    while c < high:
        first, slot = c, _U(done)
        while c < high and c - first < BATCH_ROWS and slot < _U(done + _BATCH_ENTRIES):
            start[c - first] = np.int64(slot) - done
            for m in range(_U(member_ptr[c]), _U(member_ptr[c + 1])):
                if scattered and m + _AHEAD + _AHEAD < last_member:
                    prefetch(indptr, _U(members[m + _AHEAD + _AHEAD]))
                    later = _U(indptr[np.uint32(members[m + _AHEAD])])
                    prefetch(indices, later)
                    prefetch(indices, later + _LINE)
                    if weighted:
                        for line in range(4):
                            prefetch(weight, later + _U(8 * line))
                u = np.uint32(members[m])
                own = cluster[u]
                skip = own if drop_loops else np.int32(-1)
                for e in range(_U(indptr[u]), _U(indptr[_U(u) + _ONE])):
                    # Write each entry and advance only if it is valid. This avoids a branch that is often mispredicted.
                    d = cluster[np.uint32(indices[e])]
                    cols[slot] = d
                    if weighted:
                        values[slot] = weight[e]
                    slot += _U((d >= 0) & (d != skip))
            stop[c - first] = np.int64(slot) - done
            c += 1
        count = c - first
        batch_ptr[0] = 0
        total = merge_rows(
            start[:count], stop[:count], cols[done:], values[done:] if weighted else values, weighted, op, tiny, bits,
            words, pages, sums, batch_ptr[: count + 1],
        )  # fmt: skip
        for i in range(count):
            out_ptr[first - low + i] = done + batch_ptr[i + 1]
        done += total
    num_entries: int = np.int64(done)
    return num_entries
