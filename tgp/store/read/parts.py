"""Open shard files, check them, and read their arrays.

In the fast profile, a file is mapped once and its arrays are views of the map. In the small profile, an array is decoded
on first use and kept in a cache of bounded size. No HDF5 handle stays open after a call, so a forked process shares no
state of libhdf5 with its parent.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from functools import cache
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from tgp.errors import StoreDamagedError
from tgp.store.format import constants as fmt
from tgp.store.format.manifest import Manifest
from tgp.store.format.schema import FieldInfo, LevelInfo, ShardRecord
from tgp.store.io.files import StoreFiles, ends_digest, file_digest
from tgp.store.io.guard import ArrayInfo, check_ptr, inspect_file

__all__ = ["DecodedCache", "GraphsPart", "HierarchyPart", "OpenPart", "check_size", "level_paths"]


class DecodedCache:
    """Least-recently-used cache of decoded arrays of the small profile.

    Args:
        limit: Maximum number of bytes. One array is always kept, even if it is larger.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._arrays: OrderedDict[tuple[str, str], npt.NDArray[Any]] = OrderedDict()

    def get(self, key: tuple[str, str]) -> npt.NDArray[Any] | None:
        """Return the array of a (file, path) pair, or ``None`` if it is not in the cache."""
        found = self._arrays.pop(key, None)
        if found is not None:
            self._arrays[key] = found
        return found

    def put(self, key: tuple[str, str], array: npt.NDArray[Any]) -> None:
        """Add an array and drop the least recently used ones."""
        # There is no lock: after a fork it could be held by a thread that does not exist in the child. If two threads
        # decode the same array, the second result replaces the first.
        self._arrays[key] = array
        while self.used > self.limit and len(self._arrays) > 1:
            with contextlib.suppress(KeyError):
                self._arrays.popitem(last=False)

    @property
    def used(self) -> int:
        """Number of bytes in the cache."""
        return sum(array.nbytes for array in list(self._arrays.values()))


def check_size(files: StoreFiles, record: ShardRecord) -> None:
    """Check that a file has the size that the manifest records, and raise ``StoreDamagedError`` if not."""
    size = files.size(record.file)
    if size != record.size:
        files.drop(record.file)
        raise StoreDamagedError(
            f"{files.location}/{record.file} is incomplete: expected {record.size} bytes, got {size}",
            path=f"{files.location}/{record.file}",
            item=record.file,
            hint="Run the same `tgp coarsen` command again: it rebuilds incomplete shards.",
        )


def _stamp(path: str) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_size, found.st_ino, found.st_mtime_ns


