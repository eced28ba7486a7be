"""Access to the files of a store: the protocol that readers need, and its implementation for local directories."""

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
from tgp.store.io import portable
from tgp.store.io.failpoint import failpoint

__all__ = ["LocalFiles", "Sink", "StoreFiles", "TempFile", "ends_digest", "file_digest", "is_full"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TEMP = ".tmp-"
_BLOCK = 1 << 20


class StoreFiles(Protocol):
    """Read access to the files of a store, by name inside the store."""

    @property
    def location(self) -> str:
        """Path or URL of the store, for messages."""
        ...

    def size(self, name: str) -> int:
        """Return the size of a file in bytes.

        Raises:
            StoreMissingError: If there is no such file.
            StoreDamagedError: If it is not a regular file.
        """
        ...

    def read(self, name: str, limit: int) -> bytes:
        """Read a whole file.

        Raises:
            StoreMissingError: If there is no such file.
            StoreDamagedError: If it has more than ``limit`` bytes.
        """
        ...

    def map(self, name: str) -> npt.NDArray[np.uint8]:
        """Return the read-only bytes of a file, memory-mapped if the storage allows it."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading. The result is seekable, because HDF5 reads from it."""
        ...

    def path_of(self, name: str) -> str | None:
        """Return the path of a local file, or ``None`` if its content is held in memory."""
        ...

    def drop(self, name: str) -> None:
        """Delete the cached copy of a file that does not match the manifest, if there is a copy."""
        ...


class LocalFiles:
    """Files in a directory of this machine or of a network file system. Implements :class:`StoreFiles`.

    Args:
        path: Directory of the store.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def location(self) -> str:
        return str(self.path)

    def size(self, name: str) -> int:
        return self._status(name).st_size

    def version(self, name: str) -> tuple[int, int, int]:
        """Return numbers that change when a file is replaced. Raises the same errors as :meth:`size`."""
        status = self._status(name)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _status(self, name: str) -> os.stat_result:
        try:
            found = os.lstat(self.path / name)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise StoreMissingError(f"{self.path / name} does not exist", path=self.path / name) from error
        if not stat.S_ISREG(found.st_mode):
            raise StoreDamagedError(
                f"{self.path / name} must be a plain file, got a link, directory or device",
                path=self.path / name,
                item=name,
            )
        return found

    def read(self, name: str, limit: int) -> bytes:
        size = self.size(name)
        if size > limit:
            raise StoreDamagedError(
                f"{self.path / name} is too large: expected at most {limit} bytes, got {size}",
                path=self.path / name,
                item=name,
            )
        with open(self.path / name, "rb") as file:
            return file.read(limit)

    def map(self, name: str) -> npt.NDArray[np.uint8]:
        with self.open(name) as file:
            return portable.map_file(file)

    def open(self, name: str) -> BinaryIO:
        self.size(name)
        return open(self.path / name, "rb")

    def path_of(self, name: str) -> str | None:
        return str(self.path / name)

    def drop(self, name: str) -> None:
        """Do nothing: a local file is not a copy."""

    def exists(self, name: str) -> bool:
        """Return True if there is a file of that name."""
        return os.path.lexists(self.path / name)

    def names(self, folder: str = "") -> list[str]:
        """Return the sorted file names in the store or in one of its directories. A missing directory is empty."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(os.listdir(self.path / folder))
        return []

    # Writing ------------------------------------------------------------------------------------

    def make(self) -> None:
        """Create the directories of the store."""
        with self.writing(fmt.RECORDS):
            (self.path / fmt.RECORDS).mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Convert each ``OSError`` of the block into a :class:`StoreError` that names the file."""
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
            in_use = portable.WINDOWS and isinstance(error, PermissionError)
            hint = "Close all programs that read this store." if in_use else None
            raise StoreError(
                f"cannot write {target}: {error.strerror or error}", path=target, hint=hint
            ) from error

    def temporary(self, name: str) -> TempFile:
        """Create a temporary file that can be renamed to ``name``."""
        return TempFile(self.path / name)

    def write(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        """Write a small file atomically and durably.

        Args:
            name: Name of the file in the store.
            data: Content of the file.
            exclusive: Keep an existing file of that name.

        Returns:
            True if the file was written, False if an existing file was kept.
        """
        with self.writing(name), self.temporary(name) as temp:
            Sink(temp.descriptor).write_all(data)
            os.fsync(temp.descriptor)
            failpoint("file:written")
            if not temp.rename(exclusive=exclusive):
                return False
            failpoint("file:renamed")
            self.sync(name)
        return True

    def sync(self, name: str) -> None:
        """Make the directory entry of ``name`` durable."""
        portable.sync_directory((self.path / name).parent)

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""
        with self.writing(name), contextlib.suppress(FileNotFoundError):
            (self.path / name).unlink()

    def remove_stale(self) -> list[str]:
        """Delete the temporary files of writers that no longer run, and return their names."""
        removed = []
        for folder in ("", fmt.RECORDS):
            for name in self.names(folder):
                if name.startswith(_TEMP) and _is_stale(self.path / folder / name):
                    with contextlib.suppress(FileNotFoundError, PermissionError):
                        (self.path / folder / name).unlink()
                        removed.append(name)
        return removed

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the publication lock of the store, if the file system supports locks."""
        name = f"{fmt.RECORDS}/.lock"
        with self.writing(name):
            descriptor = os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            portable.lock_file(descriptor, wait=True)
            yield
        finally:
            portable.close_locked(descriptor)


class TempFile:
    """New file next to its final place. It is locked while it is open, and deleted on exit unless it was renamed.

    The lock shows other writers that the file is in use, see :meth:`LocalFiles.remove_stale`.

    Args:
        target: Final path of the file.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self._open = True
        while True:
            self.path = target.parent / f"{_TEMP}{secrets.token_hex(8)}-{target.name}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            self.descriptor = os.open(self.path, flags, 0o666)
            portable.lock_file(self.descriptor, wait=True)
            # Another process may have removed the file before it was locked.
            if self.path.exists():
                return
            portable.close_locked(self.descriptor)

    def __enter__(self) -> TempFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    def reopen(self) -> BinaryIO:
        """Return a file object for reading what was written. Closing it leaves the file open."""
        return open(self.descriptor, "rb", closefd=False)

    def rename(self, *, exclusive: bool = False) -> bool:
        """Give the file its final name.

        Args:
            exclusive: Keep an existing file of that name.

        Returns:
            True if the file has its final name, False if an existing file was kept.
        """
        if portable.WINDOWS:  # cannot rename open files
            self._close()
        if exclusive:
            return portable.rename_exclusive(self.path, self.target)
        portable.replace_file(self.path, self.target)
        return True

    def _close(self) -> None:
        if self._open:
            self._open = False
            portable.close_locked(self.descriptor)


class Sink(io.RawIOBase):
    """File object that HDF5 writes to. It stores the first error instead of raising it.

    libhdf5 may crash or corrupt its state if a write fails while it closes a file. Therefore it never sees the failure:
    later writes are discarded, and the writer calls :meth:`raise_error` afterwards.

    Args:
        descriptor: Descriptor of a file that is open for reading and writing.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.error: OSError | None = None
        self.length = 0
        self._position = 0

    def write_all(self, data: Any) -> None:
        """Write bytes at the current position and raise the error if that fails."""
        self.write(data)
        self.raise_error()

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = 0
        try:
            if self.error is None:
                os.lseek(self.descriptor, self._position, os.SEEK_SET)
            while self.error is None and done < len(view):
                done += os.write(self.descriptor, view[done:])
        except OSError as error:
            self.error = error
        self._position += len(view)
        self.length = max(self.length, self._position)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        os.lseek(self.descriptor, self._position, os.SEEK_SET)
        data = os.read(self.descriptor, len(view))
        view[: len(data)] = data
        view[len(data) :] = bytes(len(view) - len(data))
        self._position += len(view)
        return len(view)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self.length)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def truncate(self, size: int | None = None) -> int:
        self.length = self._position if size is None else size
        try:
            if self.error is None:
                os.ftruncate(self.descriptor, self.length)
        except OSError as error:
            self.error = error
        return self.length

    def raise_error(self) -> None:
        """Raise the first error of a write, if there was one."""
        if self.error is not None:
            raise self.error

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def is_full(error: OSError) -> bool:
    """Return True if a write failed because the disk, the quota or the file size limit is exhausted."""
    return error.errno in _FULL


def file_digest(file: BinaryIO) -> str:
    """Return the SHA-256 of all bytes of an open file."""
    digest = hashlib.sha256()
    file.seek(0)
    buffer = bytearray(_BLOCK)
    view = memoryview(buffer)
    while count := file.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(view[:count])
    return digest.hexdigest()


def ends_digest(file: BinaryIO, size: int) -> str:
    """Return the SHA-256 of the first and last 4096 bytes of a file, which is cheap enough for every open."""
    file.seek(0)
    digest = hashlib.sha256(file.read(fmt.END_BYTES))
    file.seek(max(0, size - fmt.END_BYTES))
    digest.update(file.read(fmt.END_BYTES))
    return digest.hexdigest()


def _is_stale(path: Path) -> bool:
    """Return True if no process holds the lock of a temporary file. Without locks, no file counts as stale."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return portable.lock_file(descriptor, wait=False) is True
    finally:
        portable.close_locked(descriptor)
