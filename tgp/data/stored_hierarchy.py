"""``StoredHierarchy``: a graph of a store with its levels, which are read when they are used."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.data.graph_hierarchy import GraphHierarchy
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.store.read.mapped import compose_clusters

if TYPE_CHECKING:
    from tgp.data.dataset import PooledDataset

__all__ = ["StoredHierarchy", "open_hierarchy"]


class _Levels(Sequence[Data]):
    """Pooled levels of one graph. A level is read when it is first used, and kept.

    Args:
        dataset: Dataset.
        idx: Position of the graph.
    """

    def __init__(self, dataset: PooledDataset, idx: int) -> None:
        self.dataset, self.idx = dataset, idx
        self._read: dict[int, Data] = {}

    def __len__(self) -> int:
        return len(self.dataset.levels)

    def __getitem__(self, key: Any) -> Any:
        positions = range(len(self))[key]
        return self._get(positions) if isinstance(positions, int) else [self._get(p) for p in positions]

    def _get(self, position: int) -> Data:
        if position not in self._read:
            (self._read[position],) = restricted(self.dataset, (position + 1,), ())[self.idx].pooled_data
        return self._read[position]


class StoredHierarchy(GraphHierarchy):
    """One graph of a store with its pooled levels. A level is read when it is first used, and then kept in memory.

    :meth:`~tgp.data.PooledDataset.as_hierarchy` returns it for stores whose graphs are divided over several files. The input graph
    has no ``pooled_data``. To train on a level without reading it, use :class:`~tgp.data.LevelStore`.

    Args:
        dataset: Dataset without a transform.
        idx: Position of the graph in the dataset.
    """

    def __init__(self, dataset: PooledDataset, idx: int) -> None:
        self.dataset, self.idx = dataset, range(len(dataset))[idx]
        self.levels: Sequence[Data] = _Levels(dataset, self.idx)
        self.reducer, self.lifter = BaseReduce(), BaseLift()
        self._on: dict[torch.device, GraphHierarchy] = {}

    @cached_property
    def data(self) -> Data:  # type: ignore[override]
        """Input graph."""
        graph: Data = restricted(self.dataset, (), self.dataset.fields)[self.idx]
        return graph

    def __iter__(self) -> Iterator[Data]:
        return (self[level] for level in range(len(self) + 1))

    def __getitem__(self, level: int) -> Data:
        position = range(len(self) + 1)[level]
        return self.levels[position - 1] if position else self.data

    def _links(self, level: int) -> Tensor:
        graph = int(self.dataset._ids()[self.idx])
        cluster = compose_clusters(self.dataset.reader, graph, str(self.dataset.hierarchy), level)
        return super()._links(level) if cluster is None else torch.from_numpy(cluster)

    def to(self, device: Any) -> GraphHierarchy:
        """Return the hierarchy on a device. Another device than the CPU gets a copy of the input graph and of all levels."""
        target = torch.device(device)
        if target == self.device:
            return self
        if target not in self._on:
            whole = copy.copy(self.data)
            whole.pooled_data = list(self.levels)
            hierarchy = GraphHierarchy(whole, reducer=self.reducer, lifter=self.lifter)
            self._on[target] = hierarchy.to(target)
        return self._on[target]

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return torch.device("cpu")

    def __repr__(self) -> str:
        sizes = (self.dataset.sizes(level)[0][self.idx] for level in range(len(self) + 1))
        return f"GraphHierarchy({' -> '.join(map(str, sizes))} nodes)"


def open_hierarchy(dataset: PooledDataset, idx: int) -> GraphHierarchy:
    """Return one graph and its levels, which are read on first use if graphs are divided over several files.

    Args:
        dataset: Dataset.
        idx: Position of the graph.
    """
    is_divided = dataset.reader.manifest.spec.shard_edges is not None
    if is_divided and dataset.levels and dataset.transform is None and not dataset._steps:
        return StoredHierarchy(dataset, idx)
    return GraphHierarchy(dataset[idx])


def restricted(dataset: PooledDataset, levels: tuple[int, ...], fields: Any) -> PooledDataset:
    """Return a dataset of the same graphs that reads fewer levels and attributes.

    Args:
        dataset: Dataset.
        levels: Levels to read.
        fields: Attributes of the input graphs to read; all if ``None``.
    """
    other = copy.copy(dataset)
    other.levels, other.fields = levels, fields
    return other
