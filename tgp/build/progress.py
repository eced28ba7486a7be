"""How far a run is: what is done, how fast, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tgp.store import StoreSpec, Task
from tgp.store.format import constants as store_format

__all__ = ["Meter", "Step"]


@dataclass(frozen=True)
class Step:
    """A moment of a run.

    Args:
        stage: what is going on.
        done: units finished, each hierarchy counted, by this run.
        total: units this run will do; 0 if the stage has none.
        graphs_per_second: graphs and hierarchies finished per second since coarsening began; ``None`` before the first.
        bytes: bytes written by this run.
        remaining: estimated seconds to the end, from the estimated work of the units; ``None`` before the first.
    """

    stage: str
    done: int = 0
    total: int = 0
    graphs_per_second: float | None = None
    bytes: int = 0
    remaining: float | None = None


class Meter:
    """Counts the tasks of a run.

    Args:
        spec: what the store is made from.
        tasks: what is to be done.
        costs: the estimated work of each task.
    """

    def __init__(self, spec: StoreSpec, tasks: Sequence[Task], costs: Sequence[float]) -> None:
        self._graphs = {task: spec.bounds[task.unit + 1] - spec.bounds[task.unit] for task in tasks}
        self._costs = dict(zip(tasks, costs, strict=True))
        self._total = sum(task.part != store_format.GRAPHS for task in tasks)
        self._done = self._graphs_done = self._bytes = 0
        self._cost_done = 0.0
        self._started = time.perf_counter()

    def order(self) -> Iterator[Task]:
        """The tasks, heavy units first: light ones fill the gaps at the end. A unit's graphs come before its levels."""
        heaviest: dict[int, float] = {}
        for task, cost in self._costs.items():
            heaviest[task.unit] = max(cost, heaviest.get(task.unit, 0.0))
        # Where all are about equal, their own order is kept: reruns then find files in the order of their numbers.
        top = max(heaviest.values(), default=0.0)
        steps = {unit: round(8 * cost / top) if top else 0 for unit, cost in heaviest.items()}
        yield from sorted(self._costs, key=lambda task: -steps[task.unit])

    def finished(self, task: Task, size: int) -> None:
        """A task is done and wrote so many bytes."""
        self._bytes += size
        if task.part != store_format.GRAPHS:
            self._done += 1
            self._graphs_done += self._graphs[task]
            self._cost_done += self._costs[task]

    def step(self) -> Step:
        """Where things stand."""
        rate = remaining = None
        seconds = time.perf_counter() - self._started
        if self._done and seconds > 0:
            rate = self._graphs_done / seconds
            share = self._cost_done / max(sum(self._costs.values()), 1e-9)
            remaining = seconds * (1 - share) / share if share else None
        return Step("coarsening", self._done, self._total, rate, self._bytes, remaining)
