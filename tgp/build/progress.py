"""Progress of a run: finished graphs or edges, elapsed and estimated time, and the bar that shows them."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

import numpy as np

from tgp.errors import InputError
from tgp.kernels.array_types import LongArray
from tgp.store import StoreSpec, Task
from tgp.store.format import constants as store_format
from tgp.text import inert_text

__all__ = [
    "Meter",
    "ProgressBar",
    "Step",
    "duration_text",
    "ignore_step",
    "open_progress",
    "order_tasks",
    "tasks_of_job",
]

FEW_GRAPHS = 20
"""Number of graphs below which progress counts edges, because a single graph can take most of the time."""


@dataclass(frozen=True)
class Step:
    """State of a run at one moment.

    Args:
        stage: Description of the current stage.
        done: Number of items (graphs, edges, kernels) that this run has finished. A graph counts once per hierarchy.
        total: Number of items of this run; 0 if the stage counts nothing.
        noun: Name of one item: ``"graph"``, ``"edge"``, ``"kernel"``, or ``""`` for files and other tasks.
        hierarchies: Number of hierarchies in which each item counts.
        share: Finished share of the estimated work, from 0 to 1. ``remaining`` follows from it. It differs from
            ``done / total`` if some graphs take longer than others.
        bytes: Number of bytes written by this run.
        elapsed: Seconds since the stage began; ``None`` if they are not measured.
        remaining: Estimated seconds to the end of the stage. ``None`` until a part of the work is finished.
        waited: Seconds for which the run has been waiting for workers; ``None`` if it is not waiting.
    """

    stage: str
    done: int = 0
    total: int = 0
    noun: Literal["graph", "edge", "kernel", ""] = "graph"
    hierarchies: int = 1
    share: float = 0.0
    bytes: int = 0
    elapsed: float | None = None
    remaining: float | None = None
    waited: float | None = None

    def describe(self, later: float = 0.0, *, stage: bool = False, short: bool = False) -> str:
        """Return the numbers of the step: ``1,204 of 4,110 graphs, 12 s, about 20 s left``.

        Args:
            later: Seconds that have passed since the step was made. A display adds them between two steps.
            stage: True to begin with the stage: ``coarsening 1,204 of 4,110 graphs, 12 s, about 20 s left``.
            short: True to leave out words that a narrow terminal has no room for.
        """
        count = self._count_text(short) if self.waited is None else ""
        parts = [f"{self.stage} {count}".rstrip() if stage else count]
        seconds = self.elapsed if self.waited is None else self.waited
        if seconds is not None:
            parts.append(duration_text(seconds + later))
        if self.remaining is not None and self.waited is None and self.done < self.total:
            left = f"{duration_text(max(1.0, self.remaining - later))} left"
            parts.append(left if short else f"about {left}")
        return ", ".join(part for part in parts if part)

    def _count_text(self, short: bool) -> str:
        if self.noun == "kernel":  # the one that is being compiled
            return f"kernel {self.done:,} of {self.total:,}" if self.total else f"kernel {self.done:,}"
        if not self.total:
            return ""
        text = f"{self.done:,} of {self.total:,}"
        if self.noun:
            text += f" {self.noun if self.total == 1 else self.noun + 's'}"
        return text if short or self.hierarchies == 1 else f"{text} ({self.hierarchies} hierarchies)"


def ignore_step(step: Step) -> None:
    """Do nothing: the default receiver of the steps of a run."""


def duration_text(seconds: float) -> str:
    """Format a duration in whole seconds.

    Examples:
        >>> duration_text(3.4), duration_text(310), duration_text(7260)
        ('3 s', '5 min 10 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 2:
        return f"{60 * minutes + rest} s"
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


class Meter:
    """Counter of the finished tasks of a run.

    Args:
        spec: Specification of the store.
        tasks: Files to write.
        costs: Estimated cost of each task.
        edges: Number of edges of each graph. They are counted instead of graphs if there are only a few graphs.
    """

    def __init__(
        self, spec: StoreSpec, tasks: Sequence[Task], costs: Sequence[float], edges: LongArray
    ) -> None:
        self._noun: Literal["graph", "edge"] = "edge" if spec.num_graphs < FEW_GRAPHS else "graph"
        items = np.r_[0, np.cumsum(edges)] if self._noun == "edge" else np.arange(spec.num_graphs + 1)
        jobs = [task for task in tasks if task.part != store_format.GRAPHS]
        self._items = {
            task: int(items[spec.bounds[task.unit + 1]] - items[spec.bounds[task.unit]]) for task in jobs
        }
        self._costs = dict(zip(tasks, costs, strict=True))
        self._total_cost = max(sum(costs), 1e-9)
        self._hierarchies = len({task.part for task in jobs})
        self._total = sum(self._items.values())
        self._done = self._bytes = 0
        self._cost_done = self._last_finished = 0.0
        self._started = time.perf_counter()

    def finished(self, task: Task, size: int) -> None:
        """Record that a task finished and how many bytes it wrote.

        Args:
            task: Finished task.
            size: Size of its file in bytes.
        """
        self._bytes += size
        if task in self._items:
            self._done += self._items[task]
            self._cost_done += self._costs[task]
            self._last_finished = time.perf_counter() - self._started

    def step(self) -> Step:
        """Return the current state. The remaining time assumes that the rest of the work is as fast as the finished part."""
        seconds = time.perf_counter() - self._started
        share = min(self._cost_done / self._total_cost, 1.0)
        remaining = self._last_finished / share - seconds if share else None
        return Step(
            "coarsening",
            self._done,
            self._total,
            self._noun,
            max(self._hierarchies, 1),
            share,
            self._bytes,
            elapsed=seconds,
            remaining=None if remaining is None else max(remaining, 0.0),
        )


def order_tasks(tasks: Sequence[Task], costs: Sequence[float]) -> list[Task]:
    """Sort tasks by cost, heavy units first, so that light units fill the gaps at the end.

    The graphs of a unit stay in front of its hierarchies. Units of about equal cost keep their order, so that reruns
    find the files of a store in the order of their numbers.

    Args:
        tasks: Files to write.
        costs: Estimated cost of each task.
    """
    heaviest: dict[int, float] = {}
    for task, cost in zip(tasks, costs, strict=True):
        heaviest[task.unit] = max(cost, heaviest.get(task.unit, 0.0))
    top = max(heaviest.values(), default=0.0)
    steps = {unit: round(8 * cost / top) if top else 0 for unit, cost in heaviest.items()}
    return sorted(tasks, key=lambda task: -steps[task.unit])


def tasks_of_job(tasks: list[Task], shard: tuple[int, int] | None) -> list[Task]:
    """Return the tasks of one of several jobs that write a store together.

    Args:
        tasks: Files to write.
        shard: ``(i, n)`` for job ``i`` of ``n`` (``--shard i/n``); all tasks if ``None``.
    """
    if shard is None:
        return tasks
    job, jobs = shard
    return [task for task in tasks if task.unit % jobs == job]


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
    return nullcontext(ignore_step)


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
