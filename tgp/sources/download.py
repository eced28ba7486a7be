"""Downloads that fail early and clearly instead of hanging."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from tgp.errors import DatasetError

__all__ = ["check_reachable", "fetch"]

TIMEOUT = 10.0
"""Seconds without an answer after which a host counts as out of reach."""


def check_reachable(host: str, label: str, expected: Path) -> None:
    """Raise unless ``host`` (or the proxy in front of it) answers within :data:`TIMEOUT`."""
    proxy = urllib.request.getproxies().get("https")
    target = urllib.parse.urlsplit(proxy) if proxy else None
    address = (target.hostname or host, target.port or 3128) if target else (host, 443)
    failure: list[str] = ["no answer"]

    def knock() -> None:
        try:
            socket.create_connection(address, timeout=TIMEOUT / 2).close()
        except OSError as error:
            failure[0] = str(error)
        else:
            failure.clear()

    # Looking up a name cannot be interrupted, so it happens in a thread that may be left behind.
    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    if failure:
        raise unreachable(label, expected, f"{host} is out of reach ({failure[0]})")


def unreachable(label: str, expected: Path, why: str) -> DatasetError:
    """The error for a dataset that is neither here nor to be had."""
    return DatasetError(
        f"{label} is not here and cannot be downloaded: {why}. Its raw files are expected at {expected}",
        hint="put the raw files there, or name another place with --root; 'tgp coarsen' without --dataset needs no data",
    )


def fetch(url: str, label: str, expected: Path) -> bytes:
    """The body of ``url``."""
    check_reachable(urllib.parse.urlsplit(url).hostname or "", label, expected)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            return response.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise unreachable(label, expected, f"{url}: {reason}") from error
