"""Write the two kinds of shard files: input graphs, and one hierarchy over them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np

from tgp.errors import InputError
from tgp.kernels.array_types import Array, IndexArray, IntArray, LongArray
from tgp.ragged import BlockCSR, GraphTable, Hierarchy, Level
from tgp.ragged.offsets import offsets
from tgp.store.format import constants as fmt
from tgp.store.format.codec import narrow, set_attributes, write_array
from tgp.store.format.pieces import PieceRecord
from tgp.store.format.schema import FailureRecord, FieldInfo, LevelInfo, ShardRecord
from tgp.store.io.sink import Sink
from tgp.store.write.field_infos import graph_field_info, level_field_info
from tgp.store.write.limits import check_level, check_metric, check_rows

__all__ = [
    "IDS",
    "PartSummary",
    "ShardFile",
    "level_arrays",
    "load_kernels",
    "local_edges",
    "local_ids",
    "write_graphs_file",
    "write_hierarchy_file",
]

IDS = dict.fromkeys(("edge_index", "cluster", "representative"), "int64")
"""Type in which readers return an array of ids, if it differs from the type of the array that is written."""

Attributes = Mapping[str, str | int]


@dataclass
class PartSummary:
    """Totals and schema of a file, for its completion record. Lists have one entry per level."""

    nodes: list[int] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    fields: tuple[FieldInfo, ...] = ()
    levels: tuple[LevelInfo, ...] = ()
    metrics: tuple[str, ...] = ()
    failures: int = 0
    pieces: tuple[PieceRecord, ...] = ()

    def shard_record(self, file: str, size: int, sha256: str, ends: str) -> ShardRecord:
        """Return the record of the file from these totals, its name, size and digests."""
        totals = tuple(self.nodes), tuple(self.edges), tuple(self.bytes)
        return ShardRecord(file, size, sha256, ends, *totals, self.failures, self.pieces)


class ShardFile:
    """HDF5 file that is being written to a sink.

    Args:
        sink: File to write to.
        profile: ``"fast"`` or ``"small"``.
        attributes: Attributes of the root group.
        left_out: Paths of arrays, without ``/`` at the start, that are in pieces instead.
    """

    def __init__(
        self, sink: Sink, profile: str, attributes: Attributes, left_out: Collection[str] = ()
    ) -> None:
        self.profile = profile
        self.left_out = left_out
        self.file = h5py.File(
            sink,
            "w",
            libver=fmt.LIBVER,
            alignment_threshold=1,
            alignment_interval=fmt.ALIGNMENT if profile == "fast" else 1,
            track_order=False,
        )
        set_attributes(
            self.file, {"format": fmt.FORMAT, "version": fmt.VERSION, "profile": profile, **attributes}
        )

    def group(self, path: str, attributes: Attributes | None = None) -> h5py.Group:
        group = self.file.require_group(path)
        set_attributes(group, attributes or {})
        return group

    def array(
        self,
        group: h5py.Group,
        name: str,
        values: Array,
        attributes: Attributes | None = None,
        dtype: str | None = None,
    ) -> int:
        """Write one narrowed array with its original type (``dtype`` if given) as an attribute; return its bytes."""
        kind, stored = {"dtype": dtype or values.dtype.newbyteorder("=").name}, narrow(values, name)
        if f"{group.name}/{name}".lstrip("/") in self.left_out:
            return int(stored.nbytes)
        return write_array(group, name, stored, self.profile, {**kind, **(attributes or {})})

    def field(self, group: h5py.Group, info: FieldInfo, values: Array) -> int:
        """Write the values of a field with its description as attributes; return their bytes."""
        return self.array(group, fmt.encode_name(info.name), values, self.describe(info))

    @staticmethod
    def describe(info: FieldInfo) -> Attributes:
        """Return the attributes that describe a field."""
        return {"axis": info.axis, **info.stored_form, "shifted": int(info.shifted), "ptr": info.ptr}

    def __enter__(self) -> ShardFile:
        return self

    def __exit__(self, *exception: object) -> None:
        # Also after an error: the garbage collector would close the file later and write to a descriptor that may
        # belong to another file by then.
        self.file.close()


def write_graphs_file(
    sink: Sink,
    table: GraphTable,
    profile: str,
    unit: int,
    first: int,
    *,
    left_out: Collection[str] = (),
) -> PartSummary:
    """Write the input graphs of one unit.

    Args:
        sink: File to write to.
        table: Graphs of the unit.
        profile: ``"fast"`` or ``"small"``.
        unit: Number of the unit.
        first: Id of its first graph in the whole store.
        left_out: Arrays that are in pieces, see :class:`ShardFile`.

    Returns:
        Totals and fields of the file.
    """
    table.validate()
    infos = tuple(graph_field_info(table, table.fields[name]) for name in sorted(table.fields))
    header: Attributes = {
        "part": fmt.GRAPHS,
        "unit": unit,
        "first_graph": first,
        "num_graphs": table.num_graphs,
    }
    edges = table.fields.get("edge_index")
    with ShardFile(sink, profile, header, left_out) as out:
        size = out.array(out.file["/"], "node_ptr", table.node_ptr)
        if edges is not None:
            size += out.array(out.file["/"], "edge_ptr", edges.ptr)
        fields, ptrs = out.group("fields"), out.group("ptr")
        for info in infos:
            entry = table.fields[info.name]
            size += out.field(fields, info, entry.values)
            if info.ptr == "own":
                size += out.array(ptrs, fmt.encode_name(info.name), entry.ptr)
    check_rows("nodes", table.num_nodes, size)
    count = 0 if edges is None else int(edges.ptr[-1])
    return PartSummary([table.num_nodes], [count], [size], fields=infos)


def write_hierarchy_file(
    sink: Sink,
    hierarchy: Hierarchy,
    profile: str,
    header: Attributes,
    *,
    metrics: Mapping[str, Array] | None = None,
    failures: Sequence[FailureRecord] = (),
    typed: bool = False,
    left_out: Collection[str] = (),
) -> PartSummary:
    """Write one hierarchy over the graphs of one unit.

    Args:
        sink: File to write to.
        hierarchy: Levels of the unit.
        profile: ``"fast"`` or ``"small"``.
        header: Attributes of the root group.
        metrics: Values per ``"<position>/<name>"``, where ``position`` counts the levels from 0. A value is one number,
            or has one row per graph.
        failures: Graphs that could not be coarsened.
        typed: True for heterogeneous graphs.
        left_out: Arrays that are in pieces, see :class:`ShardFile`.

    Returns:
        Totals and levels of the file.
    """
    summary = PartSummary(failures=len(failures))
    infos, node_ptr = [], hierarchy.node_ptr
    attributes = {**header, "num_graphs": hierarchy.num_graphs, "num_levels": hierarchy.depth}
    with ShardFile(sink, profile, attributes, left_out) as out:
        out.array(out.file["/"], "node_ptr", hierarchy.node_ptr)
        for number, level in enumerate(hierarchy.levels):
            arrays = level_arrays(level, node_ptr, number)
            group = out.group(f"levels/{number}", {"method": level.method, "kind": level.assignment.kind})
            size = sum(out.array(group, name, values, dtype=IDS.get(name)) for name, values in arrays.items())
            fields = tuple(
                level_field_info(level, name, number, typed=typed) for name in sorted(level.fields)
            )
            for info in fields:  # levels without fields have no such groups
                entry = level.fields[info.name]
                size += out.field(out.group(f"levels/{number}/fields"), info, entry.values)
                if info.ptr == "own":
                    into = out.group(f"levels/{number}/ptr")
                    size += out.array(into, fmt.encode_name(info.name), entry.ptr)
            summary.bytes.append(size)
            summary.nodes.append(level.block.num_nodes)
            summary.edges.append(level.block.num_edges)
            infos.append(_level_info(level, arrays, fields))
            node_ptr = level.block.node_ptr
        for number, level in enumerate(hierarchy.levels):
            if level.assignment.kind != "hard":
                name = f"supernodes of level {number + 1}"
                check_rows(name, summary.nodes[number], sum(summary.bytes))
        summary.metrics = _write_metrics(out, metrics or {}, hierarchy)
        _write_failures(out, failures)
    summary.levels = tuple(infos)
    return summary


def _level_info(level: Level, arrays: Mapping[str, Array], fields: tuple[FieldInfo, ...]) -> LevelInfo:
    theta = level.assignment.theta
    return LevelInfo(
        level.method,
        level.assignment.kind,
        level.assignment.width,
        None if theta is None else int(theta.shape[1]),
        arrays["edge_weight"].dtype.name if "edge_weight" in arrays else None,
        tuple(name for name in fmt.LEVEL_ARRAYS if name in arrays),
        fields,
    )


def level_arrays(level: Level, node_ptr: LongArray, number: int) -> dict[str, Array]:
    """Return every array of a level by name, with ids that are local to their graph.

    Args:
        level: Level of a unit.
        node_ptr: Offsets of the nodes of the finer graphs.
        number: Position of the level, from 0.

    Raises:
        InputError: If the arrays do not fit together.
    """
    given, block = level.assignment, level.block
    if not np.array_equal(block.node_ptr, given.super_ptr) or len(given.super_ptr) != len(node_ptr):
        raise InputError(
            f"level {number + 1}: the coarse graphs must have the supernodes of the assignment",
            field="super_ptr",
        )
    check_level(given, node_ptr, number)
    arrays: dict[str, Array] = {
        "super_ptr": given.super_ptr,
        "edge_ptr": block.edge_ptr,
        "edge_index": local_edges(block, f"level {number + 1}: edge_index"),
    }
    if block.weight is not None:
        arrays["edge_weight"] = block.weight.astype(level.weight_dtype)
    if given.cluster is not None:
        arrays["cluster"] = local_ids(
            given.cluster, node_ptr, given.super_ptr, -1, f"level {number + 1}: cluster"
        )
    for name in ("weight", "soft", "theta"):
        values = getattr(given, name)
        if values is not None:
            values = np.asarray(values).astype(np.float32, copy=False)
            if len(values) != node_ptr[-1]:
                raise InputError(
                    f"level {number + 1}: {name} must hold {node_ptr[-1]} rows, got {len(values)}", field=name
                )
            arrays[name] = values
    if given.representative is not None:
        arrays["representative"] = local_ids(
            given.representative, given.super_ptr, node_ptr, 0, f"level {number + 1}: representative"
        )
    return arrays


def local_edges(block: BlockCSR, name: str) -> IntArray:
    """Return the edges of a block with node ids that are local to their graph.

    Args:
        block: Graphs.
        name: Name of the array, for messages.

    Returns:
        ``[2, nnz]`` array of the smallest unsigned type of 1, 2 or 4 bytes that holds the ids of the largest graph.

    Raises:
        InputError: If an edge leaves its graph.
    """
    from tgp.kernels import local_ids as kernels

    out = np.empty((2, block.num_edges), _id_type("u", block.node_ptr))
    if not kernels.local_edges(block.indptr, block.indices, block.node_ptr, out):
        raise _id_out_of_range(name)
    return out


def local_ids(ids: IndexArray, ptr: LongArray, target_ptr: LongArray, low: int, name: str) -> IntArray:
    """Convert ids of a block into ids that are local to their graph.

    Args:
        ids: ``[M]`` ids of elements of the block.
        ptr: ``[B + 1]`` offsets that cut ``ids`` into graphs.
        target_ptr: ``[B + 1]`` offsets that cut the elements into graphs.
        low: -1 if negative ids are allowed (they become -1), otherwise 0.
        name: Name of the array, for messages.

    Returns:
        ``[M]`` array of the smallest signed type of 1, 2 or 4 bytes that holds the ids of the largest graph.

    Raises:
        InputError: If an id belongs to another graph, or the number of ids is wrong.
    """
    from tgp.kernels import local_ids as kernels

    if len(ids) != ptr[-1]:
        raise InputError(f"{name}: expected {ptr[-1]} ids, got {len(ids)}", field=name)
    out = np.empty(len(ids), _id_type("i", target_ptr))
    if not kernels.local_ids(np.ascontiguousarray(ids, np.int32), ptr, target_ptr, low, out):
        raise _id_out_of_range(name)
    return out


def load_kernels() -> None:
    """Compile the kernels of this module, or load them from the cache."""
    from tgp.kernels import local_ids as kernels

    ptr, ids = np.zeros(1, np.int64), np.zeros(0, np.int32)
    kernels.local_edges(ptr, ids, ptr, np.zeros((2, 0), np.int32))
    kernels.local_ids(ids, ptr, ptr, 0, ids)


def _id_type(kind: str, ptr: LongArray) -> np.dtype[Any]:
    largest = int(np.diff(ptr).max(initial=1)) - 1
    return next(np.dtype(f"{kind}{n}") for n in (1, 2, 4) if largest <= np.iinfo(f"{kind}{n}").max)


def _id_out_of_range(name: str) -> InputError:
    return InputError(f"{name}: expected ids of its own graph, got an id out of range", field=name)


def _split_metric(name: str) -> tuple[int, str]:
    """Split the name of a metric: ``"2/modularity"`` becomes ``(2, "modularity")``."""
    level, _, rest = name.partition("/")
    if not level.isascii() or not level.isdigit() or not rest:
        raise InputError(f"wrong name of a metric: expected '<level>/<name>', got {name!r}", field="metrics")
    return int(level), rest


def _write_metrics(out: ShardFile, metrics: Mapping[str, Array], hierarchy: Hierarchy) -> tuple[str, ...]:
    groups: dict[int, h5py.Group] = {}
    for key in sorted(metrics):
        level, name = _split_metric(key)
        values = np.asarray(metrics[key])
        if level >= hierarchy.depth:
            raise InputError(
                f"metric {key!r}: expected a level below {hierarchy.depth} (counted from 0), got {level}",
                field="metrics",
            )
        check_metric(key, values, hierarchy.num_graphs)
        if level not in groups:
            groups[level] = out.group(f"metrics/{level}")
        out.array(groups[level], fmt.encode_name(name), values)
    return tuple(sorted(metrics))


def _write_failures(out: ShardFile, failures: Sequence[FailureRecord]) -> None:
    """Write the failed graphs: their ids in the whole store, levels, and reasons as UTF-8."""
    if not failures:
        return
    ordered = sorted(failures, key=lambda f: (f.graph, f.level, f.reason))
    texts = [f.reason.encode()[: fmt.MAX_REASON_BYTES] for f in ordered]
    group = out.group("failures")
    out.array(group, "graph", np.array([f.graph for f in ordered], np.int64))
    out.array(group, "level", np.array([f.level for f in ordered], np.int64))
    out.array(group, "reason_ptr", offsets([len(t) for t in texts]))
    out.array(group, "reason", np.frombuffer(b"".join(texts), np.uint8))
