"""Convert a file of edges into sorted rows on disk, with bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tgp.engine.external.buckets import Limits, cut_rows, fill_buckets
from tgp.engine.external.journal import Journal
from tgp.engine.external.merging import merge_buckets
from tgp.engine.external.ranges import LOCAL, RangeMap
from tgp.engine.external.row_files import RowFiles, raw_bytes, read_array, write_array
from tgp.errors import DatasetError
from tgp.kernels.array_types import FloatArray, LongArray, WordArray
from tgp.ragged.block_checks import MAX_NODES
from tgp.sources.edge_reader import EdgePiece, EdgeReader
from tgp.sources.edge_text import NO_EDGES_HINT

__all__ = ["InputGraph", "check_number", "convert_edges", "file_changed"]

SCAN_SIZE = 1 << 18
"""Largest number of edges that are parsed at once."""

_CHECKPOINT = 1 << 24
"""Number of edges after which the state of parsing is recorded."""

Pieces = Callable[[int], Iterator[EdgePiece]]


@dataclass(frozen=True)
class InputGraph:
    """The input graph in files.

    Args:
        rows: Rows, sorted and without parallel edges. Each edge is stored in both directions.
        weight_dtype: Name of the type of the weights; ``None`` if there are none.
        node_ids: File with the original id of each node, int64; ``None`` if nodes have the ids of the file.
    """

    rows: RowFiles
    weight_dtype: str | None
    node_ids: Path | None


def convert_edges(
    journal: Journal,
    reader: EdgeReader,
    choose_limits: Callable[[int], Limits],
    memory: int,
    ranges: RangeMap = LOCAL,
) -> InputGraph:
    """Sort the edges of a file into rows, or continue to do so.

    Every edge gets both directions, unless the file is an array that has them already. Parallel edges are merged, and their weights are
    added up. Self loops are stored once.

    Args:
        journal: Journal of the run. All files are in its folder.
        reader: The edges.
        choose_limits: Function that returns the sizes of the run for a number of nodes, or raises an error.
        memory: Number of bytes that the set of used ids may need.
        ranges: Strategy that merges the buckets of edges.

    Raises:
        DatasetError: If the file has no edges or a wrong id, or the graph has too many nodes.
    """
    facts = _scan(journal, reader)
    pieces = _piece_reader(journal, reader, facts)
    num_nodes, node_ids, number = _number_nodes(journal, reader, facts, pieces, memory)
    limits = choose_limits(num_nodes)
    weighted = facts["weight_dtype"] is not None
    mirror = not (reader.keeps_symmetric and facts["symmetry"] == 0)
    bounds = _cut(journal, pieces, number, num_nodes, mirror, limits)
    from tgp.kernels import edge_input as kernels
    from tgp.kernels._prims import SUM

    def mirrored(start: int) -> Iterator[tuple[WordArray, FloatArray]]:
        size = _edges_at_once(limits)
        for piece in pieces(size)(start * size):
            ids = number(piece.edges.ravel())
            size_ = len(ids) if mirror else len(ids) // 2
            keys, values = np.empty(size_, np.uint64), np.empty(size_ if weighted else 0)
            weight = np.empty(0) if piece.weight is None else piece.weight
            count = kernels.mirror_edges(ids, weight, weighted, mirror, keys, values)
            yield keys[:count], values[:count]

    total = facts["edges"] * (2 if mirror else 1)
    buckets = fill_buckets(journal, "input:fill", "input.bucket", bounds, weighted, mirrored, limits, total)
    for name in ("edges.ids", "edges.weight"):
        (journal.folder / name).unlink(missing_ok=True)
    dtype = facts["weight_dtype"]

    def refuse(weight: float) -> DatasetError:
        return DatasetError(
            f"{reader.path}: the weights of parallel edges are too large: expected a finite sum of type {dtype}"
        )

    rows = merge_buckets(
        journal, "input:merge", "input", buckets, SUM, -1.0, dtype=dtype, refuse=refuse, ranges=ranges
    )
    return InputGraph(rows, dtype, node_ids)


def _edges_at_once(limits: Limits) -> int:
    return max(limits.piece // 4, 1)


def _scan(journal: Journal, reader: EdgeReader) -> dict[str, Any]:
    """Read the file once: check it, find the largest id, and store the numbers of a text in binary form."""
    start = {"position": 0, "edges": 0, "max_id": -1, "weight_dtype": None, "complete": False}
    start |= {"symmetry": 0, "salt": int.from_bytes(os.urandom(7), "little")}
    facts = dict(journal.find("input:scan") or start)
    if facts["complete"]:
        return facts
    paths = [journal.folder / name for name in ("edges.ids", "edges.weight")]
    files = [path.open("r+b" if facts["edges"] else "w+b") for path in paths] if reader.needs_copy else []
    try:
        for file, width in zip(files, (16, 8), strict=False):
            file.truncate(facts["edges"] * width if width == 16 or facts["weight_dtype"] else 0)
            file.seek(0, os.SEEK_END)
        recorded = facts["edges"]
        expected, _ = reader.estimate_edges()
        for piece in reader.read(SCAN_SIZE, facts["position"]):
            _check_piece(piece, reader, facts)
            journal.report("reading", facts["edges"], expected)
            for file, values in zip(files, (piece.edges, piece.weight), strict=False):
                if values is not None:
                    file.write(raw_bytes(values))
            if facts["edges"] - recorded >= _CHECKPOINT:
                _sync(files)
                journal.record("input:scan", facts)
                recorded = facts["edges"]
        _sync(files)
    finally:
        for file in files:
            file.close()
    if not facts["edges"]:
        hint = NO_EDGES_HINT if reader.needs_copy else None
        raise DatasetError(f"{reader.path} holds no edges", hint=hint)
    reader.check_complete(facts["edges"])
    facts["complete"] = True
    journal.record("input:scan", facts)
    return facts


def _sync(files: list[Any]) -> None:
    for file in files:
        file.flush()
        os.fsync(file.fileno())


def _check_piece(piece: EdgePiece, reader: EdgeReader, facts: dict[str, Any]) -> None:
    """Check the ids and weights of a piece and add it to the facts of the scan."""
    from tgp.kernels import edge_input as kernels

    facts["position"] = piece.position
    if not len(piece.edges):
        return
    dtype = None if piece.weight is None or reader.weight_dtype is None else reader.weight_dtype.name
    if facts["edges"] and dtype != facts["weight_dtype"]:
        raise DatasetError(
            f"{reader.path}: expected a weight on all lines or on none, got both kinds of lines"
        )
    limit = 2**63 if reader.num_nodes is None else reader.num_nodes
    low, high = int(piece.edges.min()), int(piece.edges.max())
    if low < 0 or high >= limit:
        wrong = ((piece.edges < 0) | (piece.edges >= min(limit, 2**63 - 1))).any(axis=1)
        edge = int(np.argmax(wrong))
        expected = "from 0 on" if reader.num_nodes is None else f"in [0, {limit})"
        raise DatasetError(
            f"{reader.path} has a wrong id: expected ids {expected}, got {piece.edges[edge].tolist()} at edge {facts['edges'] + edge}"
        )
    if reader.keeps_symmetric:
        bits = np.empty(0, np.uint64) if piece.weight is None else piece.weight.view(np.uint64)
        found = kernels.symmetry_sum(piece.edges.ravel(), bits, dtype is not None, facts["salt"])
        facts["symmetry"] = (facts["symmetry"] + int(found)) % 2**64
    facts["weight_dtype"] = dtype
    facts["edges"] += len(piece.edges)
    facts["max_id"] = max(facts["max_id"], high)


def _piece_reader(journal: Journal, reader: EdgeReader, facts: dict[str, Any]) -> Callable[[int], Pieces]:
    """Return a function ``size -> start -> pieces`` that reads the edges again, from edge ``start`` on."""
    if not reader.needs_copy:
        return lambda size: lambda start: _check_again(reader.read(size, start), reader, facts)

    def read(size: int, start: int) -> Iterator[EdgePiece]:
        for low in range(start, facts["edges"], size):
            count = min(size, facts["edges"] - low)
            ids = np.fromfile(journal.folder / "edges.ids", np.int64, 2 * count, offset=16 * low)
            weight = None
            if facts["weight_dtype"] is not None:
                weight = np.fromfile(journal.folder / "edges.weight", np.float64, count, offset=8 * low)
            yield EdgePiece(ids.reshape(-1, 2), weight, low + count)

    return lambda size: lambda start: read(size, start)


def _check_again(
    pieces: Iterator[EdgePiece], reader: EdgeReader, facts: dict[str, Any]
) -> Iterator[EdgePiece]:
    """Yield pieces of a later pass. Kernels rely on ids in the range that the first pass has found."""
    for piece in pieces:
        if len(piece.edges) and not 0 <= piece.edges.min() <= piece.edges.max() <= facts["max_id"]:
            raise file_changed(reader)
        yield piece


def file_changed(reader: EdgeReader) -> DatasetError:
    """Return the error for a file that another program has changed during the run.

    Args:
        reader: Reader of the file.
    """
    return DatasetError(
        f"{reader.path} has changed while it was read: expected the same edges in each pass",
        hint="run the command again when no other program writes the file",
    )


def _number_nodes(
    journal: Journal, reader: EdgeReader, facts: dict[str, Any], pieces: Callable[[int], Pieces], memory: int
) -> tuple[int, Path | None, Callable[[LongArray], LongArray]]:
    """Return the number of nodes, the file of their original ids, and the function that numbers ids again."""
    from tgp.kernels import edge_input as kernels

    num_ids = facts["max_id"] + 1 if reader.num_nodes is None else reader.num_nodes
    if not reader.has_holes:
        check_number(num_ids, reader)
        return num_ids, None, np.ascontiguousarray
    if num_ids // 4 > memory:
        raise DatasetError(
            f"{reader.path} has ids that are too large for this memory: expected ids below {4 * memory}, got {num_ids - 1}",
            hint="number the nodes from 0 on, or allow more memory",
        )
    words, ids = journal.folder / "nodes.bits", journal.folder / "nodes.ids"
    if journal.find("input:ids") is None:
        bits = np.zeros((num_ids >> 6) + 1, np.uint64)
        for piece in pieces(SCAN_SIZE)(0):
            kernels.mark_ids(piece.edges.ravel(), bits)
            journal.report("numbering the nodes of", piece.position, facts["edges"])
        num_nodes = int(_count_each(bits).sum())
        check_number(num_nodes, reader)
        if num_nodes < num_ids:
            write_array(words, bits)
            _write_ids(ids, bits)
        journal.record("input:ids", num_nodes)
    num_nodes = journal.find("input:ids")
    if num_nodes == num_ids:
        return num_nodes, None, np.ascontiguousarray
    bits = read_array(words, np.uint64)
    before = np.zeros(len(bits), np.int64)
    np.cumsum(_count_each(bits[:-1]), out=before[1:])

    def number(found: LongArray) -> LongArray:
        kernels.rank_ids(bits, before, found)
        return found

    return num_nodes, ids, number


def _count_each(bits: WordArray) -> LongArray:
    """Return the number of bits of each word."""
    table = np.array([bin(byte).count("1") for byte in range(256)], np.int64)
    found = np.empty(len(bits), np.int64)
    for low in range(0, len(bits), SCAN_SIZE):
        part = bits[low : low + SCAN_SIZE]
        found[low : low + SCAN_SIZE] = table[part.view(np.uint8).reshape(-1, 8)].sum(axis=1)
    return found


def check_number(num_nodes: int, reader: EdgeReader) -> None:
    """Check that the number of nodes is at most 2^31 - 1.

    Args:
        num_nodes: Number of nodes.
        reader: Reader of the file.

    Raises:
        DatasetError: If there are more nodes.
    """
    if num_nodes > MAX_NODES:
        raise DatasetError(
            f"{reader.path} has too many nodes: expected at most 2^31 - 1 = {MAX_NODES}, got {num_nodes}",
            hint="in arrays, all ids up to the largest one are nodes: number the nodes from 0 on, or write the edges as text or Parquet, "
            "whose nodes are numbered again",
        )


def _write_ids(path: Path, bits: WordArray) -> None:
    """Write the ids whose bit is set, ascending."""
    step = SCAN_SIZE // 8
    with path.open("wb") as file:
        for low in range(0, len(bits), step):
            part = np.ascontiguousarray(bits[low : low + step], "<u8").view(np.uint8)
            found = np.flatnonzero(np.unpackbits(part, bitorder="little")) + 64 * low
            file.write(raw_bytes(found.astype(np.int64)))
        _sync([file])


def _cut(
    journal: Journal,
    pieces: Callable[[int], Pieces],
    number: Callable[[LongArray], LongArray],
    num_nodes: int,
    mirror: bool,
    limits: Limits,
) -> LongArray:
    """Return the ranges of rows of the buckets."""
    from tgp.kernels import edge_input as kernels

    if journal.find("input:bounds") is None:
        total = journal.find("input:scan")["edges"]
        sizes = np.zeros(num_nodes, np.int64)
        for piece in pieces(_edges_at_once(limits))(0):
            kernels.count_entries(number(piece.edges.ravel()), mirror, sizes)
            journal.report("counting", piece.position, total)
        journal.record("input:bounds", cut_rows(sizes, limits, "the graph").tolist())
    return np.array(journal.find("input:bounds"), np.int64)
