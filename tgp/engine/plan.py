"""Cut a dataset into units of work by what they will cost. Unit ``i`` becomes shard ``i``.

The cut depends on the sizes of the graphs, the schedules and the shard size, never on the
number of workers: any way of running it gives the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.engine.schedule import Schedule
from tgp.errors import InputError

__all__ = ["COST_PER_SECOND", "DEFAULT_SHARD_SIZE", "Plan", "plan_units"]

DEFAULT_SHARD_SIZE = 64 * 2**20
"""Estimated bytes of a shard: large enough for long sequential reads, small enough to redo."""

COST_PER_SECOND = 5e7
"""Estimated work (nodes and edges touched) that a core does in a second: right within a factor of two for the
methods of the package on small graphs."""

MAX_UNIT_COST = 4 * COST_PER_SECOND
"""Work of a unit at most, about four seconds: a kill loses no more than that."""

MIN_UNIT_COST = 0.4 * COST_PER_SECOND
"""Work below which a unit is not cut only to have more of them: opening and syncing a file costs time too."""

ENOUGH_UNITS = 64
"""Units that keep a machine of many cores busy to the end."""

_PTR_BYTES = 4.0
"""An offset; there are two per graph and level."""

_METRIC_BYTES = 30.0
"""Quality figures of a graph, per level."""

_FILE_BYTES = 16 * 2**10
_LEVEL_BYTES = 4 * 2**10
"""Headers and gaps of a file, and of each level in it."""

_BLOCK_NODE_BYTES = 40.0
_BLOCK_EDGE_BYTES = 60.0
"""Memory of a unit at work: its edges as they came, its block, the coarse blocks, and what is being written."""

_EVEN_STEPS = 12
"""Halvings in the search for the most even cut: one part in 4,096."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """Units of consecutive graphs and what they are expected to take.

    Args:
        bounds: unit ``i`` holds graphs ``bounds[i]:bounds[i + 1]``.
        unit_bytes: estimated bytes of the arrays each unit writes.
        unit_cost: estimated work of each unit, in nodes and edges touched.
        unit_memory: estimated bytes of memory each unit needs while it is worked on.
        file_bytes: what the files of a unit take beside its arrays.
    """

    bounds: tuple[int, ...]
    unit_bytes: tuple[int, ...]
    unit_cost: tuple[float, ...]
    unit_memory: tuple[int, ...]
    file_bytes: int = 0

    @property
    def num_units(self) -> int:
        return len(self.bounds) - 1

    @property
    def total_bytes(self) -> int:
        """Estimated bytes of all files."""
        return sum(self.unit_bytes) + self.num_units * self.file_bytes

    def peak_bytes(self, at_once: int = 1) -> int:
        """Estimated memory of the ``at_once`` largest units at work at the same time."""
        return sum(sorted(self.unit_memory, reverse=True)[: max(at_once, 1)])


def plan_units(
    nodes: npt.ArrayLike,
    edges: npt.ArrayLike,
    schedules: Schedule | Sequence[Schedule],
    *,
    shard_size: int = DEFAULT_SHARD_SIZE,
    extra_bytes: npt.ArrayLike = 0,
    weighted: bool = False,
    metrics: bool = True,
) -> Plan:
    """Cut graphs into units.

    A graph loads a unit with its share of the bytes or of the work that a unit may have, whichever is larger.
    There are as few units as these loads allow, and they are as even as that number allows. A graph that is
    beyond a limit alone is a unit of its own.

    Args:
        nodes: ``[G]`` nodes of each graph.
        edges: ``[G]`` stored (directed) edges of each graph.
        schedules: the hierarchies that will be computed.
        shard_size: bytes a unit should write at most.
        extra_bytes: stored bytes of each graph's attributes (``[G]``, or one number for all).
        weighted: whether edges have weights.
        metrics: whether quality figures are stored.

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
    size = extra + 2 * _PTR_BYTES + 2 * _id_bytes(n) * e
    cost, memory = np.zeros(len(n)), np.zeros(len(n))
    for schedule in chosen:
        guess = _estimate(n, e, schedule, weighted, metrics)
        size, cost, memory = size + guess[0], cost + guess[1], np.maximum(memory, guess[2])
    work = min(MAX_UNIT_COST, max(float(cost.sum()) / ENOUGH_UNITS, MIN_UNIT_COST))
    bounds = _cut(np.maximum(size / shard_size, cost / work))

    def per_unit(values: Floats) -> list[float]:
        ends = np.concatenate([[0.0], np.cumsum(values)])[list(bounds)]
        return [float(v) for v in np.diff(ends)]

    return Plan(
        bounds,
        tuple(int(np.ceil(b)) for b in per_unit(size)),
        tuple(per_unit(cost)),
        tuple(int(b) for b in per_unit(memory + size)),
        _FILE_BYTES + sum(_FILE_BYTES + _LEVEL_BYTES * len(schedule) for schedule in chosen),
    )


