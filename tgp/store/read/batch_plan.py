"""Gather batches of graphs with compiled kernels over raw buffer addresses.

All batches of a dataset consist of the same arrays. A :class:`~tgp.store.read.batch_layout.Layout` lists these arrays once,
with the offsets that delimit the rows of each graph. A :class:`BatchPlan` records the address of every array when a shard is first needed. A
batch then takes two kernel calls (find the rows, copy the rows), one allocation, and one view per array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError, StoreDamagedError
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged import Assignment, EdgeList, Field, Level
from tgp.store.io.portable import RANDOM, SOON, advise
from tgp.store.read.batch_layout import IDS, FieldColumn, Layout, Source, UnitParts

__all__ = ["BatchArrays", "BatchPlan", "as_ids", "load_kernels"]


_CODES = {"u1": 0, "u2": 1, "u4": 2, "u8": 3, "i1": 4, "i2": 5, "i4": 6, "i8": 7}


class BatchArrays:
    """Arrays of a batch.

    Args:
        columns: Arrays of the batch.
        ptrs: ``[C, B + 1]`` offsets of the graphs. The first row delimits the nodes of the input graphs.
        layout: Meaning of the columns and offsets; ``None`` if the caller knows it.
        dropped: ``[J]`` 1 for each column that contains -1; ``None`` if that is not known.
    """

    __slots__ = ("columns", "dropped", "layout", "ptrs", "totals")

    def __init__(
        self,
        columns: list[Array],
        ptrs: LongArray,
        layout: Layout | None = None,
        dropped: LongArray | None = None,
    ) -> None:
        self.columns = columns
        self.ptrs = ptrs
        self.layout = layout
        self.dropped = dropped
        self.totals: list[int] = ptrs[:, -1].tolist()
        """Number of rows that each row of ``ptrs`` delimits."""

    @property
    def node_ptr(self) -> LongArray:
        """``[B + 1]`` offsets of the nodes of the input graphs."""
        offsets: LongArray = self.ptrs[0]
        return offsets

    def has_dropped(self, column: int) -> bool:
        """Return True if a column of ids contains -1."""
        if self.dropped is not None:
            return bool(self.dropped[column])
        ids = self.columns[column]
        return bool(ids.size and ids.min() < 0)

    @property
    def fields(self) -> dict[str, Field]:
        """Fields of the input graphs, by name. Node ids count through the batch, unless the layout is local."""
        assert self.layout is not None, "the arrays of a store have a layout"
        return self._named(self.layout.field_columns)

    def _named(self, fields: Sequence[FieldColumn]) -> dict[str, Field]:
        return {
            info.name: Field(
                info.name, self.columns[column], self.ptrs[rows], info.axis, info.form, info.shifted
            )
            for info, column, rows, _ in fields
        }

    @property
    def levels(self) -> list[Level]:
        """Pooled levels. Ids count through the batch, except those of fields, which are local to their graph."""
        assert self.layout is not None, "the arrays of a store have a layout"
        found = []
        for level in self.layout.level_columns:
            info, (nodes, supers, edge_rows), edge_index, edge_weight, columns, fields = level
            weight = None if edge_weight is None else self.columns[edge_weight]
            edges = EdgeList(self.ptrs[edge_rows], self.columns[edge_index], weight)
            arrays = [None if column is None else self.columns[column] for column in columns]
            assignment = Assignment(info.kind, self.ptrs[supers], *arrays)
            named = self._named(fields)
            for name, field in named.items():
                if field.shifted and not self.layout.local:
                    start = np.repeat(edges.edge_ptr[:-1], np.diff(field.ptr))
                    values = np.where(field.values < 0, -1, field.values - start)
                    named[name] = replace(field, values=values)
            found.append(Level(info.method, self.ptrs[nodes], assignment, edges, fields=named))
        return found

    @property
    def batches(self) -> list[LongArray]:
        """Graph of each node of the input graphs, then of each supernode of every level. Empty if the layout is local."""
        assert self.layout is not None, "the arrays of a store have a layout"
        return [self.columns[column] for column in self.layout.batch_columns]


class BatchPlan:
    """Gather batches of one layout.

    Args:
        layout: Arrays to gather.
        bounds: ``[U + 1]`` first graph of each shard.
        open_units: Function that opens the files of some shards. They are opened together, because several files of a
            remote store are downloaded at the same time.
        keep_arrays: Keep the arrays of a shard once it is open. Pass False if arrays are decoded on access: their
            memory is then bounded by the cache of the reader, and a batch is copied shard by shard.
    """

    def __init__(
        self,
        layout: Layout,
        bounds: LongArray,
        open_units: Callable[[Sequence[int]], Sequence[UnitParts]],
        *,
        keep_arrays: bool = True,
    ) -> None:
        units = len(bounds) - 1
        self.layout = layout
        self.bounds = np.ascontiguousarray(bounds, np.int64)
        self.keep_arrays = keep_arrays
        self._open_units = open_units
        self._parts: dict[int, UnitParts] = {}
        # An address is valid as long as its array exists, so the offsets and arrays of each open shard are kept.
        self._ptrs: dict[int, list[Array | None]] = {}
        self._arrays: dict[int, list[Array]] = {}
        self._is_random = False
        self._ready = np.zeros(units, np.bool_)
        # Tables of address, type code and number of rows, one row per shard.
        self._offsets = np.zeros((3, units, len(layout.offsets)), np.int64)
        self._columns = np.zeros((3, units, len(layout.columns)), np.int64)
        self._kernel_rows = np.array([c.kernel_row for c in layout.columns], np.int64).reshape(-1, 8)
        # Offsets, shape before and after the row axis, and type of each column.
        self._results = [
            (c.rows, () if c.axis == 0 else c.tail, c.tail if c.axis == 0 else (), c.dtype)
            for c in layout.columns
        ]
        # Labels that a caller keeps must not keep the whole batch in memory.
        self._copied = [
            (column, np.dtype(info.dtype))
            for fields in (layout.field_columns, *(level.fields for level in layout.level_columns))
            for info, column, _, is_converted in fields
            if is_converted or info.ptr == "graph"
        ]

    def open_all(self) -> None:
        """Open all shards and record the addresses of their arrays."""
        self._open_missing(range(len(self.bounds) - 1))

    def _open_missing(self, units: Iterable[int]) -> None:
        """Open those of some shards that are not open."""
        missing = [unit for unit in units if not self._ready[unit]]
        if missing:
            for unit, parts in zip(missing, self._open_units(missing), strict=True):
                self._record_offsets(unit, parts)

    def _record_offsets(self, unit: int, parts: UnitParts) -> None:
        """Record the addresses of the offsets of a shard, and those of its columns if they are kept."""
        self._parts[unit] = parts
        self._ptrs[unit] = [source.read_offsets(parts) for source in self.layout.offsets]
        for number, source in enumerate(self.layout.offsets):
            ptr = self._ptrs[unit][number]
            if ptr is None:
                self._offsets[:, unit, number] = 0, 0, self.bounds[unit + 1] - self.bounds[unit]
            else:
                count = int(self.bounds[unit + 1] - self.bounds[unit])
                if ptr.shape != (count + 1,):
                    raise source.owner(parts).damaged(source.path, f"must hold {count + 1} offsets")
                self._offsets[:, unit, number] = ptr.ctypes.data, _CODES[ptr.dtype.str[1:]], ptr[-1]
        if self.keep_arrays:
            self._arrays[unit] = self._record_columns(unit)
            if self._is_random:
                self._advise(unit, 0, int(self.bounds[unit + 1] - self.bounds[unit]), RANDOM)
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

    def expect_random_order(self) -> None:
        """Read single pages of all shards from now on, instead of megabytes around them."""
        self._is_random = True
        for unit in np.flatnonzero(self._ready).tolist():
            self._advise(unit, 0, int(self.bounds[unit + 1] - self.bounds[unit]), RANDOM)

    def read_ahead(self, low: int, high: int) -> None:
        """Start to read consecutive graphs into memory, and do not wait for them.

        Args:
            low: First graph.
            high: Graph after the last one.
        """
        first = int(np.searchsorted(self.bounds, low, side="right")) - 1
        units = range(first, int(np.searchsorted(self.bounds, high)))
        self._open_missing(units)
        for unit in units:
            start = int(self.bounds[unit])
            self._advise(unit, max(low - start, 0), min(high, int(self.bounds[unit + 1])) - start, SOON)

    def _advise(self, unit: int, low: int, high: int, advice: int) -> None:
        """Tell the system how the arrays of some graphs of an open shard will be read."""
        if not self.keep_arrays or low >= high:
            return
        for ptr in self._ptrs[unit]:
            if ptr is not None:
                advise(ptr.ctypes.data + low * ptr.itemsize, (high + 1 - low) * ptr.itemsize, advice)
        for number, (mode, cut, _, outer, inner, size, _, _) in enumerate(self._kernel_rows.tolist()):
            address, code, rows = self._columns[:, unit, number].tolist()
            ptr = self._ptrs[unit][cut]
            first, last = (low, high) if ptr is None else (int(ptr[low]), int(ptr[high]))
            row_bytes = inner * (1 << (code & 3) if mode == IDS else size)
            if self.layout.columns[number].source is not None:
                for slice_start in range(
                    address, address + outer * rows * row_bytes, max(rows * row_bytes, 1)
                ):
                    advise(slice_start + first * row_bytes, (last - first) * row_bytes, advice)

    def gather(self, ids: npt.ArrayLike) -> BatchArrays:
        """Return the batch of the given graphs, in their order.

        Args:
            ids: Graph ids, in any order, repeated or not.

        Raises:
            InputError: If an id is out of range.
            StoreDamagedError: If a shard is damaged or has changed.
        """
        find_rows, copy_rows = _kernels()
        wanted = as_ids(ids, int(self.bounds[-1]))
        count, layout = len(wanted), self.layout
        units = self._find_units(wanted)
        touched = set(units.tolist())
        self._open_missing(touched)
        for unit in touched:
            for part in self._parts[unit]:
                if part is not None:
                    part.check_unchanged()
        starts = np.empty((len(layout.offsets), count), np.int64)
        ptrs = np.empty((len(layout.offsets), count + 1), np.int64)
        positions = np.empty(len(layout.columns) + 1, np.int64)
        columns, tables = self._kernel_rows, self._columns
        bad = find_rows(wanted, self.bounds, units, self._offsets, columns, starts, ptrs, positions)
        if bad == -2:
            raise InputError(
                "the batch is too large: it needs more than 2^62 bytes. Use fewer graphs", field="ids"
            )
        if bad >= 0:
            sources: list[Source | None] = list(layout.offsets)
            raise self._damaged(units, bad, sources, "holds offsets that do not fit to its arrays")
        places = positions.tolist()
        buffer = np.empty(places[-1], np.uint8)
        base = buffer.ctypes.data
        dropped = np.zeros(len(layout.columns), np.int64)
        if self.keep_arrays:
            bad = copy_rows(units, starts, ptrs, columns, tables, buffer, base, positions, dropped)
        else:
            for unit in touched:
                arrays = self._record_columns(unit)
                bad = copy_rows(units, starts, ptrs, columns, tables, buffer, base, positions, dropped)
                self._columns[0, unit] = 0  # the kernel skips the shard from now on
                del arrays
                if bad >= 0:
                    break
        if bad == -2:
            raise RuntimeError("the buffer of a batch is smaller than its columns")
        if bad >= 0:
            raise self._damaged(units, bad, self._column_sources(), "holds an id outside its graph")
        batch = BatchArrays([], ptrs, layout, dropped)
        totals = batch.totals
        made = batch.columns = [
            np.ndarray((*lead, totals[rows], *tail), dtype, buffer, place)
            for (rows, lead, tail, dtype), place in zip(self._results, places, strict=False)
        ]
        for number, rows, check in layout.checked_columns:
            graph = check(made[number], ptrs[rows])
            if graph is not None:
                bad = number * count + graph
                raise self._damaged(units, bad, self._column_sources(), "holds a value that is not valid")
        for number, dtype in self._copied:
            made[number] = made[number].astype(dtype)
        return batch

    def _find_units(self, wanted: LongArray) -> LongArray:
        """Return the shard of each graph."""
        if len(self.bounds) == 2:
            return np.zeros(len(wanted), np.int64)
        return np.searchsorted(self.bounds, wanted, side="right") - 1

    def _column_sources(self) -> list[Source | None]:
        return [column.source for column in self.layout.columns]

    def _damaged(
        self, units: LongArray, bad: int, sources: Sequence[Source | None], why: str
    ) -> StoreDamagedError:
        """Return the error for the finding of a kernel, which is ``array * num_graphs + graph``."""
        number, graph = divmod(bad, len(units))
        source = sources[number]
        assert source is not None, "only stored arrays are checked"
        owner = source.owner(self._parts[int(units[graph])])
        return owner.damaged(source.path, f"{why} (graph {graph} of the batch)")


@cache
def _kernels() -> tuple[Callable[..., int], Callable[..., int]]:
    """Import the kernels on first use. An import statement in a hot function takes a microsecond."""
    from tgp.kernels.gather import copy_rows, find_rows

    return find_rows, copy_rows


@cache
def load_kernels() -> None:
    """Compile the kernels or load them from their cache, so that forked processes need not do it."""

    def no_shards(units: Sequence[int]) -> Sequence[UnitParts]:
        raise AssertionError("a store without shards has none to open")

    BatchPlan(Layout([], []), np.zeros(1, np.int64), no_shards).gather([])


def as_ids(ids: npt.ArrayLike, num_graphs: int) -> LongArray:
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
    # A new array is contiguous and writable, so that the kernels have one signature.
    found: LongArray = np.array(wanted, np.int64)
    # Negative numbers are large unsigned numbers, so this one comparison checks both ends.
    if int(found.view(np.uint64).max()) >= num_graphs:
        raise InputError(
            f"graph ids are out of range: expected ids in [0, {num_graphs}), got {wanted.min()}..{wanted.max()}",
            field="ids",
        )
    return found
