"""``PoolBatchSampler``: shuffled batches with limits, for several ranks, resumable at any batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import Sampler

from tgp.data.batch_stream import START, BatchStream, Budget, Cursor
from tgp.data.permutations import BlockPermutation, KeyedPermutation, Order
from tgp.errors import InputError
from tgp.kernels.array_types import LongArray
from tgp.ragged.offsets import offsets

__all__ = ["KeyedPermutation", "PoolBatchSampler", "size_table"]

Sizes = tuple[LongArray, LongArray]
Step = tuple[LongArray, Cursor]


def size_table(dataset: Any, levels: Sequence[int] = (0,)) -> Sizes:
    """Return the number of nodes and of edges of every graph, summed over some levels.

    A dataset with a ``sizes(level)`` method (:class:`~tgp.data.PooledDataset`) is asked for the sizes. Any other dataset is
    read once, graph by graph.

    Args:
        dataset: Dataset of graphs.
        levels: Levels to add up. 0 is the input graph, 1 the first pooled graph.

    Returns:
        ``[G]`` nodes and ``[G]`` edges.

    Raises:
        InputError: If no level is given, or if a graph does not have a level.
    """
    chosen = [int(level) for level in levels]
    if not chosen:
        raise InputError("budget_levels must contain at least one level, got none", field="budget_levels")
    if hasattr(dataset, "sizes"):
        tables = [dataset.sizes(level) for level in chosen]
    else:
        rows = [[_graph_size(data, level) for level in chosen] for data in dataset]
        counts = np.asarray(rows, np.int64).reshape(len(rows), len(chosen), 2)
        tables = [(counts[:, i, 0], counts[:, i, 1]) for i in range(len(chosen))]
    return sum(t[0] for t in tables), sum(t[1] for t in tables)


def _graph_size(data: Any, level: int) -> tuple[int, int]:
    if level == 0:
        return int(data.num_nodes), int(data.num_edges)
    levels = data.get("pooled_data") or []
    if not 0 < level <= len(levels):
        raise InputError(
            f"a graph has no such level: expected budget_levels in [0, {len(levels)}], got {level}",
            field="budget_levels",
        )
    pooled = levels[level - 1]
    return int(pooled.num_nodes), int(pooled.num_edges)


class PoolBatchSampler(Sampler[list[int]]):
    """Sampler of batches of graph ids for any map-style dataset.

    The sequence of batches is a function of the number of graphs, the limits, the seed and the epoch. Rank ``r`` of ``w``
    takes the batches ``r``, ``r + w``, and so on. All ranks get the same number of batches, no batch exceeds a limit, and
    a run can continue with another number of ranks. If fewer than ``w`` batches remain at the end of the epoch:

    - They are split into ``w`` smaller batches.
    - If fewer than ``w`` graphs remain, the last graphs of the step before are moved to the last step (not with buckets).
    - If there are still too few, the first graphs of the epoch are repeated, as torch's ``DistributedSampler`` does. Fewer
      than ``w`` graphs are repeated. With a batch size of 2 or more, no other limit and no buckets, this occurs only in a
      dataset of fewer than ``w`` graphs.

    Args:
        size: Number of graphs.
        batch_size: Maximum number of graphs per batch. It can be ``None`` if another limit is given.
        shuffle: Use a new order in every epoch. The order is not stored. ``"block"`` shuffles blocks of consecutive graphs
            and the graphs of some blocks together, for stores that do not fit in memory; see
            :class:`~tgp.data.permutations.BlockPermutation`.
        seed: Seed of the order. If ``None``, a seed is drawn at the start of every epoch from ``generator`` or from torch's
            global generator, as torch's own sampler does.
        drop_last: Leave out graphs that do not fill a batch on every rank.
        max_nodes: Maximum number of nodes per batch, over the levels of ``sizes``.
        max_edges: Maximum number of edges per batch, over the levels of ``sizes``.
        sizes: Number of nodes and of edges of each graph, see :func:`size_table`. Limits and buckets need them.
        bucket_size: Number of graphs per bucket of similar sizes; ``None`` for no buckets.
        oversize: ``"alone"`` or ``"error"``, see :class:`~tgp.data.batch_stream.Budget`.
        rank: Number of this process.
        world_size: Number of processes that share the epoch.
        generator: Source of seeds if ``seed`` is ``None``.

    Raises:
        InputError: If an argument is invalid, or if ``sizes`` or a seed is missing.

    Examples:
        >>> list(PoolBatchSampler(5, 2))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        size: int,
        batch_size: int | None = None,
        *,
        shuffle: bool | Literal["block"] = False,
        seed: int | None = 0,
        drop_last: bool = False,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        sizes: Sizes | None = None,
        bucket_size: int | None = None,
        oversize: str = "alone",
        rank: int = 0,
        world_size: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        self.budget = Budget(batch_size, max_nodes, max_edges, oversize)
        if isinstance(shuffle, str) and shuffle != "block":
            raise InputError(f"shuffle must be True, False or 'block', got {shuffle!r}", field="shuffle")
        if not 0 <= rank < world_size:
            raise InputError(f"rank must lie in [0, {world_size}), got {rank}", field="rank")
        if seed is None and world_size > 1 and shuffle:
            raise InputError("several ranks need the same order: expected a seed, got None", field="seed")
        if bucket_size is not None and bucket_size < 1:
            raise InputError(f"bucket_size must be positive, got {bucket_size}", field="bucket_size")
        if (self.budget.by_size or bucket_size) and sizes is None:
            raise InputError(
                "limits and buckets need the sizes of the graphs, got None",
                field="sizes",
                hint="size_table(dataset)",
            )
        if sizes is not None and any(len(table) != size for table in sizes):
            raise InputError(
                f"sizes have the wrong length: expected {size} graphs, got {[len(t) for t in sizes]}",
                field="sizes",
            )
        self.size = size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.sizes = sizes
        self.bucket_size = bucket_size
        self.rank = rank
        self.world_size = world_size
        self.generator = generator
        self.epoch = 0
        self._seed_now = 0 if seed is None else seed
        self._begin = True
        self._start: Cursor | None = None
        self._pending: deque[tuple[int, Cursor]] = deque()
        self._reached = (0, START)
        self._counted: tuple[tuple[int, int], int] | None = None
        self.announce: Callable[[list[tuple[int, int]]], None] | None = None
        """Function that gets the graphs of the next window of a block shuffle, as first graph and graph after the last."""

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of the given epoch."""
        self.epoch = int(epoch)
        self._begin = True
        self._start = None
        self._reached = (self.epoch, START)

    def __iter__(self) -> Iterator[list[int]]:
        # The epoch starts with its first batch, because torch's worker pool creates an iterator that it never uses.
        if not self._begin:
            self.epoch += 1
        self._begin = False
        if self._start is None and self.seed is None and self.shuffle:
            self._seed_now = int(torch.empty((), dtype=torch.int64).random_(generator=self.generator))
        start, self._start = self._start or START, None
        epoch = self.epoch
        pending: deque[tuple[int, Cursor]] = deque()
        self._pending = pending
        self._reached = (epoch, start)
        steps = self._steps(start)
        order = self._order()
        announced = -1
        step = next(steps, None)
        while step is not None:
            following = next(steps, None)
            ids, after = step
            if self.announce is not None and isinstance(order, BlockPermutation):
                window = order.window_of(after.position - 1)
                for number in range(max(announced, window - 1) + 1, window + 2):
                    self.announce(order.window(number))
                announced = max(announced, window + 1)
            # The position after the last batch of an epoch is the beginning of the next epoch.
            pending.append((epoch + 1, START) if following is None else (epoch, after))
            yield ids.tolist()
            step = following

    def _steps(self, start: Cursor) -> Iterator[Step]:
        """Yield the batches of this rank, each with the position that all ranks have reached after it."""
        if self.world_size == 1:
            yield from self._stream().read(start)
            return
        for batches, after in self._groups(start):
            yield batches[self.rank], after

    def _groups(self, start: Cursor) -> Iterator[tuple[list[LongArray], Cursor]]:
        """Yield one batch per rank and the position after them. The result depends only on the graphs after ``start``."""
        ranks = self.world_size
        full: tuple[list[LongArray], Cursor] | None = None
        group: list[LongArray] = []
        after = start
        for ids, after in self._stream().read(start):
            group.append(ids)
            if len(group) == ranks:
                if full is not None:
                    yield full
                full, group = (group, after), []
        if not group or self.drop_last:
            if full is not None:
                yield full
            return
        missing = ranks - sum(map(len, group))
        # A position inside a batch of a bucket cannot be resumed.
        if full is not None and missing > 0 and self.bucket_size is None:
            full, moved = self._shorten(*full, missing)
            group = [moved, *group]
        if full is not None:
            yield full
        yield self._split(group) if missing <= 0 else self._pad(np.concatenate(group)), after

    def _shorten(
        self, batches: list[LongArray], after: Cursor, count: int
    ) -> tuple[tuple[list[LongArray], Cursor], LongArray]:
        """Move up to ``count`` graphs from the end of a step to the next one. Every rank keeps at least one graph."""
        ids = np.concatenate(batches)
        count = min(count, len(ids) - self.world_size)
        if count == 0:
            return (batches, after), ids[:0]
        keep = len(ids) - count
        starts = offsets(np.array([len(batch) for batch in batches]))
        kept = [ids[low : min(high, keep)] for low, high in pairwise(starts.tolist()) if low < keep]
        return (self._split(kept), Cursor(after.position - count)), ids[keep:]

    def _split(self, batches: list[LongArray]) -> list[LongArray]:
        """Split batches into one per rank, in the same order. No batch exceeds a limit that its origin does not exceed."""
        if not self.budget.by_size:
            return np.array_split(np.concatenate(batches), self.world_size)
        # Graphs of different batches may exceed a limit together, so only graphs of the same batch stay together.
        lengths = np.array([len(batch) for batch in batches])
        pieces = np.ones(len(batches), np.int64)
        for _ in range(self.world_size - len(batches)):
            pieces[np.argmax(lengths / pieces)] += 1
        return [
            piece
            for batch, count in zip(batches, pieces, strict=True)
            for piece in np.array_split(batch, count)
        ]

    def _pad(self, ids: LongArray) -> list[LongArray]:
        """Return one graph per rank: ``ids``, then the first graphs of the epoch that are not in ``ids``."""
        missing = self.world_size - len(ids)
        first = np.arange(min(self.world_size, self.size))
        order = self._order()
        if order is not None:
            first = order(first)
        others = first[~np.isin(first, ids)]
        filled = np.concatenate([ids, np.resize(others if len(others) else ids, missing)])
        return np.split(filled, self.world_size)

    def _order(self) -> Order | None:
        """Return the order of the current epoch; ``None`` if the graphs are not shuffled."""
        if not self.shuffle:
            return None
        kind = BlockPermutation if self.shuffle == "block" else KeyedPermutation
        return kind(self.size, self._seed_now, self.epoch)

    def _stream(self) -> BatchStream:
        nodes, edges = self.sizes or (None, None)
        return BatchStream(
            self.size,
            self.budget,
            order=self._order(),
            nodes=nodes,
            edges=edges,
            bucket=self.bucket_size,
            drop_last=self.drop_last,
        )

    def __len__(self) -> int:
        """Return the number of batches in the whole current epoch, which is the same for all ranks.

        With limits of nodes or edges, or with buckets, all batches of the epoch are planned.
        """
        key = (self.epoch, self._seed_now)
        if self._counted is None or self._counted[0] != key:
            self._counted = (key, self._stream().count())
        steps, rest = divmod(self._counted[1], self.world_size)
        return steps + (rest > 0 and not self.drop_last)

    def advance(self) -> None:
        """Record that the training loop received one more batch. The sampler itself is several batches ahead."""
        if self._pending:
            self._reached = self._pending.popleft()

    def state_dict(self) -> dict[str, int | str]:
        """Return the position of the training loop in about 100 bytes; see :meth:`load_state_dict`.

        The state is the same on all ranks, so it is enough to save the state of rank 0.
        """
        epoch, cursor = self._reached
        return {
            "epoch": epoch,
            "position": cursor.position,
            "offset": cursor.offset,
            "seed": self._seed_now,
            "size": self.size,
            "plan": self._plan(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the last batch of a saved run.

        The number of ranks and workers may differ from the saved run. The batch size may differ, too, unless there are
        buckets.

        Args:
            state: Result of :meth:`state_dict`.

        Raises:
            InputError: If the state is incomplete or belongs to another dataset or to other buckets.
        """
        missing = {"epoch", "position", "offset", "seed", "size", "plan"} - set(state)
        if missing:
            raise InputError(f"the state is incomplete: expected {', '.join(sorted(missing))}", field="state")
        if state["size"] != self.size:
            raise InputError(
                f"the state belongs to another dataset: expected {self.size} graphs, got {state['size']}",
                field="size",
            )
        if state["offset"] and state["plan"] != self._plan():
            raise InputError(
                f"a state inside a bucket needs the same limits: expected {self._plan()}, got {state['plan']}",
                field="plan",
            )
        self.epoch = int(state["epoch"])
        self._seed_now = int(state["seed"])
        cursor = Cursor(int(state["position"]), int(state["offset"]))
        self._begin = True
        # At the beginning of an epoch, a new seed is drawn if the user gave none.
        self._start = cursor if cursor != START else None
        self._reached = (self.epoch, cursor)

    def _plan(self) -> str:
        return f"{self.budget}b{self.bucket_size or ''}"
