"""Vector and memory instructions that numba does not offer: requests to memory, and sums of four columns at a time.

The functions compute exactly what a loop over four elements computes. numba does not combine such loops, because it cannot
know that the arrays do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tgp.kernels.array_types import FloatArray

__all__ = ["add_four", "clear_four", "prefetch", "store_four"]

_FOUR = 4
_DOUBLES = ir.VectorType(ir.DoubleType(), _FOUR)


def _address(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [position])


def _vector_address(
    context: Any, builder: Any, array_type: Any, array: Any, position: Any
) -> tuple[Any, int]:
    """Return the address of four elements, and the number of bytes to which it is aligned."""
    pointer = _address(context, builder, array_type, array, position)
    vector = ir.VectorType(context.get_data_type(array_type.dtype), _FOUR)
    return builder.bitcast(pointer, vector.as_pointer()), array_type.dtype.bitwidth // 8


def _load(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    """Return four elements as float64."""
    pointer, size = _vector_address(context, builder, array_type, array, position)
    found = builder.load(pointer, align=size)
    return found if array_type.dtype == types.float64 else builder.fpext(found, _DOUBLES)


def _store(context: Any, builder: Any, value: Any, array_type: Any, array: Any, position: Any) -> None:
    """Write four float64 numbers, rounded to the type of the array."""
    pointer, size = _vector_address(context, builder, array_type, array, position)
    if array_type.dtype != types.float64:
        value = builder.fptrunc(value, pointer.type.pointee)
    builder.store(value, pointer, align=size)


@intrinsic  # type: ignore[untyped-decorator]
def _request_memory(typingctx: Any, array: Any, position: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flag, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        shape = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], shape)
        address = builder.bitcast(_address(context, builder, signature.args[0], *args), byte)
        # The flags mean: for reading, keep it in all caches, data.
        builder.call(function, [address, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _clear(typingctx: Any, total: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _store(context, builder, ir.Constant(_DOUBLES, [0.0] * _FOUR), signature.args[0], *args)
        return context.get_dummy_value()

    return types.void(total, types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _add(typingctx: Any, rows: Any, low: Any, total: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        added = _load(context, builder, signature.args[0], *args[:2])
        found = _load(context, builder, signature.args[2], *args[2:])
        _store(context, builder, builder.fadd(found, added), signature.args[2], *args[2:])
        return context.get_dummy_value()

    return types.void(rows, types.uint64, total, types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _round(typingctx: Any, total: Any, at: Any, out: Any, low: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = _load(context, builder, signature.args[0], *args[:2])
        _store(context, builder, found, signature.args[2], *args[2:])
        return context.get_dummy_value()

    return types.void(total, types.uint64, out, types.uint64), codegen


Rows = npt.NDArray[Any]

prefetch: Callable[[Rows, np.uint64], None] = cast("Any", _request_memory)
"""Request the line of the cache with an element of an array. The position may lie outside of the array."""

clear_four: Callable[[FloatArray, np.uint64], None] = cast("Any", _clear)
"""Set ``total[at : at + 4]`` to zero."""

add_four: Callable[[Rows, np.uint64, FloatArray, np.uint64], None] = cast("Any", _add)
"""Add ``rows[low : low + 4]``, float32 or float64, to ``total[at : at + 4]``, float64."""

store_four: Callable[[FloatArray, np.uint64, Rows, np.uint64], None] = cast("Any", _round)
"""Copy ``total[at : at + 4]``, float64, to ``out[low : low + 4]``, float32 or float64."""
