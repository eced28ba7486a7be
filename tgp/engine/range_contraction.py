"""Contraction of one large graph: every range of supernodes has one owner, which collects and merges its rows.

The members of supernodes are listed first. The owners then take ranges of supernodes in ascending order. An owner merges the rows of
its range in a buffer and copies them to the end of the output when the range before it has reserved its place. Buffers hold one
range per thread, so the working memory is small compared to the output. The bytes are those of :func:`tgp.kernels.contract.contract`.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np

from tgp.engine.threads import cut_ranges, num_threads, run_ranges
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = ["contract_rows"]

Rows = tuple[PtrArray, IndexArray, FloatArray]

_MIN_ENTRIES = 1 << 19
"""Number of stored entries from which a graph is contracted by ranges."""

_RANGES_PER_THREAD = 32
"""Largest number of ranges per thread."""

_RANGE_ENTRIES = 1 << 16
"""Least number of entries of a range."""


_SCATTERED = 1.5
"""Number of nodes per member, in the chunks of nodes with members, from which members lie far apart."""

_GROUP_BITS = 8
"""Binary logarithm of the number of supernodes whose entries are counted together. Ranges start at such groups."""


def contract_rows(
    indptr: PtrArray,
    indices: IndexArray,
    weight: FloatArray,
    weighted: bool,
    cluster: IndexArray,
    num_supernodes: int,
    op: int,
    drop_loops: bool,
    tiny: float,
) -> Rows:
    """Return ``(indptr, indices, weight)`` of the coarse graphs, computed by ranges if the graphs are large.

    Args:
        indptr, indices, weight, weighted, cluster, num_supernodes, op, drop_loops, tiny: see
            :func:`tgp.kernels.contract.contract`.
    """
    from tgp.kernels import contract
    from tgp.kernels._prims import MEAN

    threads = 1 if len(indices) < _MIN_ENTRIES else num_threads()
    if threads < 2 or not num_supernodes or (op == MEAN and weighted):
        return contract.contract(
            indptr, indices, weight, weighted, cluster, num_supernodes, op, drop_loops, tiny
        )
    ranges = min(threads * _RANGES_PER_THREAD, len(indices) // _RANGE_ENTRIES)
    job = _Contraction(indptr, indices, weight, weighted, cluster, num_supernodes, op, drop_loops, tiny)
    return job.run(threads, ranges)


@dataclass(frozen=True)
class _Members:
    """Members of the supernodes from ``low`` on. ``ptr`` are their offsets in ``nodes``.

    ``scattered`` is True if members of a supernode, or of the next ones, lie far apart.
    """

    low: int
    scattered: bool
    ptr: IndexArray
    nodes: IndexArray


class _Contraction:
    """Arrays of one contraction. See :func:`tgp.kernels.contract.contract` for the arguments."""

    def __init__(
        self,
        indptr: PtrArray,
        indices: IndexArray,
        weight: FloatArray,
        weighted: bool,
        cluster: IndexArray,
        num_supernodes: int,
        op: int,
        drop_loops: bool,
        tiny: float,
    ) -> None:
        self.indptr, self.indices, self.weight, self.weighted = indptr, indices, weight, weighted
        self.cluster, self.num_supernodes = cluster, num_supernodes
        self.op, self.drop_loops, self.tiny = op, drop_loops, tiny
        self.parts: dict[int, _Members] = {}

    def run(self, threads: int, ranges: int) -> Rows:
        """Contract at least ``ranges`` ranges of supernodes on ``threads`` threads."""
        groups = -(-self.num_supernodes >> _GROUP_BITS)
        self.entries = np.zeros(2 * groups, np.int64)
        parts = cut_ranges(np.arange(groups + 1), threads)
        run_ranges(self._list_members, parts, threads)
        entry_ptr = offsets(self.entries.reshape(-1, 2).sum(1))
        found = np.union1d(parts, cut_ranges(entry_ptr, max(ranges, 1)))
        bounds = np.minimum(found << _GROUP_BITS, self.num_supernodes)
        self.starts = parts[:-1] << _GROUP_BITS
        size, longest = int(entry_ptr[-1]), int(np.diff(entry_ptr[found]).max(initial=0))
        self.out_ptr = np.empty(self.num_supernodes + 1, np.int64)
        self.out_ptr[0] = 0
        # Pages that are not written take no memory, so the bound of the length costs nothing.
        self.cols, self.values = np.empty(size, np.int32), np.empty(size if self.weighted else 0)
        self.buffers: SimpleQueue[_Buffers] = SimpleQueue()
        for _ in range(threads):
            self.buffers.put(_Buffers(longest, self.num_supernodes, self.weighted))
        self.ends: dict[int, Future[int]] = {int(bound): Future() for bound in bounds}
        self.ends[0].set_result(0)
        run_ranges(self._contract_range, bounds, threads)
        total = self.ends[self.num_supernodes].result()
        # Release the unused end without a copy.
        self.cols.resize(total, refcheck=False)
        self.values.resize(total if self.weighted else 0, refcheck=False)
        return self.out_ptr, self.cols, self.values

    def _list_members(self, first: int, last: int) -> None:
        """List the members of some groups of supernodes."""
        from tgp.kernels import contract_ranges as kernels

        low, high = first << _GROUP_BITS, min(last << _GROUP_BITS, self.num_supernodes)
        ptr = np.zeros(high - low + 1, np.int32)
        # Pages that are not written take no memory.
        nodes, rows = np.empty(len(self.cluster), np.int32), np.empty(kernels.CHUNK + 1, np.int32)
        entries = self.entries[2 * first : 2 * last]
        chunks = kernels.list_members(
            self.indptr, self.cluster, low, high, _GROUP_BITS, rows, ptr, nodes, entries
        )
        scattered = chunks * kernels.CHUNK > _SCATTERED * (int(ptr[-1]) + kernels.CHUNK)
        self.parts[low] = _Members(low, scattered, ptr, nodes)

    def _contract_range(self, low: int, high: int) -> None:
        from tgp.kernels import contract_ranges as kernels

        members = self.parts[int(self.starts[np.searchsorted(self.starts, low, side="right") - 1])]
        buffers = self.buffers.get_nowait()
        out_ptr = self.out_ptr[low + 1 : high + 1]
        try:
            total = kernels.contract_range(
                self.indptr, self.indices, self.weight, self.weighted, self.cluster, self.drop_loops, self.op,
                self.tiny, members.scattered, members.ptr, members.nodes, low - members.low, high - members.low, *buffers.scratch,
                buffers.cols, buffers.values, out_ptr,
            )  # fmt: skip
            begin = self.ends[low].result()  # the range before this one was started earlier
            self.ends[high].set_result(begin + total)
        except BaseException as error:
            self.ends[high].set_exception(error)
            raise
        out_ptr += begin
        self.cols[begin : begin + total] = buffers.cols[:total]
        if self.weighted:
            self.values[begin : begin + total] = buffers.values[:total]
        self.buffers.put(buffers)


class _Buffers:
    """Working memory of one thread."""

    def __init__(self, length: int, num_supernodes: int, weighted: bool) -> None:
        from tgp.kernels.contract_ranges import BATCH_ROWS

        start, stop, batch_ptr = (
            np.empty(size, np.int64) for size in (BATCH_ROWS, BATCH_ROWS, BATCH_ROWS + 1)
        )
        bits, words, pages = (np.zeros((num_supernodes >> shift) + 1, np.uint64) for shift in (6, 12, 18))
        sums = np.empty(max(num_supernodes, 64) if weighted else 0)
        self.scratch = start, stop, batch_ptr, bits, words, pages, sums
        self.cols, self.values = np.empty(length, np.int32), np.empty(length if weighted else 0)
