"""Digest of the content of graphs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tgp.errors import InputError
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged import Field, GraphTable
from tgp.store.format.strict_json import canonical

__all__ = ["DataDigest", "data_digest"]

_THREADED_BYTES = 1 << 24
"""Size of a table from which its fields are hashed in two threads."""

_PIECE_BYTES = 1 << 20
"""Size of the buffer for arrays that are not in the order of the digest. It fits in the cache of a core."""


class DataDigest:
    """Digest of a table of graphs that is passed in pieces of consecutive graphs.

    The digest does not depend on the size of the pieces. Each field has two running hashes: one of the number of rows of
    each graph, and one of the rows themselves (an array with ``axis=-1`` is hashed column by column). The digest depends
    on the order of the graphs, but not on the order of the fields.

    >>> table = GraphTable(np.array([0, 2, 3]), {"y": Field("y", np.array([1, 0]), np.arange(3))})
    >>> whole, pieces = DataDigest(), DataDigest()
    >>> whole.update(table)
    >>> pieces.update(table.take([0]))
    >>> pieces.update(table.take([1]))
    >>> whole.hexdigest() == pieces.hexdigest()
    True
    """

    def __init__(self) -> None:
        self._num_graphs = 0
        self._nodes = hashlib.sha256()
        self._fields: dict[str, tuple[bytes, Any, Any]] | None = None

    def update(self, table: GraphTable) -> None:
        """Add the next graphs.

        Args:
            table: Graphs with the same fields, types and shapes as those before.

        Raises:
            InputError: If the fields differ.
        """
        self._add_counts(table)
        assert self._fields is not None
        jobs = [(rows, table.fields[name]) for name, (_, _, rows) in self._fields.items()]
        # The fields have hashes of their own, and hashing releases the interpreter lock.
        if sum(entry.values.nbytes for _, entry in jobs) < _THREADED_BYTES:
            for job in jobs:
                _hash_rows(*job)
            return
        jobs.sort(key=lambda job: job[1].values.nbytes, reverse=True)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(_hash_rows, *zip(*jobs, strict=True)))

    def update_in_pieces(self, model: GraphTable, pieces: Mapping[str, Iterable[Array]]) -> None:
        """Add the next graphs, whose values do not fit in memory.

        Args:
            model: Graphs with the right offsets, types and shapes. The values are not read, so a field can be an array that
                ``numpy.broadcast_to`` makes.
            pieces: Rows of each field. The rows of an array with ``axis=-1`` are its columns.
        """
        self._add_counts(model)
        assert self._fields is not None
        for name, (_, _, rows) in self._fields.items():
            dtype = model.fields[name].values.dtype.newbyteorder("<")
            for piece in pieces[name]:
                rows.update(np.ascontiguousarray(piece, dtype=dtype).reshape(-1).view(np.uint8))

    def _add_counts(self, table: GraphTable) -> None:
        """Add the schema and the number of rows of each graph."""
        headers = {name: _header(entry) for name, entry in table.fields.items()}
        if self._fields is None:
            self._fields = {n: (h, hashlib.sha256(), hashlib.sha256()) for n, h in headers.items()}
        elif {n: h for n, (h, _, _) in self._fields.items()} != headers:
            raise InputError(
                "all pieces of a table must have the same fields, types and shapes", field="fields"
            )
        self._num_graphs += table.num_graphs
        _hash_counts(self._nodes, table.node_ptr)
        for name, (_, counts, _) in self._fields.items():
            _hash_counts(counts, table.fields[name].ptr)

    def hexdigest(self) -> str:
        """Return the digest of all graphs so far."""
        fields = {
            name: [header.decode(), counts.hexdigest(), rows.hexdigest()]
            for name, (header, counts, rows) in (self._fields or {}).items()
        }
        whole = {"num_graphs": self._num_graphs, "nodes": self._nodes.hexdigest(), "fields": fields}
        return hashlib.sha256(canonical(whole)).hexdigest()


def data_digest(table: GraphTable) -> str:
    """Return the digest of the content of graphs: names, types, shapes and bytes of all fields.

    Args:
        table: Graphs.

    Returns:
        SHA-256 in hexadecimal digits.
    """
    digest = DataDigest()
    digest.update(table)
    return digest.hexdigest()


def _header(entry: Field) -> bytes:
    """Return the schema of a field as bytes."""
    axis = entry.axis % entry.values.ndim
    tail = [n for i, n in enumerate(entry.values.shape) if i != axis]
    dtype = entry.values.dtype.newbyteorder("<").str
    return canonical([dtype, tail, entry.axis, entry.form, entry.shifted])


def _hash_counts(digest: Any, ptr: LongArray) -> None:
    step = _PIECE_BYTES // 8
    for low in range(0, len(ptr) - 1, step):
        digest.update(np.ascontiguousarray(np.diff(ptr[low : low + step + 1]), dtype="<i8"))


def _hash_rows(digest: Any, entry: Field) -> None:
    low, high = int(entry.ptr[0]), int(entry.ptr[-1])
    rows = np.moveaxis(entry.values, entry.axis, 0)[low:high]
    dtype = rows.dtype.newbyteorder("<")
    if not rows.size:
        return
    if rows.flags.c_contiguous and rows.dtype == dtype:
        digest.update(rows.reshape(-1).view(np.uint8))
        return
    step = max(_PIECE_BYTES // (dtype.itemsize * (rows.size // len(rows))), 1)
    buffer = np.empty((step, *rows.shape[1:]), dtype)
    for start in range(0, len(rows), step):
        given = rows[start : start + step]
        piece = buffer[: len(given)]
        if rows.ndim == 2:  # column by column is twice as fast as one assignment of a transposed array
            for column in range(rows.shape[1]):
                piece[:, column] = given[:, column]
        else:
            piece[...] = given
        digest.update(piece.reshape(-1).view(np.uint8))
