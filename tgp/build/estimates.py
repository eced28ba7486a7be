"""Estimates of a run before it starts: workers, time, memory, size of the store, and problems that can be known.

Problems are too many files, and large graphs that a method coarsens on one core or that may not fit in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tgp.build.findings import Finding
from tgp.build.progress import duration_text
from tgp.build.units import needed_fields
from tgp.build.workers import choose_workers, usable_cores
from tgp.engine.level_method import GraphSizes
from tgp.engine.methods import METHODS
from tgp.engine.schedule import Schedule
from tgp.engine.unit_plan import COST_PER_SECOND, UnitPlan, bound_work
from tgp.input_limits import physical_memory
from tgp.kernels.array_types import LongArray
from tgp.ragged import GraphTable
from tgp.ragged.offsets import run_maxima
from tgp.store import Task
from tgp.store.format import constants as store_format

if TYPE_CHECKING:
    from tgp.build.prepare import RunContext

__all__ = [
    "attribute_bytes",
    "estimate_bytes",
    "estimate_costs",
    "estimate_limits",
    "find_early",
    "find_memory",
    "find_one_core",
    "local_methods",
    "number_of_workers",
]

COMPRESSED_SHARE = 1 / 3
"""Size of arrays in the small profile, relative to the fast profile. This is the share of small graphs. Large graphs
need half of it, and features that are mostly zeros need far less."""

KERNEL_BYTES = 110 * 10**6
"""Memory of numba and the compiled kernels."""

WORKER_BYTES = 170 * 10**6
"""Memory of a worker process before its first unit."""

MANY_FILES = 2000
"""Number of files above which a run warns before it starts."""

LEAST_WORK = 10**6
"""Number of nodes and edges of a graph from which its time is estimated."""

LEAST_SECONDS = 120.0
"""Processor time of a graph from which users are told about its cores."""


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


def attribute_bytes(table: GraphTable) -> LongArray:
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


def _shares_offsets(ptr: LongArray, table: GraphTable) -> bool:
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


def _carried_bytes(context: RunContext) -> LongArray:
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
    degree = run_maxima(np.bincount(source, minlength=table.num_nodes), table.node_ptr)
    signed = weights is not None and weights.values.dtype.kind in "if" and bool((weights.values < 0).any())
    return GraphSizes(np.diff(table.node_ptr), counts, degree, signed)


def _peak_resident_bytes() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def find_early(context: RunContext, num_files: int) -> list[Finding]:
    """Return the problems of a run that can be known before it starts.

    Args:
        context: Prepared run.
        num_files: Number of files to write.
    """
    if not num_files:
        return []
    cores = min(context.config.threads or usable_cores(), usable_cores())
    found = _find_many_files(num_files, context.spec.num_units)
    table, schedules = context.source.table, context.schedules
    return found + find_memory(table, schedules) + find_one_core(table, schedules, cores)


def _find_many_files(num_files: int, num_shards: int) -> list[Finding]:
    """Return a finding if a run writes thousands of files.

    Args:
        num_files: Number of files that the run writes.
        num_shards: Number of shards of the store.
    """
    if num_files <= MANY_FILES:
        return []
    text = (
        f"This run writes {num_files:,} files in {num_shards:,} shards, which is slow to write and to read."
    )
    hint = "A larger shard size makes fewer files: --shard-size 64MB is the default."
    return [Finding("files", None, None, text, hint)]


def find_memory(table: GraphTable, schedules: Mapping[str, Schedule]) -> list[Finding]:
    """Return a finding for each hierarchy that may need more memory for the largest graph than this process may use.

    Args:
        table: Graphs of the run.
        schedules: Schedule of each hierarchy.
    """
    work = np.diff(table.node_ptr) + np.diff(table.fields["edge_index"].ptr)
    if not len(work) or work.max() < LEAST_WORK:
        return []
    total, held = physical_memory(), _peak_resident_bytes()
    sizes, found = _measure_graph(table, int(work.argmax())), []
    for name, schedule in schedules.items():
        needed = held + float(bound_work(sizes, [schedule]).memory[0])
        if needed <= total:
            continue
        text = (
            f"The largest graph may not fit in memory: {schedule} needs up to {needed / 1e9:.1f} GB, and this machine or control group "
            f"(cgroup) has {total / 1e9:.1f} GB."
        )
        hint = "graclus, kmis and hem can coarsen a file of edges in bounded memory, for example with --memory auto."
        found.append(Finding("memory", name, None, text, hint))
    return found


def find_one_core(table: GraphTable, schedules: Mapping[str, Schedule], cores: int) -> list[Finding]:
    """Return a finding for each hierarchy that needs minutes for one graph, in a step that uses one core for each graph.

    Args:
        table: Graphs of the run.
        schedules: Schedule of each hierarchy.
        cores: Number of cores that the run may use.
    """
    steps = {
        name: {spec.method: spec.level_method.one_core for spec in schedule if spec.level_method.one_core}
        for name, schedule in schedules.items()
    }
    work = np.diff(table.node_ptr) + np.diff(table.fields["edge_index"].ptr)
    graph = int(work.argmax()) if len(work) else 0
    is_large = len(work) > 0 and work[graph] >= LEAST_WORK and cores * work[graph] > work.sum()
    if cores < 2 or not is_large or not any(steps.values()):
        return []
    sizes, found = _measure_graph(table, graph), []
    for name, schedule in schedules.items():
        bound = bound_work(sizes, [schedule])
        seconds, memory = float(bound.seconds[0]), float(bound.memory[0])
        if not steps[name] or seconds < LEAST_SECONDS:
            continue
        what = " and ".join(f"{step} of {method}" for method, step in steps[name].items())
        text = (
            f"The largest graph takes up to {duration_text(seconds)} of processor time and {memory / 1e9:.1f} GB of memory, and "
            f"{what} can use only one of the {cores} cores for it."
        )
        hint = "hem and kmis use all cores for one graph, and hem can also coarsen it in bounded memory."
        found.append(Finding("core", name, None, text, hint))
    return found


def _measure_graph(table: GraphTable, graph: int) -> GraphSizes:
    """Return the sizes of one graph. Edges are read in pieces, because the run needs the memory itself."""
    edges, weights = table.fields["edge_index"], table.fields.get("edge_weight")
    nodes = int(table.node_ptr[graph + 1] - table.node_ptr[graph])
    low, high = edges.ptr[graph : graph + 2].tolist()
    real = weights is not None and weights.values.dtype.kind in "if"
    degree, piece, signed = np.zeros(nodes, np.int64), max(nodes, 1 << 22), False
    for first in range(low, high, piece):
        some = slice(first, min(first + piece, high))
        degree += np.bincount(edges.values[0, some], minlength=nodes)
        signed = signed or (weights is not None and real and bool((weights.values[some] < 0).any()))
    counts = np.array([[nodes], [high - low], [degree.max(initial=0)]], np.int64)
    return GraphSizes(counts[0], counts[1], counts[2], signed)
