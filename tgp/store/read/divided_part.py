"""Open a shard whose arrays are divided over several files by row range."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby

import numpy as np

from tgp.kernels.array_types import Array
from tgp.store.format.pieces import PieceRecord
from tgp.store.format.schema import ShardRecord
from tgp.store.io.files import StoreFiles
from tgp.store.io.guard import ArrayInfo
from tgp.store.read.parts import DecodedCache, OpenPart
from tgp.store.read.piece_array import PieceArray, StoredArray, join_pieces

__all__ = ["DividedPart"]

_SPANS = {"edge_index": "edges", "edge_weight": "edges", "representative": "rows"} | dict.fromkeys(
    ("cluster", "weight", "soft", "theta"), "nodes"
)
"""Range of a piece that gives the rows of each array of a level."""


class DividedPart(OpenPart):
    """Shard file, and the files of its row ranges if it has any.

    The description of a divided array in ``arrays`` is that of the whole array, so it is checked like any other array.

    Args:
        files: Files of the store.
        record: Entry of the shard in the manifest.
        cache: Cache for decoded arrays.
        full: Compare the checksums of whole files, not only those of their ends.
        in_memory: Keep a copy of every array that is read.

    Raises:
        StoreDamagedError: If a file is damaged.
    """

    def __init__(
        self,
        files: StoreFiles,
        record: ShardRecord,
        cache: DecodedCache,
        *,
        full: bool = False,
        in_memory: bool = False,
    ) -> None:
        super().__init__(files, record, cache, full=full, in_memory=in_memory)
        self.record: ShardRecord = record
        self._full = full
        self._divided: dict[str, PieceArray] = {}

    @property
    def is_divided(self) -> bool:
        """True if some arrays are in several files."""
        return bool(self._divided)

    def check_header(self, expected: dict[str, str | int], count: int) -> int:
        """Check the attributes of the root groups of all files, and return the number of graphs."""
        super().check_header(expected, count)
        common = {key: value for key, value in expected.items() if key != "num_levels"}
        number = 0
        for level, group in groupby(self.record.pieces, lambda piece: piece.level):
            parts, pieces = [], list(group)
            for piece in pieces:
                part = OpenPart(self.files, piece, self.cache, full=self._full)
                header: dict[str, str | int] = {**common, "piece": number, **piece.header}
                OpenPart.check_header(part, header, count)
                parts.append(part)
                number += 1
            self._join(level, parts, pieces)
        return count

    def _join(self, level: int, parts: list[OpenPart], pieces: list[PieceRecord]) -> None:
        """Add the arrays of the pieces of one level."""
        paths = list(parts[0].arrays)
        for path in paths:
            if path in self.arrays:
                raise parts[0].damaged(path, f"is also in {self.record.file}")
            span, axis = self._kind_of(level, parts[0], path)
            first = parts[0].info(path)
            for part, piece in zip(parts, pieces, strict=True):
                self._check_piece(part, path, first, axis, getattr(piece, span))
            array = join_pieces(parts, path, axis)
            self._divided[path] = array
            self.arrays[path] = replace(first, shape=array.shape, offset=None)
        for part in parts:
            if list(part.arrays) != paths:
                raise part.damaged(
                    "/", f"must have the arrays {', '.join(paths)} as the first piece of its level"
                )

    def _kind_of(self, level: int, part: OpenPart, path: str) -> tuple[str, int]:
        """Return the name of the range that gives the rows of an array, and the axis of the rows."""
        base = "" if self.groups[""].get("part") == "graphs" else f"/levels/{level}"
        if base and (found := re.fullmatch(rf"{base}/([a-z_]+)", path)) and found[1] in _SPANS:
            return _SPANS[found[1]], -1 if found[1] == "edge_index" else 0
        attributes = part.info(path).attributes
        span = {"node": "rows", "edge": "edges"}.get(str(attributes.get("ptr")))
        if re.fullmatch(rf"{base}/fields/[^/]+", path) and span is not None:
            if not base and path == "/fields/edge_index":
                return span, -1
            if attributes.get("axis") == 0:
                return span, 0
        raise part.damaged(path, "is not an array that can be divided by row range")

    def _check_piece(
        self, part: OpenPart, path: str, first: ArrayInfo, axis: int, span: tuple[int, int]
    ) -> None:
        """Check that an array continues that of the first piece, with the number of rows of the table of ranges."""
        info = part.info(path)
        shape = info.shape
        if len(shape) != len(first.shape) or not shape or shape[axis] != span[1] - span[0]:
            raise part.damaged(path, f"must have {span[1] - span[0]} rows, got shape {list(shape)}")
        rest = [(s[1:] if axis == 0 else s[:-1]) for s in (shape, first.shape)]
        if rest[0] != rest[1] or info.dtype != first.dtype or info.attributes != first.attributes:
            raise part.damaged(
                path, "must have the type, shape and attributes of the first piece of its level"
            )
        if info.offset is None:
            raise part.damaged(path, "must not be compressed")

    def stored(self, path: str) -> StoredArray:
        """Return an array as it is stored, without reading a divided one."""
        found = self._divided.get(path)
        return self.array(path) if found is None or self.in_memory else found

    def array(self, path: str) -> Array:
        """Return an array as it is stored. One that is divided is copied to memory; use :meth:`stored` if it may be large."""
        divided = self._divided.get(path)
        if divided is None:
            return super().array(path)
        found = self._views.get(path)
        if found is None:
            self.info(path)
            found = np.asarray(divided)
            found.flags.writeable = False
            if self.in_memory:
                self._views[path] = found
        return found

    def forget_undeclared_arrays(self) -> None:
        super().forget_undeclared_arrays()
        self._divided = {path: array for path, array in self._divided.items() if path in self.arrays}
