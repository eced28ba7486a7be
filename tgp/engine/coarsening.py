"""A block of graphs and a schedule in, a hierarchy out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tgp.engine.protocol import RandomKey
from tgp.engine.schedule import LevelSpec, Schedule, ScheduleLike, parse_schedule
from tgp.errors import GraphError, InputError
from tgp.ragged import Assignment, BlockCSR, Hierarchy, Level

__all__ = ["Failure", "assign_level", "coarsen", "coarsen_safe", "connect_level"]

_GRAPH_TROUBLE = (GraphError, np.linalg.LinAlgError, ArithmeticError, MemoryError)
"""What one bad graph may raise. Anything else is a mistake in the call or in the code."""

Step = tuple[Assignment, BlockCSR]


@dataclass(frozen=True)
class Failure:
    """A graph that could not be coarsened: its index, the level where it failed, and why."""

    graph: int
    level: int
    reason: str


def coarsen(
    block: BlockCSR,
    schedule: ScheduleLike,
    seed: int = 0,
    *,
    weight_dtype: npt.DTypeLike = np.float32,
    first_level: int = 0,
) -> Hierarchy:
    """Coarsen every graph of a block, level after level.

    The hierarchy of a graph depends on the graph, the schedule and the seed alone: not on its place
    in the block, nor on the other graphs.

    Args:
        block: the input graphs.
        schedule: what :func:`~tgp.engine.parse_schedule` reads.
        seed: a number in ``[0, 2**63)``.
        weight_dtype: coarse weights are rounded to this type (and kept as float64), so that the next
            level sees exactly what a store holds.
        first_level: number of the first level, when the block is itself a level of a longer schedule.

    Raises:
        GraphError: if a graph cannot be coarsened; see :func:`coarsen_safe`.

    Examples:
        >>> from tgp.testing.graphs import path
        >>> [level.block.num_nodes for level in coarsen(path(8), "graclus:order=index*2").levels]
        [4, 2]
    """
    plan = parse_schedule(schedule)
    _check_seed(seed)
    levels: list[Level] = []
    current = block
    for spec, length in plan.runs():
        steps = _run(current, spec, length, RandomKey(seed, first_level + len(levels)), weight_dtype)
        levels.extend(Level(spec.method, assignment, coarse) for assignment, coarse in steps)
        current = steps[-1][1]
    return Hierarchy(block.node_ptr, tuple(levels))


def coarsen_safe(
    block: BlockCSR,
    schedule: ScheduleLike,
    seed: int = 0,
    *,
    weight_dtype: npt.DTypeLike = np.float32,
) -> tuple[Hierarchy, list[Failure]]:
    """:func:`coarsen` where a graph that fails does not take the others with it.

    From the level where it fails, a failed graph has its nodes dropped, no supernodes and no edges.

    Returns:
        The hierarchy, and the failures in the order of graphs.
    """
    plan = parse_schedule(schedule)
    _check_seed(seed)
    levels: list[Level] = []
    failures: list[Failure] = []
    current = block
    for spec, length in _runs_that_fail_alone(plan):
        gone = np.array([f.graph for f in failures], np.int64)
        steps = _run_safe(current, spec, length, RandomKey(seed, len(levels)), weight_dtype, 0, failures)
        if gone.size:
            steps = [_without(step, gone) for step in steps]
        levels.extend(Level(spec.method, assignment, coarse) for assignment, coarse in steps)
        current = steps[-1][1]
    return Hierarchy(block.node_ptr, tuple(levels)), sorted(failures, key=lambda f: f.graph)


def assign_level(block: BlockCSR, spec: LevelSpec, draw: RandomKey) -> Assignment:
    """The assignment of one level."""
    return spec.level_method.assign(block, spec.params, draw)


def connect_level(
    block: BlockCSR, assignment: Assignment, spec: LevelSpec, weight_dtype: npt.DTypeLike = np.float32
) -> BlockCSR:
    """The coarse block of one level, weights rounded to ``weight_dtype``.

    Raises:
        GraphError: if a coarse weight is not a finite number of that type.
    """
    coarse = spec.level_method.connect(block, assignment, spec.params)
    if coarse.weight is None:
        return coarse
    with np.errstate(over="ignore"):
        weight = coarse.weight.astype(weight_dtype).astype(np.float64)
    finite = np.isfinite(weight)
    if not finite.all():
        entry = int(np.argmin(finite))
        graph = int(np.searchsorted(coarse.edge_ptr, entry, side="right")) - 1
        raise GraphError(
            f"{spec.method}: coarse weights must be finite {np.dtype(weight_dtype).name} numbers, "
            f"got {coarse.weight[entry]}",
            graph=graph,
            hint="scale the edge weights of this graph down",
        )
    return BlockCSR(coarse.indptr, coarse.indices, weight, coarse.node_ptr)


def _check_seed(seed: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise InputError(f"seed must be a whole number in [0, 2**63), got {seed!r}", field="seed")


def _run(
    block: BlockCSR, spec: LevelSpec, length: int, draw: RandomKey, weight_dtype: npt.DTypeLike
) -> list[Step]:
    """``length`` equal levels, as one tree where the method builds trees."""
    method = spec.level_method
    steps: list[Step] = []
    if method.assign_levels is not None and length > 1:
        for assignment in method.assign_levels(block, spec.params, draw, length):
            block = connect_level(block, assignment, spec, weight_dtype)
            steps.append((assignment, block))
        assert len(steps) == length, f"{spec.method} made {len(steps)} of {length} levels"
        return steps
    for level in range(draw.level, draw.level + length):
        assignment = assign_level(block, spec, RandomKey(draw.seed, level))
        block = connect_level(block, assignment, spec, weight_dtype)
        steps.append((assignment, block))
    return steps


def _run_safe(
    block: BlockCSR,
    spec: LevelSpec,
    length: int,
    draw: RandomKey,
    weight_dtype: npt.DTypeLike,
    first: int,
    failures: list[Failure],
) -> list[Step]:
    """:func:`_run`, halving the block until the graphs that fail stand alone. ``first`` is the
    index of the block's first graph."""
    try:
        return _run(block, spec, length, draw, weight_dtype)
    except _GRAPH_TROUBLE as error:
        if block.num_graphs < 2:
            # The index in a block of one graph would only mislead: the ledger knows which graph it is.
            reason = error.reason if isinstance(error, GraphError) else error
            failures.append(Failure(first, draw.level, f"{type(error).__name__}: {reason}".rstrip(": ")))
            return _nothing(block, spec, length)
    middle = block.num_graphs // 2
    halves = [
        _run_safe(block.take(range(lo, hi)), spec, length, draw, weight_dtype, first + lo, failures)
        for lo, hi in ((0, middle), (middle, block.num_graphs))
    ]
    return [
        (Assignment.concat([left[0], right[0]]), BlockCSR.concat([left[1], right[1]]))
        for left, right in zip(*halves, strict=True)
    ]


