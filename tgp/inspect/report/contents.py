"""Read everything that a report shows from a store."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tgp.build.summary import HierarchySummary
from tgp.errors import InputError
from tgp.inspect.export import parse_graphs
from tgp.inspect.overview import SAMPLE, StoreView, inspect_store
from tgp.inspect.places import result_path
from tgp.inspect.report.charts import (
    CurveChart,
    Histogram,
    count_histogram,
    curve_chart,
    named_histogram,
    share_histogram,
)
from tgp.inspect.report.drawings import GraphDrawing, draw_graph
from tgp.store import FailureRecord, StoreReader
from tgp.store.format import constants as store_format
from tgp.store.locations import Location, open_store

__all__ = [
    "METRICS",
    "HierarchyContents",
    "LevelCharts",
    "ReportContents",
    "ScheduleRow",
    "choose_graphs",
    "collect_contents",
    "metric_names",
    "schedule_rows",
]

MAX_GRAPHS = 50
"""Largest number of drawn graphs; a page with more drawings is too large for a browser."""

MAX_FAILURES = 200
"""Largest number of failures that are shown per hierarchy."""

_QUANTILES = (0.5, 0.0, 0.25, 0.75, 1.0)
"""Quantiles of the graph sizes that select the graphs to draw by default, in the order of the list."""

METRICS = {
    "dropped": "nodes without a supernode",
    "singletons": "supernodes with one member",
    "empty": "supernodes without a member",
    "isolated": "supernodes without an edge to another",
    "components_before": "connected components of the finer graphs",
    "components": "connected components of the coarser graphs",
    "cut": "share of the weight between supernodes; less is better",
    "modularity": "weight inside supernodes beyond chance; more is better",
    "entropy": "structural entropy in bits; less is better",
    "entropy_flat": "structural entropy without supernodes",
    "weight_kept": "weight that coarsening kept; 1 if nothing was lost",
    "expressive": "share of graphs in which all rows of S have the same sum",
    "symmetric": "share of graphs whose coarse weights are symmetric",
}
"""Meaning of the metrics, in the order of their rows."""

_COMPARED = (
    "dropped",
    "singletons",
    "components",
    "cut",
    "modularity",
    "entropy",
    "weight_kept",
    "expressive",
)
"""Metrics of level 1 that are compared between hierarchies. Deeper levels start from different graphs."""


@dataclass(frozen=True)
class LevelCharts:
    """Histograms of one level over all graphs; those of clusters over a sample of the graphs."""

    nodes: Histogram | None
    edges: Histogram | None
    ratio: Histogram | None = None
    clusters: Histogram | None = None

    @property
    def nonempty(self) -> bool:
        """True if there is at least one histogram."""
        return any((self.nodes, self.edges, self.ratio, self.clusters))


@dataclass(frozen=True)
class HierarchyContents:
    """Section of one hierarchy: its figures, the charts of its levels, and the names of its metrics."""

    summary: HierarchySummary
    charts: tuple[LevelCharts, ...]
    metrics: tuple[str, ...]

    @property
    def single_graph(self) -> bool:
        """True if there is nothing to count per graph, so that the charts of all levels fit into one row."""
        return all(chart.nodes is None for chart in self.charts)


@dataclass(frozen=True)
class ScheduleRow:
    """Consecutive equal levels of a schedule.

    Args:
        hierarchy: name of the hierarchy.
        first: number of the first level.
        last: number of the last level.
        method: name of the method.
        parameters: parameters as ``name = value``.
        seed: seed of the hierarchy.
    """

    hierarchy: str
    first: int
    last: int
    method: str
    parameters: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class ReportContents:
    """Everything that a report shows.

    Args:
        name: name of the store.
        view: summary of the store.
        digest: digest of the input data.
        format_version: version of the file format.
        input_charts: histograms of the input graphs.
        hierarchies: hierarchies.
        compared_metrics: metrics of level 1 that are compared; empty if there is nothing to compare.
        curves: charts of nodes and edges by level.
        failures: name of the hierarchy and record of each shown failure.
        num_failures: number of all failures.
        graphs: drawn graphs.
        sampled: True if cluster sizes come from a sample of the graphs.
    """

    name: str
    view: StoreView
    digest: str
    format_version: int
    input_charts: LevelCharts
    hierarchies: tuple[HierarchyContents, ...]
    compared_metrics: tuple[str, ...]
    curves: tuple[CurveChart, ...]
    failures: list[tuple[str, FailureRecord]]
    num_failures: int
    graphs: tuple[GraphDrawing, ...]
    sampled: bool

    @property
    def legend(self) -> set[str]:
        """Marks that occur in the drawings."""
        return {mark for drawing in self.graphs for mark in drawing.legend}

    @property
    def schedules(self) -> list[ScheduleRow]:
        """Rows of the table of schedules."""
        return schedule_rows(self.view.hierarchies)


def choose_graphs(reader: StoreReader, graphs: Sequence[int] | str | None = None) -> list[int]:
    """Return the ids of the graphs to draw.

    Args:
        reader: store.
        graphs: ids, also as text such as ``0,5,17``; ``None`` selects five graphs from the smallest to the largest.

    Raises:
        InputError: if there are too many ids, or a graph does not exist.
    """
    total = reader.num_graphs
    if graphs is None:
        nodes, _ = reader.sizes()
        order = np.argsort(nodes, kind="stable")
        chosen = [int(order[round(q * (total - 1))]) for q in _QUANTILES] if total else []
        return list(dict.fromkeys(chosen))
    ids = parse_graphs(graphs, total).tolist() if isinstance(graphs, str) else [int(g) for g in graphs]
    if len(ids) > MAX_GRAPHS:
        raise InputError(
            f"a report draws at most {MAX_GRAPHS} graphs, got {len(ids)}",
            field="graphs",
            hint="Choose some, for example --graphs 0,5,17.",
        )
    missing = [g for g in ids if not 0 <= g < total]
    if missing:
        raise InputError(f"the store holds graphs 0 to {total - 1}, got {missing[0]}", field="graphs")
    return list(dict.fromkeys(ids))


def collect_contents(path: Location, graphs: Sequence[int] | str | None = None) -> ReportContents:
    """Read the contents of a report.

    Args:
        path: directory or URL of the store.
        graphs: graphs to draw, see :func:`choose_graphs`.

    Raises:
        InputError: if a graph does not exist.
        StoreError: if the store is missing or damaged.
    """
    reader = open_store(path)
    chosen = choose_graphs(reader, graphs)
    view = inspect_store(path)
    nodes, edges = reader.sizes()
    ledger = {name: reader.failures(name) for name, info in reader.hierarchies.items() if info.failures}
    drawn = tuple(draw_graph(reader, graph) for graph in chosen) if view.hierarchies else ()
    return ReportContents(
        result_path(path, "").name,
        view,
        reader.manifest.spec.data_digest,
        store_format.VERSION,
        LevelCharts(count_histogram(nodes), count_histogram(edges)),
        tuple(_hierarchy_contents(reader, h, ledger.get(h.name, ())) for h in view.hierarchies),
        _compared_metrics(view.hierarchies),
        _curves(view),
        [(name, failure) for name, found in ledger.items() for failure in found[:MAX_FAILURES]],
        sum(info.failures for info in reader.hierarchies.values()),
        drawn,
        reader.num_graphs >= 2 * SAMPLE,
    )


def _hierarchy_contents(
    reader: StoreReader, summary: HierarchySummary, failures: Sequence[FailureRecord]
) -> HierarchyContents:
    charts = []
    for level in summary.levels:
        nodes, edges = reader.sizes(summary.name, level.level)
        before, _ = reader.sizes(summary.name, level.level - 1)
        done = np.ones(len(nodes), bool)
        done[[f.graph for f in failures]] = False  # a failed graph has no levels, which is not a size of 0
        counted = done & (before > 0)
        charts.append(
            LevelCharts(
                count_histogram(nodes[done]),
                count_histogram(edges[done]),
                share_histogram(nodes[counted] / before[counted]),
                _cluster_histogram(level.cluster_histogram),
            )
        )
    return HierarchyContents(summary, tuple(charts), metric_names(summary))


def _cluster_histogram(counts: list[int]) -> Histogram | None:
    """Make a histogram of cluster sizes from 1 to the largest; only one bar if all clusters have the same size."""
    used = [i for i, count in enumerate(counts) if count]
    if not used:
        return None
    first, last = (used[0] if len(used) == 1 else 0), used[-1]
    names = [str(i + 1) if i + 1 < len(counts) else f"{i + 1}+" for i in range(first, last + 1)]
    return named_histogram(counts[first : last + 1], names)


def metric_names(hierarchy: HierarchySummary) -> tuple[str, ...]:
    """Return the metrics of a hierarchy: those of tgp in the order of their meaning, then all others."""
    found = dict.fromkeys(name for level in hierarchy.levels for name in level.metrics)
    return (*(name for name in METRICS if name in found), *(name for name in found if name not in METRICS))


def _compared_metrics(hierarchies: Sequence[HierarchySummary]) -> tuple[str, ...]:
    """Return the metrics of level 1 to compare; none if fewer than two hierarchies have metrics."""
    measured = [h.levels[0].metrics for h in hierarchies if h.levels and h.levels[0].metrics]
    if len(measured) < 2:
        return ()
    return tuple(name for name in _COMPARED if any(name in metrics for metrics in measured))


def _curves(view: StoreView) -> tuple[CurveChart, ...]:
    found = []
    for title, what in (("Nodes left, by level", "nodes"), ("Edges left, by level", "edges")):
        total = getattr(view.input, what)
        series = [
            (h.name, [getattr(level, what) / total if total else None for level in (view.input, *h.levels)])
            for h in view.hierarchies
        ]
        chart = curve_chart(title, series)
        found += [] if chart is None else [chart]
    return tuple(found)


def schedule_rows(hierarchies: Sequence[HierarchySummary]) -> list[ScheduleRow]:
    """Return the stored schedules with all parameters. Consecutive equal levels share a row."""
    rows = []
    for hierarchy in hierarchies:
        levels = enumerate(hierarchy.schedule, start=1)
        for _, run in itertools.groupby(levels, lambda item: json.dumps(item[1], sort_keys=True)):
            equal = list(run)
            first, level = equal[0]
            method = str(level.get("method", "?"))
            row = ScheduleRow(hierarchy.name, first, equal[-1][0], method, _parameters(level), hierarchy.seed)
            rows.append(row)
    return rows


def _parameters(level: dict[str, Any]) -> tuple[str, ...]:
    # A level that joins several steps lists them under a key outside of "params".
    values = {key: value for key, value in level.items() if key not in ("method", "params")}
    params = level.get("params", {})
    values |= params if isinstance(params, dict) else {"params": params}
    return tuple(
        f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in sorted(values.items())
    )
