"""The two kinds of shard files: input graphs, and one hierarchy over them. Writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.ragged import Field, GraphTable, Hierarchy, Level
from tgp.store.format import constants as fmt
from tgp.store.format.codec import narrow, set_attributes, write_array
from tgp.store.format.schema import FailureRecord, FieldInfo, LevelInfo, PtrKind
from tgp.store.io.files import Sink
from tgp.store.write.local_ids import local_edges, local_ids

__all__ = ["PartSummary", "field_infos", "split_metric", "write_graphs_file", "write_hierarchy_file"]


_IDS = dict.fromkeys(("edge_index", "cluster", "representative"), "int64")
"""Arrays of a level that readers get in another type than they come in here."""


@dataclass
class PartSummary:
    """What went into a file: goes into its completion record."""

    nodes: list[int] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    fields: tuple[FieldInfo, ...] = ()
    levels: tuple[LevelInfo, ...] = ()
    metrics: tuple[str, ...] = ()
    failures: int = 0


class _File:
    """An HDF5 file being written into a sink."""

    def __init__(self, sink: Sink, profile: str, attributes: Mapping[str, str | int]) -> None:
        self.profile = profile
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

    def group(self, path: str, attributes: Mapping[str, str | int] | None = None) -> h5py.Group:
        group = self.file.require_group(path)
        set_attributes(group, attributes or {})
        return group

    def array(
        self,
        group: h5py.Group,
        name: str,
        values: npt.NDArray[Any],
        attributes: Mapping[str, str | int] | None = None,
        dtype: str | None = None,
    ) -> int:
        """Write one array, narrowed; its original type (``dtype`` if that is known better) becomes an attribute."""
        kind = {"dtype": dtype or values.dtype.newbyteorder("=").name}
        return write_array(group, name, narrow(values, name), self.profile, {**kind, **(attributes or {})})

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *exception: object) -> None:
        # Also after an error: an open file would write into the descriptor's next owner when collected.
        self.file.close()


def field_infos(table: GraphTable) -> tuple[FieldInfo, ...]:
    """Describe the fields of a table, sorted by name."""
    return tuple(_field_info(table, table.fields[name]) for name in sorted(table.fields))


def _field_info(table: GraphTable, entry: Field) -> FieldInfo:
    values = entry.values
    if values.ndim == 0 or entry.axis not in (0, -1):
        raise InputError(
            f"{entry.name}: values need an axis 0 or -1 to follow, got {values.shape}", field=entry.name
        )
    tail = values.shape[1:] if entry.axis == 0 else values.shape[:-1]
    edges = table.fields.get("edge_index")
    fits: dict[str, bool] = {
        "node": np.array_equal(entry.ptr, table.node_ptr),
        "edge": edges is not None and (entry is edges or np.array_equal(entry.ptr, edges.ptr)),
        "graph": np.array_equal(entry.ptr, np.arange(len(table.node_ptr))),
        "own": True,
    }
    ptrs = tuple(p for p in _preference(entry) if fits[p])
    dtype = values.dtype.newbyteorder("=").name
    return FieldInfo(entry.name, dtype, tuple(tail), entry.axis, entry.form, entry.shifted, ptrs)


def _preference(entry: Field) -> tuple[PtrKind, ...]:
    if "edge" in entry.name:
        return ("edge", "node", "graph", "own")
    if entry.form != "rows":
        return ("graph", "node", "edge", "own")
    return ("node", "edge", "graph", "own")


def write_graphs_file(sink: Sink, table: GraphTable, profile: str, unit: int, first: int) -> PartSummary:
    """Write the input graphs of one unit."""
    table.validate()
    infos = field_infos(table)
    header: dict[str, str | int] = {
        "part": fmt.GRAPHS,
        "unit": unit,
        "first_graph": first,
        "num_graphs": table.num_graphs,
    }
    edges = table.fields.get("edge_index")
    with _File(sink, profile, header) as out:
        size = out.array(out.file["/"], "node_ptr", table.node_ptr)
        if edges is not None:
            size += out.array(out.file["/"], "edge_ptr", edges.ptr)
        fields, ptrs = out.group("fields"), out.group("ptr")
        for info in infos:
            entry = table.fields[info.name]
            link = fmt.encode_name(info.name)
            described: dict[str, str | int] = {
                "axis": info.axis,
                "form": info.form,
                "shifted": int(info.shifted),
                "ptr": info.ptr,
            }
            size += out.array(fields, link, entry.values, described)
            if info.ptr == "own":
                size += out.array(ptrs, link, entry.ptr)
    count = 0 if edges is None else int(edges.ptr[-1])
    return PartSummary([table.num_nodes], [count], [size], fields=infos)


def write_hierarchy_file(
    sink: Sink,
    hierarchy: Hierarchy,
    profile: str,
    header: Mapping[str, str | int],
    *,
    weight_dtype: npt.DTypeLike = np.float32,
    metrics: Mapping[str, npt.NDArray[Any]] | None = None,
    failures: Sequence[FailureRecord] = (),
) -> PartSummary:
    """Write one hierarchy over the graphs of one unit."""
    summary = PartSummary(failures=len(failures))
    infos, node_ptr = [], hierarchy.node_ptr
    attributes = {**header, "num_graphs": hierarchy.num_graphs, "num_levels": hierarchy.depth}
    with _File(sink, profile, attributes) as out:
        out.array(out.file["/"], "node_ptr", hierarchy.node_ptr)
        for number, level in enumerate(hierarchy.levels):
            arrays = _level_arrays(level, node_ptr, number, np.dtype(weight_dtype))
            group = out.group(f"levels/{number}", {"method": level.method, "kind": level.assignment.kind})
            summary.bytes.append(
                sum(out.array(group, name, values, dtype=_IDS.get(name)) for name, values in arrays.items())
            )
            summary.nodes.append(level.block.num_nodes)
            summary.edges.append(level.block.num_edges)
            infos.append(_level_info(level, arrays))
            node_ptr = level.block.node_ptr
        summary.metrics = _write_metrics(out, metrics or {}, hierarchy)
        _write_failures(out, failures)
    summary.levels = tuple(infos)
    return summary


def _level_info(level: Level, arrays: Mapping[str, npt.NDArray[Any]]) -> LevelInfo:
    theta = level.assignment.theta
    return LevelInfo(
        level.method,
        level.assignment.kind,
        level.assignment.width,
        None if theta is None else int(theta.shape[1]),
        arrays["edge_weight"].dtype.name if "edge_weight" in arrays else None,
        tuple(name for name in fmt.LEVEL_ARRAYS if name in arrays),
    )


def _level_arrays(
    level: Level, node_ptr: npt.NDArray[np.int64], number: int, weight_dtype: np.dtype[Any]
) -> dict[str, npt.NDArray[Any]]:
    """Every array of a level, with ids local to their graph."""
    given, block = level.assignment, level.block
    if not np.array_equal(block.node_ptr, given.super_ptr) or len(given.super_ptr) != len(node_ptr):
        raise InputError(
            f"level {number + 1}: the coarse graphs must have the supernodes of the assignment", field="super_ptr"
        )
    arrays: dict[str, npt.NDArray[Any]] = {
        "super_ptr": given.super_ptr,
        "edge_ptr": block.edge_ptr,
        "edge_index": local_edges(block, f"level {number + 1}: edge_index"),
    }
    if block.weight is not None:
        arrays["edge_weight"] = block.weight.astype(weight_dtype)
    if given.cluster is not None:
        arrays["cluster"] = local_ids(
            given.cluster, node_ptr, given.super_ptr, -1, f"level {number + 1}: cluster"
        )
    for name in ("weight", "soft", "theta"):
        values = getattr(given, name)
        if values is not None:
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


def split_metric(name: str) -> tuple[int, str]:
    """``"2/modularity"`` -> ``(2, "modularity")``."""
    level, _, rest = name.partition("/")
    if not level.isascii() or not level.isdigit() or not rest:
        raise InputError(f"a metric is named '<level>/<name>', got {name!r}", field="metrics")
    return int(level), rest


def _write_metrics(
    out: _File, metrics: Mapping[str, npt.NDArray[Any]], hierarchy: Hierarchy
) -> tuple[str, ...]:
    groups: dict[int, h5py.Group] = {}
    for key in sorted(metrics):
        level, name = split_metric(key)
        values = np.asarray(metrics[key])
        if level >= hierarchy.depth:
            raise InputError(f"metric {key!r}: the hierarchy has {hierarchy.depth} levels", field="metrics")
        if values.ndim and len(values) != hierarchy.num_graphs:
            raise InputError(
                f"metric {key!r} must be one number, or one row for each of {hierarchy.num_graphs} graphs, "
                f"got {len(values)}",
                field="metrics",
            )
        if level not in groups:
            groups[level] = out.group(f"metrics/{level}")
        out.array(groups[level], fmt.encode_name(name), values)
    return tuple(sorted(metrics))


def _write_failures(out: _File, failures: Sequence[FailureRecord]) -> None:
    """The ledger: graph ids (of the whole store), levels, and reasons as UTF-8."""
    if not failures:
        return
    ordered = sorted(failures, key=lambda f: (f.graph, f.level, f.reason))
    texts = [f.reason.encode()[: fmt.MAX_REASON_BYTES] for f in ordered]
    group = out.group("failures")
    out.array(group, "graph", np.array([f.graph for f in ordered], np.int64))
    out.array(group, "level", np.array([f.level for f in ordered], np.int64))
    out.array(group, "reason_ptr", np.cumsum([0, *(len(t) for t in texts)], dtype=np.int64))
    out.array(group, "reason", np.frombuffer(b"".join(texts), np.uint8))
