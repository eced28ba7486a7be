"""Coarsen a dataset into a store: prepare the run, run its jobs, publish the store, summarize."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np

from tgp.build.cluster import LostFilesError
from tgp.build.compilation import CompilationDisplay
from tgp.build.config import CoarsenConfig
from tgp.build.estimates import (
    estimate_bytes,
    estimate_costs,
    estimate_limits,
    find_early,
    local_methods,
    number_of_workers,
)
from tgp.build.executors import JobQueue, Pool, open_executor, wrap_executor
from tgp.build.external import coarsen_external
from tgp.build.external_plan import plan_external
from tgp.build.findings import find_problems, warn_about
from tgp.build.jobs import figure_kernels, run_job, warm_up
from tgp.build.mismatch import check_foreign_parts, check_same_store, explain_mismatch
from tgp.build.prepare import RunContext, make_header, prepare_run, thread_work, worker_jobs
from tgp.build.progress import Meter, Step, ignore_step, order_tasks, tasks_of_job
from tgp.build.summary import RunPlan, Summary, describe_manifest
from tgp.build.units import VISIBLE_TIMEOUT, JobReport, run_unit
from tgp.build.workers import choose_threads
from tgp.errors import InputError, StoreError, StoreMismatchError
from tgp.sources.tables import slice_table
from tgp.store import (
    MemoryFiles,
    MemoryWriter,
    PartWriter,
    StoreReader,
    StoreWriter,
    Task,
)
from tgp.store.format import constants as store_format

__all__ = ["coarsen_dataset", "coarsen_in_memory", "plan_run"]

Progress = Callable[[Step], None]
"""Callback that receives the progress of a run."""


def coarsen_dataset(
    config: CoarsenConfig, *, progress: Progress = ignore_step, executor: Executor | None = None
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
        ClusterError: If a cluster failed, or if its workers have another engine or see another directory.
        LostFilesError: If files that workers reported as written are not in the store.
    """
    if config.memory is not None:
        return coarsen_external(config, progress=progress, executor=executor)
    progress(Step("opening the dataset"))
    context = prepare_run(config, progress=progress)
    writer = _open_writer(context)
    if config.retry_failed:
        writer.discard_failed()
    if writer.is_complete:
        return _summarize(context, writer, "up to date")
    tasks = tasks_of_job(writer.pending(), config.shard)
    warn_about(find_early(context, len(tasks)))
    try:
        if executor is not None:
            return _run(context, writer, tasks, wrap_executor(executor), progress)
        count = number_of_workers(context, tasks)
        with open_executor(config.scheduler, count, choose_threads(config.threads, count)) as pool:
            return _run(context, writer, tasks, pool, progress)
    except BaseException:
        with contextlib.suppress(StoreError, OSError):
            writer.files.remove_stale()  # temporary files of workers that were terminated
        raise


def coarsen_in_memory(
    config: CoarsenConfig, *, progress: Progress = ignore_step
) -> tuple[Summary, MemoryFiles]:
    """Compute the hierarchies of a configuration in this process, and keep the store in memory.

    The files have the same bytes as those that :func:`coarsen_dataset` writes.

    Args:
        config: Settings of the run. ``out`` and settings of worker processes are not used.
        progress: Function that is called with a :class:`~tgp.build.progress.Step` at each stage and after each job.

    Returns:
        Totals of the store and of the run, and the files of the store.

    Raises:
        DatasetError: If the dataset cannot be opened.
    """
    progress(Step("opening the dataset"))
    context = prepare_run(config, in_memory=True, progress=progress)
    writer = MemoryWriter(context.spec)
    with open_executor(None, 1) as pool:
        return _run(context, writer, writer.pending(), pool, progress), writer.files


def _open_writer(context: RunContext) -> StoreWriter:
    config = context.config
    try:
        return StoreWriter.open(config.path, context.spec, force=config.force)
    except StoreMismatchError as error:
        is_part = config.shard is not None
        raise explain_mismatch(error, context.spec, context.source.table, array_job=is_part) from None


