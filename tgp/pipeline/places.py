"""Where stores lie: a directory of this machine, or a URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from tgp.store import StoreFiles, StoreReader

__all__ = ["Place", "beside", "is_url", "open_store", "parse_place", "store_files"]

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
    from tgp.store.remote import open_files

    return open_files(place)


def open_store(place: Place) -> StoreReader:
    """A reader of the store in a directory or behind a URL."""
    return StoreReader(store_files(place))


def beside(place: Place, suffix: str) -> Path:
    """Where results go if nobody says: next to the store, or for a URL in the working directory."""
    if is_url(place):
        return Path(str(place).rstrip("/").rpartition("/")[2] + suffix)
    path = Path(place).resolve() if Path(place).name in ("", ".", "..") else Path(place)
    return path.with_name(path.name + suffix)
