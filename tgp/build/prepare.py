"""Prepare a run: open the dataset, check the settings, divide the graphs into units, and make their jobs. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tgp.build.config import CoarsenConfig
from tgp.build.estimates import attribute_bytes
from tgp.build.executors import Pool
from tgp.build.external_plan import check_fits
from tgp.build.jobs import job_header, make_job, spec_text
from tgp.build.progress import Step, ignore_step
from tgp.build.units import UnitWork, needed_fields, topology
from tgp.build.workers import choose_threads
from tgp.engine.carry import CarryRules, CarryStep, resolve
from tgp.engine.schedule import Schedule
from tgp.engine.typed_levels import check_methods
from tgp.engine.typed_table import resolve_types, typed_attributes
from tgp.engine.unit_plan import DEFAULT_SHARD_SIZE, UnitPlan, plan_units
from tgp.errors import InputError
from tgp.ragged import GraphTable
from tgp.ragged.types import Relation, TypeTable, parse_relations
from tgp.sources.source import Source, open_source
from tgp.sources.tables import slice_table, weight_type
from tgp.store import HierarchySpec, PartWriter, StoreSpec, StoreWriter, Task, data_digest, read_spec

__all__ = ["RunContext", "make_header", "prepare_run", "thread_work", "worker_jobs"]

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
    config: CoarsenConfig, *, in_memory: bool = False, progress: Callable[[Step], None] = ignore_step
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
    relations, type_graph = _typed_settings(config, types, open_schedules)
    steps = resolve(rules, source.table) if types is None else resolve_types(rules, source.table, types)
    _check_inputs(source.table, open_schedules)  # before anything is written
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
    """Return the schedule with its number of levels, which is read from a store of the same graphs or counted."""
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
    return job_header(
        schedules,
        metrics=config.metrics,
        remote=remote,
        steps=context.steps,
        threads=threads,
        per_machine=pool.per_machine(),
    )


def thread_work(context: RunContext, writer: PartWriter) -> Callable[[Task], UnitWork]:
    """Return a function that makes the work of a thread of this process, the argument of :func:`~tgp.build.units.run_unit`.

    Args:
        context: Prepared run.
        writer: Writer of the store.
    """
    config, bounds = context.config, writer.spec.bounds
    needs = [name for schedule in context.schedules.values() for name in schedule.needs]
    names = needed_fields(context.steps, context.spec.types, needs)
    threads = choose_threads(config.threads, 1)

    def make(task: Task) -> UnitWork:
        unit, schedule = task.unit, context.schedules[task.part]
        graphs = topology(context.source.table, bounds[unit], bounds[unit + 1], names)
        return UnitWork(unit, task.part, graphs, writer, schedule, context.steps, config.metrics, threads)

    return make


def worker_jobs(
    context: RunContext, writer: PartWriter, pool: Pool, digests: Mapping[int, str]
) -> Callable[[Task], dict[str, Any]]:
    """Return a function that makes the job of another process, the argument of :func:`~tgp.build.jobs.run_job`.

    Args:
        context: Prepared run.
        writer: Writer of the store.
        pool: Pool that runs the jobs.
        digests: SHA-256 of the shard file with the graphs of each unit, as far as they are written.
    """
    spec = spec_text(writer.spec)
    worker_writer = StoreWriter(
        context.config.path.resolve(), writer.spec
    )  # workers may have another directory
    headers = {name: make_header(context, [s], pool) for name, s in context.schedules.items()}

    def make(task: Task) -> dict[str, Any]:
        return make_job(headers[task.part], worker_writer, spec, task.unit, task.part, digests[task.unit])

    return make


def _typed_settings(
    config: CoarsenConfig, types: TypeTable | None, schedules: Sequence[Schedule]
) -> tuple[tuple[Relation, ...] | None, str | None]:
    """Return the relations on which supernodes depend and the edges that methods see; ``None`` for one type of nodes.

    Args:
        config: Settings of the run.
        types: Types and relations of the graphs, or ``None``.
        schedules: Schedules of the run.

    Raises:
        InputError: If a setting does not fit to the graphs.
        UnknownNameError: If a relation does not exist.
    """
    if types is None:
        for name in ("relations", "type_graph"):
            if getattr(config, name):
                raise InputError(
                    f"{name} has no effect: expected heterogeneous graphs (HeteroData), got graphs with one type of nodes",
                    field=name,
                    hint=f"leave it out, or give graphs of type HeteroData to use {name}",
                )
        return None, None
    for schedule in schedules:
        check_methods(schedule)
        if schedule.open_ended:
            raise InputError(
                f"{schedule} has no number of levels: expected one for heterogeneous graphs",
                field="poolers",
                hint=f"write {str(schedule).rstrip('*')}*3 for three levels",
            )
    if config.only_levels is not None:
        raise InputError(
            "only_levels is not possible for heterogeneous graphs: expected all levels to be stored",
            field="only_levels",
            hint="read some of them with PooledDataset(..., levels=[2])",
        )
    return parse_relations(config.relations or None, types.relations), config.type_graph or "auto"


def _check_inputs(table: GraphTable, schedules: Iterable[Schedule]) -> None:
    """Check that graphs have the attributes of nodes that methods need.

    Args:
        table: All graphs.
        schedules: Schedules of the run.

    Raises:
        InputError: If an attribute is missing or not valid.
    """
    for schedule in schedules:
        if table.types is None:
            table.node_attributes(schedule.needs)
        else:
            typed_attributes(table, table.types, schedule.needs)
