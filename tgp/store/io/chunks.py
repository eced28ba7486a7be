"""Decode compressed arrays of untrusted HDF5 files.

libhdf5 is not used for this. It decodes a chunk until its stream ends, also beyond the size of the chunk, and it does not
notice a chunk that decodes to fewer bytes: the rest of the array then consists of uninitialized memory.
"""

from __future__ import annotations

import itertools
import math
import zlib
from functools import lru_cache
from typing import Any

import h5py
import numpy as np

from tgp.kernels.array_types import Array, LongArray

__all__ = ["PIPELINE", "decode_array"]

PIPELINE = (h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_FLETCHER32)
"""Filters of a compressed array in the order of writing. Each of them may be absent."""

_MODULUS = 65535
_CHECKSUM_BYTES = 4


def decode_array(dataset: h5py.Dataset) -> Array:
    """Decode all chunks of a dataset whose type and filters were checked.

    Args:
        dataset: Chunked dataset of plain numbers with filters of :data:`PIPELINE`.

    Returns:
        The array.

    Raises:
        ValueError: If a chunk is missing, is too large, does not decode to its size, or has a wrong checksum.
    """
    shape, chunk = dataset.shape, dataset.chunks
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    size = math.prod(chunk) * dataset.dtype.itemsize
    # The largest output of deflate for data that cannot be compressed, and the checksum.
    limit = size + (size >> 9) + 64
    stored: dict[tuple[int, ...], int] = {}

    def record(found: Any) -> None:
        stored[tuple(found.chunk_offset)] = int(found.size)

    dataset.id.chunk_iter(record)
    result = np.empty(shape, dataset.dtype)
    for start in itertools.product(*(range(0, n, step) for n, step in zip(shape, chunk, strict=True))):
        if stored.get(start, -1) < 0:
            raise ValueError(f"the chunk at {list(start)} is missing")
        if stored[start] > limit:
            raise ValueError(
                f"the chunk at {list(start)} has the wrong size: expected at most {limit} stored bytes, "
                f"got {stored[start]}"
            )
        mask, data = dataset.id.read_direct_chunk(start)
        used = [code for number, code in enumerate(filters) if not mask >> number & 1]
        values = _decode_chunk(data, used, size, dataset.dtype).reshape(chunk)
        place = tuple(slice(a, min(a + n, end)) for a, n, end in zip(start, chunk, shape, strict=True))
        result[place] = values[tuple(slice(0, p.stop - p.start) for p in place)]
    return result


def _decode_chunk(data: bytes, filters: list[int], size: int, dtype: np.dtype[Any]) -> Array:
    """Undo the filters of one chunk and check that it has the right size."""
    if h5py.h5z.FILTER_FLETCHER32 in filters:
        data, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
        if checksum != _fletcher32(data):
            raise ValueError("a chunk has a wrong checksum")
    if h5py.h5z.FILTER_DEFLATE in filters:
        stream = zlib.decompressobj()
        try:
            data = stream.decompress(data, size + 1)
        except zlib.error as error:
            raise ValueError(f"a chunk cannot be decompressed: {error}") from error
        if not stream.eof:
            raise ValueError(f"a chunk must decode to {size} bytes")
    if len(data) != size:
        raise ValueError(f"a chunk must decode to {size} bytes, got {len(data)}")
    if h5py.h5z.FILTER_SHUFFLE in filters and dtype.itemsize > 1:
        return _unshuffle(data, dtype)
    return np.frombuffer(data, dtype)


def _unshuffle(data: bytes, dtype: np.dtype[Any]) -> Array:
    """Restore numbers of which first all first bytes are stored, then all second bytes, and so on."""
    columns = np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1)
    rows = np.empty((columns.shape[1], dtype.itemsize), np.uint8)
    for number, column in enumerate(columns):  # three times as fast as a transposed copy
        rows[:, number] = column
    return rows.reshape(-1).view(dtype)


def _fletcher32(data: bytes) -> bytes:
    """Return the checksum of HDF5's filter: sums of big-endian 16-bit words and of their running sums."""
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2").astype(np.int64)
    sums = (int((words * _weights(len(words))).sum()), int(words.sum()))
    # The sum of the 16-bit words of a number, repeated until one word is left, is 0 only for 0.
    high, low = ((total - 1) % _MODULUS + 1 if words.any() else 0 for total in sums)
    return (high << 16 | low).to_bytes(_CHECKSUM_BYTES, "little")


@lru_cache(maxsize=4)
def _weights(count: int) -> LongArray:
    """Return the number of running sums that contain each word. Reduced numbers keep their sum below 2^63."""
    return np.arange(count, 0, -1) % _MODULUS
