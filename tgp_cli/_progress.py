"""Progress on stderr: a bar on a terminal, a rare plain line in a log, nothing if silent."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from tgp_cli._output import Output, human_seconds

__all__ = ["Progress", "spinner"]

LOG_EVERY = 30.0
"""Seconds between lines where stderr is not a terminal."""


class Progress:
    """Follows a run: call it with (stage, done, total)."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""
        self._started = self._logged = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` steps of ``stage`` are finished."""
        if self._output.silent:
            return
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._show(stage, done, total)
        else:
            self._log(stage, done, total)

    def _show(self, stage: str, done: int, total: int) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                SpinnerColumn,
                TextColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as Bar

            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(stage, total=total or None)
        if stage != self._stage:
            self._stage = stage
            self._bar.reset(self._task, description=stage, total=total or None, completed=done)
        self._bar.update(self._task, completed=done, total=total or None)

    def _log(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._logged >= LOG_EVERY:
            self._logged = now
            spent = human_seconds(now - self._started)
            print(f"{stage}: {done} of {total} after {spent}", file=sys.stderr, flush=True)


@contextmanager
def spinner(output: Output, text: str) -> Iterator[None]:
    """Show ``text`` while something of unknown length goes on."""
    with Progress(output) as progress:
        progress(text, 0, 0)
        yield
