"""Join graphs into batches and split batches, including graphs and assignments in attributes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.collate import collate as pyg_collate
from torch_geometric.data.data import BaseData
from torch_geometric.data.separate import separate as pyg_separate

from tgp.errors import InputError
from tgp.select import concat as assignments
from tgp.select.base_select import SelectOutput

__all__ = [
    "IDS_OR_NONE",
    "LevelCountError",
    "collate",
    "join_nested",
    "nested_keys",
    "part_of_nested",
    "separate",
    "value_forms",
]


IDS_OR_NONE = "ids"
"""Form of an attribute of ids in which -1 stands for none, and is the same in a batch."""

_EDGE_MAP = "edge_map"


class LevelCountError(InputError, RuntimeError):
    """The graphs of a batch have different numbers of levels."""


def collate(
    cls: type,
    data_list: Sequence[BaseData],
    increment: bool = True,
    add_batch: bool = True,
    follow_batch: Iterable[str] | None = None,
    exclude_keys: Iterable[str] | None = None,
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Join graphs into one object of class ``cls``.

    This extends PyG's function of the same name. Attributes that hold a graph, an assignment, or a list of them are joined
    position by position: graphs into batches, assignments into one assignment.

    Args:
        cls: Class of the result: a batch class, or the class of the graphs.
        data_list: Graphs.
        increment: Shift node ids.
        add_batch: Add ``batch`` and ``ptr``.
        follow_batch: Attributes that get a ``<name>_batch`` and a ``<name>_ptr``.
        exclude_keys: Attributes to leave out.

    Returns:
        The joined object; the offsets of each attribute; and the numbers that were added to the ids of each attribute.

    Raises:
        LevelCountError: If the graphs have different numbers of levels.
    """
    first, excluded = data_list[0], set(exclude_keys or ())
    nested = nested_keys(first) - excluded
    # 'batch' is computed below, because PyG fails on the one of an empty graph.
    computed = {"batch"} if add_batch and isinstance(first, Data) and not isinstance(first, Batch) else set()
    maps = {_EDGE_MAP} - excluded if _is_level_with_map(first) else set()
    out, slices, incs = pyg_collate(
        cls,
        data_list,
        increment,
        add_batch,
        follow_batch=list(follow_batch or ()),
        exclude_keys=sorted(excluded | nested | computed | maps),
    )
    if computed & set(first.keys()) and "ptr" in out:
        slices["batch"], incs["batch"] = out.ptr, torch.arange(len(data_list))
    for key in nested:
        out._store._mapping[key] = join_nested([data[key] for data in data_list], key)
    if isinstance(first, Data):
        out._store._forms = value_forms(first)
    for key in maps:
        out._store._mapping[key], slices[key], incs[key] = _join_maps(data_list)
        out._store._forms[key] = IDS_OR_NONE
    return out, slices, incs


def _is_level_with_map(data: BaseData) -> bool:
    if not isinstance(data, Data):
        return False
    mapping = data._store._mapping
    return _EDGE_MAP in mapping and isinstance(mapping.get("so"), SelectOutput)