class OpenPart:
    """One shard file that passed all checks of its structure.

    Args:
        files: Files of the store.
        record: Entry of the file in the manifest.
        cache: Cache for decoded arrays.
        full: Compare the checksum of the whole file, not only that of its ends.
        in_memory: Keep a copy of every array that is read, instead of mapping or decoding it again.

    Raises:
        StoreDamagedError: If the file is damaged.
    """

    def __init__(
        self,
        files: StoreFiles,
        record: ShardRecord,
        cache: DecodedCache,
        *,
        full: bool = False,
        in_memory: bool = False,
    ) -> None:
        self.files = files
        self.record = record
        self.cache = cache
        self.in_memory = in_memory
        self.name = f"{files.location}/{record.file}"
        self._views: dict[str, npt.NDArray[Any]] = {}
        check_size(files, record)
        with files.open(record.file) as raw:
            if ends_digest(raw, record.size) != record.ends:
                files.drop(record.file)
                raise self.damaged(
                    "/", "was modified: its first or last bytes do not match the checksum in the manifest"
                )
            if full and file_digest(raw) != record.sha256:
                files.drop(record.file)
                raise self.damaged("/", "was modified: its bytes do not match the checksum in the manifest")
            with self._hdf5(raw) as file:
                inspector = inspect_file(file, self.name, record.size)
        self.arrays: dict[str, ArrayInfo] = inspector.arrays
        self.groups = inspector.groups
        self._path = files.path_of(record.file)
        self._stamp = None if self._path is None else _stamp(self._path)
        mapped = any(info.offset is not None and info.nbytes for info in self.arrays.values())
        self._bytes = files.map(record.file) if mapped else np.empty(0, np.uint8)

    def check_unchanged(self) -> None:
        """Check that the mapped file has not been truncated, replaced or written to since it was opened.

        Reading mapped bytes that a file no longer has would kill the process (SIGBUS). A change between this check and
        the following read is not detected. A file that a second writer of the same store replaced by the same bytes
        counts as unchanged. Arrays in memory cannot change.

        Raises:
            StoreDamagedError: If the file has changed.
        """
        if not self.in_memory:
            self._check_file_unchanged()

    def _check_file_unchanged(self) -> None:
        if self._path is None or self._stamp is None:
            return
        try:
            found = _stamp(self._path)
            same = found == self._stamp or (found[1] != self._stamp[1] and self._has_recorded_bytes())
        except OSError:
            same = False
        if not same:
            raise self.damaged("/", "was removed, replaced or truncated while the store was being read")
        self._stamp = found

    def _has_recorded_bytes(self) -> bool:
        """Return True if the file on disk has the size and the ends that the manifest records."""
        with self.files.open(self.record.file) as raw:
            size = raw.seek(0, os.SEEK_END)
            return size == self.record.size and ends_digest(raw, size) == self.record.ends

    def _hdf5(self, raw: Any) -> h5py.File:
        try:
            return h5py.File(raw, "r")
        except (OSError, RuntimeError, ValueError) as error:
            raise self.damaged("/", f"is not a valid HDF5 file: {error}") from error

    def damaged(self, item: str, why: str) -> StoreDamagedError:
        """Return the error that names this file and one of its items."""
        where = "" if item == "/" else f": {item}"
        return StoreDamagedError(f"{self.name}{where} {why}", path=self.name, item=item)

    def info(self, path: str) -> ArrayInfo:
        """Return the description of an array that the file must contain."""
        try:
            return self.arrays[path]
        except KeyError:
            raise self.damaged(path, "is missing") from None

    def array(self, path: str) -> npt.NDArray[Any]:
        """Return an array as it is stored: read-only, in the smallest type that holds its values."""
        found = self._views.get(path)
        if found is not None:
            return found
        info = self.info(path)
        if self.in_memory:
            self._check_file_unchanged()
        if info.offset is None:
            found = self._decoded(info)
        else:
            flat = self._bytes[info.offset : info.offset + info.nbytes]
            found = flat.view(info.dtype).reshape(info.shape)
            if self.in_memory:
                found = found.copy()
                found.flags.writeable = False
        if self.in_memory or info.offset is not None:
            self._views[path] = found
        return found

    def _decoded(self, info: ArrayInfo) -> npt.NDArray[Any]:
        key = (self.record.file, info.path)
        found = self.cache.get(key)
        if found is None:
            found = np.empty(info.shape, info.dtype)
            try:
                with self.files.open(self.record.file) as raw, self._hdf5(raw) as file:
                    file[info.path].read_direct(found)
            except (OSError, RuntimeError, KeyError) as error:
                raise self.damaged(info.path, f"cannot be decoded: {error}") from error
            found.flags.writeable = False
            if not self.in_memory:
                self.cache.put(key, found)
        return found

    def pin(self, path: str) -> npt.NDArray[Any]:
        """Return an array and keep it as long as the part exists. Use it for offsets."""
        found = self.array(path)
        self._views[path] = found
        return found

    def ptr(self, path: str, count: int, total: int) -> npt.NDArray[Any]:
        """Return offsets after checking them, and keep them.

        Args:
            path: Path of the offsets.
            count: Number of graphs.
            total: Number of rows that the offsets delimit.
        """
        if self.info(path).shape != (count + 1,):
            raise self.damaged(
                path, f"must hold {count + 1} offsets, got shape {list(self.info(path).shape)}"
            )
        view = self.pin(path)
        check_ptr(view, count, total, self.name, path)
        return view

    def check_header(self, part: str, unit: int, bounds: tuple[int, ...], profile: str) -> int:
        """Check the attributes of the root group, and return the number of graphs."""
        count = bounds[unit + 1] - bounds[unit]
        expected = {
            "format": fmt.FORMAT,
            "version": fmt.VERSION,
            "profile": profile,
            "part": part,
            "unit": unit,
            "first_graph": bounds[unit],
            "num_graphs": count,
        }
        for key, value in expected.items():
            if self.groups[""].get(key) != value:
                raise self.damaged(f"@{key}", f"must be {value!r}, got {self.groups[''].get(key)!r}")
        return count

    def check_array(
        self, path: str, shape: tuple[int, ...], kinds: str, dtype: str | None = None
    ) -> ArrayInfo:
        """Check shape, kind of type, and (if given) original type of an array, and return its description."""
        info = self.info(path)
        if info.shape != shape or info.dtype.kind not in kinds:
            raise self.damaged(
                path, f"must have shape {list(shape)} (kind {kinds}), got {list(info.shape)} {info.dtype}"
            )
        if dtype is not None and info.attributes.get("dtype") != dtype:
            raise self.damaged(f"{path}@dtype", f"must be {dtype!r}, got {info.attributes.get('dtype')!r}")
        return info


_STORED_KINDS = {"b": "u", "i": "iu", "u": "u", "f": "f", "c": "f"}


