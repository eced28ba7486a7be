"""Show progress on stderr: a bar on a terminal, a line every 30 seconds in a log, nothing if silent."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tgp.text import inert_text
from tgp_cli._output import Output, print_line, shows_unicode

if TYPE_CHECKING:
    from tgp.build.progress import Step

__all__ = ["Progress"]

LOG_EVERY = 30.0
"""Seconds between two lines if stderr is not a terminal."""

BAR_WIDTH = 24
"""Width of the bar. It becomes shorter if the text needs the room."""


class Progress:
    """Progress display of a run. It is called with a step, or with a stage and the numbers of done and all tasks.

    Args:
        output: printer that decides if progress is shown.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._display: Any = None
        self._stage = ""
        self._stage_started = self._logged = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is not None:
            with contextlib.suppress(OSError):  # the terminal was closed; ``error`` says more
                self._display.stop()

    def __call__(self, step: Step | str, done: int = 0, total: int = 0) -> None:
        """Show the current stage of a run."""
        if self._output.silent:
            return
        if isinstance(step, str):
            from tgp.build.progress import Step

            step = Step(step, done, total, noun="", share=done / total if total else 0.0)
        is_new = step.stage != self._stage
        if is_new:
            self._stage, self._stage_started = step.stage, time.monotonic()
        if step.elapsed is None and step.waited is None:
            step = dataclasses.replace(step, elapsed=time.monotonic() - self._stage_started)
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._show(step)
        else:
            self._log(step, is_new)

    def _show(self, step: Step) -> None:
        if self._display is None:
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True)
            self._line = _StepLine(step, "dots" if shows_unicode(sys.stderr) else "line")
            self._display = Live(self._line, console=console, transient=True, refresh_per_second=8)
            self._display.start()
        self._line.update(step)

    def _log(self, step: Step, is_new: bool) -> None:
        """Print a line if the last one is old, if kernels are compiled, or if the run starts to wait for something."""
        now = time.monotonic()
        is_slow = step.waited is not None or step.noun == "kernel"
        if now - self._logged >= LOG_EVERY or (is_slow and is_new):
            self._logged = now
            print_line(step.describe(stage=True), sys.stderr, flush=True)


class _StepLine:
    """Line with a spinner, a step and a bar. Rich draws it again several times a second, so that the time moves on.

    Args:
        step: first step.
        spinner: name of the spinner of Rich.
    """

    def __init__(self, step: Step, spinner: str) -> None:
        from rich.spinner import Spinner

        self._spinner = Spinner(spinner)
        self.update(step)

    def update(self, step: Step) -> None:
        """Replace the step."""
        self._step, self._time = step, time.monotonic()

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        step = self._step
        later = time.monotonic() - self._time
        text = inert_text(step.describe(later, stage=True))
        if len(text) + 2 > options.max_width:
            text = inert_text(step.describe(later, stage=True, short=True))
        spinner = str(self._spinner.render(console.get_time()))
        line = Text(f"{spinner} {text}", no_wrap=True, overflow="ellipsis")
        room = min(
            BAR_WIDTH, options.max_width - line.cell_len - 1 - len("^C ")
        )  # Ctrl-C is shown behind the line
        if not step.total or step.waited is not None or room < 8:
            yield line
            return
        from rich.table import Table

        share = step.done / step.total if step.noun == "kernel" else step.share
        row = Table.grid(padding=(0, 1))
        row.add_row(line, ProgressBar(100, 100 * share, width=room))
        yield row
