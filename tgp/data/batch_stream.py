"""How a shuffled stream of graphs is cut into batches. Pure functions of sizes and positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError

__all__ = ["START", "BatchStream", "Budget", "Cursor", "KeyedPermutation", "cut"]

Ids = npt.NDArray[np.int64]

_ROUNDS = 8
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1

_AHEAD = 64
"""Batches planned in one go, so that numpy's call overhead is shared."""


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


class Cursor(NamedTuple):
    """A place in the stream: graphs before it, and batches already taken from the bucket that starts there."""

    position: int = 0
    offset: int = 0


START = Cursor()
"""The beginning of an epoch."""


@dataclass(frozen=True)
class Budget:
    """What a batch may hold at most. ``None`` is no limit; at least one limit must be set.

    Args:
        graphs: number of graphs.
        nodes: number of nodes, summed over the levels the sizes were taken from.
        edges: number of edges, likewise.
        oversize: what happens to a graph that is over budget on its own: ``"alone"`` gives it a batch
            of its own, ``"error"`` refuses.
    """

    graphs: int | None = None
    nodes: int | None = None
    edges: int | None = None
    oversize: str = "alone"

    def __post_init__(self) -> None:
        limits = {"batch_size": self.graphs, "max_nodes": self.nodes, "max_edges": self.edges}
        if all(limit is None for limit in limits.values()):
            raise InputError("a batch needs a limit: batch_size, max_nodes or max_edges", field="batch_size")
        for name, limit in limits.items():
            if limit is not None and (isinstance(limit, bool) or int(limit) != limit or limit < 1):
                raise InputError(f"{name} must be a positive integer, got {limit!r}", field=name)
        if self.oversize not in ("alone", "error"):
            raise InputError(f"oversize must be 'alone' or 'error', got {self.oversize!r}", field="oversize")

    @property
    def by_size(self) -> bool:
        """Whether node or edge counts matter."""
        return self.nodes is not None or self.edges is not None

    def __str__(self) -> str:
        return f"g{self.graphs or ''}n{self.nodes or ''}e{self.edges or ''}"


def cut(ids: Ids, nodes: Ids | None, edges: Ids | None, budget: Budget) -> list[int]:
    """Greedy cuts ``[0, ..., len(ids)]``: every batch takes what fits, in order.

    Args:
        ids: graphs in the order they are taken.
        nodes: ``[G]`` nodes of every graph (not only of ``ids``), or ``None`` if they do not matter.
        edges: ``[G]`` edges, likewise.
        budget: the limits.
    """
    count = len(ids)
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
                f"graph {graph} has {int(chosen.max())} {name}, more than a batch may hold ({limit})",
                field=f"max_{name}",
                hint="raise the budget, or pass oversize='alone' to give such graphs a batch of their own",
            )
        total = np.concatenate([[0], np.cumsum(chosen)])
        fits = np.searchsorted(total, total[:-1] + limit, side="right") - 1
        np.minimum(following, fits, out=following)
    np.maximum(following, np.arange(count) + 1, out=following)
    hops = following.tolist()
    cuts = [0]
    while cuts[-1] < count:
        cuts.append(hops[cuts[-1]])
    return cuts


class BatchStream:
    """The batches of one epoch as a function of ``(seed, epoch)``, readable from any :class:`Cursor`.

    The stream knows nothing of ranks or workers: those share it out. Without buckets a batch takes the next graphs
    of the order. With buckets of ``bucket`` graphs, the graphs of a bucket are sorted by size before they are
    cut, and the batches of a bucket come in shuffled order: batches of even size, a random order all the same.
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
        """Batches from ``start`` on, each with the cursor behind it."""
        return self._buckets(start) if self.bucket else self._plain(start)

    def count(self) -> int:
        """Number of batches of the epoch."""
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

    def _is_whole(self, ids: Ids, last: bool) -> bool:
        """Whether a batch survives ``drop_last``: only the last one, and only if it could hold more graphs."""
        if not self.drop_last or not last:
            return True
        return self.budget.graphs is not None and len(ids) == self.budget.graphs

    def _plain(self, start: Cursor) -> Iterator[tuple[Ids, Cursor]]:
        position, ahead = start.position, (self.budget.graphs or 64) * _AHEAD
        while position < self.size:
            stop = min(position + ahead, self.size)
            ids = self._ids(position, stop)
            cuts = cut(ids, self.nodes, self.edges, self.budget)
            if stop < self.size and len(cuts) > 2:
                cuts.pop()  # the last batch could still grow: plan it again with what follows
            elif stop < self.size:
                ahead *= 2
                continue
            for low, high in pairwise(cuts):
                batch, behind = ids[low:high], Cursor(position + high)
                if self._is_whole(batch, behind.position == self.size):
                    yield batch, behind
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
            b for i, b in enumerate(batches) if self._is_whole(b, i + 1 == len(batches) and high == self.size)
        ]
        if self.order is None:
            return batches
        shuffled = KeyedPermutation(len(batches), mix64(self.order.seed) ^ low, self.order.epoch)
        return [batches[i] for i in shuffled(np.arange(len(batches)))]
