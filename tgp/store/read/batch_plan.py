"""Gather batches of graphs with compiled kernels over raw buffer addresses.

All batches of a dataset consist of the same arrays. A :class:`~tgp.store.read.layout.Layout` lists these arrays once,
with the offsets that delimit the rows of each graph. A :class:`BatchPlan` records the address of every array when a shard is first needed. A
batch then takes two kernel calls (find the rows, copy the rows), one allocation, and one view per array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError, StoreDamagedError
from tgp.ragged import Assignment, EdgeList, Field, Level
from tgp.store.read.layout import IDS, Layout, Source, UnitParts

__all__ = ["BatchArrays", "BatchPlan", "as_ids", "load_kernels"]

Array = npt.NDArray[Any]
Ids = npt.NDArray[np.int64]

_ALIGN = 64
_MAX_BUFFER = 2**62
"""Largest size of a batch in bytes. Positions in a buffer of this size fit in 64 bits."""

_CODES = {"u1": 0, "u2": 1, "u4": 2, "u8": 3, "i1": 4, "i2": 5, "i4": 6, "i8": 7}


@dataclass(frozen=True, eq=False)
class BatchArrays:
    """Arrays of a batch.

    Args:
        node_ptr: ``[B + 1]`` offsets of the nodes of the input graphs.
        fields: Fields of the input graphs. Node ids count through the batch, unless the layout is local.
        levels: Pooled levels. Ids count through the batch.
        batches: Graph of each node of the input graphs, then of each supernode of every level. Empty if the layout is
            local.
    """

    node_ptr: Ids
    fields: dict[str, Field]
    levels: list[Level]
    batches: list[Ids]


class BatchPlan:
    """Gather batches of one layout.

    Args:
        layout: Arrays to gather.
        bounds: ``[U + 1]`` first graph of each shard.
        open_unit: Function that opens the files of a shard.
        keep_arrays: Keep the arrays of a shard once it is open. Pass False if arrays are decoded on access: their
            memory is then bounded by the cache of the reader, and a batch is copied shard by shard.
    """

    def __init__(
        self, layout: Layout, bounds: Ids, open_unit: Callable[[int], UnitParts], *, keep_arrays: bool = True
    ) -> None:
        units = len(bounds) - 1
        self.layout = layout
        self.bounds = np.ascontiguousarray(bounds, np.int64)
        self.keep_arrays = keep_arrays
        self._open_unit = open_unit
        self._parts: dict[int, UnitParts] = {}
        self._arrays: dict[int, list[Array]] = {}
        """Arrays of each shard. An address is valid as long as its array exists."""
        self._ready = np.zeros(units, np.bool_)
        # Tables of address, type code and number of rows, one row per shard.
        self._offsets = np.zeros((3, units, len(layout.offsets)), np.int64)
        self._columns = np.zeros((3, units, len(layout.columns)), np.int64)
        self._kernel_rows = np.array([c.kernel_row for c in layout.columns], np.int64).reshape(-1, 8)
        self._offset_tables: tuple[Ids, ...] = tuple(self._offsets)
        self._column_tables: tuple[Ids, ...] = tuple(self._columns)
        # Offsets, bytes per row, shape before and after the row axis, and type of each column.
        self._results = [
            (
                c.rows,
                c.dtype.itemsize * math.prod(c.tail),
                () if c.axis == 0 else c.tail,
                c.tail if c.axis == 0 else (),
                c.dtype,
            )
            for c in layout.columns
        ]

    def open_all(self) -> None:
        """Open all shards and record the addresses of their arrays."""
        for unit in np.flatnonzero(~self._ready).tolist():
            self._open(unit)

    def _open(self, unit: int) -> None:
        parts = self._parts[unit] = self._open_unit(unit)
        kept = self._arrays[unit] = []
        for number, source in enumerate(self.layout.offsets):
            ptr = source.read_offsets(parts)
            if ptr is None:
                self._offsets[:, unit, number] = 0, 0, self.bounds[unit + 1] - self.bounds[unit]
            else:
                count = int(self.bounds[unit + 1] - self.bounds[unit])
                if ptr.shape != (count + 1,):
                    raise source.owner(parts).damaged(source.path, f"must hold {count + 1} offsets")
                self._offsets[:, unit, number] = ptr.ctypes.data, _CODES[ptr.dtype.str[1:]], ptr[-1]
                kept.append(ptr)
        if self.keep_arrays:
            kept += self._record_columns(unit)
        self._ready[unit] = True

    def _record_columns(self, unit: int) -> list[Array]:
        """Record the addresses of the columns of a shard. Return the arrays, which the caller must keep alive."""
        parts = self._parts[unit]
        kept = []
        for number, column in enumerate(self.layout.columns):
            if column.source is None:
                self._columns[0, unit, number] = 1  # not an address: marks the shard as open
                continue
            rows = int(self._offsets[2, unit, column.rows])
            array = column.readable(column.source.read(parts), rows, parts)
            code = _CODES[array.dtype.str[1:]] if column.mode == IDS else 0
            self._columns[:, unit, number] = array.ctypes.data, code, rows
            kept.append(array)
        return kept

    def gather(self, ids: npt.ArrayLike) -> BatchArrays:
        """Return the batch of the given graphs, in their order.

        Args:
            ids: Graph ids, in any order, repeated or not.

        Raises:
            InputError: If an id is out of range.
            StoreDamagedError: If a shard is damaged or has changed.
        """
        find_units, find_rows, copy_rows = _kernels()
        wanted = as_ids(ids, int(self.bounds[-1]))
        count = len(wanted)
        units = np.empty(count, np.int64)
        status = find_units(wanted, self.bounds, self._ready, units)
        assert status != 2, "as_ids has checked the range"
        touched = set(units.tolist())
        for unit in touched:
            if status and not self._ready[unit]:
                self._open(unit)
            for part in self._parts[unit]:
                if part is not None:
                    part.check_unchanged()
        starts = np.empty((len(self.layout.offsets), count), np.int64)
        ptrs = np.empty((len(self.layout.offsets), count + 1), np.int64)
        address, code, rows = self._offset_tables
        bad = find_rows(wanted, self.bounds, units, address, code, rows, starts, ptrs)
        if bad >= 0:
            sources: list[Source | None] = list(self.layout.offsets)
            raise self._damaged(units, bad, sources, "holds offsets that do not fit to its arrays")
        totals = ptrs[:, -1].tolist()
        positions, size = [], 0
        for row_kind, width, _, _, _ in self._results:
            positions.append(size)
            size += -(-totals[row_kind] * width // _ALIGN) * _ALIGN
        if size > _MAX_BUFFER:
            raise InputError(f"the batch is too large: it needs {size} bytes. Use fewer graphs", field="ids")
        buffer = np.empty(size, np.uint8)
        tables = (*self._column_tables, buffer, np.array(positions, np.int64))
        if self.keep_arrays:
            bad = copy_rows(units, starts, ptrs, self._kernel_rows, *tables)
        else:
            for unit in touched:
                arrays = self._record_columns(unit)
                bad = copy_rows(units, starts, ptrs, self._kernel_rows, *tables)
                self._columns[0, unit] = 0  # the kernel skips the shard from now on
                del arrays
                if bad >= 0:
                    break
        if bad == -2:
            raise RuntimeError("the buffer of a batch is smaller than its columns")
        if bad >= 0:
            raise self._damaged(units, bad, self._column_sources(), "holds an id outside its graph")
        made = [
            np.ndarray((*lead, totals[row_kind], *tail), dtype, buffer, position)
            for (row_kind, _, lead, tail, dtype), position in zip(self._results, positions, strict=True)
        ]
        for number, row_kind, check in self.layout.checked_columns:
            graph = check(made[number], ptrs[row_kind])
            if graph is not None:
                bad = number * count + graph
                raise self._damaged(units, bad, self._column_sources(), "holds a value that is not valid")
        return self._assemble(made, list(ptrs))

    def _assemble(self, made: list[Array], ptrs: list[Ids]) -> BatchArrays:
        """Name the arrays of a batch."""
        layout = self.layout
        fields = {}
        for field, column, rows, is_converted in layout.field_columns:
            values = made[column]
            if is_converted:
                values = values.astype(field.dtype)
            elif field.ptr == "graph":
                values = values.copy()  # labels that a caller keeps do not keep the whole batch in memory
            fields[field.name] = Field(field.name, values, ptrs[rows], field.axis, field.form, field.shifted)
        levels = []
        for info, (nodes, supers, edge_rows), edge_index, edge_weight, columns in layout.level_columns:
            weight = None if edge_weight is None else made[edge_weight]
            edges = EdgeList(ptrs[edge_rows], made[edge_index], weight)
            arrays = [None if column is None else made[column] for column in columns]
            assignment = Assignment(info.kind, ptrs[supers], *arrays)
            levels.append(Level(info.method, ptrs[nodes], assignment, edges))
        return BatchArrays(ptrs[0], fields, levels, [made[column] for column in layout.batch_columns])

    def _column_sources(self) -> list[Source | None]:
        return [column.source for column in self.layout.columns]

    def _damaged(self, units: Ids, bad: int, sources: Sequence[Source | None], why: str) -> StoreDamagedError:
        """Return the error for the finding of a kernel, which is ``array * num_graphs + graph``."""
        number, graph = divmod(bad, len(units))
        source = sources[number]
        assert source is not None, "only stored arrays are checked"
        owner = source.owner(self._parts[int(units[graph])])
        return owner.damaged(source.path, f"{why} (graph {graph} of the batch)")


@cache
def _kernels() -> tuple[Callable[..., int], Callable[..., int], Callable[..., int]]:
    """Import the kernels on first use. An import statement in a hot function takes a microsecond."""
    from tgp.kernels.gather import copy_rows, find_rows, find_units

    return find_units, find_rows, copy_rows


@cache
def load_kernels() -> None:
    """Compile the kernels or load them from their cache, so that forked processes need not do it."""

    def no_shards(unit: int) -> UnitParts:
        raise AssertionError("a store without shards has none to open")

    BatchPlan(Layout([], []), np.zeros(1, np.int64), no_shards).gather([])


def as_ids(ids: npt.ArrayLike, num_graphs: int) -> Ids:
    """Return graph ids as a vector of int64.

    Raises:
        InputError: If the ids are not integers or out of range.
    """
    wanted = np.asarray(ids)
    if wanted.size == 0 and wanted.ndim == 1:
        return np.zeros(0, np.int64)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
        raise InputError(
            f"graph ids must be a list of integers, got {wanted.dtype} of shape {list(wanted.shape)}",
            field="ids",
        )
    if wanted.min() < 0 or wanted.max() >= num_graphs:
        raise InputError(
            f"graph ids are out of range: expected ids in [0, {num_graphs}), got {wanted.min()}..{wanted.max()}",
            field="ids",
        )
    return wanted.astype(np.int64, copy=False)
