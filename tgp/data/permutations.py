"""Orders of the graphs of an epoch: uniformly shuffled, or shuffled in blocks.

An order is a function of the seed and the epoch. Nothing is stored, so it can be read from any position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.kernels.array_types import LongArray

__all__ = ["BLOCK", "WINDOW", "BlockPermutation", "KeyedPermutation", "Order", "mix64"]


_ROUNDS = 8
_MAX_TABLE = 1 << 13
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1

BLOCK = 512
"""Number of graphs of a block of :class:`BlockPermutation`."""

WINDOW = 32
"""Number of blocks whose graphs are shuffled together."""


def mix64(value: int) -> int:
    """Return the output function of the SplitMix64 generator for a Python integer."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class KeyedPermutation:
    """Pseudo-random permutation of ``range(size)`` that depends on ``(seed, epoch)``.

    ``permutation(positions)`` maps positions to items. Time and memory are proportional to the number of positions, so a
    run can resume at any position, and ranks and workers agree on the order without communication.

    A balanced Feistel network permutes ``[0, 4^h)``, the smallest such range with at least ``size`` items. A value outside
    of ``[0, size)`` is permuted again until it is inside (fewer than four times on average).

    Args:
        size: Number of items.
        seed: Seed of the order.
        epoch: Number of the epoch.

    Raises:
        InputError: If ``size`` is negative.

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
        self._keys = np.array([mix64(key + r) for r in range(_ROUNDS)], np.uint64)
        self._tables: LongArray | None = None

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"KeyedPermutation(size={self.size}, seed={self.seed}, epoch={self.epoch})"

    def __call__(self, positions: npt.ArrayLike | range) -> npt.NDArray[np.int64]:
        """Return the items at some positions.

        Args:
            positions: Integers in ``[0, size)``.

        Raises:
            InputError: If a position is out of range.
        """
        chosen = np.asarray(positions)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= self.size):
            raise InputError(
                f"positions are out of range: expected [0, {self.size}), got {chosen.min()}..{chosen.max()}",
                field="positions",
            )
        value = self._encrypt(chosen.astype(np.int64))
        outside = np.flatnonzero(value >= self.size)
        while outside.size:
            walked = self._encrypt(value[outside])
            value[outside] = walked
            outside = outside[walked >= self.size]
        return value

    def _encrypt(self, value: LongArray) -> LongArray:
        mask = (1 << self._half) - 1
        left, right = value >> self._half, value & mask
        tables = self._round_tables(len(value))
        for number, key in enumerate(self._keys):
            mixed = _scramble(right, key) & mask if tables is None else tables[number].take(right)
            left, right = right, left ^ mixed
        return (left << self._half) | right

    def _round_tables(self, count: int) -> LongArray | None:
        """Return the result of each round for every half of a value, or ``None`` if a few values do not need them.

        A look-up replaces the seven operations of a round.
        """
        size = 1 << self._half
        if self._tables is None and size <= min(count, _MAX_TABLE):
            self._tables = _scramble(np.arange(size), self._keys[:, None]) & (size - 1)
        return self._tables


def _scramble(value: LongArray, key: Any) -> LongArray:
    """Mix bits with two multiply-xorshift steps, which are enough for one Feistel round."""
    mixed = (value.view(np.uint64) ^ key) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(32)
    result: LongArray = mixed.view(np.int64)
    return result


class BlockPermutation:
    """Pseudo-random permutation of ``range(size)`` that keeps graphs of the same part of a store close together.

    The graphs are divided into blocks of :data:`BLOCK` consecutive graphs. The blocks are permuted, and then the graphs
    of every :data:`WINDOW` consecutive blocks, a window. The last window has up to twice as many. A store that does not
    fit in memory is then read in large pieces, because only the graphs of one window are read in random order. The first
    block starts at a random graph in every epoch, so that the blocks of different epochs overlap.

    A batch of ``b`` graphs contains graphs of :data:`WINDOW` random blocks. Let v be the variance of some number over all
    graphs. The variance of its mean over a batch is v/b for a uniform order and at most v (1/b + 1/WINDOW) here. It is v/b
    if neighbouring graphs of the store are not more similar than others, as after shuffling the graphs once. It
    reaches the bound if all graphs of a block are equal, as in a store that is sorted by class.

    Args:
        size: Number of items.
        seed: Seed of the order.
        epoch: Number of the epoch.

    Examples:
        >>> order = BlockPermutation(2000, seed=3)
        >>> sorted(order(range(2000)).tolist()) == list(range(2000))
        True
    """

    def __init__(self, size: int, seed: int = 0, epoch: int = 0) -> None:
        self.size = int(size)
        self.seed = int(seed)
        self.epoch = int(epoch)
        self._blocks = KeyedPermutation(self.size // BLOCK, mix64(self.seed & _MASK), self.epoch)
        self._first = mix64(mix64(self.seed & _MASK) + self.epoch) % max(self.size, 1)
        self.num_windows = max(1, self.size // (BLOCK * WINDOW))

    def __call__(self, positions: npt.ArrayLike | range) -> LongArray:
        """Return the items at some positions.

        Args:
            positions: Integers in ``[0, size)``.
        """
        chosen = np.asarray(positions, np.int64)
        found = np.empty(len(chosen), np.int64)
        window = np.minimum(chosen // (BLOCK * WINDOW), self.num_windows - 1)
        for number in np.unique(window).tolist():
            inside = np.flatnonzero(window == number)
            start = number * BLOCK * WINDOW
            length = BLOCK * WINDOW if number + 1 < self.num_windows else self.size - start
            order = KeyedPermutation(length, mix64(self.seed & _MASK) ^ (number + 1), self.epoch)
            found[inside] = start + order(chosen[inside] - start)
        block, within = found // BLOCK, found % BLOCK
        whole = block < len(self._blocks)  # the graphs after the last whole block stay at the end
        block[whole] = self._blocks(block[whole])
        return (block * BLOCK + within + self._first) % max(self.size, 1)

    def window_of(self, position: int) -> int:
        """Return the number of the window that contains a position."""
        return min(position // (BLOCK * WINDOW), self.num_windows - 1)

    def window(self, number: int) -> list[tuple[int, int]]:
        """Return the first item and the item after the last one of each piece that a window consists of.

        Args:
            number: Number of the window. There are no pieces after the last one.
        """
        low, high = number * WINDOW, (number + 1) * WINDOW
        if number + 1 >= self.num_windows:
            high = -(-self.size // BLOCK) if number < self.num_windows else low
        starts = np.arange(low, high)
        whole = starts < len(self._blocks)
        lengths = np.where(whole, BLOCK, self.size % BLOCK)
        starts[whole] = self._blocks(starts[whole])
        pieces = []
        starts = (starts * BLOCK + self._first) % max(self.size, 1)
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            stop = min(start + length, self.size)
            pieces.append((start, stop))
            if stop - start < length:  # the piece continues at the first item
                pieces.append((0, length - (stop - start)))
        return pieces


Order = KeyedPermutation | BlockPermutation
"""Order of the graphs of an epoch."""
