"""Offsets of consecutive runs: the arrays named ``*_ptr``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tgp.kernels.array_types import LongArray

__all__ = ["find_run", "offsets"]


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
    np.cumsum(sizes, out=ptr[1:])
    return ptr


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
