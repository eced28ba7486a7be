"""Independent sets and contraction of graphs whose edges are memory-mapped files.

The kernels read the rows of a range front to back. The results are the same as those of the kernels for graphs in memory.

An entry of a matrix in a bucket is a key, ``row << 32 | column``, and a weight. Keys of one row keep their order, so that sums are
computed in the order of :mod:`tgp.kernels.contract`.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray, WordArray

__all__ = [
    "add_row_sizes",
    "contract_rows",
    "count_buckets",
    "count_columns",
    "cover_rows",
    "fill_row_ids",
    "group_keys",
    "mirror_rows",
    "missing_rows",
    "orient_rows",
    "scatter_to_buckets",
]

_U = np.uint64
_S32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@kernel
def add_row_sizes(indptr: PtrArray, cluster: IndexArray, first: int, last: int, sizes: PtrArray) -> None:
    """Add the number of entries of the rows ``first..last`` to ``sizes`` ``[K]`` of their supernodes."""
    for u in range(first, last):
        sizes[np.uint32(cluster[u])] += indptr[u + 1] - indptr[u]


@kernel
def count_columns(
    indptr: PtrArray, indices: IndexArray, cluster: IndexArray, row: int, drop_loops: bool, first: int, last: int,
    counts: PtrArray,
) -> None:  # fmt: skip
    """Count the entries of supernode ``row`` in the rows ``first..last`` by the supernode ``[K]`` to which they lead.

    ``indptr``, ``indices``, ``cluster`` and ``drop_loops`` are those of :func:`contract_rows`. ``counts`` is changed in place.
    """
    for u in range(first, last):
        if cluster[u] != row:
            continue
        for e in range(_U(indptr[u]), _U(indptr[u + 1])):
            d = cluster[np.uint32(indices[e])]
            counts[np.uint32(d)] += (d != row) | (not drop_loops)


@kernel
def contract_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, cluster: IndexArray, drop_loops: bool,
    first: int, low: int, high: int, keys: WordArray, values: FloatArray,
) -> int:  # fmt: skip
    """Write the entries ``low..high`` with both ends replaced by supernodes; return their number.

    Args:
        indptr, indices, weight, weighted: Rows.
        cluster: ``[N]`` supernode of each node.
        drop_loops: Leave out edges inside a supernode.
        first: Row of the first entry.
        low, high: Range of entries, not empty.
        keys: Output of at least ``high - low`` entries.
        values: Output, the weights; not accessed if ``weighted`` is false.
    """
    slot = 0
    u = first
    while u < cluster.shape[0] and indptr[u] < high:
        c = cluster[u]
        row = _U(c) << _S32
        for e in range(_U(max(indptr[u], low)), _U(min(indptr[u + 1], high))):
            d = cluster[np.uint32(indices[e])]
            keys[slot] = row | _U(d)
            if weighted:
                values[slot] = weight[e]
            slot += (d != c) | (not drop_loops)
        u += 1
    return slot


@kernel
def mirror_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, factor: float, first: int, low: int, high: int,
    keys: WordArray, values: FloatArray,
) -> int:  # fmt: skip
    """Write the entries ``low..high`` in both directions with ``factor`` times their weight; return their number.

    ``first`` is the row of the first entry. ``keys`` and ``values`` have room for ``2 * (high - low)`` entries.
    """
    slot = 0
    u = first
    while u < indptr.shape[0] - 1 and indptr[u] < high:
        for e in range(_U(max(indptr[u], low)), _U(min(indptr[u + 1], high))):
            v = _U(indices[e])
            keys[slot], values[slot] = (_U(u) << _S32) | v, factor * weight[e]
            keys[slot + 1], values[slot + 1] = (v << _S32) | _U(u), factor * weight[e]
            slot += 2
        u += 1
    return slot


@kernel
def missing_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, first: int, low: int, high: int, keys: WordArray,
    values: FloatArray,
) -> int:  # fmt: skip
    """Write the entries ``low..high``, and the reverse of those whose reverse is not stored; return their number.

    The arguments are those of :func:`mirror_rows`. The rows are sorted by column.
    """
    slot = 0
    u = first
    while u < indptr.shape[0] - 1 and indptr[u] < high:
        for e in range(_U(max(indptr[u], low)), _U(min(indptr[u + 1], high))):
            v = np.int64(indices[e])
            keys[slot], values[slot] = (_U(u) << _S32) | _U(v), weight[e]
            slot += 1
            at = indptr[v] + np.searchsorted(indices[indptr[v] : indptr[v + 1]], np.int32(u))
            if at == indptr[v + 1] or indices[at] != u:
                keys[slot], values[slot] = (_U(v) << _S32) | _U(u), weight[e]
                slot += 1
        u += 1
    return slot


@kernel
def orient_rows(
    indptr: PtrArray, indices: IndexArray, rank: IndexArray, first: int, low: int, high: int, keys: WordArray
) -> int:
    """Write those of the entries ``low..high`` that lead to a node of larger rank; return their number.

    The row of a key is the rank of the node, and the column is the other node.

    Args:
        indptr, indices: Rows.
        rank: ``[N]`` position of each node in an order.
        first: Row of the first entry.
        low, high: Range of entries, not empty.
        keys: Output with room for ``high - low`` entries.
    """
    slot = 0
    u = first
    while u < rank.shape[0] and indptr[u] < high:
        mine = rank[u]
        row = _U(mine) << _S32
        for e in range(_U(max(indptr[u], low)), _U(min(indptr[u + 1], high))):
            v = _U(indices[e])
            keys[slot] = row | v
            slot += rank[v] > mine
        u += 1
    return slot


@kernel
def cover_rows(
    order: IndexArray, first: int, start: PtrArray, stop: PtrArray, cols: IndexArray, owner: IndexArray
) -> None:
    """Select each node of a range of ranks that no selected node covers yet; it covers its neighbours.

    Calls for all ranges, in ascending order, give the owners of :func:`tgp.kernels.mis.cover_by_order` for one hop. A range can begin
    with the rest of the neighbours of the last node of the range before. Neighbours of a smaller rank are not needed: none of them was
    selected, or the node would be covered.

    Args:
        order: ``[N]`` nodes by rank.
        first: First rank of the range.
        start, stop, cols: Neighbours of a larger rank of each node of the range, see :func:`group_keys`.
        owner: ``[N]`` selected node that covers each node, -1 if there is none yet; changed in place.
    """
    for r in range(start.shape[0]):
        u = order[first + r]
        if owner[u] >= 0 and owner[u] != u:
            continue
        owner[u] = u
        for e in range(start[r], stop[r]):
            v = np.uint32(cols[e])
            if owner[v] < 0:
                owner[v] = u


@kernel
def fill_row_ids(indptr: PtrArray, first: int, low: int, high: int, out: IndexArray) -> None:
    """Write the row of each of the entries ``low..high`` to ``out``. ``first`` is the row of the first entry."""
    u = first
    while u < indptr.shape[0] - 1 and indptr[u] < high:
        for e in range(max(indptr[u], low), min(indptr[u + 1], high)):
            out[e - low] = u
        u += 1


@kernel
def count_buckets(keys: WordArray, bounds: PtrArray, counts: PtrArray) -> None:
    """Count the keys of each bucket. Bucket ``b`` has the keys ``bounds[b]:bounds[b + 1]``. ``counts`` is zero on entry."""
    for i in range(keys.shape[0]):
        counts[_find_bucket(bounds, np.int64(keys[i]))] += 1


@kernel(inline="always")
def _find_bucket(bounds: PtrArray, key: int) -> int:
    low, high = 0, bounds.shape[0] - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if bounds[middle] <= key:
            low = middle
        else:
            high = middle
    return low


@kernel
def scatter_to_buckets(
    keys: WordArray, values: FloatArray, weighted: bool, bounds: PtrArray, slots: PtrArray, out_keys: WordArray,
    out_values: FloatArray,
) -> None:  # fmt: skip
    """Sort entries by bucket, in their order. ``slots`` are the offsets of the buckets and are changed."""
    for i in range(keys.shape[0]):
        bucket = _find_bucket(bounds, np.int64(keys[i]))
        slot = slots[bucket]
        out_keys[slot] = keys[i]
        if weighted:
            out_values[slot] = values[i]
        slots[bucket] = slot + 1


@kernel
def group_keys(
    keys: WordArray, values: FloatArray, weighted: bool, first_row: int, start: PtrArray, stop: PtrArray,
    cols: IndexArray, out_values: FloatArray,
) -> None:  # fmt: skip
    """Group the entries of a bucket by row, in their order: those of row ``first_row + r`` are at ``start[r]:stop[r]``.

    Args:
        keys, values, weighted: Entries.
        first_row: First row of the bucket.
        start, stop: ``[R]`` output. ``stop`` is zero on entry.
        cols, out_values: Output, one number per entry.
    """
    for i in range(keys.shape[0]):
        stop[np.int64(keys[i] >> _S32) - first_row] += 1
    total = np.int64(0)
    for r in range(stop.shape[0]):
        start[r] = total
        total += stop[r]
        stop[r] = start[r]
    for i in range(keys.shape[0]):
        r = np.int64(keys[i] >> _S32) - first_row
        slot = stop[r]
        cols[slot] = np.int32(keys[i] & _LOW)
        if weighted:
            out_values[slot] = values[i]
        stop[r] = slot + 1
