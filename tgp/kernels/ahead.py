"""Compile kernels before they are called, in several processes.

The annotations of a kernel name the types of its arguments, see :mod:`tgp.kernels.array_types`. Processes share the work
through the cache: each takes the next kernel that is neither cached nor claimed by another process.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numba import types
from numba.core.errors import NumbaError

from tgp.kernels._prims import pause_collection

__all__ = ["compile_ahead", "find_missing", "is_ready", "signature_of", "start_helpers"]

_TYPES: dict[str, Any] = {
    "BoolArray": types.boolean[::1],
    "ByteArray": types.int8[::1],
    "Float32Array": types.float32[::1],
    "Float32MatrixArray": types.float32[:, ::1],
    "FloatArray": types.float64[::1],
    "IndexArray": types.int32[::1],
    "IndexMatrixArray": types.int32[:, ::1],
    "MatrixArray": types.float64[:, ::1],
    "PtrArray": types.int64[::1],
    "PtrMatrixArray": types.int64[:, ::1],
    "ShortArray": types.int16[::1],
    "WordArray": types.uint64[::1],
    "bool": types.boolean,
    "float": types.float64,
    "int": types.int64,
    "np.int32": types.int32,
    "np.uint64": types.uint64,
}
"""numba's type for each annotation."""

_KERNELS_PER_HELPER = 4
"""Number of missing kernels that justifies another process. It starts in the time that three kernels take."""


def signature_of(name: str) -> tuple[Any, ...] | None:
    """Return the types that a kernel is compiled for.

    Args:
        name: Name of the kernel, ``"module.function"``.

    Returns:
        One type per argument, or ``None`` if an annotation does not name one type, or numba does not compile.
    """
    function = getattr(_dispatcher(name), "py_func", None)
    if function is None:
        return None
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    found = tuple(_TYPES.get(function.__annotations__.get(argument, "")) for argument in arguments)
    return None if None in found else found


def is_ready(name: str) -> bool:
    """Return True if a kernel is compiled or loaded in this process, or cached on disk.

    Args:
        name: Name of the kernel.
    """
    kernel = _dispatcher(name)
    if getattr(kernel, "overloads", True):
        return True
    signature = signature_of(name)
    return signature is not None and kernel._cache.contains(signature, kernel.targetctx.codegen())


def find_missing(names: Iterable[str]) -> list[str]:
    """Return the kernels that can be compiled ahead and are not ready, the longest one first.

    Args:
        names: Names of kernels. Those without a signature are left out.

    Returns:
        Names in an order that is the same in all processes; an empty list if kernels cannot be cached.
    """
    found = [name for name in sorted(names) if signature_of(name) is not None]
    if found and _dispatcher(found[0])._cache.cache_path is None:
        return []
    return sorted((name for name in found if not is_ready(name)), key=_code_size, reverse=True)


def compile_ahead(names: Iterable[str]) -> None:
    """Compile the missing kernels that no other process compiles.

    Args:
        names: Names of kernels, from :func:`find_missing`.
    """
    with pause_collection():
        for name in names:
            signature, kernel = signature_of(name), _dispatcher(name)
            if not is_ready(name) and kernel._cache.claim(signature, kernel.targetctx.codegen()):
                # Annotations that are wrong delay nothing but this kernel: it is compiled when it is called.
                with contextlib.suppress(NumbaError):
                    kernel.compile(signature)


@contextlib.contextmanager
def start_helpers(names: Sequence[str], limit: int) -> Iterator[int]:
    """Start processes that compile missing kernels, and stop them at the end of the block.

    The processes run ``python -m tgp.kernels.ahead``: they do not import the main module of the program.

    Args:
        names: Names of missing kernels, from :func:`find_missing`.
        limit: Largest number of processes.

    Yields:
        Number of processes that were started.
    """
    count = min(limit, len(names) // _KERNELS_PER_HELPER) if sys.executable else 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    helpers = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                helpers.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "tgp.kernels.ahead", *names],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        env=environment,
                    )
                )
        yield len(helpers)
    finally:
        for helper in helpers:
            helper.terminate()
            helper.wait()


def _dispatcher(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(f"tgp.kernels.{module}"), function)


def _code_size(name: str) -> int:
    """Return an estimate of the time to compile a kernel. Functions that it calls are not included."""
    return len(_dispatcher(name).py_func.__code__.co_code)


def _run_helper(names: Iterable[str], parent: int) -> None:
    """Compile kernels in a process of :func:`start_helpers`, until the process that started it has ended."""
    with contextlib.suppress(KeyboardInterrupt):  # the parent reports it
        compile_ahead(itertools.takewhile(lambda name: os.getppid() == parent, names))


if __name__ == "__main__":
    gc.disable()  # the process ends soon
    _run_helper(sys.argv[1:], os.getppid())
    os._exit(0)  # without removing what was compiled from memory
