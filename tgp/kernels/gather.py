"""Rows of many mapped arrays into one buffer: what a batch is made of.

The sources are addresses, not arrays: a store has one map per shard, and a batch touches all of them. The tables of
addresses are filled by ``tgp.store.read.batch_plan`` from arrays that it keeps alive and whose lengths it has checked. Offsets are
read once and held against the number of rows, so that a file changed under a running reader is an error, not a wild read.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["COPY", "GRAPH", "IDS", "copy_rows", "find_rows", "find_units"]

COPY, IDS, GRAPH = 0, 1, 2
"""What becomes of a column: bytes as they are; integers widened, checked and shifted; the graph of each row."""


_AHEAD = 8
"""Graphs between a prefetch and its use: scattered reads are a quarter faster."""

_SIZES = (1, 2, 4, 8, 1, 2, 4, 8)
"""Bytes of each stored type: uint8 to uint64, int8 to int64."""


def _loader(bits, signed):
    """A function that reads one integer at an address and widens it to 64 bits."""

    @intrinsic
    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            value = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()), align=1)
            if bits == 64:
                return value
            return (builder.sext if signed else builder.zext)(value, ir.IntType(64))

        return types.int64(types.int64), codegen

    return load


_u8, _u16, _u32 = (_loader(bits, False) for bits in (8, 16, 32))
_i8, _i16, _i32, _i64 = (_loader(bits, True) for bits in (8, 16, 32, 64))


@intrinsic
def _store(typingctx, address, value):
    """Write one 64-bit integer at an address."""

    def codegen(context, builder, signature, args):
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def _copy(typingctx, target, source, size):
    """``memcpy`` between addresses."""

    def codegen(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()
        ends = [builder.inttoptr(a, byte) for a in args[:2]]
        cgutils.raw_memcpy(builder, *ends, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def _prefetch(typingctx, address):
    """Start fetching the cache line at an address; harmless wherever it leads."""

    def codegen(context, builder, signature, args):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        where = builder.inttoptr(args[0], byte)
        builder.call(fetch, [where, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@njit(cache=True, nogil=True)
def _at(address, code, place):
    """One integer of an array of any stored type."""
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


@njit(cache=True, nogil=True)
def find_units(ids, bounds, ready, units):
    """Which shard each graph is in.

    Args:
        ids: ``[B]`` graphs.
        bounds: ``[U + 1]`` first graph of every shard.
        ready: ``[U]`` shards that are open.
        units: out, ``[B]``.

    Returns:
        0; 1 if a shard is not ready; 2 if an id is outside.
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


@njit(cache=True, nogil=True)
def find_rows(ids, bounds, units, address, code, rows, starts, ptrs):
    """Where the rows of some graphs lie, for every kind of offsets.

    Args:
        ids, bounds, units: see :func:`find_units`.
        address, code: ``[U, C]`` where the offsets are and their type; address 0 means one row per graph.
        rows: ``[U, C]`` rows that the offsets cut.
        starts: out, ``[C, B]`` first row of each graph in its shard.
        ptrs: out, ``[C, B + 1]`` offsets of the graphs in the batch.

    Returns:
        -1, or ``c * B + i`` if offsets ``c`` of graph ``i`` are wrong.
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
                first, last = _at(where, code[unit, c], row), _at(where, code[unit, c], row + 1)
            if first < 0 or last < first or last > rows[unit, c]:
                return c * ids.shape[0] + i
            starts[c, i] = first
            total += last - first
            ptrs[c, i + 1] = total
    return -1


def _widener(load, size):
    """A function that widens integers of one stored type."""

    @njit(nogil=True, inline="always")
    def widen(source, count, target, shift, low, high):
        smallest, largest = high, low  # of no numbers: nothing outside
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


@njit(cache=True, nogil=True)
def _widen(address, code, place, count, target, shift, low, high):
    """Integers of any stored type as int64, shifted; negative ones become -1 if that is ``low``.

    Returns:
        Whether all lie in ``[low, high)``.
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


@njit(cache=True, nogil=True)
def copy_rows(units, starts, ptrs, columns, address, code, length, buffer, offsets):
    """Fill the buffer, column by column.

    Args:
        units, starts, ptrs: from :func:`find_rows`.
        columns: ``[J, 7]`` mode, cut of the rows, cut of the nodes that ids name (-1: plain numbers), number of
            slices before the row axis, items per row behind it, bytes per stored item, smallest id.
        address, code, length: ``[U, J]`` where the arrays are, their types, and rows in them.
        buffer: bytes to fill.
        offsets: ``[J]`` where each column begins in it.

    Returns:
        -1, or ``j * B + i`` if column ``j`` has an id outside graph ``i``.
    """
    base = buffer.ctypes.data
    num_graphs = units.shape[0]
    for j in range(columns.shape[0]):
        mode, cut, aim, outer, inner, size, low = columns[j]
        total = ptrs[cut, num_graphs]
        for i in range(num_graphs):
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
            if aim >= 0:
                shift = ptrs[aim, i]
                high = ptrs[aim, i + 1] - shift
            for o in range(outer):
                place = (o * rows + first) * inner
                target = base + offsets[j] + (o * total + at) * inner * (8 if mode == IDS else size)
                if mode == COPY:
                    _copy(target, address[unit, j] + place * size, count * inner * size)
                    continue
                inside = _widen(
                    address[unit, j], code[unit, j], place, count * inner, target, shift, low, high
                )
                if aim >= 0 and not inside:
                    return j * num_graphs + i
    return -1
