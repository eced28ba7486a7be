"""Progress bar of a run in a terminal or in a notebook."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

from tgp.build.progress import Step
from tgp.errors import InputError
from tgp.text import inert_text

__all__ = ["ProgressBar", "open_progress"]

Progress = Callable[[Step], None]

DEFAULT_WIDTH = 80
"""Number of columns of a bar if the width of the terminal is not known."""


def open_progress(progress: bool | Progress | None) -> AbstractContextManager[Progress]:
    """Return the receiver of the steps of a run. Leaving the context removes a bar.

    Args:
        progress: ``True`` for a bar, ``False`` for none, ``None`` for a bar only in a terminal or in a notebook, or a
            function that is called with each step.

    Raises:
        InputError: If the value has another type.
    """
    if callable(progress):
        return nullcontext(progress)
    if not (progress is None or isinstance(progress, bool)):
        raise InputError(
            f"progress must be True, False, None or a function, got {progress!r} ({type(progress).__name__})",
            field="progress",
        )
    if progress or (progress is None and (_is_terminal() or _is_notebook())):
        return ProgressBar()
    return nullcontext(_ignore)


def _ignore(step: Step) -> None:
    pass


def _is_terminal() -> bool:
    stream = sys.stderr
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def _is_notebook() -> bool:
    """Return True if an IPython kernel runs this code. A notebook shows widgets and text that overwrites itself."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


class ProgressBar:
    """Bar of tqdm that shows the steps of a run. It is removed when the context ends."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __call__(self, step: Step) -> None:
        """Show a step.

        Args:
            step: State of the run.
        """
        if self._bar is None:
            self._bar = _open_bar()
        bar, text = self._bar, inert_text(step.describe(stage=True))
        bar.n = step.done / step.total if step.total and step.noun == "kernel" else step.share
        shape = "{bar:20}" if bar.ncols else "{bar}"  # a notebook replaces the second one by a widget
        bar.bar_format = "{percentage:3.0f}%|" + shape + "| {desc}" if step.total else "{desc}"
        bar.set_description_str(text[: bar.ncols - 1] if bar.ncols else text, refresh=False)
        bar.refresh()


def _open_bar() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without ipywidgets shows the bar as text
        from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no thread that refreshes the bar

    # tqdm shows nothing in a terminal that reports a height or a width of 0.
    size: dict[str, Any] = {} if _is_notebook() else {"ncols": _width(), "nrows": 2}
    return Bar(total=1.0, leave=False, bar_format="{desc}", **size)


def _width() -> int:
    """Return the width of the terminal. Some terminals report 0 columns."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or DEFAULT_WIDTH
    return DEFAULT_WIDTH
