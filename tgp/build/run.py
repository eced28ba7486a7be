"""Coarsen a dataset into a store: prepare the run, run its jobs, publish the store, summarize."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import replace

from tgp.build.config import CoarsenConfig
from tgp.build.executors import JobQueue, Pool, open_executor, wrap_executor
from tgp.build.jobs import HierarchyJob, JobReport, run_job, topology, warm_up
from tgp.build.prepare import (
    RunContext,
    estimate_bytes,
    estimate_costs,
    estimate_peak_memory,
    number_of_workers,
    prepare_run,
)
from tgp.build.progress import Meter, Step, order_tasks
from tgp.build.summary import RunPlan, Summary, describe_manifest
from tgp.engine.unit_plan import COST_PER_SECOND
from tgp.sources.tables import slice_table
from tgp.store import Manifest, StoreReader, StoreWriter, Task
from tgp.store.format import constants as store_format

__all__ = ["coarsen_dataset", "plan_run"]

Progress = Callable[[Step], None]
"""Callback that receives the progress of a run."""


def _ignore(step: Step) -> None:
    pass


def coarsen_dataset(
    config: CoarsenConfig, *, progress: Progress = _ignore, executor: Executor | None = None
) -> Summary:
    """Compute the hierarchies of a configuration and store them.

    The files of an existing store are kept: a complete store is not changed, an interrupted one is continued, and new
    hierarchies are added. The bytes of the store do not depend on the executor, on the order of the jobs, or on
    interruptions.

    Args:
        config: Settings of the run.
        progress: Function that is called with a :class:`~tgp.build.progress.Step` at each stage and after each job.
        executor: Any ``concurrent.futures.Executor`` whose workers see the same files. By default it is opened
            according to the configuration.

    Returns:
        Totals of the store and of the run.

    Raises:
        StoreMismatchError: If the store was built from other data or settings.
        DatasetError: If the dataset cannot be opened.
    """
    progress(Step("opening the dataset"))
    context = prepare_run(config)
    writer = StoreWriter.open(config.path, context.spec, force=config.force)
    if config.retry_failed:
        _discard_failed_units(writer)
    if writer.is_complete:
        return _summarize(context, "up to date", writer.read_manifest())
    tasks = _tasks_of_job(writer.pending(), config.shard)
    if executor is not None:
        return _run(context, writer, tasks, wrap_executor(executor), progress)
    with open_executor(config.scheduler, number_of_workers(context, tasks)) as pool:
        return _run(context, writer, tasks, pool, progress)


def plan_run(config: CoarsenConfig) -> RunPlan:
    """Return what :func:`coarsen_dataset` would do, without writing anything.

    Args:
        config: Settings of the run.

    Raises:
        DatasetError: If the dataset cannot be opened.
    """
    context = prepare_run(config)
    table, spec = context.source.table, context.spec
    writer = StoreWriter(config.path, spec)
    up_to_date = context.stored is not None and writer.is_complete
    tasks = [Task(unit, part) for unit in range(spec.num_units) for part in writer.parts]
    if context.stored is not None:
        tasks = [] if up_to_date else writer.pending()
    workers = number_of_workers(context, tasks)
    return RunPlan(
        path=str(config.path),
        dataset=context.source.description,
        num_graphs=table.num_graphs,
        num_nodes=table.num_nodes,
        num_edges=int(table.fields["edge_index"].ptr[-1]),
        hierarchies=[{"name": h.name, "levels": len(h.schedule), "seed": h.seed} for h in spec.hierarchies],
        num_units=spec.num_units,
        pending=len(tasks),
        workers=workers,
        estimated_seconds=sum(estimate_costs(context, tasks)) / COST_PER_SECOND,
        estimated_bytes=estimate_bytes(context.plan, spec.profile),
        peak_memory=estimate_peak_memory(context.plan, workers),
        profile=spec.profile,
        up_to_date=up_to_date,
    )


def _tasks_of_job(tasks: list[Task], shard: tuple[int, int] | None) -> list[Task]:
    """Return the tasks of job ``i`` of ``n`` (``--shard i/n``), or all tasks."""
    if shard is None:
        return tasks
    job, jobs = shard
    return [task for task in tasks if task.unit % jobs == job]


def _discard_failed_units(writer: StoreWriter) -> None:
    """Delete the completion records of units with failed graphs, so that this run computes them again."""
    units = [
        (unit, part)
        for part, records in writer.records().items()
        for unit, record in enumerate(records)
        if record is not None and record.shard.failures
    ]
    if units:
        writer.files.remove(store_format.MANIFEST)
        for unit, name in units:
            writer.files.remove(f"{store_format.RECORDS}/{store_format.record_file(unit, name)}")


def _run(
    context: RunContext, writer: StoreWriter, tasks: Sequence[Task], pool: Pool, progress: Progress
) -> Summary:
    """Run the tasks in a pool and publish the store if it is complete."""
    compile_seconds = _warm_up(context, tasks, pool, progress)
    started = time.perf_counter()
    reports = _run_tasks(context, writer, tasks, pool, progress)
    missing = writer.pending()
    manifest = None if missing else writer.publish()
    seconds = time.perf_counter() - started
    num_graphs = sum(report.num_graphs for report in reports)
    return replace(
        _summarize(context, "incomplete" if missing else "complete", manifest),
        units_done=len(tasks),
        units_missing=len(missing),
        workers=pool.processes,
        seconds=seconds,
        compile_seconds=compile_seconds,
        graphs_per_second=num_graphs / seconds if num_graphs else None,
    )


def _warm_up(context: RunContext, tasks: Sequence[Task], pool: Pool, progress: Progress) -> float:
    """Start the workers, let each load its kernels, and return the seconds until the first worker is ready."""
    if all(task.part == store_format.GRAPHS for task in tasks):
        return 0.0
    progress(Step("preparing kernels (compiled on first use, then cached)"))
    arguments = (list(context.schedules.values()), context.config.metrics)
    # All calls are submitted at once, because a pool starts a process for each call that finds no idle worker.
    calls = [pool.executor.submit(warm_up, *arguments) for _ in range(pool.processes)]
    return next(as_completed(calls)).result()


def _run_tasks(
    context: RunContext, writer: StoreWriter, tasks: Sequence[Task], pool: Pool, progress: Progress
) -> list[JobReport]:
    """Write the graphs of each unit in this thread while the pool computes and writes the hierarchies."""
    costs = estimate_costs(context, tasks)
    meter = Meter(context.spec, tasks, costs)
    reports: list[JobReport] = []

    def record(report: JobReport) -> None:
        reports.append(report)
        meter.finished(Task(report.unit, report.name), report.bytes)
        progress(meter.step())

    progress(meter.step())
    # Workers may have another working directory.
    worker_writer = StoreWriter(context.config.path.resolve(), writer.spec)
    with JobQueue(pool, run_job) as queue:
        for task in order_tasks(tasks, costs):
            if task.part == store_format.GRAPHS:
                meter.finished(task, _write_graphs(context, writer, task.unit))
                continue
            for report in queue.submit(_make_job(context, worker_writer, task)):
                record(report)
        for report in queue.drain():
            record(report)
    return reports


def _write_graphs(context: RunContext, writer: StoreWriter, unit: int) -> int:
    """Write the graphs of a unit and return the size of the file in bytes."""
    low, high = writer.spec.bounds[unit], writer.spec.bounds[unit + 1]
    return writer.write_graphs(unit, slice_table(context.source.table, low, high)).shard.size


def _make_job(context: RunContext, writer: StoreWriter, task: Task) -> HierarchyJob:
    return HierarchyJob(
        writer,
        task.unit,
        task.part,
        context.schedules[task.part],
        topology(context.source.table, writer.spec.bounds[task.unit], writer.spec.bounds[task.unit + 1]),
        context.config.metrics,
    )


def _summarize(context: RunContext, status: str, manifest: Manifest | None) -> Summary:
    """Summarize the store. An incomplete store has no manifest."""
    summary = Summary(
        str(context.config.path),
        status,
        context.spec.num_graphs,
        context.spec.num_units,
        open_seconds=context.open_seconds,
    )
    if manifest is None:
        return summary
    hierarchies, size = describe_manifest(manifest)
    names = sorted(context.schedules)
    failures = []
    if any(h.failures for h in hierarchies if h.name in names):
        reader = StoreReader(context.config.path)
        failures = [(name, failure) for name in names for failure in reader.failures(name)]
    return replace(summary, hierarchies=hierarchies, bytes=size, failures=failures)
