"""Read everything that a report shows from a store."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tgp.build.findings import Finding
from tgp.build.summary import HierarchySummary
from tgp.errors import InputError
from tgp.inspect.export import parse_graphs
from tgp.inspect.overview import StoreView, inspect_store, sampled_graphs
from tgp.inspect.report.captions import sizes_text
from tgp.inspect.report.charts import (
    CurveChart,
    Histogram,
    count_histogram,
    curve_chart,
    named_histogram,
    share_histogram,
)
from tgp.inspect.report.drawings import GraphDrawing, draw_graph
from tgp.inspect.report.figure_rows import FigureRow, compare_first_levels, quality_rows
from tgp.store import FailureRecord, StoreReader
from tgp.store.format import constants as store_format
from tgp.store.locations import Location, open_store, result_path

__all__ = [
    "HierarchyContents",
    "LevelCharts",
    "ReportContents",
    "ScheduleRow",
    "choose_graphs",
    "collect_contents",
    "schedule_rows",
]

MAX_GRAPHS = 50
"""Largest number of drawn graphs; a page with more drawings is too large for a browser."""

MAX_FAILURES = 200
"""Largest number of failures that are shown per hierarchy."""

_QUANTILES = (0.5, 0.0, 0.25, 0.75, 1.0)
"""Quantiles of the graph sizes that select the graphs to draw by default, in the order of the list."""


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
    """Section of one hierarchy.

    Args:
        summary: its figures.
        sizes: numbers of nodes of all levels, as text.
        charts: charts of its levels.
        quality: rows of the table of metrics.
        findings: number of its problems.
    """

    summary: HierarchySummary
    sizes: str
    charts: tuple[LevelCharts, ...]
    quality: tuple[FigureRow, ...]
    findings: int

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
        findings: problems of the store.
        compared: names of the hierarchies whose first levels are compared; empty if there is nothing to compare.
        comparison: rows of the table that compares them.
        curves: charts of nodes and edges by level.
        failures: name of the hierarchy and record of each shown failure.
        num_failures: number of all failures.
        graphs: drawn graphs.
        sampled: number of graphs whose cluster sizes were counted.
    """

    name: str
    view: StoreView
    digest: str
    format_version: int
    input_charts: LevelCharts
    hierarchies: tuple[HierarchyContents, ...]
    findings: list[Finding]
    compared: list[str]
    comparison: list[FigureRow]
    curves: tuple[CurveChart, ...]
    failures: list[tuple[str, FailureRecord]]
    num_failures: int
    graphs: tuple[GraphDrawing, ...]
    sampled: int

    @property
    def measured(self) -> bool:
        """True if the store has metrics. Without them some kinds of problems cannot be found."""
        return any(level.metrics for h in self.view.hierarchies for level in h.levels)

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
        path: directory or URL of the store, or an open reader.
        graphs: graphs to draw, see :func:`choose_graphs`.

    Raises:
        InputError: if a graph does not exist.
        StoreError: if the store is missing or damaged.
    """
    reader = open_store(path)
    chosen = choose_graphs(reader, graphs)
    view = inspect_store(reader)
    nodes, edges = reader.sizes()
    ledger = {name: reader.failures(name) for name, info in reader.hierarchies.items() if info.failures}
    drawn = tuple(draw_graph(reader, graph) for graph in chosen) if view.hierarchies else ()
    return ReportContents(
        result_path(path, "").name,
        view,
        reader.manifest.spec.data_digest,
        store_format.VERSION,
        LevelCharts(count_histogram(nodes), count_histogram(edges)),
        tuple(
            _hierarchy_contents(
                reader, h, ledger.get(h.name, ()), sum(f.hierarchy == h.name for f in view.findings)
            )
            for h in view.hierarchies
        ),
        view.findings,
        *compare_first_levels(view.hierarchies),
        _curves(view),
        [(name, failure) for name, found in ledger.items() for failure in found[:MAX_FAILURES]],
        sum(info.failures for info in reader.hierarchies.values()),
        drawn,
        len(sampled_graphs(reader.num_graphs)),
    )


def _hierarchy_contents(
    reader: StoreReader, summary: HierarchySummary, failures: Sequence[FailureRecord], problems: int
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
    sizes = sizes_text((int(reader.sizes()[0].sum()), *(level.nodes for level in summary.levels)))
    return HierarchyContents(summary, sizes, tuple(charts), tuple(quality_rows(summary)), problems)


def _cluster_histogram(counts: list[int]) -> Histogram | None:
    """Make a histogram of cluster sizes from 1 to the largest; only one bar if all clusters have the same size."""
    used = [i for i, count in enumerate(counts) if count]
    if not used:
        return None
    first, last = (used[0] if len(used) == 1 else 0), used[-1]
    names = [str(i + 1) if i + 1 < len(counts) else f"{i + 1}+" for i in range(first, last + 1)]
    return named_histogram(counts[first : last + 1], names)


def _curves(view: StoreView) -> tuple[CurveChart, ...]:
    found = []
    for title, what in (("Nodes kept, in % of level 0", "nodes"), ("Edges kept, in % of level 0", "edges")):
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
