"""Writing a page or a figure: the file appears complete or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from tgp.errors import InputError

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], content: bytes) -> Path:
    """Replace a file in one step.

    Raises:
        InputError: the place cannot hold a file, or holds a part of a store.
        OSError: the system refuses; the error names ``path``.
    """
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {target}: there is no folder {folder}", field="out")
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder", field="out", hint="name a file in it")
    if (folder / "manifest.json").is_file() and (folder / "records").is_dir():
        raise InputError(
            f"cannot write {target}: {folder} is a store", field="out", hint="choose a place beside it"
        )
    temp = folder / f".{target.name}.{secrets.token_hex(6)}.tmp"
    try:
        with open(temp, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temp.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            # The temporary name would only puzzle the reader.
            raise OSError(error.errno, os.strerror(error.errno), str(target)) from error
        raise
    return target
