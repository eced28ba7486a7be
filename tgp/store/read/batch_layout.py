"""Layout of a batch: the arrays that it consists of and their locations in a shard."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tgp.errors import StoreDamagedError
from tgp.kernels.array_types import Array, LongArray
from tgp.store.format import constants as fmt
from tgp.store.format.schema import FieldInfo, LevelInfo
from tgp.store.read.contents import GraphsPart, HierarchyPart, level_field_path, level_paths
from tgp.store.read.parts import OpenPart
from tgp.store.read.value_checks import first_too_large, largest_number, value_check

__all__ = ["Column", "FieldColumn", "Layout", "LevelColumns", "Source", "UnitParts"]

Key = tuple[Hashable, ...]

# Modes of tgp.kernels.gather, which is imported when it is needed.
COPY, IDS, GRAPH = 0, 1, 2
_SMALLEST, _LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class UnitParts(NamedTuple):
    """Open files of one shard.

    Args:
        graphs: Input graphs.
        hierarchy: Levels, or ``None`` if the layout has none.
    """

    graphs: GraphsPart
    hierarchy: HierarchyPart | None


class Source(NamedTuple):
    """Location of an array or of offsets in the files of a shard.

    Args:
        part: File that holds it.
        path: Path in the file. The path ``""`` stands for offsets of one row per graph.
        field: Field whose own offsets these are. The files of different shards may store them in different places.
    """

    part: Literal["graphs", "hierarchy"]
    path: str
    field: str | None = None

    def owner(self, parts: UnitParts) -> OpenPart:
        """Return the file that holds the array."""
        owner = parts.graphs if self.part == "graphs" else parts.hierarchy
        assert owner is not None, "a layout with levels is opened with its hierarchy"
        return owner

    def read_offsets(self, parts: UnitParts) -> Array | None:
        """Return offsets, or ``None`` for one row per graph."""
        path = self.path if self.field is None else parts.graphs.ptrs[self.field]
        return _native(self.owner(parts).pin(path)) if path else None

    def read(self, parts: UnitParts) -> Array | None:
        """Return the array as it is stored, or ``None`` if the shard does not hold it."""
        if self.part == "graphs":
            return parts.graphs.array(self.path)
        part = parts.hierarchy
        assert part is not None, "a layout with levels is opened with its hierarchy"
        return part.array(self.path) if self.path in part.present else None


class Column(NamedTuple):
    """One array of a batch.

    Args:
        source: Location in a shard; ``None`` for the graph of each row, which is computed.
        mode: Mode of the kernel: copy bytes, convert integers to int64, or write the graph of each row.
        rows: Offsets that delimit the rows, as an index into :attr:`Layout.offsets`.
        target: Offsets of the nodes that ids refer to; -1 for plain numbers.
        low: Smallest valid id.
        dtype: Type of the kernel's result.
        tail: Shape of one row.
        axis: Axis of the rows, 0 or -1.
        fill: Value of an array that a shard does not hold.
        high: Largest valid number, if a stored type can hold larger ones.
        joined: True if ids are counted through the batch, False if they stay local to their graph.
    """

    source: Source | None
    mode: int
    rows: int
    target: int
    low: int
    dtype: np.dtype[Any]
    tail: tuple[int, ...]
    axis: int
    fill: int
    high: int
    joined: bool

    @property
    def kernel_row(self) -> tuple[int, ...]:
        """Description of the column for :func:`tgp.kernels.gather.copy_rows`."""
        items = math.prod(self.tail)
        outer, inner = (1, items) if self.axis == 0 else (items, 1)
        return (
            self.mode, self.rows, self.target, outer, inner, self.dtype.itemsize, self.low, int(self.joined)
        )  # fmt: skip

    def shape(self, rows: int) -> tuple[int, ...]:
        """Return the shape of the array with the given number of rows."""
        return (rows, *self.tail) if self.axis == 0 else (*self.tail, rows)

    def readable(self, stored: Array | None, rows: int, parts: UnitParts) -> Array:
        """Return a stored array as the kernel reads it. Usually that is the array itself.

        Raises:
            StoreDamagedError: If the array has another shape or type than the manifest says.
        """
        if stored is None:
            return np.full(self.shape(rows), self.fill, self.dtype)
        if first_too_large(stored, self.high) is not None:
            raise self._damaged(parts, f"holds a number above {self.high}")
        as_stored = self.mode == IDS or self.dtype.kind in "bc"
        found = _native(stored) if as_stored else np.ascontiguousarray(stored, self.dtype)
        # The kernel reads addresses, so this is the last check of the length.
        items = rows * math.prod(self.tail)
        itemsize = stored.dtype.itemsize if self.mode == IDS else self.dtype.itemsize
        if found.nbytes != items * itemsize or (self.mode == IDS and stored.dtype.kind not in "iu"):
            raise self._damaged(
                parts,
                f"must hold {items} numbers of {itemsize} bytes, got {stored.dtype} of {list(stored.shape)}",
            )
        return found

    def _damaged(self, parts: UnitParts, why: str) -> StoreDamagedError:
        assert self.source is not None, "a computed column cannot be damaged"
        return self.source.owner(parts).damaged(self.source.path, why)


FieldColumn = tuple[FieldInfo, int, int, bool]
"""Field, its column, its offsets, and True if the kernel's result has another type than the field."""


