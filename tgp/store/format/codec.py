"""Convert arrays to HDF5 datasets: smallest types, and the layouts of the two profiles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import h5py
import numpy as np

from tgp.errors import InputError
from tgp.kernels.array_types import Array
from tgp.store.format import constants as fmt

__all__ = [
    "HDF5_VERSION",
    "create_array",
    "integer_type",
    "narrow",
    "restore",
    "set_attributes",
    "stored_types",
    "write_array",
]

HDF5_VERSION = str(h5py.version.hdf5_version)
"""Version of the HDF5 library. Other versions may write the same arrays with other bytes around them."""

_UNSIGNED = ("u1", "<u2", "<u4", "<u8")
_SIGNED = ("i1", "<i2", "<i4", "<i8")


def narrow(values: Array, name: str = "array") -> Array:
    """Convert an array to the smallest type that holds its values, little-endian and contiguous.

    Integers get a smaller type, unsigned if no value is negative. ``bool`` becomes ``uint8``. Complex numbers get one
    more axis of length two. Floating point numbers keep their type.

    Args:
        values: Array to store.
        name: Its name, for messages.

    Returns:
        The stored form of the array. :func:`restore` is the inverse.

    Raises:
        InputError: If arrays of this type cannot be stored.

    Examples:
        >>> narrow(np.array([0, 300])).dtype, narrow(np.array([-1, 3])).dtype
        (dtype('uint16'), dtype('int8'))
    """
    dtype = values.dtype
    if dtype.newbyteorder("=").name not in fmt.ORIGINAL_DTYPES:
        raise InputError(
            f"{name}: arrays of type {dtype} cannot be stored. Convert it to a boolean, integer, floating point or "
            "complex type",
            field=name,
        )
    if dtype.kind == "b":
        return np.ascontiguousarray(values).view(np.uint8)
    if dtype.kind == "c":
        plain = np.ascontiguousarray(values, dtype=dtype.newbyteorder("<"))
        return plain.view(f"<f{dtype.itemsize // 2}").reshape(*values.shape, 2)
    if dtype.kind == "f":
        return np.ascontiguousarray(values, dtype=dtype.newbyteorder("<"))
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return np.ascontiguousarray(values, dtype=integer_type(low, high))


def integer_type(low: int, high: int) -> np.dtype[Any]:
    """Return the smallest type of integers for numbers between two limits, unsigned if none is negative.

    Args:
        low: Smallest number.
        high: Largest number.
    """
    for code in _UNSIGNED if low >= 0 else _SIGNED:
        info = np.iinfo(code)
        if info.min <= low and high <= info.max:
            return np.dtype(code)
    raise AssertionError("a 64-bit integer fits in 64 bits")


@cache
def stored_types(dtype: str) -> frozenset[str]:
    """Return the types in which :func:`narrow` may store an array.

    Args:
        dtype: numpy name of the original type.

    Examples:
        >>> sorted(stored_types("int16")), sorted(stored_types("complex64"))
        (['<i2', '<u2', '|i1', '|u1'], ['<f4'])
    """
    original = np.dtype(dtype)
    if original.kind == "b":
        return frozenset({"|u1"})
    if original.kind in "fc":
        return frozenset({f"<f{original.itemsize // (2 if original.kind == 'c' else 1)}"})
    codes = _UNSIGNED if original.kind == "u" else _UNSIGNED + _SIGNED
    types = (np.dtype(code) for code in codes)
    return frozenset(kind.str for kind in types if kind.itemsize <= original.itemsize)


def restore(stored: Array, dtype: str) -> Array:
    """Convert a stored array back to its original type. This is the inverse of :func:`narrow`.

    Args:
        stored: Stored form of the array.
        dtype: numpy name of the original type.

    Returns:
        The original array, without a copy if the type is already right.
    """
    if dtype == "bool":
        return stored.view(np.bool_)
    if dtype in ("complex64", "complex128"):
        return np.ascontiguousarray(stored).view(dtype)[..., 0]
    return stored.astype(dtype, copy=False)


def write_array(
    group: h5py.Group, name: str, stored: Array, profile: str, attributes: Mapping[str, str | int]
) -> int:
    """Write a narrowed array as a dataset.

    Args:
        group: Group of the new dataset.
        name: Its name.
        stored: Result of :func:`narrow`.
        profile: ``"fast"`` or ``"small"``.
        attributes: Attributes of the dataset.

    Returns:
        Size of the array in bytes, before compression.
    """
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    if profile == "small" and stored.size and stored.ndim:
        _compress(properties, stored, name)
    else:
        properties.set_layout(h5py.h5d.CONTIGUOUS)
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple(stored.shape)
    kind = h5py.h5t.py_create(stored.dtype)
    dataset = h5py.h5d.create(group.id, name.encode("ascii"), kind, space, properties)
    if stored.size:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, stored)
    set_attributes(h5py.Dataset(dataset), attributes)
    return int(stored.nbytes)


def create_array(
    group: h5py.Group,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    attributes: Mapping[str, str | int],
) -> h5py.Dataset:
    """Create a contiguous dataset without values, in the same bytes as :func:`write_array` in the fast profile.

    Args:
        group: Group of the new dataset.
        name: Its name.
        shape: Its shape.
        dtype: Stored type.
        attributes: Attributes of the dataset.
    """
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space, kind = h5py.h5s.create_simple(shape), h5py.h5t.py_create(dtype)
    dataset = h5py.Dataset(h5py.h5d.create(group.id, name.encode("ascii"), kind, space, properties))
    set_attributes(dataset, attributes)
    return dataset


def _compress(properties: Any, stored: Array, name: str) -> None:
    if stored.nbytes > fmt.MAX_DECODED_BYTES:
        raise InputError(
            f"{name} is too large for the small profile: expected at most {fmt.MAX_DECODED_BYTES} bytes in one "
            f"shard, got {stored.nbytes}. Use more shards or the fast profile",
            field=name,
        )
    properties.set_layout(h5py.h5d.CHUNKED)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    properties.set_chunk(_chunk(stored.shape, stored.itemsize))
    properties.set_shuffle()
    properties.set_deflate(fmt.GZIP_LEVEL)
    properties.set_fletcher32()


def _chunk(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the shape of chunks of about ``CHUNK_BYTES`` bytes, cut along the longest axis."""
    longest = int(np.argmax(shape))
    other = itemsize * int(np.prod(shape, dtype=np.int64)) // shape[longest]
    length = min(shape[longest], max(1, fmt.CHUNK_BYTES // max(other, 1)))
    return tuple(length if axis == longest else n for axis, n in enumerate(shape))


def set_attributes(target: h5py.Group | h5py.Dataset, attributes: Mapping[str, str | int]) -> None:
    """Write attributes as UTF-8 strings of fixed length and 64-bit integers.

    Args:
        target: Group or dataset.
        attributes: Values by name.
    """
    # Uses the low-level interface, because a shard has hundreds of attributes. Writing one with the high-level interface
    # takes longer than writing a small array.
    scalar = h5py.h5s.create(h5py.h5s.SCALAR)
    for key, value in attributes.items():
        # Strings have a fixed length, because readers refuse strings of variable length: these are stored as
        # references into a heap, which a damaged file can point anywhere.
        if isinstance(value, str):
            text = value.encode()
            kind = h5py.h5t.C_S1.copy()
            kind.set_size(max(1, len(text)))
            kind.set_strpad(h5py.h5t.STR_NULLPAD)
            kind.set_cset(h5py.h5t.CSET_UTF8)
            data = np.array(text, f"S{max(1, len(text))}")
        else:
            kind, data = h5py.h5t.STD_I64LE, np.array(value, "<i8")
        h5py.h5a.create(target.id, key.encode("ascii"), kind, scalar).write(data, mtype=kind)
