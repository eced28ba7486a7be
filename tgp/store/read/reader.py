"""``StoreReader``: any graphs and levels of a store as flat arrays."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError, UnknownNameError
from tgp.ragged import GraphTable
from tgp.store.format import constants as fmt
from tgp.store.format.codec import restore
from tgp.store.format.manifest import Manifest, read_manifest
from tgp.store.format.schema import FailureRecord, FieldInfo, HierarchyInfo, LevelInfo
from tgp.store.io.files import LocalFiles, StoreFiles
from tgp.store.read.batch_plan import BatchPlan, Layout, UnitArrays
from tgp.store.read.gather import LevelArrays, RowGather, take_field, take_level
from tgp.store.read.index import locate
from tgp.store.read.parts import DecodedCache, GraphsPart, HierarchyPart, check_size, level_paths

__all__ = ["StoreReader"]

_CACHE_BYTES = 512 << 20


class StoreReader:
    """Reads a complete store.

    Opening reads the manifest and compares the size of every file with it; shards are opened (and checked by
    the guard) when one of their graphs is first asked for. The object can be pickled and used after a fork.

    Args:
        path: directory of the store, or another :class:`~tgp.store.io.files.StoreFiles`.
        check: ``"cheap"`` compares sizes and the ends of files; ``"full"`` also the digest of a shard before
            libhdf5 sees it. Use it for stores from strangers.
        cache_bytes: decoded arrays kept in memory (small profile only).

    Attributes:
        manifest: what the store holds.
        fields: name -> type and shape of each attribute of the input graphs.

    Raises:
        StoreMissingError: no complete store there.
        StoreDamagedError: the manifest or a file is not as it was written.
        StoreVersionError: made by another version of the format.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | StoreFiles,
        *,
        check: Literal["cheap", "full"] = "cheap",
        cache_bytes: int = _CACHE_BYTES,
    ) -> None:
        self.files: StoreFiles = LocalFiles(path) if isinstance(path, (str, os.PathLike)) else path
        self.check = check
        self.cache_bytes = cache_bytes
        self.manifest: Manifest = read_manifest(self.files)
        for records in self.manifest.shards.values():
            for record in records:
                check_size(self.files, record)
        self._forget()

    def _forget(self) -> None:
        self.fields: dict[str, FieldInfo] = {info.name: info for info in self.manifest.fields}
        self._bounds = np.asarray(self.manifest.spec.bounds, np.int64)
        self._cache = DecodedCache(self.cache_bytes)
        self._graphs: dict[int, GraphsPart] = {}
        self._hierarchies: dict[tuple[str, int], HierarchyPart] = {}
        self._sizes: dict[tuple[str | None, int], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        keep = ("files", "check", "cache_bytes", "manifest")
        return {name: getattr(self, name) for name in keep}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __repr__(self) -> str:
        names = ", ".join(self.hierarchies) or "none"
        return f"StoreReader({self.files.location!r}, graphs={self.num_graphs}, hierarchies: {names})"

    # What there is ------------------------------------------------------------------------------

    @property
    def num_graphs(self) -> int:
        return self.manifest.num_graphs

    @property
    def num_shards(self) -> int:
        return self.manifest.spec.num_units

    @property
    def hierarchies(self) -> dict[str, HierarchyInfo]:
        """Name -> what it holds."""
        return self.manifest.hierarchies

    def hierarchy(self, name: str) -> HierarchyInfo:
        """One hierarchy; :class:`UnknownNameError` names the nearest."""
        if name not in self.hierarchies:
            raise UnknownNameError("hierarchy", name, self.hierarchies)
        return self.hierarchies[name]

    def level_info(self, hierarchy: str, level: int) -> LevelInfo:
        """What one level holds; ``level`` is its position in the schedule."""
        info = self.hierarchy(hierarchy)
        if not 0 <= level < info.depth:
            raise InputError(
                f"hierarchy {hierarchy!r} has levels 0..{info.depth - 1}, got {level}", field="level"
            )
        return info.levels[level]

    def num_bytes(self, part: str = fmt.GRAPHS) -> tuple[int, ...]:
        """Bytes of the arrays of each level before compression; one entry for ``"graphs"``."""
        if part != fmt.GRAPHS:
            self.hierarchy(part)
        return tuple(sum(level) for level in zip(*(s.bytes for s in self.manifest.shards[part]), strict=True))

    def file_bytes(self, part: str = fmt.GRAPHS) -> int:
        """Bytes on disk of the graphs or of one hierarchy."""
        if part != fmt.GRAPHS:
            self.hierarchy(part)
        return sum(s.size for s in self.manifest.shards[part])

    def sizes(
        self, hierarchy: str | None = None, level: int = 0
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Number of nodes and of edges of every graph after ``level`` steps; 0 steps are the input graphs."""
        if level and hierarchy is None:
            raise InputError("sizes after some steps need the name of a hierarchy", field="hierarchy")
        if level:
            self.level_info(str(hierarchy), level - 1)
        key = (hierarchy, level) if level else (None, 0)
        if key not in self._sizes:
            self._sizes[key] = self._read_sizes(*key)
        return self._sizes[key]

    def _read_sizes(
        self, hierarchy: str | None, level: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        nodes = np.zeros(self.num_graphs, np.int64)
        edges = np.zeros(self.num_graphs, np.int64)
        for unit, (low, high) in enumerate(pairwise(self.manifest.spec.bounds)):
            if hierarchy is None:
                graphs = self._graphs_part(unit)
                node_ptr, edge_ptr = graphs.node_ptr, graphs.edge_ptr
            else:
                part = self._hierarchy_part(hierarchy, unit)
                node_ptr, edge_ptr = part.node_ptrs[level], part.edge_ptrs[level - 1]
            nodes[low:high] = _differences(node_ptr)
            if edge_ptr is not None:
                edges[low:high] = _differences(edge_ptr)
        return nodes, edges

    def metrics(self, hierarchy: str, level: int) -> dict[str, npt.NDArray[Any]]:
        """Metrics of one level: a row per graph, or a number per shard."""
        self.level_info(hierarchy, level)
        prefix = f"{level}/"
        found = {}
        for name in self.hierarchy(hierarchy).metrics:
            if name.startswith(prefix):
                path = f"/metrics/{level}/{fmt.encode_name(name[len(prefix) :])}"
                parts = [self._hierarchy_part(hierarchy, unit) for unit in range(self.num_shards)]
                pieces = [restore(p.array(path), str(p.info(path).attributes.get("dtype"))) for p in parts]
                found[name[len(prefix) :]] = np.concatenate([np.atleast_1d(piece) for piece in pieces])
        return found

    def failures(self, hierarchy: str) -> list[FailureRecord]:
        """The ledger: graphs that could not be coarsened, by graph."""
        self.hierarchy(hierarchy)
        found: list[FailureRecord] = []
        for unit, record in enumerate(self.manifest.shards[hierarchy]):
            if record.failures:
                found += _read_failures(self._hierarchy_part(hierarchy, unit), record.failures)
        return found

    # Shards -------------------------------------------------------------------------------------

    def _graphs_part(self, unit: int) -> GraphsPart:
        part = self._graphs.get(unit)
        if part is None:
            part = GraphsPart(self.files, self.manifest, unit, self._cache, full=self.check == "full")
            self._graphs[unit] = part
        else:
            part.check_unchanged()
        return part

    def _hierarchy_part(self, name: str, unit: int) -> HierarchyPart:
        part = self._hierarchies.get((name, unit))
        if part is None:
            node_ptr = self._graphs_part(unit).node_ptr
            part = HierarchyPart(
                self.files, self.manifest, name, unit, self._cache, node_ptr, full=self.check == "full"
            )
            self._hierarchies[name, unit] = part
        else:
            part.check_unchanged()
        return part

    # Batches ------------------------------------------------------------------------------------

    def batch_plan(
        self, hierarchy: str | None, levels: Sequence[int], fields: Collection[str] | None = None
    ) -> BatchPlan | None:
        """The quick way to batches of always the same fields and levels; ``None`` where only the general one leads.

        That is so for compressed stores, and for node ids of other types than int64.
        """
        infos = [self.fields[name] for name in (self.fields if fields is None else fields)]
        if self.manifest.spec.profile != "fast" or sys.byteorder != "little":
            return None
        if not all(Layout.supports(info) for info in infos):
            return None
        layout = Layout(infos, [(number, self.level_info(str(hierarchy), number)) for number in levels])
        return BatchPlan(layout, self._bounds, lambda unit: self._unit_arrays(layout, hierarchy, unit))

    def _unit_arrays(self, layout: Layout, hierarchy: str | None, unit: int) -> UnitArrays:
        graphs = self._graphs_part(unit)
        part = self._hierarchy_part(str(hierarchy), unit) if layout.levels else None

        def cut(kind: Any, which: Any) -> npt.NDArray[Any] | None:
            if part is not None and (kind == "edges" or (kind == "step" and which)):
                ptrs = part.edge_ptrs if kind == "edges" else part.node_ptrs
                return ptrs[int(which)]
            if kind == "own":
                return graphs.pin(graphs.ptrs[which]) if graphs.ptrs[which] else None
            return {"step": graphs.node_ptr, "edge": graphs.edge_ptr, "graph": None}[kind]

        def array(kind: Any, which: Any) -> npt.NDArray[Any] | None:
            if kind == "field":
                return graphs.array(GraphsPart.path(which))
            if kind == "batch" or part is None:
                return None
            path = level_paths(kind)[which]
            return part.array(path) if path in part.present else None

        return UnitArrays(
            [cut(*key) for key in layout.cuts],
            [array(*column.key) for column in layout.columns],
            (graphs,) if part is None else (graphs, part),
        )

    def gather_graphs(self, ids: npt.ArrayLike, fields: Collection[str] | None = None) -> GraphTable:
        """Input graphs, in the order of ``ids``, with all or some of their fields (ids local, as stored)."""
        wanted = list(self.fields if fields is None else fields)
        for name in wanted:
            if name not in self.fields:
                raise UnknownNameError("field", name, self.fields)
        selection = locate(self._bounds, ids)
        parts = [self._graphs_part(unit) for unit in selection.units]
        nodes = RowGather(selection, [part.node_ptr for part in parts])
        picks = {("/node_ptr",) * len(parts): nodes}
        taken = {}
        for name in wanted:
            # Fields that are cut by the same offsets share the work of finding their rows.
            paths = tuple(part.ptrs[name] for part in parts)
            if paths not in picks:
                picks[paths] = RowGather(
                    selection, [p.pin(x) if x else None for p, x in zip(parts, paths, strict=True)]
                )
            taken[name] = take_field(self.fields[name], parts, picks[paths], nodes)
        return GraphTable(nodes.ptr, taken)

    def gather_level(
        self, ids: npt.ArrayLike, hierarchy: str, level: int, arrays: Collection[str] | None = None
    ) -> LevelArrays:
        """One level of some graphs, in the order of ``ids``; ``level`` is its position in the schedule."""
        return self.gather_levels(ids, hierarchy, (level,), arrays)[0]

    def gather_levels(
        self,
        ids: npt.ArrayLike,
        hierarchy: str,
        levels: Sequence[int] | None = None,
        arrays: Collection[str] | None = None,
    ) -> list[LevelArrays]:
        """Several levels at once, sharing the work of finding their rows.

        Args:
            ids: graph ids.
            hierarchy: name of the hierarchy.
            levels: positions in the schedule; all if ``None``.
            arrays: optional arrays to read (see :data:`tgp.store.format.constants.LEVEL_ARRAYS`); all if ``None``.
        """
        info = self.hierarchy(hierarchy)
        numbers = range(info.depth) if levels is None else levels
        selection = locate(self._bounds, ids)
        parts = [self._hierarchy_part(hierarchy, unit) for unit in selection.units]
        picks: dict[int, RowGather] = {}

        def nodes(step: int) -> RowGather:
            if step not in picks:
                picks[step] = RowGather(selection, [p.node_ptrs[step] for p in parts])
            return picks[step]

        found = []
        for number in numbers:
            level = self.level_info(hierarchy, number)
            wanted = level.arrays if arrays is None else [a for a in level.arrays if a in arrays]
            found.append(take_level(level, number, parts, nodes(number), nodes(number + 1), wanted))
        return found


def _differences(ptr: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Lengths between offsets. They never fall, so unsigned offsets are safe to subtract."""
    lengths: npt.NDArray[Any] = ptr[1:] - ptr[:-1]
    return lengths


def _read_failures(part: HierarchyPart, count: int) -> list[FailureRecord]:
    part.check_array("/failures/graph", (count,), "iu")
    part.check_array("/failures/level", (count,), "iu")
    text = part.array("/failures/reason")
    ptr = part.ptr("/failures/reason_ptr", count, len(text)).astype(np.int64)
    graphs, levels = part.array("/failures/graph"), part.array("/failures/level")
    return [
        FailureRecord(
            int(graphs[i]), int(levels[i]), text[ptr[i] : ptr[i + 1]].tobytes().decode("utf-8", "replace")
        )
        for i in range(count)
    ]
