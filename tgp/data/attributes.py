"""Values of attributes of PyG objects, from flat arrays of graphs and levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.data.columns import values_by_graph
from tgp.data.fast_data import make_data, paused_gc
from tgp.data.pooled_data import PooledData
from tgp.engine.methods import representative_name
from tgp.kernels.array_types import Array
from tgp.ragged import Assignment, Field, Level
from tgp.ragged.block import PtrArray
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import to_select_output

__all__ = [
    "as_tensor",
    "graph_ids",
    "levels_to_data",
    "select_output",
    "shift_values",
    "special_value",
    "type_select_output",
]


def as_tensor(array: Array) -> Tensor:
    """Return a tensor over the memory of an array. A read-only array is copied first.

    Args:
        array: Array of numbers.
    """
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def graph_ids(ptr: PtrArray) -> Tensor:
    """Return the graph of each row.

    Examples:
        >>> graph_ids(np.array([0, 2, 3])).tolist()
        [0, 0, 1]
    """
    return torch.from_numpy(np.repeat(np.arange(len(ptr) - 1), ptr[1:] - ptr[:-1]))


# -- values of batches ------------------------------------------------------------------------------------------


def special_value(field: Field) -> tuple[Any, Tensor | None, list[Any] | None]:
    """Return the value in a batch of an attribute that is not the tensor of its values.

    Args:
        field: Floating-point numbers, texts, plain values, or ids that PyG counts because 'batch' is in their name.

    Returns:
        The value; the numbers that were added to the ids of each graph; and the values by graph if they are joined.
    """
    if field.form == "float":
        return torch.from_numpy(field.values).to(torch.get_default_dtype()), None, None
    if field.form in ("str", "json"):
        joined = _join_plain(values_by_graph(field))
        return joined, None, values_by_graph(field) if isinstance(joined, dict) else None
    start = _batch_id_shift(field)
    return torch.from_numpy(shift_values(field, start)), torch.from_numpy(start), None


def shift_values(field: Field, start: PtrArray, *, keep_negative: bool = False) -> Array:
    """Return the values of a field plus a number per graph.

    Args:
        field: Field of integers.
        start: ``[B]`` number to add to the values of each graph.
        keep_negative: Leave negative values as they are, in a field of one axis. They stand for "none".
    """
    shift = np.repeat(start, np.diff(field.ptr)).astype(field.values.dtype)
    if keep_negative:
        shift[field.values < 0] = 0
    if field.axis == 0 and field.values.ndim > 1:
        shift = shift.reshape(-1, *[1] * (field.values.ndim - 1))
    shifted: Array = field.values + shift
    return shifted


def _join_plain(values: list[Any]) -> Any:
    """Return plain values of all graphs as PyG's ``collate`` does: a list, or a dictionary of joined values.

    Dictionaries that do not have the same keys and types stay a list.
    """
    if not values or not all(
        isinstance(value, dict) and value.keys() == values[0].keys() for value in values
    ):
        return values
    try:
        return {key: _join_items([value[key] for value in values]) for key in values[0]}
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return values


def _join_items(items: list[Any]) -> Any:
    return torch.tensor(items) if isinstance(items[0], (int, float)) else _join_plain(items)


def _batch_id_shift(field: Field) -> PtrArray:
    """Return the number that is added to the values of each graph of an attribute with 'batch' in its name.

    PyG counts such values through the batch: those of a graph start after the largest value of the graph before.
    """
    sizes = np.zeros(field.num_graphs, np.int64)
    filled = np.flatnonzero(np.diff(field.ptr))
    if len(filled):
        rows = np.moveaxis(field.values, field.axis, 0)
        rows = rows.reshape(len(rows), -1).max(axis=1)
        sizes[filled] = np.maximum.reduceat(rows, field.ptr[filled]) + 1
    return np.cumsum(sizes) - sizes


def select_output(
    given: Assignment, method: str, node_ptr: PtrArray, node_batch: Tensor, graphs: int
) -> SelectOutput:
    """Return the assignment of a level as a model gets it.

    Args:
        given: Arrays of the assignment.
        method: Name of the level method.
        node_ptr: Offsets of the nodes that are pooled.
        node_batch: Graph of each of these nodes.
        graphs: Number of graphs.
    """
    extra = None if given.representative is None else representative_name(method)
    return to_select_output(
        given, batch=node_batch, batch_size=graphs, representative=extra, node_ptr=node_ptr
    )


def type_select_output(cluster: npt.NDArray[np.integer], num_supernodes: int) -> SelectOutput:
    """Return the assignment of the nodes of one type.

    Args:
        cluster: ``[N]`` supernode of each node of the type, or -1.
        num_supernodes: Number of supernodes of the type.
    """
    kept = np.flatnonzero(cluster >= 0)
    return SelectOutput.hard(
        torch.from_numpy(cluster[kept].astype(np.int64, copy=False)),
        num_supernodes,
        node_index=None if len(kept) == len(cluster) else torch.from_numpy(kept),
        num_nodes=len(cluster),
    )


# -- levels of single graphs ------------------------------------------------------------------------------------


def levels_to_data(levels: Sequence[Level]) -> list[list[Data]]:
    """Return the levels of each graph, as :class:`~tgp.data.PreCoarsening` attaches them.

    Args:
        levels: Levels of a block of graphs, finest first.

    Returns:
        One list of ``Data`` per graph. Their tensors are views of the arrays of the block.
    """
    if not levels:
        return []
    if levels[0].num_graphs == 1:
        return [_single_graph_to_data(levels)]
    with paused_gc():
        columns = [_level_to_data(level) for level in levels]
        return [list(row) for row in zip(*columns, strict=True)]


def _level_output(level: Level, node_batch: Tensor, num_graphs: int) -> SelectOutput | None:
    """Return the assignment of a level, or ``None`` if the level was read without it."""
    given = level.assignment
    if given.cluster is None and given.soft is None:
        return None
    return select_output(given, level.method, level.node_ptr, node_batch, num_graphs)


def _single_graph_to_data(levels: Sequence[Level]) -> list[Data]:
    """Return the levels of a block of one graph. Its arrays are those of the graph, so nothing is split."""
    found = []
    batch = torch.zeros(int(levels[0].node_ptr[-1]), dtype=torch.int64)
    for level in levels:
        so = _level_output(level, batch, 1)
        edge_index, edge_weight = level.edge_arrays()
        size = int(level.super_ptr[-1])
        batch = torch.zeros(size, dtype=torch.int64)
        mapping: dict[str, Any] = {"edge_index": as_tensor(edge_index)}
        if edge_weight is not None:
            mapping["edge_weight"] = as_tensor(edge_weight)
        for name, field in level.fields.items():
            is_text = field.form == "json"
            mapping[name] = values_by_graph(field)[0] if is_text else as_tensor(field.values)
        mapping["batch"] = batch
        if so is not None and level.assignment.kind != "hard":
            mapping["mask"] = so.out_mask
        mapping["so"] = so
        mapping["num_nodes"] = size
        found.append(make_data(mapping, PooledData))
    return found


def _level_to_data(level: Level) -> Iterable[Data]:
    edge_list = level.edges
    nodes, supers, edges = (np.diff(p) for p in (level.node_ptr, level.super_ptr, edge_list.edge_ptr))
    ends = edge_list.edge_index - np.repeat(level.super_ptr[:-1], edges)
    columns: dict[str, Iterable[Any]] = {"edge_index": _split_rows(ends, edges, dim=1)}
    if edge_list.edge_weight is not None:
        columns["edge_weight"] = _split_rows(edge_list.edge_weight, edges)
    for name, field in level.fields.items():
        columns[name] = values_by_graph(field)
    columns["batch"] = _zeros(supers)
    so = _level_output(level, graph_ids(level.node_ptr), level.num_graphs)
    if so is not None and level.assignment.kind != "hard":
        mask = so.out_mask
        assert mask is not None, "a dense assignment has a mask"
        columns["mask"] = mask.split(1)
    if so is None:
        columns["so"] = [None] * len(nodes)
    else:
        columns["so"] = _split_assignment(so, level, nodes, supers)
    columns["num_nodes"] = supers.tolist()
    names = list(columns)
    return (
        make_data(dict(zip(names, values, strict=True)), PooledData)
        for values in zip(*columns.values(), strict=True)
    )


def _split_assignment(so: SelectOutput, level: Level, nodes: Array, supers: Array) -> Iterable[SelectOutput]:
    """Split an assignment into graphs with one split per tensor, instead of one slice per graph and tensor."""
    counts, batches = nodes.tolist(), _zeros(nodes)
    extras: dict[str, Sequence[Tensor]] = {}
    for name in so._extra_args:
        value = getattr(so, name)
        if name in so._node_id_extras:
            value = value - torch.from_numpy(np.repeat(level.node_ptr[:-1], supers))
            extras[name] = value.split(supers.tolist())
        else:
            extras[name] = value.split(counts)
    rows = zip(*extras.values(), strict=True) if extras else ((),) * len(counts)
    shared = [{"batch_size": 1, **dict(zip(extras, row, strict=True))} for row in rows]
    if level.assignment.kind == "soft":
        matrices = zip(so.s.split(counts), batches, shared, strict=True)
        made: Iterable[SelectOutput] = (SelectOutput(s=s, batch=batch, **more) for s, batch, more in matrices)
    elif level.assignment.kind == "onehot":
        assert so._cluster_index is not None, "a one-hot assignment holds columns"
        columns = zip(so._cluster_index.split(counts), supers.tolist(), batches, shared, strict=True)
        made = (SelectOutput.onehot(column, k, batch=batch, **more) for column, k, batch, more in columns)
    else:
        made = _split_hard(so, level, nodes, supers.tolist(), batches, shared)
    return made if not extras else (_with_node_ids(part, so) for part in made)


def _with_node_ids(part: SelectOutput, whole: SelectOutput) -> SelectOutput:
    part._node_id_extras = whole._node_id_extras
    return part


def _split_hard(
    so: SelectOutput,
    level: Level,
    nodes: Array,
    supers: list[int],
    batches: Sequence[Tensor],
    shared: Sequence[dict[str, Any]],
) -> Iterable[SelectOutput]:
    """Split a sparse assignment. A graph that drops nodes lists the nodes that it keeps."""
    assert so._cluster_index is not None, "a sparse assignment holds clusters"
    if so._node_index is None:
        graph, kept = np.repeat(np.arange(len(nodes)), nodes), nodes
        rows: Sequence[Tensor | None] = [None] * len(nodes)
    else:
        entry = so._node_index.numpy()
        graph = np.repeat(np.arange(len(nodes)), nodes)[entry]
        kept = np.bincount(graph, minlength=len(nodes))
        split = _split_rows(entry - level.node_ptr[graph], kept)
        rows = [None if whole else row for row, whole in zip(split, (kept == nodes).tolist(), strict=True)]
    clusters = _split_rows(so._cluster_index.numpy() - level.super_ptr[graph], kept)
    weights: Sequence[Tensor | None] = [None] * len(nodes)
    if so._weight is not None:
        weights = so._weight.split(kept.tolist())
    parts = zip(clusters, supers, rows, weights, batches, nodes.tolist(), shared, strict=True)
    return (
        SelectOutput.hard(cluster, k, node_index=row, num_nodes=n, weight=weight, batch=batch, **more)
        for cluster, k, row, weight, batch, n, more in parts
    )


def _split_rows(array: Array, counts: Array, dim: int = 0) -> Sequence[Tensor]:
    rows: Sequence[Tensor] = torch.from_numpy(array).split(counts.tolist(), dim=dim)
    return rows


def _zeros(counts: Array) -> Sequence[Tensor]:
    """Return the graph of each node in batches of a single graph."""
    ids: Sequence[Tensor] = torch.zeros(int(counts.sum()), dtype=torch.int64).split(counts.tolist())
    return ids
