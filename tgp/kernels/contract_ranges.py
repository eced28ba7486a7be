"""Contraction of one large graph by ranges of rows: ``A' = S^T A S``.

Each kernel visits the rows ``first..last`` of the graph and writes only to the supernodes ``low..high``, so that ranges can run on
several threads, or one after the other from a file. The three steps are:

1. :func:`count_entries` counts the entries of every supernode. Prefix sums give the place of its entries in a buffer.
2. :func:`collect_range` writes the entries of the supernodes ``low..high`` to a buffer. One owner writes all entries of a supernode, by
   ascending rows. The order in which weights are added therefore does not depend on how rows or supernodes are cut.
3. :func:`tgp.kernels.contract.merge_rows` sorts and merges the rows in the buffer.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray

__all__ = ["collect_range", "count_entries"]

_U = np.uint64


@kernel
def count_entries(
    indptr: PtrArray, cluster: IndexArray, first: int, last: int, low: int, high: int, count: PtrArray
) -> None:
    """Add the number of entries of the rows ``first..last`` to ``count`` of their supernodes.

    Args:
        indptr: ``[N + 1]`` row pointers.
        cluster: ``[N]`` supernode of each row; -1 if it has none.
        first, last: Range of rows.
        low, high: Range of supernodes; others are ignored.
        count: ``[high - low]`` numbers of entries, changed in place. The first one belongs to supernode ``low``.
    """
    span = _U(high - low)
    for u in range(first, last):
        at = _U(np.int64(cluster[u]) - low)
        if at < span:
            count[at] += indptr[u + 1] - indptr[u]


@kernel
def collect_range(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, cluster: IndexArray, drop_loops: bool,
    first: int, last: int, low: int, high: int, stop: PtrArray, cols: IndexArray, values: FloatArray,
) -> None:  # fmt: skip
    """Append the entries of the rows ``first..last`` to the buffer ranges of their supernodes.

    Args:
        indptr, indices: Rows.
        weight: ``[nnz]``, or an empty array if ``weighted`` is false.
        weighted: Copy weights.
        cluster: ``[N]`` supernode of each node; entries from or to nodes of supernode -1 are left out.
        drop_loops: Leave out entries inside a supernode.
        first, last: Range of rows. Call with ascending ranges.
        low, high: Range of supernodes; rows of others are ignored.
        stop: ``[high - low]`` next free place of each supernode in ``cols``, changed in place.
        cols: Output, supernodes at the ends of the entries.
        values: Output, weights; not accessed if ``weighted`` is false.
    """
    span = _U(high - low)
    for u in range(first, last):
        c = cluster[u]
        at = _U(np.int64(c) - low)
        if at >= span:
            continue
        slot = _U(stop[at])
        skip = c if drop_loops else np.int32(-1)
        for e in range(_U(indptr[u]), _U(indptr[u + 1])):
            # Write each entry and advance only if it is valid. This avoids a branch that is often mispredicted.
            d = cluster[np.uint32(indices[e])]
            cols[slot] = d
            if weighted:
                values[slot] = weight[e]
            slot += _U((d >= 0) & (d != skip))
        stop[at] = slot
