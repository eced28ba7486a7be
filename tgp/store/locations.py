"""Open stores by their location (a directory of this machine, a URL, or an open store), and name the results of commands after it.

The address of a remote store may contain a password or a token.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from tgp.errors import InputError, StoreMissingError
from tgp.store.format import constants as fmt
from tgp.store.io.files import LocalFiles, StoreFiles
from tgp.store.read.reader import StoreReader
from tgp.store.verify import Finding, verify_store
from tgp.text import file_name

__all__ = [
    "Location",
    "is_url",
    "open_files",
    "open_store",
    "parse_location",
    "result_path",
    "shown_location",
    "verify_location",
]

Location: TypeAlias = str | os.PathLike[str] | StoreReader
"""Directory, URL with a protocol, or an open store, which may be in memory."""


def is_url(location: Location) -> bool:
    """Return True if a location is a URL.

    Args:
        location: Directory, or URL with a protocol.

    Examples:
        >>> is_url("s3://bucket/pooled/MUTAG"), is_url("pooled/MUTAG")
        (True, False)
    """
    return isinstance(location, str) and "://" in location


def parse_location(text: str) -> Path | str:
    """Convert the text that a user typed into a path. A URL stays text, because a path would drop one of its slashes.

    Args:
        text: Directory or URL.

    Returns:
        Path of the directory, or the URL.
    """
    return text if is_url(text) else Path(text)


def open_files(location: Location, cache: str | os.PathLike[str] | None = None, **options: Any) -> StoreFiles:
    """Return access to the files of a store.

    Args:
        location: Directory, URL with a protocol (``s3://...``, ``https://...``), or an open store.
        cache: Directory for downloaded shards, see :class:`~tgp.store.io.remote.RemoteFiles`.
        **options: Options of a URL (limits, headers, credentials), see :class:`~tgp.store.io.remote.RemoteFiles`.

    Returns:
        The files, for :class:`~tgp.store.StoreReader` and :func:`~tgp.store.verify_store`.
    """
    if isinstance(location, StoreReader):
        return location.files
    if not is_url(location):
        return LocalFiles(location)
    from tgp.store.io.remote import RemoteFiles

    return RemoteFiles(str(location), cache, **options)


def open_store(location: Location | StoreFiles) -> StoreReader:
    """Open the store in a directory or at a URL. An open store is returned as it is.

    Args:
        location: Directory, URL, files of a store, or open store.

    Returns:
        A reader of the store.

    Raises:
        StoreMissingError: If there is no complete store. The message says what was found instead.
        InputError: If the argument is something else, such as graphs.
    """
    if isinstance(location, StoreReader):
        return location
    if not isinstance(location, (str, os.PathLike)):
        if hasattr(location, "expect") and hasattr(location, "read"):
            return StoreReader(location)
        raise InputError(
            f"store must be a directory, a URL or an open store, got {type(location).__name__}",
            field="store",
            hint="tgp.coarsen(graphs, ...) makes a dataset of graphs",
        )
    with _explain_missing_store(location):
        return StoreReader(open_files(location))


def verify_location(location: Location) -> list[Finding]:
    """Check the store in a directory or at a URL, see :func:`~tgp.store.verify_store`.

    Args:
        location: Directory or URL.

    Returns:
        Everything that is wrong with the store.

    Raises:
        StoreMissingError: If there is no complete store. The message says what was found instead.
    """
    with _explain_missing_store(location):
        return verify_store(open_files(location))


@contextlib.contextmanager
def _explain_missing_store(location: Location) -> Iterator[None]:
    """Extend a :class:`StoreMissingError` by what was found instead of a store."""
    try:
        yield
    except StoreMissingError as error:
        if isinstance(location, StoreReader):
            raise
        if is_url(location):
            raise StoreMissingError(str(error), path=error.path, hint="check the address") from error
        found = _describe_path(Path(location))
        raise StoreMissingError(found[0], path=str(location), hint=found[1]) from error


def _describe_path(path: Path) -> tuple[str, str]:
    """Return what is wrong with a path and what to do."""
    listing = "'tgp inspect' lists the stores below ./pooled, 'tgp coarsen' makes one"
    if not path.exists():
        return f"there is no store at {path}: no such directory", listing
    if not path.is_dir():
        return f"{path} is a file; a store is a directory", f"name the directory that holds {fmt.MANIFEST}"
    if (path / fmt.RECORDS).is_dir():
        return (
            f"the store at {path} is incomplete: it has no {fmt.MANIFEST}",
            f"run the same 'tgp coarsen' command again: it continues; 'tgp status {path}' shows what is missing",
        )
    inside = sorted(folder for folder in path.iterdir() if (folder / fmt.MANIFEST).is_file())
    if inside:
        names = ", ".join(map(str, inside[:5])) + (", ..." if len(inside) > 5 else "")
        return f"{path} is not a store but contains stores", f"choose one: {names}"
    return f"no complete store at {path}: it has no {fmt.MANIFEST}", listing


def shown_location(location: Location) -> str:
    """Return a location for people and reports: a path as it is, a URL without user name, password and query.

    Args:
        location: Directory or URL of a store, or an open store.
    """
    if isinstance(location, StoreReader):
        return location.files.location
    return open_files(location).location if is_url(location) else str(location)


def result_path(location: Location, suffix: str) -> Path:
    """Return the default path of a result: next to the store, or in the working directory if the store is a URL.

    Args:
        location: Directory or URL of the store, or the open store. The name of a store in memory is ``memory``.
        suffix: Text to append to the name of the store.

    Examples:
        >>> str(result_path("https://user:secret@host/pooled/MUTAG?token=1", "-report.html"))
        'MUTAG-report.html'
    """
    place = shown_location(location)
    if is_url(place):
        return Path(file_name(unquote(place.rstrip("/").rpartition("/")[2])) + suffix)
    path = Path(place).resolve() if Path(place).name in ("", ".", "..") else Path(place)
    return path.with_name(path.name + suffix)
