"""Schema of one attribute of the graphs or of a level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from tgp.errors import StoreError
from tgp.ragged.fields import FieldForm
from tgp.ragged.types import is_typed_name
from tgp.store.format import constants as fmt
from tgp.store.format.strict_json import Document

__all__ = ["FieldInfo", "PtrKind"]

PtrKind = Literal["node", "edge", "graph", "own"]

_Rule = tuple[bool, str, str]
"""Result of a check, attribute that it is about, and expected value of this attribute."""

_NUMBER_TYPES = {"int": "int64", "float": "float64", "bool": "bool"}
"""Type of the values of each form of plain numbers."""


@dataclass(frozen=True)
class FieldInfo:
    """Schema of one attribute of the input graphs, or of the supernodes or coarse edges of a level.

    Args:
        name: Name of the attribute of ``Data``.
        dtype: numpy name of the type that reading restores.
        tail: Lengths of the other axes.
        axis: Axis along which the graphs are concatenated, 0 or -1.
        form: Form of the value of one graph, see :data:`tgp.ragged.fields.FieldForm`.
        shifted: True if the values are node ids, which are local to their graph. For a field of a level, they are ids of
            coarse edges, or -1.
        ptrs: All kinds of offsets that cut the field correctly, in order of preference. ``"own"`` is last. A field of a
            level has the kinds ``"node"`` (supernodes) and ``"edge"`` (coarse edges), or ``"own"`` if it is JSON text or the edge map, or
            belongs to a type of nodes or to a relation.
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
    def from_json(cls, document: Document, *, of_level: bool = False) -> FieldInfo:
        """Parse an entry of the manifest, which describes a field of the graphs or of a level."""
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
            cast("FieldForm", form),
            document.boolean("shifted"),
            cast("tuple[PtrKind, ...]", document.texts("ptrs", fmt.PTRS)),
        )
        problem = info.level_problem() if of_level else info.problem()
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
        rules = [
            *self._shared_rules(),
            (self.name != "pooled_data", "name", "another name than that of the levels of a batch"),
            (self.dtype == expected_dtype, "dtype", f"{expected_dtype} for a field of form {self.form!r}"),
            (not (is_number or self.is_text) or not self.tail, "tail", f"[] for form {self.form!r}"),
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
        return _first_broken(rules)

    def level_problem(self) -> tuple[str, str] | None:
        """Return the first attribute of a field of a level that is not valid and its expected value, or ``None``."""
        return _first_broken(
            [
                *self._shared_rules(),
                (
                    fmt.is_level_field(self.name) or is_typed_name(self.name),
                    "name",
                    "a name that is not used for other parts of a level",
                ),
                (self.form in ("rows", "json"), "form", "'rows' or JSON text for a field of a level"),
                (self.form == "rows" or self.dtype == "uint8", "dtype", "uint8 for text"),
                (self.form == "rows" or not self.tail, "tail", "[] for text"),
                (self.axis == 0, "axis", "0 for a field of a level"),
                (
                    not self.shifted or (self.name, self.form) == (fmt.EDGE_MAP, "rows"),
                    "shifted",
                    "false for a field of a level that is not the edge map",
                ),
                (
                    not self.shifted or (self.dtype, self.tail) == ("int64", ()),
                    "dtype",
                    "int64 for the edge map, with no other axes",
                ),
                (
                    self.ptrs == ("own",)
                    if self.form == "json"
                    or self.shifted
                    or (is_typed_name(self.name) and "own" in self.ptrs)
                    else len(self.ptrs) > 0 and set(self.ptrs) <= {"node", "edge"},
                    "ptrs",
                    "a list of 'node' or 'edge' for a field of a level, and ['own'] for text, the edge map and types",
                ),
            ]
        )

    def _shared_rules(self) -> list[_Rule]:
        return [
            (0 < len(fmt.encode_name(self.name)) <= fmt.MAX_NAME, "name", "a name of limited length"),
            (
                len(self.tail) + 2 <= fmt.MAX_NDIM
                and math.prod(max(n, 1) for n in self.tail) * 16 <= fmt.MAX_ROW_BYTES,
                "tail",
                f"the shape of a row of at most {fmt.MAX_ROW_BYTES} bytes and {fmt.MAX_NDIM - 2} axes",
            ),
        ]

    @property
    def without_ptrs(self) -> tuple[Any, ...]:
        """Everything but the offsets, which may differ between the units of a store."""
        return (self.name, self.dtype, self.tail, self.axis, self.form, self.shifted)

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
            if [f.without_ptrs for f in fields] != [f.without_ptrs for f in first]:
                raise StoreError(
                    f"the fields of unit {number} differ from those of unit 0 in names, types or shapes: expected "
                    f"{[f.name for f in first]}, got {[f.name for f in fields]}. All graphs need the same attributes",
                )
        merged = []
        for column in zip(*units, strict=True):
            ptrs = tuple(p for p in column[0].ptrs if all(p in f.ptrs for f in column))
            merged.append(replace(column[0], ptrs=ptrs))
        return tuple(merged)


def _first_broken(rules: Sequence[_Rule]) -> tuple[str, str] | None:
    return next(((key, expected) for holds, key, expected in rules if not holds), None)
