"""Write files that other programs read: a file appears complete or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from tgp.errors import InputError

__all__ = ["FolderWriter", "replace_file", "write_file"]


@contextlib.contextmanager
def replace_file(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``target`` when the block ends without an error.

    Args:
        target: file to create or replace; its folder must exist.

    Yields:
        The temporary file, open for writing.
    """
    temp = target.parent / f".{target.name}.{secrets.token_hex(6)}.tmp"
    try:
        with open(temp, "xb") as file:
            yield file
        os.replace(temp, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temp.unlink()
        raise


class FolderWriter:
    """Writer of several files into one folder. All of them appear when the block ends without an error, or none.

    After an error, also after an interrupt, the files that were there before are unchanged, and folders that were created
    are removed.

    Args:
        folder: folder to write to; it is created if it does not exist.
        overwrite: replace existing files.
    """

    def __init__(self, folder: Path, *, overwrite: bool = False) -> None:
        self.folder = folder
        self.overwrite = overwrite
        self.written: list[Path] = []
        self._pending: dict[Path, Path] = {}  # file to create -> its temporary file
        self._new_folders: list[Path] = []

    def __enter__(self) -> FolderWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._publish()
        finally:
            self._clean()

    @contextlib.contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Open a file of the folder for writing.

        Args:
            name: name of the file.

        Yields:
            A temporary file that gets its name when all files are written.

        Raises:
            InputError: if the file exists and is not to be replaced.
        """
        target = self.folder / name
        if (target.exists() and not self.overwrite) or target.is_dir() or target in self._pending:
            raise InputError(f"{target} exists", field="out", hint="--force overwrites it")
        if not self._pending:
            self._make_folder()
        temp = self.folder / f".tgp-{secrets.token_hex(8)}.tmp"
        self._pending[target] = temp
        with open(temp, "xb") as file:
            yield file

    def _make_folder(self) -> None:
        missing = [p for p in (self.folder, *self.folder.parents) if not p.exists()]
        self._new_folders = missing  # before they exist, so that an interrupt does not leave one
        self.folder.mkdir(parents=True, exist_ok=True)

    def _publish(self) -> None:
        created: list[Path] = []
        try:
            for target, temp in self._pending.items():
                if not target.exists():
                    created.append(target)
                os.replace(temp, target)
                self.written.append(target)
        except BaseException:
            self.written = []
            _remove(created)
            raise
        self._pending = {}
        self._new_folders = []

    def _clean(self) -> None:
        _remove(self._pending.values())
        for folder in self._new_folders:
            with contextlib.suppress(OSError):  # not empty: another program wrote to it
                folder.rmdir()


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()


def write_file(path: str | os.PathLike[str], content: bytes) -> Path:
    """Create or replace a file and wait until it is on disk.

    Args:
        path: file to write.
        content: its bytes.

    Returns:
        The file.

    Raises:
        InputError: if the folder does not exist, ``path`` is a folder, or the file would be written into a store.
        OSError: if the system refuses; the error names ``path``.
    """
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {target}: there is no folder {folder}", field="out")
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder", field="out", hint="name a file in it")
    if (folder / "manifest.json").is_file() and (folder / "records").is_dir():
        raise InputError(
            f"cannot write {target}: {folder} is a store", field="out", hint="choose a path outside of it"
        )
    try:
        with replace_file(target) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno is None:
            raise
        # The user did not choose the temporary name that the original error shows.
        raise OSError(error.errno, os.strerror(error.errno), str(target)) from error
    return target
