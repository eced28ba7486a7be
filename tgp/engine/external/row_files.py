"""Rows of a sparse matrix in files: write them front to back, and map them."""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tgp.ragged.block import FloatArray, IndexArray, PtrArray

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "MappedRows",
    "RowFiles",
    "RowWriter",
    "map_file",
    "raw_bytes",
    "read_array",
    "replace_file",
    "write_all",
    "write_array",
]

_TYPES = {"indptr": np.int64, "indices": np.int32, "weight": np.float64}


@dataclass(frozen=True)
class RowFiles:
    """Files of a sparse matrix: ``<name>.indptr`` (int64), ``<name>.indices`` (int32) and ``<name>.weight`` (float64).

    Args:
        folder: Folder of the files.
        name: Their name without the suffix.
        num_nodes: Number of rows and columns.
        num_entries: Number of entries.
        weighted: True if there are weights.
    """

    folder: Path
    name: str
    num_nodes: int
    num_entries: int
    weighted: bool

    def open(self) -> MappedRows:
        """Map the files."""
        return MappedRows(self)

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> RowFiles:
        """Return the files that :meth:`to_plain` describes."""
        return RowFiles(**{**values, "folder": Path(values["folder"])})

    def to_plain(self) -> dict[str, Any]:
        """Return a description of plain values, which can be sent to another process."""
        return {**vars(self), "folder": str(self.folder)}

    def path(self, suffix: str) -> Path:
        """Return the path of one of the files."""
        return self.folder / f"{self.name}.{suffix}"

    def remove(self) -> None:
        """Delete the files."""
        for suffix in _TYPES:
            self.path(suffix).unlink(missing_ok=True)


class _Mapping:
    """Private map of a file. Changes are not written to the file, because arrays that cannot be written need other kernels."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, length: int) -> None:
        self._map: mmap.mmap | None = None
        self.array: npt.NDArray[Any] = np.empty(0, dtype)
        if length:
            with path.open("rb") as file:
                size = length * self.array.itemsize
                self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
            self.array = np.frombuffer(self._map, dtype)

    def release(self, first: int, last: int) -> None:
        """Remove the pages of some elements from memory. They are read from the file again when they are needed."""
        if self._map is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        low = first * self.array.itemsize // mmap.PAGESIZE * mmap.PAGESIZE
        high = min(last * self.array.itemsize, len(self._map))
        if high > low:
            self._map.madvise(mmap.MADV_DONTNEED, low, high - low)

    def close(self) -> None:
        self.array = np.empty(0, self.array.dtype)
        self._map = None  # closed with the last array that refers to it


def map_file(path: Path, dtype: npt.DTypeLike, length: int) -> npt.NDArray[Any]:
    """Map a file of numbers. Changes of the array do not reach the file.

    Args:
        path: File.
        dtype: Type of the numbers.
        length: Their number.
    """
    return _Mapping(path, dtype, length).array


def read_array(path: Path, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Read a file of numbers."""
    return np.fromfile(path, dtype)


