"""A batch in two kernel calls: where its rows lie, then all of them at once.

What a dataset reads never changes, so the work of finding out is done once: which offsets cut which arrays
(:class:`Layout`), and where they are in each shard (addresses, noted when the shard is first needed). A batch then costs a
look at its shards' files, two calls, one allocation and a view per array. :mod:`tgp.store.read.gather` does the same with
numpy, for single graphs, compressed stores and as the yardstick of the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tgp.ragged import Field
from tgp.store.format.schema import FieldInfo, LevelInfo
from tgp.store.read.gather import LevelArrays
from tgp.store.read.index import as_ids
from tgp.store.read.parts import GraphsPart

__all__ = ["Allocate", "BatchArrays", "BatchPlan", "Layout", "UnitArrays", "load_kernels"]

Array = npt.NDArray[Any]
Key = tuple[Hashable, Hashable]
Ids = npt.NDArray[np.int64]
Allocate = Callable[[int], npt.NDArray[np.uint8]]
"""Makes room for the bytes of a batch."""

_ALIGN = 64
_COPY, _IDS, _GRAPH = 0, 1, 2
_ANY, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_CODES = {"u1": 0, "u2": 1, "u4": 2, "u8": 3, "i1": 4, "i2": 5, "i4": 6, "i8": 7}


class Column(NamedTuple):
    """One array of a batch.

    Args:
        key: ``("field", name)``, ``(level, name)`` or ``("batch", step)``.
        mode: bytes as they are, integers widened, or the graph of each row.
        cut: the offsets of its rows, as a position in :attr:`Layout.cuts`.
        aim: the offsets of the nodes that ids name; -1 for plain numbers.
        low: smallest id.
        dtype: of the kernel's result; integers are widened to int64 first.
        tail: shape of a row.
        axis: 0, or -1 if rows are columns.
        fill: what an array holds that a shard left out.
    """

    key: Key
    mode: int
    cut: int
    aim: int
    low: int
    dtype: np.dtype[Any]
    tail: tuple[int, ...]
    axis: int
    fill: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """What the kernel needs to know."""
        items = math.prod(self.tail)
        outer, inner = (1, items) if self.axis == 0 else (items, 1)
        return (self.mode, self.cut, self.aim, outer, inner, self.dtype.itemsize, self.low)

    def shape(self, rows: int) -> tuple[int, ...]:
        return (rows, *self.tail) if self.axis == 0 else (*self.tail, rows)


@dataclass(frozen=True, eq=False)
class BatchArrays:
    """A batch: fields and levels, all ids those of the batch.

    Args:
        node_ptr: ``[B + 1]`` offsets of the nodes.
        fields: the fields of the input graphs; those in ``shifted`` hold ids of the batch.
        levels: the levels.
        batches: graph of each node of the input graphs, then of each supernode of every level.
    """

    node_ptr: Ids
    fields: dict[str, Field]
    levels: list[LevelArrays]
    batches: list[Ids]


class UnitArrays(NamedTuple):
    """What one shard brings: offsets (``None``: a row per graph) and arrays (``None``: left out), and its files."""

    cuts: list[Array | None]
    arrays: list[Array | None]
    watched: tuple[Watched, ...]


class Watched(Protocol):
    """A file whose bytes are mapped."""

    def check_unchanged(self) -> None:
        """Raise if it is no longer the file that was opened."""
        ...

    def damaged(self, item: str, why: str) -> Exception:
        """The error that names it."""
        ...


class Layout:
    """Which arrays a batch has, and which offsets cut them; the same for all shards.

    Args:
        fields: fields of the input graphs.
        levels: levels with their positions in the schedule, ascending.
    """

    def __init__(self, fields: Sequence[FieldInfo], levels: Sequence[tuple[int, LevelInfo]]) -> None:
        self.fields = tuple(fields)
        self.levels = tuple(levels)
        self.cuts: dict[Key, int] = {}
        self.columns: list[Column] = []
        self._step(0)
        for info in self.fields:
            self._add_field(info)
        for number, level in self.levels:
            self._add_level(number, level)
        self.places = {column.key: place for place, column in enumerate(self.columns)}

    @staticmethod
    def supports(info: FieldInfo) -> bool:
        """Ids of other types than int64 are left to the numpy way."""
        return not info.shifted or info.dtype == "int64"

    def _cut(self, *key: Hashable) -> int:
        return self.cuts.setdefault((key[0], key[1]), len(self.cuts))

    def _step(self, step: int) -> int:
        """The offsets of the nodes after some steps, and the graph of each."""
        cut = self._cut("step", step)
        if ("batch", step) not in [column.key for column in self.columns]:
            self._add(("batch", step), cut, np.dtype(np.int64), mode=_GRAPH)
        return cut

    def _add(
        self,
        key: Key,
        cut: int,
        dtype: npt.DTypeLike,
        tail: tuple[int, ...] = (),
        *,
        axis: int = 0,
        mode: int | None = None,
        aim: int = -1,
        low: int = _ANY,
        fill: int = 0,
    ) -> None:
        kind = np.dtype(dtype)
        if mode is None:
            mode = _IDS if kind.kind in "iu" and kind.itemsize > 1 else _COPY
        if mode == _IDS:
            kind = np.dtype(np.int64)
        self.columns.append(Column(key, mode, cut, aim, low, kind, tail, axis, fill))

    def _add_field(self, info: FieldInfo) -> None:
        nodes = self.cuts["step", 0]
        cut = nodes if info.ptr == "node" else self._cut(info.ptr, info.name if info.ptr == "own" else "")
        aimed = {"aim": nodes, "low": 0} if info.shifted else {}
        self._add(("field", info.name), cut, info.dtype, info.tail, axis=info.axis, **aimed)

    def _add_level(self, number: int, level: LevelInfo) -> None:
        nodes, supers, edges = self._step(number), self._step(number + 1), self._cut("edges", number)
        self._add((number, "edge_index"), edges, np.int64, (2,), axis=-1, aim=supers, low=0)
        for name in level.arrays:
            key = (number, name)
            if name == "edge_weight":
                self._add(key, edges, level.weight_dtype or np.float32, fill=1)
            elif name == "cluster":
                self._add(key, nodes, np.int64, aim=supers, low=-1, fill=-1)
            elif name == "representative":
                self._add(key, supers, np.int64, aim=nodes, low=0)
            else:
                width = {"soft": level.width or 0, "theta": level.modes or 0}.get(name)
                self._add(key, nodes, np.float32, () if width is None else (width,), fill=int(width is None))


class BatchPlan:
    """Gathers batches of one layout.

    Args:
        layout: what to gather.
        bounds: ``[U + 1]`` first graph of every shard.
        open_unit: opens a shard, its arrays in the order of the layout.
    """

    def __init__(self, layout: Layout, bounds: Ids, open_unit: Callable[[int], UnitArrays]) -> None:
        units, cuts, columns = len(bounds) - 1, len(layout.cuts), len(layout.columns)
        self.layout = layout
        self.bounds = np.ascontiguousarray(bounds, np.int64)
        self._open_unit = open_unit
        self._units: dict[int, UnitArrays] = {}
        self._ready = np.zeros(units, np.bool_)
        self._cuts = np.zeros((3, units, cuts), np.int64)  # address, code, rows
        self._columns = np.zeros((3, units, columns), np.int64)  # address, code, rows
        self._cut_tables: list[Any] = list(self._cuts)
        self._column_tables: list[Any] = list(self._columns)
        self._numbers = np.array([c.numbers for c in layout.columns], np.int64)
        self._row_bytes = [c.dtype.itemsize * math.prod(c.tail) for c in layout.columns]

    def _open(self, unit: int) -> None:
        """Note where the arrays of a shard are."""
        found = self._open_unit(unit)
        for place, ptr in enumerate(found.cuts):
            if ptr is None:
                self._cuts[:, unit, place] = 0, 0, self.bounds[unit + 1] - self.bounds[unit]
            else:
                self._cuts[:, unit, place] = ptr.ctypes.data, _CODES[ptr.dtype.str[1:]], ptr[-1]
        kept = list(found.cuts)
        for place, column in enumerate(self.layout.columns):
            if column.mode == _GRAPH:
                continue
            rows = int(self._cuts[2, unit, column.cut])
            array = _readable(found, column, found.arrays[place], rows)
            kept.append(array)
            code = _CODES[array.dtype.str[1:]] if column.mode == _IDS else 0
            self._columns[:, unit, place] = array.ctypes.data, code, rows
        self._units[unit] = found._replace(arrays=kept)  # addresses are good as long as these are
        self._ready[unit] = True

    def gather(self, ids: npt.ArrayLike, allocate: Allocate | None = None) -> BatchArrays:
        """The batch of the given graphs, in their order.

        Args:
            ids: graphs.
            allocate: where to put the bytes; default new memory. Arrays with one row per graph get memory of
                their own then, so that keeping labels does not keep batches.
        """
        from tgp.kernels.gather import copy_rows, find_rows, find_units

        wanted = as_ids(ids, int(self.bounds[-1]))
        count = len(wanted)
        units = np.empty(count, np.int64)
        status = find_units(wanted, self.bounds, self._ready, units)
        assert status != 2, "as_ids has looked"
        touched = set(units.tolist())
        for unit in touched:
            if status and not self._ready[unit]:
                self._open(unit)
            for file in self._units[unit].watched:
                file.check_unchanged()
        starts = np.empty((len(self.layout.cuts), count), np.int64)
        ptrs = np.empty((len(self.layout.cuts), count + 1), np.int64)
        address, code, rows = self._cut_tables
        bad = find_rows(wanted, self.bounds, units, address, code, rows, starts, ptrs)
        if bad >= 0:
            raise self._explain_invalid_index(
                units, bad, list(self.layout.cuts), "holds offsets that lead nowhere"
            )
        totals = ptrs[:, -1].tolist()
        offsets, size = [], 0
        for column, width in zip(self.layout.columns, self._row_bytes, strict=True):
            offsets.append(size)
            size += -(-totals[column.cut] * width // _ALIGN) * _ALIGN
        buffer = np.empty(size, np.uint8) if allocate is None else allocate(size)
        places = np.array(offsets, np.int64)
        address, code, rows = self._column_tables
        bad = copy_rows(units, starts, ptrs, self._numbers, address, code, rows, buffer, places)
        if bad >= 0:
            raise self._explain_invalid_index(
                units, bad, list(self.layout.places), "holds an id outside its graph"
            )
        made = [
            np.ndarray(column.shape(totals[column.cut]), column.dtype, buffer, offset)
            for column, offset in zip(self.layout.columns, offsets, strict=True)
        ]
        return self._assemble(made, ptrs, own=allocate is None)

    def _assemble(self, made: list[Array], ptrs: Ids, own: bool) -> BatchArrays:
        """Name the arrays."""
        layout, cuts, places = self.layout, self.layout.cuts, self.layout.places
        rows = list(ptrs)
        fields = {}
        for info in layout.fields:
            place = places["field", info.name]
            cut = layout.columns[place].cut
            values = made[place]
            if values.dtype != info.dtype:
                values = values.astype(info.dtype)
            elif own and info.ptr == "graph":
                values = values.copy()
            fields[info.name] = Field(info.name, values, rows[cut], info.axis, info.form, info.shifted)
        levels, batches = [], [made[places["batch", 0]]]
        for number, level in layout.levels:
            named: dict[str, Any] = {name: made[places[number, name]] for name in level.arrays}
            levels.append(
                LevelArrays(
                    level.kind,
                    rows[cuts["step", number]],
                    rows[cuts["step", number + 1]],
                    rows[cuts["edges", number]],
                    made[places[number, "edge_index"]],
                    **named,
                )
            )
            batches.append(made[places["batch", number + 1]])
        return BatchArrays(rows[0], fields, levels, batches)

    def _explain_invalid_index(self, units: Ids, bad: int, keys: Sequence[Key], why: str) -> Exception:
        """The error for what a kernel found: ``bad`` is the position of the culprit's key, times graphs, plus its graph."""
        number, graph = divmod(bad, len(units))
        key = keys[number]
        watched = self._units[int(units[graph])].watched
        assert watched, "what is held in memory was checked when it was read"
        inner = isinstance(key[0], int) or key[0] == "edges" or (key[0] == "step" and key[1] != 0)
        path = f"/levels/{key[0]}/{key[1]}" if isinstance(key[0], int) else f"/{key[0]} {key[1]}"
        if key[0] == "field":
            path = GraphsPart.path(str(key[1]))
        return watched[-1 if inner else 0].damaged(path, f"{why} (graph {graph} of the batch)")


@cache
def load_kernels() -> None:
    """Compile the kernels, or load them from their cache: processes forked from this one need not."""
    BatchPlan(Layout([], []), np.zeros(1, np.int64), lambda unit: UnitArrays([], [], ())).gather([])


def _readable(found: UnitArrays, column: Column, array: Array | None, rows: int) -> Array:
    """The array as the kernel reads it; no copy in the usual case."""
    if array is None:
        return np.full(column.shape(rows), column.fill, column.dtype)
    parts = (2,) if column.dtype.kind == "c" else ()
    if array.shape != (*column.shape(rows), *parts):
        raise found.watched[-1].damaged(
            str(column.key[1]), f"must have shape {list(column.shape(rows))}, got {list(array.shape)}"
        )
    if column.mode == _IDS:
        if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size and int(array.max()) > _MOST:
            raise found.watched[-1].damaged(str(column.key[1]), "holds an id outside its graph")
        return np.ascontiguousarray(array)
    if column.dtype.kind in "bc":
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array, column.dtype)
