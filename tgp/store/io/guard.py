"""Check untrusted HDF5 files before any of their arrays is used.

When a shard is opened, this module checks the kinds of links, types, layouts, filters, the declared sizes against the
size of the file, and all offsets. The cost depends only on the number of datasets and graphs. Ids are checked when they
are gathered (:mod:`tgp.store.read`), or all at once by :mod:`tgp.store.verify`.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from tgp.errors import StoreDamagedError
from tgp.kernels.array_types import Array
from tgp.store.format import constants as fmt
from tgp.store.io.chunks import PIPELINE, decode_array
from tgp.text import inert_text

__all__ = ["ArrayInfo", "Inspector", "check_ptr", "hdf5_version", "inspect_file", "read_arrays"]

_HDF5_ERRORS = (RuntimeError, OSError, TypeError, ValueError, KeyError, OverflowError, MemoryError)
"""Errors with which h5py reports an invalid file."""

_NUMBERS = frozenset({h5py.h5t.INTEGER, h5py.h5t.FLOAT})


def hdf5_version() -> str:
    """Return the version of the HDF5 library that h5py uses."""
    return str(h5py.version.hdf5_version)


@dataclass(frozen=True)
class ArrayInfo:
    """Dataset that passed the checks.

    Args:
        path: Path in the HDF5 file.
        dtype: Stored type.
        shape: Shape.
        offset: Position of its bytes in the file, or ``None`` if it is compressed.
        attributes: Attributes of the dataset.
    """

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int | None
    attributes: dict[str, str | int]

    @property
    def nbytes(self) -> int:
        """Size of the decoded array in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


