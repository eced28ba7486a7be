"""Run a kernel over ranges of graphs on several threads.

Kernels release the interpreter lock and write only to the part of the output that belongs to their range. Results
therefore do not depend on the number of threads. The threads are started for each call and end with it. Unlike a pool of
OpenMP threads they cause no problem with ``fork``, which data loaders and process pools use.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tgp.ragged.block import PtrArray

__all__ = ["num_threads", "run_over_ranges"]

_MIN_WORK = 1 << 16
"""Work (nodes and entries) below which starting a thread takes longer than it saves."""

_RANGES_PER_THREAD = 4
"""Number of ranges per thread, so that the other threads do not wait for one expensive range."""


def num_threads() -> int:
    """Return the number of threads that kernels may use.

    This is ``NUMBA_NUM_THREADS``, by default the number of cores of this process.
    """
    from numba import config

    return int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def run_over_ranges(kernel: Callable[[int, int], object], cost_ptr: PtrArray) -> None:
    """Call ``kernel(first, last)`` for ranges of items that cover each item once.

    Args:
        kernel: function that several threads call at the same time. It must write only to the items of its range.
        cost_ptr: ``[items + 1]`` offsets of the estimated work of each item.
    """
    items = len(cost_ptr) - 1
    threads = min(num_threads(), items)
    work = int(cost_ptr[-1] - cost_ptr[0])
    if threads < 2 or work < _MIN_WORK:
        kernel(0, items)
        return
    ranges = threads * _RANGES_PER_THREAD
    targets = cost_ptr[0] + work * np.arange(1, ranges) / ranges
    bounds = np.unique(np.concatenate([[0], np.searchsorted(cost_ptr, targets), [items]]))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(kernel, bounds[:-1].tolist(), bounds[1:].tolist()))
