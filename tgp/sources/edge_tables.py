"""Read edges from Parquet files row group by row group. This needs pyarrow (extra ``arrow``)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError, MissingPackageError
from tgp.sources.edge_reader import EdgePiece, EdgeReader, check_weights

__all__ = ["ParquetReader"]

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
        parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]] = []
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

    def _read_batches(
        self, size: int, position: int
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]]:
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

    def _convert(
        self, batch: Any, start: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]:
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
    parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]:
    if len(parts) == 1:
        return parts[0]
    weights = [weight for _, weight in parts if weight is not None]
    return np.concatenate([edges for edges, _ in parts]), np.concatenate(weights) if weights else None
