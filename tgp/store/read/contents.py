"""Check the content of a shard file against the manifest when it is opened.

This is the one place that decides which arrays a shard may contain. It checks the exact type, shape and size of every
array, bounds every count by bytes that exist or by a limit of :mod:`tgp.store.format.constants`, and checks all offsets.
Readers see only arrays that passed these checks. Ids and other values of large arrays are checked when they are
gathered, and all of them by :mod:`tgp.store.verify`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Literal

import numpy as np

from tgp.kernels.array_types import Array
from tgp.store.format import constants as fmt
from tgp.store.format.codec import stored_types
from tgp.store.format.manifest import Manifest
from tgp.store.format.schema import FieldInfo, LevelInfo
from tgp.store.io.files import StoreFiles
from tgp.store.read.divided_part import DividedPart
from tgp.store.read.parts import DecodedCache, OpenPart

__all__ = ["GraphsPart", "HierarchyPart", "level_field_path", "level_paths", "metric_path"]


_UNSIGNED = stored_types("uint64")
_INTEGERS = stored_types("int64")


class GraphsPart(DividedPart):
    """File with the input graphs of a shard.

    Attributes:
        count: Number of graphs.
        node_ptr: Offsets of the nodes.
        edge_ptr: Offsets of the edges, or ``None`` if the graphs have no edges.
        ptrs: Path of the offsets of each field, or ``""`` for one row per graph.
    """

    def __init__(
        self,
        files: StoreFiles,
        manifest: Manifest,
        unit: int,
        cache: DecodedCache,
        *,
        full: bool = False,
        in_memory: bool = False,
    ) -> None:
        super().__init__(files, manifest.shards[fmt.GRAPHS][unit], cache, full=full, in_memory=in_memory)
        spec = manifest.spec
        nodes, edges = self.record.nodes[0], self.record.edges[0]
        self.count = self.check_header(
            {"profile": spec.profile, "part": fmt.GRAPHS, "unit": unit, "first_graph": spec.bounds[unit]},
            spec.bounds[unit + 1] - spec.bounds[unit],
        )
        self.check_rows("/node_ptr", nodes)
        self.node_ptr = self.ptr("/node_ptr", self.count, nodes)
        has_edges = any(info.name == "edge_index" for info in manifest.fields)
        if not has_edges and edges:
            raise self.damaged("/edge_ptr", f"must delimit {edges} edges, but there is no field edge_index")
        self.edge_ptr = self.ptr("/edge_ptr", self.count, edges) if has_edges else None
        self.ptrs = {info.name: self._check_field(info) for info in manifest.fields}
        self.check_bytes("/", self.record.bytes[0])
        self.forget_undeclared_arrays()
        if "num_nodes" in self.ptrs:
            self._check_num_nodes()

    def _check_field(self, info: FieldInfo) -> str:
        """Check one field, and return the path of its offsets or ``""`` for one row per graph."""
        path = self.path(info.name)
        _check_field_attributes(self, path, info)
        kind = str(self.info(path).attributes.get("ptr"))
        if kind not in fmt.PTRS or (kind == "edge" and self.edge_ptr is None):
            raise self.damaged(f"{path}@ptr", f"must name offsets that the file contains, got {kind!r}")
        total = {"node": self.record.nodes[0], "edge": self.record.edges[0], "graph": self.count}.get(kind)
        own = f"/ptr/{fmt.encode_name(info.name)}"
        if total is None:
            shape = self.info(path).shape
            total = shape[0 if info.axis == 0 else len(info.tail)] if len(shape) > len(info.tail) else 0
            if info.row_bytes == 0:
                self.check_rows(path, total)
            self.ptr(own, self.count, total)
        self.check_array(path, *_field_array(info, total))
        where = {"node": "/node_ptr", "edge": "/edge_ptr", "graph": ""}.get(kind, own)
        if info.ptr not in ("own", kind):
            self._check_same_offsets(path, where, info)
        return where

    def _check_same_offsets(self, path: str, where: str, info: FieldInfo) -> None:
        """Check that the offsets of a field equal those that the manifest names."""
        expected: Any = {"node": self.node_ptr, "edge": self.edge_ptr}.get(info.ptr)
        given = self.pin(where) if where else np.arange(self.count + 1)
        if not np.array_equal(given, np.arange(self.count + 1) if expected is None else expected):
            raise self.damaged(f"{path}@ptr", f"must be offsets that equal those of kind {info.ptr!r}")

    def _check_num_nodes(self) -> None:
        path = self.path("num_nodes")
        if not np.array_equal(self.array(path), np.diff(self.node_ptr.astype(np.int64))):
            raise self.damaged(path, "must equal the numbers of nodes of /node_ptr")

    @staticmethod
    @cache
    def path(field: str) -> str:
        """Return the path of the values of a field."""
        return f"/fields/{fmt.encode_name(field)}"


class HierarchyPart(DividedPart):
    """File with one hierarchy over the graphs of a shard.

    Attributes:
        count: Number of graphs.
        node_ptrs: Offsets of the nodes of the input graphs, then of the supernodes of each level.
        edge_ptrs: Offsets of the coarse edges of each level.
        present: Paths of the level arrays that the file contains.
    """

    def __init__(
        self,
        files: StoreFiles,
        manifest: Manifest,
        name: str,
        unit: int,
        cache: DecodedCache,
        node_ptr: Array,
        *,
        full: bool = False,
        in_memory: bool = False,
    ) -> None:
        super().__init__(files, manifest.shards[name][unit], cache, full=full, in_memory=in_memory)
        spec, info = manifest.spec, manifest.hierarchies[name]
        self.first, self.depth = spec.bounds[unit], info.depth
        self.count = self.check_header(
            {
                "profile": spec.profile,
                "part": name,
                "unit": unit,
                "first_graph": self.first,
                "num_levels": self.depth,
            },
            spec.bounds[unit + 1] - self.first,
        )
        self.node_ptrs = [self.ptr("/node_ptr", self.count, manifest.shards[fmt.GRAPHS][unit].nodes[0])]
        if not np.array_equal(self.node_ptrs[0], node_ptr):
            raise self.damaged("/node_ptr", "must equal the offsets of the input graphs")
        self.edge_ptrs: list[Array] = []
        self.present: set[str] = set()
        for number, level in enumerate(info.levels):
            self._check_level(number, level)
        for metric in info.metrics:
            self._check_metric(metric)
        self._check_failures()
        self.forget_undeclared_arrays()

    def _check_level(self, number: int, level: LevelInfo) -> None:
        base, before = f"/levels/{number}", int(self.node_ptrs[-1][-1])
        nodes, edges = self.record.nodes[number], self.record.edges[number]
        if nodes:  # a shard without supernodes may be of another kind
            self.check_attributes(
                base, self.groups.get(base, {}), {"method": level.method, "kind": level.kind}
            )
        self.node_ptrs.append(self.ptr(f"{base}/super_ptr", self.count, nodes))
        self.edge_ptrs.append(self.ptr(f"{base}/edge_ptr", self.count, edges))
        self._check_supernodes(f"{base}/super_ptr", level)
        self.check_array(f"{base}/edge_index", (2, edges), _UNSIGNED, "int64")
        self.present.add(f"{base}/edge_index")
        weight_dtype = level.weight_dtype or "float32"
        shapes: dict[str, tuple[tuple[int, ...], frozenset[str], str]] = {
            "edge_weight": ((edges,), stored_types(weight_dtype), weight_dtype),
            "cluster": ((before,), _INTEGERS, "int64"),
            "weight": ((before,), stored_types("float32"), "float32"),
            "soft": ((before, level.width or 0), stored_types("float32"), "float32"),
            "theta": ((before, level.modes or 0), stored_types("float32"), "float32"),
            "representative": ((nodes,), _UNSIGNED, "int64"),
        }
        for array in level.arrays:
            path = f"{base}/{array}"
            shape, types, dtype = shapes[array]
            found = self.arrays.get(path)
            if not nodes and (found is None or found.shape != shape or found.dtype.str not in types):
                continue
            # Absent weights are ones.
            if found is not None or array not in ("edge_weight", "weight"):
                self.check_array(path, shape, types, dtype)
                self.present.add(path)
        for info in level.fields:
            self._check_field(number, info)
        self.check_bytes(f"{base}/", self.record.bytes[number])

    def _check_field(self, number: int, info: FieldInfo) -> None:
        """Check one field of a level. A shard without supernodes may lack it, or have it in another type."""
        path, nodes = level_field_path(number, info.name), self.record.nodes[number]
        total = nodes if info.ptr == "node" else self.record.edges[number]
        if info.ptr == "own":
            shape = self.info(path).shape
            total = math.prod(shape) if info.is_text else shape[0] if shape else 0
            if info.row_bytes == 0:
                self.check_rows(path, total)
            ptr = self.ptr(level_field_path(number, info.name, "ptr"), self.count, total)
            if info.shifted and number and not np.array_equal(ptr, self.edge_ptrs[number - 1]):
                raise self.damaged(path, f"must have one row for each edge of level {number}")
        elif not nodes and not total:
            found, (shape, _, dtype) = self.arrays.get(path), _field_array(info, 0)
            if found is None or (found.shape, found.attributes.get("dtype")) != (shape, dtype):
                return
        _check_field_attributes(self, path, info)
        kind = self.info(path).attributes.get("ptr")
        valid = ("own",) if info.ptr == "own" else ("node", "edge")
        if kind not in valid:
            raise self.damaged(f"{path}@ptr", f"must be {' or '.join(map(repr, valid))}, got {kind!r}")
        self.check_array(path, *_field_array(info, total))
        if kind != info.ptr and not np.array_equal(self.node_ptrs[-1], self.edge_ptrs[-1]):
            raise self.damaged(f"{path}@ptr", f"must be offsets that equal those of kind {info.ptr!r}")
        self.present.add(path)

    def _check_supernodes(self, path: str, level: LevelInfo) -> None:
        """Check the number of supernodes of each graph."""
        before, sizes = (np.diff(ptr.astype(np.int64)) for ptr in self.node_ptrs[-2:])
        if level.kind == "hard":
            if (sizes > before).any():
                raise self.damaged(path, "must give no graph more supernodes than it has nodes")
            return
        # A graph that failed has no supernodes.
        if ((sizes != level.width) & (sizes != 0)).any():
            raise self.damaged(path, f"must give every graph {level.width} supernodes or none")
        self.check_rows(path, int(self.node_ptrs[-1][-1]))

    def _check_metric(self, metric: str) -> None:
        path = metric_path(metric)
        info = self.info(path)
        dtype = info.attributes.get("dtype")
        if dtype not in fmt.ORIGINAL_DTYPES or str(dtype).startswith("complex"):
            raise self.damaged(f"{path}@dtype", f"must name a real type, got {dtype!r}")
        if len(info.shape) > 2:
            raise self.damaged(path, f"must have at most 2 axes, got shape {list(info.shape)}")
        # One row per graph, or one number for the whole shard.
        shape = info.shape if info.shape in ((), (1,)) else (self.count, *info.shape[1:])
        self.check_array(path, shape, stored_types(str(dtype)), str(dtype))

    def _check_failures(self) -> None:
        count = self.record.failures
        if not count:
            return
        for name in ("graph", "level"):
            self.check_array(f"/failures/{name}", (count,), _UNSIGNED, "int64")
        length = self.info("/failures/reason").shape
        self.check_array("/failures/reason", length[:1], stored_types("uint8"), "uint8")
        self.ptr("/failures/reason_ptr", count, length[0] if length else 0)


def _check_field_attributes(part: OpenPart, path: str, info: FieldInfo) -> None:
    """Check the attributes of the values of a field, except the kind of its offsets."""
    expected: dict[str, str | int] = {"axis": info.axis, **info.stored_form, "shifted": int(info.shifted)}
    part.check_attributes(path, part.info(path).attributes, expected)


def _field_array(info: FieldInfo, rows: int) -> tuple[tuple[int, ...], frozenset[str], str]:
    """Return the shape, the valid stored types and the original type of the values of a field."""
    shape = (rows, *info.tail) if info.axis == 0 else (*info.tail, rows)
    complex_axis = (2,) if info.dtype.startswith("complex") else ()
    return shape + complex_axis, stored_types(info.dtype), info.dtype


@cache
def level_field_path(number: int, field: str, group: Literal["fields", "ptr"] = "fields") -> str:
    """Return the path of the values of a field of a level, or of its own offsets."""
    return f"/levels/{number}/{group}/{fmt.encode_name(field)}"


def metric_path(metric: str) -> str:
    """Return the path of a metric in a shard file.

    Args:
        metric: Name of the metric in the manifest, ``"<position of the level>/<name>"``.
    """
    level, _, name = metric.partition("/")
    return f"/metrics/{level}/{fmt.encode_name(name)}"


@cache
def level_paths(number: int) -> dict[str, str]:
    """Return the path of each array of a level."""
    return {name: f"/levels/{number}/{name}" for name in ("edge_index", *fmt.LEVEL_ARRAYS)}
