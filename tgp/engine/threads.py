"""Run a kernel over ranges of graphs or rows on several threads.

Kernels release the interpreter lock and write only to the part of the output that belongs to their range. Results
therefore do not depend on the number of threads. The threads are started for each call and end with it. Unlike a pool of
OpenMP threads they cause no problem with ``fork``, which data loaders and process pools use. A kernel may itself run ranges.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from tgp.kernels.array_types import LongArray
from tgp.ragged.block import PtrArray

__all__ = ["cut_ranges", "limit_threads", "num_threads", "run_over_items", "run_over_ranges", "run_ranges"]

_MIN_WORK = 1 << 16
"""Work (nodes and entries) below which starting a thread takes longer than it saves."""

_RANGES_PER_THREAD = 4
"""Number of ranges per thread, so that the other threads do not wait for one expensive range."""

_limits: list[int] = []
"""Limits of :func:`limit_threads` that are in effect."""


def num_threads() -> int:
    """Return the number of threads that kernels may use.

    This is ``NUMBA_NUM_THREADS``, by default the number of cores of this process, or less inside :func:`limit_threads`.
    """
    from numba import config

    return int(min([config.NUMBA_NUM_THREADS, *_limits]))  # type: ignore[attr-defined]


@contextlib.contextmanager
def limit_threads(limit: int | None) -> Iterator[None]:
    """Limit the number of threads of kernels inside the block. The results do not depend on it.

    Args:
        limit: Largest number of threads of one call, for all threads of the process; ``None`` for no limit.
    """
    if limit is None:
        yield
        return
    _limits.append(max(int(limit), 1))
    try:
        yield
    finally:
        _limits.remove(max(int(limit), 1))


def cut_ranges(cost_ptr: PtrArray, ranges: int) -> LongArray:
    """Return the bounds of at most ``ranges`` ranges of items with about equal work, from 0 to the number of items.

    Args:
        cost_ptr: ``[items + 1]`` offsets of the estimated work of each item.
        ranges: number of ranges.
    """
    work = int(cost_ptr[-1] - cost_ptr[0])
    targets = cost_ptr[0] + work * np.arange(1, ranges) / ranges
    return np.unique(np.concatenate([[0], np.searchsorted(cost_ptr, targets), [len(cost_ptr) - 1]]))


def run_over_ranges(kernel: Callable[[int, int], object], cost_ptr: PtrArray) -> None:
    """Call ``kernel(first, last)`` for ranges of items that cover each item once.

    Args:
        kernel: function that several threads call at the same time. It must write only to the items of its range.
        cost_ptr: ``[items + 1]`` offsets of the estimated work of each item.
    """
    items = len(cost_ptr) - 1
    # Most calls are for one graph. Counting threads takes longer than these checks.
    is_small = items < 2 or int(cost_ptr[-1] - cost_ptr[0]) < _MIN_WORK
    threads = 1 if is_small else min(num_threads(), items)
    if threads < 2:
        kernel(0, items)
        return
    run_ranges(kernel, cut_ranges(cost_ptr, threads * _RANGES_PER_THREAD), threads)


def run_over_items(kernel: Callable[[int, int], object], items: int) -> None:
    """Call ``kernel(first, last)`` for ranges of items of equal work that cover each item once.

    Args:
        kernel: function that several threads call at the same time. It must write only to the items of its range.
        items: number of items.
    """
    threads = 1 if items < _MIN_WORK else min(num_threads(), items)
    if threads < 2:
        kernel(0, items)
        return
    ranges = threads * _RANGES_PER_THREAD
    run_ranges(kernel, np.unique(np.arange(ranges + 1) * items // ranges), threads)


def run_ranges(kernel: Callable[[int, int], object], bounds: LongArray, threads: int) -> None:
    """Call ``kernel(bounds[i], bounds[i + 1])`` for every range. Ranges are started in ascending order.

    Args:
        kernel: function that several threads call at the same time.
        bounds: ``[ranges + 1]`` ascending bounds.
        threads: number of threads, with the calling one.

    Raises:
        BaseException: the first error of the kernel. Ranges that were not started then stay undone.
    """
    pending = deque(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    errors: list[BaseException] = []

    def work() -> None:
        with contextlib.suppress(IndexError):
            while True:
                first, last = pending.popleft()
                try:
                    kernel(first, last)
                except BaseException as error:  # noqa: BLE001 - passed on to the caller
                    errors.append(error)
                    pending.clear()

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(min(threads, len(pending)) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]
