"""Divide the arrays of one large graph, or of a level of it, over several files by row range.

Each file is written and recorded on its own, so an interrupted run continues with the next one. See decision 1432.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import h5py
import numpy as np

from tgp.errors import InputError
from tgp.kernels.array_types import Array
from tgp.store.format import constants as fmt
from tgp.store.format.codec import create_array
from tgp.store.format.pieces import PieceRecord, Span
from tgp.store.io.sink import Sink
from tgp.store.write.shard import PartSummary, ShardFile

if TYPE_CHECKING:
    from tgp.store.write.part_writer import PartWriter

__all__ = [
    "NOT_DIVIDED",
    "Column",
    "Divided",
    "Ranges",
    "Target",
    "find_ranges",
    "write_columns",
    "write_pieces",
]

Chunk = tuple[Array, ...]


@dataclass(frozen=True)
class Divided:
    """Arrays of a part that are in pieces.

    Args:
        pieces: Records of the pieces.
        paths: Paths of the arrays, without ``/`` at the start. The file of the part does not contain them.
    """

    pieces: tuple[PieceRecord, ...] = ()
    paths: frozenset[str] = frozenset()

    def __add__(self, other: Divided) -> Divided:
        return Divided(self.pieces + other.pieces, self.paths | other.paths)


NOT_DIVIDED = Divided()


@dataclass(frozen=True)
class Ranges:
    """Row ranges of one graph. Range ``k`` has the rows ``rows[k]:rows[k + 1]`` and the edges ``edges[k]:edges[k + 1]``.

    Args:
        rows: Bounds of the rows.
        edges: Bounds of the edges.
        num_nodes: Number of nodes of the finer graph, which are divided evenly; 0 for an input graph.
    """

    rows: tuple[int, ...]
    edges: tuple[int, ...]
    num_nodes: int = 0

    def __len__(self) -> int:
        return len(self.rows) - 1

    @property
    def spans(self) -> list[dict[str, Span]]:
        """Rows, edges and finer nodes of each range."""
        nodes = [self.num_nodes * k // len(self) for k in range(len(self) + 1)]
        spans = zip(pairwise(self.rows), pairwise(self.edges), pairwise(nodes), strict=True)
        return [{"rows": r, "edges": e, "nodes": n} for r, e, n in spans]


@dataclass(frozen=True)
class Target:
    """One divided array.

    Args:
        path: Path in the file, without ``/`` at the start.
        dtype: Stored type, the same in all pieces.
        attributes: Attributes of the array.
        tail: Lengths of the other axes.
        axis: Axis of the rows: 0, or -1 for a list of edges.
    """

    path: str
    dtype: np.dtype[Any]
    attributes: Mapping[str, str | int]
    tail: tuple[int, ...] = ()
    axis: int = 0


@dataclass(frozen=True)
class Column:
    """Arrays that are read together, front to back.

    Args:
        counts: Range that gives the rows of the arrays.
        targets: Arrays.
        chunks: Function that yields consecutive rows of all of them.
    """

    counts: Literal["rows", "edges", "nodes"]
    targets: tuple[Target, ...]
    chunks: Callable[[], Iterable[Chunk]]


@dataclass
class _Cursor:
    """Position in a column."""

    column: Column
    chunks: Iterator[Chunk] = field(init=False)
    rest: Chunk | None = None

    def __post_init__(self) -> None:
        self.chunks = iter(self.column.chunks())

    def take(self, count: int) -> Iterator[Chunk]:
        """Yield the next rows."""
        while count:
            if self.rest is None:
                self.rest = next(self.chunks, None)
                assert self.rest is not None, "a column yields too few rows"
            length = self.length(self.rest)
            if length > count:
                yield self._cut(self.rest, slice(None, count))
                self.rest, count = self._cut(self.rest, slice(count, None)), 0
            else:
                yield self.rest
                self.rest, count = None, count - length

    def skip(self, count: int) -> None:
        """Pass over the next rows."""
        for _ in self.take(count):
            pass

    def length(self, chunk: Chunk) -> int:
        """Return the number of rows of a chunk."""
        return int(chunk[0].shape[self.column.targets[0].axis])

    def _cut(self, chunk: Chunk, rows: slice) -> Chunk:
        pairs = zip(chunk, self.column.targets, strict=True)
        return tuple(a[rows] if target.axis == 0 else a[..., rows] for a, target in pairs)


def find_ranges(
    num_rows: int, num_edges: int, sources: Iterable[Array], limit: int | None, num_nodes: int = 0
) -> Ranges | None:
    """Return row ranges with about ``limit`` edges each, or ``None`` if the graph is not divided.

    A range ends before the row with edge number ``limit``, ``2 * limit`` and so on. It depends on nothing else.

    Args:
        num_rows: Number of nodes of the graph.
        num_edges: Number of its edges.
        sources: Pieces of the sources of the edges, in ascending order.
        limit: Number of edges of a range, or ``None``.
        num_nodes: Number of nodes of the finer graph.

    Raises:
        InputError: If there were too many ranges.
    """
    if limit is None or num_edges <= limit:
        return None
    if num_edges // limit >= fmt.MAX_PIECES:
        raise InputError(
            f"shard_edges is too small for {num_edges:,} edges: expected at least {num_edges // fmt.MAX_PIECES + 1}, "
            f"got {limit}",
            field="shard_edges",
        )
    rows, edges = [0], [0]
    low, last, start, wanted = 0, -1, 0, limit
    for chunk in sources:
        if not len(chunk):
            continue
        high, first_start = low + len(chunk), start if int(chunk[0]) == last else low
        while wanted < high:
            row = int(chunk[wanted - low])
            begin = first_start if row == int(chunk[0]) else low + int(np.searchsorted(chunk, row))
            if row > rows[-1]:
                rows.append(row)
                edges.append(begin)
            wanted += limit
        last = int(chunk[-1])
        start = first_start if last == int(chunk[0]) else low + int(np.searchsorted(chunk, last))
        low = high
    if len(rows) == 1:
        return None
    return Ranges((*rows, num_rows), (*edges, num_edges), num_nodes)


def write_pieces(
    writer: PartWriter,
    unit: int,
    part: str,
    level: int,
    ranges: Ranges,
    columns: Sequence[Column],
    first: int,
) -> Divided:
    """Write the pieces of one graph or level. Those that an earlier run has finished are kept.

    Args:
        writer: Writer of the store.
        unit: Number of the unit.
        part: ``"graphs"`` or the name of a hierarchy.
        level: Position of the level; 0 for an input graph.
        ranges: Row ranges.
        columns: Divided arrays.
        first: Number of the first piece.

    Returns:
        Records of the pieces, and paths of the arrays in them.

    Raises:
        InputError: If the part had too many pieces.
    """
    if first + len(ranges) > fmt.MAX_PIECES:
        raise InputError(
            f"shard_edges is too small for {part!r}: expected at most {fmt.MAX_PIECES} pieces, got more",
            field="shard_edges",
        )
    cursors = [_Cursor(column) for column in columns]
    records = []
    for number, spans in enumerate(ranges.spans, first):
        record = writer.find_piece(unit, part, number)
        if record is None or (record.level, *_spans_of(record)) != (level, *spans.values()):
            blank = PieceRecord("", 0, "", "", level, **spans)
            record = writer.write_piece(
                unit, part, number, blank, _filler(writer, unit, part, number, blank, cursors)
            )
        else:
            for cursor in cursors:
                cursor.skip(_length(spans[cursor.column.counts]))
        records.append(record)
    paths = frozenset(target.path for column in columns for target in column.targets)
    return Divided(tuple(records), paths)


def _length(span: Span) -> int:
    return span[1] - span[0]


def _spans_of(record: PieceRecord) -> tuple[Span, Span, Span]:
    return record.rows, record.edges, record.nodes


def _filler(
    writer: PartWriter, unit: int, part: str, number: int, record: PieceRecord, cursors: Sequence[_Cursor]
) -> Callable[[Sink], PartSummary]:
    """Return the function that writes the content of a piece."""
    header = {
        "part": part,
        "unit": unit,
        "first_graph": writer.spec.bounds[unit],
        "num_graphs": 1,
        "piece": number,
        **record.header,
    }

    def fill(sink: Sink) -> PartSummary:
        with ShardFile(sink, writer.spec.profile, header) as out:
            _write(out, cursors, [_length(getattr(record, cursor.column.counts)) for cursor in cursors])
        return PartSummary()

    return fill


def write_columns(
    out: ShardFile, columns: Sequence[Column], counts: Mapping[str, int], divided: Divided
) -> int:
    """Write whole columns to the file of a part, without those that are in pieces.

    Args:
        out: File of the part.
        columns: Columns of one graph or level.
        counts: Number of ``rows``, ``edges`` and ``nodes``.
        divided: Arrays that are in pieces.

    Returns:
        Size of all arrays in bytes, also of those in pieces.
    """
    kept = [c for c in columns if not any(target.path in divided.paths for target in c.targets)]
    _write(out, [_Cursor(column) for column in kept], [counts[column.counts] for column in kept])
    return sum(
        counts[column.counts] * math.prod(target.tail) * target.dtype.itemsize
        for column in columns
        for target in column.targets
    )


def _write(out: ShardFile, cursors: Sequence[_Cursor], counts: Sequence[int]) -> None:
    """Create the arrays of some columns, and write the next rows to them."""
    targets = {t.path: (t, n) for c, n in zip(cursors, counts, strict=True) for t in c.column.targets}
    arrays = {path: _create(out, *targets[path]) for path in targets}
    for cursor, count in zip(cursors, counts, strict=True):
        low = 0
        for chunk in cursor.take(count):
            high = low + cursor.length(chunk)
            for target, values in zip(cursor.column.targets, chunk, strict=True):
                place = (slice(low, high),) if target.axis == 0 else (..., slice(low, high))
                arrays[target.path][place] = values.astype(target.dtype, copy=False)
            low = high


def _create(out: ShardFile, target: Target, rows: int) -> h5py.Dataset:
    shape = (rows, *target.tail) if target.axis == 0 else (*target.tail, rows)
    group, _, name = target.path.rpartition("/")
    return create_array(out.group(f"/{group}"), name, shape, target.dtype, target.attributes)
