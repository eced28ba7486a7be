"""Kernels that copy the rows of a batch from many arrays into one buffer.

The kernels read addresses instead of arrays, because a store has one memory map per shard and a batch touches many
shards. ``tgp.store.read.batch_plan`` fills the tables of addresses. It checks the length of every array and keeps the
arrays alive. The kernels compare every offset with the number of rows before they use it, so a file that changes while
it is read causes an error and not an invalid memory access. They check sums of counts for overflow, and every write
against the length of the buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import BoolArray, PtrArray

__all__ = ["COPY", "GRAPH", "IDS", "copy_rows", "find_rows", "find_units"]

COPY, IDS, GRAPH = 0, 1, 2
"""Mode of a column: copy bytes; convert integers to int64, check and shift them; write the graph of each row."""

_AHEAD = 8
"""Number of graphs between a prefetch and its use. Prefetching makes scattered reads about 25 % faster."""

_MAX_ROWS = 2**53
"""Largest number of rows of a batch, so that products with small numbers do not overflow."""

_SIZES = (1, 2, 4, 8, 1, 2, 4, 8)
"""Bytes per item of each stored type: uint8 to uint64, then int8 to int64."""


Load = Callable[[int], int]
Widen = Callable[[int, int, int, int, int, int], bool]


def _loader(bits: int, signed: bool) -> Load:
    """Return a function that reads one integer at an address and converts it to 64 bits."""

    @intrinsic  # type: ignore[untyped-decorator]
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()), align=1)
            if bits == 64:
                return value
            return (builder.sext if signed else builder.zext)(value, ir.IntType(64))

        return types.int64(types.int64), codegen

    return cast(Load, load)


_u8, _u16, _u32 = (_loader(bits, False) for bits in (8, 16, 32))
_i8, _i16, _i32, _i64 = (_loader(bits, True) for bits in (8, 16, 32, 64))


@intrinsic  # type: ignore[untyped-decorator]
def _store_item(typingctx: Any, address: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _copy_bytes(typingctx: Any, target: Any, source: Any, size: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(a, byte) for a in args[:2])
        cgutils.raw_memcpy(builder, target, source, args[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch_line(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        name = "llvm.prefetch.p0i8"
        fetch = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
        builder.call(fetch, [builder.inttoptr(args[0], byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


_store: Callable[[int, int], None] = cast(Any, _store_item)
"""Write one 64-bit integer at an address."""

_copy: Callable[[int, int, int], None] = cast(Any, _copy_bytes)
"""Copy bytes between two addresses with ``memcpy``: target, source, number of bytes."""

_prefetch: Callable[[int], None] = cast(Any, _prefetch_line)
"""Prefetch the cache line at an address. The address may be invalid."""


@kernel
def _read_item(address: int, code: int, place: int) -> int:
    """Return one integer of an array of any stored type."""
    if code == 0:
        return _u8(address + place)
    if code == 1:
        return _u16(address + 2 * place)
    if code == 2:
        return _u32(address + 4 * place)
    if code == 4:
        return _i8(address + place)
    if code == 5:
        return _i16(address + 2 * place)
    if code == 6:
        return _i32(address + 4 * place)
    return _i64(address + 8 * place)


@kernel
def find_units(ids: PtrArray, bounds: PtrArray, ready: BoolArray, units: PtrArray) -> int:
    """Find the shard of each graph.

    Args:
        ids: ``[B]`` graph ids.
        bounds: ``[U + 1]`` first graph of each shard.
        ready: ``[U]`` mask of the shards that are open.
        units: ``[B]`` output, shard of each graph.

    Returns:
        0 on success, 1 if a shard is not open, 2 if an id is out of range.
    """
    missing = 0
    for i in range(ids.shape[0]):
        if ids[i] < 0 or ids[i] >= bounds[-1]:
            return 2
        low, high = 0, bounds.shape[0] - 1
        while high - low > 1:
            middle = (low + high) >> 1
            if bounds[middle] <= ids[i]:
                low = middle
            else:
                high = middle
        units[i] = low
        if not ready[low]:
            missing = 1
    return missing


@kernel
def find_rows(
    ids: PtrArray, bounds: PtrArray, units: PtrArray, address: PtrArray, code: PtrArray, rows: PtrArray,
    starts: PtrArray, ptrs: PtrArray,
) -> int:  # fmt: skip
    """Find the rows of each graph, for every array of offsets.

    Args:
        ids, bounds, units: See :func:`find_units`.
        address: ``[U, C]`` address of each array of offsets; 0 means one row per graph.
        code: ``[U, C]`` type of each array of offsets.
        rows: ``[U, C]`` number of rows that the offsets delimit.
        starts: ``[C, B]`` output, first row of each graph in its shard.
        ptrs: ``[C, B + 1]`` output, offsets of the graphs in the batch.

    Returns:
        -1 on success, or ``c * B + i`` if the offsets ``c`` of graph ``i`` are invalid.
    """
    for c in range(starts.shape[0]):
        total = 0
        ptrs[c, 0] = 0
        for i in range(ids.shape[0]):
            unit = units[i]
            row = ids[i] - bounds[unit]
            where = address[unit, c]
            first, last = row, row + 1
            if where != 0:
                first, last = _read_item(where, code[unit, c], row), _read_item(where, code[unit, c], row + 1)
            if first < 0 or last < first or last > rows[unit, c]:
                invalid: int = c * ids.shape[0] + i
                return invalid
            starts[c, i] = first
            total += (
                last - first
            )  # both are at most rows[unit, c], so the sum cannot overflow before this check
            if total > _MAX_ROWS:
                overflow: int = c * ids.shape[0] + i
                return overflow
            ptrs[c, i + 1] = total
    return -1


def _widener(load: Load, size: int) -> Widen:
    """Return a function that converts integers of one stored type to int64."""

    @kernel(inline="always")
    def widen(source: int, count: int, target: int, shift: int, low: int, high: int) -> bool:
        smallest, largest = high, low  # valid if there are no numbers
        for k in range(count):
            value = load(source + size * k)
            smallest = min(smallest, value)
            largest = max(largest, value)
            _store(target + 8 * k, np.int64(-1) if low == -1 and value < 0 else value + shift)
        return smallest >= low and largest < high

    return widen


_widen_u8, _widen_u16, _widen_u32 = _widener(_u8, 1), _widener(_u16, 2), _widener(_u32, 4)
_widen_i8, _widen_i16, _widen_i32 = _widener(_i8, 1), _widener(_i16, 2), _widener(_i32, 4)
_widen_i64 = _widener(_i64, 8)


@kernel
def _widen(
    address: int, code: int, place: int, count: int, target: int, shift: int, low: int, high: int
) -> bool:
    """Convert integers of any stored type to int64 and add ``shift``. Negative ones become -1 if ``low`` is -1.

    Returns:
        True if all values before the shift lie in ``[low, high)``.
    """
    if code == 0:
        return _widen_u8(address + place, count, target, shift, low, high)
    if code == 1:
        return _widen_u16(address + 2 * place, count, target, shift, low, high)
    if code == 2:
        return _widen_u32(address + 4 * place, count, target, shift, low, high)
    if code == 4:
        return _widen_i8(address + place, count, target, shift, low, high)
    if code == 5:
        return _widen_i16(address + 2 * place, count, target, shift, low, high)
    if code == 6:
        return _widen_i32(address + 4 * place, count, target, shift, low, high)
    return _widen_i64(address + 8 * place, count, target, shift, low, high)


@kernel
def copy_rows(
    units: PtrArray, starts: PtrArray, ptrs: PtrArray, columns: PtrArray, address: PtrArray, code: PtrArray,
    length: PtrArray, buffer: npt.NDArray[np.uint8], offsets: PtrArray,
) -> int:  # fmt: skip
    """Fill the buffer, column by column.

    Graphs of a shard whose address is 0 are skipped, so that a batch can be filled shard by shard.

    Args:
        units, starts, ptrs: Results of :func:`find_units` and :func:`find_rows`.
        columns: ``[J, 8]`` mode, offsets of the rows, offsets of the nodes that the ids refer to (-1 for plain
            numbers), number of slices before the row axis, items per row after it, bytes per item of the result,
            smallest valid id, and 1 if ids are counted through the batch or 0 if they stay local to their graph.
        address: ``[U, J]`` address of each array.
        code: ``[U, J]`` type of each array.
        length: ``[U, J]`` number of rows of each array.
        buffer: Bytes to fill.
        offsets: ``[J]`` first byte of each column in the buffer.

    Returns:
        -1 on success, ``j * B + i`` if column ``j`` has an id outside of graph ``i``, or -2 if the buffer is too small.
    """
    base = buffer.ctypes.data
    num_graphs = units.shape[0]
    for j in range(columns.shape[0]):
        mode, cut, target_cut, outer, inner, size, low, joined = columns[j]
        total = ptrs[cut, num_graphs]
        # The rows of every graph end at ptrs[cut, i + 1] <= total, so one check per column covers all writes.
        room, row_bytes = buffer.shape[0] - offsets[j], outer * inner * size
        if offsets[j] < 0 or room < 0 or (row_bytes > 0 and total > room // row_bytes):
            return -2
        for i in range(num_graphs):
            if address[units[i], j] == 0:
                continue
            at = ptrs[cut, i]
            count = ptrs[cut, i + 1] - at
            if mode == GRAPH:
                for k in range(at, at + count):
                    _store(base + offsets[j] + 8 * k, i)
                continue
            if count == 0:
                continue
            unit, first, rows = units[i], starts[cut, i], length[units[i], j]
            ahead = min(i + _AHEAD, num_graphs - 1)
            width = _SIZES[code[units[ahead], j]] if mode == IDS else size
            _prefetch(address[units[ahead], j] + starts[cut, ahead] * inner * width)
            shift, high = np.int64(0), np.int64(9223372036854775807)
            if target_cut >= 0:
                high = ptrs[target_cut, i + 1] - ptrs[target_cut, i]
                shift = ptrs[target_cut, i] * joined
            for o in range(outer):
                place = (o * rows + first) * inner
                target = base + offsets[j] + (o * total + at) * inner * (8 if mode == IDS else size)
                if mode == COPY:
                    _copy(target, address[unit, j] + place * size, count * inner * size)
                    continue
                inside = _widen(
                    address[unit, j], code[unit, j], place, count * inner, target, shift, low, high
                )
                if target_cut >= 0 and not inside:
                    invalid: int = j * num_graphs + i
                    return invalid
    return -1
