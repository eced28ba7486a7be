"""``PoolDataLoader``: mini-batches of graphs with their levels, from a store, a dataset or a list."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, Subset, get_worker_info
from torch_geometric.data.data import BaseData
from torch_geometric.loader.dataloader import Collater

from tgp.data.batch import PooledBatch
from tgp.data.dataset import PooledDataset
from tgp.data.pack import Packed
from tgp.data.sampler import PoolBatchSampler, size_table
from tgp.data.shared_buffers import InSlot, SharedBuffers, forget
from tgp.errors import InputError
from tgp.store.read.batch_plan import load_kernels

__all__ = ["PoolCollater", "PoolDataLoader"]


class PoolCollater(Collater):
    """Joins what a dataset gives into a batch.

    A list of graphs becomes a :class:`~tgp.data.PooledBatch`; a batch that is already finished
    (:class:`~tgp.data.PooledDataset`) passes through; everything else goes PyG's way.

    Args:
        dataset: the dataset, kept for reference.
        follow_batch: attributes that get a ``<name>_batch`` and ``<name>_ptr``.
        exclude_keys: attributes to leave out.
    """

    def __init__(
        self,
        dataset: Any,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(dataset, follow_batch, exclude_keys)

    def __call__(self, batch: Any) -> Any:
        if isinstance(batch, PooledBatch):
            for key in self.exclude_keys or ():
                if key in batch:
                    del batch[key]
            return batch.follow(self.follow_batch or ())
        if isinstance(batch, BaseData):  # automatic batching is off
            return batch
        if isinstance(batch[0], BaseData):
            return PooledBatch.from_data_list(batch, self.follow_batch, self.exclude_keys)
        return super().__call__(batch)


class _WorkerCollater:
    """In a worker process, puts the batch into one piece of shared memory."""

    def __init__(self, collater: PoolCollater, owner: int = 0, slots: int = 0) -> None:
        self.collater = collater
        self.owner = owner
        self.limit = slots
        self._slots: SharedBuffers | None = None

    def __call__(self, batch: Any) -> Any:
        joined = self.collater(batch)
        worker = get_worker_info()
        if worker is None:
            return joined
        if self._slots is None:
            self._slots = SharedBuffers(self.owner, worker.id, self.limit)
        return self._slots.pack(joined)


_iterators = itertools.count(1)


class PoolDataLoader(DataLoader):
    """A ``DataLoader`` for graphs with pooled levels; also for graphs without.

    Over a :class:`~tgp.data.PooledDataset` a batch is gathered as a whole, without per-graph work. Over a list of
    graphs or any PyG dataset the graphs are joined one by one. The batches are the same.

    A batch comes from a worker process in a single piece of shared memory, whatever the number of levels. The loader
    remembers how many batches the loop has seen: :meth:`state_dict` and :meth:`load_state_dict` continue a run in
    the middle of an epoch, with any number of workers and ranks.

    Args:
        dataset: where graphs come from.
        batch_size: most graphs per batch; ``None`` is allowed together with ``max_nodes`` or ``max_edges``.
        shuffle: a new order every epoch.
        follow_batch: attributes that get a ``<name>_batch`` and ``<name>_ptr``.
        exclude_keys: attributes to leave out.
        seed: of the order. ``None`` draws from torch's generator at each epoch, as torch does.
        max_nodes, max_edges: budget of a batch, summed over ``budget_levels``.
        budget_levels: levels that count for the budget; 0 is the input graph.
        bucket_size: sort graphs by size in buckets of this many before cutting batches.
        oversize: a graph over budget comes ``"alone"``, or is an ``"error"``.
        rank, world_size: share of a distributed run, see :class:`~tgp.data.PoolBatchSampler`.
        **kwargs: arguments of :class:`torch.utils.data.DataLoader`. With ``sampler`` or ``batch_sampler`` the order
            is theirs. A ``collate_fn`` is ignored.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
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
        **kwargs: Any,
    ) -> None:
        kwargs.pop("collate_fn", None)
        self.follow_batch = follow_batch
        self.exclude_keys = exclude_keys
        self._collater = PoolCollater(dataset, follow_batch, exclude_keys)
        kwargs["collate_fn"] = self._collater
        budget = {"max_nodes": max_nodes, "max_edges": max_edges, "bucket_size": bucket_size}
        self.pool_sampler: PoolBatchSampler | None = None
        if _chooses_itself(dataset, batch_size, kwargs, budget, world_size):
            super().__init__(dataset, batch_size, shuffle, **kwargs)
            return
        needs_sizes = any(limit is not None for limit in budget.values())
        self.pool_sampler = PoolBatchSampler(
            len(dataset),
            batch_size,
            shuffle=bool(shuffle),
            seed=seed,
            drop_last=kwargs.pop("drop_last", False),
            sizes=size_table(dataset, budget_levels) if needs_sizes else None,
            oversize=oversize,
            rank=rank,
            world_size=world_size,
            generator=kwargs.get("generator"),
            **budget,
        )
        super().__init__(dataset, batch_sampler=self.pool_sampler, **kwargs)
        # torch forgets the batch size when it is given a batch sampler; readers of the attribute need not.
        self.__dict__["batch_size"] = batch_size
        self.__dict__["drop_last"] = self.pool_sampler.drop_last

    def _get_iterator(self) -> Any:
        """Torch's hook: every set of workers gets slots of its own."""
        if not self.num_workers:
            return super()._get_iterator()
        if isinstance(_innermost(self.dataset), PooledDataset):
            load_kernels()
        owner = next(_iterators)
        # As many batches of a worker as can be under way, and one that is being copied out.
        self.collate_fn = _WorkerCollater(self._collater, owner, (self.prefetch_factor or 2) + 1)
        iterator = super()._get_iterator()
        weakref.finalize(iterator, forget, owner).atexit = False
        return iterator

    def __iter__(self) -> Iterator[Any]:
        source = super().__iter__()
        return self._received(source)

    def _received(self, source: Iterator[Any]) -> Iterator[Any]:
        sampler = self.pool_sampler
        for item in source:
            if sampler is not None:
                sampler.advance()
            yield item.unpack() if isinstance(item, (Packed, InSlot)) else item

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of this epoch."""
        self._stateful("set_epoch").set_epoch(epoch)

    def state_dict(self) -> dict[str, int | str]:
        """Where the loop stands: small, plain numbers and text. See :class:`~tgp.data.PoolBatchSampler`."""
        if not getattr(self, "in_order", True):
            raise InputError("state_dict needs batches in order, got in_order=False", field="in_order")
        return self._stateful("state_dict").state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken; the next iteration gives the rest of that epoch."""
        self._stateful("load_state_dict").load_state_dict(state)

    def _stateful(self, what: str) -> PoolBatchSampler:
        if self.pool_sampler is None:
            raise InputError(
                f"{what} needs the loader's own order, but a sampler or batch_sampler was given",
                field="sampler",
                hint="leave it out and pass shuffle, seed, rank and world_size instead",
            )
        return self.pool_sampler


def _innermost(dataset: Any) -> Any:
    """What a torch subset, or a subset of a subset, was taken from."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return dataset


def _chooses_itself(
    dataset: Any,
    batch_size: int | None,
    kwargs: Mapping[str, Any],
    budget: Mapping[str, Any],
    world_size: int,
) -> bool:
    """Whether torch's own machinery decides on the order: then budgets, buckets and ranks have no place."""
    given = [name for name in ("sampler", "batch_sampler") if kwargs.get(name) is not None]
    limits = [name for name, value in budget.items() if value is not None]
    if given or isinstance(dataset, IterableDataset):
        if limits or world_size > 1:
            name = (limits or ["world_size"])[0]
            raise InputError(
                f"{name} needs the loader's own order, got {(given or ['an iterable dataset'])[0]}",
                field=name,
            )
        return True
    return batch_size is None and not limits
