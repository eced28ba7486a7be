"""``PooledBatch``: many graphs as one, together with their pooled levels."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData

from tgp.data.levels import Attributes, LevelArrays, graph_ids, level_attributes, table_attributes
from tgp.errors import InputError
from tgp.ragged import GraphTable
from tgp.select import collate
from tgp.select.base_select import SelectOutput

__all__ = ["LevelCountError", "PooledBatch"]


class LevelCountError(InputError, RuntimeError):
    """Graphs of one batch have different numbers of levels."""


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
        excluded = set(exclude_keys or ())
        first = data_list[0]
        nested = _nested_keys(first) - excluded
        follow = list(follow_batch or ())
        # PyG makes 'batch' anew, but cannot read that of an empty graph before.
        renewed = {"batch"} if isinstance(first, Data) and not isinstance(first, Batch) else set()
        batch = super().from_data_list(data_list, follow, sorted(excluded | nested | renewed))
        if renewed & set(first.keys()) and "ptr" in batch:
            batch._slice_dict["batch"], batch._inc_dict["batch"] = batch.ptr, torch.arange(len(data_list))
        for key in nested:
            batch[key] = _join([data[key] for data in data_list], key)
        if isinstance(first, Data):
            forms = {key: form for key, value in first._store._mapping.items() if (form := _form(value))}
            batch._store._forms = forms
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

    def get_example(self, idx: int) -> BaseData:
        """The graph at ``idx`` with all its levels, as it went in."""
        idx = _position(idx, self.num_graphs)
        data = super().get_example(idx)
        if not isinstance(data, Data):
            return data
        mapping = data._store._mapping
        for key, form in getattr(self._store, "_forms", {}).items():
            if isinstance(mapping.get(key), Tensor):
                mapping[key] = mapping[key][0] if form == "stacked" else mapping[key].item()
        for key, value in self._store._mapping.items():
            if _is_nested(value):
                mapping[key] = _pick(value, idx, self._store)
        return data

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
    levels: Sequence[LevelArrays], node_ptr: Tensor, node_batch: Tensor, methods: Sequence[str] | None = None
) -> list[PooledBatch]:
    """Pooled levels as batches; ``node_ptr`` and ``node_batch`` are those of the input graphs."""
    made = []
    for number, level in enumerate(levels):
        if not np.array_equal(level.node_ptr, node_ptr.numpy()):  # levels in between were left out
            node_ptr, node_batch = torch.from_numpy(level.node_ptr), graph_ids(level.node_ptr)
        attributes = level_attributes(level, node_ptr, node_batch, methods[number] if methods else None)
        made.append(_new_batch(attributes, len(level.super_ptr) - 1))
        node_ptr, node_batch = attributes.mapping["ptr"], attributes.mapping["batch"]
    return made


def _new_batch(attributes: Attributes, num_graphs: int) -> PooledBatch:
    """A batch around ready attributes. A copy of a prototype costs a tenth of PyG's constructor."""
    global _prototype
    if _prototype is None:
        _prototype = PooledBatch(_base_cls=Data)
    batch = copy.copy(_prototype)
    store = batch._store
    store._mapping = attributes.mapping
    store.__dict__.update(attributes.private)
    store._num_graphs = num_graphs
    store._slice_dict = attributes.slices
    store._inc_dict = attributes.incs
    return batch


_prototype: PooledBatch | None = None


def _nested_keys(data: BaseData) -> set[str]:
    """Attributes that hold graphs or assignments, on their own or in a list."""
    if not isinstance(data, Data):
        return set()
    return {key for key, value in data._store._mapping.items() if _is_nested(value)}


def _is_nested(value: Any) -> bool:
    if isinstance(value, (BaseData, SelectOutput)):
        return True
    return (
        isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], (BaseData, SelectOutput))
    )


def _join(values: Sequence[Any], key: str) -> Any:
    first = values[0]
    if isinstance(first, SelectOutput):
        return SelectOutput.cat(values)
    if isinstance(first, BaseData):
        return PooledBatch.from_data_list(values)
    counts = {len(value) for value in values}
    if len(counts) > 1:
        raise LevelCountError(
            f"{key!r} must have equal size on all graphs of a batch, got {sorted(counts)} levels", field=key
        )
    return [_join([value[i] for value in values], key) for i in range(len(first))]


def _pick(value: Any, idx: int, store: Any) -> Any:
    """The part of one graph."""
    if isinstance(value, SelectOutput):
        if value._parts is None and hasattr(store, "_so_ptr"):
            value._parts = _parts_of(value, *store._so_ptr)
        if value._parts is None:
            raise RuntimeError(
                "Cannot take this assignment apart: it was not made by 'PooledBatch' or 'SelectOutput.cat'"
            )
        return collate.part(value, value._parts, idx)
    if isinstance(value, PooledBatch):
        return value.get_example(idx)
    return [_pick(item, idx, store) for item in value]


def _parts_of(so: SelectOutput, node_ptr: Tensor, super_ptr: Tensor) -> collate.Parts:
    """Where the graphs of an assignment lie, for one that was made from arrays."""
    nodes, supernodes = tuple(node_ptr.tolist()), tuple(super_ptr.tolist())
    rows = {"theta": collate.Rows(nodes), "mis": collate.Rows(supernodes)}
    extras = {name: rows[name] for name in so._extra_args}
    return collate.Parts(nodes, supernodes, tuple(range(len(nodes))), extras)


def _form(value: Any) -> str | None:
    """How an attribute looked on one graph, where PyG's own batches forget it."""
    if isinstance(value, Tensor):
        return "stacked" if value.dim() == 0 else None
    for kind in (bool, int, float):
        if type(value) is kind:
            return kind.__name__
    return None


def _position(idx: int, count: int) -> int:
    position = int(idx)
    if not -count <= position < count:
        raise IndexError(f"a batch of {count} graphs has no graph {position}")
    return position % count
