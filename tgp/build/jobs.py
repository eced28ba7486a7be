"""What a worker does: one hierarchy of one unit, from arrays to a shard file."""

from __future__ import annotations

import dataclasses
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tgp.engine.methods import METHODS
from tgp.engine.coarsening import coarsen_safe
from tgp.engine.level_selection import keep_levels, unfold
from tgp.sources.source import slice_table, table_block, weight_type
from tgp.ragged import BlockCSR, GraphTable
from tgp.registry import Entry
from tgp.store import FailureRecord, StoreWriter
from tgp.store.write.local_ids import load_kernels

__all__ = ["HierarchyJob", "JobReport", "register_missing", "run_job", "topology", "warm_up"]

_ONE_AT_A_TIME = threading.Lock()
"""Numba's own thread pool must not be entered by two threads at once (several threads of a Dask worker)."""


@dataclass(frozen=True, eq=False)
class HierarchyJob:
    """One hierarchy of one unit.

    Args:
        writer: where it goes.
        unit: number of the unit.
        name: name of the hierarchy.
        graphs: the unit's graphs with ``edge_index`` and ``edge_weight`` only: attributes stay with the
            parent, which writes them itself.
        metrics: whether to compute quality figures.
        methods: where the methods of its levels are found: a worker may not know those added at run time.
    """

    writer: StoreWriter
    unit: int
    name: str
    graphs: GraphTable
    metrics: bool = True
    methods: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class JobReport:
    """What came of a job; ``engine_seconds`` is the share of coarsening alone, ``bytes`` the size of the file."""

    unit: int
    name: str
    num_graphs: int
    seconds: float
    engine_seconds: float
    bytes: int
    failures: list[FailureRecord] = field(default_factory=list)


def topology(table: GraphTable, low: int, high: int) -> GraphTable:
    """Graphs ``low:high`` with what coarsening needs: edges (ids in 32 bits) and weights."""
    part = slice_table(table, low, high, ("edge_index", "edge_weight"))
    fields = dict(part.fields)
    if "edge_index" in fields:
        edges = fields["edge_index"]
        fields["edge_index"] = dataclasses.replace(edges, values=edges.values.astype(np.int32))
    return GraphTable(part.node_ptr, fields)


def run_job(job: HierarchyJob) -> JobReport:
    """Coarsen, measure, write."""
    started = time.perf_counter()
    register_missing(job.methods)
    wanted = job.writer.spec.hierarchy(job.name)
    schedule, lengths = unfold(wanted.schedule)
    block, dtype = table_block(job.graphs), weight_type(job.graphs)
    with _ONE_AT_A_TIME:
        before = time.perf_counter()
        hierarchy, failed = coarsen_safe(block, schedule, wanted.seed, weight_dtype=dtype)
        hierarchy = keep_levels(hierarchy, lengths)
        engine_seconds = time.perf_counter() - before
        metrics = None
        if job.metrics:
            from tgp.engine.metrics import hierarchy_metrics

            metrics = hierarchy_metrics(block, hierarchy)
    first = job.writer.spec.bounds[job.unit]
    failures = [FailureRecord(first + f.graph, f.level, f.reason) for f in failed]
    record = job.writer.write_hierarchy(
        job.unit, job.name, hierarchy, weight_dtype=dtype, metrics=metrics, failures=failures
    )
    seconds = time.perf_counter() - started
    return JobReport(
        job.unit, job.name, block.num_graphs, seconds, engine_seconds, record.shard.size, failures
    )


def register_missing(methods: tuple[Entry, ...]) -> None:
    """Add methods to the table that this process does not have in it."""
    for entry in methods:
        METHODS.entries.setdefault(entry.alias, entry)


def warm_up(
    schedules: list[list[dict[str, Any]]], metrics: bool = True, methods: tuple[Entry, ...] = ()
) -> float:
    """Compile (or load from the cache) what the schedules need, on a tiny graph; the seconds it took."""
    started = time.perf_counter()
    register_missing(methods)
    ring = np.arange(24)
    edges = np.stack([np.r_[ring, (ring + 1) % 24], np.r_[(ring + 1) % 24, ring]])
    block = BlockCSR.from_edge_index(edges, node_ptr=[0, 24])
    with _ONE_AT_A_TIME:
        for schedule in schedules:
            hierarchy, _ = coarsen_safe(block, unfold(schedule)[0])
            if metrics:
                from tgp.engine.metrics import hierarchy_metrics

                hierarchy_metrics(block, hierarchy)
        load_kernels()
    return time.perf_counter() - started
