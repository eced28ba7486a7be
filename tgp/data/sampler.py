"""Which graphs make which batch: shuffled, budgeted, shared out over ranks, resumable in the middle."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Sampler

from tgp.data.batch_stream import START, BatchStream, Budget, Cursor, KeyedPermutation
from tgp.errors import InputError

__all__ = ["KeyedPermutation", "PoolBatchSampler", "size_table"]

Sizes = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def size_table(dataset: Any, levels: Sequence[int] = (0,)) -> Sizes:
    """Nodes and edges of every graph, summed over ``levels`` (0 is the input graph).

    A dataset with a ``sizes(level)`` method (:class:`~tgp.data.PooledDataset`) answers from its index. Any other
    one is read once, graph by graph.
    """
    chosen = [int(level) for level in levels]
    if not chosen:
        raise InputError("budget_levels must name at least one level", field="budget_levels")
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
            f"budget_levels asks for level {level}, but a graph has {len(levels)} pooled levels",
            field="budget_levels",
        )
    pooled = levels[level - 1]
    return int(pooled.num_nodes), int(pooled.num_edges)


class PoolBatchSampler(Sampler[list[int]]):
    """Batches of graph ids for any map-style dataset.

    The stream of batches is a function of (number of graphs, limits, seed, epoch). Rank ``r`` of ``w`` takes every
    ``w``-th batch from the ``r``-th on; what is left at the end of the epoch (fewer than ``w`` batches) is split
    evenly over the ranks. So over all ranks every graph comes exactly once per epoch, for any ``w`` and any
    batch size, and a run may continue with another number of ranks.

    Args:
        size: number of graphs.
        batch_size: most graphs per batch; may be ``None`` if a budget is given.
        shuffle: a new order every epoch, without holding it in memory.
        seed: of the order. ``None`` draws one at the start of every epoch from ``generator`` or torch's
            global generator, as torch's own sampler does.
        drop_last: leave out what does not fill a batch on every rank.
        max_nodes, max_edges: budget of a batch, over the levels ``sizes`` were taken from.
        sizes: nodes and edges per graph, see :func:`size_table`; needed for budgets and buckets.
        bucket_size: graphs per bucket of similar size, ``None`` for no buckets.
        oversize: ``"alone"`` or ``"error"``, see :class:`~tgp.data.batch_stream.Budget`.
        rank, world_size: this process and the number of processes that share the epoch.
        generator: source of seeds when ``seed`` is ``None``.
    """

    def __init__(
        self,
        size: int,
        batch_size: int | None = None,
        *,
        shuffle: bool = False,
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
        if not 0 <= rank < world_size:
            raise InputError(f"rank must lie in [0, {world_size}), got {rank}", field="rank")
        if seed is None and world_size > 1 and shuffle:
            raise InputError("ranks can only agree on an order with a seed, got seed=None", field="seed")
        if bucket_size is not None and bucket_size < 1:
            raise InputError(f"bucket_size must be positive, got {bucket_size}", field="bucket_size")
        if (self.budget.by_size or bucket_size) and sizes is None:
            raise InputError(
                "budgets and buckets need the sizes of the graphs", field="sizes", hint="size_table(dataset)"
            )
        if sizes is not None and any(len(table) != size for table in sizes):
            raise InputError(f"sizes must hold {size} graphs, got {[len(t) for t in sizes]}", field="sizes")
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
        self._counted: tuple[int, int] | None = None

    def set_epoch(self, epoch: int) -> None:
        """The next iteration starts at the beginning of this epoch."""
        self.epoch = int(epoch)
        self._begin = True
        self._start = None
        self._reached = (self.epoch, START)

    def __iter__(self) -> Iterator[list[int]]:
        # An epoch begins with its first batch: torch's worker pool asks for an iterator it never uses.
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
        step = next(steps, None)
        while step is not None:
            following = next(steps, None)
            ids, behind = step
            # Behind the last batch of an epoch stands the beginning of the next one.
            pending.append((epoch + 1, START) if following is None else (epoch, behind))
            yield ids.tolist()
            step = following

    def _steps(self, start: Cursor) -> Iterator[tuple[npt.NDArray[np.int64], Cursor]]:
        """What this rank gets, with the place all ranks have reached by then."""
        group: list[npt.NDArray[np.int64]] = []
        behind = start
        for ids, behind in self._stream().read(start):
            group.append(ids)
            if len(group) == self.world_size:
                yield group[self.rank], behind
                group = []
        if group and not (self.drop_last and self.world_size > 1):
            share = np.array_split(np.concatenate(group), self.world_size)[self.rank]
            if len(share):
                yield share, behind

    def _stream(self) -> BatchStream:
        nodes, edges = self.sizes or (None, None)
        order = KeyedPermutation(self.size, self._seed_now, self.epoch) if self.shuffle else None
        return BatchStream(
            self.size,
            self.budget,
            order=order,
            nodes=nodes,
            edges=edges,
            bucket=self.bucket_size,
            drop_last=self.drop_last,
        )

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch; budgets are planned to answer it."""
        if self.budget.by_size or self.bucket_size:
            if self._counted is None or self._counted[0] != self.epoch:
                self._counted = (self.epoch, sum(1 for _ in self._steps(START)))
            return self._counted[1]
        steps, rest = divmod(self._stream().count(), self.world_size)
        if rest == 0 or self.drop_last:
            return steps
        left = self.size - steps * self.world_size * (self.budget.graphs or 0)
        return steps + (self.rank < left)

    def advance(self) -> None:
        """Note that one more batch reached the training loop (samplers run ahead of it)."""
        if self._pending:
            self._reached = self._pending.popleft()

    def state_dict(self) -> dict[str, int | str]:
        """Where the training loop stands, about 100 bytes; see :meth:`load_state_dict`.

        The same on all ranks, except behind the last batches of an epoch: save the one of rank 0.
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
        """Continue behind the last batch of a saved run: exact, and independent of how far it was.

        The number of ranks and workers may differ from the saved run. So may the batch size, unless graphs
        are in buckets.
        """
        missing = {"epoch", "position", "offset", "seed", "size", "plan"} - set(state)
        if missing:
            raise InputError(f"a sampler state needs {', '.join(sorted(missing))}", field="state")
        if state["size"] != self.size:
            raise InputError(
                f"the state belongs to {state['size']} graphs, this sampler has {self.size}", field="size"
            )
        if state["offset"] and state["plan"] != self._plan():
            raise InputError(
                f"a state inside a bucket needs the same batching: saved {state['plan']}, now {self._plan()}",
                field="plan",
            )
        self.epoch = int(state["epoch"])
        self._seed_now = int(state["seed"])
        cursor = Cursor(int(state["position"]), int(state["offset"]))
        self._begin = True
        # At the beginning of an epoch a fresh seed is drawn where the user asked for that.
        self._start = cursor if cursor != START else None
        self._reached = (self.epoch, cursor)

    def _plan(self) -> str:
        return f"{self.budget}b{self.bucket_size or ''}"
