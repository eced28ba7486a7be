"""``PooledBatch``: many graphs as one, together with their pooled levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData

from tgp.data.attributes import Attributes, LevelArrays, graph_ids, level_attributes, table_attributes
from tgp.data.collate import LevelCountError, collate, separate
from tgp.data.fast_data import clone_with
from tgp.ragged import GraphTable
from tgp.ragged.block import PtrArray
from tgp.store.read.batch_plan import BatchArrays

__all__ = ["LevelCountError", "PooledBatch"]


class PooledBatch(Batch):
    """A PyG ``Batch`` whose pooled levels are batches, too.

    ``batch.pooled_data[l]`` is the ``l``-th pooled level of all graphs: a batch with ``edge_index``, ``edge_weight``,
    ``batch``, ``ptr``, ``num_nodes``, ``num_graphs``, ``get_example`` and the assignment ``so``, whose rows are the
    nodes of the level before. Everything else behaves as in PyG.

    Two ways lead here: :meth:`from_data_list` from graphs that carry levels (see
    :class:`~tgp.data.PreCoarsening`), and :meth:`from_arrays` from the flat arrays of a store, without any
    per-graph work. Both give the same tensors.
    """

    @classmethod
    def from_data_list(
        cls,
        data_list: Sequence[BaseData],
        follow_batch: Iterable[str] | None = None,
        exclude_keys: Iterable[str] | None = None,
    ) -> PooledBatch:
        """Join graphs and, level by level, whatever graphs and assignments they carry.

        Args:
            data_list: the graphs.
            follow_batch: attributes that get a ``<name>_batch`` and ``<name>_ptr``.
            exclude_keys: attributes to leave out.

        Raises:
            LevelCountError: the graphs have different numbers of levels.
        """
        add_batch = not isinstance(data_list[0], Batch)
        batch, slices, incs = collate(cls, data_list, True, add_batch, follow_batch, exclude_keys)
        batch._num_graphs = len(data_list)
        batch._slice_dict = slices
        batch._inc_dict = incs
        return batch

    @classmethod
    def from_arrays(
        cls,
        table: GraphTable,
        levels: Sequence[LevelArrays] = (),
        *,
        methods: Sequence[str] | None = None,
        key: str = "pooled_data",
    ) -> PooledBatch:
        """Build from flat arrays: one tensor per array, nothing per graph.

        Args:
            table: the graphs, ids local to each of them.
            levels: the pooled levels, ids of the whole batch.
            methods: the method of each level, which names the extras of its assignment.
            key: attribute that holds the levels.
        """
        attributes = table_attributes(table)
        mapping = attributes.mapping
        if levels:
            mapping[key] = pooled_levels(levels, mapping["ptr"], mapping["batch"], methods)
        return _new_batch(attributes, table.num_graphs)

    @classmethod
    def from_gathered(cls, arrays: BatchArrays, methods: Sequence[str] | None = None) -> PooledBatch:
        """As :meth:`from_arrays`, from the finished arrays of a :class:`~tgp.store.read.batch_plan.BatchPlan`."""
        batches = [torch.from_numpy(batch) for batch in arrays.batches]
        table = GraphTable(arrays.node_ptr, arrays.fields)
        attributes = table_attributes(table, batches[0], shifted=True)
        mapping = attributes.mapping
        if arrays.levels:
            mapping["pooled_data"] = pooled_levels(
                arrays.levels, mapping["ptr"], batches[0], methods, arrays.node_ptr, batches[1:]
            )
        return _new_batch(attributes, table.num_graphs)

    def get_example(self, idx: int) -> BaseData:
        """The graph at ``idx`` with all its levels, as it went in."""
        if not hasattr(self, "_slice_dict"):
            raise RuntimeError(
                "Cannot reconstruct a graph: this batch was made neither by 'from_data_list' nor by 'from_arrays'"
            )
        idx = _position(idx, self.num_graphs)
        return separate(type(self).__bases__[-1], self, idx, self._slice_dict, self._inc_dict)

    def follow(self, keys: Iterable[str]) -> PooledBatch:
        """Add ``<name>_batch`` and ``<name>_ptr`` for each of ``keys``; returns ``self``."""
        for key in keys:
            slices = self._slice_dict.get(key)
            if slices is not None:
                self[f"{key}_ptr"] = slices
                counts = slices.diff()
                self[f"{key}_batch"] = torch.repeat_interleave(torch.arange(len(counts)), counts)
        return self


def pooled_levels(
    levels: Sequence[LevelArrays],
    node_ptr: Tensor,
    node_batch: Tensor,
    methods: Sequence[str] | None = None,
    offsets: PtrArray | None = None,
    batches: Sequence[Tensor] | None = None,
) -> list[PooledBatch]:
    """Pooled levels as batches.

    Args:
        levels: their arrays.
        node_ptr, node_batch: offsets and graphs of the nodes of the input graphs.
        methods: the method of each level.
        offsets: the array behind ``node_ptr``.
        batches: per level, the graph of each supernode; made here if not given.
    """
    made = []
    offsets = node_ptr.numpy() if offsets is None else offsets
    for number, level in enumerate(levels):
        if level.node_ptr is not offsets and not np.array_equal(level.node_ptr, offsets):
            # Levels in between were left out.
            node_ptr, node_batch = torch.from_numpy(level.node_ptr), graph_ids(level.node_ptr)
        attributes = level_attributes(
            level,
            node_ptr,
            node_batch,
            methods[number] if methods else None,
            batches[number] if batches else None,
        )
        made.append(_new_batch(attributes, len(level.super_ptr) - 1))
        offsets = level.super_ptr
        node_ptr, node_batch = attributes.mapping["ptr"], attributes.mapping["batch"]
    return made


def _new_batch(attributes: Attributes, num_graphs: int) -> PooledBatch:
    """A batch around ready attributes."""
    prototype = _prototypes.get("batch")
    if prototype is None:
        prototype = _prototypes["batch"] = PooledBatch(_base_cls=Data)
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
