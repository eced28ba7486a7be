"""The work of a worker: coarsen one unit under one schedule and write the hierarchy to a shard file."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tgp.engine.coarsening import coarsen_with_failures
from tgp.engine.schedule import Schedule
from tgp.ragged import BlockCSR, GraphTable
from tgp.sources.tables import slice_table, weight_type
from tgp.store import FailureRecord, StoreWriter
from tgp.store.write.shard import load_kernels

__all__ = ["HierarchyJob", "JobReport", "run_job", "topology", "warm_up"]

_ENGINE_LOCK = threading.Lock()
"""Lock around the engine. Two threads (of a Dask worker, for example) must not enter numba's thread pool at once."""


@dataclass(frozen=True, eq=False)
class HierarchyJob:
    """One hierarchy of one unit.

    Args:
        writer: Writer of the store.
        unit: Number of the unit.
        name: Name of the hierarchy.
        schedule: Level methods to run, and the levels to store.
        graphs: Graphs of the unit with ``edge_index`` and ``edge_weight`` only. The parent process keeps the other
            attributes and writes them itself.
        metrics: True to compute quality figures.
    """

    writer: StoreWriter
    unit: int
    name: str
    schedule: Schedule
    graphs: GraphTable
    metrics: bool = True


@dataclass(frozen=True)
class JobReport:
    """Result of a job.

    Args:
        unit: Number of the unit.
        name: Name of the hierarchy.
        num_graphs: Number of graphs in the unit.
        bytes: Size of the shard file.
    """

    unit: int
    name: str
    num_graphs: int
    bytes: int


def topology(table: GraphTable, low: int, high: int) -> GraphTable:
    """Return the arrays of graphs ``low:high`` that coarsening needs: edges with 32-bit ids, and weights.

    Args:
        table: All graphs.
        low: First graph.
        high: End of the range.
    """
    part = slice_table(table, low, high, ("edge_index", "edge_weight"))
    fields = dict(part.fields)
    if "edge_index" in fields:
        edges = fields["edge_index"]
        fields["edge_index"] = dataclasses.replace(edges, values=edges.values.astype(np.int32))
    return GraphTable(part.node_ptr, fields)


def run_job(job: HierarchyJob) -> JobReport:
    """Coarsen the graphs of a job, compute quality figures, and write the shard file.

    Args:
        job: Work to do.
    """
    seed = job.writer.spec.hierarchy(job.name).seed
    block, dtype = job.graphs.to_block(), weight_type(job.graphs)
    with _ENGINE_LOCK:
        hierarchy, failed = coarsen_with_failures(block, job.schedule, seed, weight_dtype=dtype)
        metrics = None
        if job.metrics:
            from tgp.engine.metrics import hierarchy_metrics

            metrics = hierarchy_metrics(block, hierarchy)
    first = job.writer.spec.bounds[job.unit]
    failures = [FailureRecord(first + f.graph, f.level, f.reason) for f in failed]
    record = job.writer.write_hierarchy(job.unit, job.name, hierarchy, metrics=metrics, failures=failures)
    return JobReport(job.unit, job.name, block.num_graphs, record.shard.size)


def warm_up(schedules: Sequence[Schedule], metrics: bool = True) -> float:
    """Compile the kernels of some schedules, or load them from the cache, by coarsening a tiny graph.

    Args:
        schedules: Schedules of the run.
        metrics: True to compile the kernels of the quality figures, too.

    Returns:
        Wall time in seconds.
    """
    started = time.perf_counter()
    ring = np.arange(24)
    edges = np.stack([np.r_[ring, (ring + 1) % 24], np.r_[(ring + 1) % 24, ring]])
    block = BlockCSR.from_edge_index(edges, node_ptr=[0, 24])
    with _ENGINE_LOCK:
        for schedule in schedules:
            hierarchy, _ = coarsen_with_failures(block, schedule)
            if metrics:
                from tgp.engine.metrics import hierarchy_metrics

                hierarchy_metrics(block, hierarchy)
        load_kernels()
    return time.perf_counter() - started