class GraphsPart(OpenPart):
    """File with the input graphs of a shard.

    Attributes:
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
        self.count = self.check_header(fmt.GRAPHS, unit, spec.bounds, spec.profile)
        self.node_ptr = self.ptr("/node_ptr", self.count, self.record.nodes[0])
        self.edge_ptr = None
        if "/edge_ptr" in self.arrays:
            self.edge_ptr = self.ptr("/edge_ptr", self.count, self.record.edges[0])
        self.ptrs = {info.name: self._check_field(info) for info in manifest.fields}

    def _check_field(self, info: FieldInfo) -> str:
        """Check one field, and return the path of its offsets or ``""`` for one row per graph."""
        path = self.path(info.name)
        attributes = self.info(path).attributes
        expected = {"axis": info.axis, "form": info.form, "shifted": int(info.shifted)}
        for key, value in expected.items():
            if attributes.get(key) != value:
                raise self.damaged(f"{path}@{key}", f"must be {value!r}, got {attributes.get(key)!r}")
        kind = attributes.get("ptr")
        own = f"/ptr/{fmt.encode_name(info.name)}"
        if kind not in fmt.PTRS or (kind == "edge" and self.edge_ptr is None):
            raise self.damaged(f"{path}@ptr", f"must name offsets that the file contains, got {kind!r}")
        total = {"node": self.record.nodes[0], "edge": self.record.edges[0], "graph": self.count}.get(
            str(kind)
        )
        if total is None:
            shape = self.info(path).shape
            total = shape[0 if info.axis == 0 else len(info.tail)] if len(shape) > len(info.tail) else -1
            self.ptr(own, self.count, total)
        shape = (total, *info.tail) if info.axis == 0 else (*info.tail, total)
        complex_axis = (2,) if info.dtype.startswith("complex") else ()
        self.check_array(path, shape + complex_axis, _STORED_KINDS[np.dtype(info.dtype).kind], info.dtype)
        return {"node": "/node_ptr", "edge": "/edge_ptr", "graph": ""}.get(str(kind), own)

    @staticmethod
    @cache
    def path(field: str) -> str:
        """Return the path of the values of a field."""
        return f"/fields/{fmt.encode_name(field)}"


class HierarchyPart(OpenPart):
    """File with one hierarchy over the graphs of a shard.

    Attributes:
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
        node_ptr: npt.NDArray[Any],
        *,
        full: bool = False,
        in_memory: bool = False,
    ) -> None:
        super().__init__(files, manifest.shards[name][unit], cache, full=full, in_memory=in_memory)
        spec = manifest.spec
        self.count = self.check_header(name, unit, spec.bounds, spec.profile)
        self.node_ptrs = [self.ptr("/node_ptr", self.count, manifest.shards[fmt.GRAPHS][unit].nodes[0])]
        if not np.array_equal(self.node_ptrs[0], node_ptr):
            raise self.damaged("/node_ptr", "must equal the offsets of the input graphs")
        self.edge_ptrs: list[npt.NDArray[Any]] = []
        self.present: set[str] = set()
        for number, level in enumerate(manifest.hierarchies[name].levels):
            nodes, edges = self.record.nodes[number], self.record.edges[number]
            base = f"/levels/{number}"
            self.node_ptrs.append(self.ptr(f"{base}/super_ptr", self.count, nodes))
            self.edge_ptrs.append(self.ptr(f"{base}/edge_ptr", self.count, edges))
            self.check_array(f"{base}/edge_index", (2, edges), "iu")
            self.present.add(f"{base}/edge_index")
            self._check_level(number, level, nodes, edges)

    def _check_level(self, number: int, level: LevelInfo, nodes: int, edges: int) -> None:
        base, before = f"/levels/{number}", int(self.node_ptrs[-2][-1])
        shapes: dict[str, tuple[tuple[int, ...], str]] = {
            "edge_weight": ((edges,), "f"),
            "cluster": ((before,), "iu"),
            "weight": ((before,), "f"),
            "soft": ((before, level.width or 0), "f"),
            "theta": ((before, level.modes or 0), "f"),
            "representative": ((nodes,), "iu"),
        }
        for array in level.arrays:
            path = f"{base}/{array}"
            shape, kinds = shapes[array]
            # Absent weights are ones. A shard without supernodes may be of another kind.
            optional = array in ("edge_weight", "weight") or not nodes
            fits = path in self.arrays and (nodes or self.arrays[path].shape == shape)
            if fits or not optional:
                self.check_array(path, shape, kinds)
                self.present.add(path)
        if level.kind != "hard":
            sizes = np.diff(self.node_ptrs[-1].astype(np.int64))
            # A graph that failed has no supernodes.
            if ((sizes != level.width) & (sizes != 0)).any():
                raise self.damaged(
                    f"{base}/super_ptr", f"must give every graph {level.width} supernodes or none"
                )


@cache
def level_paths(number: int) -> dict[str, str]:
    """Return the path of each array of a level."""
    return {name: f"/levels/{number}/{name}" for name in ("edge_index", *fmt.LEVEL_ARRAYS)}
