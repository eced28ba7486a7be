"""Read named arrays from ``.npz`` files. Declared sizes are checked before memory is allocated."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from tgp.errors import DatasetError
from tgp.input_limits import READ_ERRORS, InputBudget, describe
from tgp.kernels.array_types import Array

__all__ = ["check_sparse", "read_npz"]


_MAX_MEMBERS = 10_000
_CHUNK = 1 << 18
"""Number of bytes that are read at a time. They stay in the cache of a core until they are copied."""

_DEFLATE_RATIO = 1032
"""Largest possible ratio of the compression of zip files."""

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_HINT = "save plain arrays: edge_index, x, y, and node_ptr and edge_ptr for many graphs"


def read_npz(path: Any, budget: InputBudget) -> dict[str, Array]:
    """Read all arrays of an ``.npz`` file.

    Args:
        path: The file.
        budget: Budget of the dataset.

    Raises:
        DatasetError: If the file is damaged, encrypted or too large, or contains anything but plain arrays.
    """
    arrays: dict[str, Array] = {}
    with budget.open(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except READ_ERRORS as error:
            raise DatasetError(f"{path} cannot be read: expected an archive of arrays (.npz)") from error
        with archive:
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS:
                raise DatasetError(
                    f"{path} has too many arrays: expected at most {_MAX_MEMBERS}, got {len(members)}"
                )
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise DatasetError(f"{path} holds two arrays named {name!r}: expected different names")
                arrays[name] = _read_member(archive, member, path, budget)
    return arrays


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Any, budget: InputBudget) -> Array:
    where = f"{path}: {member.filename!r}"
    if member.flag_bits & 1:
        raise DatasetError(f"{where} is encrypted: expected an archive without a password", hint=_HINT)
    if member.compress_type not in _METHODS:
        raise DatasetError(f"{where} has an unknown compression: expected none or deflate", hint=_HINT)
    ratio = 1 if member.compress_type == zipfile.ZIP_STORED else _DEFLATE_RATIO
    if member.file_size > ratio * (member.compress_size + 64):
        raise DatasetError(
            f"{where} declares {member.file_size} bytes but stores {member.compress_size}: the file is damaged"
        )
    budget.check(budget.needed + member.file_size, path, repr(member.filename))
    try:
        with archive.open(member) as stream:
            return _read_npy(stream, member.file_size, path, member.filename, budget)
    except READ_ERRORS as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{where} cannot be read: {describe(error)}", hint=_HINT) from error


def _read_npy(stream: IO[bytes], size: int, path: Any, name: str, budget: InputBudget) -> Array:
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"unknown array format {version}, expected 1.0 or 2.0")
    shape, fortran, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise DatasetError(
            f"{path}: {name!r} holds Python objects, which are not loaded: expected numbers", hint=_HINT
        )
    check_shape(shape, dtype, path, name, budget)
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes != size - stream.tell():
        raise ValueError(f"the header declares {num_bytes} bytes, the file has {size - stream.tell()}")
    budget.charge(num_bytes, path, repr(name))
    flat = np.empty(num_bytes, np.uint8)
    view, done = flat.data, 0
    while done < num_bytes:
        data = stream.read(min(_CHUNK, num_bytes - done))
        if not data:
            raise EOFError("the array is truncated")
        view[done : done + len(data)] = data
        done += len(data)
    if stream.read(1):  # the checksum is compared at the end of the member
        raise ValueError("there are bytes after the array")
    values: Array = flat.view(dtype).reshape(shape, order="F" if fortran else "C")
    return values


def check_shape(
    shape: tuple[int, ...], dtype: np.dtype[Any], path: Any, name: str, budget: InputBudget
) -> None:
    """Check the declared shape of an array.

    Args:
        shape: Declared shape. An axis of length 0 does not hide the length of the other axes.
        dtype: Declared type.
        path: File, for the error message.
        name: Name of the array, for the error message.
        budget: Budget of the dataset.

    Raises:
        DatasetError: If the shape is invalid or too large.
    """
    if any(not isinstance(n, int) or n < 0 for n in shape) or dtype.itemsize == 0:
        raise DatasetError(
            f"{path}: {name!r} has a wrong shape or type: expected lengths of at least 0, got {shape} of {dtype}"
        )
    budget.check(math.prod(max(n, 1) for n in shape) * dtype.itemsize, path, repr(name))


def check_sparse(arrays: Mapping[str, Array], prefix: str, where: object, axis: int = 0) -> tuple[int, int]:
    """Check the arrays of a sparse matrix. The compiled code of scipy does not check them.

    Args:
        arrays: ``<prefix>indptr``, ``<prefix>indices``, ``<prefix>data`` and optionally ``<prefix>shape``.
        prefix: Prefix of the names.
        where: File, for the error message.
        axis: 0 if the matrix is stored by rows (CSR), 1 if it is stored by columns (CSC).

    Returns:
        Number of rows and columns of the matrix.

    Raises:
        DatasetError: If row pointers, indices or the shape do not fit.
    """
    indptr, indices, data = (arrays[f"{prefix}{key}"] for key in ("indptr", "indices", "data"))
    for name, values in (("indptr", indptr), ("indices", indices)):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise DatasetError(
                f"{where}: {prefix + name!r} must hold integers in one dimension, "
                f"got {values.dtype} {list(values.shape)}"
            )
    if data.ndim != 1 or data.dtype.kind not in "biufc" or len(data) != len(indices):
        raise DatasetError(
            f"{where}: {prefix + 'data'!r} must hold {len(indices)} numbers, got {data.dtype} {list(data.shape)}"
        )
    if not len(indptr) or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any() or indptr[-1] != len(indices):
        raise DatasetError(
            f"{where}: {prefix + 'indptr'!r} must hold row pointers that start at 0, never decrease and end at "
            f"{len(indices)}"
        )
    count = len(indptr) - 1
    shape = np.asarray(arrays.get(f"{prefix}shape", np.array([count, count])))
    sides = [int(n) for n in shape] if shape.shape == (2,) and shape.dtype.kind in "iu" else []
    if len(sides) != 2 or min(sides) < 0 or sides[axis] != count:
        raise DatasetError(
            f"{where}: {prefix + 'shape'!r} must hold the number of rows and columns, and "
            f"{prefix + 'indptr'!r} one number more than that, got {sides or shape.dtype} and {len(indptr)}"
        )
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= sides[1 - axis]):
        raise DatasetError(
            f"{where}: {prefix + 'indices'!r} must hold ids in [0, {sides[1 - axis]}), "
            f"got {indices.min()} to {indices.max()}"
        )
    return sides[0], sides[1]