def plan_run(config: CoarsenConfig) -> RunPlan:
    """Return what :func:`coarsen_dataset` would do, without writing anything.

    Args:
        config: Settings of the run.

    Raises:
        StoreMismatchError: If the store was built from other data or settings.
        DatasetError: If the dataset cannot be opened.
    """
    if config.memory is not None:
        return plan_external(config)
    context = prepare_run(config)
    table, spec = context.source.table, context.spec
    if context.stored is not None:
        check_same_store(context.stored, spec, str(config.path), table)
    writer = StoreWriter(config.path, spec)
    up_to_date = context.stored is not None and writer.is_complete
    tasks = writer.tasks()
    if context.stored is not None:
        tasks = [] if up_to_date else writer.pending()
    workers = number_of_workers(context, tasks)
    seconds, memory, certain = estimate_limits(context, tasks, workers)
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
        estimated_seconds=seconds,
        estimated_bytes=estimate_bytes(context.plan, spec.profile),
        peak_memory=memory,
        profile=spec.profile,
        up_to_date=up_to_date,
        findings=find_early(context, len(tasks)),
        at_most=certain,
        carry=[step.to_json() for step in context.steps],
    )


def _run(
    context: RunContext, writer: PartWriter, tasks: Sequence[Task], pool: Pool, progress: Progress
) -> Summary:
    """Run the tasks in a pool and publish the store if it is complete."""
    compile_seconds = 0.0
    if any(task.part != store_format.GRAPHS for task in tasks):
        compile_seconds = _start_workers(context, pool, progress)
    started = time.perf_counter()
    reports = _run_tasks(context, writer, tasks, pool, progress)
    missing = _check_written(writer, tasks, reports, pool, progress)
    if missing and isinstance(writer, StoreWriter):
        check_foreign_parts(writer)
    if not missing:
        writer.publish()
    seconds = time.perf_counter() - started
    num_graphs, bounds = sum(report.num_graphs for report in reports), context.spec.bounds
    edge_ptr = context.source.table.fields["edge_index"].ptr
    num_edges = sum(int(edge_ptr[bounds[r.unit + 1]] - edge_ptr[bounds[r.unit]]) for r in reports)
    return replace(
        _summarize(context, writer, "incomplete" if missing else "complete"),
        units_done=len(tasks),
        units_missing=len(missing),
        workers=pool.processes,
        seconds=seconds,
        compile_seconds=compile_seconds,
        graphs_per_second=num_graphs / seconds if num_graphs else None,
        edges_per_second=num_edges / seconds if num_edges else None,
    )


def _start_workers(context: RunContext, pool: Pool, progress: Progress) -> float:
    """Check the workers, let each load its kernels, and return the seconds that the first worker spent compiling."""
    schedules = context.schedules.values()
    names = local_methods(schedules) if pool.kind != "threads" else []
    if names:
        raise InputError(
            f"workers cannot import the method {names[0]!r}, because it is defined in the running script or in a function",
            field="poolers",
            hint="move it to a module that the workers can import, or run without a scheduler or executor",
        )
    checked = 0
    if pool.cluster is not None:
        progress(Step(f"checking the workers of {pool.cluster.address}"))
        checked = pool.cluster.check_workers(context.config.path.resolve())
    stage = Step("loading kernels" if pool.processes == 1 else f"starting {pool.processes} workers")
    progress(stage)
    header = make_header(context, schedules, pool)
    show_compilation = CompilationDisplay(pool.compilation, progress)
    show_waiting = functools.partial(_show_waiting, progress, stage)
    with JobQueue(pool, warm_up, show_waiting, show_compilation) as queue:
        # All calls are submitted at once, because a pool starts a process for each call that finds no idle worker.
        for _ in range(pool.processes):
            queue.submit(header | figure_kernels(context.source.table))
        seconds = next(queue.drain())
    if pool.cluster is not None and not checked:  # there were no workers before
        pool.cluster.check_workers(context.config.path.resolve())
    return seconds


