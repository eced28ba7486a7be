"""Distribute the entries of a matrix to buckets of rows, which are files. See :mod:`tgp.engine.external.merging`.

A *chunk* is a set of files with a part of the entries, sorted by bucket. Its owner writes it once. A bucket is read from all chunks, in their
order, so that the entries of a row keep the order in which they were found, for any number of chunks.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from tgp.engine.external.journal import Journal
from tgp.engine.external.ranges import LOCAL, RangeFunction, RangeMap
from tgp.engine.external.row_files import (
    RowFiles,
    raw_bytes,
    replace_file,
    write_all,
    write_array,
)
from tgp.errors import InputError
from tgp.kernels.array_types import Array, WordArray
from tgp.ragged.block import FloatArray, PtrArray

__all__ = [
    "Buckets",
    "Limits",
    "cut_items",
    "cut_rows",
    "fill_buckets",
    "fill_ranges",
    "sort_by_bucket",
    "write_chunk",
]

MAX_BUCKETS = 400
"""Largest number of buckets. With more of them, the parts of a bucket in the chunks are too short to be read quickly."""

Pieces = Callable[[int], Iterator[tuple[WordArray, FloatArray]]]
"""Function ``start -> pieces`` that yields keys and weights of entries. ``start`` is the number of pieces to leave out."""


@dataclass(frozen=True)
class Limits:
    """Sizes that bound the memory of a run.

    Args:
        piece: Number of entries that are read at once.
        bucket: Number of entries of a bucket.
        checkpoint: Number of entries of a chunk. The state of a run is recorded after each chunk.
    """

    piece: int
    bucket: int
    checkpoint: int = 1 << 25


def cut_rows(
    sizes: PtrArray, limits: Limits, what: str, parts: Mapping[int, Sequence[int]] | None = None
) -> PtrArray:
    """Return the bounds of the buckets ``[B + 1]``, so that each has at most ``limits.bucket`` entries.

    A bound is the key ``row << 32 | column`` of the first entry of a bucket.

    Args:
        sizes: ``[N]`` largest number of entries of each row. It is overwritten.
        limits: Sizes of the run.
        what: Description of the matrix for messages.
        parts: Bounds of the columns of rows that are divided, see :func:`cut_items`.

    Raises:
        InputError: If a row is larger than a bucket, or there are too many buckets.
    """
    parts = parts or {}
    sizes[list(parts)] = 0
    if len(sizes) and int(sizes.max()) > limits.bucket:
        row = int(sizes.argmax())
        raise InputError(
            f"{what} does not fit in memory: expected at most {limits.bucket:,} edges of a node, got {sizes[row]:,} of node "
            f"{row}",
            field="memory",
            hint="allow more memory",
        )
    bounds, start = [0], 0
    for row in [*sorted(parts), len(sizes)]:
        bounds += [(start + end) << 32 for end in cut_items(sizes[start:row], limits.bucket)[1:]]
        if row < len(sizes):
            bounds += [row << 32 | column for column in parts[row][1:-1]]
            bounds.append((row + 1) << 32)
            start = row + 1
    if len(bounds) - 1 > MAX_BUCKETS:
        raise InputError(
            f"{what} does not fit in memory: expected at most {MAX_BUCKETS} buckets of {limits.bucket:,} edges, got "
            f"{len(bounds) - 1}",
            field="memory",
            hint="allow more memory",
        )
    return np.array(bounds if len(bounds) > 1 else [0, 0], np.int64)


def cut_items(sizes: PtrArray, limit: int) -> list[int]:
    """Return the bounds of ranges of items, from 0 to the number of items.

    Args:
        sizes: Size of each item. It is overwritten.
        limit: Largest sum of the sizes of a range. A larger item has a range of its own.
    """
    ends = np.cumsum(sizes, out=sizes)
    bounds, before = [0], 0
    while bounds[-1] < len(ends):
        last = int(np.searchsorted(ends, before + limit, side="right"))
        bounds.append(max(last, bounds[-1] + 1))
        before = int(ends[bounds[-1] - 1])
    return bounds


@dataclass(frozen=True)
class Buckets:
    """Chunks with the entries of ranges of rows. A large row can be divided.

    Args:
        folder: Folder of the files.
        bounds: ``[B + 1]`` keys of the ranges, see :func:`cut_rows`.
        weighted: True if entries have weights.
        chunks: Names of the chunks, in the order of their entries.
    """

    folder: Path
    bounds: PtrArray
    weighted: bool
    chunks: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def num_rows(self) -> int:
        """Number of rows of all buckets."""
        return int(self.bounds[-1]) >> 32

    def row_range(self, bucket: int) -> tuple[int, int, bool]:
        """Return the first row of a bucket, the end of its rows, and True if the bucket before has a part of the first row."""
        low, high = self.bounds[bucket : bucket + 2].tolist()
        return low >> 32, (high + 2**32 - 1) >> 32, low % 2**32 != 0

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> Buckets:
        """Return the buckets that :meth:`to_plain` describes."""
        bounds = np.array(values["bounds"], np.int64)
        return Buckets(Path(values["folder"]), bounds, values["weighted"], tuple(values["chunks"]))

    def to_plain(self) -> dict[str, Any]:
        """Return a description of plain values, which can be sent to another process."""
        values = {"bounds": self.bounds.tolist(), "weighted": self.weighted, "chunks": list(self.chunks)}
        return {"folder": str(self.folder), **values}

    def count_entries(self) -> PtrArray:
        """Return the number of entries of each bucket."""
        sizes = np.zeros(len(self), np.int64)
        for name in self.chunks:
            parts = np.fromfile(self.folder / f"{name}.parts", np.int64).reshape(len(self), -1, 2)
            sizes += parts[:, :, 1].sum(axis=1)
        return sizes

    def read(self, bucket: int) -> tuple[WordArray, FloatArray]:
        """Return the entries of a bucket."""
        parts = [self._find_parts(name, bucket) for name in self.chunks]
        total = sum(int(part[:, 1].sum()) for part in parts)
        keys, values = np.empty(total, np.uint64), np.empty(total if self.weighted else 0)
        arrays: list[tuple[str, Array]] = [("keys", keys), ("values", values)][: 1 + self.weighted]
        for suffix, array in arrays:
            slot = 0
            for name, part in zip(self.chunks, parts, strict=True):
                with (self.folder / f"{name}.{suffix}").open("rb", buffering=0) as file:
                    slot = _read_parts(file, part, array, slot)
        return keys, values

    def _find_parts(self, name: str, bucket: int) -> PtrArray:
        """Return start and number of the entries of a bucket in each piece of a chunk."""
        path = self.folder / f"{name}.parts"
        width = path.stat().st_size // len(self)
        return np.fromfile(path, np.int64, width // 8, offset=bucket * width).reshape(-1, 2)

    def remove(self) -> None:
        """Delete the files."""
        for name in self.chunks:
            for suffix in ("parts", "keys", "values"):
                (self.folder / f"{name}.{suffix}").unlink(missing_ok=True)


def _read_parts(file: IO[bytes], parts: PtrArray, out: Array, slot: int) -> int:
    """Read the parts of a bucket from the file of a chunk to ``out[slot:]`` and return the end."""
    for start, count in parts.tolist():
        data = raw_bytes(out[slot : slot + count])
        file.seek(8 * start)
        while len(data):
            read = file.readinto(data)  # type: ignore[attr-defined]
            if not read:
                raise OSError(f"{file.name} ends too early: expected {count} entries from {start} on")
            data = data[read:]
        slot += count
    return slot


def write_chunk(
    folder: Path, name: str, weighted: bool, pieces: Iterable[tuple[PtrArray, WordArray, FloatArray]]
) -> None:
    """Write the files of a chunk. They appear when they are complete.

    Args:
        folder: Folder of the files.
        name: Name of the chunk.
        weighted: True if entries have weights.
        pieces: Results of :func:`sort_by_bucket`.
    """
    counts: list[PtrArray] = []
    with contextlib.ExitStack() as stack:
        suffixes = ("keys", "values")[: 1 + weighted]
        files = [stack.enter_context(replace_file(folder / f"{name}.{suffix}")) for suffix in suffixes]
        for found, *arrays in pieces:
            for file, data in zip(files, arrays, strict=False):
                write_all(file, raw_bytes(data))
            counts.append(found)
    write_array(folder / f"{name}.parts", _list_parts(counts))


def _list_parts(counts: list[PtrArray]) -> PtrArray:
    """Return ``[B, pieces, 2]``: start and number of the entries of each bucket in each piece."""
    if not counts:
        return np.empty(0, np.int64)
    table = np.stack(counts)  # [pieces, B], in the order of the file
    starts = (np.cumsum(table) - table.ravel()).reshape(table.shape)
    return np.stack([starts.T, table.T], axis=2)


def sort_by_bucket(
    keys: WordArray, values: FloatArray, weighted: bool, bounds: PtrArray
) -> tuple[PtrArray, WordArray, FloatArray]:
    """Return the number of entries of each bucket, and the keys and weights sorted by bucket, in their order.

    Args:
        keys: Entries, ``row << 32 | column``.
        values: Weights; not used if ``weighted`` is false.
        weighted: True if entries have weights.
        bounds: ``[B + 1]`` bounds of the buckets.
    """
    from tgp.kernels import external_rows as kernels

    counts = np.zeros(len(bounds) - 1, np.int64)
    kernels.count_buckets(keys, bounds, counts)
    sorted_keys, sorted_values = np.empty_like(keys), np.empty(len(keys) if weighted else 0)
    slots = np.cumsum(counts) - counts
    kernels.scatter_to_buckets(keys, values, weighted, bounds, slots, sorted_keys, sorted_values)
    return counts, sorted_keys, sorted_values


# Filling ----------------------------------------------------------------------------------------------


def fill_buckets(
    journal: Journal,
    step: str,
    name: str,
    bounds: PtrArray,
    weighted: bool,
    pieces: Pieces,
    limits: Limits,
    num_entries: int = 0,
) -> Buckets:
    """Distribute entries that are read one after the other to buckets, or continue to do so.

    Args:
        journal: Journal of the run. The buckets are files of its folder.
        step: Name of the step in the journal.
        name: First part of the names of the files.
        bounds: Bounds of the buckets.
        weighted: True if entries have weights.
        pieces: The entries.
        limits: Sizes of the run.
        num_entries: Number of entries for the display of progress; 0 if it is not known.
    """
    facts = journal.find(step) or {"pieces": 0, "entries": 0, "chunks": [], "complete": False}
    count, entries, chunks = facts["pieces"], facts["entries"], list(facts["chunks"])
    if not facts["complete"]:
        _remove_others(journal.folder, name, chunks)
        source, complete = _report_entries(journal, pieces(count), entries, num_entries), False
        while not complete:
            taken: list[int] = []
            chunk = _new_name(name, len(chunks))
            some = _take(source, limits.checkpoint, taken)
            parts = (sort_by_bucket(keys, values, weighted, bounds) for keys, values in some)
            write_chunk(journal.folder, chunk, weighted, parts)
            count, entries = count + len(taken), entries + sum(taken)
            complete = sum(taken) < limits.checkpoint
            chunks.append(chunk)
            journal.record(
                step, {"pieces": count, "entries": entries, "chunks": chunks, "complete": complete}
            )
    return Buckets(journal.folder, bounds, weighted, tuple(chunks))


def _report_entries(
    journal: Journal, pieces: Iterator[tuple[WordArray, FloatArray]], done: int, num_entries: int
) -> Iterator[tuple[WordArray, FloatArray]]:
    """Yield pieces and report the number of their entries."""
    for piece in pieces:
        yield piece
        done += len(piece[0])
        journal.report("sorting", done, num_entries)


def _take(
    pieces: Iterator[tuple[WordArray, FloatArray]], size: int, taken: list[int]
) -> Iterator[tuple[WordArray, FloatArray]]:
    """Yield pieces until they have ``size`` entries. The number of entries of each piece is appended to ``taken``."""
    total = 0
    for piece in pieces:
        total += len(piece[0])
        taken.append(len(piece[0]))
        yield piece
        if total >= size:
            return


def fill_ranges(
    journal: Journal,
    step: str,
    name: str,
    bounds: PtrArray,
    rows: RowFiles,
    function: RangeFunction,
    options: Mapping[str, Any],
    limits: Limits,
    ranges: RangeMap = LOCAL,
) -> Buckets:
    """Distribute entries that are made from ranges of the entries of a matrix, or continue to do so.

    Args:
        journal: Journal of the run. The buckets are files of its folder.
        step: Name of the step in the journal.
        name: First part of the names of the files.
        bounds: Bounds of the buckets.
        rows: The matrix.
        function: Range function that calls :func:`write_chunk`. Its job has ``rows``, ``low``, ``high``, ``piece``, ``bounds``,
            ``folder``, ``chunk`` and the options.
        options: Other values of the jobs. ``weighted`` is True if the new entries have weights.
        limits: Sizes of the run.
        ranges: Strategy that calls the function.
    """
    chosen = ranges.choose(rows.num_entries, 0)
    share = -(-rows.num_entries // (chosen.num_ranges if chosen.is_remote else 1))
    size = max(min(limits.checkpoint, share), limits.piece)
    facts = journal.find(step) or {"size": size, "chunks": {}}
    size, chunks = facts["size"], dict(facts["chunks"])
    numbers = range(-(-rows.num_entries // size))
    missing = [number for number in numbers if str(number) not in chunks]
    if missing:
        _remove_others(journal.folder, name, chunks.values())
    shared = {"rows": rows.to_plain(), "piece": limits.piece, "bounds": bounds.tolist(), **options}
    jobs = [
        {
            **shared,
            "low": number * size,
            "high": min((number + 1) * size, rows.num_entries),
            "folder": str(journal.folder),
            "chunk": _new_name(name, number),
        }
        for number in missing
    ]
    for number, job, _ in zip(missing, jobs, chosen.run(function, jobs), strict=True):
        chunks[str(number)] = job["chunk"]
        journal.record(step, {"size": size, "chunks": chunks})
        journal.report("sorting", len(chunks) * size, rows.num_entries)
    weighted = bool(options["weighted"])
    return Buckets(journal.folder, bounds, weighted, tuple(chunks[str(number)] for number in numbers))


def _new_name(name: str, number: int) -> str:
    """Return a name that no other process uses, such as a worker that still runs after the end of an earlier run."""
    return f"{name}.{number}-{secrets.token_hex(4)}"


def _remove_others(folder: Path, name: str, chunks: Collection[str]) -> None:
    """Delete the files of chunks that were not recorded."""
    for path in folder.glob(f"{name}.*"):
        if not path.name.startswith(tuple(f"{chunk}." for chunk in chunks)):
            path.unlink(missing_ok=True)
