"""Random numbers as hashes: each depends only on the seed and on where it is used, and not on the version of numpy.

They are the splitmix64 hash of (seed, stream, a, b). Each number can be computed without the others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tgp.kernels.array_types import LongArray, WordArray

__all__ = ["draw_below", "draw_hashes"]


def _mix(z: WordArray) -> WordArray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: WordArray = z ^ (z >> np.uint64(31))
    return mixed


def draw_hashes(seed: int, stream: int, a: npt.ArrayLike, b: npt.ArrayLike = 0) -> WordArray:
    """Return a random word of 64 bits for each pair of ``a`` and ``b``."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    z = _mix(np.atleast_1d(np.uint64(seed) + golden))
    for part in (stream, a, b):
        z = _mix(z ^ (np.asarray(part).astype(np.uint64) + golden))
    return z


def draw_below(
    bound: npt.ArrayLike, seed: int, stream: int, a: npt.ArrayLike, b: npt.ArrayLike = 0
) -> LongArray:
    """Return random integers in ``[0, bound)``, one for each pair of ``a`` and ``b``."""
    uniform = (draw_hashes(seed, stream, a, b) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    limit = np.asarray(bound, np.int64)
    drawn: LongArray = np.minimum((uniform * limit).astype(np.int64), limit - 1)
    return drawn