def _sizes(values: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
    out = np.atleast_1d(np.asarray(values, dtype=np.int64))
    if out.ndim != 1 or (out < 0).any():
        raise InputError(f"{name} must be a vector of sizes that are not negative", field=name)
    return out


def _id_bytes(nodes: Floats | npt.NDArray[np.int64]) -> Floats:
    """Stored bytes of a node id; the largest graph of a unit decides, here each for itself."""
    return np.where(nodes <= 2**8, 1.0, np.where(nodes <= 2**16, 2.0, 4.0))


def _estimate(
    nodes: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
    schedule: Schedule,
    weighted: bool,
    metrics: bool,
) -> tuple[Floats, Floats, Floats]:
    """Bytes, work and memory of each graph's hierarchy."""
    size = np.full(len(nodes), _PTR_BYTES)
    cost = np.zeros(len(nodes))
    memory = _BLOCK_NODE_BYTES * nodes + _BLOCK_EDGE_BYTES * edges
    scratch = np.zeros(len(nodes))
    for spec in schedule:
        method, expected = spec.level_method, spec.level_method.expected
        cost += method.cost(nodes, edges, spec.params)
        scratch = np.maximum(scratch, expected.scratch * nodes)
        dense = 0
        if expected.fixed_k:
            dense = spec.params.k + getattr(spec.params, "num_modes", 0)
            coarse = np.full(len(nodes), spec.params.k)
            left = np.minimum(coarse**2, np.ceil(edges * expected.edges)).astype(np.int64)
        else:
            coarse = np.ceil(nodes * expected.nodes).astype(np.int64)
            left = np.ceil(edges * expected.edges).astype(np.int64)
        weighted = weighted or expected.weighted
        size += (_id_bytes(coarse) + 4.0 * dense) * nodes + _id_bytes(nodes) * coarse
        size += 2 * _PTR_BYTES + _METRIC_BYTES * metrics + (2 * _id_bytes(coarse) + 4.0 * weighted) * left
        nodes, edges = coarse, left
    return size, cost, memory + scratch


def _cut(load: Floats) -> tuple[int, ...]:
    """The fewest units of a load of at most 1, then the smallest limit that needs no more of them."""
    end = np.cumsum(load)
    bounds = _greedy(end, 1.0)
    units = len(bounds) - 1
    if not 1 < units < ENOUGH_UNITS:  # where there are many, one more or less to do is no matter
        return bounds
    low, high = min(1.0, float(end[-1]) / units), 1.0
    for _ in range(_EVEN_STEPS):
        middle = (low + high) / 2
        found = _greedy(end, middle)
        if len(found) - 1 <= units:
            bounds, high = found, middle
        else:
            low = middle
    return bounds


def _greedy(end: Floats, limit: float) -> tuple[int, ...]:
    """Each unit as long as the limit allows, at least one graph."""
    bounds = [0]
    while bounds[-1] < len(end):
        start = bounds[-1]
        done = float(end[start - 1]) if start else 0.0
        bounds.append(max(int(np.searchsorted(end, done + limit, side="right")), start + 1))
    return tuple(bounds)
