"""Read lists of edges from text: lines ``u v`` or ``u v weight``, at once or piece by piece."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tgp.errors import DatasetError
from tgp.input_limits import decompress
from tgp.kernels.array_types import FloatArray, LongArray
from tgp.sources.edge_reader import EdgePiece, EdgeReader, check_weights

__all__ = [
    "NO_EDGES_HINT",
    "TextReader",
    "check_declared_edges",
    "find_declared_edges",
    "parse_edge_text",
]

_INTEGERS = re.compile(r"[0-9,; \t\n]*")
_SEPARATORS = str.maketrans(",;", "  ")
_BLANKS = "\ufeff \t\r\v\f"
"""Characters in front of a line, with the byte order mark that some programs write at the start of a file."""

_DECLARED = re.compile(r"^p[ \t]+sp[ \t]+\d+[ \t]+(\d{1,18})[ \t\r]*$", re.MULTILINE)
_MAX_ID = np.iinfo(np.int64).max
_MAX_LINE = 10_000
_BYTES_PER_LINE = 16
"""Bytes of text that are read for each edge of a piece."""

_CHUNK = 1 << 20


def parse_edge_text(
    path: Path | str, text: str, before: int = 0, has_edges: bool = False
) -> tuple[LongArray, FloatArray]:
    """Parse whole lines ``u v`` or ``u v weight``, separated by blanks, commas or semicolons. Comments and headings are left out.

    Args:
        path: Name of the file for messages.
        text: The lines.
        before: Number of lines before them.
        has_edges: True if there is an edge before them, so that there are no more headings.

    Returns:
        The ids, two for each edge, and the weights of the lines that have one.

    Raises:
        DatasetError: If a line has another form.
    """
    found = _parse_integers(text)
    return _parse_lines(path, before, text, has_edges) if found is None else found


def find_declared_edges(text: str) -> int:
    """Return the number of edges that the line ``p sp NODES EDGES`` of a DIMACS file of roads declares; 0 if there is no such line.

    Args:
        text: Start of the file.
    """
    found = _DECLARED.search(text)
    return 0 if found is None else int(found[1])


def check_declared_edges(path: Path, declared: int, num_edges: int) -> None:
    """Check that a file has as many edges as it declares.

    Args:
        path: File.
        declared: Result of :func:`find_declared_edges`.
        num_edges: Number of its edges.

    Raises:
        DatasetError: If it has fewer edges.
    """
    if num_edges < declared:
        raise DatasetError(
            f"{path} is truncated: expected {declared:,} edges as in its line 'p sp', got {num_edges:,}",
            hint="get the file again",
        )


def _parse_integers(text: str) -> tuple[LongArray, FloatArray] | None:
    """Return ids and weights of lines of two or three whole numbers; ``None`` for all other text."""
    if not text.strip(" ,;\t\n") or not _INTEGERS.fullmatch(text):
        return None
    try:
        table = np.loadtxt(StringIO(text.translate(_SEPARATORS)), np.int64, comments=None, ndmin=2)
    except ValueError:
        return None
    if table.shape[1] not in (2, 3):
        return None
    return np.ascontiguousarray(table[:, :2]).ravel(), table[:, 2:].ravel().astype(np.float64)


def _parse_lines(path: Path | str, before: int, text: str, has_edges: bool) -> tuple[LongArray, FloatArray]:
    """Return ids and weights of lines of any kind. ``before`` is the number of lines before them."""
    ids, weights = array("q"), array("d")
    for number, line in enumerate(text.split("\n"), before + 1):
        # After the first edge, a line that is neither an edge nor a comment is damaged.
        if _is_edge(line) or ((has_edges or ids) and not _is_comment(line)):
            u, v, *weight = _parse_edge(path, number, line)
            ids.extend((u, v))
            weights.extend(weight)
    return np.array(ids, np.int64), np.array(weights, np.float64)


def _is_edge(line: str) -> bool:
    """Return False for comments, headings, and the lines 'p' and 'c' of DIMACS files."""
    text = line.lstrip(_BLANKS)
    word = text[:1]
    return word.isdigit() or (word in ("a", "e") and text[1:2] == " ") or _starts_with_number(text)


def _is_comment(line: str) -> bool:
    """Return True for empty lines, comments, and the lines 'p' and 'c' of DIMACS files."""
    text = line.strip(_BLANKS + ",;")
    return not text or text[0] in "#%cp/" or text.startswith("--")


def _starts_with_number(text: str) -> bool:
    """Return True if the first word is a number that is not a node id, such as -1 or nan."""
    words = text[:64].translate(_SEPARATORS).split(maxsplit=1)
    try:
        float(words[0])
    except (ValueError, IndexError):
        return False
    return True


NO_EDGES_HINT = (
    "an edge list has lines 'u v' or 'u v weight' of numbers; number nodes that have names, or return "
    "networkx.read_edgelist(path) from a function (--dataset mine.py:load)"
)
"""Hint for a text file without edges, whose lines may name nodes by words."""


def _parse_edge(path: Path | str, number: int, line: str) -> tuple[Any, ...]:
    words = line.lstrip(_BLANKS).translate(_SEPARATORS).split()
    if words[0] in ("a", "e"):
        words = words[1:]
    try:
        u, v = int(words[0]), int(words[1])
        if len(words) not in (2, 3) or not (0 <= u <= _MAX_ID and 0 <= v <= _MAX_ID):
            raise ValueError
        return (u, v, *(float(w) for w in words[2:]))
    except (ValueError, IndexError):
        raise DatasetError(
            f"{path}, line {number}: expected 'u v' or 'u v weight' with ids from 0 to 2^63 - 1, "
            f"got {line.strip()[:80]!r}"
        ) from None


class TextReader(EdgeReader):
    """Reader of lines ``u v`` or ``u v weight``, which may be compressed (``.gz``, ``.xz``). A position is an offset in bytes of the text.

    Args:
        path: File.
        num_nodes: Number of nodes, if it is known. Ids are then numbers of nodes.
    """

    needs_copy = True
    keeps_symmetric = False

    def __init__(self, path: Path, num_nodes: int | None = None) -> None:
        super().__init__(path)
        self.num_nodes, self.has_holes = num_nodes, num_nodes is None
        self._has_edges = False
        """True if edges have been read before the current position."""
        self._bytes_read = 0
        """Number of bytes of the file that the last call of :meth:`read` has read."""

    def _read(self, size: int, position: int) -> Iterator[EdgePiece]:
        rest, self._has_edges = b"", position > 0
        with self.path.open("rb") as stored, decompress(stored, self.path.suffix) as file:
            _skip(file, position)
            while data := file.read(max(size * _BYTES_PER_LINE, 64)):
                self._bytes_read = stored.tell()
                text = rest + data
                end = text.rfind(b"\n") + 1
                rest = text[end:]
                if len(rest) > _MAX_LINE:
                    raise DatasetError(
                        f"{self.path} has a line that is too long: expected at most {_MAX_LINE} characters"
                    )
                if end:
                    position += end
                    yield self._parse(text[:end], position)
            if rest:
                yield self._parse(rest, position + len(rest))

    def check_complete(self, num_edges: int) -> None:
        """Check that a DIMACS file has as many edges as it declares."""
        check_declared_edges(self.path, find_declared_edges(self.read_text(1 << 16)), num_edges)

    def read_text(self, size: int) -> str:
        """Return the first ``size`` bytes of the text."""
        with self.path.open("rb") as stored, decompress(stored, self.path.suffix) as file:
            return file.read(size).decode("utf-8", "replace")

    def _parse(self, text: bytes, position: int) -> EdgePiece:
        from tgp.kernels import edge_input

        ids, weights = np.empty(len(text) // 2 + 2, np.int64), np.empty(len(text) // 4 + 2)
        counts = np.zeros(2, np.int64)
        if edge_input.parse_edges(np.frombuffer(bytearray(text), np.int8), ids, weights, counts):
            edges, values = ids[: 2 * counts[0]].reshape(-1, 2), weights[: counts[1]]
        else:
            found, values = self._parse_other(text, position - len(text))
            edges = found.reshape(-1, 2)
        self._has_edges = self._has_edges or len(edges) > 0
        where = f"{self.path}, text that ends at byte {position}"
        if len(values) not in (0, len(edges)):
            raise DatasetError(f"{where}: expected a weight on all lines or on none, got both kinds of lines")
        if not len(values):
            return EdgePiece(edges, None, position)
        self.weight_dtype = np.dtype(np.float32)
        return EdgePiece(edges, check_weights(values, where, np.float32), position)

    def _parse_other(self, text: bytes, start: int) -> tuple[LongArray, FloatArray]:
        """Parse lines that the kernel does not know, and name the line of an error."""
        try:
            lines = text.decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"{self.path}, text from byte {start} to {start + len(text)}"
            raise DatasetError(f"{where}: expected text, got other bytes: {error}") from error
        try:
            return parse_edge_text(self.path, lines, 0, self._has_edges)
        except DatasetError:  # again, with the number of the first line
            return parse_edge_text(self.path, lines, self._count_lines(start), self._has_edges)

    def _count_lines(self, position: int) -> int:
        """Return the number of lines before a position."""
        count = 0
        with self.path.open("rb") as stored, decompress(stored, self.path.suffix) as file:
            while position and (data := file.read(min(position, _CHUNK))):
                position -= len(data)
                count += data.count(b"\n")
        return count

    def estimate_edges(self) -> tuple[int, int]:
        """Return the estimated number of edges and of nodes, from the first lines."""
        piece = next(self.read(1 << 16), None)
        if piece is None or not len(piece.edges):
            return 0, self.num_nodes or 0
        edges = max(int(len(piece.edges) * self.path.stat().st_size / max(self._bytes_read, 1)), 1)
        guess = min(int(piece.edges.max()) + 1, 2 * edges)
        return edges, guess if self.num_nodes is None else self.num_nodes


def _skip(file: BinaryIO, position: int) -> None:
    """Go to a position of a file that may be compressed."""
    if file.seekable():
        file.seek(position)
        return
    while position and (data := file.read(min(position, _CHUNK))):
        position -= len(data)
