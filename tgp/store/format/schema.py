"""What arrays a store has: fields of the graphs, levels of a hierarchy, files of a unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from tgp.errors import StoreError
from tgp.ragged.fields import FieldForm
from tgp.ragged.hierarchy import AssignmentKind
from tgp.store.format import constants as fmt
from tgp.store.format.strict_json import Document

__all__ = ["FailureRecord", "FieldInfo", "HierarchyInfo", "LevelInfo", "PtrKind", "ShardRecord"]

PtrKind = Literal["node", "edge", "graph", "own"]


@dataclass(frozen=True)
class FailureRecord:
    """A graph that could not be coarsened.

    Args:
        graph: id in the whole store.
        level: position in the schedule.
        reason: what went wrong, for people.
    """

    graph: int
    level: int
    reason: str


@dataclass(frozen=True)
class FieldInfo:
    """One attribute of the input graphs.

    Args:
        name: attribute name on ``Data``.
        dtype: type that reading restores, as a numpy name.
        tail: lengths of the other axes.
        axis: axis the graphs follow one another along, 0 or -1.
        form: how one graph's value looks, see :data:`tgp.ragged.fields.FieldForm`.
        shifted: values are node ids, local to their graph.
        ptrs: every kind of offsets that cuts the field right, the best name first; ``"own"`` is last.
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
        """Which offsets cut the field: of nodes, of edges, one row per graph, or its own."""
        return self.ptrs[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self.dtype,
            "tail": list(self.tail),
            "axis": self.axis,
            "form": self.form,
            "shifted": self.shifted,
            "ptrs": list(self.ptrs),
        }

    @classmethod
    def from_json(cls, document: Document) -> FieldInfo:
        ptrs = document.texts("ptrs", fmt.PTRS)
        if not ptrs:
            raise document.fail("ptrs", "a list that is not empty")
        return cls(
            document.text("name"),
            document.choice("dtype", fmt.ORIGINAL_DTYPES),
            document.integers("tail"),
            document.integer("axis", -1, 0),
            cast(FieldForm, document.choice("form", fmt.FORMS)),
            document.boolean("shifted"),
            cast("tuple[PtrKind, ...]", ptrs),
        )

    @staticmethod
    def merge(units: Sequence[tuple[FieldInfo, ...]]) -> tuple[FieldInfo, ...]:
        """The fields of the whole store from those of its units."""
        first = units[0] if units else ()
        for number, fields in enumerate(units):
            if [_without_ptrs(f) for f in fields] != [_without_ptrs(f) for f in first]:
                raise StoreError(
                    f"unit {number} has fields {[f.name for f in fields]} with other types or shapes than "
                    f"unit 0 with {[f.name for f in first]}; every graph needs the same attributes",
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
    """One level of a hierarchy.

    Args:
        method: name of the level method.
        kind: kind of assignment, see :class:`tgp.ragged.Assignment`.
        width: columns of ``S`` for the kinds that have the same number in every graph.
        modes: columns of ``theta``.
        weight_dtype: type of the edge weights, ``None`` for an unweighted level.
        arrays: names of the optional arrays that are stored.
    """

    method: str
    kind: AssignmentKind
    width: int | None
    modes: int | None
    weight_dtype: str | None
    arrays: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "kind": self.kind,
            "width": self.width,
            "modes": self.modes,
            "weight_dtype": self.weight_dtype,
            "arrays": list(self.arrays),
        }

    @classmethod
    def from_json(cls, document: Document) -> LevelInfo:
        def optional(key: str) -> int | None:
            return None if document.values.get(key, 0) is None else document.integer(key)

        dtype = document.values.get("weight_dtype", "")
        return cls(
            document.text("method"),
            cast(AssignmentKind, document.choice("kind", fmt.KINDS)),
            optional("width"),
            optional("modes"),
            None if dtype is None else document.choice("weight_dtype", fmt.ORIGINAL_DTYPES),
            document.texts("arrays", fmt.LEVEL_ARRAYS),
        )

    @staticmethod
    def merge(units: Sequence[tuple[tuple[LevelInfo, ...], tuple[int, ...]]]) -> tuple[LevelInfo, ...]:
        """The levels of the whole store from those of its units and their numbers of supernodes.

        A unit without supernodes on a level (no graphs, or all failed) fits to any other. Units may differ in
        whether weights are stored: absent weights are ones.
        """
        if len({len(levels) for levels, _ in units}) != 1:
            raise StoreError("the units of a hierarchy must all have the same number of levels")
        merged = []
        for number in range(len(units[0][0])):
            live = [levels[number] for levels, nodes in units if nodes[number]] or [units[0][0][number]]
            weighted = [level.weight_dtype for level in live if level.weight_dtype is not None]
            names = {name for level in live for name in level.arrays}
            arrays = tuple(name for name in fmt.LEVEL_ARRAYS if name in names)
            level = replace(live[0], weight_dtype=weighted[0] if weighted else None, arrays=arrays)
            for other in live:
                if names - set(other.arrays) - {"edge_weight", "weight"} or not _agree(level, other):
                    raise StoreError(f"level {number + 1} differs between units: {other} and {live[0]}")
            merged.append(level)
        return tuple(merged)


def _agree(level: LevelInfo, other: LevelInfo) -> bool:
    return (
        (level.method, level.kind, level.width, level.modes)
        == (other.method, other.kind, other.width, other.modes)
    ) and other.weight_dtype in (None, level.weight_dtype)


@dataclass(frozen=True)
class ShardRecord:
    """One file: its digests and totals.

    Args:
        file: name inside the store.
        size: bytes.
        sha256: digest of all its bytes.
        ends: digest of its first and last 4096 bytes, checked on every open.
        nodes: per level: number of (super)nodes. The graphs part has one level.
        edges: per level: number of edges.
        bytes: per level: bytes of its arrays before compression.
        failures: graphs in the ledger.
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
        if not fmt.is_part_file(document.text("file")) or document.text("file") != file:
            raise document.fail("file", repr(file))
        totals = [document.integers(key) for key in ("nodes", "edges", "bytes")]
        if any(len(t) != levels for t in totals):
            raise document.fail("nodes", f"a list of {levels} totals, as 'edges' and 'bytes'")
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
    """A hierarchy in a store.

    Args:
        name: as asked for.
        schedule: resolved schedule, one JSON object per level.
        seed: seed of every random choice.
        levels: what each level holds.
        metrics: names ``"<level>/<name>"`` of the stored metrics.
        failures: number of graphs in the ledger.
    """

    name: str
    schedule: tuple[dict[str, Any], ...]
    seed: int
    levels: tuple[LevelInfo, ...]
    metrics: tuple[str, ...] = ()
    failures: int = 0

    @property
    def depth(self) -> int:
        return len(self.levels)