def raw_bytes(values: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of an array, which may be empty."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def write_array(path: Path, values: npt.NDArray[Any]) -> None:
    """Write numbers to a file and synchronize it with the disk. The file appears when it is complete."""
    with replace_file(path) as file:
        write_all(file, raw_bytes(values))


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file. At the end of the block it is synchronized with the disk and gets its name.

    Two processes can write the same file at the same time: each has a temporary file of its own.

    Args:
        path: Name of the complete file.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("wb", buffering=0) as file:
            yield file
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_all(file: IO[bytes], data: memoryview) -> None:
    """Write all bytes to an unbuffered file, which can write a part of them.

    Args:
        file: File that is open for writing.
        data: Bytes.
    """
    while len(data):
        data = data[file.write(data) :]


class _Closing:
    """Base of objects with a method ``close`` that is called at the end of a ``with`` statement."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class MappedRows(_Closing):
    """Mapped rows of a sparse matrix. Use it in a ``with`` statement.

    Args:
        files: Files of the matrix.

    Attributes:
        files: Files of the matrix.
        num_nodes: Number of rows.
        num_entries: Number of entries.
        weighted: True if there are weights.
    """

    def __init__(self, files: RowFiles) -> None:
        self.files = files
        self.num_nodes, self.num_entries, self.weighted = files.num_nodes, files.num_entries, files.weighted
        lengths = {
            "indptr": self.num_nodes + 1,
            "indices": self.num_entries,
            "weight": self.num_entries if self.weighted else 0,
        }
        self._maps = {n: _Mapping(files.path(n), _TYPES[n], lengths[n]) for n in _TYPES}

    @property
    def indptr(self) -> PtrArray:
        """``[N + 1]`` offsets of the rows."""
        return self._maps["indptr"].array

    @property
    def indices(self) -> IndexArray:
        """``[nnz]`` columns."""
        return self._maps["indices"].array

    @property
    def weight(self) -> FloatArray:
        """``[nnz]`` weights, or an empty array."""
        return self._maps["weight"].array

    def arrays(self) -> tuple[PtrArray, IndexArray, FloatArray, bool]:
        """Return ``(indptr, indices, weight, weighted)``, the arguments of kernels."""
        return self.indptr, self.indices, self.weight, self.weighted

    def row_lengths(self) -> PtrArray:
        """Return the number of entries of each row, without keeping the pages of the row pointers in memory."""
        lengths, step = np.empty(self.num_nodes, np.int64), 1 << 20
        for first in range(0, self.num_nodes, step):
            last = min(first + step, self.num_nodes)
            np.subtract(self.indptr[first + 1 : last + 1], self.indptr[first:last], out=lengths[first:last])
            self._maps["indptr"].release(first, last)
        return lengths

    def row_ranges(
        self, size: int, first: int = 0, stop: int | None = None, step: int = 1
    ) -> Iterator[tuple[int, int]]:
        """Yield ranges ``(first, last)`` of at most ``size`` rows and entries, or of ``step`` rows.

        The pages of a range are released when the next one is requested.

        Args:
            size: Number of rows and entries.
            first: First row.
            stop: End of the rows; the number of rows by default.
            step: The number of rows of each range, without the last one, is a multiple of this.
        """
        stop = self.num_nodes if stop is None else stop
        while first < stop:
            last = int(np.searchsorted(self.indptr, self.indptr[first] + size, side="right")) - 1
            count = min(last - first, size) // step * step
            last = min(first + max(count, step), stop)
            yield first, last
            self.release(first, last, int(self.indptr[first]), int(self.indptr[last]))
            first = last

    def entry_ranges(
        self, size: int, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, int, int]]:
        """Yield ranges of ``size`` entries: ``(first, low, high)``, where ``first`` is the row of entry ``low``.

        Args:
            size: Number of entries.
            start: First entry.
            stop: End of the entries; the number of entries by default.
        """
        before, stop = 0, self.num_entries if stop is None else stop
        for low in range(start, stop, size):
            high = min(low + size, stop)
            first = int(np.searchsorted(self.indptr, low, side="right")) - 1
            yield first, low, high
            self.release(before, first, low, high)
            before = first

    def release(self, first: int, last: int, low: int, high: int) -> None:
        """Remove the pages of the rows ``first..last`` and of the entries ``low..high`` from memory."""
        self._maps["indptr"].release(first, last)
        self._maps["indices"].release(low, high)
        self._maps["weight"].release(low, high)

    def close(self) -> None:
        """Close the files."""
        for mapping in self._maps.values():
            mapping.close()


class RowWriter(_Closing):
    """Writer that appends rows to files. Use it in a ``with`` statement.

    Args:
        folder: Folder of the files.
        name: Their name without the suffix.
        weighted: True if there are weights.
        num_rows: Number of rows that the files have already; later ones are removed.
        num_entries: Number of entries of these rows.
    """

    def __init__(
        self, folder: Path, name: str, weighted: bool, num_rows: int = 0, num_entries: int = 0
    ) -> None:
        self.files = RowFiles(folder, name, num_rows, num_entries, weighted)
        self.num_rows, self.num_entries = num_rows, num_entries
        lengths = {"indptr": num_rows + 1, "indices": num_entries, "weight": num_entries}
        if not weighted:
            lengths.pop("weight")
        self._open = {n: self.files.path(n).open("r+b" if num_rows else "w+b") for n in lengths}
        if not num_rows:
            self._open["indptr"].write(bytes(8))
        for name_, length in lengths.items():
            self._open[name_].truncate(length * np.dtype(_TYPES[name_]).itemsize)
            self._open[name_].seek(0, os.SEEK_END)

    def append(
        self, indptr: PtrArray, indices: IndexArray, weight: FloatArray, continues: bool = False
    ) -> None:
        """Append rows.

        Args:
            indptr: ``[R + 1]`` offsets that start at 0.
            indices: Columns.
            weight: Weights, not used if there are none.
            continues: The first row is the continuation of the last one.
        """
        if continues:
            self._open["indptr"].seek(-8, os.SEEK_END)
            self.num_rows -= 1
        parts: dict[str, npt.NDArray[Any]] = {"indptr": indptr[1:] + self.num_entries, "indices": indices}
        if self.files.weighted:
            parts["weight"] = weight
        for name, values in parts.items():
            self._open[name].write(raw_bytes(np.asarray(values, _TYPES[name])))
        self.num_rows += len(indptr) - 1
        self.num_entries += len(indices)

    def sync(self) -> None:
        """Synchronize the files with the disk."""
        for file in self._open.values():
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close()
