"""Limits for input files: which kinds of files are opened, and how much memory their content may need.

A small file can declare or decompress to any number of bytes. Every reader of input files takes the current
:class:`InputBudget`, opens files through it and charges the size of an array before the array is allocated. See
``docs/decisions/0903-limits-for-input-files.md``.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import lzma
import os
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from tgp.errors import DatasetError

__all__ = [
    "LIMIT_HINT",
    "MAX_RATIO",
    "MIN_LIMIT",
    "READ_ERRORS",
    "InputBudget",
    "check_regular",
    "decompress",
    "describe",
    "input_budget",
    "open_decompressed",
    "physical_memory",
]

MIN_LIMIT = 4 * 10**9
"""Bytes that any dataset may need in memory, no matter how small its files are."""

MAX_RATIO = 100
"""Bytes in memory for each byte of a file, where this is more than :data:`MIN_LIMIT`."""

LIMIT_HINT = "if you trust the files, raise the limit with --max-input, for example --max-input 64GB"

READ_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    lzma.LZMAError,
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors that parsers of the standard library, numpy and torch raise for damaged files."""

_XZ_MEMORY = 1 << 28
"""Bytes of memory for the dictionary of an ``.xz`` file. The preset ``xz -9`` needs a quarter of it."""

_CHUNK = 1 << 16
_KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a FIFO",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


class InputBudget:
    """Memory that the content of the files of one dataset may need.

    Args:
        max_input: Limit in bytes. By default it is the larger of :data:`MIN_LIMIT` and :data:`MAX_RATIO` times the
            size of the opened files, and at most the memory of the machine.
    """

    def __init__(self, max_input: int | None = None) -> None:
        self.max_input = max_input
        self.stored = 0
        """Size of all files that were opened, in bytes."""
        self.needed = 0
        """Memory that was charged so far, in bytes."""
        self._files: set[tuple[int, int]] = set()

    @property
    def limit(self) -> int:
        """Limit in bytes."""
        if self.max_input is not None:
            return self.max_input
        return min(max(MIN_LIMIT, MAX_RATIO * self.stored), physical_memory())

    def open(self, path: str | Path) -> BinaryIO:
        """Open a regular file for reading and add its size to :attr:`stored`.

        Args:
            path: File, or a symbolic link to one.

        Raises:
            DatasetError: If the path is not a regular file, or cannot be opened.
        """
        check_regular(path)
        try:
            # The file may have been replaced since the check. O_NONBLOCK keeps the call from waiting for a FIFO.
            descriptor = os.open(
                path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            )
        except OSError as error:
            raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise _not_regular(path, status.st_mode)
        if (status.st_dev, status.st_ino) not in self._files:
            self._files.add((status.st_dev, status.st_ino))
            self.stored += status.st_size
        return os.fdopen(descriptor, "rb")

    def charge(self, num_bytes: int, where: object, what: str) -> None:
        """Add memory that is about to be allocated.

        Args:
            num_bytes: Number of bytes.
            where: File, for the error message.
            what: Item of the file, for the error message.

        Raises:
            DatasetError: If the sum is above the limit.
        """
        self.check(self.needed + num_bytes, where, what)
        self.needed += num_bytes

    def check(self, num_bytes: int, where: object, what: str) -> None:
        """Check a number of bytes against the limit without adding it. See :meth:`charge`."""
        if num_bytes > self.limit:
            raise DatasetError(
                f"{where}: {what} needs too much memory: expected at most {_size(self.limit)} "
                f"for this dataset, got {_size(num_bytes)}",
                hint=LIMIT_HINT,
            )


_active: ContextVar[InputBudget | None] = ContextVar("input_budget", default=None)


@contextlib.contextmanager
def input_budget(max_input: int | None = None) -> Iterator[InputBudget]:
    """Yield the budget of the dataset that is being opened.

    An inner block without an own limit uses the budget of the outer block.

    Args:
        max_input: Limit in bytes; ``None`` for the default.
    """
    outer = _active.get()
    if outer is not None and max_input is None:
        yield outer
        return
    token = _active.set(InputBudget(max_input))
    try:
        yield cast("InputBudget", _active.get())
    finally:
        _active.reset(token)


