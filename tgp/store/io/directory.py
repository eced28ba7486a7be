"""Directories that stay open while files in them are created, renamed and deleted.

A path is looked up again by each call, so another user could replace a part of it by a symbolic link between two calls.
All operations here refer to the descriptor of the directory instead, and none of them follows a link. On platforms
without such descriptors (Windows) the directory is checked when it is opened, and each file before it is opened.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tgp.errors import StoreDamagedError
from tgp.store.io import portable

__all__ = ["TEMPORARY", "Directory", "TempFile", "open_directory"]

TEMPORARY = ".tmp-"
"""Start of the names of temporary files."""

_SAFE = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not wait
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class Directory:
    """Open directory. No operation follows a symbolic link in it.

    Args:
        path: Path of the directory.
        descriptor: Descriptor of the directory, or ``None`` to look up ``path`` in each call.
    """

    def __init__(self, path: Path, descriptor: int | None = None) -> None:
        self.path = path
        self.descriptor = descriptor

    def _at(self, name: str) -> tuple[str | Path, dict[str, Any]]:
        """Return the first argument and the options of a call of ``os`` for a file of this directory."""
        if self.descriptor is None:
            return self.path / name, {}
        return name, {"dir_fd": self.descriptor}

    def status(self, name: str) -> os.stat_result:
        """Return the status of a file. That of a symbolic link is the status of the link itself."""
        path, options = self._at(name)
        return os.stat(path, follow_symlinks=False, **options)

    def names(self) -> list[str]:
        """Return the sorted names of everything in the directory."""
        return sorted(os.listdir(self.path if self.descriptor is None else self.descriptor))

    def open(self, name: str, flags: int) -> int:
        """Open a regular file and return its descriptor.

        Args:
            name: Name of the file.
            flags: Flags of ``os.open``. With ``O_CREAT`` a missing file is created.

        Raises:
            StoreDamagedError: If ``name`` is a symbolic link, a directory, a pipe or a device.
        """
        path, options = self._at(name)
        if not hasattr(os, "O_NOFOLLOW") or portable.WINDOWS:
            with contextlib.suppress(FileNotFoundError):
                self._check_regular(name, self.status(name))
        try:
            descriptor = os.open(path, flags | _SAFE, 0o666, **options)
        except OSError:  # a link gives ELOOP, a directory EISDIR, a socket ENXIO
            found = None
            with contextlib.suppress(OSError):
                found = self.status(name)
            if found is not None:
                self._check_regular(name, found)
            raise
        try:
            self._check_regular(name, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, name: str, limit: int) -> bytes:
        """Read a small file.

        Args:
            name: Name of the file.
            limit: Largest size in bytes.

        Raises:
            FileNotFoundError: If there is no such file.
            StoreDamagedError: If it is not a regular file, or larger.
        """
        descriptor = self.open(name, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            if size > limit:
                raise StoreDamagedError(
                    f"{self.path / name} is too large: expected at most {limit} bytes, got {size}",
                    path=self.path / name,
                    item=name,
                )
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(size)  # the limit would be allocated
        finally:
            os.close(descriptor)

    def _check_regular(self, name: str, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise not_regular(self.path / name, name)

    def unlink(self, name: str) -> None:
        """Delete a file. A symbolic link is deleted itself, not its target."""
        path, options = self._at(name)
        os.unlink(path, **options)

    def make(self, name: str) -> None:
        """Create a directory in this directory if it does not exist."""
        path, options = self._at(name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o777, **options)

    def rename(self, source: str, target: str, *, exclusive: bool = False) -> bool:
        """Rename a file and overwrite an existing file of that name.

        Args:
            source: Name of the file.
            target: New name.
            exclusive: Keep an existing file. The renamed file may then have both names.

        Returns:
            True if the file has its new name, False if an existing file was kept.
        """
        old, new = self._at(source)[0], self._at(target)[0]
        if exclusive:
            return portable.rename_exclusive(old, new, self.descriptor)
        portable.replace_file(old, new, self.descriptor)
        return True

    def sync(self) -> None:
        """Make the names of the files durable, where the platform and the file system can do that."""
        portable.sync_directory(self.descriptor)

    def duplicate(self) -> Directory:
        """Return a second object for the same directory, with a descriptor of its own."""
        return Directory(self.path, None if self.descriptor is None else os.dup(self.descriptor))

    def close(self) -> None:
        """Close the descriptor."""
        if self.descriptor is not None:
            descriptor, self.descriptor = self.descriptor, None
            os.close(descriptor)


def not_regular(path: Path, item: str, expected: str = "a plain file") -> StoreDamagedError:
    """Return the error for a link, pipe or device in the place of a file or directory of a store."""
    other = "a link, directory or device" if expected == "a plain file" else "a link or a file"
    return StoreDamagedError(f"{path} must be {expected}, got {other}", path=path, item=item)


@contextlib.contextmanager
def open_directory(path: Path, folder: str = "") -> Iterator[Directory]:
    """Open the directory of a store, or one directory in it, until the block ends.

    The path of the store is chosen by the user and may be a symbolic link. A directory inside the store may not.

    Args:
        path: Directory of the store.
        folder: Name of a directory in it, or ``""`` for the store itself.

    Raises:
        FileNotFoundError: If there is no such directory.
        StoreDamagedError: If ``folder`` is a symbolic link or not a directory.
    """
    if not portable.has_directory_descriptors():
        if folder:
            found = os.lstat(path / folder)
            reparse = getattr(found, "st_file_attributes", 0) & getattr(
                stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0
            )
            if not stat.S_ISDIR(found.st_mode) or reparse:
                raise not_regular(path / folder, folder, "a directory")
        yield Directory(path / folder)
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags)
    if folder:
        try:
            inner = os.open(folder, flags | os.O_NOFOLLOW, dir_fd=descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            found = os.stat(folder, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                raise
            raise not_regular(path / folder, folder, "a directory") from error
        finally:
            os.close(descriptor)
        descriptor = inner
    opened = Directory(path / folder, descriptor)
    try:
        yield opened
    finally:
        opened.close()


class TempFile:
    """New file next to its final place. It is locked while it is open, and deleted on exit unless it was renamed.

    The lock shows other writers that the file is in use, see :meth:`~tgp.store.io.files.LocalFiles.remove_stale`.

    Args:
        folder: Directory of the file. It is not used after the constructor.
        name: Final name of the file.
    """

    def __init__(self, folder: Directory, name: str) -> None:
        self.target = name
        self.name = ""
        self._folder = folder.duplicate()
        self._open = False
        try:
            while True:
                self.name = f"{TEMPORARY}{secrets.token_hex(8)}-{name}"
                self.descriptor = self._folder.open(self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                self._open = True
                portable.lock_file(self.descriptor, wait=True)
                # Another process may have removed the file before it was locked.
                with contextlib.suppress(FileNotFoundError):
                    self._folder.status(self.name)
                    return
                self._close()
        except BaseException:
            self._discard()
            raise

    @property
    def path(self) -> Path:
        """Path of the temporary file."""
        return self._folder.path / self.name

    def __enter__(self) -> TempFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self._close()
        except OSError:  # network file systems report a failed write when the file is closed
            if kind is None:
                raise
        finally:
            self._discard()

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
        return self._folder.rename(self.name, self.target, exclusive=exclusive)

    def sync(self) -> None:
        """Make the name of the file durable."""
        self._folder.sync()

    def _close(self) -> None:
        if self._open:
            self._open = False
            portable.close_locked(self.descriptor)

    def _discard(self) -> None:
        """Close the file and delete its temporary name. Errors are ignored: the next run deletes what is left."""
        try:
            with contextlib.suppress(OSError):
                self._close()
        finally:
            if self.name:
                with contextlib.suppress(OSError):
                    self._folder.unlink(self.name)
            self._folder.close()
