"""Coarsen a block of graphs by a schedule into a hierarchy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from tgp.engine.level_method import RandomKey
from tgp.engine.level_steps import Step, check_needs, compose, join_unchanged, pool_attributes, remove_graphs
from tgp.engine.schedule import (
    MAX_LEVELS,
    STALL,
    LevelSpec,
    Schedule,
    ScheduleLike,
    check_composable,
    parse_schedule,
)
from tgp.errors import GraphError, InputError
from tgp.ragged import Assignment, BlockCSR, Hierarchy, Level
from tgp.ragged.offsets import find_run

__all__ = [
    "GraphFailure",
    "assign_level",
    "coarsen",
    "coarsen_with_failures",
    "connect_level",
    "count_levels",
    "independent_runs",
]

_GRAPH_ERRORS = (GraphError, np.linalg.LinAlgError, ArithmeticError, MemoryError)
"""Errors that a single graph can cause. Any other error is a wrong call or a defect of the code."""


@dataclass(frozen=True)
class GraphFailure:
    """A graph that could not be coarsened.

    Args:
        graph: index of the graph in its block.
        level: position in the schedule of the level that failed, from 0 on.
        reason: class and message of the error.
    """

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
    """Coarsen every graph of a block, level by level.

    The hierarchy of a graph depends only on the graph, the schedule and the seed. It does not depend on the position of
    the graph in the block or on the other graphs.

    Args:
        block: the input graphs, with the attributes that methods need (:attr:`Schedule.needs
            <tgp.engine.schedule.Schedule>`).
        schedule: a schedule, or any value that :func:`~tgp.engine.parse_schedule` reads.
        seed: a number in ``[0, 2**63)``.
        weight_dtype: type to which coarse weights are rounded (they are kept as float64), so that the next level reads
            the same weights as from a store.
        first_level: number of the first level, if the block is itself a level of a longer schedule.

    Returns:
        The hierarchy, with the levels that :meth:`Schedule.keep <tgp.engine.schedule.Schedule.keep>` chose.

    Raises:
        GraphError: if a graph cannot be coarsened. Use :func:`coarsen_with_failures` to continue with the others.

    Examples:
        >>> from tgp.testing.graphs import path
        >>> [level.block.num_nodes for level in coarsen(path(8), "graclus:order=index*2").levels]
        [4, 2]
    """
    plan = parse_schedule(schedule)
    _check_seed(seed)
    check_needs(block, plan.needs)
    if plan.open_ended:
        plan = plan.close(count_levels(block, plan, seed, weight_dtype=weight_dtype))
    steps: list[Step] = []
    current = block
    for spec, length in plan.runs():
        key = RandomKey(seed, first_level + len(steps))
        steps += _run_levels(current, spec, length, key, weight_dtype)
        current = steps[-1][1]
    return _make_hierarchy(block, plan, steps, weight_dtype)


def coarsen_with_failures(
    block: BlockCSR,
    schedule: ScheduleLike,
    seed: int = 0,
    *,
    weight_dtype: npt.DTypeLike = np.float32,
    first_level: int = 0,
) -> tuple[Hierarchy, list[GraphFailure]]:
    """Coarsen every graph of a block and record the graphs that fail instead of raising an error.

    From the level on where it fails, a graph has no supernodes and no edges, and all of its nodes are dropped.

    Args:
        block: the input graphs, with the attributes that methods need (:attr:`Schedule.needs
            <tgp.engine.schedule.Schedule>`).
        schedule: a schedule, or any value that :func:`~tgp.engine.parse_schedule` reads.
        seed: a number in ``[0, 2**63)``.
        weight_dtype: type to which coarse weights are rounded, see :func:`coarsen`.
        first_level: number of the first level, see :func:`coarsen`. Failures count from the first level of the longer schedule.

    Returns:
        The hierarchy, and the failures in the order of the graphs.
    """
    plan = parse_schedule(schedule)
    _check_seed(seed)
    check_needs(block, plan.needs)
    if plan.open_ended:
        plan = plan.close(count_levels(block, plan, seed, weight_dtype=weight_dtype))
    steps: list[Step] = []
    failures: list[GraphFailure] = []
    current = block
    for spec, length in independent_runs(plan):
        failed = np.array([failure.graph for failure in failures], np.int64)
        key = RandomKey(seed, first_level + len(steps))
        run = _run_levels_safely(current, spec, length, key, weight_dtype, 0, failures)
        steps += [remove_graphs(step, failed) for step in run] if failed.size else run
        current = steps[-1][1]
    failures.sort(key=lambda failure: failure.graph)
    return _make_hierarchy(block, plan, steps, weight_dtype), failures


def count_levels(
    block: BlockCSR, schedule: Schedule, seed: int = 0, *, weight_dtype: npt.DTypeLike = np.float32
) -> int:
    """Return how often the last level of an open-ended schedule is repeated for the graphs of a block.

    A graph is finished if it has at most ``until`` nodes, if it failed, or at its first level that keeps more than
    :data:`~tgp.engine.schedule.STALL` of its nodes. That level is not counted. The number of a dataset is the largest number of
    its graphs, so it does not depend on how the graphs are divided into blocks.

    Args:
        block: the input graphs.
        schedule: an open-ended schedule.
        seed: a number in ``[0, 2**63)``.
        weight_dtype: type to which coarse weights are rounded, see :func:`coarsen`.

    Returns:
        A number of at least 1, and at most the number of levels that the schedule may still have.
    """
    plan, ignored = schedule.close(MAX_LEVELS), list[GraphFailure]()
    check_needs(block, plan.needs)
    first = len(schedule) - 1
    level = 0
    current = block
    for spec, length in independent_runs(plan):
        if level >= first:
            active = np.flatnonzero(np.diff(current.node_ptr) > (spec.until or 0))
            if not active.size:
                break
            current = current if active.size == current.num_graphs else current.take(active)
        key = RandomKey(seed, level)
        coarse = _run_levels_safely(current, spec, length, key, weight_dtype, 0, ignored)[-1][1]
        if level >= first:
            before, after = np.diff(current.node_ptr), np.diff(coarse.node_ptr)
            shrinks = np.flatnonzero(after <= STALL * before)
            if not shrinks.size:
                break
            coarse = coarse if shrinks.size == coarse.num_graphs else coarse.take(shrinks)
        current = coarse
        level += length
    return max(level - first, 1)


def assign_level(block: BlockCSR, spec: LevelSpec, key: RandomKey) -> Assignment:
    """Return the assignment of one level.

    Args:
        block: the graphs.
        spec: method and parameters.
        key: key of the random numbers.
    """
    return spec.level_method.assign(block, spec.params, key)


def connect_level(
    block: BlockCSR, assignment: Assignment, spec: LevelSpec, weight_dtype: npt.DTypeLike = np.float32
) -> BlockCSR:
    """Return the coarse graphs of one level, with the attributes of the graphs.

    Args:
        block: the graphs.
        assignment: the assignment of their nodes.
        spec: method and parameters.
        weight_dtype: type to which coarse weights are rounded.

    Raises:
        GraphError: if a coarse weight is not a finite number of that type.
    """
    coarse = pool_attributes(block, assignment, spec.level_method.connect(block, assignment, spec.params))
    if coarse.weight is None:
        return coarse
    with np.errstate(over="ignore"):
        weight = coarse.weight.astype(weight_dtype).astype(np.float64)
    finite = np.isfinite(weight)
    if not finite.all():
        entry = int(np.argmin(finite))
        graph = find_run(coarse.edge_ptr, entry)
        raise GraphError(
            f"{spec.method}: a coarse weight is out of range: expected a finite {np.dtype(weight_dtype).name} number, "
            f"got {coarse.weight[entry]}",
            graph=graph,
            hint="scale the edge weights of this graph down",
        )
    if type(coarse) is BlockCSR:  # ``replace`` takes five times as long
        return BlockCSR(coarse.indptr, coarse.indices, weight, coarse.node_ptr, coarse.attributes)
    return replace(coarse, weight=weight)


def _check_seed(seed: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise InputError(
            f"seed is out of range: expected a whole number in [0, 2**63), got {seed!r}", field="seed"
        )


def _run_levels(
    block: BlockCSR, spec: LevelSpec, length: int, key: RandomKey, weight_dtype: npt.DTypeLike
) -> list[Step]:
    """Return ``length`` equal levels. They are computed together if the method builds trees, or if they are nested."""
    steps: list[Step] = []
    if spec.until is not None:
        for level in range(key.level, key.level + length):
            steps.append(_run_limited_level(block, spec, RandomKey(key.seed, level), weight_dtype))
            block = steps[-1][1]
        return steps
    is_joint = length > 1 or spec.num_nested
    joint_levels = spec.level_method.joint_levels(spec.params) if is_joint else None
    if joint_levels is not None:
        for assignment in joint_levels(block, spec.params, key, length):
            block = connect_level(block, assignment, spec, weight_dtype)
            steps.append((assignment, block))
        assert len(steps) == length, f"{spec.method} returned {len(steps)} of {length} levels"
        return steps
    for level in range(key.level, key.level + length):
        assignment = assign_level(block, spec, RandomKey(key.seed, level))
        block = connect_level(block, assignment, spec, weight_dtype)
        steps.append((assignment, block))
    return steps


def _run_limited_level(block: BlockCSR, spec: LevelSpec, key: RandomKey, weight_dtype: npt.DTypeLike) -> Step:
    """Return a level with a size limit: graphs of at most ``until`` nodes stay as they are."""
    sizes = np.diff(block.node_ptr)
    done = sizes <= (spec.until or 0)
    if not done.any():
        assignment = assign_level(block, spec, key)
        return assignment, connect_level(block, assignment, spec, weight_dtype)
    some = block.take(np.flatnonzero(~done))
    if some.num_graphs:
        assignment = assign_level(some, spec, key)
        coarse = connect_level(some, assignment, spec, weight_dtype)
    else:
        assignment, coarse = _assign_empty(spec), some
    if assignment.kind != "hard":
        raise InputError(
            f"{spec.method} cannot have a size limit: expected a hard assignment, got {assignment.kind}",
            field="until",
        )
    return join_unchanged(block, done, assignment, coarse)


def _run_levels_safely(
    block: BlockCSR,
    spec: LevelSpec,
    length: int,
    key: RandomKey,
    weight_dtype: npt.DTypeLike,
    first: int,
    failures: list[GraphFailure],
) -> list[Step]:
    """Run the levels and record graphs that fail. ``first`` is the index of the block's first graph.

    If the block fails, its halves are run separately, until each failing graph is in a block of its own.
    """
    try:
        return _run_levels(block, spec, length, key, weight_dtype)
    except _GRAPH_ERRORS as error:
        if block.num_graphs < 2:
            # The message without the index of the graph, which is 0 in a block of one graph.
            reason = error.reason if isinstance(error, GraphError) else error
            failures.append(GraphFailure(first, key.level, f"{type(error).__name__}: {reason}".rstrip(": ")))
            return _empty_levels(block, spec, length)
    middle = block.num_graphs // 2
    halves = [
        _run_levels_safely(block.take(range(lo, hi)), spec, length, key, weight_dtype, first + lo, failures)
        for lo, hi in ((0, middle), (middle, block.num_graphs))
    ]
    return [
        (Assignment.concat([left[0], right[0]]), BlockCSR.concat([left[1], right[1]]))
        for left, right in zip(*halves, strict=True)
    ]


def independent_runs(plan: Schedule) -> Iterator[tuple[LevelSpec, int]]:
    """Yield single levels, and as a whole the runs that form one tree. A graph can fail at each of them.

    Args:
        plan: Schedule.
    """
    for spec, length in plan.runs():
        if spec.level_method.joint_levels(spec.params) is None:
            yield from [(spec, 1)] * length
        else:
            yield spec, length


def _empty_levels(block: BlockCSR, spec: LevelSpec, length: int) -> list[Step]:
    """Return the levels of a failed graph: every node is dropped, and there are no supernodes.

    The assignments have the kind and the arrays of the method, so that they can be joined with those of other graphs.
    """
    empty = BlockCSR.concat([])
    model = _assign_empty(spec)
    no_nodes = BlockCSR(empty.indptr, empty.indices, None, np.zeros(2, np.int64))
    steps = []
    for nodes in [block.num_nodes] + [0] * (length - 1):
        assignment = Assignment(
            model.kind,
            np.zeros(2, np.int64),
            None if model.cluster is None else np.full(nodes, -1, np.int32),
            soft=None if model.soft is None else np.zeros((nodes, model.soft.shape[1]), np.float32),
            theta=None if model.theta is None else np.zeros((nodes, model.theta.shape[1]), np.float32),
            representative=None if model.representative is None else np.zeros(0, np.int32),
        )
        steps.append((assignment, no_nodes))
    return steps


def _assign_empty(spec: LevelSpec) -> Assignment:
    """Return the assignment of no graphs, with the arrays that the method makes."""
    try:
        return assign_level(BlockCSR.concat([]), spec, RandomKey())
    except _GRAPH_ERRORS:
        return Assignment("hard", np.zeros(1, np.int64), np.zeros(0, np.int32))


def _make_hierarchy(
    block: BlockCSR, plan: Schedule, steps: Sequence[Step], weight_dtype: npt.DTypeLike
) -> Hierarchy:
    """Return the hierarchy of all steps, composed to the levels that the schedule keeps."""
    node_ptr = block.node_ptr
    levels: list[Level] = []
    if plan.steps is None:
        for spec, (assignment, coarse) in zip(plan.levels, steps, strict=True):
            levels.append(Level(spec.method, node_ptr, assignment, coarse, weight_dtype))
            node_ptr = coarse.node_ptr
        return Hierarchy(block.node_ptr, tuple(levels))
    start = 0
    for length in plan.steps:
        methods = [spec.method for spec in plan.levels[start : start + length]]
        assignment, coarse = steps[start + length - 1]
        if length > 1:
            parts = [part for part, _ in steps[start : start + length]]
            # ``Schedule.keep`` has checked methods that declare a dense assignment. Others may have one, too.
            check_composable(methods, [part.kind != "hard" for part in parts], start)
            assignment = reduce(compose, parts)
        levels.append(Level("+".join(methods), node_ptr, assignment, coarse, weight_dtype))
        node_ptr = coarse.node_ptr
        start += length
    return Hierarchy(block.node_ptr, tuple(levels))
