"""Access to the files of a store, in one place, so that other kinds of storage can be added."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from tgp.errors import StoreDamagedError, StoreError, StoreFullError, StoreMissingError
from tgp.store.format import constants as fmt
from tgp.store.io.failpoint import failpoint
from tgp.store.io.mapping import map_file

try:
    import fcntl
except ImportError:  # not a POSIX system: writers go without advisory locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["LocalFiles", "Sink", "StoreFiles", "ends_digest", "file_digest", "is_full"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TEMP = ".tmp-"
_BLOCK = 1 << 20


class StoreFiles(Protocol):
    """What a reader needs: sizes, small files, and shard bytes."""

    @property
    def location(self) -> str:
        """Where the store is, for messages."""
        ...

    def size(self, name: str) -> int:
        """Bytes in a file; :class:`StoreMissingError` if it is absent, damaged if no plain file."""
        ...

    def read(self, name: str, limit: int) -> bytes:
        """The whole of a file of at most ``limit`` bytes."""
        ...

    def map(self, name: str) -> npt.NDArray[np.uint8]:
        """The bytes of a file, read-only; mapped, not read, where the storage allows it."""
        ...

    def open(self, name: str) -> BinaryIO:
        """A seekable binary file; what HDF5 reads from and digests are made of."""
        ...

    def path_of(self, name: str) -> str | None:
        """Where on this machine the bytes lie that :meth:`map` gives, if they lie in a file that can change."""
        ...

    def drop(self, name: str) -> None:
        """Told that a file is not what the manifest says: forget a copy of it, if there is one."""
        ...


class LocalFiles:
    """Files in a directory of this machine (or of a network file system)."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def location(self) -> str:
        return str(self.path)

    def size(self, name: str) -> int:
        try:
            found = os.lstat(self.path / name)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise StoreMissingError(f"{self.path / name} does not exist", path=self.path / name) from error
        if not stat.S_ISREG(found.st_mode):
            raise StoreDamagedError(
                f"{self.path / name} must be a plain file, not a link, folder or device",
                path=self.path / name,
                item=name,
            )
        return found.st_size

    def read(self, name: str, limit: int) -> bytes:
        size = self.size(name)
        if size > limit:
            raise StoreDamagedError(
                f"{self.path / name} has {size} bytes, at most {limit} are allowed",
                path=self.path / name,
                item=name,
            )
        with open(self.path / name, "rb") as file:
            return file.read(limit)

    def map(self, name: str) -> npt.NDArray[np.uint8]:
        with self.open(name) as file:
            return map_file(file)

    def open(self, name: str) -> BinaryIO:
        self.size(name)
        return open(self.path / name, "rb")

    def path_of(self, name: str) -> str | None:
        return str(self.path / name)

    def drop(self, name: str) -> None:
        """Nothing: this is no copy."""

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return os.path.lexists(self.path / name)

    def names(self, folder: str = "") -> list[str]:
        """Sorted names in the store or in one folder of it; empty if there is none."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(os.listdir(self.path / folder))
        return []

    # Writing ------------------------------------------------------------------------------------

    def make(self) -> None:
        """Create the directories."""
        with self.writing(fmt.RECORDS):
            (self.path / fmt.RECORDS).mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Turn errors of the operating system into errors of the store."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            target = self.path / name
            if is_full(error):
                raise StoreFullError(
                    f"no space left while writing {target} ({os.strerror(error.errno or 0)})",
                    path=target,
                    hint="Free some space and run the same command again: it continues.",
                ) from error
            raise StoreError(f"cannot write {target}: {error.strerror or error}", path=target) from error

    @contextlib.contextmanager
    def temporary(self, name: str) -> Iterator[tuple[int, Path]]:
        """A new file next to ``name``, locked while it is open, gone afterwards unless renamed."""
        target = self.path / name
        descriptor, path = _create_temp(target)
        try:
            yield descriptor, path
        finally:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            os.close(descriptor)

    def write(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        """Write a small file atomically and durably.

        With ``exclusive`` an existing file wins; the result says whether ours was written.
        """
        with self.writing(name), self.temporary(name) as (descriptor, path):
            Sink(descriptor).write_all(data)
            os.fsync(descriptor)
            failpoint("file:written")
            if not exclusive:
                os.replace(path, self.path / name)
            elif not _link(path, self.path / name):
                return False
            failpoint("file:renamed")
            self.sync(name)
        return True

    def publish(self, temp: Path, name: str) -> None:
        """Rename a finished temporary file to its final name, durably."""
        os.replace(temp, self.path / name)
        failpoint("shard:renamed")
        self.sync(name)

    def sync(self, name: str) -> None:
        """Make the directory entry of ``name`` durable."""
        with contextlib.suppress(PermissionError):  # directories cannot be opened on Windows
            descriptor = os.open((self.path / name).parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def remove(self, name: str) -> None:
        """Delete a file if it is there."""
        with self.writing(name), contextlib.suppress(FileNotFoundError):
            (self.path / name).unlink()

    def remove_stale(self) -> list[str]:
        """Delete temporary files whose writer is dead; their names."""
        removed = []
        for folder in ("", fmt.RECORDS):
            for name in self.names(folder):
                if name.startswith(_TEMP) and _is_stale(self.path / folder / name):
                    with contextlib.suppress(FileNotFoundError):
                        (self.path / folder / name).unlink()
                        removed.append(name)
        return removed

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the store's publication lock, as far as the file system knows locks."""
        path = self.path / fmt.RECORDS / ".lock"
        with self.writing(f"{fmt.RECORDS}/.lock"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _flock(descriptor, wait=True)
            yield
        finally:
            os.close(descriptor)


class Sink(io.RawIOBase):
    """The file HDF5 writes to. It remembers the first error instead of raising it.

    libhdf5 may crash or leave its structures broken when a write fails while it closes a file. Here it
    never learns of the failure: later writes go nowhere, and the writer asks :meth:`raise_error`.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.error: OSError | None = None
        self.length = 0
        self._at = 0

    def write_all(self, data: Any) -> None:
        """Write bytes at the current position, raising what goes wrong."""
        self.write(data)
        self.raise_error()

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = 0
        try:
            while self.error is None and done < len(view):
                done += os.pwrite(self.descriptor, view[done:], self._at + done)
        except OSError as error:
            self.error = error
        self._at += len(view)
        self.length = max(self.length, self._at)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = os.pread(self.descriptor, len(view), self._at)
        view[: len(data)] = data
        view[len(data) :] = bytes(len(view) - len(data))
        self._at += len(view)
        return len(view)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self.length)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def truncate(self, size: int | None = None) -> int:
        self.length = self._at if size is None else size
        try:
            if self.error is None:
                os.ftruncate(self.descriptor, self.length)
        except OSError as error:
            self.error = error
        return self.length

    def raise_error(self) -> None:
        """Raise the error that happened, if one did."""
        if self.error is not None:
            raise self.error

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def is_full(error: OSError) -> bool:
    """Whether the disk, the quota or the file size limit is used up."""
    return error.errno in _FULL


def file_digest(file: BinaryIO) -> str:
    """SHA-256 of a file's bytes from its start."""
    digest = hashlib.sha256()
    file.seek(0)
    buffer = bytearray(_BLOCK)
    view = memoryview(buffer)
    while count := file.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(view[:count])
    return digest.hexdigest()


def ends_digest(file: BinaryIO, size: int) -> str:
    """SHA-256 of the first and last :data:`format.END_BYTES` bytes: cheap enough for every open."""
    file.seek(0)
    digest = hashlib.sha256(file.read(fmt.END_BYTES))
    file.seek(max(0, size - fmt.END_BYTES))
    digest.update(file.read(fmt.END_BYTES))
    return digest.hexdigest()


def _create_temp(target: Path) -> tuple[int, Path]:
    while True:
        path = target.parent / f"{_TEMP}{secrets.token_hex(8)}-{target.name}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        _flock(descriptor, wait=True)
        # A cleaner may have seen the file before it was locked and removed it.
        if path.exists():
            return descriptor, path
        os.close(descriptor)


def _flock(descriptor: int, *, wait: bool) -> bool | None:
    """Lock a file: whether it worked, ``None`` if there are no locks here."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # no locks on this file system
        return None
    return True


def _is_stale(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        # Without locks nobody can tell a dead writer's file from a living one's: leave it.
        return _flock(descriptor, wait=False) is True
    finally:
        os.close(descriptor)


def _link(source: Path, target: Path) -> bool:
    """Give ``source`` the name ``target`` unless it is taken."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if target.exists():
            return False
        os.replace(source, target)
    return True
