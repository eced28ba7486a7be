"""Folder of the temporary files of a run: one run at a time, kept after an interruption, removed at the end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tgp.engine.external.journal import JOURNAL, LOCK, Journal
from tgp.errors import DatasetError, GraphError, InputError, StoreMismatchError
from tgp.store.io.failpoint import failpoint
from tgp.store.io.portable import close_locked, lock_file

__all__ = ["Leftover", "find_leftover", "open_scratch", "scratch_folder"]

SCRATCH_SUFFIX = ".scratch"


@dataclass(frozen=True)
class Leftover:
    """Scratch folder of a run that was interrupted, or is running.

    Args:
        path: The folder.
        bytes: Size of its files.
    """

    path: str
    bytes: int


def scratch_folder(store: Path) -> Path:
    """Return the folder of the temporary files of a run. It is beside the store.

    Args:
        store: Directory of the store.
    """
    return store.parent / f"{store.name}{SCRATCH_SUFFIX}"


def find_leftover(store: Path) -> Leftover | None:
    """Return the scratch folder of a store, or ``None`` if there is none.

    Args:
        store: Directory of the store.
    """
    folder = scratch_folder(store)
    if not (folder / JOURNAL).is_file():
        return None
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another run may remove it
            total += path.stat().st_size
    return Leftover(str(folder), total)


@contextlib.contextmanager
def open_scratch(folder: Path, key: str) -> Iterator[Journal]:
    """Open a scratch folder for one run. It is removed at the end of the block.

    After an interruption or a full disk the folder stays, so that the next run continues. After an error that another call with the
    same settings would repeat, it is removed.

    Args:
        folder: Scratch folder.
        key: Text that identifies the run. The files of a run with another key are deleted.

    Yields:
        The journal of the run.

    Raises:
        InputError: If another run uses the folder, or if it is not a folder of temporary files.
    """
    with _lock(folder):
        journal = Journal(folder, key, failpoint)
        try:
            yield journal
        except (InputError, DatasetError, GraphError, StoreMismatchError):
            journal.remove()
            raise
        journal.remove()


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Lock a folder, if the file system has locks."""
    while True:
        if not _is_scratch(folder):
            raise InputError(
                f"{folder} is needed for temporary files: expected no such path, or the folder of an earlier run, got something else",
                field="out",
                hint="move it, or write to another directory",
            )
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(folder / LOCK, flags, 0o666)
        except FileNotFoundError:  # another run has just removed the folder
            continue
        try:
            if lock_file(descriptor, wait=False) is False:
                raise InputError(
                    f"another run uses the temporary files in {folder}: expected one run at a time",
                    field="out",
                    hint="wait until it has ended, or write to another directory",
                )
            if _is_same_file(descriptor, folder / LOCK):
                yield
                return
        finally:
            close_locked(descriptor)


def _is_scratch(folder: Path) -> bool:
    """Return True if a path is free, or is an empty folder or one that a run has locked before. Its content may be deleted."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return not folder.is_symlink()
    except NotADirectoryError:
        return False
    return not names or LOCK in names


def _is_same_file(descriptor: int, path: Path) -> bool:
    """Return True if a path still leads to an open file. The run that held the lock before may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
