"""Names of stores and default paths of results. The address of a remote store may contain a password or a token."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from tgp.store import StoreReader
from tgp.store.locations import Location, is_url, open_files, sibling_path
from tgp.text import file_name

__all__ = ["result_path", "shown_location"]


def shown_location(location: Location) -> str:
    """Return a location for people and reports: a path as it is, a URL without user name, password and query.

    Args:
        location: directory or URL of a store, or an open store.
    """
    if isinstance(location, StoreReader):
        return location.files.location
    return open_files(location).location if is_url(location) else str(location)


def result_path(location: Location, suffix: str) -> Path:
    """Return the default path of a result: next to the store, or in the working directory if the store is a URL.

    Args:
        location: directory or URL of a store.
        suffix: text to append to the name of the store.

    Examples:
        >>> str(result_path("https://user:secret@host/pooled/MUTAG?token=1", "-report.html"))
        'MUTAG-report.html'
    """
    if not is_url(location):
        return sibling_path(location, suffix)
    last = shown_location(location).rstrip("/").rpartition("/")[2]
    return Path(file_name(unquote(last)) + suffix)
