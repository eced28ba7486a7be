"""Open shard files, check them, and read their arrays.

In the fast profile, a file is mapped once and its arrays are views of the map. In the small profile, an array is decoded
on first use and kept in a cache of bounded size. No HDF5 handle stays open after a call, so a forked process shares no
state of libhdf5 with its parent.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np

from tgp.errors import StoreDamagedError, StoreMissingError
from tgp.kernels.array_types import Array
from tgp.store.format import constants as fmt
from tgp.store.format.manifest import Manifest, read_manifest
from tgp.store.format.pieces import FileRecord
from tgp.store.io.chunks import decode_array
from tgp.store.io.files import LocalFiles, StoreFiles, ends_digest, file_digest
from tgp.store.io.guard import ArrayInfo, check_ptr, inspect_file

__all__ = ["DecodedCache", "ManifestWatch", "OpenPart", "check_size", "manifest_version"]


class DecodedCache:
    """Least-recently-used cache of decoded arrays of the small profile.

    Args:
        limit: Maximum number of bytes. One array is always kept, even if it is larger.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._arrays: OrderedDict[tuple[str, str], Array] = OrderedDict()

    def get(self, key: tuple[str, str]) -> Array | None:
        """Return the array of a (file, path) pair, or ``None`` if it is not in the cache."""
        found = self._arrays.pop(key, None)
        if found is not None:
            self._arrays[key] = found
        return found

    def put(self, key: tuple[str, str], array: Array) -> None:
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


def check_size(files: StoreFiles, record: FileRecord) -> None:
    """Check that a file has the size that the manifest records, and raise ``StoreDamagedError`` if not."""
    size = files.size(record.file)
    if size != record.size:
        files.drop(record.file)
        raise StoreDamagedError(
            f"{files.location}/{record.file} is incomplete: expected {record.size:,} bytes, got {size:,}",
            path=f"{files.location}/{record.file}",
            item=record.file,
            hint="Run the same `tgp coarsen` command again: it rebuilds incomplete shards.",
        )


def manifest_version(files: StoreFiles) -> tuple[int, int, int] | None:
    """Return numbers that change when the manifest of a local store is replaced, or ``None`` if there is none."""
    with contextlib.suppress(StoreMissingError):
        return files.version(fmt.MANIFEST) if isinstance(files, LocalFiles) else None
    return None


