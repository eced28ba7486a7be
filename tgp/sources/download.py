"""Download files, with a clear error within seconds if the network is unreachable."""

from __future__ import annotations

import http.client
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tgp.errors import DatasetError
from tgp.input_limits import InputBudget, input_budget

__all__ = ["check_reachable", "fetch", "unreachable"]

TIMEOUT = 10.0
"""Seconds to wait for an answer of a host."""

PATIENCE, MIN_RATE = 30.0, 1000
"""Seconds after which the rate of a download is checked, and its lowest average in bytes per second."""


def check_reachable(host: str, label: str, expected: Path) -> None:
    """Check that a host, or the proxy in front of it, answers within :data:`TIMEOUT`.

    Args:
        host: Name of the host.
        label: Name of the dataset for the error message.
        expected: Folder in which the raw files are expected.

    Raises:
        DatasetError: If there is no answer.
    """
    proxy = urllib.request.getproxies().get("https")
    target = urllib.parse.urlsplit(proxy) if proxy else None
    address = (target.hostname or host, target.port or 3128) if target else (host, 443)
    failure: list[str] = ["no answer"]

    def connect() -> None:
        try:
            socket.create_connection(address, timeout=TIMEOUT / 2).close()
        except OSError as error:
            failure[0] = str(error)
        else:
            failure.clear()

    # The lookup of a host name cannot be interrupted, so it runs in a thread that is abandoned after the timeout.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    if failure:
        raise unreachable(label, expected, f"{host} is unreachable ({failure[0]})")


def unreachable(label: str, expected: Path, why: str) -> DatasetError:
    """Return the error for a dataset whose raw files are missing and cannot be downloaded.

    Args:
        label: Name of the dataset.
        expected: Folder in which the raw files are expected.
        why: Reason for the failed download.
    """
    return DatasetError(
        f"the raw files of {label} are missing and cannot be downloaded: {why}. Expected them in {expected}",
        hint="put the raw files there, or choose another directory with --root; 'tgp coarsen' without --dataset "
        "needs no data",
    )


def fetch(url: str, label: str, expected: Path) -> bytes:
    """Download a file.

    Args:
        url: Address of the file.
        label: Name of the dataset for error messages.
        expected: Folder in which the raw files are expected.

    Raises:
        DatasetError: If the file cannot be downloaded.
    """
    check_reachable(urllib.parse.urlsplit(url).hostname or "", label, expected)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response, input_budget() as budget:
            return _read_body(response, label, budget)
    except (OSError, ValueError, http.client.HTTPException) as error:
        if isinstance(error, DatasetError):
            raise
        reason = getattr(error, "reason", None) or error
        raise unreachable(label, expected, f"{url}: {reason}") from error


def _read_body(response: Any, label: str, budget: InputBudget) -> bytes:
    """Read an answer of limited size. A server that sends too slowly is an error, as if it did not answer."""
    body = bytearray()
    started = time.monotonic()
    while data := response.read1(1 << 16):
        body += data
        budget.check(len(body), label, "the downloaded file")
        seconds = time.monotonic() - started
        if seconds > PATIENCE and len(body) < MIN_RATE * seconds:
            raise TimeoutError(f"the server sent only {len(body)} bytes in {seconds:.0f} s")
    expected = response.headers.get("Content-Length")
    if expected is not None and expected.isdecimal() and int(expected) != len(body):
        raise OSError(f"the file is incomplete: expected {expected} bytes, got {len(body)}")
    return bytes(body)