def _join_maps(levels: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the edge maps of a level of several graphs as one, its offsets, and the numbers that were added."""
    counts = torch.tensor([0] + [level.edge_index.size(1) for level in levels])
    sizes = torch.tensor([0] + [level[_EDGE_MAP].numel() for level in levels])
    starts = counts.cumsum(0)[:-1]
    shifted = [
        torch.where(level[_EDGE_MAP] < 0, level[_EDGE_MAP], level[_EDGE_MAP] + start)
        for level, start in zip(levels, starts.tolist(), strict=True)
    ]
    return torch.cat(shifted), sizes.cumsum(0), starts


def separate(
    cls: type,
    batch: Any,
    idx: int,
    slice_dict: Mapping[str, Any],
    inc_dict: Mapping[str, Any] | None = None,
    decrement: bool = True,
) -> Any:
    """Return the graph at ``idx`` of an object that :func:`collate` made.

    This extends PyG's function of the same name. Numbers are returned as numbers and 0-d tensors as 0-d tensors. An
    attribute of a class with its own ``__cat_dim__`` is split along the axis along which it was joined.

    Args:
        cls: Class of the result.
        batch: Joined object.
        idx: Position of the graph.
        slice_dict: Offsets of each attribute.
        inc_dict: Numbers that were added to the ids of each attribute.
        decrement: Subtract these numbers.
    """
    forms = getattr(getattr(batch, "_store", None), "_forms", {})
    columns = {key for key, form in forms.items() if form in ("columns", IDS_OR_NONE)}
    exact = getattr(getattr(batch, "_store", None), "_by_graph", {})
    ours = columns | nested_keys(batch) | set(exact)
    slices = {key: value for key, value in slice_dict.items() if key not in ours}
    data = pyg_separate(cls, batch, idx, slices, inc_dict, decrement)
    if not isinstance(data, Data):
        return data
    store, mapping = batch._store, data._store._mapping
    for key in columns & set(store._mapping):
        low, high = int(slice_dict[key][idx]), int(slice_dict[key][idx + 1])
        shift = None if inc_dict is None or not decrement else inc_dict.get(key)
        value = store._mapping[key][..., low:high]
        moved = value if shift is None else value - shift[idx]
        mapping[key] = torch.where(value < 0, value, moved) if forms[key] == IDS_OR_NONE else moved
    for key, form in forms.items():
        if key not in columns and isinstance(mapping.get(key), Tensor):
            mapping[key] = mapping[key][0] if form == "stacked" else mapping[key].item()
    for key in store._mapping:
        if key in exact:
            mapping[key] = copy.deepcopy(exact[key][idx])
        elif key in ours and key not in columns:
            mapping[key] = part_of_nested(store._mapping[key], idx, store)
    return data


def nested_keys(data: BaseData) -> set[str]:
    """Return the names of the attributes that hold a graph, an assignment, or a list of them."""
    if not isinstance(data, Data):
        return set()
    return {key for key, value in data._store._mapping.items() if is_nested(value)}


def is_nested(value: Any) -> bool:
    kinds = (BaseData, SelectOutput)
    return isinstance(value, kinds) or (
        isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], kinds)
    )


def join_nested(values: Sequence[Any], key: str) -> Any:
    """Return the values of a nested attribute on all graphs as one value.

    Args:
        values: Graph, assignment, or list of them, of each graph.
        key: Name of the attribute.

    Raises:
        LevelCountError: If the lists have different lengths.
    """
    from tgp.data.batch import PooledBatch

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
    return [join_nested([value[i] for value in values], key) for i in range(len(first))]


def part_of_nested(value: Any, idx: int, store: Any = None) -> Any:
    """Return the part of one graph of a nested attribute."""
    if isinstance(value, SelectOutput):
        if value._parts is None and hasattr(store, "_so_ptr"):
            value._parts = _parts_of(value, *store._so_ptr)
        if value._parts is None:
            raise RuntimeError(
                "Cannot split this assignment: expected one made by 'PooledBatch' or 'SelectOutput.cat'"
            )
        return assignments.part(value, value._parts, idx)
    if isinstance(value, Batch):
        return value.get_example(idx)
    return [part_of_nested(item, idx, store) for item in value]


def _parts_of(so: SelectOutput, node_ptr: Tensor, super_ptr: Tensor) -> assignments.Parts:
    """Return the offsets of the graphs in an assignment that was made from arrays."""
    nodes, supernodes = tuple(node_ptr.tolist()), tuple(super_ptr.tolist())
    extras = {
        name: assignments.Rows(supernodes if name in so._node_id_extras else nodes) for name in so._extra_args
    }
    return assignments.Parts(nodes, supernodes, tuple(range(len(nodes))), extras)


def value_forms(data: Data) -> dict[str, str]:
    """Return the form of each attribute that a batch of PyG stores in another form; see :func:`_form`."""
    return {key: form for key, value in data._store._mapping.items() if (form := _form(value))}


def _form(value: Any) -> str | None:
    """Return the type of a Python number, ``"stacked"`` for a 0-d tensor, and ``None`` for other values.

    Batches of PyG hold such values as one tensor and do not record their type, so that splitting a batch needs it.
    """
    if isinstance(value, Tensor):
        return "stacked" if value.dim() == 0 else None
    for kind in (bool, int, float):
        if type(value) is kind:
            return kind.__name__
    return None
