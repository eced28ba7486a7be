"""Records of files, and the table of row ranges of a graph whose arrays are divided over several files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tgp.store.format import constants as fmt
from tgp.store.format.strict_json import Document, seal, unseal

__all__ = ["FileRecord", "PieceCompletion", "PieceRecord", "Span", "parse_pieces"]

Span = tuple[int, int]
"""First row of a range, and the row after the last one."""


@dataclass(frozen=True)
class FileRecord:
    """Size and digests of one file.

    Args:
        file: Name of the file in the store.
        size: Size in bytes.
        sha256: Digest of all bytes.
        ends: Digest of the first and last 4096 bytes, which is checked whenever the file is opened.
    """

    file: str
    size: int
    sha256: str
    ends: str


@dataclass(frozen=True)
class PieceRecord(FileRecord):
    """File with a range of the rows of one graph, or of one level of it.

    Args:
        level: Position of the level in the schedule; 0 for an input graph.
        rows: Nodes of the graph or supernodes of the level, with their attributes and the edges that start there.
        edges: These edges.
        nodes: Nodes of the finer graph whose supernodes the file has. Always empty for an input graph.
    """

    level: int
    rows: Span
    edges: Span
    nodes: Span

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {
            "file": self.file,
            "size": self.size,
            "sha256": self.sha256,
            "ends": self.ends,
            "level": self.level,
            "rows": list(self.rows),
            "edges": list(self.edges),
            "nodes": list(self.nodes),
        }

    @property
    def header(self) -> dict[str, str | int]:
        """Attributes of the root group of the file that tell it from other pieces."""
        spans = {"rows": self.rows, "edges": self.edges, "nodes": self.nodes}
        ends = {
            f"{name}_{end}": span[i] for name, span in spans.items() for i, end in enumerate(("low", "high"))
        }
        return {"level": self.level, **ends}

    @classmethod
    def from_json(cls, document: Document, file: str) -> PieceRecord:
        """Parse an entry of the manifest and check its file name."""
        if not fmt.is_part_file(document.text("file")) or document.text("file") != file:
            raise document.fail("file", repr(file))
        return cls(
            file,
            document.integer("size"),
            document.digest("sha256"),
            document.digest("ends"),
            document.integer("level", high=fmt.MAX_LEVELS),
            _parse_span(document, "rows"),
            _parse_span(document, "edges"),
            _parse_span(document, "nodes"),
        )


def _parse_span(document: Document, key: str) -> Span:
    found = document.integers(key)
    if len(found) != 2 or found[0] > found[1]:
        raise document.fail(key, "a list of a first row and the row after the last one")
    return found[0], found[1]


@dataclass(frozen=True)
class PieceCompletion:
    """Completion record of one piece. It is written when the file of the piece is durable.

    Args:
        unit: Number of the unit.
        part: ``"graphs"`` or the name of a hierarchy.
        number: Number of the piece.
        fingerprint: Fingerprint of the part, see :meth:`StoreSpec.part_fingerprint`.
        piece: Digests and ranges of the file.
    """

    unit: int
    part: str
    number: int
    fingerprint: str
    piece: PieceRecord

    def to_bytes(self) -> bytes:
        """Return the content of the record file."""
        return seal(
            {
                "unit": self.unit,
                "part": self.part,
                "number": self.number,
                "fingerprint": self.fingerprint,
                "piece": self.piece.to_json(),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, unit: int, part: str, number: int) -> PieceCompletion:
        """Parse the content of a record file and check that it belongs to this piece."""
        document = unseal(data, f"{fmt.RECORDS}/{fmt.record_file(unit, part, number)}")
        found = document.integer("unit"), document.text("part"), document.integer("number")
        if found != (unit, part, number):
            raise document.fail("unit", f"{unit} (part {part!r}, piece {number})")
        entry = Document(document.mapping("piece"), f"{document.name}: piece")
        piece = PieceRecord.from_json(entry, fmt.piece_file(unit, part, number))
        return cls(unit, part, number, document.digest("fingerprint"), piece)


def parse_pieces(
    document: Document, file: str, nodes: Sequence[int], edges: Sequence[int]
) -> tuple[PieceRecord, ...]:
    """Parse the table of row ranges of a shard and check that the ranges of each level are sorted, disjoint and complete.

    Args:
        document: Entry of the shard in the manifest.
        file: Name of the file of the shard.
        nodes: Number of nodes or supernodes of each level.
        edges: Number of edges of each level.

    Returns:
        The pieces, level by level; none if the entry has no table.
    """
    if "pieces" not in document.values:
        return ()
    entries = document.documents("pieces")
    if not 0 < len(entries) <= fmt.MAX_PIECES:
        raise document.fail("pieces", f"a list of 1 to {fmt.MAX_PIECES} pieces")
    stem = file.removesuffix(".h5")
    pieces = tuple(PieceRecord.from_json(d, f"{stem}.r{number:04d}.h5") for number, d in enumerate(entries))
    levels = [piece.level for piece in pieces]
    if levels != sorted(levels) or levels[-1] >= len(nodes):
        raise document.fail("pieces", f"a list of pieces by level, below {len(nodes)}")
    for level, group in groupby(pieces, lambda piece: piece.level):
        ends = (0, 0, 0)
        for piece in group:
            spans = (piece.rows, piece.edges, piece.nodes)
            if tuple(low for low, _ in spans) != ends or piece.rows[0] == piece.rows[1]:
                raise document.fail("pieces", f"a list of consecutive ranges of level {level}")
            ends = tuple(high for _, high in spans)  # type: ignore[assignment]
        if ends[:2] != (nodes[level], edges[level]):
            raise document.fail(
                "pieces", f"ranges of all {nodes[level]} rows of level {level} and their edges"
            )
    return pieces
