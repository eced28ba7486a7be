"""Run a kernel over ranges of graphs on several threads.

Kernels release the interpreter lock and write only to what their range owns, so results do not depend
on the number of threads. Plain threads are started per call and gone after it: unlike a pool of
OpenMP threads they survive a ``fork``, which data loaders and process pools do.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tgp.ragged.block import PtrArray

__all__ = ["num_threads", "over_ranges"]

_WORTH_IT = 1 << 16
"""Work (nodes + entries) below which starting a thread costs more than it saves."""

_PIECES = 4
"""Ranges per thread, so that one heavy range does not keep the others waiting."""


def num_threads() -> int:
    """Threads that kernels may use: ``NUMBA_NUM_THREADS``, by default the cores of this process."""
    from numba import config

    return int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def over_ranges(kernel: Callable[[int, int], object], cost_ptr: PtrArray) -> None:
    """Call ``kernel(first, last)`` for ranges that together cover all items once.

    Args:
        kernel: called from several threads at once; it must own what it writes.
        cost_ptr: ``[items + 1]`` running sum of the work of the items.
    """
    items = len(cost_ptr) - 1
    threads = min(num_threads(), items)
    work = int(cost_ptr[-1] - cost_ptr[0])
    if threads < 2 or work < _WORTH_IT:
        kernel(0, items)
        return
    pieces = threads * _PIECES
    targets = cost_ptr[0] + work * np.arange(1, pieces) / pieces
    bounds = np.unique(np.concatenate([[0], np.searchsorted(cost_ptr, targets), [items]]))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(kernel, bounds[:-1].tolist(), bounds[1:].tolist()))
