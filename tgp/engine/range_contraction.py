"""Contraction on several threads: every range of supernodes has one owner, which collects and merges its rows.

The owners take ranges of supernodes in ascending order. An owner collects the entries of its range into a buffer, merges the rows
there, and copies them to the end of the output when the range before it has reserved its place. Buffers hold one range per thread,
so the working memory is small compared to the output. The bytes are those of :func:`tgp.kernels.contract.contract`.
"""

from __future__ import annotations

from collections.abc import Iterator
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

_LARGE = 1 << 23
"""Number of stored entries from which a buffer holds at most a quarter of the entries of a thread, to save memory."""

_RANGES_PER_THREAD = 8
"""Largest number of ranges per thread."""

_RANGE_ENTRIES = 1 << 16
"""Least number of entries of a range."""

_MIN_NODES, _MAX_PARTS = 1 << 12, 1 << 10
"""Least number of nodes of a part, and largest number of parts, for which :class:`_Members` knows the range of supernodes."""


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
    from tgp.kernels._prims import MEAN

    threads = num_threads()
    if threads < 2 or len(indices) < _MIN_ENTRIES or (op == MEAN and weighted):
        return contract.contract(
            indptr, indices, weight, weighted, cluster, num_supernodes, op, drop_loops, tiny
        )
    job = _Contraction(indptr, indices, weight, weighted, cluster, num_supernodes, op, drop_loops, tiny)
    return job.run(threads, _choose_ranges(len(indices), threads, job.members.count_visits(num_supernodes)))


def _choose_ranges(entries: int, threads: int, visits: float) -> int:
    """Return the number of ranges of supernodes.

    Buffers of short ranges fit into the cache and need little memory. But if nodes are numbered at random, every range reads the
    supernodes of all nodes. The number is chosen such that these reads are a quarter of the work.

    Args:
        entries: number of stored entries.
        threads: number of threads.
        visits: number of nodes that one range reads.
    """
    least = threads if entries < _LARGE else 4 * threads
    return int(
        np.clip(
            min(entries / (4.0 * visits + 1.0), entries / _RANGE_ENTRIES), least, threads * _RANGES_PER_THREAD
        )
    )


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
        self.members = _Members(cluster)

    def run(self, threads: int, ranges: int) -> Rows:
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
            for first, last in self.members.find(low, high):
                kernels.count_entries(self.indptr, self.cluster, first, last, low, high, count[low:high])

        run_ranges(add, cut_ranges(np.arange(self.num_supernodes + 1), threads), threads)
        return count

    def _contract_range(self, low: int, high: int) -> None:
        from tgp.kernels import contract
        from tgp.kernels import contract_ranges as kernels

        buffers = self.buffers.get_nowait()
        try:
            start = self.entry_ptr[low:high] - self.entry_ptr[low]
            stop, out_ptr = start.copy(), np.zeros(high - low + 1, np.int64)
            for first, last in self.members.find(low, high):
                kernels.collect_range(
                    self.indptr, self.indices, self.weight, self.weighted, self.cluster, self.drop_loops, first,
                    last, low, high, stop, buffers.cols, buffers.values,
                )  # fmt: skip
            total = contract.merge_rows(
                start, stop, buffers.cols, buffers.values, self.weighted, self.op, self.tiny, buffers.bits,
                buffers.words, buffers.pages, buffers.sums, out_ptr,
            )  # fmt: skip
            begin = self.ends[low].result()  # the range before this one was started earlier
            self.ends[high].set_result(begin + total)
        except BaseException as error:
            self.ends[high].set_exception(error)
            raise
        np.add(out_ptr[1:], begin, out=self.out_ptr[low + 1 : high + 1])
        self.cols[begin : begin + total] = buffers.cols[:total]
        if self.weighted:
            self.values[begin : begin + total] = buffers.values[:total]
        self.buffers.put(buffers)


class _Members:
    """Smallest and largest supernode of parts of the nodes, by which ranges of rows without members are skipped."""

    def __init__(self, cluster: IndexArray) -> None:
        self.num_nodes = len(cluster)
        self.length = max(_MIN_NODES, -(-self.num_nodes // _MAX_PARTS))
        whole = self.num_nodes // self.length
        parts = cluster[: whole * self.length].reshape(whole, self.length)
        self.least, self.most = parts.min(axis=1), parts.max(axis=1)
        if whole * self.length < self.num_nodes:
            rest = cluster[whole * self.length :]
            self.least, self.most = np.append(self.least, rest.min()), np.append(self.most, rest.max())

    def count_visits(self, num_supernodes: int) -> float:
        """Return the number of nodes that a short range of supernodes reads: all nodes if they are numbered at random."""
        span = np.clip((self.most - self.least) / max(num_supernodes, 1), 0.0, 1.0)
        return float(span.mean() * self.num_nodes) if span.size else 0.0

    def find(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield ascending ranges of rows that contain all members of the supernodes ``low..high``."""
        inside = (self.most >= low) & (self.least < high)
        edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
        for first, last in edges.reshape(-1, 2).tolist():
            yield first * self.length, min(last * self.length, self.num_nodes)


class _Buffers:
    """Working memory of one thread."""

    def __init__(self, length: int, num_supernodes: int, weighted: bool) -> None:
        self.cols, self.values = np.empty(length, np.int32), np.empty(length if weighted else 0)
        self.sums = np.empty(max(num_supernodes, 64) if weighted else 0)
        self.bits = np.zeros((num_supernodes >> 6) + 1, np.uint64)
        self.words = np.zeros((num_supernodes >> 12) + 1, np.uint64)
        self.pages = np.zeros((num_supernodes >> 18) + 1, np.uint64)
