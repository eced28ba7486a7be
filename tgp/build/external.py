"""Coarsen one graph that is larger than memory: from a file of edges to a store, in a given amount of memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.build.compilation import external_kernels_of
from tgp.build.config import CoarsenConfig
from tgp.build.external_input import InputGraph, convert_edges, file_changed
from tgp.build.external_plan import (
    BASE_BYTES,
    check_config,
    check_disk,
    check_store,
    choose_limits,
    make_spec,
)
from tgp.build.external_ranges import open_ranges, open_workers
from tgp.build.progress import Step
from tgp.build.scratch import open_scratch, scratch_folder
from tgp.build.summary import Summary, describe_manifest
from tgp.build.workers import choose_threads
from tgp.engine.external.buckets import Limits
from tgp.engine.external.journal import Journal
from tgp.engine.external.levels import ExternalLevel, coarsen_level
from tgp.engine.external.ranges import RangeMap
from tgp.engine.external.row_files import RowFiles
from tgp.engine.schedule import Schedule
from tgp.engine.threads import limit_threads
from tgp.kernels.array_types import Array
from tgp.sources.edge_reader import EdgeReader
from tgp.store import Manifest, StoreSpec, StoreWriter
from tgp.store.format import constants as store_format
from tgp.store.write.streamed import (
    StreamedGraph,
    StreamedLevel,
    streamed_digest,
    write_streamed_graph,
    write_streamed_levels,
)

__all__ = ["coarsen_external"]

Progress = Callable[[Step], None]


def coarsen_external(
    config: CoarsenConfig, *, progress: Progress, executor: Executor | None = None
) -> Summary:
    """Compute the hierarchy of a file of edges and store it. The memory of each process is bounded by ``config.memory``.

    The bytes of the store are those of a run in memory of the same graph without quality figures. An interrupted run is continued by
    the same call.

    Args:
        config: Settings of the run.
        progress: Function that is called with a :class:`~tgp.build.progress.Step` at each stage.
        executor: Executor whose workers see the same files. They compute ranges of rows.

    Returns:
        Totals of the store and of the run.

    Raises:
        InputError: If a setting is not supported, or the memory is too small.
        DatasetError: If the file cannot be read.
        StoreFullError: If the disk is full. The same call continues when there is space.
        StoreMismatchError: If the store was built from other data or settings.
        ClusterError: If a cluster failed, or if its workers have another engine or see other files.
    """
    started = time.perf_counter()
    schedule, reader, memory = check_config(config)
    check_store(config, schedule, reader)
    folder = scratch_folder(config.path).absolute()  # workers may have another working directory
    if not folder.exists():
        check_disk(config, schedule, reader)
    key = _run_key(config, schedule, reader)
    with (
        limit_threads(choose_threads(config.threads, 1)),
        open_workers(config.scheduler, executor) as pool,
        open_scratch(folder, key) as journal,
    ):
        ranges = open_ranges(pool, journal.folder, config.threads, progress)
        compile_seconds = _load_kernels(schedule, progress)
        journal.on_progress = _StageDisplay(progress, f"{reader.path.name}:")
        was_converted = journal.find("input:merge") is not None
        graph = convert_edges(
            journal,
            reader,
            lambda nodes: choose_limits(memory, nodes),
            max(memory - BASE_BYTES, 0) // 4,
            ranges,
        )
        if not was_converted:
            _check_unchanged(config, schedule, reader, key)
        limits = choose_limits(memory, graph.rows.num_nodes)
        run = _Run(config, schedule, journal, graph, limits, progress, ranges)
        spec = make_spec(config, schedule, reader, run.find_digest())
        opened = time.perf_counter()
        manifest, written = run.write(spec)
    hierarchies, size = describe_manifest(manifest)
    seconds = time.perf_counter() - opened
    return Summary(
        str(config.path),
        "complete" if written else "up to date",
        1,
        1,
        units_done=written,
        seconds=seconds,
        open_seconds=opened - started,
        compile_seconds=compile_seconds,
        edges_per_second=graph.rows.num_entries / seconds if written else None,
        bytes=size,
        hierarchies=hierarchies,
        names=[spec.hierarchies[0].name],
    )


def _load_kernels(schedule: Schedule, progress: Progress) -> float:
    """Compile the missing kernels in this process and return the seconds that it took."""
    from tgp.kernels.ahead import compile_ahead, find_missing

    started = time.perf_counter()
    missing = find_missing(external_kernels_of(schedule))
    for number, name in enumerate(missing):
        seconds = time.perf_counter() - started
        progress(Step("compiling", number + 1, len(missing), "kernel", elapsed=seconds))
        compile_ahead([name])
    return time.perf_counter() - started if missing else 0.0


class _StageDisplay:
    """Display of the progress of a stage: the work, its edges, and the remaining time of this work.

    Args:
        progress: Function that is called with a step.
        stage: Description of the stage.
    """

    def __init__(self, progress: Progress, stage: str) -> None:
        self._progress, self._stage = progress, stage
        self._action: str | None = None
        self._started, self._first, self._last = 0.0, 0, 0

    def __call__(self, action: str, done: int, total: int) -> None:
        now = time.perf_counter()
        if action != self._action or done < self._last:
            self._action, self._started, self._first = action, now, done
        self._last = done
        elapsed, new = now - self._started, done - self._first
        remaining = elapsed * (total - done) / new if new else None
        step = Step(
            f"{self._stage} {action}".rstrip(), done, total, "edge", share=done / total if total else 0.0
        )
        self._progress(replace(step, elapsed=elapsed, remaining=remaining))


class _Run:
    """Levels and files of one run, see :func:`coarsen_external`."""

    def __init__(
        self,
        config: CoarsenConfig,
        schedule: Schedule,
        journal: Journal,
        graph: InputGraph,
        limits: Limits,
        progress: Progress,
        ranges: RangeMap,
    ) -> None:
        self.config, self.schedule, self.journal = config, schedule, journal
        self.graph, self.limits, self.progress, self.ranges = graph, limits, progress, ranges
        self.streamed = _stream_input(graph, limits.piece, journal)

    def _show(self, stage: str) -> None:
        """Begin a stage."""
        self.journal.on_progress = _StageDisplay(self.progress, stage)
        self.progress(Step(stage.rstrip(":")))

    def find_digest(self) -> str:
        """Return the digest of the input graph."""
        self._show("computing the digest:")
        if self.journal.find("digest") is None:
            self.journal.record("digest", streamed_digest(self.streamed))
        return str(self.journal.find("digest"))

    def write(self, spec: StoreSpec) -> tuple[Manifest, int]:
        """Write the missing files of the store; return its manifest and their number."""
        force = self.config.force and self.journal.find("store") is None
        writer = StoreWriter.open(self.config.path, spec, force=force)
        self.journal.record("store", True)
        if writer.is_complete:
            return writer.publish(), 0
        name = spec.hierarchies[0].name
        pending = {task.part for task in writer.pending()}
        if store_format.GRAPHS in pending:
            self._show("writing the graph:")
            write_streamed_graph(writer, self.streamed)
        if name in pending:
            levels = self._compute_levels()
            self._show("writing the levels:")
            write_streamed_levels(writer, name, levels)
        return writer.publish(), len(pending)

    def _compute_levels(self) -> list[StreamedLevel]:
        rows, dtype, limits = self.graph.rows, self.graph.weight_dtype or "float32", self.limits
        levels = []
        for number, spec in enumerate(self.schedule):
            self._show(f"level {number + 1} of {len(self.schedule)}:")
            level = coarsen_level(
                self.journal, rows, number, spec, self.config.seed, dtype, limits, self.ranges
            )
            levels.append(_stream_level(spec.method, level, dtype, limits.piece, self.journal))
            rows = level.rows
        return levels


def _run_key(config: CoarsenConfig, schedule: Schedule, reader: EdgeReader) -> str:
    """Return a text that differs if the files in the scratch folder cannot be used."""
    status = [(path.resolve(), path.stat()) for path in reader.files]
    files = [[str(path), found.st_size, found.st_mtime_ns] for path, found in status]
    return json.dumps([4, files, schedule.to_json(), schedule.revision, config.seed, config.memory])


def _check_unchanged(config: CoarsenConfig, schedule: Schedule, reader: EdgeReader, key: str) -> None:
    """Check that the file of edges is still the one with which the run has started."""
    try:
        is_same = _run_key(config, schedule, reader) == key
    except OSError:
        is_same = False
    if not is_same:
        raise file_changed(reader)


def _stream_input(graph: InputGraph, piece: int, journal: Journal) -> StreamedGraph:
    nodes = None
    if graph.node_ids is not None:
        path = graph.node_ids
        nodes = {"node_id": ("int64", lambda: _read_file(path, np.int64, graph.rows.num_nodes, piece))}
    return _stream_rows(graph.rows, graph.weight_dtype, piece, journal, nodes)


def _stream_level(
    method: str, level: ExternalLevel, dtype: str, piece: int, journal: Journal
) -> StreamedLevel:
    graph = _stream_rows(level.rows, dtype if level.rows.weighted else None, piece, journal)
    fine, coarse = level.num_fine_nodes, level.rows.num_nodes
    weight, chosen = level.weight, level.representative
    return StreamedLevel(
        method,
        graph,
        fine,
        lambda: _read_file(level.cluster, np.int32, fine, piece),
        None if weight is None else lambda: _read_file(weight, np.float32, fine, piece),
        None if chosen is None else lambda: _read_file(chosen, np.int32, coarse, piece),
    )


def _stream_rows(
    rows: RowFiles, weight_dtype: str | None, piece: int, journal: Journal, nodes: Any = None
) -> StreamedGraph:
    return StreamedGraph(
        rows.num_nodes,
        rows.num_entries,
        _find_max_id(rows, piece),
        lambda: _read_edges(rows, piece, journal),
        weight_dtype,
        nodes,
    )


def _find_max_id(rows: RowFiles, piece: int) -> int:
    highest = 0
    with rows.open() as mapped:
        for _, low, high in mapped.entry_ranges(piece):
            highest = max(highest, int(mapped.indices[low:high].max()))
    return highest


def _read_edges(rows: RowFiles, piece: int, journal: Journal) -> Iterator[tuple[Array, Array, Array | None]]:
    """Yield sources, targets and weights of the entries."""
    from tgp.kernels import external_rows as kernels

    with rows.open() as mapped:
        for first, low, high in mapped.entry_ranges(piece):
            sources = np.empty(high - low, np.int32)
            kernels.fill_row_ids(mapped.indptr, first, low, high, sources)
            yield sources, mapped.indices[low:high], mapped.weight[low:high] if rows.weighted else None
            journal.report("", high, rows.num_entries)


def _read_file(path: Path, dtype: npt.DTypeLike, length: int, piece: int) -> Iterator[Array]:
    size = np.dtype(dtype).itemsize
    for low in range(0, length, piece):
        yield np.fromfile(path, dtype, min(piece, length - low), offset=low * size)