def _runs_that_fail_alone(plan: Schedule) -> Iterator[tuple[LevelSpec, int]]:
    """Single levels, except those that are built as one tree: a graph fails from one of these on."""
    for spec, length in plan.runs():
        if spec.level_method.assign_levels is None:
            yield from [(spec, 1)] * length
        else:
            yield spec, length


def _without(step: Step, gone: npt.NDArray[np.int64]) -> Step:
    """A level without the supernodes of graphs that failed before: a method with as many in every graph makes
    them even where there are no nodes."""
    assignment, block = step
    counts = np.diff(assignment.super_ptr)
    if not counts[gone].any():
        return step
    left = np.ones(assignment.num_graphs, bool)
    left[gone] = False
    kept = np.repeat(left, counts)
    super_ptr = np.concatenate([[0], np.cumsum(counts * left)]).astype(np.int64)
    new_id = np.append(np.cumsum(kept) - 1, -1).astype(np.int32)  # the last one is for dropped nodes
    cluster, chosen = assignment.cluster, assignment.representative
    assignment = replace(
        assignment,
        super_ptr=super_ptr,
        cluster=None if cluster is None else new_id[cluster],
        representative=None if chosen is None else chosen[kept],
    )
    rows = np.concatenate([[0], np.cumsum(np.diff(block.indptr)[kept])]).astype(np.int64)
    entries = np.repeat(kept, np.diff(block.indptr))
    weight = None if block.weight is None else block.weight[entries]
    return assignment, BlockCSR(rows, new_id[block.indices[entries]], weight, super_ptr)


def _nothing(block: BlockCSR, spec: LevelSpec, length: int) -> list[Step]:
    """The levels of a failed graph: every node dropped, nothing left. They are of the method's own kind, so that
    a block where every graph failed fits to the others."""
    empty = BlockCSR.concat([])
    try:
        kind = assign_level(empty, spec, RandomKey())  # no graphs: tells the arrays and their widths
    except _GRAPH_TROUBLE:
        kind = Assignment("hard", np.zeros(1, np.int64), np.zeros(0, np.int32))
    gone = BlockCSR(empty.indptr, empty.indices, None, np.zeros(2, np.int64))
    steps = []
    for nodes in [block.num_nodes] + [0] * (length - 1):
        assignment = Assignment(
            kind.kind,
            np.zeros(2, np.int64),
            None if kind.cluster is None else np.full(nodes, -1, np.int32),
            soft=None if kind.soft is None else np.zeros((nodes, kind.soft.shape[1]), np.float32),
            theta=None if kind.theta is None else np.zeros((nodes, kind.theta.shape[1]), np.float32),
            representative=None if kind.representative is None else np.zeros(0, np.int32),
        )
        steps.append((assignment, gone))
    return steps
