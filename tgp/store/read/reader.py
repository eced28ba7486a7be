"""``StoreReader``: read graphs and levels of a store as flat arrays."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError, UnknownNameError
from tgp.ragged import GraphTable, Level
from tgp.store.format import constants as fmt
from tgp.store.format.manifest import Manifest, read_manifest
from tgp.store.format.schema import FailureRecord, FieldInfo, HierarchyInfo, LevelInfo
from tgp.store.io.files import LocalFiles, StoreFiles
from tgp.store.read.batch_layout import Layout, UnitParts
from tgp.store.read.batch_plan import BatchPlan, as_ids
from tgp.store.read.contents import GraphsPart, HierarchyPart, level_field_path
from tgp.store.read.parts import DecodedCache, ManifestWatch, check_size, manifest_version
from tgp.store.read.piece_array import StoredArray
from tgp.store.read.single import count_members, read_failures, read_metric, slice_graph, slice_level

__all__ = ["StoreReader"]

_CACHE_BYTES = 512 << 20

Sizes = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Number of nodes and of edges of every graph."""

Names = Collection[str] | None
"""Names of arrays or fields to read; all if ``None``."""


class StoreReader:
    """Reader of a complete store.

    Opening a store reads the manifest and compares the size of every local file with it. A shard is opened and checked when
    one of its graphs is first needed. The object can be pickled and used after a fork.

    Args:
        path: Directory of the store, or another :class:`~tgp.store.io.files.StoreFiles`.
        check: ``"cheap"`` compares the sizes and the ends of files. ``"full"`` also compares the checksum of a shard
            before libhdf5 reads it. Use it for stores from untrusted sources.
        cache_bytes: Maximum number of bytes of decoded arrays in memory (small profile only).
        in_memory: Keep a copy of every array that is read, instead of mapping or decoding it again.

    Attributes:
        manifest: Content of the store.
        fields: Type and shape of each attribute of the input graphs, by name.

    Raises:
        StoreMissingError: If there is no complete store.
        StoreDamagedError: If the manifest or a file is damaged.
        StoreVersionError: If the store was written in another version of the format.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | StoreFiles,
        *,
        check: Literal["cheap", "full"] = "cheap",
        cache_bytes: int = _CACHE_BYTES,
        in_memory: bool = False,
    ) -> None:
        self.files: StoreFiles = LocalFiles(path) if isinstance(path, (str, os.PathLike)) else path
        self.check = check
        self.cache_bytes = cache_bytes
        self.in_memory = in_memory
        version = manifest_version(self.files)
        self.manifest: Manifest = read_manifest(self.files)
        for record in self.manifest.files:
            check_size(self.files, record)
        self._reset(version)

    def _reset(self, version: tuple[int, int, int] | None = None) -> None:
        """Start without open shards."""
        self._watch = ManifestWatch(self.files, self.manifest, version)
        self.fields: dict[str, FieldInfo] = {info.name: info for info in self.manifest.fields}
        self._bounds = np.asarray(self.manifest.spec.bounds, np.int64)
        self._cache = DecodedCache(self.cache_bytes)
        self._graphs: dict[int, GraphsPart] = {}
        self._hierarchies: dict[tuple[str, int], HierarchyPart] = {}
        self._sizes: dict[tuple[str | None, int], Sizes] = {}
        self._plans: dict[tuple[Any, ...], BatchPlan] = {}
        self._options = {"full": self.check == "full", "in_memory": self.in_memory}

    def load(self) -> StoreReader:
        """Return a reader of the same store that keeps every array that it reads in memory."""
        loaded = StoreReader.__new__(StoreReader)
        loaded.__setstate__(self.__getstate__() | {"in_memory": True})
        return loaded

    def __getstate__(self) -> dict[str, Any]:
        keep = ("files", "check", "cache_bytes", "in_memory", "manifest")
        return {name: getattr(self, name) for name in keep}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def __repr__(self) -> str:
        names = ", ".join(self.hierarchies) or "none"
        return f"StoreReader({self.files.location!r}, graphs={self.num_graphs}, hierarchies: {names})"

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return self.manifest.num_graphs

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return self.manifest.spec.num_units

    @property
    def hierarchies(self) -> dict[str, HierarchyInfo]:
        """Description of each hierarchy, by name."""
        return self.manifest.hierarchies

    def hierarchy(self, name: str) -> HierarchyInfo:
        """Return the description of one hierarchy.

        Raises:
            UnknownNameError: If the store does not contain it. The error suggests the most similar name.
        """
        if name not in self.hierarchies:
            raise UnknownNameError("hierarchy", name, self.hierarchies)
        return self.hierarchies[name]

    def field_info(self, name: str) -> FieldInfo:
        """Return the description of one field of the input graphs.

        Raises:
            UnknownNameError: If the store does not contain it.
        """
        if name not in self.fields:
            raise UnknownNameError("field", name, self.fields)
        return self.fields[name]

    def level_info(self, hierarchy: str, level: int) -> LevelInfo:
        """Return the description of one level.

        Args:
            hierarchy: Name of the hierarchy.
            level: Position in the schedule, from 0. ``InputError`` is raised if there is no such level.
        """
        info = self.hierarchy(hierarchy)
        if not 0 <= level < info.depth:
            raise InputError(
                f"hierarchy {hierarchy!r} has no level {level + 1}: expected a level from 1 to {info.depth}",
                field="level",
            )
        return info.levels[level]

    def num_bytes(self, part: str = fmt.GRAPHS) -> tuple[int, ...]:
        """Return the number of bytes of the arrays of each level before compression; one entry for ``"graphs"``."""
        if part != fmt.GRAPHS:
            self.hierarchy(part)
        return tuple(sum(level) for level in zip(*(s.bytes for s in self.manifest.shards[part]), strict=True))

    def file_bytes(self, part: str = fmt.GRAPHS) -> int:
        """Return the number of bytes on disk of the input graphs or of one hierarchy."""
        self.num_bytes(part)  # checks the name
        return sum(s.total_size for s in self.manifest.shards[part])

    def sizes(self, hierarchy: str | None = None, level: int = 0) -> Sizes:
        """Return the number of nodes and of edges of every graph at a level.

        Args:
            hierarchy: Name of the hierarchy; not needed for level 0.
            level: 0 for the input graphs, 1 for the first pooled graphs, and so on.

        Raises:
            InputError: If the hierarchy has no such level.
        """
        if level and hierarchy is None:
            raise InputError(f"level {level} needs the name of a hierarchy, got None", field="hierarchy")
        if level:
            self.level_info(str(hierarchy), level - 1)
        key = (hierarchy, level) if level else (None, 0)
        if key not in self._sizes:
            self._sizes[key] = self._read_sizes(*key)
        return self._sizes[key]

    def _read_sizes(self, hierarchy: str | None, level: int) -> Sizes:
        nodes = np.zeros(self.num_graphs, np.int64)
        edges = np.zeros(self.num_graphs, np.int64)
        for unit, (low, high) in enumerate(pairwise(self.manifest.spec.bounds)):
            if hierarchy is None:
                graphs = self._graphs_part(unit)
                node_ptr, edge_ptr = graphs.node_ptr, graphs.edge_ptr
            else:
                part = self._hierarchy_part(hierarchy, unit)
                node_ptr, edge_ptr = part.node_ptrs[level], part.edge_ptrs[level - 1]
            # Offsets never decrease, so unsigned ones can be subtracted.
            nodes[low:high] = np.diff(node_ptr)
            if edge_ptr is not None:
                edges[low:high] = np.diff(edge_ptr)
        return nodes, edges

    def metrics(
        self, hierarchy: str, level: int, names: Names = None, shard: int | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the metrics of a level (a position from 0), or some of them: one value per graph, or one per shard."""
        self.level_info(hierarchy, level)
        prefix = f"{level}/"
        stored = [n for n in self.hierarchy(hierarchy).metrics if n.startswith(prefix)]
        chosen = [n for n in stored if names is None or n.removeprefix(prefix) in names]
        units = range(self.num_shards) if shard is None else [shard]
        parts = [self._hierarchy_part(hierarchy, unit) for unit in units] if chosen else []
        return {name.removeprefix(prefix): read_metric(parts, name) for name in chosen}

    def failures(self, hierarchy: str, most: int | None = None) -> list[FailureRecord]:
        """Return a record of each graph that could not be coarsened; only of the first ``most`` graphs if given."""
        self.hierarchy(hierarchy)
        found: list[FailureRecord] = []
        for unit, record in enumerate(self.manifest.shards[hierarchy]):
            if record.failures and (most is None or len(found) < most):
                found += read_failures(self._hierarchy_part(hierarchy, unit), record.failures)
        return found[:most]

    def field_values(self, name: str, shard: int) -> StoredArray:
        """Return the stored values of a field of all graphs of a shard. The type may be narrower than the original."""
        part = self._graphs_part(shard)
        return part.stored(part.path(self.field_info(name).name))

    def level_field_values(self, hierarchy: str, level: int, name: str) -> list[npt.NDArray[Any]]:
        """Return the stored values of a field of a level (a position from 0) in each shard that contains it."""
        path = level_field_path(level, name)
        parts = [self._hierarchy_part(hierarchy, unit) for unit in range(self.num_shards)]
        return [part.array(path) for part in parts if path in part.present]

    def _graphs_part(self, unit: int) -> GraphsPart:
        part = self._graphs.get(unit)
        if part is None:
            part = GraphsPart(self.files, self.manifest, unit, self._cache, **self._options)
            self._watch.check(fmt.GRAPHS, unit)
            self._graphs[unit] = part
        else:
            part.check_unchanged()
        return part

    def _hierarchy_part(self, name: str, unit: int) -> HierarchyPart:
        part = self._hierarchies.get((name, unit))
        if part is None:
            node_ptr = self._graphs_part(unit).node_ptr
            part = HierarchyPart(
                self.files, self.manifest, name, unit, self._cache, node_ptr, **self._options
            )
            self._watch.check(name, unit)
            self._hierarchies[name, unit] = part
        else:
            part.check_unchanged()
        return part

    def batch_plan(
        self,
        hierarchy: str | None,
        levels: Sequence[int],
        fields: Names = None,
        *,
        arrays: Names = None,
        level_fields: Names = None,
        local: bool = False,
    ) -> BatchPlan:
        """Return a compiled gather plan for a fixed set of fields and levels. Plans are cached.

        Args:
            hierarchy: Name of the hierarchy, or ``None`` if no levels are read.
            levels: Positions of the levels in the schedule, ascending.
            fields: Fields of the input graphs; all if ``None``.
            arrays: Optional arrays of the levels, see :data:`tgp.store.format.constants.LEVEL_ARRAYS`; all if ``None``.
            level_fields: Attributes of the levels; all if ``None``. A level without one of them is read without it.
            local: Keep node ids of fields local to their graph, and do not compute the graph of each node.

        Raises:
            UnknownNameError: If the store does not contain the hierarchy or a field.
        """
        names = tuple(self.fields if fields is None else fields)
        positions = tuple(levels)
        wanted = [None if some is None else tuple(some) for some in (arrays, level_fields)]
        key = (hierarchy, positions, names, *wanted, local)
        plan = self._plans.get(key)
        if plan is None:
            infos = [self.field_info(name) for name in names]
            stored = [self.level_info(str(hierarchy), level) for level in positions]
            chosen = [(n, level.restricted_to(*wanted)) for n, level in zip(positions, stored, strict=True)]
            layout = Layout(infos, chosen, local=local)
            plan = self._plans[key] = BatchPlan(
                layout,
                self._bounds,
                lambda units: self._open_units(hierarchy if layout.levels else None, units),
                # Decoded arrays belong to the cache, which limits their memory. Arrays of several files are copied.
                keep_arrays=self.in_memory or self.manifest.spec.is_mapped,
            )
        return plan

    def _open_units(self, name: str | None, units: Sequence[int]) -> list[UnitParts]:
        parts = [self.manifest.shards[part] for part in (fmt.GRAPHS, name) if part is not None]
        self.files.fetch([file.file for unit in units for records in parts for file in records[unit].files])
        levels = [None if name is None else self._hierarchy_part(name, unit) for unit in units]
        return [UnitParts(self._graphs_part(unit), part) for unit, part in zip(units, levels, strict=True)]

    def gather_graphs(self, ids: npt.ArrayLike, fields: Names = None) -> GraphTable:
        """Return input graphs in the order of ``ids``. Node ids are local to each graph.

        Args:
            ids: Graph ids, repeated or not.
            fields: Fields to read; all if ``None``.

        Raises:
            InputError: If an id is out of range.
            UnknownNameError: If the store does not contain a field.
            StoreDamagedError: If a shard is damaged.
        """
        found = self.batch_plan(None, (), fields, local=True).gather(ids)
        return GraphTable(found.node_ptr, found.fields)

    def gather_level(self, ids: npt.ArrayLike, hierarchy: str, level: int, arrays: Names = None) -> Level:
        """Return one level of the given graphs with all of its attributes; see :meth:`gather_levels`."""
        return self.gather_levels(ids, hierarchy, (level,), arrays)[0]

    def gather_levels(
        self,
        ids: npt.ArrayLike,
        hierarchy: str,
        levels: Sequence[int] | None = None,
        arrays: Names = None,
        fields: Names = None,
    ) -> list[Level]:
        """Return levels of the given graphs, in the order of ``ids``. Ids count through the batch.

        Args:
            ids: Graph ids, repeated or not.
            hierarchy: Name of the hierarchy.
            levels: Positions in the schedule, from 0; all if ``None``.
            arrays: Optional arrays to read (see :data:`tgp.store.format.constants.LEVEL_ARRAYS`); all if ``None``.
            fields: Attributes of the levels to read; all if ``None``.

        Raises:
            InputError: If an id or a level is out of range.
            StoreDamagedError: If a shard is damaged.
        """
        numbers = range(self.hierarchy(hierarchy).depth) if levels is None else levels
        plan = self.batch_plan(hierarchy, numbers, (), arrays=arrays, level_fields=fields, local=True)
        return plan.gather(ids).levels

    def read_graph(self, graph: int, fields: Names = None) -> GraphTable:
        """Return one input graph. This needs no kernels, unlike :meth:`gather_graphs`.

        Args:
            graph: Graph id. ``InputError`` is raised if it is out of range.
            fields: Fields to read; all if ``None``.
        """
        infos = [self.field_info(name) for name in (self.fields if fields is None else fields)]
        unit, row = self._locate(graph)
        return slice_graph(self._graphs_part(unit), infos, row)

    def read_levels(
        self, graph: int, hierarchy: str, arrays: Names = None, fields: Names = None
    ) -> list[Level]:
        """Return all levels of one graph. This needs no kernels, unlike :meth:`gather_levels`.

        Args:
            graph: Graph id. ``InputError`` is raised if it is out of range.
            hierarchy: Name of the hierarchy.
            arrays: Optional arrays to read; all if ``None``.
            fields: Attributes of the levels to read; all if ``None``.
        """
        levels = [info.restricted_to(arrays, fields) for info in self.hierarchy(hierarchy).levels]
        unit, row = self._locate(graph)
        part = self._hierarchy_part(hierarchy, unit)
        return [slice_level(part, n, info, row) for n, info in enumerate(levels)]

    def cluster_sizes(self, hierarchy: str, level: int, ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the number of nodes of every supernode of the given graphs.

        Args:
            hierarchy: Name of the hierarchy.
            level: Position in the schedule, from 0.
            ids: Graph ids, ascending.
        """
        self.level_info(hierarchy, level)
        wanted = as_ids(ids, self.num_graphs)
        cuts = np.searchsorted(wanted, self._bounds).tolist()
        sizes = [np.zeros(0, np.int64)]
        for unit, (low, high) in enumerate(pairwise(cuts)):
            if high > low:
                part = self._hierarchy_part(hierarchy, unit)
                sizes.append(count_members(part, level, wanted[low:high] - self._bounds[unit]))
        return np.concatenate(sizes)

    def _locate(self, graph: int) -> tuple[int, int]:
        """Return the shard of a graph and its position in the shard."""
        wanted = int(as_ids([graph], self.num_graphs)[0])
        unit = int(np.searchsorted(self._bounds, wanted, side="right")) - 1
        return unit, wanted - int(self._bounds[unit])
