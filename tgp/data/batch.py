"""``PooledBatch``: a batch of graphs together with their pooled levels."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.data.batch import DynamicInheritance
from torch_geometric.data.data import BaseData

from tgp.data.attributes import levels_to_data, shift_values
from tgp.data.batch_template import BatchTemplate, describe_layout, describe_table
from tgp.data.collate import LevelCountError, collate, separate
from tgp.data.convert import table_to_data
from tgp.data.pooled_data import PooledData, pooled_class
from tgp.ragged import GraphTable, Level
from tgp.store.read.batch_layout import Layout
from tgp.store.read.batch_plan import BatchArrays

__all__ = ["GatheredGraphs", "LevelCountError", "PooledBatch"]


class _PooledInheritance(DynamicInheritance):  # type: ignore[misc]  # PyG has no types
    """Metaclass of batches that are always batches of :class:`~tgp.data.PooledData`."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        base = kwargs.get("_base_cls", Data)
        if issubclass(base, Data) and not issubclass(base, Batch):
            kwargs["_base_cls"] = pooled_class(base)
        return super().__call__(*args, **kwargs)


class PooledBatch(Batch, metaclass=_PooledInheritance):
    """PyG ``Batch`` whose pooled levels are batches, too.

    ``batch.pooled_data[l]`` is level ``l + 1`` of all graphs; the input graphs are level 0. It is a batch with
    ``edge_index``, ``edge_weight``, ``batch``, ``ptr``, ``num_nodes``, ``num_graphs``, ``get_example`` and the assignment
    ``so``, whose rows are the nodes of level ``l``. Everything else behaves as in PyG.

    :meth:`from_data_list` joins graphs that have levels (see :class:`~tgp.data.PreCoarsening`). :meth:`from_arrays` uses
    the flat arrays of a store, without work per graph. Both give the same tensors. PyG's loaders join graphs of class
    :class:`~tgp.data.PooledData` into this class, too.
    """

    @classmethod
    def from_data_list(
        cls,
        data_list: Sequence[BaseData],
        follow_batch: Iterable[str] | None = None,
        exclude_keys: Iterable[str] | None = None,
    ) -> PooledBatch:
        """Join graphs and, level by level, the graphs and assignments in their attributes.

        Args:
            data_list: Graphs.
            follow_batch: Attributes that get a ``<name>_batch`` and a ``<name>_ptr``.
            exclude_keys: Attributes to leave out.

        Raises:
            LevelCountError: If the graphs have different numbers of levels.
        """
        add_batch = not isinstance(data_list[0], Batch)
        batch: PooledBatch
        batch, slices, incs = collate(cls, data_list, True, add_batch, follow_batch, exclude_keys)
        batch._num_graphs = len(data_list)
        batch._slice_dict = slices
        batch._inc_dict = incs
        return batch

    @classmethod
    def from_arrays(
        cls,
        table: GraphTable,
        levels: Sequence[Level] = (),
        *,
        key: str = "pooled_data",
    ) -> PooledBatch:
        """Return a batch over flat arrays: one tensor per array, no work per graph.

        Args:
            table: Input graphs. Node ids are local to each graph.
            levels: Pooled levels, finest first. Ids count through the batch.
            key: Attribute for the levels.
        """
        arrays, description = describe_table(table, levels)
        batch: PooledBatch = BatchTemplate(*description, _prototype()).fill(arrays, key)
        return batch

    @classmethod
    def from_gathered(cls, arrays: BatchArrays) -> PooledBatch:
        """Return a batch over the arrays that a :class:`~tgp.store.read.batch_plan.BatchPlan` gathered."""
        assert arrays.layout is not None, "a plan records its layout"
        template = _templates.get(arrays.layout)
        if template is None:
            description = describe_layout(arrays.layout)
            template = _templates[arrays.layout] = BatchTemplate(*description, _prototype())
        batch: PooledBatch = template.fill(arrays)
        return batch

    def get_example(self, idx: int) -> BaseData:
        """Return the graph at ``idx`` with all of its levels.

        Args:
            idx: Position in the batch; negative positions count from the end.

        Raises:
            IndexError: If the batch has no such graph.
            RuntimeError: If the batch was not made by :meth:`from_data_list` or :meth:`from_arrays`.
        """
        if not hasattr(self, "_slice_dict"):
            raise RuntimeError(
                "Cannot reconstruct a graph: expected a batch made by 'from_data_list' or 'from_arrays'"
            )
        idx = _position(idx, self.num_graphs)
        return separate(type(self).__bases__[-1], self, idx, self._slice_dict, self._inc_dict)

    def follow(self, keys: Iterable[str]) -> PooledBatch:
        """Add ``<name>_batch`` and ``<name>_ptr`` for each of ``keys``, and return the batch itself."""
        for key in keys:
            slices = self._slice_dict.get(key)
            if slices is not None:
                self[f"{key}_ptr"] = slices
                counts = slices.diff()
                self[f"{key}_batch"] = torch.repeat_interleave(torch.arange(len(counts)), counts)
        return self


class GatheredGraphs(Sequence[Data]):
    """Graphs of a batch that were read together.

    torch's fetcher and the collate functions of other libraries see a sequence of graphs. ``PoolCollater`` takes the
    batch instead, which needs no work per graph. The graphs are made on first access.

    Args:
        arrays: Arrays of the batch.
    """

    def __init__(self, arrays: BatchArrays) -> None:
        self._arrays = arrays
        self._graphs: list[Data] | None = None

    def to_batch(self) -> PooledBatch:
        """Return the batch of the graphs."""
        return PooledBatch.from_gathered(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays.node_ptr) - 1

    def __getitem__(self, idx: Any) -> Any:
        if self._graphs is None:
            self._graphs = _split_arrays(self._arrays)
        return self._graphs[idx]

    def __reduce__(self) -> Any:
        return list, (list(self),)


def _split_arrays(arrays: BatchArrays) -> list[Data]:
    """Return the graphs of a batch with their levels."""
    node_ptr = arrays.node_ptr
    fields = {
        name: replace(field, values=shift_values(field, -node_ptr[:-1])) if field.shifted else field
        for name, field in arrays.fields.items()
    }
    graphs = table_to_data(GraphTable(node_ptr, fields), PooledData)
    levels = arrays.levels
    if levels:
        for data, parts in zip(graphs, levels_to_data(levels), strict=True):
            data._store._mapping["pooled_data"] = parts
    return graphs


_templates: weakref.WeakKeyDictionary[Layout, BatchTemplate] = weakref.WeakKeyDictionary()


@cache
def _prototype() -> PooledBatch:
    """Return a batch without attributes."""
    return PooledBatch(_base_cls=PooledData)


def _position(idx: int, count: int) -> int:
    position = int(idx)
    if not -count <= position < count:
        raise IndexError(f"a batch of {count} graphs has no graph {position}")
    return position % count