class ManifestWatch:
    """Detect that a store is rebuilt while it is read.

    A rebuilt shard can have the same size and the same ends as the old one. Rebuilding deletes or replaces the manifest
    first, so it is enough to look at the manifest after a shard was opened.

    Args:
        files: Files of the store.
        manifest: Manifest that the reader uses.
        version: Version of its file before it was read, or ``None`` if that is not known.
    """

    def __init__(self, files: StoreFiles, manifest: Manifest, version: tuple[int, int, int] | None) -> None:
        self._files, self._manifest = files, manifest
        self._current, self._version = manifest, version

    def check(self, part: str, unit: int) -> None:
        """Check that the current manifest records the same file of a part as the manifest of the reader.

        Raises:
            StoreDamagedError: If it does not, or if there is no manifest any more.
        """
        if not isinstance(self._files, LocalFiles):  # downloads are compared with their checksums
            return
        record = self._manifest.shards[part][unit]
        try:
            version = manifest_version(self._files)
            if version is None or version != self._version:
                self._current, self._version = read_manifest(self._files), version
            found = self._current.shards.get(part, ())[unit : unit + 1]
        except StoreMissingError:
            found = ()
        if found != (record,):
            name = f"{self._files.location}/{record.file}"
            raise StoreDamagedError(
                f"{name} does not belong to the store that was opened: the store is being rebuilt",
                path=name,
                item=record.file,
                hint="Open the store again when the other process has finished.",
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
        record: FileRecord,
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
        self._views: dict[str, Array] = {}
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
        self._declared: set[str] = set()
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

    def check_ids(self, path: str, ids: Array, low: int, size: int) -> None:
        """Check ids of an array that were read: they must be in ``[low, size)``."""
        if ids.size and (int(ids.min()) < low or int(ids.max()) >= size):
            raise self.damaged(path, "holds an id outside its graph")

    def info(self, path: str) -> ArrayInfo:
        """Return the description of an array that the file must contain."""
        try:
            return self.arrays[path]
        except KeyError:
            raise self.damaged(path, "is missing") from None

    def array(self, path: str) -> Array:
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

    def _decoded(self, info: ArrayInfo) -> Array:
        key = (self.record.file, info.path)
        found = self.cache.get(key)
        if found is None:
            try:
                with self.files.open(self.record.file) as raw, self._hdf5(raw) as file:
                    found = decode_array(file[info.path])
            except StoreDamagedError:
                raise
            except (OSError, RuntimeError, KeyError, TypeError, ValueError, MemoryError) as error:
                raise self.damaged(info.path, f"cannot be decoded: {error}") from error
            if found.shape != info.shape or found.dtype != info.dtype:
                raise self.damaged(info.path, "has changed since the file was opened")
            found.flags.writeable = False
            if not self.in_memory:
                self.cache.put(key, found)
        return found

    def pin(self, path: str) -> Array:
        """Return an array and keep it as long as the part exists. Use it for offsets."""
        found = self.array(path)
        self._views[path] = found
        return found

    def ptr(self, path: str, count: int, total: int) -> Array:
        """Return offsets after checking them, and keep them.

        Args:
            path: Path of the offsets.
            count: Number of graphs.
            total: Number of rows that the offsets delimit.
        """
        info = self.info(path)
        if info.shape != (count + 1,) or info.dtype.kind != "u":
            raise self.damaged(
                path,
                f"must hold {count + 1} offsets of an unsigned type, got shape {list(info.shape)} of {info.dtype.str}",
            )
        self._declared.add(path)
        view = self.pin(path)
        check_ptr(view, count, total, self.name, path)
        return view

    def check_header(self, expected: dict[str, str | int], count: int) -> int:
        """Check the attributes of the root group, and return the number of graphs."""
        header: dict[str, str | int] = {"format": fmt.FORMAT, "version": fmt.VERSION, "num_graphs": count}
        self.check_attributes("", self.groups[""], {**header, **expected})
        return count

    def check_attributes(
        self, path: str, found: Mapping[str, str | int], expected: Mapping[str, str | int]
    ) -> None:
        """Check the values of the attributes of a group or array."""
        for key, value in expected.items():
            if found.get(key) != value:
                raise self.damaged(f"{path}@{key}", f"must be {value!r}, got {found.get(key)!r}")

    def check_array(self, path: str, shape: tuple[int, ...], types: frozenset[str], dtype: str) -> None:
        """Check the shape, the stored type and the original type of an array.

        Args:
            path: Path of the array.
            shape: Its shape.
            types: Valid stored types.
            dtype: Name of its original type.
        """
        info = self.info(path)
        if info.shape != shape or info.dtype.str not in types:
            raise self.damaged(
                path,
                f"must have shape {list(shape)} and one of the types {', '.join(sorted(types))}, "
                f"got shape {list(info.shape)} of {info.dtype.str}",
            )
        self.check_attributes(path, info.attributes, {"dtype": dtype})
        self._declared.add(path)

    def check_bytes(self, prefix: str, expected: int) -> None:
        """Check that all arrays below a path have the size that the manifest records."""
        found = sum(info.nbytes for path, info in self.arrays.items() if path.startswith(prefix))
        if found != expected:
            raise self.damaged(prefix, f"must hold {expected} bytes of arrays, got {found}")

    def check_rows(self, path: str, rows: int) -> None:
        """Check a number of rows that no array may store, see :func:`tgp.store.format.constants.max_rows`."""
        stored = sum(info.nbytes for info in self.arrays.values())
        if rows > fmt.max_rows(stored):
            raise self.damaged(
                path,
                f"declares too many rows for its {stored} bytes: expected at most {fmt.max_rows(stored)}, got {rows}",
            )

    def forget_undeclared_arrays(self) -> None:
        """Remove arrays that were not checked. A later minor version of the format may add arrays."""
        self.arrays = {path: self.arrays[path] for path in sorted(self._declared)}
