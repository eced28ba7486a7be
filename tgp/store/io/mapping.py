"""Files mapped into memory without keeping a file descriptor each.

Python's ``mmap`` holds a duplicate of the descriptor as long as the map lives (it can be told not to since 3.13).
A store of two thousand shards would run into the usual limit of 1024 open files, so older versions call the C
library directly.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

__all__ = ["map_file"]


def map_file(file: BinaryIO) -> npt.NDArray[np.uint8]:
    """The bytes of an open file, read-only; the file may be closed at once."""
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        return np.empty(0, np.uint8)
    if sys.version_info >= (3, 13):
        return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ, trackfd=False), np.uint8)
    if os.name == "posix":
        return _map_posix(file.fileno(), size)
    return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), np.uint8)


def _map_posix(descriptor: int, size: int) -> npt.NDArray[np.uint8]:
    library = _library()
    address = library.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    region = (ctypes.c_ubyte * size).from_address(address)
    # Every array made from the region keeps it alive; with the last of them the map goes.
    weakref.finalize(region, library.munmap, address, size).atexit = False
    return np.frombuffer(memoryview(region).toreadonly(), np.uint8)


def _library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library
