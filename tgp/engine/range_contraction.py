"""Contraction on several threads: every range of supernodes has one owner, which collects and merges its rows.

The owners take ranges of supernodes in ascending order. An owner collects the entries of its range into a buffer, merges the rows
there, and copies them to the end of the output when the range before it has reserved its place. Buffers hold one range per thread,
so the working memory is small compared to the output. The bytes are those of :func:`tgp.kernels.contract.contract`.
"""

from __future__ import annotations

from concurrent.futures import Future
from queue import SimpleQueue

import numpy as np

from tgp.engine.threads import cut_ranges, num_threads, run_ranges
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = ["contract_rows"]

Rows = tuple[PtrArray, IndexArray, FloatArray]

_MIN_ENTRIES = 1 << 19
"""Number of stored entries from which a graph is contracted by ranges."""

_RANGE_ENTRIES = 1 << 19
"""Number of entries of a range whose buffer fits into the cache of a core. Ranges of large graphs are larger."""

_RANGES_PER_THREAD = 8
"""Largest number of ranges per thread. Every range reads the supernodes of all nodes, and its buffer has this share of the entries."""


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
    """Return ``(indptr, indices, weight)`` of the coarse graphs, computed on several threads if the graphs are large.

    Args:
        indptr, indices, weight, weighted, cluster, num_supernodes, op, drop_loops, tiny: see
            :func:`tgp.kernels.contract.contract`.
    """
    from tgp.kernels import contract

    threads = num_threads()
    if threads < 2 or len(indices) < _MIN_ENTRIES or (op == contract.MEAN and weighted):
        return contract.contract(
            indptr, indices, weight, weighted, cluster, num_supernodes, op, drop_loops, tiny
        )
    ranges = min(max(len(indices) // _RANGE_ENTRIES, threads), threads * _RANGES_PER_THREAD)
    job = _Contraction(indptr, indices, weight, weighted, cluster, num_supernodes, op, drop_loops, tiny)
    return job.run(ranges, threads)


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

    def run(self, ranges: int, threads: int) -> Rows:
        """Contract ``ranges`` ranges of supernodes on ``threads`` threads."""
        self.entry_ptr = offsets(self._count_entries(threads))
        bounds = cut_ranges(self.entry_ptr, ranges)
        size = int(self.entry_ptr[-1])
        longest = int(np.diff(self.entry_ptr[bounds]).max(initial=0))
        self.out_ptr = np.zeros(self.num_supernodes + 1, np.int64)
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

    def _count_entries(self, threads: int) -> PtrArray:
        from tgp.kernels import contract_ranges as kernels

        count = np.zeros(self.num_supernodes, np.int64)

        def add(low: int, high: int) -> None:
            kernels.count_entries(
                self.indptr, self.cluster, 0, len(self.cluster), low, high, count[low:high]
            )

        run_ranges(add, cut_ranges(np.arange(self.num_supernodes + 1), threads), threads)
        return count

    def _contract_range(self, low: int, high: int) -> None:
        from tgp.kernels import contract
        from tgp.kernels import contract_ranges as kernels

        buffers = self.buffers.get_nowait()
        try:
            start = self.entry_ptr[low:high] - self.entry_ptr[low]
            stop, out_ptr = start.copy(), np.zeros(high - low + 1, np.int64)
            kernels.collect_range(
                self.indptr, self.indices, self.weight, self.weighted, self.cluster, self.drop_loops, 0,
                len(self.cluster), low, high, stop, buffers.cols, buffers.values,
            )  # fmt: skip
            total = contract.merge_rows(
                start, stop, buffers.cols, buffers.values, self.weighted, self.op, self.tiny, buffers.bits,
                buffers.words, buffers.pages, buffers.sums, out_ptr,
            )  # fmt: skip
            first = self.ends[low].result()  # the range before this one was started earlier
            self.ends[high].set_result(first + total)
        except BaseException as error:
            self.ends[high].set_exception(error)
            raise
        self.out_ptr[low + 1 : high + 1] = out_ptr[1:] + first
        self.cols[first : first + total] = buffers.cols[:total]
        if self.weighted:
            self.values[first : first + total] = buffers.values[:total]
        self.buffers.put(buffers)


class _Buffers:
    """Working memory of one thread."""

    def __init__(self, length: int, num_supernodes: int, weighted: bool) -> None:
        self.cols, self.values = np.empty(length, np.int32), np.empty(length if weighted else 0)
        self.sums = np.empty(max(num_supernodes, 64) if weighted else 0)
        self.bits = np.zeros((num_supernodes >> 6) + 1, np.uint64)
        self.words = np.zeros((num_supernodes >> 12) + 1, np.uint64)
        self.pages = np.zeros((num_supernodes >> 18) + 1, np.uint64)
