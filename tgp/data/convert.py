"""Convert PyG graphs to flat arrays and back.

An ``InMemoryDataset`` already stores one concatenated tensor and its offsets (``slices``) per attribute. These arrays are
used without a loop over graphs. Any other collection is read once, attribute by attribute. A
:class:`~tgp.ragged.Field` records how a batch joins the attribute (:meth:`Data.__cat_dim__`, :meth:`Data.__inc__`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.data.data import BaseData

from tgp.data.fast_data import make_data, paused_gc
from tgp.errors import DatasetError
from tgp.ragged import BlockCSR, Field, GraphTable
from tgp.ragged.block import PtrArray
from tgp.ragged.fields import FieldForm
from tgp.ragged.offsets import offsets

__all__ = ["check_data", "graphs_to_arrays", "graphs_to_table", "is_shifted", "table_to_data"]

NODE_KEYS = frozenset({"x", "feat", "pos", "batch", "node_type", "n_id"})
"""Attributes whose length PyG uses as the number of nodes. The first one in the order of the graph decides."""

_NUMBERS: dict[type, tuple[FieldForm, type]] = {
    bool: ("bool", np.bool_),
    int: ("int", np.int64),
    float: ("float", np.float64),
}
_LEAVE_OUT = "leave it out with exclude_keys=[{key!r}], or turn it into a tensor"


def graphs_to_arrays(graphs: Any, *, exclude_keys: Iterable[str] = ()) -> tuple[GraphTable, BlockCSR]:
    """Return all attributes of a collection of graphs and their block-diagonal adjacency.

    Args:
        graphs: ``InMemoryDataset`` (or a subset of one), any other dataset, or any iterable of ``Data``.
        exclude_keys: Attributes to leave out.

    Raises:
        DatasetError: If an attribute cannot be stored, or if ids or weights are invalid. The error names the attribute.
    """
    table = graphs_to_table(graphs, exclude_keys=exclude_keys)
    return table, table.to_block()


def graphs_to_table(graphs: Any, *, exclude_keys: Iterable[str] = ()) -> GraphTable:
    """Return the :class:`~tgp.ragged.GraphTable` of a collection of graphs; see :func:`graphs_to_arrays`."""
    excluded = frozenset(exclude_keys)
    if isinstance(graphs, BaseData):
        raise DatasetError(
            f"the graphs must be a collection, got one {type(graphs).__name__}: put it in a list"
        )
    if isinstance(graphs, InMemoryDataset) and _is_ragged(graphs):
        fields = _fields_from_slices(graphs._data, graphs.slices, excluded)
        table = _finish(fields, graphs.len(), excluded)
        indices = graphs._indices
        return table if indices is None else table.take(np.asarray(indices, dtype=np.int64))
    items = list(graphs)
    _check_graphs(items)
    return _finish(_fields_from_graphs(items, excluded), len(items), excluded)


def is_shifted(name: str) -> bool:
    """Return True if PyG shifts an attribute of this name by the number of preceding nodes.

    Examples:
        >>> is_shifted("edge_index"), is_shifted("edge_attr")
        (True, False)
    """
    return is_joined_last(name) and "batch" not in name


def is_joined_last(name: str) -> bool:
    """Return True if PyG joins an attribute of this name along its last axis.

    Examples:
        >>> is_joined_last("edge_index"), is_joined_last("edge_attr")
        (True, False)
    """
    return "index" in name or name == "face"


def table_to_data(table: GraphTable, cls: type[Data] = Data) -> list[Data]:
    """Return the graphs of a table as ``Data`` objects. This is the inverse of :func:`graphs_to_table`.

    Tensors are views of the arrays of the table. The graphs get an explicit ``num_nodes`` if no attribute determines it.

    Args:
        table: Attributes of the graphs.
        cls: Class of the graphs.
    """
    columns = {name: _values_by_graph(field) for name, field in table.fields.items()}
    if not any(f.form == "rows" and n in NODE_KEYS for n, f in table.fields.items()):
        columns.setdefault("num_nodes", np.diff(table.node_ptr).tolist())
    rows = zip(*columns.values(), strict=True) if columns else ((),) * table.num_graphs
    with paused_gc():
        return [make_data(dict(zip(columns, values, strict=True)), cls) for values in rows]


def _values_by_graph(field: Field) -> list[Any]:
    """Return the value of each graph."""
    if field.form == "str":
        raw = field.values.tobytes()
        ptr = field.ptr.tolist()
        return [raw[low:high].decode() for low, high in pairwise(ptr)]
    if field.form in ("int", "float", "bool"):
        return list(field.values.tolist())
    tensor = torch.from_numpy(field.values)
    if field.form == "stacked":
        return list(tensor.unbind(0))
    return list(tensor.split(np.diff(field.ptr).tolist(), dim=field.axis))


def _is_ragged(dataset: InMemoryDataset) -> bool:
    """Return True if the concatenated tensors hold what indexing the dataset returns."""
    return (
        dataset.transform is None
        and dataset.slices is not None
        and isinstance(dataset._data, Data)
        and _plain_rules(type(dataset._data))
        and type(dataset).get is InMemoryDataset.get
    )


def _plain_rules(cls: type[Data]) -> bool:
    """Return True if a class joins attributes by the rules of ``Data``."""
    return cls.__inc__ is Data.__inc__ and cls.__cat_dim__ is Data.__cat_dim__


def check_data(graph: Any, name: str) -> Data:
    """Check that a graph is a homogeneous graph of PyG.

    Args:
        graph: Object that was given as a graph.
        name: Name of the graph for the message.

    Raises:
        DatasetError: If it has another type.
    """
    if isinstance(graph, Data):
        return graph
    hint = "tgp.coarsen also takes networkx graphs, scipy matrices, names and paths"
    if isinstance(graph, HeteroData):
        hint = "convert it to one type of nodes and edges first: data = data.to_homogeneous()"
    raise DatasetError(
        f"{name} must be homogeneous (torch_geometric.data.Data), got {type(graph).__name__}", hint=hint
    )


def _check_graphs(items: Sequence[Any]) -> None:
    for position, graph in enumerate(items):
        check_data(graph, f"graph {position}")


def _fields_from_slices(data: Data, slices: Mapping[str, Any], excluded: frozenset[str]) -> dict[str, Field]:
    """Return the fields of an ``InMemoryDataset`` without a loop over graphs, except for strings."""
    store = data._store
    fields: dict[str, Field] = {}
    for key, value in store._mapping.items():
        if key not in slices or key == "num_nodes" or not _is_needed(key, value, excluded):
            continue
        if isinstance(value, Tensor):
            array = _to_numpy(key, value)
            axis = -1 if is_joined_last(key) else 0
            ptr = _slices_array(slices[key])
            if ptr[0] or ptr[-1] != array.shape[axis]:
                array = array[ptr[0] : ptr[-1]] if axis == 0 else array[..., ptr[0] : ptr[-1]]
                ptr = ptr - ptr[0]
            fields[key] = Field(key, array, ptr, axis, "rows", is_shifted(key))
        elif isinstance(value, (list, tuple)) and isinstance(slices[key], Tensor):
            fields[key] = _field_of_values(key, value, None)
        else:
            raise _unsupported(key, type(value))
    counts = getattr(store, "_num_nodes", None)
    if counts is not None:
        fields["num_nodes"] = _number_field("num_nodes", [int(n) for n in counts], int)
    return fields


def _fields_from_graphs(items: Sequence[Data], excluded: frozenset[str]) -> dict[str, Field]:
    if not items:
        return {}
    rows = [graph._store._mapping for graph in items]
    keys = rows[0].keys()
    for position, row in enumerate(rows):
        if row.keys() != keys:
            odd = sorted((row.keys() ^ keys) - excluded)
            if odd:
                have, lack = (position, 0) if odd[0] in row else (0, position)
                raise DatasetError(
                    f"attribute {odd[0]!r} must exist on every graph: graph {have} has it, graph {lack} does not",
                    hint=f"set it on all graphs, or leave it out with exclude_keys=[{odd[0]!r}]",
                )
    owners = None if all(_plain_rules(cls) for cls in {type(g) for g in items}) else items
    needed = [key for key in keys if _is_needed(key, rows[0][key], excluded)]
    return {key: _field_of_values(key, [row[key] for row in rows], owners) for key in needed}


def _is_needed(key: str, value: Any, excluded: frozenset[str]) -> bool:
    """Return True if an attribute is kept or determines the number of nodes."""
    return key not in excluded or key == "num_nodes" or (isinstance(value, Tensor) and _counts_nodes(key))


def _counts_nodes(key: str) -> bool:
    return key in NODE_KEYS or "node" in key or key in ("edge_index", "face")


def _field_of_values(key: str, values: Sequence[Any], owners: Sequence[Data] | None) -> Field:
    """Return the field of an attribute from its value on every graph."""
    if key == "num_nodes":
        return _number_field(key, [int(n) for n in values], int)
    kinds = {type(value) for value in values}
    if all(issubclass(kind, Tensor) for kind in kinds):
        return _tensor_field(key, values, owners)
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DatasetError(f"attribute {key!r} must have one type on all graphs, got {names}")
    (kind,) = kinds
    if kind in _NUMBERS:
        return _number_field(key, values, kind)
    if kind is str:
        raw = [v.encode() for v in values]
        ptr = offsets([len(r) for r in raw])
        return Field(key, np.frombuffer(b"".join(raw), np.uint8), ptr, 0, "str")
    raise _unsupported(key, kind)


def _unsupported(key: str, kind: type) -> DatasetError:
    return DatasetError(
        f"attribute {key!r} must be a tensor, number or string, got {kind.__name__}",
        hint=_LEAVE_OUT.format(key=key),
    )


def _number_field(key: str, values: Sequence[Any], kind: type) -> Field:
    form, dtype = _NUMBERS[kind]
    shifted = kind is int and is_shifted(key)
    return Field(key, np.asarray(values, dtype=dtype), np.arange(len(values) + 1), 0, form, shifted)


def _tensor_field(key: str, values: Sequence[Tensor], owners: Sequence[Data] | None) -> Field:
    axis = (-1 if is_joined_last(key) else 0) if owners is None else owners[0].__cat_dim__(key, values[0])
    first = values[0]
    if first.is_sparse or first.layout != torch.strided or isinstance(axis, tuple):
        raise DatasetError(
            f"attribute {key!r} must be a dense tensor, got a sparse one", hint=_LEAVE_OUT.format(key=key)
        )
    if len({v.dtype for v in values}) > 1:
        names = ", ".join(sorted(str(d) for d in {v.dtype for v in values}))
        raise DatasetError(f"attribute {key!r} must have one dtype on all graphs, got {names}")
    stacked = axis is None or first.dim() == 0
    shapes = {_tail(v.shape, None if stacked else axis) for v in values}
    if len(shapes) > 1:
        raise DatasetError(
            f"attribute {key!r} must have one shape per row on all graphs, got {sorted(shapes)}"
        )
    shifted = is_shifted(key) if owners is None else _inc_is_num_nodes(key, values, owners)
    if stacked:
        array = _to_numpy(key, torch.stack([_plain(v) for v in values]))
        return Field(key, array, np.arange(len(values) + 1), 0, "stacked", shifted)
    if axis not in (0, -1):
        if axis != first.dim() - 1:
            raise DatasetError(
                f"attribute {key!r} must be joined along its first or last axis, got axis {axis}"
            )
        axis = -1
    array = _to_numpy(key, torch.cat([_plain(v) for v in values], dim=axis))
    return Field(key, array, offsets([v.shape[axis] for v in values]), axis, "rows", shifted)


def _tail(shape: Sequence[int], axis: int | None) -> tuple[int, ...]:
    """Return a shape without the axis along which graphs are joined."""
    return tuple(shape) if axis is None else (*shape[:axis], *(shape[axis + 1 :] if axis != -1 else ()))


def _inc_is_num_nodes(key: str, values: Sequence[Tensor], owners: Sequence[Data]) -> bool:
    """Return True if graphs of a class with its own ``__inc__`` shift the attribute by the number of nodes."""
    steps = [graph.__inc__(key, value) for graph, value in zip(owners, values, strict=True)]
    if "batch" in key or all(isinstance(s, int) and s == 0 for s in steps):
        return False
    if all(isinstance(s, int) and s == g.num_nodes for s, g in zip(steps, owners, strict=True)):
        return True
    raise DatasetError(
        f"attribute {key!r} must be shifted in a batch by 0 or by num_nodes, got {steps[0]} from {type(owners[0]).__name__}.__inc__",
        hint=_LEAVE_OUT.format(key=key),
    )


def _plain(value: Tensor) -> Tensor:
    """Convert a tensor subclass (``EdgeIndex``) to a plain tensor."""
    return value if type(value) is Tensor else value.as_subclass(Tensor)


def _to_numpy(key: str, value: Tensor) -> npt.NDArray[Any]:
    if value.layout != torch.strided:
        raise DatasetError(
            f"attribute {key!r} must be a dense tensor, got a sparse one", hint=_LEAVE_OUT.format(key=key)
        )
    try:
        return np.ascontiguousarray(_plain(value).detach().cpu().numpy())
    except TypeError as error:
        raise DatasetError(
            f"attribute {key!r} must have a dtype that numpy supports, got {value.dtype}"
        ) from error


def _slices_array(slices: Any) -> PtrArray:
    return np.ascontiguousarray(torch.as_tensor(slices).cpu().numpy(), dtype=np.int64)


def _finish(fields: dict[str, Field], num_graphs: int, excluded: frozenset[str]) -> GraphTable:
    """Return the table of some fields: find the node counts, check ids, and share equal offsets."""
    node_ptr = offsets(_node_counts(fields)) if num_graphs else np.zeros(1, np.int64)
    shared = [node_ptr, *(fields[key].ptr for key in ("edge_index",) if key in fields)]
    kept = {}
    for key, field in fields.items():
        if key in excluded:
            continue
        if field.shifted:
            _check_ids(field, node_ptr)
        ptr = next((p for p in shared if np.array_equal(p, field.ptr)), field.ptr)
        kept[key] = replace(field, ptr=ptr)
    return GraphTable(node_ptr, kept)


def _node_counts(fields: Mapping[str, Field]) -> npt.NDArray[Any]:
    """Return the number of nodes of each graph, from the attribute that ``Data.num_nodes`` uses."""
    if "num_nodes" in fields:
        return fields["num_nodes"].values
    rows = {key: field for key, field in fields.items() if field.form == "rows"}
    per_node = [*(key for key in rows if key in NODE_KEYS), *(key for key in rows if "node" in key)]
    if per_node:
        return np.diff(rows[per_node[0]].ptr)
    for key in ("edge_index", "face"):
        if key in rows:
            return _largest_id(rows[key]) + 1
    raise DatasetError(
        "the number of nodes is unknown: expected 'num_nodes', 'x', 'pos' or 'edge_index', got "
        + (", ".join(fields) or "empty graphs"),
        hint="set data.num_nodes",
    )


def _largest_id(field: Field) -> npt.NDArray[np.int64]:
    """Return ``[B]`` largest id of each graph, or -1 if it has no ids."""
    largest = np.full(field.num_graphs, -1, np.int64)
    some = np.flatnonzero(np.diff(field.ptr))
    if some.size:
        flat = field.values.max(axis=0) if field.values.ndim > 1 else field.values
        largest[some] = np.maximum.reduceat(flat, field.ptr[some])
    return largest


def _check_ids(field: Field, node_ptr: PtrArray) -> None:
    if not field.values.size:
        return
    if not np.issubdtype(field.values.dtype, np.integer):
        raise DatasetError(
            f"attribute {field.name!r} must hold integers, because it holds node ids, got {field.values.dtype}"
        )
    ids = field.values if field.axis != 0 else np.moveaxis(field.values, 0, -1)
    sizes = np.repeat(np.diff(node_ptr), np.diff(field.ptr))
    wrong = ((ids < 0) | (ids >= sizes)).reshape(-1, ids.shape[-1]).any(axis=0)
    if wrong.any():
        column = int(np.flatnonzero(wrong)[0])
        graph = int(np.searchsorted(field.ptr, column, side="right")) - 1
        raise DatasetError(
            f"attribute {field.name!r} must hold node ids below {sizes[column]} on graph {graph}, "
            f"got {ids[..., column].tolist()}",
            hint="PyG treats attributes with 'index' in their name as node ids: rename it if it holds something else",
        )
