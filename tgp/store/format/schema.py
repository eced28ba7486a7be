"""Schema of a store: fields of the graphs, levels of a hierarchy, files of a unit, and how manifests and records list them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tgp.errors import StoreError
from tgp.ragged.hierarchy import AssignmentKind
from tgp.store.format import constants as fmt
from tgp.store.format.field_schema import FieldInfo, PtrKind
from tgp.store.format.pieces import FileRecord, PieceRecord, parse_pieces
from tgp.store.format.strict_json import Document

__all__ = [
    "FailureRecord",
    "FieldInfo",
    "HierarchyInfo",
    "LevelInfo",
    "PtrKind",
    "ShardRecord",
    "parse_fields",
    "parse_levels",
    "parse_metrics",
]


@dataclass(frozen=True)
class FailureRecord:
    """Graph that could not be coarsened.

    Args:
        graph: Id in the whole store.
        level: Position of the level in the schedule, counted from 0.
        reason: Description of the error.
    """

    graph: int
    level: int
    reason: str


@dataclass(frozen=True)
class LevelInfo:
    """Schema of one level of a hierarchy.

    Args:
        method: Name of the level method.
        kind: Kind of assignment, see :class:`tgp.ragged.Assignment`.
        width: Number of columns of ``S``, for the kinds of assignment that have the same number in every graph.
        modes: Number of columns of ``theta``.
        weight_dtype: Type of the edge weights, ``None`` for an unweighted level.
        arrays: Names of the optional arrays that are stored.
        fields: Attributes of the supernodes and of the coarse edges, sorted by name.
    """

    method: str
    kind: AssignmentKind
    width: int | None
    modes: int | None
    weight_dtype: str | None
    arrays: tuple[str, ...]
    fields: tuple[FieldInfo, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {
            "method": self.method,
            "kind": self.kind,
            "width": self.width,
            "modes": self.modes,
            "weight_dtype": self.weight_dtype,
            "arrays": list(self.arrays),
            **({"fields": [info.to_json() for info in self.fields]} if self.fields else {}),
        }

    def restricted_to(
        self, arrays: Collection[str] | None, fields: Collection[str] | None = None
    ) -> LevelInfo:
        """Return the level with only those of its optional arrays and fields that are listed; with all if ``None``."""
        return replace(
            self,
            arrays=tuple(name for name in self.arrays if arrays is None or name in arrays),
            fields=tuple(info for info in self.fields if fields is None or info.name in fields),
        )

    @classmethod
    def from_json(cls, document: Document) -> LevelInfo:
        """Parse an entry of the manifest."""
        info = cls(
            document.text("method"),
            cast("AssignmentKind", document.choice("kind", fmt.KINDS)),
            document.optional_integer("width", fmt.MAX_WIDTH),
            document.optional_integer("modes", fmt.MAX_WIDTH),
            document.optional_choice("weight_dtype", fmt.WEIGHT_DTYPES),
            document.texts("arrays", fmt.LEVEL_ARRAYS),
            _parse_level_fields(document) if "fields" in document.values else (),
        )
        problem = info.problem()
        if problem is not None:
            raise document.fail(*problem)
        return info

    def problem(self) -> tuple[str, str] | None:
        """Return the first attribute that does not fit the others and its expected value, or ``None`` if all fit."""
        assigned = "soft" if self.kind == "soft" else "cluster"
        other = "cluster" if self.kind == "soft" else "soft"
        weighted, modal = "edge_weight" in self.arrays, "theta" in self.arrays
        rules: list[tuple[bool, str, str]] = [
            (
                (self.width is None) == (self.kind == "hard"),
                "width",
                "null for hard levels and a number for others",
            ),
            (assigned in self.arrays, "arrays", f"a list that contains {assigned!r} for kind {self.kind!r}"),
            (other not in self.arrays, "arrays", f"a list without {other!r} for kind {self.kind!r}"),
            ((self.modes is not None) == modal, "modes", "a number if 'theta' is stored, else null"),
            (
                (self.weight_dtype is not None) == weighted,
                "weight_dtype",
                "a type if 'edge_weight' is stored, else null",
            ),
        ]
        return next(((key, expected) for holds, key, expected in rules if not holds), None)

    @staticmethod
    def merge(units: Sequence[tuple[tuple[LevelInfo, ...], tuple[int, ...]]]) -> tuple[LevelInfo, ...]:
        """Merge the levels of all units.

        A unit without supernodes on a level (no graphs, or all failed) is compatible with any other unit. Weights may
        be stored in some units only: missing weights are ones.

        Args:
            units: Levels of each unit, with the number of supernodes of each level.

        Returns:
            Levels of the whole store.

        Raises:
            StoreError: If the levels of two units differ.
        """
        if len({len(levels) for levels, _ in units}) != 1:
            raise StoreError("all units of a hierarchy must have the same number of levels")
        merged = []
        for number in range(len(units[0][0])):
            live = [levels[number] for levels, nodes in units if nodes[number]] or [units[0][0][number]]
            weighted = [level.weight_dtype for level in live if level.weight_dtype is not None]
            names = {name for level in live for name in level.arrays}
            arrays = tuple(name for name in fmt.LEVEL_ARRAYS if name in names)
            level = replace(live[0], weight_dtype=weighted[0] if weighted else None, arrays=arrays)
            for other in live:
                if names - set(other.arrays) - {"edge_weight", "weight"} or not _is_compatible(other, level):
                    raise StoreError(f"level {number + 1} differs between units: {other} and {live[0]}")
            fields = FieldInfo.merge([other.fields for other in live])
            mixed = next((info.name for info in fields if not info.ptrs), None)
            if mixed is not None:
                raise StoreError(
                    f"level {number + 1}: {mixed} must belong to the supernodes or to the edges in all units"
                )
            merged.append(replace(level, fields=fields))
        return tuple(merged)


def _is_compatible(unit: LevelInfo, merged: LevelInfo) -> bool:
    if unit.weight_dtype not in (None, merged.weight_dtype):
        return False
    return all(
        getattr(unit, key) == getattr(merged, key) for key in ("method", "kind", "width", "modes")
    ) and [info.without_ptrs for info in unit.fields] == [info.without_ptrs for info in merged.fields]


def _parse_level_fields(document: Document) -> tuple[FieldInfo, ...]:
    fields = tuple(FieldInfo.from_json(entry, of_level=True) for entry in document.documents("fields"))
    if not 0 < len({info.name for info in fields}) == len(fields) <= fmt.MAX_OBJECTS:
        raise document.fail("fields", f"a list of 1 to {fmt.MAX_OBJECTS} different fields")
    return fields


@dataclass(frozen=True)
class ShardRecord(FileRecord):
    """Digests and totals of one file and of its pieces.

    Args:
        file: Name of the file in the store.
        size: Size in bytes.
        sha256: Digest of all bytes.
        ends: Digest of the first and last 4096 bytes, which is checked whenever the file is opened.
        nodes: Number of nodes or supernodes per level. The graphs part has one level.
        edges: Number of edges per level.
        bytes: Size of the arrays per level, before compression.
        failures: Number of graphs that could not be coarsened.
        pieces: Files with the arrays of levels that are divided by row ranges.
    """

    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    bytes: tuple[int, ...]
    failures: int = 0
    pieces: tuple[PieceRecord, ...] = ()

    @property
    def files(self) -> tuple[FileRecord, ...]:
        """The file itself, and its pieces."""
        return (self, *self.pieces)

    @property
    def total_size(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {
            **({"pieces": [piece.to_json() for piece in self.pieces]} if self.pieces else {}),
            "file": self.file,
            "size": self.size,
            "sha256": self.sha256,
            "ends": self.ends,
            "nodes": list(self.nodes),
            "edges": list(self.edges),
            "bytes": list(self.bytes),
            "failures": self.failures,
        }

    @classmethod
    def from_json(cls, document: Document, file: str, levels: int) -> ShardRecord:
        """Parse an entry of the manifest and check its file name and number of levels."""
        if not fmt.is_part_file(document.text("file")) or document.text("file") != file:
            raise document.fail("file", repr(file))
        totals = []
        for key in ("nodes", "edges", "bytes"):
            totals.append(document.integers(key))
            if len(totals[-1]) != levels:
                raise document.fail(key, f"a list of {levels} totals, one per level")
        return cls(
            file,
            document.integer("size"),
            document.digest("sha256"),
            document.digest("ends"),
            totals[0],
            totals[1],
            totals[2],
            document.integer("failures"),
            parse_pieces(document, file, totals[0], totals[1]),
        )


@dataclass(frozen=True)
class HierarchyInfo:
    """Hierarchy of a complete store.

    Args:
        name: Name of the hierarchy.
        schedule: Resolved schedule, one JSON object per level.
        seed: Seed of all random choices.
        levels: Schema of each level.
        metrics: Names ``"<position>/<name>"`` of the stored metrics, where ``position`` counts the levels from 0.
        failures: Number of graphs that could not be coarsened.
        carry: Rules by which the attributes of the levels are computed; ``None`` if the levels have none.
    """

    name: str
    schedule: tuple[dict[str, Any], ...]
    seed: int
    levels: tuple[LevelInfo, ...]
    metrics: tuple[str, ...] = ()
    failures: int = 0
    carry: str | None = None

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.levels)


def parse_fields(document: Document) -> tuple[FieldInfo, ...]:
    """Parse the fields of the graphs and check them together."""
    fields = tuple(FieldInfo.from_json(d) for d in document.documents("fields"))
    names = {f.name for f in fields}
    if len(names) != len(fields) or len(fields) > fmt.MAX_OBJECTS:
        raise document.fail("fields", f"a list of at most {fmt.MAX_OBJECTS} different fields")
    if "edge_index" not in names and any("edge" in f.ptrs for f in fields):
        raise document.fail("fields", "a list with edge_index, whose offsets other fields use")
    return fields


def parse_levels(document: Document) -> tuple[LevelInfo, ...]:
    """Parse the levels of a hierarchy."""
    levels = tuple(LevelInfo.from_json(d) for d in document.documents("levels"))
    if len(levels) > fmt.MAX_LEVELS:
        raise document.fail("levels", f"a list of at most {fmt.MAX_LEVELS} levels")
    return levels


def parse_metrics(document: Document, num_levels: int) -> tuple[str, ...]:
    """Parse the names of metrics, ``"<position of the level>/<name>"``."""
    names = document.texts("metrics")
    for name in names:
        level, _, rest = name.partition("/")
        is_number = level.isascii() and level.isdigit() and str(int(level)) == level
        if not is_number or int(level) >= num_levels or not rest or len(fmt.encode_name(rest)) > fmt.MAX_NAME:
            raise document.fail("metrics", f"a list of names '<level>/<name>' with levels below {num_levels}")
    if len(names) > fmt.MAX_METRICS:
        raise document.fail("metrics", f"a list of at most {fmt.MAX_METRICS} names")
    return names
