"""Completion record of one file with a range of rows."""

from __future__ import annotations

from dataclasses import dataclass

from tgp.store.format import constants as fmt
from tgp.store.format.manifest import seal, unseal
from tgp.store.format.pieces import PieceRecord
from tgp.store.format.strict_json import Document

__all__ = ["PieceCompletion"]


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
