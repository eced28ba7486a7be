"""A shuffled order that never exists as an array: a keyed bijection on ``[0, n)``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError

__all__ = ["KeyedPermutation", "mix64"]

_ROUNDS = 8
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def mix64(value: int) -> int:
    """Scramble 64 bits (the finaliser of SplitMix64), on a Python integer."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class KeyedPermutation:
    """A pseudo-random permutation of ``range(size)`` chosen by ``(seed, epoch)``.

    ``permutation(positions)`` maps any positions to their items in time and memory proportional to the number
    of positions asked for: position 900,000 costs what position 0 costs, so a run resumes anywhere at once, and
    ranks and workers agree without exchanging anything.

    A balanced Feistel network permutes ``[0, 4^h)``, the smallest such range that holds ``size`` items; a
    value that lands outside ``[0, size)`` walks on along its cycle until it is back inside (fewer than four steps
    on average).

    Examples:
        >>> order = KeyedPermutation(10, seed=3)
        >>> sorted(order(range(10)).tolist())
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(self, size: int, seed: int = 0, epoch: int = 0) -> None:
        if size < 0:
            raise InputError(f"size must not be negative, got {size}", field="size")
        self.size = int(size)
        self.seed = int(seed)
        self.epoch = int(epoch)
        self._half = max(1, ((max(self.size, 2) - 1).bit_length() + 1) // 2)
        key = mix64(mix64(self.seed & _MASK) ^ (self.epoch & _MASK))
        self._keys = [np.uint64(mix64(key + r)) for r in range(_ROUNDS)]

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"KeyedPermutation(size={self.size}, seed={self.seed}, epoch={self.epoch})"

    def __call__(self, positions: npt.ArrayLike | range) -> npt.NDArray[np.int64]:
        """The items at ``positions``, as int64."""
        chosen = np.asarray(positions)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= self.size):
            raise InputError(f"positions must lie in [0, {self.size})", field="positions")
        value = self._encrypt(chosen.astype(np.uint64))
        limit = np.uint64(self.size)
        outside = np.flatnonzero(value >= limit)
        while outside.size:
            walked = self._encrypt(value[outside])
            value[outside] = walked
            outside = outside[walked >= limit]
        return value.astype(np.int64)

    def _encrypt(self, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        half = np.uint64(self._half)
        mask = np.uint64((1 << self._half) - 1)
        left, right = value >> half, value & mask
        for key in self._keys:
            left, right = right, left ^ (_scramble(right, key) & mask)
        return (left << half) | right


def _scramble(value: npt.NDArray[Any], key: np.uint64) -> npt.NDArray[Any]:
    """Two multiply-xorshift steps: enough for a Feistel round."""
    mixed = (value ^ key) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(32))
