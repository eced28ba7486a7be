"""Prepare a run: open the dataset, cut it into units, and estimate time, size and memory. Nothing is written."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.build.config import CoarsenConfig
from tgp.build.executors import Pool
from tgp.build.external_plan import check_fits
from tgp.build.jobs import job_header
from tgp.build.progress import Step
from tgp.build.typed_settings import typed_settings
from tgp.build.unit_levels import check_inputs, needed_fields
from tgp.build.workers import choose_threads, choose_workers
from tgp.engine.carry import CarryRules, CarryStep, resolve
from tgp.engine.level_method import GraphSizes
from tgp.engine.methods import METHODS
from tgp.engine.schedule import Schedule
from tgp.engine.typed_table import resolve_types
from tgp.engine.unit_plan import COST_PER_SECOND, DEFAULT_SHARD_SIZE, UnitPlan, bound_work, plan_units
from tgp.errors import InputError
from tgp.ragged import GraphTable
from tgp.sources.source import Source, open_source
from tgp.sources.tables import slice_table, weight_type
from tgp.store import HierarchySpec, StoreSpec, Task, data_digest, read_spec
from tgp.store.format import constants as store_format

__all__ = [
    "RunContext",
    "estimate_bytes",
    "estimate_costs",
    "estimate_limits",
    "local_methods",
    "make_header",
    "number_of_workers",
    "prepare_run",
]

COMPRESSED_SHARE = 1 / 3
"""Size of arrays in the small profile, relative to the fast profile. This is the share of small graphs. Large graphs
need half of it, and features that are mostly zeros need far less."""

KERNEL_BYTES = 110 * 10**6
"""Memory of numba and the compiled kernels."""

WORKER_BYTES = 170 * 10**6
"""Memory of a worker process before its first unit."""

COUNTED_AT_ONCE = 2 * 10**6
"""Number of nodes and edges that are coarsened at once to count the levels of an open-ended schedule."""


@dataclass(frozen=True, eq=False)
class RunContext:
    """Everything that is known before a run writes its first file.

    Args:
        config: Settings of the run.
        source: Graphs to coarsen.
        schedules: Name of each hierarchy -> schedule, with the levels that are stored.
        plan: Units of this run and their estimated costs.
        spec: Specification of the store. Its units are those of an existing store, if there is one.
        stored: Specification of an existing store; ``None`` if there is no store, or if it will be rebuilt.
        open_seconds: Time to open the dataset and to compute its digest.
        steps: Attributes of the levels.
    """

    config: CoarsenConfig
    source: Source
    schedules: dict[str, Schedule]
    plan: UnitPlan
    spec: StoreSpec
    stored: StoreSpec | None
    open_seconds: float
    steps: tuple[CarryStep, ...] = ()


def prepare_run(
    config: CoarsenConfig, *, in_memory: bool = False, progress: Callable[[Step], None] = lambda step: None
) -> RunContext:
    """Open the dataset of a configuration and plan the run.

    The graphs are coarsened once if a schedule is open-ended (``graclus*``), to find its number of levels.

    Args:
        config: Settings of the run.
        in_memory: True if the store is kept in memory. There is no earlier store then.
        progress: Function that is called while levels are counted.

    Raises:
        DatasetError: If the dataset cannot be opened.
        InputError: If two hierarchies have the same name, a level to store does not exist, an attribute cannot be carried, or
            an attribute that a method needs is missing or not valid.
        UnknownNameError: If an attribute to carry does not exist.
    """
    started = time.perf_counter()
    open_schedules = config.schedules
    names = _check_names(config)
    if not any(schedule.open_ended for schedule in open_schedules):
        _keep_levels(config, open_schedules)  # report wrong levels before the dataset is read
    check_fits(config)
    source = open_source(
        config.dataset,
        config.root,
        limit=config.limit,
        exclude=config.exclude,
        undirected=config.undirected,
        largest_component=config.largest_component,
        add_degree=config.add_degree,
        max_input=config.max_input,
    )
    types, rules = source.table.types, CarryRules.parse(config.carry)
    relations, type_graph = typed_settings(config, types, open_schedules)
    steps = resolve(rules, source.table) if types is None else resolve_types(rules, source.table, types)
    check_inputs(source.table, open_schedules)  # before anything is written
    digest = data_digest(source.table)
    stored = None if config.force or in_memory else read_spec(config.path)
    same = stored if stored and stored.data_digest == digest else None
    full_schedules = tuple(
        _close(schedule, name, config, source.table, same, progress)
        for name, schedule in zip(names, open_schedules, strict=True)
    )
    schedules = dict(zip(names, _keep_levels(config, full_schedules), strict=True))
    plan = _plan_units(config, source.table, full_schedules)
    bounds, profile, shard_edges = plan.bounds, config.profile or "fast", config.shard_edges
    if stored is not None and stored.data_digest == digest:
        # New hierarchies use the units and the profile of the store, unless the configuration asks for others.
        if config.shard_size in (None, stored.dataset.get("shard_size")):
            bounds = stored.bounds
        profile, shard_edges = config.profile or stored.profile, config.shard_edges or stored.shard_edges
    description = {**source.description, "shard_size": config.shard_size or DEFAULT_SHARD_SIZE}
    added: dict[str, Any] = {
        "metrics": config.metrics,
        "carry": config.carry,
        "relations": relations,
        "type_graph": type_graph,
    }
    hierarchies = tuple(
        HierarchySpec(name, s.to_json(), config.seed, s.revision, **added) for name, s in schedules.items()
    )
    return RunContext(
        config,
        source,
        schedules,
        plan,
        StoreSpec(
            description, digest, source.table.num_graphs, bounds, profile, hierarchies, types, shard_edges
        ),
        stored,
        time.perf_counter() - started,
        steps,
    )


def _check_names(config: CoarsenConfig) -> tuple[str, ...]:
    """Return the names of the hierarchies, after checking that they differ."""
    names = config.hierarchy_names
    if len({n.lower() for n in names}) != len(names):
        raise InputError(
            f"hierarchies need different names, got {', '.join(names)}",
            field="names",
            hint="the same schedule was given twice: write the levels of one hierarchy as one text (graclus,graclus), or "
            "give names (--name)",
        )
    return names


def _keep_levels(config: CoarsenConfig, schedules: Sequence[Schedule]) -> list[Schedule]:
    """Return the schedules with the levels that the configuration stores."""
    kept = config.kept_positions
    return [schedule if kept is None else schedule.keep(kept) for schedule in schedules]


def _close(
    schedule: Schedule,
    name: str,
    config: CoarsenConfig,
    table: GraphTable,
    stored: StoreSpec | None,
    progress: Callable[[Step], None],
) -> Schedule:
    """Return the schedule with its number of levels. A store of the same graphs has it, else the levels are counted."""
    if not schedule.open_ended:
        return schedule
    for entry in stored.hierarchies if stored is not None else ():
        times = len(entry.schedule) - len(schedule) + 1
        if entry.name != name or entry.seed != config.seed or times < 1:
            continue
        known = schedule.close(times)
        if known.to_json() == list(entry.schedule) and known.revision == entry.engine:
            return known
    return schedule.close(_count_levels(schedule, config.seed, table, progress))


def _count_levels(schedule: Schedule, seed: int, table: GraphTable, progress: Callable[[Step], None]) -> int:
    """Return the number of repetitions that the graphs need. They are coarsened in parts, and nothing is kept."""
    from tgp.engine.coarsening import count_levels

    work = np.cumsum(np.diff(table.node_ptr) + np.diff(table.fields["edge_index"].ptr))
    starts = np.flatnonzero(np.diff(work // COUNTED_AT_ONCE)) + 1
    times = 1
    for low, high in pairwise([0, *starts.tolist(), table.num_graphs]):
        progress(Step(f"counting the levels of {schedule}", low, table.num_graphs))
        graphs = slice_table(table, low, high, ("edge_index", "edge_weight", *schedule.needs))
        found = count_levels(
            graphs.to_block(schedule.needs), schedule, seed, weight_dtype=weight_type(graphs)
        )
        times = max(times, found)
    return times


def _plan_units(config: CoarsenConfig, table: GraphTable, schedules: Sequence[Schedule]) -> UnitPlan:
    return plan_units(
        np.diff(table.node_ptr),
        np.diff(table.fields["edge_index"].ptr),
        schedules,
        shard_size=config.shard_size or DEFAULT_SHARD_SIZE,
        extra_bytes=attribute_bytes(table),
        weighted="edge_weight" in table.fields,
        metrics=config.metrics,
    )


def number_of_workers(context: RunContext, tasks: Sequence[Task]) -> int:
    """Return the number of worker processes: as many as requested, else as many as the work justifies.

    Args:
        context: Prepared run.
        tasks: Files to write.

    Returns:
        1 if the work should run in the current process.
    """
    if local_methods(context.schedules.values()):
        return 1
    if context.config.workers is not None or context.config.scheduler is not None:
        return context.config.workers or 1
    costs = [cost for cost in estimate_costs(context, tasks) if cost]
    return choose_workers(len(costs), sum(costs) / COST_PER_SECOND)


def make_header(context: RunContext, schedules: Iterable[Schedule], pool: Pool) -> dict[str, Any]:
    """Return the values that all jobs of some schedules share.

    Args:
        context: Prepared run.
        schedules: Schedules of the jobs.
        pool: Pool that runs them. The environment of remote workers limits their threads, unless the user asks for a number.
    """
    config, threads = context.config, context.config.threads
    if pool.kind != "remote":
        threads = choose_threads(threads, pool.processes)
    remote = pool.kind != "threads"
    return job_header(schedules, metrics=config.metrics, remote=remote, steps=context.steps, threads=threads)


def local_methods(schedules: Iterable[Schedule]) -> list[str]:
    """Return the methods of the running script or of a function, which no other process can import.

    Args:
        schedules: Schedules of the run.
    """
    names = sorted({level.method for schedule in schedules for level in schedule})
    targets = {name: METHODS.entry(name).target for name in names}
    return [
        name for name, target in targets.items() if target.startswith("__main__:") or "<locals>" in target
    ]


def estimate_costs(context: RunContext, tasks: Sequence[Task]) -> list[float]:
    """Return the estimated cost of each task, in nodes and edges touched.

    The cost of a unit is split evenly over its hierarchies. Copying the input graphs costs 0.

    Args:
        context: Prepared run.
        tasks: Files to write.
    """
    plan, spec = context.plan, context.spec
    if plan.bounds == spec.bounds:
        units = [cost / len(spec.hierarchies) for cost in plan.unit_cost]
    else:  # the units of the store were planned for other hierarchies
        shares = np.diff(spec.bounds) / spec.num_graphs / len(spec.hierarchies)
        units = [float(cost) for cost in shares * sum(plan.unit_cost)]
    return [0.0 if task.part == store_format.GRAPHS else units[task.unit] for task in tasks]


def attribute_bytes(table: GraphTable) -> npt.NDArray[np.int64]:
    """Return the stored size in bytes of the attributes of each graph, without its edges.

    Args:
        table: All graphs. Integers are counted with the narrow type that the store gives them.
    """
    total = np.zeros(table.num_graphs, np.int64)
    for name, entry in table.fields.items():
        if name == "edge_index":
            continue
        rows = max(entry.values.shape[entry.axis], 1)
        total += _stored_itemsize(entry.values) * (entry.values.size // rows) * np.diff(entry.ptr)
        if not _shares_offsets(entry.ptr, table):
            total += 4
    return total


def _shares_offsets(ptr: npt.NDArray[np.int64], table: GraphTable) -> bool:
    """Return True if the offsets are those of nodes, graphs or edges, which the store keeps only once."""
    shared = (table.node_ptr, np.arange(table.num_graphs + 1), table.fields["edge_index"].ptr)
    return any(np.array_equal(ptr, other) for other in shared)


def _stored_itemsize(values: npt.NDArray[np.generic]) -> int:
    if values.dtype.kind not in "iu" or not values.size:
        return values.dtype.itemsize
    low, high = int(values.min()), int(values.max())
    return np.min_scalar_type(high if low >= 0 else min(low, -high - 1)).itemsize


def estimate_bytes(plan: UnitPlan, profile: str) -> int:
    """Return the estimated size of the finished store in bytes.

    Args:
        plan: Units of the run.
        profile: ``"fast"`` or ``"small"``.
    """
    if profile == "fast":
        return plan.total_bytes
    return int(plan.total_bytes - sum(plan.unit_bytes) * (1 - COMPRESSED_SHARE))


def estimate_limits(context: RunContext, tasks: Sequence[Task], workers: int) -> tuple[float, int, bool]:
    """Return the largest processor seconds and memory of a run, and True if both are certain.

    The dataset is already open, so the memory of this process is measured and not estimated.

    Args:
        context: Prepared run.
        tasks: Files to write.
        workers: Number of worker processes; 1 if the run stays in this process.
    """
    spec = context.spec
    bound = bound_work(_measure_graphs(context.source.table), list(context.schedules.values()))
    held = bound.memory + attribute_bytes(context.source.table) + _carried_bytes(context)
    ends = np.concatenate([[[0.0, 0.0]], np.cumsum([bound.seconds, held], axis=1).T])
    seconds, memory = np.diff(ends[list(spec.bounds)], axis=0).T
    pending = [task.unit for task in tasks if task.part != store_format.GRAPHS]
    parallel = 2 if workers == 1 else workers
    overhead = KERNEL_BYTES if workers == 1 else workers * WORKER_BYTES
    peak = _peak_resident_bytes() + overhead + np.sort(memory)[::-1][:parallel].sum()
    # The graph on which methods run for several types of nodes can have more edges than the input.
    certain = bound.certain and spec.types is None
    return float(seconds[pending].sum()) / max(len(spec.hierarchies), 1), int(peak), certain


def _carried_bytes(context: RunContext) -> npt.NDArray[np.int64]:
    """Return the largest size in bytes of the attributes of all levels of each graph, and of what computes them."""
    table = context.source.table
    total = np.zeros(table.num_graphs, np.int64)
    depth = max((len(schedule) for schedule in context.schedules.values()), default=0)
    needs = [name for schedule in context.schedules.values() for name in schedule.needs]
    for name in needed_fields(context.steps, table.types, needs):
        if name not in table.fields:  # weights of a relation that has none
            continue
        entry = table.fields[name]
        row = entry.values.size // max(entry.values.shape[entry.axis], 1)
        total += 24 * row * np.diff(entry.ptr)  # `stats` makes three numbers of 8 bytes
    return (1 + depth) * total


def _measure_graphs(table: GraphTable) -> GraphSizes:
    """Return the sizes of the graphs of a table."""
    edges = table.fields["edge_index"]
    weights = table.fields.get("edge_weight")
    counts = np.diff(edges.ptr)
    source = edges.values[0] + np.repeat(table.node_ptr[:-1], counts)
    degree = np.zeros(table.num_graphs, np.int64)
    filled = np.flatnonzero(np.diff(table.node_ptr))
    if len(filled):
        of_node = np.bincount(source, minlength=table.num_nodes)
        degree[filled] = np.maximum.reduceat(of_node, table.node_ptr[filled])
    signed = weights is not None and weights.values.dtype.kind in "if" and bool((weights.values < 0).any())
    return GraphSizes(np.diff(table.node_ptr), counts, degree, signed)


def _peak_resident_bytes() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
