"""Run units of work over any ``concurrent.futures.Executor``.

Results stream out as they come (or in order), few units wait at a time, and an error or an
abandoned iteration cancels what has not started.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any, TypeVar

from tgp.errors import InputError, TgpError

__all__ = ["SerialExecutor", "run_units"]

T = TypeVar("T")
R = TypeVar("R")


class SerialExecutor(Executor):
    """Runs every call at once, in this process: for one worker, for tests, for debugging."""

    _max_workers = 1

    def __init__(self) -> None:
        self._closed = False

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Call ``fn`` now; the future is done when this returns."""
        if self._closed:
            raise RuntimeError("cannot run a unit after shutdown")
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - a future carries any error to its reader
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse further calls; nothing is ever pending."""
        self._closed = True


def run_units(
    function: Callable[[T], R],
    units: Iterable[T],
    executor: Executor | None = None,
    *,
    ordered: bool = False,
    in_flight: int | Callable[[], int] | None = None,
    on_done: Callable[[T, R], None] | None = None,
) -> Iterator[tuple[T, R]]:
    """Yield ``(unit, function(unit))`` for every unit.

    Args:
        function: what to do; picklable if the executor uses other processes.
        units: what to do it with; drawn lazily.
        executor: where; in this process if absent. It is not shut down.
        ordered: yield in the order of ``units`` instead of the order of completion.
        in_flight: units submitted at a time, or what tells it from one moment to the next; default twice the
            number of workers, one if serial.
        on_done: called with each unit and its result, before it is yielded.

    Raises:
        TgpError: if a worker died. Any error of ``function`` comes through as it is.
    """
    pool = executor if executor is not None else SerialExecutor()
    if isinstance(in_flight, int) and in_flight < 1:
        raise InputError(f"in_flight must be at least 1, got {in_flight}", field="in_flight")
    if callable(in_flight):
        return _stream(function, iter(units), pool, ordered, in_flight, on_done)
    limit = _limit(pool) if in_flight is None else in_flight
    return _stream(function, iter(units), pool, ordered, lambda: limit, on_done)


def _limit(pool: Executor) -> int:
    if isinstance(pool, SerialExecutor):
        return 1
    # Executors do not publish their size; those of the standard library keep it here.
    return 2 * int(getattr(pool, "_max_workers", None) or os.cpu_count() or 1)


def _stream(
    function: Callable[[T], R],
    units: Iterator[T],
    pool: Executor,
    ordered: bool,
    limit: Callable[[], int],
    on_done: Callable[[T, R], None] | None,
) -> Iterator[tuple[T, R]]:
    pending: deque[tuple[T, Future[R]]] = deque()
    try:
        more = True
        while more or pending:
            room = max(1, limit()) if more else 0
            while more and len(pending) < room:
                try:
                    unit = next(units)
                except StopIteration:
                    more = False
                    break
                pending.append((unit, pool.submit(function, unit)))
            if not pending:
                break
            unit, future = _next_done(pending, ordered)
            result = future.result()
            if on_done is not None:
                on_done(unit, result)
            yield unit, result
    except BrokenExecutor as error:
        raise TgpError(
            f"a worker process ended abruptly while units were running: {error}",
            hint="it may have run out of memory: run again with fewer workers or a smaller shard size",
        ) from error
    finally:
        for _, future in pending:
            future.cancel()


def _next_done(pending: deque[tuple[T, Future[R]]], ordered: bool) -> tuple[T, Future[R]]:
    """Take the first unit, or the first in line that is done."""
    if not ordered:
        wait([future for _, future in pending], return_when=FIRST_COMPLETED)
        for position, (_, future) in enumerate(pending):
            if future.done():
                pending.rotate(-position)
                found = pending.popleft()
                pending.rotate(position)
                return found
    return pending.popleft()
