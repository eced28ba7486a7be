"""Access to the files of a store: the protocol that readers need, and its implementation for local directories."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from tgp.errors import StoreError, StoreFullError, StoreMissingError
from tgp.store.format import constants as fmt
from tgp.store.io import portable
from tgp.store.io.directory import TEMPORARY, Directory, TempFile, not_regular, open_directory
from tgp.store.io.failpoint import failpoint
from tgp.store.io.locks import LOCK, OnWait, clear_stale_holder, hold_lock, warn_waiting
from tgp.store.io.sink import Sink

if TYPE_CHECKING:
    from tgp.store.format.pieces import FileRecord

__all__ = ["LocalFiles", "StoreFiles", "ends_digest", "file_digest", "is_full"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TEMPORARY = re.compile(re.escape(TEMPORARY) + r"[0-9a-f]{16}-(.+)")
PROBE = "probe"
"""Final name of temporary files that only show to other machines that they see the same directory."""

_BLOCK = 1 << 20


class StoreFiles(Protocol):
    """Read access to the files of a store, by name inside the store."""

    @property
    def location(self) -> str:
        """Path or URL of the store, for messages."""
        ...

    def expect(self, records: Iterable[FileRecord]) -> None:
        """Announce the sizes and checksums of all files that the manifest records, before one of them is read."""
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

    def fetch(self, names: Sequence[str]) -> None:
        """Prepare to read some files, which can be faster than opening them one after another."""
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

    def expect(self, records: Iterable[FileRecord]) -> None:
        """Do nothing: a local file is not downloaded."""

    def size(self, name: str) -> int:
        return self._status(name).st_size

    def version(self, name: str) -> tuple[int, int, int]:
        """Return numbers that change when a file is replaced. Raises the same errors as :meth:`size`."""
        status = self._status(name)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _status(self, name: str) -> os.stat_result:
        with self._reading(name) as (folder, base):
            found = folder.status(base)
        if not stat.S_ISREG(found.st_mode):
            raise not_regular(self.path / name, name)
        return found

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[tuple[Directory, str]]:
        """Yield the directory of a file and its name there. A missing file becomes a :class:`StoreMissingError`."""
        inner, _, base = name.rpartition("/")
        try:
            if inner:
                with open_directory(self.path, inner) as folder:
                    yield folder, base
            else:
                yield Directory(self.path), base
        except (FileNotFoundError, NotADirectoryError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreMissingError(f"{self.path / name} does not exist", path=self.path / name) from error

    def read(self, name: str, limit: int) -> bytes:
        with self._reading(name) as (folder, base):
            return folder.read(base, limit)

    def map(self, name: str) -> npt.NDArray[np.uint8]:
        with self.open(name) as file:
            return portable.map_file(file)

    def open(self, name: str) -> BinaryIO:
        if portable.WINDOWS:
            self.size(name)
            return open(self.path / name, "rb")
        with self._reading(name) as (folder, base):
            return open(self.path / name, "rb", opener=lambda *_: folder.open(base, os.O_RDONLY))

    def path_of(self, name: str) -> str | None:
        return str(self.path / name)

    def fetch(self, names: Sequence[str]) -> None:
        """Do nothing: the files are here."""

    def drop(self, name: str) -> None:
        """Do nothing: a local file is not a copy."""

    def exists(self, name: str) -> bool:
        """Return True if there is a file of that name."""
        try:
            with self._reading(name) as (folder, base):
                folder.status(base)
        except StoreMissingError:
            return False
        return True

    def names(self, folder: str = "") -> list[str]:
        """Return the sorted file names in the store or in one of its directories. A missing directory is empty.

        Raises:
            StoreDamagedError: If ``folder`` is a symbolic link or not a directory.
        """
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            open_directory(self.path, folder) as opened,
        ):
            return opened.names()
        return []

    def sizes(self) -> dict[str, int]:
        """Return the size in bytes of each regular file of the store, without its directories."""
        found = {}
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    if entry.is_file(follow_symlinks=False):
                        found[entry.name] = entry.stat(follow_symlinks=False).st_size
        return found

    # Writing ------------------------------------------------------------------------------------

    def make(self) -> None:
        """Create the directories of the store.

        Raises:
            StoreError: If the directory cannot be created, or the path is a file.
            StoreDamagedError: If the records directory is a symbolic link or not a directory.
        """
        with self.writing(""):
            if self.path.exists() and not self.path.is_dir():
                raise StoreError(
                    f"cannot write {self.path}: expected a directory, got a file",
                    path=self.path,
                    hint="Choose another directory.",
                )
            self.path.mkdir(parents=True, exist_ok=True)
        with self.writing(fmt.RECORDS):
            with open_directory(self.path) as store:
                store.make(fmt.RECORDS)
            with open_directory(self.path, fmt.RECORDS):
                pass

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

    @contextlib.contextmanager
    def folder(self, name: str) -> Iterator[tuple[Directory, str]]:
        """Open the directory of a file for changes, and convert errors as :meth:`writing` does.

        Args:
            name: Name of a file in the store.

        Yields:
            The directory, and the name of the file in it.
        """
        inner, _, base = name.rpartition("/")
        with self.writing(name), open_directory(self.path, inner) as folder:
            yield folder, base

    def temporary(self, name: str) -> TempFile:
        """Create a temporary file that can be renamed to ``name``."""
        with self.folder(name) as (folder, base):
            return TempFile(folder, base)

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
            temp.sync()
        return True

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""
        with self.folder(name) as (folder, base), contextlib.suppress(FileNotFoundError):
            folder.unlink(base)

    def sync(self, folder: str = "") -> None:
        """Make the names of the files in the store, or in one of its directories, durable."""
        with self.writing(folder), open_directory(self.path, folder) as opened:
            opened.sync()

    def remove_stale(self) -> list[str]:
        """Delete what writers that no longer run have left behind.

        These are temporary files, and the name of a killed process in the lock file. A file counts as temporary if its
        name has the form that :class:`TempFile` gives it for a file of a store.

        Returns:
            Names of the deleted files.
        """
        removed = []
        for inner in ("", fmt.RECORDS):
            with contextlib.suppress(FileNotFoundError), open_directory(self.path, inner) as folder:
                for name in folder.names():
                    if _is_temporary(name) and _remove_if_stale(folder, name):
                        removed.append(name)
                if inner:
                    clear_stale_holder(folder)
        return removed

    @contextlib.contextmanager
    def lock(self, *, shared: bool = False, on_wait: OnWait = warn_waiting) -> Iterator[bool]:
        """Hold the lock of the store until the block ends.

        The lock is exclusive while the manifest or the specification is written, and shared while a finished file gets
        its name. The holder must not ask for the lock again.

        Args:
            shared: Allow other processes to hold the lock at the same time, if they also ask for a shared lock.
            on_wait: Function that is called once if the lock is not free after a second. By default it issues a
                :class:`~tgp.store.io.locks.LockWaitWarning`.

        Yields:
            True if the lock is held, False if the platform or the file system has no locks.
        """
        with contextlib.ExitStack() as stack:
            with self.writing(f"{fmt.RECORDS}/{LOCK}"):
                folder = stack.enter_context(open_directory(self.path, fmt.RECORDS))
                locked = stack.enter_context(hold_lock(folder, shared=shared, on_wait=on_wait))
            yield locked


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


def _is_temporary(name: str) -> bool:
    """Return True if a name has the form that :class:`TempFile` gives to a temporary file of a store."""
    found = _TEMPORARY.fullmatch(name)
    return found is not None and (found[1] in (fmt.MANIFEST, PROBE) or fmt.part_of_file(found[1]) is not None)


def _remove_if_stale(folder: Directory, name: str) -> bool:
    """Delete a temporary file if no process holds its lock. Without locks, no file counts as stale."""
    try:
        descriptor = folder.open(name, os.O_RDWR)
    except OSError:
        return False
    stale = False
    try:
        stale = portable.lock_file(descriptor, wait=False) is True
        if stale and not portable.WINDOWS:  # Windows does not delete open files
            folder.unlink(name)
    except OSError:
        return False
    finally:
        portable.close_locked(descriptor)
    if stale and portable.WINDOWS:
        with contextlib.suppress(OSError):
            folder.unlink(name)
    return stale