class LevelColumns(NamedTuple):
    """Positions of the arrays of one level in a batch. ``None`` stands for an array that is not read.

    Args:
        info: Description of the level.
        offsets: Offsets of nodes, supernodes and edges, as indices into :attr:`Layout.offsets`.
        edge_index: Column of the edges.
        edge_weight: Column of the weights of the edges.
        assignment: Columns of the arrays of an :class:`~tgp.ragged.Assignment`, in the order of its arguments.
        fields: Attributes of the supernodes and edges, in the form of :attr:`Layout.field_columns`.
    """

    info: LevelInfo
    offsets: tuple[int, int, int]
    edge_index: int
    edge_weight: int | None
    assignment: tuple[int | None, ...]
    fields: tuple[FieldColumn, ...] = ()


class Layout:
    """Arrays of a batch and the offsets that delimit their rows. The layout is the same for all shards.

    Args:
        fields: Fields of the input graphs.
        levels: Levels with their positions in the schedule, ascending. Only the arrays that a level lists are read.
        local: Keep node ids of fields local to their graph, and leave out :attr:`BatchArrays.batches`.
    """

    def __init__(
        self, fields: Sequence[FieldInfo], levels: Sequence[tuple[int, LevelInfo]], *, local: bool = False
    ) -> None:
        self.fields = tuple(fields)
        self.levels = tuple(levels)
        self.local = local
        self.offsets: dict[Source, int] = {}
        self.columns: list[Column] = []
        self.index: dict[Key, int] = {}
        self.steps: dict[int, int] = {}
        self.field_columns: list[FieldColumn] = []
        self.checked_columns: list[tuple[int, int, Callable[[Array, LongArray], int | None]]] = []
        """Column, its offsets, and function that returns the first graph with an invalid value or ``None``."""
        self.level_columns: list[LevelColumns] = []
        self._add_step(0)
        for info in self.fields:
            self._add_field(info)
        for number, level in self.levels:
            self._add_level(number, level)
        steps = () if local else (0, *(number + 1 for number, _ in self.levels))
        self.batch_columns = [self.index["batch", step] for step in steps]

    def _add_offsets(self, part: Literal["graphs", "hierarchy"], path: str, field: str | None = None) -> int:
        return self.offsets.setdefault(Source(part, path, field), len(self.offsets))

    def _add_step(self, step: int) -> int:
        """Add the offsets of the nodes after ``step`` pooling steps, and the graph of each node."""
        if step not in self.steps:
            if step == 0:
                rows = self._add_offsets("graphs", "/node_ptr")
            else:
                rows = self._add_offsets("hierarchy", f"/levels/{step - 1}/super_ptr")
            self.steps[step] = rows
            if not self.local:
                self._add(("batch", step), None, rows, np.int64, mode=GRAPH)
        return self.steps[step]

    def _add(
        self,
        key: Key,
        source: Source | None,
        rows: int,
        dtype: npt.DTypeLike,
        tail: tuple[int, ...] = (),
        *,
        axis: int = 0,
        mode: int | None = None,
        target: int = -1,
        low: int = _SMALLEST,
        fill: int = 0,
        high: int = _LARGEST,
        joined: bool = True,
    ) -> None:
        kind = np.dtype(dtype)
        if mode is None:
            # Integers are stored in the smallest type that holds them. One byte per item is the smallest one.
            mode = IDS if target >= 0 or (kind.kind in "iu" and kind.itemsize > 1) else COPY
        if mode == IDS:
            kind = np.dtype(np.int64)
        self.index[key] = len(self.columns)
        self.columns.append(Column(source, mode, rows, target, low, kind, tail, axis, fill, high, joined))

    def _add_field(self, info: FieldInfo) -> None:
        nodes = self.steps[0]
        if info.ptr == "own":
            rows = self._add_offsets("graphs", f"/ptr/{fmt.encode_name(info.name)}", info.name)
        else:
            path = {"node": "/node_ptr", "edge": "/edge_ptr", "graph": ""}[info.ptr]
            rows = self._add_offsets("graphs", path)
        self._add(
            ("field", info.name),
            Source("graphs", GraphsPart.path(info.name)),
            rows,
            info.dtype,
            info.tail,
            axis=info.axis,
            target=nodes if info.shifted else -1,
            low=0 if info.shifted else _SMALLEST,
            high=_LARGEST if info.shifted else largest_number(info.dtype),
            joined=not self.local,
        )
        self.field_columns.append(self._checked(info, self.index["field", info.name], rows))

    def _add_level_field(self, number: int, info: FieldInfo, shared: dict[str, int]) -> FieldColumn:
        rows = shared.get(info.ptr)
        if rows is None:
            rows = self._add_offsets("hierarchy", level_field_path(number, info.name, "ptr"))
        key, source = (number, "field", info.name), Source("hierarchy", level_field_path(number, info.name))
        if info.shifted:  # ids of edges of the level, or -1
            self._add(
                key, source, rows, np.int64, target=shared["edge"], low=-1, fill=-1, joined=not self.local
            )
        else:
            self._add(key, source, rows, info.dtype, info.tail, high=largest_number(info.dtype))
        return self._checked(info, self.index[key], rows)

    def _checked(self, info: FieldInfo, column: int, rows: int) -> FieldColumn:
        """Add the check of the values of a field, and return its description."""
        check = value_check(info)
        if check is not None:
            self.checked_columns.append((column, rows, check))
        return info, column, rows, self.columns[column].dtype != np.dtype(info.dtype)

    def _add_level(self, number: int, level: LevelInfo) -> None:
        nodes, supers = self._add_step(number), self._add_step(number + 1)
        edges = self._add_offsets("hierarchy", f"/levels/{number}/edge_ptr")
        paths = level_paths(number)
        for name in ("edge_index", *level.arrays):
            key, source = (number, name), Source("hierarchy", paths[name])
            if name == "edge_index":
                self._add(key, source, edges, np.int64, (2,), axis=-1, target=supers, low=0)
            elif name == "edge_weight":
                self._add(key, source, edges, level.weight_dtype or np.float32, fill=1)
            elif name == "cluster":
                self._add(key, source, nodes, np.int64, target=supers, low=-1, fill=-1)
            elif name == "representative":
                self._add(key, source, supers, np.int64, target=nodes, low=0)
            elif name == "weight":
                self._add(key, source, nodes, np.float32, fill=1)
            else:
                width = level.width if name == "soft" else level.modes
                self._add(key, source, nodes, np.float32, (width or 0,))
        names = ("cluster", "weight", "soft", "theta", "representative")
        self.level_columns.append(
            LevelColumns(
                level,
                (nodes, supers, edges),
                self.index[number, "edge_index"],
                self.index.get((number, "edge_weight")),
                tuple(self.index.get((number, name)) for name in names),
                tuple(
                    self._add_level_field(number, info, {"node": supers, "edge": edges})
                    for info in level.fields
                ),
            )
        )


def _native(array: Array) -> Array:
    """Return a contiguous array in the byte order of the machine. No copy is made on little-endian machines."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
