"""Find problems of a run before it starts: too many files, and large graphs that a method coarsens on one core."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tgp.build.findings import Finding, find_many_files
from tgp.build.prepare import RunContext
from tgp.build.progress import duration_text
from tgp.build.workers import usable_cores
from tgp.engine.level_method import GraphSizes
from tgp.engine.schedule import Schedule
from tgp.engine.unit_plan import bound_work
from tgp.ragged import GraphTable

__all__ = ["find_early", "find_one_core"]

LEAST_WORK = 10**6
"""Number of nodes and edges of a graph from which its time is estimated."""

LEAST_SECONDS = 120.0
"""Processor time of a graph from which users are told about its cores."""


def find_early(context: RunContext, num_files: int) -> list[Finding]:
    """Return the problems of a run that can be known before it starts.

    Args:
        context: Prepared run.
        num_files: Number of files to write.
    """
    if not num_files:
        return []
    cores = min(context.config.threads or usable_cores(), usable_cores())
    found = find_many_files(num_files, context.spec.num_units)
    return found + find_one_core(context.source.table, context.schedules, cores)


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
