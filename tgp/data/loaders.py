"""``PoolDataLoader``: load mini-batches of graphs with their levels from a store, a dataset or a list."""

from __future__ import annotations

import functools
import itertools
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter
from torch_geometric.data import Batch, HeteroData
from torch_geometric.data.data import BaseData
from torch_geometric.loader.dataloader import Collater

from tgp.data.batch import GatheredGraphs, PooledBatch
from tgp.data.dataset import PooledDataset
from tgp.data.hetero import join_hetero
from tgp.data.sampler import PoolBatchSampler, size_table
from tgp.data.shared_buffers import SharedBatch, SharedBuffers, release_buffers
from tgp.data.transport import Packed
from tgp.data.typed_graphs import TypedGraphs
from tgp.errors import InputError
from tgp.input_limits import physical_memory
from tgp.store.format.constants import GRAPHS
from tgp.store.read.batch_plan import load_kernels

__all__ = ["PoolCollater", "PoolDataLoader"]


class PoolCollater(Collater):
    """Collate function that joins graphs with levels into a batch.

    A list of graphs becomes a :class:`~tgp.data.PooledBatch`. Graphs that a :class:`~tgp.data.PooledDataset` read together
    become one without work per graph. PyG's ``Collater`` handles everything else.

    Args:
        dataset: Dataset of the loader.
        follow_batch: Attributes that get a ``<name>_batch`` and a ``<name>_ptr``.
        exclude_keys: Attributes to leave out.
        transform: Function that is called on every batch.
    """

    def __init__(
        self,
        dataset: Any,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(dataset, follow_batch, exclude_keys)
        self.transform = transform

    def __call__(self, batch: Any) -> Any:
        joined = self._join(batch)
        return joined if self.transform is None else self.transform(joined)

    def _join(self, batch: Any) -> Any:
        if isinstance(batch, GatheredGraphs):
            batch = batch.to_batch()
            for key in self.exclude_keys or ():
                if key in batch:
                    del batch[key]
            return batch.follow(self.follow_batch or ())
        if isinstance(batch, TypedGraphs) and not (self.follow_batch or self.exclude_keys):
            return batch.to_batch()
        if isinstance(batch, BaseData):  # automatic batching is off
            return batch
        if isinstance(batch[0], HeteroData):
            return join_hetero(batch, self.follow_batch, self.exclude_keys)
        if isinstance(batch[0], BaseData):
            return PooledBatch.from_data_list(batch, self.follow_batch, self.exclude_keys)
        return super().__call__(batch)


class _WorkerCollater:
    """Collate function of worker processes, which puts a batch into a shared buffer.

    Args:
        collater: Collate function that makes the batch.
        owner: Number of the iterator to which the workers belong.
        limit: Maximum number of shared buffers per worker.
    """

    def __init__(self, collater: PoolCollater, owner: int, limit: int) -> None:
        self.collater = collater
        self.owner = owner
        self.limit = limit
        self._buffers: SharedBuffers | None = None

    def __call__(self, batch: Any) -> Any:
        joined = self.collater(batch)
        worker = get_worker_info()
        if worker is None:
            return joined
        if self._buffers is None:
            self._buffers = SharedBuffers(self.owner, worker.id, self.limit)
        return self._buffers.pack(joined)


_iterators = itertools.count(1)


class PoolDataLoader(DataLoader[Any]):
    """``DataLoader`` for graphs with or without pooled levels.

    Batches of a :class:`~tgp.data.PooledDataset` are gathered without work per graph. Graphs of a list or of any PyG
    dataset are joined one by one. The batches are the same.

    Worker processes send a batch in one shared buffer, independent of the number of levels. The loader counts the batches
    that the loop has received. :meth:`state_dict` and :meth:`load_state_dict` therefore continue a run in the middle of an
    epoch, with any number of workers and ranks.

    Args:
        dataset: Source of the graphs.
        batch_size: Maximum number of graphs per batch. It can be ``None`` if ``max_nodes`` or ``max_edges`` is given.
        shuffle: Use a new order in every epoch. ``"block"`` reads a store that does not fit in memory in large pieces. Its
            order is less random: a batch contains graphs of 32 blocks of 512 consecutive graphs, see
            :class:`~tgp.data.permutations.BlockPermutation`.
        follow_batch: Attributes that get a ``<name>_batch`` and a ``<name>_ptr``.
        exclude_keys: Attributes to leave out.
        seed: Seed of the order. If ``None``, a seed is drawn from torch's generator in each epoch, as torch does.
        max_nodes: Maximum number of nodes per batch, summed over ``budget_levels``.
        max_edges: Maximum number of edges per batch, summed over ``budget_levels``.
        budget_levels: Levels that count for these limits. 0 is the input graph, 1 the first pooled graph.
        bucket_size: Number of graphs per bucket. Graphs are sorted by size inside a bucket before they are divided into
            batches. ``None`` for no buckets.
        oversize: Treatment of a graph that exceeds a limit alone: ``"alone"`` puts it into its own batch, ``"error"``
            raises an error.
        rank: Number of this process in a distributed run, see :class:`~tgp.data.PoolBatchSampler`.
        world_size: Number of processes in a distributed run.
        batch_transform: Function that is called on every batch, in the worker process if there are any.
        **kwargs: Arguments of :class:`torch.utils.data.DataLoader`. There are no worker processes unless ``num_workers``
            is given, because a batch of a store is gathered faster than another process can send it. Workers are faster
            if transforms take about 1 ms per batch or more. A ``sampler`` or ``batch_sampler`` determines the
            order. There is no ``collate_fn``; use :class:`torch.utils.data.DataLoader` for your own.

    Raises:
        InputError: If the arguments exclude each other.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | Literal["block"] = False,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
        *,
        seed: int | None = None,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        budget_levels: Sequence[int] = (0,),
        bucket_size: int | None = None,
        oversize: str = "alone",
        rank: int = 0,
        world_size: int = 1,
        batch_transform: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        _check_dataset(dataset)
        _check_collate_fn(kwargs.pop("collate_fn", None))
        self.follow_batch = follow_batch
        self.exclude_keys = exclude_keys
        self.batch_transform = batch_transform
        self._collater = PoolCollater(dataset, follow_batch, exclude_keys, batch_transform)
        kwargs["collate_fn"] = self._collater
        budget = {"max_nodes": max_nodes, "max_edges": max_edges, "bucket_size": bucket_size}
        self.pool_sampler: PoolBatchSampler | None = None
        needs_sizes = any(limit is not None for limit in budget.values())
        for name, is_given in (
            ("budget_levels", tuple(budget_levels) != (0,)),
            ("oversize", oversize != "alone"),
        ):
            if is_given and not needs_sizes:
                raise InputError(
                    f"{name} has no effect: expected it with max_nodes, max_edges or bucket_size, got none of them",
                    field=name,
                )
        if _has_other_order(dataset, batch_size, kwargs, budget, seed, world_size):
            super().__init__(dataset, batch_size, _plain_shuffle(shuffle), **kwargs)
            return
        self.pool_sampler = PoolBatchSampler(
            len(dataset),
            batch_size,
            shuffle=shuffle if isinstance(shuffle, str) else bool(shuffle),
            seed=seed,
            drop_last=kwargs.pop("drop_last", False),
            sizes=size_table(dataset, budget_levels) if needs_sizes else None,
            oversize=oversize,
            rank=rank,
            world_size=world_size,
            generator=kwargs.get("generator"),
            **budget,
        )
        if isinstance(dataset, PooledDataset):
            _prepare_reading(dataset, self.pool_sampler)
        super().__init__(dataset, batch_sampler=self.pool_sampler, **kwargs)
        # torch sets these to None and False if there is a batch sampler.
        self.__dict__["batch_size"] = batch_size
        self.__dict__["drop_last"] = self.pool_sampler.drop_last

    def _get_iterator(self) -> Any:
        """Return an iterator whose workers have their own shared buffers. torch calls this."""
        if not self.num_workers:
            return super()._get_iterator()
        if isinstance(_innermost(self.dataset), PooledDataset):
            load_kernels()
        owner = next(_iterators)
        # The prefetched batches of a worker, and one that the receiver is copying.
        self.collate_fn = _WorkerCollater(self._collater, owner, (self.prefetch_factor or 2) + 1)
        iterator = super()._get_iterator()
        weakref.finalize(iterator, release_buffers, owner).atexit = False
        return iterator

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # torch declares a private class
        return self._receive(super().__iter__())

    def _receive(self, source: Iterator[Any]) -> Iterator[Any]:
        """Unpack the batches of worker processes and count them."""
        sampler = self.pool_sampler
        for item in _unprofiled(source) if sampler is not None else source:
            if sampler is not None:
                sampler.advance()
            yield item.unpack() if isinstance(item, (Packed, SharedBatch)) else item

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of the given epoch."""
        self._stateful("set_epoch").set_epoch(epoch)

    def state_dict(self) -> dict[str, int | str]:
        """Return the position of the loop as a few numbers and strings; see :class:`~tgp.data.PoolBatchSampler`.

        Raises:
            InputError: If batches may arrive out of order, or if a sampler determines the order.
        """
        if not getattr(self, "in_order", True):
            raise InputError(
                "state_dict needs batches in order: expected in_order=True, got False", field="in_order"
            )
        return self._stateful("state_dict").state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a saved position. The next iteration returns the rest of that epoch.

        Args:
            state: Result of :meth:`state_dict`.
        """
        self._stateful("load_state_dict").load_state_dict(state)

    def _stateful(self, what: str) -> PoolBatchSampler:
        if self.pool_sampler is None:
            raise InputError(
                f"{what} needs the order of the loader, got a sampler or batch_sampler",
                field="sampler",
                hint="pass shuffle, seed, rank and world_size instead",
            )
        return self.pool_sampler


def _plain_shuffle(shuffle: bool | str) -> bool:
    """Return the argument for torch, which has no block shuffle."""
    if isinstance(shuffle, str):
        raise InputError(
            f"shuffle={shuffle!r} needs the order of the loader: expected a batch_size and no sampler, got another order",
            field="shuffle",
        )
    return shuffle


def _prepare_reading(dataset: PooledDataset, sampler: PoolBatchSampler) -> None:
    """Tell the system how the graphs will be read."""
    if sampler.shuffle == "block":
        # Everything is announced. What the system dropped meanwhile is read by pages, not with megabytes around it.
        sampler.announce = functools.partial(_read_ahead, dataset)
        dataset._plan().expect_random_order()
    elif sampler.shuffle and not _fits_in_memory(dataset):
        dataset._plan().expect_random_order()


def _fits_in_memory(dataset: PooledDataset) -> bool:
    """Return True if the system can keep all graphs in memory after reading them once."""
    reader = dataset.reader
    parts = (GRAPHS,) if dataset.hierarchy is None else (GRAPHS, dataset.hierarchy)
    return sum(map(reader.file_bytes, parts)) < physical_memory() // 2


def _read_ahead(dataset: PooledDataset, pieces: Sequence[tuple[int, int]]) -> None:
    """Start to read some graphs into memory, and do not wait for them.

    Args:
        dataset: Dataset that contains the graphs.
        pieces: Position of the first graph and the position after the last graph of each piece.
    """
    plan, chosen = dataset._plan(), dataset._indices
    for low, high in pieces:
        if chosen is None:
            plan.read_ahead(low, high)
        elif high > low:
            ids = chosen[low:high]
            first, last = int(ids.min()), int(ids.max())
            if last - first < 2 * len(ids):  # otherwise most of the bytes between them would not be used
                plan.read_ahead(first, last + 1)


def _unprofiled(source: Iterator[Any]) -> Iterator[Any]:
    """Yield the batches of an iterator of torch without its record for the profiler, unless a profiler runs.

    The record takes 10 to 15 us per batch. Only torch's own iterators are read this way.
    """
    if type(source) not in (_SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter):
        yield from source
        return
    read: Callable[[], Any] = source._next_data  # type: ignore[attr-defined]
    while True:
        try:
            is_profiled = torch._C._autograd._profiler_enabled()
            item = next(source) if is_profiled else read()
        except StopIteration:
            return
        yield item


def _check_dataset(dataset: Any) -> None:
    """Raise if a path or a single graph is given, which torch would take as a dataset of characters or attributes."""
    if isinstance(dataset, (str, os.PathLike)):
        hint = f"open the store: PoolDataLoader(PooledDataset({str(dataset)!r}), ...)"
    elif isinstance(dataset, BaseData) and not isinstance(dataset, Batch):
        hint = "put the graph in a list"
    else:
        return
    raise InputError(
        f"dataset must be a dataset or a list of graphs, got {type(dataset).__name__}",
        field="dataset",
        hint=hint,
    )


def _check_collate_fn(collate_fn: Any) -> None:
    """Raise if a collate function is given. Lightning passes the one of the loader that it copies, which is allowed."""
    if collate_fn is not None and not isinstance(collate_fn, (PoolCollater, _WorkerCollater)):
        raise InputError(
            f"collate_fn is not supported: expected none, because PoolDataLoader joins graphs itself, got {collate_fn!r}. "
            "Use torch.utils.data.DataLoader(dataset, collate_fn=...), which passes a sequence of graphs to it",
            field="collate_fn",
        )


def _innermost(dataset: Any) -> Any:
    """Return the dataset of a torch subset, or of a subset of a subset."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return dataset


def _has_other_order(
    dataset: Any,
    batch_size: int | None,
    kwargs: Mapping[str, Any],
    budget: Mapping[str, Any],
    seed: int | None,
    world_size: int,
) -> bool:
    """Return True if a sampler or the dataset determines the order. Limits, buckets, seed and ranks are then refused."""
    given = [name for name in ("sampler", "batch_sampler") if kwargs.get(name) is not None]
    limits = [name for name, value in budget.items() if value is not None]
    if given or isinstance(dataset, IterableDataset):
        if limits or seed is not None or world_size > 1:
            name = [*limits, "seed" if seed is not None else "world_size"][0]
            raise InputError(
                f"{name} needs the order of the loader, got {(given or ['an iterable dataset'])[0]}",
                field=name,
            )
        return True
    return batch_size is None and not limits