def check_regular(path: str | Path) -> None:
    """Check that a path is a regular file, without opening it: opening a FIFO or a device can block or have effects.

    Args:
        path: File, or a symbolic link to one.

    Raises:
        DatasetError: If it is not, or if it cannot be accessed.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(mode):
        raise _not_regular(path, mode)


def _not_regular(path: str | Path, mode: int) -> DatasetError:
    kind = next((name for test, name in _KINDS.items() if test(mode)), "something else")
    return DatasetError(f"{path} cannot be read: expected a regular file, got {kind}")


def open_decompressed(path: Path, budget: InputBudget) -> io.TextIOWrapper:
    """Open a text file that may be compressed (``.gz``, ``.xz``). The decompressed size is limited.

    Args:
        path: UTF-8 text file.
        budget: Budget of the dataset.

    Raises:
        DatasetError: If the file is not a regular file. Reading raises it if the text is longer than the limit.
    """
    file = budget.open(path)
    inner = decompress(file, path.suffix)
    if inner is file:
        return io.TextIOWrapper(file, encoding="utf-8")
    return io.TextIOWrapper(io.BufferedReader(_Bounded(inner, file, path, budget), _CHUNK), encoding="utf-8")


def decompress(file: BinaryIO, suffix: str) -> BinaryIO:
    """Return a stream of the decompressed bytes of a file. Its length is not limited.

    Args:
        file: Open file.
        suffix: Suffix of its name. The file itself is returned if this is not ``.gz`` or ``.xz``.
    """
    if suffix.lower() == ".gz":
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if suffix.lower() == ".xz":
        return cast("BinaryIO", io.BufferedReader(_XzReader(file), _CHUNK))
    return file


class _Bounded(io.RawIOBase):
    """Stream that raises an error when more bytes are read than the budget allows."""

    def __init__(self, inner: Any, file: BinaryIO, path: Path, budget: InputBudget) -> None:
        self._inner, self._file, self._path, self._budget, self._total = inner, file, path, budget, 0

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        found = self._inner.read(len(buffer))
        buffer[: len(found)] = found
        self._total += len(found)
        self._budget.check(self._total, self._path, "the decompressed text")
        return len(found)


class _XzReader(io.RawIOBase):
    """Decompress a file of one or more ``.xz`` streams with a limit for the memory of the decoder."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._decoder = file, lzma.LZMADecompressor(memlimit=_XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._decoder.eof:
                rest = self._decoder.unused_data.lstrip(b"\0") or self._file.read(_CHUNK).lstrip(b"\0")
                if not rest:
                    return 0
                self._decoder = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
                data = self._decoder.decompress(rest, len(buffer))
            else:
                more = self._file.read(_CHUNK) if self._decoder.needs_input else b""
                if not more and self._decoder.needs_input:
                    raise EOFError("the compressed file ended before the end of the stream")
                data = self._decoder.decompress(more, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)


def describe(error: BaseException) -> str:
    """Return the first line of an error of another package, for the message of a :class:`~tgp.errors.DatasetError`.

    Args:
        error: The error. Its class is added if the text alone is not a sentence.
    """
    line = next(iter(str(error).strip().splitlines()), "")[:200]
    return line if " " in line else f"{type(error).__name__} {line}".strip()


def physical_memory() -> int:
    """Return the memory that this process may use in bytes; a very large number if it is unknown.

    This is the memory of the machine, or the smallest limit of the control groups (cgroups) of the process.
    """
    groups = ""
    with contextlib.suppress(OSError):
        groups = Path("/proc/self/cgroup").read_text()
    return _memory_of(groups, Path("/sys/fs/cgroup"))


@functools.lru_cache(maxsize=1)  # a process that moves to other groups has another text
def _memory_of(groups: str, root: Path) -> int:
    """Return the memory of a process in some control groups.

    Args:
        groups: Content of ``/proc/self/cgroup``.
        root: Folder where the groups are mounted.
    """
    found = [1 << 62]
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    files = [root / "memory.max", root / "memory" / "memory.limit_in_bytes"]
    for line in groups.splitlines():
        kinds, _, place = line.partition(":")[2].partition(":")
        if ".." in place.split("/"):  # the group is outside of what this process can see
            continue
        inner = PurePosixPath(place.lstrip("/"))
        for group in (inner, *inner.parents):
            if not kinds:  # version 2
                files.append(root / group / "memory.max")
            elif "memory" in kinds.split(","):
                files.append(root / "memory" / group / "memory.limit_in_bytes")
    for file in files:
        with contextlib.suppress(ValueError, OSError):
            found.append(int(file.read_text()))
    return min(size for size in found if size > 0)


def _size(num_bytes: int) -> str:
    """Return a size with a unit."""
    value, units = float(num_bytes), ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.4g} {units[0]}"
