"""Write files that other programs read: a file appears complete or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tgp.errors import InputError

__all__ = ["replace_file", "write_file"]


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
