"""Read single graphs and small tables with plain slices.

Commands that read a few graphs (``tgp inspect``, ``tgp report``) use these functions instead of a
:class:`~tgp.store.read.batch_plan.BatchPlan`, because importing numba takes longer than reading the graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.kernels.array_types import Array, LongArray
from tgp.ragged import Assignment, EdgeList, Field, GraphTable, Level
from tgp.ragged.fields import take_ragged
from tgp.store.format import constants as fmt
from tgp.store.format.codec import restore
from tgp.store.format.schema import FailureRecord, FieldInfo, LevelInfo
from tgp.store.read.contents import GraphsPart, HierarchyPart, level_field_path, level_paths, metric_path
from tgp.store.read.divided_part import DividedPart
from tgp.store.read.piece_array import PieceArray
from tgp.store.read.value_checks import first_outside, first_too_large, largest_number, value_check

__all__ = ["count_members", "read_failures", "read_metric", "slice_graph", "slice_level"]

_BLOCK = 1 << 20
"""Number of rows of a divided array that are in memory at a time."""


def slice_graph(part: GraphsPart, fields: Sequence[FieldInfo], row: int) -> GraphTable:
    """Return one input graph of a shard.

    Args:
        part: Open shard.
        fields: Fields to read.
        row: Position of the graph in the shard.
    """
    node_ptr = _span(part.node_ptr, row)[1]
    found = {}
    for info in fields:
        path = part.path(info.name)
        ptr_path = part.ptrs[info.name]
        rows, ptr = _span(part.pin(ptr_path) if ptr_path else None, row)
        found[info.name] = _slice_field(part, path, info, rows, ptr, int(node_ptr[1]))
    return GraphTable(node_ptr, found)


def _slice_field(
    part: DividedPart, path: str, info: FieldInfo, rows: slice, ptr: LongArray, size: int, low: int = 0
) -> Field:
    """Return a field of one graph with the given rows and offsets. Ids are at least ``low`` and less than ``size``."""
    stored = part.stored(path)
    if info.axis == 0:
        values = np.asarray(stored[rows])
    else:  # complex numbers are stored with one more axis at the end
        values = np.asarray(stored[..., rows, :] if info.dtype.startswith("complex") else stored[..., rows])
    if info.shifted:
        part.check_ids(path, values, low, size)
    elif first_too_large(values, largest_number(info.dtype)) is not None:
        raise part.damaged(path, f"holds a number above {largest_number(info.dtype)}")
    values = restore(np.array(values, order="C"), info.dtype)
    check = value_check(info)
    if check is not None and check(values, ptr) is not None:
        raise part.damaged(path, "holds a value that is not valid")
    return Field(info.name, values, ptr, info.axis, info.form, info.shifted)


def slice_level(part: HierarchyPart, number: int, info: LevelInfo, row: int) -> Level:
    """Return one level of one graph.

    Args:
        part: Open shard.
        number: Position of the level in the schedule.
        info: Description of the level. Only the arrays that it lists are read.
        row: Position of the graph in the shard.
    """
    paths = level_paths(number)
    nodes, node_ptr = _span(part.node_ptrs[number], row)
    supers, super_ptr = _span(part.node_ptrs[number + 1], row)
    edges, edge_ptr = _span(part.edge_ptrs[number], row)

    def ids(name: str, rows: slice, size: Any, low: int = 0) -> Array | None:
        if name != "edge_index" and name not in info.arrays:
            return None
        if paths[name] not in part.present:
            return np.full(rows.stop - rows.start, -1, np.int64)
        values = part.array(paths[name])[..., rows]
        part.check_ids(paths[name], values, low, int(size))
        return values.astype(np.int64)

    def reals(name: str, rows: slice, dtype: npt.DTypeLike, absent: Any) -> Array | None:
        if name not in info.arrays:
            return None
        if paths[name] not in part.present:
            return np.full((rows.stop - rows.start, *np.shape(absent)), absent, dtype)
        return part.array(paths[name])[rows].astype(dtype)

    edge_index = ids("edge_index", edges, super_ptr[1])
    assert edge_index is not None, "every level has edges"
    edge_weight = reals("edge_weight", edges, info.weight_dtype or np.float32, 1)
    assignment = Assignment(
        info.kind,
        super_ptr,
        ids("cluster", nodes, super_ptr[1], low=-1),
        reals("weight", nodes, np.float32, 1),
        reals("soft", nodes, np.float32, np.zeros(info.width or 0)),
        reals("theta", nodes, np.float32, np.zeros(info.modes or 0)),
        ids("representative", supers, node_ptr[1]),
    )
    fields = {}
    for field in info.fields:
        path = level_field_path(number, field.name)
        rows, ptr = (supers, super_ptr) if field.ptr == "node" else (edges, edge_ptr)
        if field.ptr == "own":
            rows, ptr = _span(part.pin(level_field_path(number, field.name, "ptr")), row)
        if path in part.present:
            fields[field.name] = _slice_field(part, path, field, rows, ptr, int(edge_ptr[1]), -1)
        else:
            fields[field.name] = Field(field.name, np.zeros((0, *field.tail), field.dtype), ptr)
    return Level(
        info.method, node_ptr, assignment, EdgeList(edge_ptr, edge_index, edge_weight), fields=fields
    )


def count_members(part: HierarchyPart, number: int, rows: LongArray) -> LongArray:
    """Return the number of nodes of every supernode of some graphs of a shard.

    Args:
        part: Open shard.
        number: Position of the level in the schedule.
        rows: Positions of the graphs in the shard, ascending.
    """
    path = level_paths(number)["cluster"]
    nodes, supers = (part.node_ptrs[step].astype(np.int64) for step in (number, number + 1))
    super_ptr, _ = take_ragged(supers, rows)
    if path not in part.present:
        return np.zeros(int(super_ptr[-1]), np.int64)
    whole = part.stored(path)
    if isinstance(whole, PieceArray):  # the only graph of the shard
        return _count_blocks(part, path, whole, int(super_ptr[-1]))
    ptr, positions = take_ragged(nodes, rows)
    stored = whole[positions]
    sizes = np.diff(super_ptr)
    graph = first_outside(stored, ptr, sizes, -1)
    if graph is not None:
        raise part.damaged(path, f"holds an id outside its graph (graph {int(rows[graph])} of the shard)")
    local = stored.astype(np.int64)
    kept = local >= 0
    cluster = local[kept] + np.repeat(super_ptr[:-1], np.diff(ptr))[kept]
    return np.bincount(cluster, minlength=int(super_ptr[-1]))


def _count_blocks(part: HierarchyPart, path: str, cluster: PieceArray, size: int) -> LongArray:
    """Return the number of nodes of every supernode of a divided graph."""
    sizes = np.zeros(size, np.int64)
    for _, block in cluster.blocks(_BLOCK):
        part.check_ids(path, block, -1, size)
        np.add.at(sizes, block[block >= 0], 1)
    return sizes


def read_failures(part: HierarchyPart, count: int) -> list[FailureRecord]:
    """Return the records of the graphs of a shard that could not be coarsened."""
    text = part.array("/failures/reason")
    ptr = part.array("/failures/reason_ptr").astype(np.int64)
    graphs, levels = part.array("/failures/graph"), part.array("/failures/level")
    if (graphs < part.first).any() or (graphs >= part.first + part.count).any():
        raise part.damaged("/failures/graph", f"must hold ids in [{part.first}, {part.first + part.count})")
    if (levels >= part.depth).any():
        raise part.damaged("/failures/level", f"must hold positions below {part.depth}")
    if (np.diff(ptr) > fmt.MAX_REASON_BYTES).any():
        raise part.damaged("/failures/reason", f"must hold texts of at most {fmt.MAX_REASON_BYTES} bytes")
    return [
        FailureRecord(
            int(graphs[i]), int(levels[i]), text[ptr[i] : ptr[i + 1]].tobytes().decode("utf-8", "replace")
        )
        for i in range(count)
    ]


def read_metric(parts: Sequence[HierarchyPart], metric: str) -> Array:
    """Return a metric from all shards: one value per graph, or one number per shard.

    Args:
        parts: Open shards.
        metric: Name of the metric in the manifest.
    """
    path = metric_path(metric)
    pieces: list[Array] = []
    per_graph = None
    for part in parts:
        dtype = str(part.info(path).attributes["dtype"])
        stored = part.array(path)
        if first_too_large(stored, 1 if dtype == "bool" else largest_number(dtype)) is not None:
            raise part.damaged(path, f"holds a number that is not of type {dtype}")
        pieces.append(np.atleast_1d(restore(stored, dtype)))
        if part.count != 1:  # one graph has one row in both cases
            found = len(pieces[-1]) == part.count
            per_graph = found if per_graph is None else per_graph
            if found != per_graph:
                raise part.damaged(path, "must have one row per graph in all shards or in none")
        if pieces[-1].shape[1:] != pieces[0].shape[1:]:
            expected = list(pieces[0].shape[1:])
            raise part.damaged(path, f"must have rows of shape {expected}, got shape {list(stored.shape)}")
    return np.concatenate(pieces)


def _span(ptr: Array | None, row: int) -> tuple[slice, LongArray]:
    """Return the rows of one graph, and their offsets in a table of this graph alone."""
    low, high = (row, row + 1) if ptr is None else (int(ptr[row]), int(ptr[row + 1]))
    return slice(low, high), np.array([0, high - low])
