"""Offsets of consecutive runs: the arrays named ``*_ptr``."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tgp.kernels.array_types import LongArray

__all__ = ["find_run", "offsets", "run_ids", "run_lengths", "run_maxima", "run_positions"]


_Number = TypeVar("_Number", np.int64, np.float64)


def offsets(counts: npt.ArrayLike) -> LongArray:
    """Return the start of each run of ``counts`` elements, and the end of the last one.

    Args:
        counts: ``[B]`` number of elements of each run.

    Returns:
        ``[B + 1]`` int64 array that starts with 0. Run ``i`` is ``ptr[i]:ptr[i + 1]``.

    Examples:
        >>> offsets([2, 0, 3]).tolist()
        [0, 2, 2, 5]
    """
    sizes = np.asarray(counts)
    ptr = np.zeros(len(sizes) + 1, np.int64)
    sizes.cumsum(out=ptr[1:])
    return ptr


def run_lengths(ptr: LongArray) -> LongArray:
    """Return the number of elements of each run. A quarter of the time of ``np.diff`` for few runs.

    Args:
        ptr: ``[B + 1]`` offsets of the runs.

    Examples:
        >>> run_lengths(offsets([2, 0, 3])).tolist()
        [2, 0, 3]
    """
    return ptr[1:] - ptr[:-1]


def find_run(ptr: LongArray, position: int | np.integer) -> int:
    """Return the run that contains an element, for example the graph of a node.

    Args:
        ptr: ``[B + 1]`` offsets of the runs.
        position: position of the element.

    Examples:
        >>> find_run(offsets([2, 0, 3]), 2)
        2
    """
    return int(np.searchsorted(ptr, position, side="right")) - 1


def run_ids(ptr: npt.NDArray[np.integer]) -> LongArray:
    """Return the run of each element, for example the graph of each node.

    Args:
        ptr: ``[B + 1]`` offsets of the runs.

    Examples:
        >>> run_ids(offsets([2, 0, 3])).tolist()
        [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(len(ptr) - 1, dtype=np.int64), ptr[1:] - ptr[:-1])


def run_positions(ptr: LongArray) -> LongArray:
    """Return the position of each element in its run.

    Args:
        ptr: ``[B + 1]`` offsets of the runs.

    Examples:
        >>> run_positions(offsets([2, 0, 3])).tolist()
        [0, 1, 0, 1, 2]
    """
    return np.arange(ptr[-1]) - np.repeat(ptr[:-1], run_lengths(ptr))


def run_maxima(values: npt.NDArray[_Number], ptr: LongArray, empty: int = 0) -> npt.NDArray[_Number]:
    """Return the largest value of each run.

    Args:
        values: ``[N]`` values.
        ptr: ``[B + 1]`` offsets of the runs.
        empty: result for runs without elements.

    Examples:
        >>> run_maxima(np.array([4, 7, 1, 3, 2]), offsets([2, 0, 3])).tolist()
        [7, 0, 3]
    """
    largest = np.full(len(ptr) - 1, empty, values.dtype)
    filled = np.flatnonzero(run_lengths(ptr))
    if len(filled):
        largest[filled] = np.maximum.reduceat(values, ptr[filled])
    return largest