class Inspector:
    """Visitor that checks the objects of one open file and collects its datasets and attributes.

    Args:
        name: Name of the file, for messages.
        size: Size of the file in bytes.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.arrays: dict[str, ArrayInfo] = {}
        self.groups: dict[str, dict[str, str | int]] = {}
        self.plain_bytes = 0
        self.compressed_bytes = 0

    def refuse(self, item: str, why: str) -> StoreDamagedError:
        """Return the error for an object that breaks a rule of the format."""
        return StoreDamagedError(
            f"{self.name}: {inert_text(item) or '/'} {why}", path=self.name, item=item or "/"
        )

    def walk(self, group: Any, prefix: str, depth: int) -> None:
        """Check a group and everything in it."""
        self.groups[prefix] = self.attributes(group, prefix)
        h5py.h5o.get_info(group)  # also reads the index of creation order, which the iteration does not need
        links = group.links
        for raw in group:
            path = f"{prefix}/{raw.decode('utf-8', 'replace')}"
            if len(self.arrays) + len(self.groups) >= fmt.MAX_OBJECTS:
                raise self.refuse(
                    path, f"is one object too many: expected at most {fmt.MAX_OBJECTS} in a file"
                )
            if links.get_info(raw).type != h5py.h5l.TYPE_HARD:
                raise self.refuse(path, "is a soft or external link; only data inside the file is read")
            found = h5py.h5o.open(group, raw)
            if isinstance(found, h5py.h5d.DatasetID):
                self.arrays[path] = self.dataset(found, path)
            elif isinstance(found, h5py.h5g.GroupID):
                if depth >= fmt.MAX_GROUP_DEPTH:
                    raise self.refuse(path, f"nests deeper than {fmt.MAX_GROUP_DEPTH} groups")
                self.walk(found, path, depth + 1)
            else:
                raise self.refuse(path, "is neither an array nor a group")

    def dataset(self, dataset: Any, path: str) -> ArrayInfo:
        """Check the type, shape and storage of a dataset."""
        kind = dataset.get_type()
        if kind.get_class() not in _NUMBERS or kind.get_size() > 8:
            raise self.refuse(path, "must hold plain numbers of at most 8 bytes")
        dtype = kind.dtype
        if dtype.str not in fmt.STORED_DTYPES:
            raise self.refuse(
                path,
                f"has a wrong type: expected one of {', '.join(sorted(fmt.STORED_DTYPES))}, got {dtype.str}",
            )
        space = dataset.get_space()
        if space.get_simple_extent_type() == h5py.h5s.NULL or space.get_simple_extent_ndims() > fmt.MAX_NDIM:
            raise self.refuse(path, f"must be an array of at most {fmt.MAX_NDIM} dimensions")
        shape = tuple(int(n) for n in space.get_simple_extent_dims())
        nbytes = math.prod(shape) * dtype.itemsize
        offset = self.storage(dataset, path, nbytes)
        return ArrayInfo(path, dtype, shape, offset, self.attributes(dataset, path))

    def storage(self, dataset: Any, path: str, nbytes: int) -> int | None:
        """Check the layout and filters of a dataset; return its position in the file, ``None`` if compressed."""
        properties = dataset.get_create_plist()
        layout = properties.get_layout()
        filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
        if filters != [code for code in PIPELINE if code in filters]:
            raise self.refuse(
                path, f"uses filters {filters}: expected only shuffle, gzip and fletcher32, in this order"
            )
        if layout == h5py.h5d.CONTIGUOUS:
            if properties.get_external_count():
                raise self.refuse(path, "keeps its data in another file")
            offset = dataset.get_offset()
            if nbytes == 0:
                return 0
            # The sum is checked too: several arrays cannot share the same bytes.
            self.plain_bytes += nbytes
            if offset is None or offset < 0 or offset + nbytes > self.size or self.plain_bytes > self.size:
                raise self.refuse(
                    path, f"declares {nbytes} bytes that are not inside the file of {self.size} bytes"
                )
            return int(offset)
        if layout == h5py.h5d.CHUNKED:
            chunk = math.prod(properties.get_chunk()) * dataset.get_type().get_size()
            stored = min(int(dataset.get_storage_size()), self.size)
            if nbytes > stored * fmt.MAX_RATIO or chunk > min(max(nbytes, 1), fmt.MAX_CHUNK_BYTES):
                raise self.refuse(path, f"declares {nbytes} bytes (chunks of {chunk}) but stores {stored}")
            self.compressed_bytes += nbytes
            if self.compressed_bytes > fmt.max_decoded(self.size):
                raise self.refuse(
                    path,
                    f"is too large: expected at most {fmt.max_decoded(self.size)} bytes in all compressed arrays of "
                    f"a file of {self.size} bytes, got {self.compressed_bytes}",
                )
            return None
        raise self.refuse(path, "is a virtual or compact dataset")

    def attributes(self, target: Any, path: str) -> dict[str, str | int]:
        """Check and read the attributes of a group or dataset."""
        found: dict[str, str | int] = {}
        count = h5py.h5a.get_num_attrs(target)
        if count > fmt.MAX_ATTRIBUTES:
            raise self.refuse(
                path, f"has too many attributes: expected at most {fmt.MAX_ATTRIBUTES}, got {count}"
            )
        for number in range(count):
            attribute = h5py.h5a.open(target, index=number)
            name = attribute.name.decode("utf-8", "replace")
            kind = attribute.get_type()
            text = isinstance(kind, h5py.h5t.TypeStringID) and not kind.is_variable_str()
            size = kind.get_size()
            if (
                size > fmt.MAX_ATTRIBUTE_BYTES
                or attribute.get_storage_size() != size  # exactly one value
                or not (text or (size == 8 and kind.get_class() == h5py.h5t.INTEGER))
            ):
                raise self.refuse(f"{path}@{name}", "must be one integer or one string of fixed length")
            # A given type takes half the time of a type that h5py looks up, and a shard has hundreds of attributes.
            value = np.empty((), f"S{size}" if text else np.int64)
            attribute.read(value, kind if text else h5py.h5t.NATIVE_INT64)
            found[name] = bytes(value[()]).decode("utf-8", "replace") if text else int(value)
        return found


def inspect_file(file: h5py.File, name: str, size: int) -> Inspector:
    """Check all objects of an open file.

    Args:
        file: File that is open for reading.
        name: Its name, for messages.
        size: Its size in bytes.

    Returns:
        Datasets and group attributes of the file.

    Raises:
        StoreDamagedError: If an object breaks a rule of the format. ``item`` names the object.
    """
    inspector = Inspector(name, size)
    try:
        inspector.walk(h5py.h5g.open(file.id, b"/"), "", 0)
    except StoreDamagedError:
        raise
    except _HDF5_ERRORS as error:
        raise StoreDamagedError(f"{name} is not a valid HDF5 file: {error}", path=name, item="/") from error
    return inspector


def read_arrays(path: str | os.PathLike[str], max_bytes: int | None = None) -> dict[str, Array]:
    """Read the arrays in the root group of an HDF5 file that is not part of a store, with the same checks.

    Args:
        path: Path of the file.
        max_bytes: Largest size of all arrays; unlimited if ``None``.

    Returns:
        Arrays by name. Arrays in groups are ignored.

    Raises:
        StoreDamagedError: If the file is not valid HDF5, or contains links, external data or anything but plain arrays.
    """
    with open(path, "rb") as raw:
        size = os.fstat(raw.fileno()).st_size
        try:
            with h5py.File(raw, "r") as file:
                found = inspect_file(file, str(path), size).arrays
                wanted = [info for info in found.values() if info.path.count("/") == 1]
                total = sum(info.nbytes for info in wanted)
                if max_bytes is not None and total > max_bytes:
                    raise StoreDamagedError(
                        f"{path} is too large: expected at most {max_bytes} bytes of arrays, got {total}",
                        path=os.fspath(path),
                    )
                return {
                    info.path[1:]: np.asarray(file[info.path])
                    if info.offset is not None
                    else decode_array(file[info.path])
                    for info in wanted
                }
        except StoreDamagedError:
            raise
        except _HDF5_ERRORS as error:
            raise StoreDamagedError(
                f"{path} is not a valid HDF5 file: {error}", path=os.fspath(path)
            ) from error


def check_ptr(ptr: Array, count: int, total: int, name: str, item: str) -> None:
    """Check that offsets are ``count + 1`` integers that start at 0, never decrease and end at ``total``.

    Args:
        ptr: Offsets.
        count: Number of graphs.
        total: Length of the array that the offsets cut.
        name: Name of the file, for messages.
        item: Path of the offsets in the file, for messages.

    Raises:
        StoreDamagedError: If they are not.
    """
    if ptr.dtype.kind not in "iu" or ptr.shape != (count + 1,):
        raise StoreDamagedError(
            f"{name}: {item} must hold {count + 1} offsets, got {ptr.dtype} of shape {list(ptr.shape)}",
            path=name,
            item=item,
        )
    if int(ptr[0]) != 0 or int(ptr[-1]) != total or (ptr[1:] < ptr[:-1]).any():
        raise StoreDamagedError(
            f"{name}: {item} must start at 0, never decrease, and end at {total}", path=name, item=item
        )
