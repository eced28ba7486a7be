"""Where stores lie: a directory of this machine, or a URL."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tgp.errors import StoreMissingError
from tgp.store import StoreFiles, StoreReader

if TYPE_CHECKING:
    from tgp.store import Finding

__all__ = ["Place", "beside", "is_url", "open_store", "parse_place", "store_files", "verify_place"]

Place: TypeAlias = str | os.PathLike[str]


def is_url(place: Place) -> bool:
    """Whether a place is behind a protocol, such as ``https://...`` or ``s3://...``."""
    return isinstance(place, str) and "://" in place


def parse_place(text: str) -> Path | str:
    """What a user typed: a URL stays text, because a path would drop one of its slashes."""
    return text if is_url(text) else Path(text)


def store_files(place: Place) -> Place | StoreFiles:
    """What :class:`~tgp.store.StoreReader` and :func:`~tgp.store.verify_store` take."""
    if not is_url(place):
        return place
    from tgp.store.io.remote import open_files

    return open_files(place)


def open_store(place: Place) -> StoreReader:
    """A reader of the store in a directory or behind a URL."""
    with _explained(place):
        return StoreReader(store_files(place))


def verify_place(place: Place) -> list[Finding]:
    """:func:`~tgp.store.verify_store` of a directory or a URL."""
    from tgp.store import verify_store

    with _explained(place):
        return verify_store(store_files(place))


@contextlib.contextmanager
def _explained(place: Place) -> Iterator[None]:
    """Say what is there instead of a store."""
    try:
        yield
    except StoreMissingError as error:
        if is_url(place):
            raise StoreMissingError(str(error), path=str(place), hint="check the address") from error
        found = _instead(Path(place))
        if found is None:
            raise
        raise StoreMissingError(found[0], path=str(place), hint=found[1]) from error


def _instead(path: Path) -> tuple[str, str] | None:
    """What is wrong with a path and what to do; ``None`` for an unfinished store."""
    listing = "'tgp inspect' lists the stores below ./pooled, 'tgp coarsen' makes one"
    if not path.exists():
        return f"there is no store at {path}: no such directory", listing
    if not path.is_dir():
        return f"{path} is a file; a store is a directory", "name the directory that holds manifest.json"
    if (path / "records").is_dir():
        return None
    inside = sorted(folder for folder in path.iterdir() if (folder / "manifest.json").is_file())
    if inside:
        names = ", ".join(map(str, inside[:5])) + (", ..." if len(inside) > 5 else "")
        return f"{path} is not a store but holds some", f"choose one: {names}"
    return f"no complete store at {path}: it has no manifest.json", listing


def beside(place: Place, suffix: str) -> Path:
    """Where results go if nobody says: next to the store, or for a URL in the working directory."""
    if is_url(place):
        return Path(str(place).rstrip("/").rpartition("/")[2] + suffix)
    path = Path(place).resolve() if Path(place).name in ("", ".", "..") else Path(place)
    return path.with_name(path.name + suffix)
