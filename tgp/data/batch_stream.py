"""Order of the graphs of an epoch, and its division into batches.

Order and batches are functions of the seed, the epoch and the sizes of the graphs. Nothing is stored, so a stream can be
read from any position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.ragged.offsets import offsets

__all__ = ["START", "BatchStream", "Budget", "Cursor", "KeyedPermutation", "cut"]

Ids = npt.NDArray[np.int64]

_ROUNDS = 8
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1

_AHEAD = 1 << 15
"""Smallest number of graphs that are planned together, to reduce the overhead of numpy calls. It takes some 5 ms."""


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
        self._keys = [np.uint64(mix64(key + r)) for r in range(_ROUNDS)]

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
        value = self._encrypt(chosen.astype(np.uint64))
        limit = np.uint64(self.size)
        outside = np.flatnonzero(value >= limit)
        while outside.size:
            walked = self._encrypt(value[outside])
            value[outside] = walked
            outside = outside[walked >= limit]
        return value.astype(np.int64)

    def _encrypt(self, value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        half = np.uint64(self._half)
        mask = np.uint64((1 << self._half) - 1)
        left, right = value >> half, value & mask
        for key in self._keys:
            left, right = right, left ^ (_scramble(right, key) & mask)
        result: npt.NDArray[np.uint64] = (left << half) | right
        return result


def _scramble(value: npt.NDArray[np.uint64], key: np.uint64) -> npt.NDArray[np.uint64]:
    """Mix bits with two multiply-xorshift steps, which are enough for one Feistel round."""
    mixed = (value ^ key) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x94D049BB133111EB)
    result: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(32))
    return result


class Cursor(NamedTuple):
    """Position in the stream.

    Args:
        position: Number of graphs before it.
        offset: Number of batches that were already taken from the bucket that starts there.
    """

    position: int = 0
    offset: int = 0


START = Cursor()
"""Beginning of an epoch."""


@dataclass(frozen=True)
class Budget:
    """Limits of a batch. ``None`` means no limit. At least one limit must be set.

    Args:
        graphs: Maximum number of graphs.
        nodes: Maximum number of nodes, summed over the levels that count.
        edges: Maximum number of edges, summed over the levels that count.
        oversize: Treatment of a graph that exceeds the limits alone: ``"alone"`` puts it into its own batch, ``"error"``
            raises an error.

    Raises:
        InputError: If there is no limit, or a limit is not a positive integer.
    """

    graphs: int | None = None
    nodes: int | None = None
    edges: int | None = None
    oversize: str = "alone"

    def __post_init__(self) -> None:
        limits = {"batch_size": self.graphs, "max_nodes": self.nodes, "max_edges": self.edges}
        if all(limit is None for limit in limits.values()):
            raise InputError(
                "a batch needs a limit: expected batch_size, max_nodes or max_edges, got none",
                field="batch_size",
            )
        for name, limit in limits.items():
            if limit is not None and (isinstance(limit, bool) or int(limit) != limit or limit < 1):
                raise InputError(f"{name} must be a positive integer, got {limit!r}", field=name)
        if self.oversize not in ("alone", "error"):
            raise InputError(f"oversize must be 'alone' or 'error', got {self.oversize!r}", field="oversize")

    @property
    def by_size(self) -> bool:
        """True if there is a limit of nodes or edges."""
        return self.nodes is not None or self.edges is not None

    def __str__(self) -> str:
        return f"g{self.graphs or ''}n{self.nodes or ''}e{self.edges or ''}"


def cut(ids: Ids, nodes: Ids | None, edges: Ids | None, budget: Budget) -> list[int]:
    """Divide a sequence of graphs into batches. Each batch takes the next graphs until a limit is reached.

    Args:
        ids: Graphs in their order.
        nodes: ``[G]`` number of nodes of every graph of the dataset, or ``None`` if there is no such limit.
        edges: ``[G]`` number of edges of every graph of the dataset, or ``None`` if there is no such limit.
        budget: Limits of a batch.

    Returns:
        Offsets of the batches, from 0 to ``len(ids)``.

    Raises:
        InputError: If a graph exceeds a limit and ``budget.oversize`` is ``"error"``.
    """
    count = len(ids)
    if budget.graphs is not None and not budget.by_size:
        return [*range(0, count, budget.graphs), count]
    following = np.full(count, count, np.int64)
    if budget.graphs is not None:
        np.minimum(following, np.arange(count) + budget.graphs, out=following)
    for name, sizes, limit in (("nodes", nodes, budget.nodes), ("edges", edges, budget.edges)):
        if limit is None or sizes is None:
            continue
        chosen = sizes[ids]
        if budget.oversize == "error" and count and chosen.max() > limit:
            graph = int(ids[int(chosen.argmax())])
            raise InputError(
                f"graph {graph} is too large for a batch: expected at most {limit} {name}, got {int(chosen.max())}",
                field=f"max_{name}",
                hint="increase the limit, or pass oversize='alone' to put such graphs into their own batches",
            )
        total = offsets(chosen)
        fits = np.searchsorted(total, total[:-1] + limit, side="right") - 1
        np.minimum(following, fits, out=following)
    np.maximum(following, np.arange(count) + 1, out=following)
    next_start = following.tolist()
    cuts = [0]
    while cuts[-1] < count:
        cuts.append(next_start[cuts[-1]])
    return cuts


class BatchStream:
    """Batches of one epoch, readable from any :class:`Cursor`.

    The stream is the same for all ranks and workers. Without buckets, a batch takes the next graphs of the order. With
    buckets, the graphs of a bucket are sorted by size before they are divided into batches, and the batches of a bucket
    are shuffled. Batches then have similar sizes and a random order.

    Args:
        size: Number of graphs.
        budget: Limits of a batch.
        order: Order of the graphs; their numbers if ``None``.
        nodes: ``[G]`` number of nodes of every graph, for limits and buckets.
        edges: ``[G]`` number of edges of every graph, for limits.
        bucket: Number of graphs per bucket; ``None`` for no buckets.
        drop_last: Leave out the last batch if it is not full.
    """

    def __init__(
        self,
        size: int,
        budget: Budget,
        *,
        order: KeyedPermutation | None = None,
        nodes: Ids | None = None,
        edges: Ids | None = None,
        bucket: int | None = None,
        drop_last: bool = False,
    ) -> None:
        self.size = size
        self.budget = budget
        self.order = order
        self.nodes = nodes
        self.edges = edges
        self.bucket = bucket
        self.drop_last = drop_last

    def read(self, start: Cursor = START) -> Iterator[tuple[Ids, Cursor]]:
        """Yield the batches from ``start`` on, each with the position after it."""
        return self._buckets(start) if self.bucket else self._plain(start)

    def count(self) -> int:
        """Return the number of batches of the epoch."""
        if not self.budget.by_size and not self.bucket:
            whole, rest = divmod(self.size, self._per_batch())
            return whole + (rest > 0 and not self.drop_last)
        return sum(1 for _ in self.read())

    def _per_batch(self) -> int:
        assert self.budget.graphs is not None
        return self.budget.graphs

    def _ids(self, low: int, high: int) -> Ids:
        positions = np.arange(low, high)
        return positions if self.order is None else self.order(positions)

    def _is_kept(self, ids: Ids, last: bool) -> bool:
        """Return False for the last batch if ``drop_last`` is set and the batch is not full."""
        if not self.drop_last or not last:
            return True
        return self.budget.graphs is not None and len(ids) == self.budget.graphs

    def _plain(self, start: Cursor) -> Iterator[tuple[Ids, Cursor]]:
        position, ahead = start.position, max(_AHEAD, 4 * (self.budget.graphs or 0))
        while position < self.size:
            stop = min(position + ahead, self.size)
            ids = self._ids(position, stop)
            cuts = cut(ids, self.nodes, self.edges, self.budget)
            if stop < self.size and len(cuts) > 2:
                cuts.pop()  # the last batch may be incomplete: plan it again together with the following graphs
            elif stop < self.size:
                ahead *= 2
                continue
            for low, high in pairwise(cuts):
                batch, after = ids[low:high], Cursor(position + high)
                if self._is_kept(batch, after.position == self.size):
                    yield batch, after
            position += cuts[-1]

    def _buckets(self, start: Cursor) -> Iterator[tuple[Ids, Cursor]]:
        assert self.bucket is not None
        for low in range(start.position, self.size, self.bucket):
            high = min(low + self.bucket, self.size)
            batches = self._bucket(low, high)
            first = start.offset if low == start.position else 0
            for number in range(first, len(batches)):
                done = number + 1 == len(batches)
                yield batches[number], Cursor(high) if done else Cursor(low, number + 1)

    def _bucket(self, low: int, high: int) -> list[Ids]:
        ids = self._ids(low, high)
        if self.nodes is not None:
            ids = ids[np.argsort(self.nodes[ids], kind="stable")]
        cuts = cut(ids, self.nodes, self.edges, self.budget)
        batches = [ids[a:b] for a, b in pairwise(cuts)]
        batches = [
            b for i, b in enumerate(batches) if self._is_kept(b, i + 1 == len(batches) and high == self.size)
        ]
        if self.order is None:
            return batches
        shuffled = KeyedPermutation(len(batches), mix64(self.order.seed) ^ low, self.order.epoch)
        return [batches[i] for i in shuffled(np.arange(len(batches)))]
