"""Cut a dataset into units of work by their estimated size and cost. Unit ``i`` becomes shard ``i``.

The units depend on the sizes of the graphs, the schedules and the shard size. They do not depend on the number of workers,
so every way of running them gives the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.engine.level_method import GraphSizes, LevelBound
from tgp.engine.schedule import LevelSpec, Schedule
from tgp.errors import InputError
from tgp.kernels.array_types import FloatArray, LongArray

__all__ = ["COST_PER_SECOND", "DEFAULT_SHARD_SIZE", "UnitPlan", "WorkBound", "bound_work", "plan_units"]

DEFAULT_SHARD_SIZE = 64 * 10**6
"""Default size of a shard in bytes (estimated). It is large enough for long sequential reads, and small enough to be
computed again after an interruption."""

COST_PER_SECOND = 5e7
"""Estimated work (nodes and edges touched) that a core does in a second. For small graphs and the methods of tgp it is
correct within a factor of two. For other graphs see :func:`bound_work`."""

MAX_UNIT_COST = 4 * COST_PER_SECOND
"""Largest work of a unit, about four seconds. An interrupted run loses at most this work per worker."""

MIN_UNIT_COST = 0.4 * COST_PER_SECOND
"""Work below which a unit is not divided for the sake of more units, because opening and syncing a file takes time."""

ENOUGH_UNITS = 64
"""Number of units that keeps all cores of a large machine busy until the end of a run."""

_PTR_BYTES = 4.0
"""Size of an offset. There are two per graph and level."""

_METRIC_BYTES = 30.0
"""Size of the quality figures of a graph, per level."""

_FILE_BYTES = 16 * 2**10
"""Size of the headers and gaps of a file."""

_LEVEL_BYTES = 4 * 2**10
"""Size of the headers and gaps of a level in a file."""

_BLOCK_NODE_BYTES = 40.0
_BLOCK_EDGE_BYTES = 60.0
"""Memory per node and edge for the input edges, the block, the coarse blocks, and the arrays that are written."""

_LEVEL_NODE_BYTES = 16.0
_LEVEL_EDGE_BYTES = 40.0
"""Memory that a finished level keeps until it is written, per node of the level before and per coarse edge."""

_FILE_NS = 100.0
"""Processor time in nanoseconds per node and edge for reading, figures and writing."""

_GRAPH_SECONDS = 2e-6
"""Processor time per graph and level, for the part of the work that does not depend on the size of the graph."""

_BALANCE_STEPS = 12
"""Number of bisections in the search for the most even units, to a precision of 1 in 4,096."""


@dataclass(frozen=True)
class UnitPlan:
    """Units of consecutive graphs with their estimated size and work.

    Args:
        bounds: offsets of the units. Unit ``i`` consists of the graphs ``bounds[i]:bounds[i + 1]``.
        unit_bytes: estimated size in bytes of the arrays that each unit writes.
        unit_cost: estimated work of each unit, in nodes and edges touched.
        file_bytes: size in bytes of the files of a unit without its arrays.
    """

    bounds: tuple[int, ...]
    unit_bytes: tuple[int, ...]
    unit_cost: tuple[float, ...]
    file_bytes: int = 0

    @property
    def num_units(self) -> int:
        """Number of units."""
        return len(self.bounds) - 1

    @property
    def total_bytes(self) -> int:
        """Estimated size of all files in bytes."""
        return sum(self.unit_bytes) + self.num_units * self.file_bytes


def plan_units(
    nodes: npt.ArrayLike,
    edges: npt.ArrayLike,
    schedules: Schedule | Sequence[Schedule],
    *,
    shard_size: int = DEFAULT_SHARD_SIZE,
    extra_bytes: npt.ArrayLike = 0,
    weighted: bool = False,
    metrics: bool = True,
) -> UnitPlan:
    """Divide graphs into units.

    The load of a graph is its share of the bytes or of the work that a unit may have, whichever is larger. The plan has
    as few units as possible with a load of at most 1, and their loads are as even as possible. A graph with a load above
    1 is a unit of its own.

    Args:
        nodes: ``[G]`` number of nodes of each graph.
        edges: ``[G]`` number of stored (directed) edges of each graph.
        schedules: schedules of the hierarchies that will be computed.
        shard_size: largest size of a unit in bytes.
        extra_bytes: stored size in bytes of the attributes of each graph (``[G]``, or one number for all).
        weighted: True if the edges have weights.
        metrics: True if quality figures are stored.

    Raises:
        InputError: if the arrays have different lengths, or a size is negative.

    Examples:
        >>> from tgp.engine import parse_schedule
        >>> plan_units([10] * 4, [40] * 4, parse_schedule("graclus")).bounds
        (0, 4)
    """
    n, e = _sizes(nodes, "nodes"), _sizes(edges, "edges")
    if n.shape != e.shape:
        raise InputError(f"edges has the wrong length: expected {len(n)} sizes, got {len(e)}", field="edges")
    if shard_size < 1:
        raise InputError(
            f"shard_size is out of range: expected at least 1 byte, got {shard_size}", field="shard_size"
        )
    extra = np.broadcast_to(_sizes(extra_bytes, "extra_bytes"), n.shape)
    chosen = (schedules,) if isinstance(schedules, Schedule) else tuple(schedules)
    size = extra + 2 * _PTR_BYTES + 2 * _id_bytes(n) * e
    cost = np.zeros(len(n))
    for schedule in chosen:
        more_size, more_cost = _estimate(n, e, schedule, weighted, metrics)
        size, cost = size + more_size, cost + more_cost
    max_cost = min(MAX_UNIT_COST, max(float(cost.sum()) / ENOUGH_UNITS, MIN_UNIT_COST))
    bounds = _balance(np.maximum(size / shard_size, cost / max_cost))

    def per_unit(values: FloatArray) -> list[float]:
        ends = np.concatenate([[0.0], np.cumsum(values)])[list(bounds)]
        return [float(v) for v in np.diff(ends)]

    return UnitPlan(
        bounds,
        tuple(int(np.ceil(b)) for b in per_unit(size)),
        tuple(per_unit(cost)),
        _FILE_BYTES + sum(_FILE_BYTES + _LEVEL_BYTES * len(schedule) for schedule in chosen),
    )


@dataclass(frozen=True, eq=False)
class WorkBound:
    """Upper bounds of time and memory of each graph, over all levels of all schedules.

    Args:
        seconds: ``[G]`` processor seconds of the levels, their figures and the files.
        memory: ``[G]`` bytes that a graph needs while it is coarsened.
        certain: True if all methods have bounds. Otherwise the figures are estimates.
    """

    seconds: FloatArray
    memory: FloatArray
    certain: bool


def bound_work(sizes: GraphSizes, schedules: Sequence[Schedule]) -> WorkBound:
    """Return upper bounds of the time and memory that schedules need, for display.

    Unlike :func:`plan_units`, nothing that is stored depends on the result.

    Args:
        sizes: sizes of the graphs.
        schedules: schedules of the hierarchies.
    """
    seconds = np.full(len(sizes.nodes), 1e-9 * _FILE_NS) * (sizes.nodes + sizes.edges)
    memory = np.zeros(len(sizes.nodes))
    certain = True
    for schedule in schedules:
        here = sizes
        kept = _BLOCK_NODE_BYTES * here.nodes + _BLOCK_EDGE_BYTES * here.edges
        for spec in schedule:
            certain = certain and spec.level_method.bound is not None
            level = _bound_level(spec, here)
            written = 1e-9 * _FILE_NS * (level.nodes + level.edges + here.nodes)
            seconds = seconds + level.seconds + written + _GRAPH_SECONDS
            memory = np.maximum(memory, kept + level.memory)
            kept = kept + _LEVEL_NODE_BYTES * here.nodes + _LEVEL_EDGE_BYTES * level.edges
            degree = np.minimum(level.nodes, level.edges)
            here = GraphSizes(level.nodes, level.edges, degree, here.signed)
        memory = np.maximum(memory, kept)
    return WorkBound(seconds, memory, certain)


def _bound_level(spec: LevelSpec, sizes: GraphSizes) -> LevelBound:
    """Return the bound of a level, or the estimate of a method that has no bound."""
    method, estimate = spec.level_method, spec.level_method.estimate
    if method.bound is not None:
        return method.bound(sizes, spec.params)
    cost = method.cost(sizes.nodes, sizes.edges, spec.params)
    share = (
        np.full(len(sizes.nodes), spec.params.k) if method.dense else np.ceil(sizes.nodes * estimate.nodes)
    )
    return LevelBound(
        cost / COST_PER_SECOND,
        np.float64(estimate.scratch) * sizes.nodes,
        share.astype(np.int64),
        np.ceil(sizes.edges * estimate.edges).astype(np.int64),
    )


def _sizes(values: npt.ArrayLike, name: str) -> LongArray:
    out = np.atleast_1d(np.asarray(values, dtype=np.int64))
    if out.ndim != 1 or (out < 0).any():
        raise InputError(f"{name} is wrong: expected a vector of sizes >= 0, got {values!r}", field=name)
    return out


def _id_bytes(nodes: FloatArray | LongArray) -> FloatArray:
    """Return the stored size of a node id. A unit uses the size of its largest graph; this is the size per graph."""
    return np.where(nodes <= 2**8, 1.0, np.where(nodes <= 2**16, 2.0, 4.0))


def _estimate(
    nodes: LongArray,
    edges: LongArray,
    schedule: Schedule,
    weighted: bool,
    metrics: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return the estimated size and work of the hierarchy of each graph."""
    size = np.full(len(nodes), _PTR_BYTES)
    cost = np.zeros(len(nodes))
    for spec in schedule:
        method, estimate = spec.level_method, spec.level_method.estimate
        cost += method.cost(nodes, edges, spec.params)
        columns = 0
        if method.dense:
            columns = spec.params.k + getattr(spec.params, "num_modes", 0)
            supernodes = np.full(len(nodes), spec.params.k)
            remaining = np.minimum(supernodes**2, np.ceil(edges * estimate.edges)).astype(np.int64)
        else:
            supernodes = np.ceil(nodes * estimate.nodes).astype(np.int64)
            remaining = np.ceil(edges * estimate.edges).astype(np.int64)
        weighted = weighted or estimate.weighted
        edge_bytes = 2 * _id_bytes(supernodes) + 4.0 * weighted
        size += (_id_bytes(supernodes) + 4.0 * columns) * nodes + _id_bytes(nodes) * supernodes
        size += 2 * _PTR_BYTES + _METRIC_BYTES * metrics + edge_bytes * remaining
        nodes, edges = supernodes, remaining
    return size, cost


def _balance(load: FloatArray) -> tuple[int, ...]:
    """Return the bounds of the fewest units with a load of at most 1, with the smallest limit that needs no more units."""
    end = np.cumsum(load)
    bounds = _fill_units(end, 1.0)
    units = len(bounds) - 1
    if not 1 < units < ENOUGH_UNITS:  # with many units, the last one does not have to be full
        return bounds
    low, high = min(1.0, float(end[-1]) / units), 1.0
    for _ in range(_BALANCE_STEPS):
        middle = (low + high) / 2
        found = _fill_units(end, middle)
        if len(found) - 1 <= units:
            bounds, high = found, middle
        else:
            low = middle
    return bounds


def _fill_units(end: FloatArray, limit: float) -> tuple[int, ...]:
    """Return the bounds of units that are as long as the limit allows, with at least one graph each."""
    bounds = [0]
    while bounds[-1] < len(end):
        start = bounds[-1]
        done = float(end[start - 1]) if start else 0.0
        bounds.append(max(int(np.searchsorted(end, done + limit, side="right")), start + 1))
    return tuple(bounds)
