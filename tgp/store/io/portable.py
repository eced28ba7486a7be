"""File operations that differ between operating systems: locks, renames, syncs of directories and memory maps."""

from __future__ import annotations

import ctypes
import errno
import functools
import importlib
import mmap
import os
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

__all__ = [
    "WAIT_SECONDS",
    "WINDOWS",
    "close_locked",
    "has_directory_descriptors",
    "lock_file",
    "map_file",
    "rename_exclusive",
    "replace_file",
    "sync_directory",
]

WINDOWS = os.name == "nt"
"""True if open files cannot be renamed or deleted."""

_DIRECTORY_DESCRIPTORS = (
    {os.open, os.stat, os.unlink, os.mkdir, os.rename, os.link} <= os.supports_dir_fd
    and os.listdir in os.supports_fd
    and hasattr(os, "O_NOFOLLOW")
    and hasattr(os, "O_DIRECTORY")
)

_UNSUPPORTED_SYNC = frozenset(
    {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EACCES, errno.EPERM, errno.ENOSYS}
)
"""Errors of file systems that cannot sync a directory. Errors of a disk (EIO, ENOSPC, EDQUOT) are not among them."""

_LOCK_POSITION = 2**31 - 2
"""Position of the byte that is locked on Windows. ``msvcrt.locking`` accepts positions below 2 GiB, also past the end
of the file."""

WAIT_SECONDS = 1.0
"""Seconds after which waiting for a lock is announced."""

_LOCK_PAUSE = 0.02
_REPLACE_PAUSES = (0.01, 0.05, 0.2, 0.5)
"""Seconds between attempts to lock a file, and to replace a file on Windows."""


def _optional_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


fcntl = _optional_module("fcntl")
msvcrt = _optional_module("msvcrt")


# Locks ------------------------------------------------------------------------------------------


def lock_file(
    descriptor: int, *, wait: bool, shared: bool = False, on_wait: Callable[[], None] | None = None
) -> bool | None:
    """Lock an open file against other descriptors until :func:`close_locked` closes it.

    Args:
        descriptor: Descriptor of a file that is open for writing.
        wait: Wait until the lock is free. A signal handler that raises an exception ends the wait.
        shared: Allow other descriptors to hold the lock at the same time, if they also ask for a shared lock. Windows
            has no shared locks, so the lock is exclusive there.
        on_wait: Function that is called once if the lock is not free after :data:`WAIT_SECONDS`.

    Returns:
        True if the file is locked now, False if another descriptor holds the lock (never with ``wait``), and ``None``
        if the platform or the file system has no locks.
    """
    if fcntl is not None:
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        return _lock_with_fcntl(descriptor, mode, wait, on_wait)
    if msvcrt is not None:
        return _lock_with_msvcrt(descriptor, wait, on_wait)
    return None


