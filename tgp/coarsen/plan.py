"""Cut a dataset into units of work by what they will cost. Unit ``i`` becomes shard ``i``.

The cut depends on the sizes of the graphs, the schedules and the shard size, never on the
number of workers: any way of running it gives the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.coarsen.schedule import Schedule
from tgp.errors import InputError

__all__ = ["DEFAULT_SHARD_SIZE", "Plan", "plan_units"]

DEFAULT_SHARD_SIZE = 64 * 2**20
"""Estimated bytes of a shard: large enough for long sequential reads, small enough to redo."""

MAX_UNIT_COST = 2e8
"""Work of a unit in nodes and edges touched, about a second: a kill loses no more than that."""

SHRINK = 0.5625
"""Guess of nodes and edges that a level leaves. Only used to plan."""

_NODE_BYTES = 8.0
_EDGE_BYTES = 12.0
_WORKING_COPIES = 4.0
"""Input block, coarse block, kernel scratch and the arrays being written live at the same time."""


@dataclass(frozen=True)
class Plan:
    """Units of consecutive graphs and what they are expected to take.

    Args:
        bounds: unit ``i`` holds graphs ``bounds[i]:bounds[i + 1]``.
        unit_bytes: estimated bytes each unit writes.
        unit_cost: estimated work of each unit, in nodes and edges touched.
    """

    bounds: tuple[int, ...]
    unit_bytes: tuple[int, ...]
    unit_cost: tuple[float, ...]

    @property
    def num_units(self) -> int:
        return len(self.bounds) - 1

    @property
    def total_bytes(self) -> int:
        """Estimated bytes of all units."""
        return sum(self.unit_bytes)

    def peak_bytes(self, workers: int = 1) -> int:
        """Estimated memory of the ``workers`` largest units at work at the same time."""
        largest = sorted(self.unit_bytes, reverse=True)[: max(workers, 1)]
        return int(_WORKING_COPIES * sum(largest))


def plan_units(
    nodes: npt.ArrayLike,
    edges: npt.ArrayLike,
    schedules: Schedule | Sequence[Schedule],
    *,
    shard_size: int = DEFAULT_SHARD_SIZE,
    extra_bytes: npt.ArrayLike = 0,
) -> Plan:
    """Cut graphs into units.

    A unit ends before the graph that would take it over ``shard_size`` bytes or over the work
    limit; a graph that is larger than that alone is a unit of its own.

    Args:
        nodes: ``[G]`` nodes of each graph.
        edges: ``[G]`` stored (directed) edges of each graph.
        schedules: the hierarchies that will be computed.
        shard_size: bytes a unit should write at most.
        extra_bytes: bytes of each graph's attributes (``[G]``, or one number for all).

    Raises:
        InputError: for sizes that do not fit together or are negative.
    """
    n, e = _sizes(nodes, "nodes"), _sizes(edges, "edges")
    if n.shape != e.shape:
        raise InputError(f"edges must hold {len(n)} sizes, got {len(e)}", field="edges")
    if shard_size < 1:
        raise InputError(f"shard_size must be at least 1 byte, got {shard_size}", field="shard_size")
    extra = np.broadcast_to(_sizes(extra_bytes, "extra_bytes"), n.shape)
    chosen = (schedules,) if isinstance(schedules, Schedule) else tuple(schedules)
    size = extra + _NODE_BYTES * n + _EDGE_BYTES * e
    cost = np.zeros(len(n))
    for schedule in chosen:
        more_bytes, more_cost = _estimate(n, e, schedule)
        size = size + more_bytes
        cost = cost + more_cost
    bounds = _cut(size, float(shard_size), cost, MAX_UNIT_COST)
    size_sum = np.concatenate([[0.0], np.cumsum(size)])[list(bounds)]
    cost_sum = np.concatenate([[0.0], np.cumsum(cost)])[list(bounds)]
    return Plan(
        bounds,
        tuple(int(b) for b in np.ceil(np.diff(size_sum))),
        tuple(float(c) for c in np.diff(cost_sum)),
    )


def _sizes(values: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
    out = np.atleast_1d(np.asarray(values, dtype=np.int64))
    if out.ndim != 1 or (out < 0).any():
        raise InputError(f"{name} must be a vector of sizes that are not negative", field=name)
    return out


def _estimate(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], schedule: Schedule
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Bytes and work of each graph's hierarchy."""
    size = np.zeros(len(nodes))
    cost = np.zeros(len(nodes))
    for spec in schedule:
        cost += spec.level_method.cost(nodes, edges, spec.params)
        size += _NODE_BYTES * nodes
        nodes = np.ceil(nodes * SHRINK).astype(np.int64)
        edges = np.ceil(edges * SHRINK).astype(np.int64)
        size += _NODE_BYTES * nodes + _EDGE_BYTES * edges
    return size, cost


def _cut(
    size: npt.NDArray[np.float64], max_size: float, cost: npt.NDArray[np.float64], max_cost: float
) -> tuple[int, ...]:
    """Greedy: each unit as long as both limits allow, at least one graph."""
    size_end, cost_end = np.cumsum(size), np.cumsum(cost)
    bounds = [0]
    while bounds[-1] < len(size):
        start = bounds[-1]
        done_size = size_end[start - 1] if start else 0.0
        done_cost = cost_end[start - 1] if start else 0.0
        stop = min(
            int(np.searchsorted(size_end, done_size + max_size, side="right")),
            int(np.searchsorted(cost_end, done_cost + max_cost, side="right")),
        )
        bounds.append(max(stop, start + 1))
    return tuple(bounds)
