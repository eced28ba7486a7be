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

from tgp.data.permutations import KeyedPermutation, Order, mix64
from tgp.errors import InputError
from tgp.kernels.array_types import LongArray
from tgp.ragged.offsets import offsets

__all__ = ["START", "BatchStream", "Budget", "Cursor", "cut"]


_AHEAD = 1 << 15
"""Smallest number of graphs that are planned together, to reduce the overhead of numpy calls. It takes some 5 ms."""


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


def cut(ids: LongArray, nodes: LongArray | None, edges: LongArray | None, budget: Budget) -> list[int]:
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
        order: Order | None = None,
        nodes: LongArray | None = None,
        edges: LongArray | None = None,
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

    def read(self, start: Cursor = START) -> Iterator[tuple[LongArray, Cursor]]:
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

    def _ids(self, low: int, high: int) -> LongArray:
        positions = np.arange(low, high)
        return positions if self.order is None else self.order(positions)

    def _is_kept(self, ids: LongArray, last: bool) -> bool:
        """Return False for the last batch if ``drop_last`` is set and the batch is not full."""
        if not self.drop_last or not last:
            return True
        return self.budget.graphs is not None and len(ids) == self.budget.graphs

    def _plain(self, start: Cursor) -> Iterator[tuple[LongArray, Cursor]]:
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

    def _buckets(self, start: Cursor) -> Iterator[tuple[LongArray, Cursor]]:
        assert self.bucket is not None
        for low in range(start.position, self.size, self.bucket):
            high = min(low + self.bucket, self.size)
            batches = self._bucket(low, high)
            first = start.offset if low == start.position else 0
            for number in range(first, len(batches)):
                done = number + 1 == len(batches)
                yield batches[number], Cursor(high) if done else Cursor(low, number + 1)

    def _bucket(self, low: int, high: int) -> list[LongArray]:
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