def close_locked(descriptor: int) -> None:
    """Release the lock of :func:`lock_file`, if there is one, and close the file.

    The lock is released explicitly, because a process that was forked meanwhile may still have the file open.
    """
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        elif msvcrt is not None:
            # Windows also releases the lock of a closed file, but only some time later.
            os.lseek(descriptor, _LOCK_POSITION, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    except OSError:  # was not locked
        pass
    finally:
        os.close(descriptor)


def _lock_with_fcntl(
    descriptor: int, mode: int, wait: bool, on_wait: Callable[[], None] | None
) -> bool | None:
    deadline = time.monotonic() + WAIT_SECONDS
    block = wait and on_wait is None
    while True:
        try:
            fcntl.flock(descriptor, mode if block else mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                return False
        except OSError:  # no locks on this file system
            return None
        else:
            return True
        if on_wait is not None and time.monotonic() >= deadline:
            on_wait()
            block = True
        else:
            time.sleep(_LOCK_PAUSE)


def _lock_with_msvcrt(descriptor: int, wait: bool, on_wait: Callable[[], None] | None) -> bool | None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        os.lseek(descriptor, _LOCK_POSITION, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:  # locked by another descriptor
            if not wait:
                return False
            if on_wait is not None and time.monotonic() >= deadline:
                on_wait()
                on_wait = None
            time.sleep(_LOCK_PAUSE)
        except OSError:  # no locks on this file system
            return None
        else:
            return True


# Names ------------------------------------------------------------------------------------------


def has_directory_descriptors() -> bool:
    """Return True if files can be opened, renamed and deleted relative to an open directory."""
    return _DIRECTORY_DESCRIPTORS and not WINDOWS


def replace_file(source: str | Path, target: str | Path, folder: int | None = None) -> None:
    """Rename ``source`` to ``target`` and overwrite ``target`` if it exists.

    Windows refuses this while another process reads ``target``. A small file is read within milliseconds, so the
    rename is tried again a few times.

    Args:
        source: Path of the file.
        target: New path.
        folder: Descriptor of the directory to which relative paths refer.
    """
    if folder is not None:
        os.replace(source, target, src_dir_fd=folder, dst_dir_fd=folder)
        return
    for pause in _REPLACE_PAUSES if WINDOWS else ():
        try:
            os.replace(source, target)
        except PermissionError:
            time.sleep(pause)
        else:
            return
    os.replace(source, target)


def rename_exclusive(source: str | Path, target: str | Path, folder: int | None = None) -> bool:
    """Give ``source`` the name ``target`` unless a file of that name exists. ``source`` may keep its old name too.

    Args:
        source: Path of the file.
        target: New path.
        folder: Descriptor of the directory to which relative paths refer.

    Returns:
        True if ``target`` is now the file that was ``source``.
    """
    links: dict[str, Any] = {} if folder is None else {"src_dir_fd": folder, "dst_dir_fd": folder}
    try:
        os.link(source, target, **links)
    except FileExistsError:
        return False
    except (AttributeError, OSError):  # no hard links on this platform or file system
        if _exists(target, folder):
            return False
        try:
            # On Windows this fails if another process has just created the target. Elsewhere it overwrites the target.
            os.rename(source, target, **links)
        except FileExistsError:
            return False
    return True


def _exists(path: str | Path, folder: int | None) -> bool:
    options: dict[str, Any] = {} if folder is None else {"dir_fd": folder}
    try:
        os.stat(path, follow_symlinks=False, **options)
    except FileNotFoundError:
        return False
    return True


def sync_directory(descriptor: int | None) -> None:
    """Make the names of the files in a directory durable, where the platform and the file system can do that.

    Some network file systems refuse to sync a directory. They are tolerated: a power cut may then remove the names of
    files that were written last, and the next run writes these files again. An error of the disk is raised.

    Args:
        descriptor: Descriptor of the directory, or ``None`` on a platform that does not open directories.
    """
    if descriptor is None:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED_SYNC:
            raise


# Memory maps ------------------------------------------------------------------------------------


def map_file(file: BinaryIO) -> npt.NDArray[np.uint8]:
    """Map an open file into memory without keeping a file descriptor.

    Python's ``mmap`` keeps a duplicate of the descriptor while the map exists, unless ``trackfd=False`` is given
    (Python 3.13, not on Windows). A store of two thousand shards would exceed the usual limit of 1024 open files.
    Older versions therefore call the C library. On Windows the duplicate is a handle, which has no such limit.

    Args:
        file: File that is open for reading. It may be closed afterwards.

    Returns:
        Read-only bytes of the file.
    """
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        return np.empty(0, np.uint8)
    if WINDOWS:
        return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), np.uint8)
    if sys.version_info >= (3, 13):
        return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ, trackfd=False), np.uint8)
    return _map_with_libc(file.fileno(), size)


def _map_with_libc(descriptor: int, size: int) -> npt.NDArray[np.uint8]:
    libc = _load_libc()
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    region = (ctypes.c_ubyte * size).from_address(address)
    # Every array made from the region keeps a reference to it. The file is unmapped when the last one is deleted.
    weakref.finalize(region, libc.munmap, address, size).atexit = False
    return np.frombuffer(memoryview(region).toreadonly(), np.uint8)


RANDOM, SOON = 1, 3
"""Advice to the system about mapped bytes: they are read in random order, or all of them are read soon."""


def advise(address: int, size: int, advice: int) -> None:
    """Tell the system how mapped bytes will be read. This changes the speed of reading only.

    Args:
        address: Address of the first byte.
        size: Number of bytes.
        advice: :data:`RANDOM` reads single pages instead of megabytes around them. :data:`SOON` starts to read all of
            the bytes and does not wait for them.
    """
    page, high = mmap.PAGESIZE, address + size
    if advice == SOON:
        low = address // page * page
    else:  # only pages without other bytes
        low, high = -(-address // page) * page, high // page * page
    if high > low and sys.platform == "linux":
        _load_libc().madvise(
            low, high - low, advice
        )  # a system that refuses the advice reads the bytes anyway


@functools.cache
def _load_libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc
