"""Coarsen a dataset into a store: open, plan, run units, publish, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, replace

import numpy as np

from tgp.build.executor import run_units
from tgp.engine.methods import METHODS
from tgp.engine.unit_plan import COST_PER_SECOND, Plan, plan_units
from tgp.engine.schedule import Schedule, parse_schedule
from tgp.errors import InputError
from tgp.build.breakeven import BATCH_SIZE, measure_epoch
from tgp.build.config import DEFAULT_SHARD_SIZE, CoarsenConfig, hierarchy_name
from tgp.build.cores import choose_workers
from tgp.build.estimate import attribute_bytes, peak_memory, stored_bytes
from tgp.build.executors import Pool, given_executor, open_executor
from tgp.build.jobs import HierarchyJob, JobReport, run_job, topology, warm_up
from tgp.engine.level_selection import select_levels
from tgp.build.progress import Meter, Step
from tgp.build.summary import BreakEven, RunPlan, Summary, describe_manifest
from tgp.sources.source import Source, open_source, slice_table
from tgp.registry import Entry
from tgp.store import HierarchySpec, StoreSpec, StoreWriter, Task, data_digest, read_spec
from tgp.store.format import constants as store_format

__all__ = ["coarsen_dataset", "plan_run"]

Progress = Callable[[Step], None]
"""Told how far a run is."""


def _ignore(step: Step) -> None:
    pass


@dataclass(frozen=True, eq=False)
class RunContext:
    """Everything that is known before anything is written."""

    config: CoarsenConfig
    source: Source
    schedules: tuple[Schedule, ...]
    plan: Plan
    spec: StoreSpec
    open_seconds: float


def coarsen_dataset(
    config: CoarsenConfig,
    *,
    progress: Progress = _ignore,
    executor: Executor | None = None,
    measure: bool = True,
) -> Summary:
    """Compute the hierarchies of a configuration and store them.

    Whatever a store already holds is kept: a complete store is left alone, an interrupted one is continued,
    new hierarchies are added. Any executor, order or number of interruptions ends in the same bytes.

    Args:
        config: what to do.
        progress: told about stages.
        executor: any ``concurrent.futures.Executor`` whose workers see the same files; made from the
            configuration if absent.
        measure: whether to measure when the run will have paid back.

    Raises:
        StoreMismatchError: the store was made from something else.
        DatasetError: the dataset cannot be opened.
    """
    progress(Step("opening the dataset"))
    prepared = _prepare(config)
    writer = StoreWriter.open(config.path, prepared.spec, force=config.force)
    if config.retry_failed:
        _forget_failures(writer)
    if writer.is_complete:
        return _summary(prepared, writer, "up to date")
    tasks = _my_tasks(writer.pending(), config.shard)
    if executor is not None:
        return _run(prepared, writer, tasks, given_executor(executor), progress, measure)
    with open_executor(config.scheduler, _workers(prepared, tasks)) as pool:
        return _run(prepared, writer, tasks, pool, progress, measure)


def plan_run(config: CoarsenConfig) -> RunPlan:
    """What :func:`coarsen_dataset` would do; writes nothing."""
    prepared = _prepare(config)
    table, spec = prepared.source.table, prepared.spec
    writer = StoreWriter(config.path, spec)
    stored = read_spec(config.path)
    done = stored is not None and writer.is_complete and not config.force
    todo = [] if done else _all_tasks(writer) if stored is None or config.force else writer.pending()
    workers = _workers(prepared, todo)
    return RunPlan(
        path=str(config.path),
        dataset=prepared.source.description,
        num_graphs=table.num_graphs,
        num_nodes=table.num_nodes,
        num_edges=int(table.fields["edge_index"].ptr[-1]),
        hierarchies=[{"name": h.name, "levels": len(h.schedule), "seed": h.seed} for h in spec.hierarchies],
        num_units=spec.num_units,
        pending=len(todo),
        workers=workers,
        estimated_seconds=sum(_costs(prepared, todo)) / COST_PER_SECOND,
        estimated_bytes=stored_bytes(prepared.plan, spec.profile),
        peak_memory=peak_memory(prepared.plan, workers),
        profile=spec.profile,
        up_to_date=done,
    )


def _prepare(config: CoarsenConfig) -> RunContext:
    started = time.perf_counter()
    schedules = tuple(parse_schedule(text) for text in config.poolers)
    hierarchies = _hierarchies(config, schedules)
    source = open_source(
        config.dataset,
        config.root,
        limit=config.limit,
        exclude=config.exclude,
        undirected=config.undirected,
        largest_component=config.largest_component,
        add_degree=config.add_degree,
    )
    digest = data_digest(source.table)
    stored = None if config.force else read_spec(config.path)
    plan = _plan(config, source, schedules)
    bounds, profile = plan.bounds, config.profile or "fast"
    if stored is not None and stored.data_digest == digest:
        # New hierarchies follow the cut and the profile of the store, unless something else is asked for.
        if config.shard_size in (None, stored.dataset.get("shard_size")):
            bounds = stored.bounds
        profile = config.profile or stored.profile
    description = {**source.description, "shard_size": config.shard_size or DEFAULT_SHARD_SIZE}
    spec = StoreSpec(description, digest, source.table.num_graphs, bounds, profile, hierarchies)
    return RunContext(config, source, schedules, plan, spec, time.perf_counter() - started)


def _hierarchies(config: CoarsenConfig, schedules: Sequence[Schedule]) -> tuple[HierarchySpec, ...]:
    names = config.names or tuple(hierarchy_name(s, config.kept_positions) for s in schedules)
    if len({n.lower() for n in names}) != len(names):
        raise InputError(
            f"hierarchies need different names, got {', '.join(names)}",
            field="names",
            hint="the same schedule was given twice, or --name is needed to tell them apart",
        )
    folded = [select_levels(schedule, config.kept_positions) for schedule in schedules]
    return tuple(HierarchySpec(n, s, config.seed) for n, s in zip(names, folded, strict=True))


def _plan(config: CoarsenConfig, source: Source, schedules: Sequence[Schedule]) -> Plan:
    table = source.table
    return plan_units(
        np.diff(table.node_ptr),
        np.diff(table.fields["edge_index"].ptr),
        schedules,
        shard_size=config.shard_size or DEFAULT_SHARD_SIZE,
        extra_bytes=attribute_bytes(table),
        weighted="edge_weight" in table.fields,
        metrics=config.metrics,
    )


def _methods(prepared: RunContext) -> tuple[Entry, ...]:
    names = sorted({spec.method for schedule in prepared.schedules for spec in schedule})
    return tuple(METHODS.entry(name) for name in names)


def _costs(prepared: RunContext, tasks: list[Task]) -> list[float]:
    """Estimated work of each task: hierarchies of a unit share its estimate, its graphs take none."""
    plan, spec = prepared.plan, prepared.spec
    if plan.bounds == spec.bounds:
        units = [cost / len(spec.hierarchies) for cost in plan.unit_cost]
    else:  # the store was cut by other hierarchies
        graphs = np.diff(spec.bounds) / spec.num_graphs / len(spec.hierarchies)
        units = [float(cost) for cost in graphs * sum(plan.unit_cost)]
    return [0.0 if task.part == store_format.GRAPHS else units[task.unit] for task in tasks]


def _workers(prepared: RunContext, tasks: list[Task]) -> int:
    """Return the number of worker processes: as many as requested, else as many as the work is worth."""
    targets = [entry.target for entry in _methods(prepared)]
    if any(target.startswith("__main__:") or "<locals>" in target for target in targets):
        return 1  # a method of the running script or of a function: no other process can import it
    if prepared.config.workers is not None or prepared.config.scheduler is not None:
        return prepared.config.workers or 1
    work = [cost for cost in _costs(prepared, tasks) if cost]
    return choose_workers(len(work), sum(work) / COST_PER_SECOND)


def _all_tasks(writer: StoreWriter) -> list[Task]:
    return [Task(unit, part) for unit in range(writer.spec.num_units) for part in writer.parts]


def _my_tasks(tasks: list[Task], shard: tuple[int, int] | None) -> list[Task]:
    if shard is None:
        return tasks
    job, jobs = shard
    return [task for task in tasks if task.unit % jobs == job]


def _forget_failures(writer: StoreWriter) -> None:
    """Make the units of failed graphs pending again; the store is incomplete until they are done."""
    units = [
        (unit, entry.name)
        for entry in writer.spec.hierarchies
        for unit in range(writer.spec.num_units)
        if (record := writer.record(unit, entry.name)) is not None and record.shard.failures
    ]
    if units:
        writer.files.remove(store_format.MANIFEST)
        for unit, name in units:
            writer.files.remove(f"{store_format.RECORDS}/{store_format.record_file(unit, name)}")


def _run(
    prepared: RunContext,
    writer: StoreWriter,
    tasks: list[Task],
    pool: Pool,
    progress: Progress,
    measure: bool,
) -> Summary:
    compiled = _warm_up(prepared, tasks, pool, progress)
    started = time.perf_counter()
    reports = []
    meter = Meter(prepared.spec, tasks, _costs(prepared, tasks))
    progress(meter.step())
    jobs = _jobs(prepared, writer, meter)
    for job, report in run_units(run_job, jobs, pool.executor, in_flight=pool.in_flight):
        reports.append(report)
        meter.finished(Task(job.unit, job.name), report.bytes)
        progress(meter.step())
    missing = writer.pending()
    if not missing:
        writer.publish()
    seconds = time.perf_counter() - started
    summary = _summary(prepared, writer, "incomplete" if missing else "complete")
    graphs = sum(r.num_graphs for r in reports)
    summary = replace(
        summary,
        units_done=len(tasks),
        units_missing=len(missing),
        workers=pool.processes,
        seconds=seconds,
        compile_seconds=compiled,
        graphs_per_second=graphs / seconds if graphs else None,
    )
    if measure and reports and not missing:
        progress(Step("measuring the break-even"))
        summary = replace(summary, break_even=_break_even(prepared, reports, pool.executor, seconds))
    return summary


def _warm_up(prepared: RunContext, tasks: list[Task], pool: Pool, progress: Progress) -> float:
    """Start the workers and let each load what it needs; the seconds until the first is ready."""
    if all(task.part == store_format.GRAPHS for task in tasks):
        return 0.0
    progress(Step("preparing kernels (compiled on first use, then cached)"))
    schedules = [h.schedule for h in prepared.spec.hierarchies]
    arguments = (schedules, prepared.config.metrics, _methods(prepared))
    # All at once: a pool starts a process per call that finds none idle.
    calls = [pool.executor.submit(warm_up, *arguments) for _ in range(pool.processes)]
    return next(as_completed(calls)).result()


def _jobs(prepared: RunContext, writer: StoreWriter, meter: Meter) -> Iterator[HierarchyJob]:
    """Jobs of the hierarchies, heaviest first; the graphs of a unit are written here, while workers compute."""
    table, bounds = prepared.source.table, writer.spec.bounds
    # Workers may have another working directory.
    elsewhere = StoreWriter(prepared.config.path.resolve(), writer.spec)
    methods = _methods(prepared)
    for task in meter.order():
        low, high = bounds[task.unit], bounds[task.unit + 1]
        if task.part == store_format.GRAPHS:
            record = writer.write_graphs(task.unit, slice_table(table, low, high))
            meter.finished(task, record.shard.size)
        else:
            graphs = topology(table, low, high)
            yield HierarchyJob(elsewhere, task.unit, task.part, graphs, prepared.config.metrics, methods)


def _break_even(
    prepared: RunContext, reports: list[JobReport], executor: Executor, seconds: float
) -> BreakEven:
    names = sorted({r.name for r in reports})
    engine = sum(r.engine_seconds for r in reports)
    graphs = sum(r.num_graphs for r in reports)
    path = str(prepared.config.path.resolve())
    # Where one batch takes long, the run itself was measurement enough.
    slow = engine / graphs * min(BATCH_SIZE, prepared.spec.num_graphs) > 1.0
    # A hundredth of the run per measurement: to know when it pays should cost little beside it.
    budget = min(0.25, max(0.02, seconds / 100))
    sample = executor.submit(measure_epoch, path, names, engine if slow else None, budget).result()
    return BreakEven(spent=seconds, **sample)


def _summary(prepared: RunContext, writer: StoreWriter, status: str) -> Summary:
    from tgp.store.format.manifest import read_manifest
    from tgp.store.read.reader import StoreReader

    spec = writer.spec
    base = Summary(str(prepared.config.path), status, spec.num_graphs, spec.num_units)
    base = replace(base, open_seconds=prepared.open_seconds)
    if status == "incomplete":
        return base
    hierarchies, size = describe_manifest(read_manifest(writer.files))
    asked = {h.name for h in spec.hierarchies}
    failures = []
    if any(h.failures for h in hierarchies if h.name in asked):
        reader = StoreReader(prepared.config.path)
        failures = [(name, f) for name in sorted(asked) for f in reader.failures(name)]
    return replace(base, hierarchies=hierarchies, bytes=size, failures=failures)
