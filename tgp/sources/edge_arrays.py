"""Read edges from ``.npy``, ``.npz`` and ``.parquet`` files piece by piece. Parquet needs pyarrow (extra ``arrow``)."""

from __future__ import annotations

import importlib
import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from tgp.errors import DatasetError, MissingPackageError
from tgp.kernels.array_types import Array, FloatArray, LongArray
from tgp.sources.edge_reader import EdgePiece, EdgeReader, check_weights

__all__ = ["ArrayReader", "ParquetReader"]

_SCAN = 1 << 20
"""Number of ids that are read at once to find the largest one."""


class ArrayReader(EdgeReader):
    """Reader of ``.npy`` and ``.npz`` files. A position is a number of edges.

    Args:
        path: A ``.npy`` file with an array ``[2, E]`` or ``[E, 2]``, or a ``.npz`` file with an array ``edge_index`` of this shape and
            optional arrays ``edge_weight`` and ``num_nodes`` (``num_nodes_list`` in files of OGB).
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._archive = zipfile.ZipFile(path) if path.suffix.lower() == ".npz" else None
        self._weight: _Stream | None = None
        if self._archive is None:
            self._edges = _Stream(path.name, path.open("rb"), path.stat().st_size)
        else:
            names = {info.filename for info in self._archive.infolist()}
            if "edge_index.npy" not in names or "node_ptr.npy" in names:
                raise DatasetError(f"{path} must hold one graph with an array 'edge_index'")
            self._edges = self._member("edge_index")
            for name in ("num_nodes", "num_nodes_list"):
                if f"{name}.npy" in names:
                    self.num_nodes = self._read_number(name)
            if "edge_weight.npy" in names:
                self._weight = self._member("edge_weight")
        self._check()

    def _member(self, name: str) -> _Stream:
        assert self._archive is not None
        info = self._archive.getinfo(f"{name}.npy")
        return _Stream(name, self._archive.open(info), info.file_size)

    def _read_number(self, name: str) -> int:
        """Return the only number of an array."""
        found = self._member(name)
        if found.size != 1 or found.dtype.kind not in "iu":
            raise DatasetError(
                f"{self.path} must hold one graph: expected one integer in {name!r}, got {found.dtype} {list(found.shape)}"
            )
        return max(int(found.read(0, 1)[0]), 0)

    def _check(self) -> None:
        shape, dtype = self._edges.shape, self._edges.dtype
        if len(shape) != 2 or 2 not in shape or dtype.kind not in "iu":
            raise DatasetError(
                f"{self.path}: the array of edges must hold integers of shape [2, E] or [E, 2], got {dtype} {list(shape)}",
                hint="an adjacency matrix is written by scipy.sparse.save_npz(path, scipy.sparse.csr_array(matrix))"
                if len(shape) == 2 and shape[0] == shape[1]
                else None,
            )
        self._by_row = shape[0] != 2  # [2, 2] is read as [2, E], as everywhere else
        self.num_edges = shape[0] if self._by_row else shape[1]
        if self._weight is None:
            return
        kind = self._weight.dtype
        if self._weight.size != self.num_edges or kind.kind not in "fiub":
            raise DatasetError(
                f"{self.path}: 'edge_weight' must hold {self.num_edges} numbers, got {kind} {list(self._weight.shape)}"
            )
        self.weight_dtype = np.dtype(np.float64 if kind == np.float64 else np.float32)

    def _read(self, size: int, position: int) -> Iterator[EdgePiece]:
        paired = self._by_row != self._edges.fortran_order
        second = None if paired else self._second_stream()
        for low in range(position, self.num_edges, size):
            high = min(low + size, self.num_edges)
            if second is None:
                flat = self._edges.read(2 * low, 2 * high).reshape(-1, 2)
            else:
                rows = self._edges.read(low, high), second.read(self.num_edges + low, self.num_edges + high)
                flat = np.stack(rows, axis=1)
            where = f"{self.path}, edges {low} to {high - 1}"
            if flat.dtype == np.uint64 and len(flat) and int(flat.max()) >= 2**63:
                raise DatasetError(f"{where}: expected ids below 2^63, got {flat.max()}")
            weight = None
            if self._weight is not None and self.weight_dtype is not None:
                weight = check_weights(self._weight.read(low, high), where, self.weight_dtype)
            yield EdgePiece(np.ascontiguousarray(flat, np.int64), weight, high)

    def _second_stream(self) -> _Stream:
        if self._archive is not None:
            return self._member("edge_index")
        return _Stream(self.path.name, self.path.open("rb"), self.path.stat().st_size)

    def estimate_edges(self) -> tuple[int, int]:
        """Return the number of edges, and the number of nodes of the first ones if no other is known."""
        piece = next(self.read(1 << 16), None)
        highest = 0 if piece is None else int(piece.edges.max(initial=-1)) + 1
        return self.num_edges, highest if self.num_nodes is None else self.num_nodes

    def count_nodes(self) -> int:
        """Return the number of nodes. The ids are read if it is not stored."""
        if self.num_nodes is not None:
            return self.num_nodes
        highest = -1
        for low in range(0, self._edges.size, _SCAN):
            part = self._edges.read(low, min(low + _SCAN, self._edges.size))
            highest = max(highest, int(part.max()))
        return highest + 1


class _Stream:
    """Array in a ``.npy`` file that is read piece by piece, mostly front to back.

    Args:
        name: Name of the array for messages.
        file: Its file.
        length: Size of the file in bytes.
    """

    def __init__(self, name: str, file: IO[bytes], length: int) -> None:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            header = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            header = np.lib.format.read_array_header_2_0(file)
        else:
            raise DatasetError(f"{name}: expected version 1.0 or 2.0 of the format, got {version}")
        self.shape, self.fortran_order, self.dtype = header
        if self.dtype.hasobject:
            raise DatasetError(f"{name}: expected an array of numbers, got objects")
        self._name, self._file = name, file
        if any(length < 0 for length in self.shape) or self.dtype.itemsize == 0:
            raise DatasetError(
                f"{name} has a wrong header: expected numbers, got {self.shape} of {self.dtype}"
            )
        self.size = math.prod(self.shape)
        self._start = file.tell()
        if self._start + self.size * self.dtype.itemsize > length:
            raise DatasetError(
                f"{name} is truncated: expected {self.size * self.dtype.itemsize} bytes of data, got {length - self._start}",
                hint="get the file again",
            )

    def read(self, low: int, high: int) -> Array:
        """Return the elements ``low..high`` in the order of the file."""
        self._file.seek(self._start + low * self.dtype.itemsize, os.SEEK_SET)
        data = self._file.read((high - low) * self.dtype.itemsize)
        if len(data) != (high - low) * self.dtype.itemsize:
            raise DatasetError(
                f"{self._name} is truncated: expected {high - low} numbers after number {low}, got fewer bytes"
            )
        return np.frombuffer(data, self.dtype)


_ENDS = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("row", "col"), ("head", "tail"))
"""Names of the columns with the two ends of an edge."""

_WEIGHTS = ("weight", "edge_weight")

_BUFFER = 1 << 20
"""Number of bytes of a column that are read at once."""


class ParquetReader(EdgeReader):
    """Reader of ``.parquet`` files with a row for each edge. A position is a number of rows.

    The ends of the edges are in columns named as one of the pairs ``source, target``, ``src, dst``, ``from, to``, ``u, v``, ``row, col`` and
    ``head, tail``, and the weights in a column ``weight`` or ``edge_weight``. Two or three columns with other names are the ends and the
    weight.

    Args:
        path: File.
    """

    has_holes = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self._parquet = importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise MissingPackageError(
                f"{path}: Parquet files need the package 'pyarrow'", hint="pip install 'tgp-coarsen[arrow]'"
            ) from error
        with self._open() as file:
            self.num_edges = int(file.metadata.num_rows)
            schema = file.schema_arrow
        self._columns = self._choose_columns([field.name for field in schema])
        types = [schema.field(name).type for name in self._columns]
        for name, kind in zip(self._columns[:2], types, strict=False):
            if not str(kind).removeprefix("u").startswith("int"):
                raise DatasetError(f"{path}: column {name!r} must hold integers, got {kind}")
        if len(types) == 3:
            if not str(types[2]).removeprefix("u").startswith(("int", "float", "double", "halffloat")):
                raise DatasetError(f"{path}: column {self._columns[2]!r} must hold numbers, got {types[2]}")
            self.weight_dtype = np.dtype(np.float64 if str(types[2]) == "double" else np.float32)

    def _open(self) -> Any:
        return self._parquet.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False)

    def _choose_columns(self, names: list[str]) -> list[str]:
        by_name = {name.lower(): name for name in names}
        for pair in _ENDS:
            if set(pair) <= set(by_name):
                weights = [by_name[name] for name in _WEIGHTS if name in by_name]
                return [by_name[pair[0]], by_name[pair[1]], *weights[:1]]
        if len(names) in (2, 3) and len(set(names)) == len(names):
            return names
        pairs = ", ".join(" and ".join(pair) for pair in _ENDS)
        raise DatasetError(
            f"{self.path} has no columns that are known: expected {pairs}, or two or three columns, got {', '.join(names)[:200]}"
        )

    def _read(self, size: int, position: int) -> Iterator[EdgePiece]:
        parts: list[tuple[LongArray, FloatArray | None]] = []
        held = 0
        for part in self._read_batches(size, position):
            parts.append(part)
            held += len(part[0])
            while held >= size:
                edges, weight = _join(parts)
                position += size
                yield EdgePiece(edges[:size], None if weight is None else weight[:size], position)
                parts = [(edges[size:], None if weight is None else weight[size:])]
                held -= size
        if held:
            edges, weight = _join(parts)
            yield EdgePiece(edges, weight, position + held)

    def _read_batches(self, size: int, position: int) -> Iterator[tuple[LongArray, FloatArray | None]]:
        """Yield edges and weights of record batches, which end at row groups, from a row on."""
        start = 0
        with self._open() as file:
            for group in range(file.num_row_groups):
                end = start + int(file.metadata.row_group(group).num_rows)
                if end <= position:
                    start = end
                    continue
                for batch in file.iter_batches(size, row_groups=[group], columns=self._columns):
                    first = max(position - start, 0)
                    if first < batch.num_rows:
                        yield self._convert(batch.slice(first), start + first)
                    start += batch.num_rows

    def _convert(self, batch: Any, start: int) -> tuple[LongArray, FloatArray | None]:
        where = f"{self.path}, rows {start} to {start + batch.num_rows - 1}"
        edges = np.empty((batch.num_rows, 2), np.int64)
        columns = [batch.column(batch.schema.get_field_index(name)) for name in self._columns]
        for side, column in enumerate(columns[:2]):
            values = None if column.null_count else column.to_numpy(zero_copy_only=False)
            if values is None or (values.dtype == np.uint64 and len(values) and int(values.max()) >= 2**63):
                raise DatasetError(
                    f"{where}: expected an id from 0 to 2^63 - 1 in each row of {self._columns[side]!r}, got "
                    f"{'null' if values is None else values.max()}"
                )
            edges[:, side] = values
        if self.weight_dtype is None:
            return edges, None
        weight = columns[2].to_numpy(zero_copy_only=False)  # null becomes NaN
        return edges, check_weights(weight, where, self.weight_dtype)

    def estimate_edges(self) -> tuple[int, int]:
        """Return the number of edges, and an estimate of the number of nodes from the first ones."""
        piece = next(self.read(1 << 16), None)
        highest = 0 if piece is None else int(piece.edges.max(initial=-1)) + 1
        return self.num_edges, min(highest, 2 * self.num_edges)


def _join(
    parts: list[tuple[LongArray, FloatArray | None]],
) -> tuple[LongArray, FloatArray | None]:
    if len(parts) == 1:
        return parts[0]
    weights = [weight for _, weight in parts if weight is not None]
    return np.concatenate([edges for edges, _ in parts]), np.concatenate(weights) if weights else None