def _show_waiting(progress: Progress, step: Step, text: str, seconds: float) -> None:
    """Show what a run is waiting for."""
    progress(replace(step, stage=text, waited=seconds))


def _run_tasks(
    context: RunContext, writer: PartWriter, tasks: Sequence[Task], pool: Pool, progress: Progress
) -> list[JobReport]:
    """Write the graphs of each unit in this thread while the pool computes and writes the hierarchies."""
    costs = estimate_costs(context, tasks)
    meter = Meter(context.spec, tasks, costs, np.diff(context.source.table.fields["edge_index"].ptr))
    reports: list[JobReport] = []

    def record(values: dict[str, Any]) -> None:
        report = JobReport(**values)
        reports.append(report)
        meter.finished(Task(report.unit, report.name), report.bytes)
        show()

    def show() -> None:
        progress(meter.step())

    def show_waiting(text: str, seconds: float) -> None:
        _show_waiting(progress, meter.step(), text, seconds)

    show()
    table, bounds, local = context.source.table, writer.spec.bounds, pool.kind == "threads"
    written = [] if local else writer.records()[store_format.GRAPHS]
    digests = {record.unit: record.shard.sha256 for record in written if record is not None}
    make = thread_work(context, writer) if local else worker_jobs(context, writer, pool, digests)
    with JobQueue[Any, dict[str, Any]](pool, run_unit if local else run_job, show_waiting, show) as queue:
        for task in order_tasks(tasks, costs):
            if task.part == store_format.GRAPHS:
                graphs = slice_table(table, bounds[task.unit], bounds[task.unit + 1])
                shard = writer.write_graphs(task.unit, graphs).shard
                digests[task.unit] = shard.sha256
                meter.finished(task, shard.size)
                continue
            for report in queue.submit(make(task)):
                record(report)
        for report in queue.drain():
            record(report)
    return reports


def _check_written(
    writer: PartWriter, tasks: Sequence[Task], reports: Sequence[JobReport], pool: Pool, progress: Progress
) -> list[Task]:
    """Compare the files that workers reported with those in the store, and return the files that are missing.

    Raises:
        LostFilesError: If a file that was reported as written is missing or has another content.
    """
    digests = {Task(report.unit, report.name): report.sha256 for report in reports}
    started = time.monotonic()
    while True:
        records = writer.records()
        missing = writer.pending(records)
        found = [(task, records[task.part][task.unit]) for task in tasks]
        lost = [t for t, r in found if r is None or digests.get(t) not in (None, r.shard.sha256)]
        waited = time.monotonic() - started
        if not lost:
            return missing
        if pool.kind != "remote" or waited > VISIBLE_TIMEOUT:
            break
        progress(Step("waiting for files of workers", waited=waited))  # a network file system shows them late
        time.sleep(min(1.0, VISIBLE_TIMEOUT))
    shown = ", ".join(f"{task.part} of unit {task.unit}" for task in lost[:5])
    raise LostFilesError(
        f"{len(lost):,} of {len(tasks):,} files were reported as written, but are not in {writer.files.location}: "
        f"{shown}{', ...' if len(lost) > 5 else ''}",
        hint="the workers write to another directory of the same name, or another process deletes or replaces files; "
        "run the same command again when this is fixed: it writes the missing files",
    )


def _summarize(context: RunContext, writer: PartWriter, status: str) -> Summary:
    """Summarize the store. An incomplete store has no manifest."""
    summary = Summary(
        writer.files.location,
        status,
        context.spec.num_graphs,
        context.spec.num_units,
        open_seconds=context.open_seconds,
    )
    if status == "incomplete":
        return summary
    reader = StoreReader(writer.files)
    hierarchies, size = describe_manifest(reader.manifest)
    names = list(context.schedules)
    failures = [(name, failure) for name in sorted(names) for failure in reader.failures(name)]
    return replace(
        summary,
        hierarchies=hierarchies,
        bytes=size,
        failures=failures,
        names=names,
        findings=find_problems(reader, names),
    )
