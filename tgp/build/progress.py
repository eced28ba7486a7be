"""Progress of a run: finished tasks, speed, and estimated time to the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tgp.store import StoreSpec, Task
from tgp.store.format import constants as store_format

__all__ = ["Meter", "Step", "order_tasks"]


@dataclass(frozen=True)
class Step:
    """State of a run at one moment.

    Args:
        stage: Description of the current stage.
        done: Number of units finished by this run. Each hierarchy of a unit counts.
        total: Number of units of this run; 0 if the stage has no units.
        graphs_per_second: Graphs coarsened per second since coarsening began. Each hierarchy of a graph counts.
            ``None`` until a unit is finished.
        bytes: Number of bytes written by this run.
        remaining: Estimated seconds to the end. ``None`` until a unit is finished.
        waited: Seconds for which the run has been waiting in this stage; ``None`` if it is not waiting.
    """

    stage: str
    done: int = 0
    total: int = 0
    graphs_per_second: float | None = None
    bytes: int = 0
    remaining: float | None = None
    waited: float | None = None


class Meter:
    """Counter of the finished tasks of a run.

    Args:
        spec: Specification of the store.
        tasks: Files to write.
        costs: Estimated cost of each task.
    """

    def __init__(self, spec: StoreSpec, tasks: Sequence[Task], costs: Sequence[float]) -> None:
        self._graphs = {task: spec.bounds[task.unit + 1] - spec.bounds[task.unit] for task in tasks}
        self._costs = dict(zip(tasks, costs, strict=True))
        self._total = sum(task.part != store_format.GRAPHS for task in tasks)
        self._done = self._graphs_done = self._bytes = 0
        self._cost_done = 0.0
        self._started = time.perf_counter()

    def finished(self, task: Task, size: int) -> None:
        """Record that a task finished and how many bytes it wrote.

        Args:
            task: Finished task.
            size: Size of its file in bytes.
        """
        self._bytes += size
        if task.part != store_format.GRAPHS:
            self._done += 1
            self._graphs_done += self._graphs[task]
            self._cost_done += self._costs[task]

    def step(self) -> Step:
        """Return the current state."""
        rate = remaining = None
        seconds = time.perf_counter() - self._started
        if self._done and seconds > 0:
            rate = self._graphs_done / seconds
            share = self._cost_done / max(sum(self._costs.values()), 1e-9)
            remaining = seconds * (1 - share) / share if share else None
        return Step("coarsening", self._done, self._total, rate, self._bytes, remaining)


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
