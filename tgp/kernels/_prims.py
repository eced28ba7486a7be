"""Functions that kernels of several files share, and the decorator of all kernels.

Edit this file rarely: all kernels are compiled again after a change.

Random numbers are hashes of counters, not a stream. The value for (seed, level, node) is therefore the same on any
thread, in any batch and for any order of graphs.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast, overload

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic

from tgp.kernels._cache import IS_KNOWN_NUMBA, KernelCache
from tgp.kernels.array_types import FloatArray, IndexArray, IntArray, PtrArray

__all__ = [
    "MAX",
    "MEAN",
    "MIN",
    "MUL",
    "SUM",
    "count_bits",
    "fill_transpose",
    "hash_normal",
    "hash_u64",
    "hash_uniform",
    "heap_push",
    "heap_remove_min",
    "heap_sink",
    "heap_sink_entry",
    "kernel",
    "lowest_bit",
    "merge_weights",
    "pause_collection",
    "uf_find",
    "uf_union",
]

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def kernel(function: Function) -> Function: ...


@overload
def kernel(*, inner: bool = False, **options: Any) -> Callable[[Function], Function]: ...


def kernel(function: Callable[..., Any] | None = None, *, inner: bool = False, **options: Any) -> Any:
    """Compile a function with numba on its first call, cache the machine code, and release the GIL while it runs.

    Use it as ``@kernel`` or, with other options of :func:`numba.njit`, as ``@kernel(inline="always")``. The cache on disk is
    optional, see :mod:`tgp.kernels._cache`.

    Args:
        function: Function to compile.
        inner: True for a function that other kernels call. It becomes part of their machine code, see
            :mod:`tgp.kernels._compiler`. A call from Python compiles a second version.
        options: Options of :func:`numba.njit`.
    """
    decorate = functools.partial(_make_dispatcher, inner=inner, options=options)
    return decorate if function is None else decorate(function)


def _make_dispatcher(function: Callable[..., Any], inner: bool, options: dict[str, Any]) -> Any:
    # Nothing calls the kernels through C function pointers, so that wrapper is never built.
    defaults: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}
    if IS_KNOWN_NUMBA:
        from tgp.kernels._compiler import KernelCompiler

        defaults |= {"no_cpython_wrapper": inner, "pipeline_class": KernelCompiler}
    else:
        inner = False
    compiled: Any = njit(function, **{**defaults, **options})
    if compiled is function:  # NUMBA_DISABLE_JIT
        return function
    # Functions that differ only in the variables of their closure have the same code, so a cache cannot distinguish them.
    # The code of inner functions is part of the machine code of their callers.
    if function.__closure__ is None and not inner:
        compiled._cache = KernelCache(function)
    compiled.compile = _prepare_compilation(compiled.compile, compiled._cache, repr(sorted(options.items())))
    if inner:
        # numba would call the missing wrapper: calls from Python go to a kernel that has one.
        compiled._insert = lambda *args, **kwargs: None
        outer = _make_dispatcher(function, False, options)
        compiled._compile_for_args = lambda *args, **kwargs: outer
    return compiled


def _prepare_compilation(
    compile_signature: Callable[[Any], Any], cache: Any, options: str
) -> Callable[[Any], Any]:
    """Return a function that compiles with the garbage collector paused, which saves a sixth of the time.

    It also ends the claim of this process, whether the kernel compiles or not.
    """

    def compile_prepared(signature: Any) -> Any:
        # Threads that call a new kernel at the same time compile it once.
        with global_compiler_lock, pause_collection(), _remember_implementations(options):
            try:
                return compile_signature(signature)
            finally:
                if isinstance(cache, KernelCache):
                    cache.release()

    return compile_prepared


def _remember_implementations(options: str) -> contextlib.AbstractContextManager[None]:
    if not IS_KNOWN_NUMBA:
        return contextlib.nullcontext()
    from tgp.kernels._compiler import remember_implementations

    return remember_implementations(options)


@contextlib.contextmanager
def pause_collection() -> Iterator[None]:
    """Pause the garbage collector inside the block. The block may contain another one."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# -- random numbers ---------------------------------------------------------------------------------------------

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S11 = np.uint64(11)


@kernel(inline="always")
def _mix_bits(z: np.uint64) -> np.uint64:
    """Return the output function of the SplitMix64 generator for state ``z``."""
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    mixed: np.uint64 = z ^ (z >> _S31)
    return mixed


@kernel(inner=True)
def hash_u64(seed: int, level: int, node: int, draw: int) -> np.uint64:
    """Return 64 random bits for a seed, a level, a node index inside its graph, and the number of the draw."""
    z = _mix_bits(np.uint64(seed) + _GOLDEN)
    z = _mix_bits(z ^ (np.uint64(level) + _GOLDEN))
    z = _mix_bits(z ^ (np.uint64(node) + _GOLDEN))
    return _mix_bits(z ^ (np.uint64(draw) + _GOLDEN))


@kernel(inner=True)
def hash_uniform(seed: int, level: int, node: int, draw: int) -> float:
    """Return a uniform float64 in [0, 1) from :func:`hash_u64`."""
    return float(hash_u64(seed, level, node, draw) >> _S11) * (1.0 / 9007199254740992.0)


@kernel(inner=True)
def hash_normal(seed: int, level: int, node: int, draw: int) -> float:
    """Return a standard normal float64 (Box-Muller transform of the draws ``2 * draw`` and ``2 * draw + 1``)."""
    u = hash_uniform(seed, level, node, 2 * draw)
    v = hash_uniform(seed, level, node, 2 * draw + 1)
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)


