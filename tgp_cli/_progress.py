"""Show progress on stderr: a bar on a terminal, a line every 30 seconds in a log, nothing if silent."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tgp.inspect.numbers import bytes_text, count_text, counted
from tgp.text import inert_text
from tgp_cli._output import Output, print_line, seconds_text, shows_unicode

if TYPE_CHECKING:
    from tgp.build.progress import Step

__all__ = ["COMPILING", "Progress"]

LOG_EVERY = 30.0
"""Seconds between two lines if stderr is not a terminal."""

COMPILING = "preparing kernels (compiled on first use, then cached)"
"""Name of the stage that loads the kernels. It takes up to a minute if kernels must be compiled."""


class Progress:
    """Progress display of a run. It is called with a step, or with a stage and the numbers of done and all tasks.

    Args:
        output: printer that decides if progress is shown.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""
        self._listening = contextlib.ExitStack()
        self._stage_started = self._logged = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        if self._bar is not None:
            with contextlib.suppress(OSError):  # the terminal was closed; ``error`` says more
                self._bar.stop()

    def __call__(self, step: Step | str, done: int = 0, total: int = 0) -> None:
        """Show the current stage of a run."""
        if self._output.silent:
            return
        if isinstance(step, str):
            stage, details, waits = step, f"{done} of {total}" * (total > 0), False
        else:
            waits = step.waited is not None
            stage, done, total, details = step.stage, step.done, step.total, _details(step)
        stage, details = inert_text(stage), inert_text(details)
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._show(stage, done, total, details)
        else:
            self._log(stage, details, waits)

    def _show(self, stage: str, done: int, total: int, details: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, SpinnerColumn, TextColumn
            from rich.progress import Progress as Bar

            spinner = SpinnerColumn("dots" if shows_unicode(sys.stderr) else "line")
            columns = (spinner, TextColumn("{task.description}", markup=False), BarColumn(bar_width=24))
            texts = TextColumn("{task.fields[details]}", markup=False)
            self._bar = Bar(*columns, texts, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(stage, total=total or None, details=details)
        if stage != self._stage:
            self._stage = stage
            self._bar.reset(self._task, description=stage, total=total or None, completed=done)
        self._bar.update(self._task, completed=done, total=total or None, details=details)

    def _log(self, stage: str, details: str, waits: bool) -> None:
        """Print a line if the last one is old, or if the run starts to wait for something."""
        if stage == COMPILING != self._stage:
            self._announce_compilation()
        now = time.monotonic()
        is_new = stage != self._stage
        if is_new:
            self._stage, self._stage_started = stage, now
        if now - self._logged >= LOG_EVERY or (waits and is_new):
            self._logged = now
            spent = "" if is_new or waits else f", {seconds_text(now - self._stage_started)} so far"
            print_line(f"{stage}: {details or 'running'}{spent}", sys.stderr, flush=True)

    def _announce_compilation(self) -> None:
        """Print the stage to the log when the first kernel is compiled. Loading cached kernels prints nothing."""
        from numba.core import event

        print_message = self._output.message

        class FirstCompilation(event.Listener):  # type: ignore[misc]
            announced = False

            def on_start(self, _: Any) -> None:
                if not self.announced:
                    self.announced = True
                    with contextlib.suppress(OSError):  # a closed stderr must not end the compilation
                        print_message(COMPILING)

            def on_end(self, _: Any) -> None:
                pass

        self._listening.enter_context(event.install_listener("numba:compile", FirstCompilation()))


def _details(step: Step) -> str:
    """Describe a step: ``12 of 40 units, 1,200 graphs/s, 3.4 MB, about 20 s left``."""
    if step.waited is not None:
        return f"{step.waited:.0f} s"
    if not step.total:
        return ""
    parts = [f"{step.done} of {counted(step.total, 'unit')}"]
    if step.graphs_per_second is not None:
        parts.append(f"{count_text(step.graphs_per_second)} graphs/s")
    if step.bytes:
        parts.append(bytes_text(step.bytes))
    if step.remaining is not None and step.done < step.total:
        parts.append(f"about {seconds_text(max(1.0, round(step.remaining)))} left".replace(".0 s", " s"))
    return ", ".join(parts)
