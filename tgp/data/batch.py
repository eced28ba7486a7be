"""``PooledBatch``: a batch of graphs together with their pooled levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.batch import DynamicInheritance
from torch_geometric.data.data import BaseData

from tgp.data.attributes import Attributes, graph_ids, level_attributes, levels_to_data, table_attributes
from tgp.data.collate import LevelCountError, collate, separate
from tgp.data.convert import table_to_data
from tgp.data.fast_data import clone_with
from tgp.data.pooled_data import PooledData, pooled_class
from tgp.ragged import Field, GraphTable, Level
from tgp.ragged.block import PtrArray
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
        attributes = table_attributes(table)
        mapping = attributes.mapping
        if levels:
            mapping[key] = _batch_levels(levels, mapping["ptr"], mapping["batch"], table.node_ptr)
        return _new_batch(attributes, table.num_graphs)

    @classmethod
    def from_gathered(cls, arrays: BatchArrays) -> PooledBatch:
        """Return a batch over the arrays that a :class:`~tgp.store.read.batch_plan.BatchPlan` gathered."""
        batches = [torch.from_numpy(batch) for batch in arrays.batches]
        table = GraphTable(arrays.node_ptr, arrays.fields)
        attributes = table_attributes(table, batches[0], shifted=True)
        mapping = attributes.mapping
        if arrays.levels:
            mapping["pooled_data"] = _batch_levels(
                arrays.levels, mapping["ptr"], batches[0], arrays.node_ptr, batches[1:]
            )
        return _new_batch(attributes, table.num_graphs)

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
        name: replace(field, values=_local_ids(field, node_ptr)) if field.shifted else field
        for name, field in arrays.fields.items()
    }
    graphs = table_to_data(GraphTable(node_ptr, fields), PooledData)
    if arrays.levels:
        for data, levels in zip(graphs, levels_to_data(arrays.levels), strict=True):
            data._store._mapping["pooled_data"] = levels
    return graphs


def _local_ids(field: Field, node_ptr: PtrArray) -> npt.NDArray[Any]:
    """Return node ids that count inside each graph."""
    shift = np.repeat(node_ptr[:-1], np.diff(field.ptr)).astype(field.values.dtype)
    if field.axis == 0 and field.values.ndim > 1:
        shift = shift.reshape(-1, *[1] * (field.values.ndim - 1))
    local: npt.NDArray[Any] = field.values - shift
    return local


def _batch_levels(
    levels: Sequence[Level],
    node_ptr: Tensor,
    node_batch: Tensor,
    offsets: PtrArray,
    batches: Sequence[Tensor] | None = None,
) -> list[PooledBatch]:
    """Return one batch per pooled level.

    Args:
        levels: Arrays of the levels.
        node_ptr: Offsets of the nodes of the input graphs.
        node_batch: Graph of each of these nodes.
        offsets: Array with the values of ``node_ptr``.
        batches: Graph of each supernode, per level; computed if ``None``.
    """
    made = []
    for number, level in enumerate(levels):
        if level.node_ptr is not offsets and not np.array_equal(level.node_ptr, offsets):
            # The levels between this one and the one before were not read.
            node_ptr, node_batch = torch.from_numpy(level.node_ptr), graph_ids(level.node_ptr)
        attributes = level_attributes(level, node_ptr, node_batch, batches[number] if batches else None)
        offsets = level.super_ptr
        made.append(_new_batch(attributes, len(offsets) - 1))
        node_ptr, node_batch = attributes.mapping["ptr"], attributes.mapping["batch"]
    return made


def _new_batch(attributes: Attributes, num_graphs: int) -> PooledBatch:
    """Return a batch with the given attributes."""
    prototype = _prototypes.get("batch")
    if prototype is None:
        prototype = _prototypes["batch"] = PooledBatch(_base_cls=PooledData)
    private = {
        **attributes.private,
        "_num_graphs": num_graphs,
        "_slice_dict": attributes.slices,
        "_inc_dict": attributes.incs,
    }
    return clone_with(prototype, attributes.mapping, private)


_prototypes: dict[str, PooledBatch] = {}


def _position(idx: int, count: int) -> int:
    position = int(idx)
    if not -count <= position < count:
        raise IndexError(f"a batch of {count} graphs has no graph {position}")
    return position % count
