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
from tgp.kernels.array_types import PtrArray

__all__ = ["COPY", "GRAPH", "IDS", "copy_rows", "find_rows"]

COPY, IDS, GRAPH = 0, 1, 2
"""Mode of a column: copy bytes; convert integers to int64, check and shift them; write the graph of each row."""

_AHEAD = 8
"""Number of graphs between a prefetch and its use. Prefetching halves the time of scattered reads."""

_MAX_ROWS = 2**53
"""Largest number of rows of a batch, so that products with small numbers do not overflow."""

_MAX_BYTES = 2**62
"""Largest size of a batch in bytes. Positions in a buffer of this size fit in 64 bits."""

_LINE = 64
"""Bytes of a cache line. Every column starts at a multiple of it."""

_INT64 = ir.IntType(64)


def _pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _by_type(builder: Any, code: Any, emit: Callable[[int, bool], None]) -> None:
    """Emit one branch per stored type: uint8 to uint64, then int8 to int64. Numbers of 64 bits are read as signed."""
    done = builder.append_basic_block("done")
    last = builder.append_basic_block("code_7")
    choice = builder.switch(code, last)
    for number in (0, 1, 2, 4, 5, 6, 7):
        block = last
        if number < 7:
            block = builder.append_basic_block(f"code_{number}")
            choice.add_case(code.type(number), block)
        builder.position_at_end(block)
        emit(8 << (number & 3), number >= 4)
        builder.branch(done)
    builder.position_at_end(done)


def _widening(builder: Any, bits: int, signed: bool) -> Callable[[Any], Any]:
    """Return a function that emits the conversion of an integer to 64 bits."""

    def widen(value: Any) -> Any:
        if bits == 64:
            return value
        return (builder.sext if signed else builder.zext)(value, _INT64)

    return widen


