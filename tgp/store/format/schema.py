"""Schema of a store: fields of the graphs, levels of a hierarchy, files of a unit."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from tgp.errors import StoreError
from tgp.ragged.fields import FieldForm
from tgp.ragged.hierarchy import AssignmentKind
from tgp.store.format import constants as fmt
from tgp.store.format.strict_json import Document

__all__ = ["FailureRecord", "FieldInfo", "HierarchyInfo", "LevelInfo", "PtrKind", "ShardRecord"]

PtrKind = Literal["node", "edge", "graph", "own"]

_NUMBER_TYPES = {"int": "int64", "float": "float64", "bool": "bool"}
"""Type of the values of each form of plain numbers."""


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
class FieldInfo:
    """Schema of one attribute of the input graphs.

    Args:
        name: Name of the attribute of ``Data``.
        dtype: numpy name of the type that reading restores.
        tail: Lengths of the other axes.
        axis: Axis along which the graphs are concatenated, 0 or -1.
        form: Form of the value of one graph, see :data:`tgp.ragged.fields.FieldForm`.
        shifted: True if the values are node ids, which are local to their graph.
        ptrs: All kinds of offsets that cut the field correctly, in order of preference. ``"own"`` is last.
    """

    name: str
    dtype: str
    tail: tuple[int, ...]
    axis: int
    form: FieldForm
    shifted: bool
    ptrs: tuple[PtrKind, ...]

    @property
    def ptr(self) -> PtrKind:
        """Kind of offsets with which the field is stored."""
        return self.ptrs[0]

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {
            "name": self.name,
            "dtype": self.dtype,
            "tail": list(self.tail),
            "axis": self.axis,
            **self.stored_form,
            "shifted": self.shifted,
            "ptrs": list(self.ptrs),
        }

    @property
    def stored_form(self) -> dict[str, str]:
        """Form of the values as files name it: JSON texts are strings, which older versions of tgp return as they are."""
        return {"form": "str", "encoding": "json"} if self.form == "json" else {"form": self.form}

    @property
    def is_text(self) -> bool:
        """True if the value of a graph is stored as UTF-8 bytes."""
        return self.form in ("str", "json")

    @property
    def value_type(self) -> str:
        """Type of the values for people: ``"str"``, ``"json"``, or the type of the numbers."""
        return self.form if self.is_text else self.dtype

    @classmethod
    def from_json(cls, document: Document) -> FieldInfo:
        """Parse an entry of the manifest."""
        form = document.choice("form", fmt.FORMS)
        if "encoding" in document.values:
            encoding = document.choice("encoding", fmt.ENCODINGS)
            if form != "str":
                raise document.fail("form", "'str' for a field with an encoding")
            form = encoding
        info = cls(
            document.text("name"),
            document.choice("dtype", fmt.ORIGINAL_DTYPES),
            document.integers("tail"),
            document.integer("axis", -1, 0),
            cast(FieldForm, form),
            document.boolean("shifted"),
            cast("tuple[PtrKind, ...]", document.texts("ptrs", fmt.PTRS)),
        )
        problem = info.problem()
        if problem is not None:
            raise document.fail(*problem)
        return info

    @property
    def row_bytes(self) -> int:
        """Size of one row in memory."""
        return np.dtype(self.dtype).itemsize * math.prod(self.tail)

    def problem(self) -> tuple[str, str] | None:
        """Return the first attribute that does not fit the others and its expected value, or ``None`` if all fit."""
        kind = np.dtype(self.dtype).kind
        is_number = self.form in _NUMBER_TYPES
        expected_dtype = "uint8" if self.is_text else _NUMBER_TYPES.get(self.form, self.dtype)
        rules: list[tuple[bool, str, str]] = [
            (0 < len(fmt.encode_name(self.name)) <= fmt.MAX_NAME, "name", "a name of limited length"),
            (self.name != "pooled_data", "name", "another name than that of the levels of a batch"),
            (self.dtype == expected_dtype, "dtype", f"{expected_dtype} for a field of form {self.form!r}"),
            (not (is_number or self.is_text) or not self.tail, "tail", f"[] for form {self.form!r}"),
            (
                len(self.tail) + 2 <= fmt.MAX_NDIM
                and math.prod(max(n, 1) for n in self.tail) * 16 <= fmt.MAX_ROW_BYTES,
                "tail",
                f"the shape of a row of at most {fmt.MAX_ROW_BYTES} bytes and {fmt.MAX_NDIM - 2} axes",
            ),
            (self.form == "rows" or self.axis == 0, "axis", f"0 for form {self.form!r}"),
            ("own" in self.ptrs, "ptrs", "a list that contains 'own'"),
            (
                self.form == "rows" or self.is_text or "graph" in self.ptrs,
                "ptrs",
                f"a list that contains 'graph' for form {self.form!r}",
            ),
            (not self.shifted or kind in "iu", "dtype", "an integer type for node ids"),
            (not (self.shifted and self.is_text), "shifted", "false for text"),
            ("batch" not in self.name or kind != "c", "dtype", "a real type for a field of batch ids"),
        ]
        if self.name == "edge_index":
            rules += [
                (self.tail == (2,), "tail", "[2] for edge_index"),
                (self.axis == -1, "axis", "-1 for edge_index"),
                (self.shifted, "shifted", "true for edge_index"),
                ("edge" in self.ptrs, "ptrs", "a list that contains 'edge' for edge_index"),
            ]
        if self.name == "num_nodes":
            rules += [
                (self.form == "int", "form", "'int' for num_nodes"),
                (not self.shifted, "shifted", "false for num_nodes"),
            ]
        return next(((key, expected) for holds, key, expected in rules if not holds), None)

    @staticmethod
    def merge(units: Sequence[tuple[FieldInfo, ...]]) -> tuple[FieldInfo, ...]:
        """Merge the fields of all units.

        Args:
            units: Fields of each unit.

        Returns:
            Fields of the whole store.

        Raises:
            StoreError: If the fields of two units differ.
        """
        first = units[0] if units else ()
        for number, fields in enumerate(units):
            if [_without_ptrs(f) for f in fields] != [_without_ptrs(f) for f in first]:
                raise StoreError(
                    f"the fields of unit {number} differ from those of unit 0 in names, types or shapes: expected "
                    f"{[f.name for f in first]}, got {[f.name for f in fields]}. All graphs need the same attributes",
                )
        merged = []
        for column in zip(*units, strict=True):
            ptrs = tuple(p for p in column[0].ptrs if all(p in f.ptrs for f in column))
            merged.append(replace(column[0], ptrs=ptrs))
        return tuple(merged)


def _without_ptrs(info: FieldInfo) -> tuple[Any, ...]:
    return (info.name, info.dtype, info.tail, info.axis, info.form, info.shifted)


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
    """

    method: str
    kind: AssignmentKind
    width: int | None
    modes: int | None
    weight_dtype: str | None
    arrays: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {
            "method": self.method,
            "kind": self.kind,
            "width": self.width,
            "modes": self.modes,
            "weight_dtype": self.weight_dtype,
            "arrays": list(self.arrays),
        }

    def restricted_to(self, arrays: Collection[str] | None) -> LevelInfo:
        """Return the level with only those of its optional arrays that are listed; with all if ``None``."""
        if arrays is None:
            return self
        return replace(self, arrays=tuple(name for name in self.arrays if name in arrays))

    @classmethod
    def from_json(cls, document: Document) -> LevelInfo:
        """Parse an entry of the manifest."""
        info = cls(
            document.text("method"),
            cast(AssignmentKind, document.choice("kind", fmt.KINDS)),
            document.optional_integer("width", fmt.MAX_WIDTH),
            document.optional_integer("modes", fmt.MAX_WIDTH),
            document.optional_choice("weight_dtype", fmt.WEIGHT_DTYPES),
            document.texts("arrays", fmt.LEVEL_ARRAYS),
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
            merged.append(level)
        return tuple(merged)


def _is_compatible(unit: LevelInfo, merged: LevelInfo) -> bool:
    if unit.weight_dtype not in (None, merged.weight_dtype):
        return False
    same = (merged.method, merged.kind, merged.width, merged.modes)
    return (unit.method, unit.kind, unit.width, unit.modes) == same


@dataclass(frozen=True)
class ShardRecord:
    """Digests and totals of one file.

    Args:
        file: Name of the file in the store.
        size: Size in bytes.
        sha256: Digest of all bytes.
        ends: Digest of the first and last 4096 bytes, which is checked whenever the file is opened.
        nodes: Number of nodes or supernodes per level. The graphs part has one level.
        edges: Number of edges per level.
        bytes: Size of the arrays per level, before compression.
        failures: Number of graphs that could not be coarsened.
    """

    file: str
    size: int
    sha256: str
    ends: str
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    bytes: tuple[int, ...]
    failures: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {
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
    """

    name: str
    schedule: tuple[dict[str, Any], ...]
    seed: int
    levels: tuple[LevelInfo, ...]
    metrics: tuple[str, ...] = ()
    failures: int = 0

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.levels)