# -- arrays and rows --------------------------------------------------------------------------------------------


@intrinsic  # type: ignore[untyped-decorator]
def _trailing_zeros(typingctx: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _population_count(typingctx: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


count_bits: Callable[[np.uint64], np.uint64] = cast("Any", _population_count)
"""Return the number of bits that are set in a uint64."""

lowest_bit: Callable[[np.uint64], np.uint64] = cast("Any", _trailing_zeros)
"""Return the position of the lowest bit that is set in a uint64 other than 0."""


_U = np.uint64
_ONE = np.uint64(1)


@kernel
def fill_transpose(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool,
    out_ptr: PtrArray, out: IndexArray, values: FloatArray,
) -> None:  # fmt: skip
    """Write the transpose of a matrix. Rows of the result are sorted; parallel entries keep their order.

    Args:
        indptr, indices: Rows of the matrix, ``[rows + 1]`` and ``[nnz]``.
        weight: ``[nnz]``, or an empty array if ``weighted`` is false.
        out_ptr: ``[columns + 1]``, overwritten with the offsets of the columns.
        out: ``[nnz]``, overwritten with the row of each entry.
        values: ``[nnz]``, overwritten with the weights; not accessed if ``weighted`` is false.
    """
    num_cols = out_ptr.shape[0] - 1
    for i in range(out_ptr.shape[0]):
        out_ptr[i] = 0
    for e in range(indices.shape[0]):
        out_ptr[np.uint32(indices[e]) + _ONE] += 1
    for i in range(num_cols):
        out_ptr[i + 1] += out_ptr[i]
    # out_ptr[j] serves as the write position of column j and ends as the start of column j + 1.
    for i in range(indptr.shape[0] - 1):
        for e in range(_U(indptr[i]), _U(indptr[i + 1])):
            slot = _U(out_ptr[np.uint32(indices[e])])
            out[slot] = i
            if weighted:
                values[slot] = weight[e]
            out_ptr[np.uint32(indices[e])] = slot + _ONE
    for i in range(num_cols, 0, -1):
        out_ptr[i] = out_ptr[i - 1]
    out_ptr[0] = 0


SUM, MEAN, MIN, MAX, MUL = 0, 1, 2, 3, 4
"""Codes of the operations that merge the weights of parallel edges."""


@kernel(inner=True)
def merge_weights(old: float, new: float, op: int) -> float:
    """Return two weights merged by ``op``. ``MEAN`` adds; the caller divides by the number of entries."""
    if op == MIN:
        return new if new < old else old
    if op == MAX:
        return new if new > old else old
    if op == MUL:
        return old * new
    return old + new


# -- union-find -------------------------------------------------------------------------------------------------


@kernel(inner=True)
def uf_find(parent: IntArray, node: int) -> int:
    """Return the root of ``node``. Halves the path to the root in ``parent``."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@kernel(inner=True)
def uf_union(parent: IntArray, a: int, b: int) -> None:
    """Join the sets of ``a`` and ``b``. The smaller root remains, so that a root is the smallest member of its set."""
    a = uf_find(parent, a)
    b = uf_find(parent, b)
    if a < b:
        parent[b] = a
    elif b < a:
        parent[a] = b


# -- binary min-heaps over (key, item); equal keys are ordered by item -------------------------------------------


@kernel(inner=True)
def heap_sink(keys: FloatArray, items: IntArray, size: int, at: int) -> None:
    """Restore the heap ``keys[:size]``, ``items[:size]`` in place after the entry at position ``at`` has grown."""
    key, item = keys[at], items[at]
    while True:
        c = 2 * at + 1
        if c >= size:
            break
        if c + 1 < size and (keys[c + 1] < keys[c] or (keys[c + 1] == keys[c] and items[c + 1] < items[c])):
            c += 1
        if keys[c] > key or (keys[c] == key and items[c] >= item):
            break
        keys[at], items[at] = keys[c], items[c]
        at = c
    keys[at], items[at] = key, item


@kernel(inner=True)
def heap_sink_entry(
    keys: FloatArray, items: IntArray, values: FloatArray, lo: int, size: int, at: int
) -> None:
    """Do the same as :func:`heap_sink` for a heap that starts at ``lo`` and carries a value with each entry."""
    key, item, value = keys[lo + at], items[lo + at], values[lo + at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        c = lo + child
        if child + 1 < size and (
            keys[c + 1] < keys[c] or (keys[c + 1] == keys[c] and items[c + 1] < items[c])
        ):
            child += 1
            c += 1
        if keys[c] > key or (keys[c] == key and items[c] >= item):
            break
        keys[lo + at], items[lo + at], values[lo + at] = keys[c], items[c], values[c]
        at = child
    keys[lo + at], items[lo + at], values[lo + at] = key, item, value


@kernel(inner=True)
def heap_push(keys: FloatArray, items: IntArray, size: int, key: float, item: int) -> int:
    """Add an entry to a heap of ``size`` entries and return the new size. The arrays must have room for it."""
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if keys[up] < key or (keys[up] == key and items[up] < item):
            break
        keys[at], items[at] = keys[up], items[up]
        at = up
    keys[at], items[at] = key, item
    return size + 1


@kernel(inner=True)
def heap_remove_min(keys: FloatArray, items: IntArray, size: int) -> int:
    """Remove the smallest entry of a heap and return the new size."""
    size -= 1
    keys[0], items[0] = keys[size], items[size]
    if size > 1:
        heap_sink(keys, items, size, 0)
    return size
