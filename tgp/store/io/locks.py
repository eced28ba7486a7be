"""Lock of a store: one process publishes or replaces it, or several processes add files to it.

The file ``records/.lock`` is locked with the means of the operating system, so the lock of a killed process is free. The
process that holds the lock exclusively writes its name into the file, for the message of a process that waits.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from tgp.store.io import portable
from tgp.store.io.directory import Directory

__all__ = ["LOCK", "Holder", "LockWaitWarning", "clear_stale_holder", "hold_lock", "warn_waiting"]

LOCK = ".lock"
"""Name of the lock file in the records directory."""

_HOLDER_BYTES = 200
_HOLDER = re.compile(
    rb"pid ([1-9][0-9]{0,9}) host ([A-Za-z0-9][A-Za-z0-9._-]{0,62}) "
    rb"since (20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z)\n"
)


class LockWaitWarning(Warning):
    """Warning that a process waits for the lock of a store. It is a message, and not a sign of a mistake."""


@dataclass(frozen=True)
class Holder:
    """Process that holds the lock of a store.

    Args:
        pid: Number of the process.
        host: Name of its machine.
        since: Time at which it got the lock, in UTC.
    """

    pid: int
    host: str
    since: str

    @classmethod
    def this_process(cls) -> Holder:
        """Return the current process, with the current time."""
        host = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node())[:63].lstrip("._-") or "unknown"
        return cls(os.getpid(), host, datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))

    def to_bytes(self) -> bytes:
        """Return the content of the lock file."""
        return f"pid {self.pid} host {self.host} since {self.since}\n".encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Holder | None:
        """Parse the content of a lock file, or return ``None`` if it has any other form."""
        found = _HOLDER.fullmatch(data)
        if found is None:
            return None
        return cls(int(found[1]), found[2].decode("ascii"), found[3].decode("ascii"))

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"

    @property
    def is_alive(self) -> bool:
        """False if the process ran on this machine and has ended. True if that is not known."""
        if self.host != Holder.this_process().host or portable.WINDOWS:
            return True
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except OSError:  # a process of another user
            pass
        return True


OnWait = Callable[[Path, Holder | None], None]
"""Function that is told that this process waits for a lock: its file, and the holder if that is known."""


def warn_waiting(path: Path, holder: Holder | None) -> None:
    """Issue a :class:`LockWaitWarning`.

    Args:
        path: Lock file.
        holder: Process that holds the lock, if it is known.
    """
    text = f"waiting for the lock of {path.parent.parent}, held by {holder or 'another process'}"
    # The place in the source is of no use to the reader, and the warning must not be limited to one per place.
    warnings.warn_explicit(text, LockWaitWarning, "tgp", 1)


@contextlib.contextmanager
def hold_lock(folder: Directory, *, shared: bool = False, on_wait: OnWait = warn_waiting) -> Iterator[bool]:
    """Hold the lock of a store until the block ends.

    Args:
        folder: Records directory of the store.
        shared: Allow other processes to hold the lock at the same time, if they also ask for a shared lock.
        on_wait: Function that is called once if the lock is not free after a second.

    Yields:
        True if the lock is held, False if the platform or the file system has no locks.
    """
    descriptor, locked = _acquire(folder, shared, on_wait)
    named = False
    try:
        if locked and not shared:
            named = _write_holder(descriptor, Holder.this_process().to_bytes())
        yield locked
    finally:
        if named:
            _write_holder(descriptor, b"")
        portable.close_locked(descriptor)


def _acquire(folder: Directory, shared: bool, on_wait: OnWait) -> tuple[int, bool]:
    """Open and lock the lock file. Returns its descriptor, and True if it is locked."""
    while True:
        descriptor = _open_lock(folder)
        try:
            got = portable.lock_file(
                descriptor,
                wait=True,
                shared=shared,
                on_wait=lambda: on_wait(folder.path / LOCK, _read_holder(folder)),
            )
            if not got or _is_current(folder, descriptor):
                return descriptor, bool(got)
        except BaseException:
            portable.close_locked(descriptor)
            raise
        portable.close_locked(descriptor)  # the file was deleted while this process waited


def _open_lock(folder: Directory) -> int:
    try:
        return folder.open(LOCK, os.O_RDWR | os.O_CREAT)
    except PermissionError:  # the file of another user; a lock needs no write access on local file systems
        return folder.open(LOCK, os.O_RDONLY)


def _is_current(folder: Directory, descriptor: int) -> bool:
    """Return True if the lock file in the directory is still the one that was opened."""
    try:
        return os.path.samestat(folder.status(LOCK), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _write_holder(descriptor: int, text: bytes) -> bool:
    """Replace the content of a locked file, and return True if that was possible.

    A file with other content, or with a second name, is not a lock file of tgp. Its content is kept.
    """
    try:
        if os.fstat(descriptor).st_nlink > 1:
            return False
        os.lseek(descriptor, 0, os.SEEK_SET)
        found = os.read(descriptor, _HOLDER_BYTES)
        if found and Holder.from_bytes(found) is None:
            return False
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        if os.write(descriptor, text) < len(text):
            os.ftruncate(descriptor, 0)
    except OSError:  # full disk, or no write access: the lock itself works without a name
        return False
    return True


def _read_holder(folder: Directory) -> Holder | None:
    """Return the process that holds the lock, or ``None`` if it is not known."""
    with contextlib.suppress(OSError):
        descriptor = folder.open(LOCK, os.O_RDONLY)
        try:
            holder = Holder.from_bytes(os.read(descriptor, _HOLDER_BYTES))
        finally:
            os.close(descriptor)
        if holder is not None and holder.is_alive:
            return holder
    return None


def clear_stale_holder(folder: Directory) -> None:
    """Remove the name of a killed process from the lock file. A lock file in use is not changed."""
    with contextlib.suppress(OSError):
        if not folder.status(LOCK).st_size:
            return
        descriptor = folder.open(LOCK, os.O_RDWR)
        try:
            if portable.lock_file(descriptor, wait=False):
                _write_holder(descriptor, b"")
        finally:
            portable.close_locked(descriptor)
