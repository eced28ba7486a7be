"""Limits of downloads: waiting time, minimum rate, number of bytes, and repeated attempts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from tgp.errors import InputError, StoreDamagedError, StoreError

__all__ = ["ADVICE", "InterruptedTransferError", "Meter", "TransferLimits", "repeat", "too_large"]

T = TypeVar("T")

ADVICE = "check the address, the network and the credentials"

TIMEOUT = 20.0
"""Seconds to wait for a connection or for the next bytes."""

ALLOWANCE = 60.0
"""Seconds that each attempt may take in addition to the time of its bytes at :data:`MINIMUM_RATE`."""

MINIMUM_RATE = 32_768.0
"""Slowest average rate of a download in bytes per second."""

RETRIES = 3
"""Number of further attempts after a broken connection or a reply that asks for patience."""

BACKOFF = 0.25
"""Seconds before the second attempt. The pause doubles with every attempt."""

LONGEST_WAIT = 30.0
"""Longest time in seconds that a server may ask to wait before the next attempt."""

_OVERHEAD = 1 << 20
"""Bytes of headers and of the chunked encoding that are accepted in addition to twice the bytes of a file."""


@dataclass(frozen=True)
class TransferLimits:
    """Limits of the downloads from one store.

    An attempt ends with an error when it takes longer than ``allowance`` seconds plus the time of the bytes received so
    far at ``minimum_rate``. This bounds the time of a file of a known size, too: each of its ``retries + 1`` attempts takes
    at most about ``allowance + size / minimum_rate`` seconds, and there are pauses between them.

    Args:
        timeout: Seconds to wait for a connection or for the next bytes.
        allowance: Fixed part of the time for one attempt, in seconds.
        minimum_rate: Slowest average rate in bytes per second.
        retries: Number of further attempts after a broken connection, a timeout, or a reply with status 429 or 5xx.
        backoff: Seconds before the second attempt. The pause doubles with every attempt.
        longest_wait: Longest time in seconds that a server may ask to wait (``Retry-After``) before the next attempt.

    Raises:
        InputError: If a limit is not a number in its range.
    """

    timeout: float = TIMEOUT
    allowance: float = ALLOWANCE
    minimum_rate: float = MINIMUM_RATE
    retries: int = RETRIES
    backoff: float = BACKOFF
    longest_wait: float = LONGEST_WAIT

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            zero_is_valid = field.name in ("retries", "backoff", "longest_wait")
            valid = isinstance(value, (int, float)) and math.isfinite(value) and value >= 0
            if (
                not valid
                or (value == 0 and not zero_is_valid)
                or (field.name == "retries" and value != int(value))
            ):
                kind = "a whole number" if field.name == "retries" else "a finite number"
                raise InputError(
                    f"wrong limit {field.name}: expected {kind} {'>= 0' if zero_is_valid else '> 0'}, got {value!r}",
                    field=field.name,
                )


class InterruptedTransferError(StoreError):
    """Transfer that may succeed if it is repeated.

    Args:
        message: Text of the error.
        path: URL of the file.
        hint: Advice for the user.
        wait: Seconds that the server asks to wait before the next attempt.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        hint: str | None = ADVICE,
        wait: float = 0.0,
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.wait = wait


class Meter:
    """Bytes and seconds of one attempt to download a file.

    Args:
        limits: Limits of the transfer.
        where: URL of the file, for messages.
        limit: Largest number of bytes of the file.
    """

    def __init__(self, limits: TransferLimits, where: str, limit: int) -> None:
        self.limits = limits
        self.where = where
        self.received = 0
        self._most = 2 * limit + _OVERHEAD
        self._start = time.monotonic()

    def wait(self) -> float:
        """Return the number of seconds to wait for the next bytes.

        Raises:
            StoreError: If the transfer is slower than the minimum rate.
        """
        elapsed = time.monotonic() - self._start
        left = self.limits.allowance + self.received / self.limits.minimum_rate - elapsed
        if left <= 0:
            raise StoreError(
                f"{self.where} arrives too slowly: expected at least {self.limits.minimum_rate:g} bytes per second "
                f"after {self.limits.allowance:g} s, got {self.received} bytes in {elapsed:.1f} s",
                path=self.where,
                hint="try again later, or allow more time with RemoteFiles(..., limits=TransferLimits(...))",
            )
        return min(left, self.limits.timeout)

    def add(self, count: int) -> None:
        """Count received bytes, with those of headers and encodings, and raise an error if there are too many."""
        self.received += count
        if self.received > self._most:
            raise StoreDamagedError(
                f"{self.where} is too large: expected at most {self._most} bytes with headers, got more",
                path=self.where,
                item=self.where.rpartition("/")[2],
            )


def too_large(where: str, limit: int, announced: int | None = None) -> StoreDamagedError:
    """Return the error for a file that has more bytes than expected."""
    found = "more" if announced is None else announced
    return StoreDamagedError(
        f"{where} is too large: expected at most {limit} bytes, got {found}",
        path=where,
        item=where.rpartition("/")[2],
    )


def repeat(limits: TransferLimits, attempt: Callable[[], T]) -> T:
    """Call a function until it is not interrupted, with growing pauses and a bounded number of times.

    Args:
        limits: Number of attempts and length of the pauses.
        attempt: Function to call. An :class:`InterruptedTransferError` of it leads to the next attempt.

    Returns:
        Result of the first call that succeeds.

    Raises:
        StoreError: If the last attempt was interrupted, too, or if the server asks for a longer pause than allowed.
    """
    for number in range(int(limits.retries) + 1):
        try:
            return attempt()
        except InterruptedTransferError as error:
            last, wait = error, error.wait
        if wait > limits.longest_wait or number == limits.retries:
            break
        time.sleep(max(wait, limits.backoff * 2**number))
    times = "" if number == 0 else f" (tried {number + 1} times)"
    raise StoreError(f"{last}{times}", path=last.path, hint=last.hint) from last