@intrinsic  # type: ignore[untyped-decorator]
def _read_number(typingctx: Any, address: Any, code: Any, place: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, code, place = args
        found = cgutils.alloca_once(builder, _INT64)  # type: ignore[no-untyped-call]

        def emit(bits: int, signed: bool) -> None:
            number = builder.load(builder.gep(_pointer(builder, address, bits), [place]), align=1)
            builder.store(_widening(builder, bits, signed)(number), found)

        _by_type(builder, code, emit)
        return builder.load(found)

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _widen_numbers(
    typingctx: Any, source: Any, code: Any, count: Any, target: Any, shift: Any, low: Any, high: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, code, count, target, shift, low, high = args
        zero, minus_one = _INT64(0), _INT64(-1)
        drops = builder.icmp_signed("==", low, minus_one)
        smallest = cgutils.alloca_once(builder, _INT64)  # type: ignore[no-untyped-call]
        largest = cgutils.alloca_once(builder, _INT64)  # type: ignore[no-untyped-call]
        results = _pointer(builder, target, 64)

        def emit(bits: int, signed: bool) -> None:
            # Pointers that are made before the loop and extremes of the stored type let LLVM use vector instructions.
            numbers = _pointer(builder, source, bits)
            kind = ir.IntType(bits)
            widen = _widening(builder, bits, signed)
            relate = builder.icmp_signed if signed else builder.icmp_unsigned
            bottom, top = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
            least = cgutils.alloca_once(builder, kind)  # type: ignore[no-untyped-call]
            most = cgutils.alloca_once(builder, kind)  # type: ignore[no-untyped-call]
            builder.store(kind(top), least)
            builder.store(kind(bottom), most)
            with cgutils.for_range(builder, count) as loop:  # type: ignore[no-untyped-call]
                number = builder.load(builder.gep(numbers, [loop.index]), align=1)
                for place, relation in ((least, "<"), (most, ">")):
                    before = builder.load(place)
                    builder.store(builder.select(relate(relation, number, before), number, before), place)
                value = widen(number)
                is_dropped = builder.and_(drops, builder.icmp_signed("<", value, zero))
                result = builder.select(is_dropped, minus_one, builder.add(value, shift))
                builder.store(result, builder.gep(results, [loop.index]), align=1)
            builder.store(widen(builder.load(least)), smallest)
            builder.store(widen(builder.load(most)), largest)

        _by_type(builder, code, emit)
        least = builder.load(smallest)
        above = builder.icmp_signed(">=", least, low)
        below = builder.icmp_signed("<", builder.load(largest), high)
        is_empty = builder.icmp_signed("==", count, zero)
        valid = builder.select(builder.icmp_signed("<", least, zero), _INT64(2), _INT64(1))
        return builder.select(builder.or_(is_empty, builder.and_(above, below)), valid, zero)

    return types.int64(*[types.int64] * 7), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _store_numbers(typingctx: Any, target: Any, count: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, count, value = args
        results = _pointer(builder, target, 64)
        with cgutils.for_range(builder, count) as loop:  # type: ignore[no-untyped-call]
            builder.store(value, builder.gep(results, [loop.index]), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _copy_bytes(typingctx: Any, target: Any, source: Any, size: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, source = (_pointer(builder, address, 8) for address in args[:2])
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


# The loops over numbers are emitted directly. One function per stored type would triple the time to compile the kernels.

_read: Callable[[int, int, int], int] = cast("Any", _read_number)
"""Return one number of an array: address, type code, position."""

_widen: Callable[[int, int, int, int, int, int, int], int] = cast("Any", _widen_numbers)
"""Convert integers to int64 and add a shift: source, type code, number of items, target, shift, smallest and largest + 1
valid number. Negative numbers become -1 if the smallest valid number is -1. Return 0 if a number before the shift is not
valid, 2 if one is negative, and 1 otherwise."""

_fill: Callable[[int, int, int], None] = cast("Any", _store_numbers)
"""Write a 64-bit integer several times: target, number of items, value."""

_copy: Callable[[int, int, int], None] = cast("Any", _copy_bytes)
"""Copy bytes between two addresses with ``memcpy``: target, source, number of bytes."""

_prefetch: Callable[[int], None] = cast("Any", _prefetch_line)
"""Prefetch the cache line at an address. The address may be invalid."""


@kernel
def find_rows(
    ids: PtrArray, bounds: PtrArray, units: PtrArray, tables: PtrArray, columns: PtrArray, starts: PtrArray,
    ptrs: PtrArray, positions: PtrArray,
) -> int:  # fmt: skip
    """Find the rows of each graph for every array of offsets, and the place of every column in the buffer.

    Args:
        ids: ``[B]`` graph ids.
        bounds: ``[U + 1]`` first graph of each shard.
        units: ``[B]`` shard of each graph.
        tables: ``[3, U, C]`` address, type code, and number of rows of each array of offsets. The address 0 means one
            row per graph.
        columns: ``[J, 8]`` description of each column, see :func:`copy_rows`.
        starts: ``[C, B]`` output, first row of each graph in its shard.
        ptrs: ``[C, B + 1]`` output, offsets of the graphs in the batch.
        positions: ``[J + 1]`` output, first byte of each column in the buffer, and the size of the buffer.

    Returns:
        -1 on success, -2 if the batch is too large, or ``c * B + i`` if the offsets ``c`` of graph ``i`` are invalid.
    """
    count = ids.shape[0]
    for c in range(starts.shape[0]):
        total = 0
        ptrs[c, 0] = 0
        for i in range(count):
            unit = units[i]
            first = ids[i] - bounds[unit]
            last = first + 1
            if tables[0, unit, c] != 0:
                where, code = tables[0, unit, c], tables[1, unit, c]
                last = _read(where, code, first + 1)
                first = _read(where, code, first)
            if first < 0 or last < first or last > tables[2, unit, c]:
                invalid: int = c * count + i
                return invalid
            starts[c, i] = first
            # Both are at most the number of rows, so the sum cannot overflow before this check.
            total += last - first
            if total > _MAX_ROWS:
                too_many: int = c * count + i
                return too_many
            ptrs[c, i + 1] = total
    size = 0
    for j in range(columns.shape[0]):
        positions[j] = size
        total = ptrs[columns[j, 1], count]
        row_bytes = columns[j, 3] * columns[j, 4] * columns[j, 5]
        if row_bytes > 0 and total > (_MAX_BYTES - size) // row_bytes:
            return -2
        size += (total * row_bytes + _LINE - 1) // _LINE * _LINE
    positions[columns.shape[0]] = size
    return -1


@kernel
def copy_rows(
    units: PtrArray, starts: PtrArray, ptrs: PtrArray, columns: PtrArray, tables: PtrArray,
    buffer: npt.NDArray[np.uint8], base: int, positions: PtrArray, dropped: PtrArray,
) -> int:  # fmt: skip
    """Fill the buffer, column by column.

    Graphs of a shard whose address is 0 are skipped, so that a batch can be filled shard by shard.

    Args:
        units, starts, ptrs: Shard of each graph, and results of :func:`find_rows`.
        columns: ``[J, 8]`` mode, offsets of the rows, offsets of the nodes that the ids refer to (-1 for plain
            numbers), number of slices before the row axis, items per row after it, bytes per item of the result,
            smallest valid id, and 1 if ids are counted through the batch or 0 if they stay local to their graph.
        tables: ``[3, U, J]`` address, type code and number of rows of each array.
        buffer: Bytes to fill.
        base: Address of the buffer.
        positions: ``[J + 1]`` first byte of each column in the buffer.
        dropped: ``[J]`` output, set to 1 for each column of ids that contains a negative one. Otherwise unchanged.

    Returns:
        -1 on success, ``j * B + i`` if column ``j`` has an id outside of graph ``i``, or -2 if the buffer is too small.
    """
    num_graphs = units.shape[0]
    for j in range(columns.shape[0]):
        mode, cut, target_cut, outer = columns[j, 0], columns[j, 1], columns[j, 2], columns[j, 3]
        inner, size = columns[j, 4], columns[j, 5]
        total = ptrs[cut, num_graphs]
        # The rows of every graph end at ptrs[cut, i + 1] <= total, so one check per column covers all writes.
        room, row_bytes = buffer.shape[0] - positions[j], outer * inner * size
        if positions[j] < 0 or room < 0 or (row_bytes > 0 and total > room // row_bytes):
            return -2
        for i in range(num_graphs):
            unit, at = units[i], ptrs[cut, i]
            count = ptrs[cut, i + 1] - at
            address, code, rows = tables[0, unit, j], tables[1, unit, j], tables[2, unit, j]
            # The first graphs of the next column follow the last graphs of this one.
            ahead, column = i + _AHEAD, j
            if ahead >= num_graphs:
                ahead, column = ahead - num_graphs, j + 1
            if ahead < num_graphs and column < columns.shape[0] and columns[column, 0] != GRAPH:
                later, item = units[ahead], columns[column, 5]
                if columns[column, 0] == IDS:
                    item = 1 << (tables[1, later, column] & 3)
                item *= columns[column, 4]
                place = tables[0, later, column] + starts[columns[column, 1], ahead] * item
                for o in range(columns[column, 3]):
                    _prefetch(place + o * tables[2, later, column] * item)
                    _prefetch(place + o * tables[2, later, column] * item + _LINE)
            if address == 0 or count == 0:
                continue
            if mode == GRAPH:
                _fill(base + positions[j] + 8 * at, count, i)
                continue
            shift, high = 0, 9223372036854775807
            if target_cut >= 0:
                high = ptrs[target_cut, i + 1] - ptrs[target_cut, i]
                shift = ptrs[target_cut, i] * columns[j, 7]
            for o in range(outer):
                place = (o * rows + starts[cut, i]) * inner
                target = base + positions[j] + (o * total + at) * inner * size
                if mode == COPY:
                    _copy(target, address + place * size, count * inner * size)
                    continue
                source = address + place * (1 << (code & 3))
                found = _widen(source, code, count * inner, target, shift, columns[j, 6], high)
                if target_cut >= 0 and found == 0:
                    invalid: int = j * num_graphs + i
                    return invalid
                if found == 2:
                    dropped[j] = 1
    return -1
