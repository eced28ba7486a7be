"""What a report shows, read from a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tgp.errors import InputError
from tgp.inspect.export import parse_graphs
from tgp.inspect.overview import SAMPLE, HierarchyView, StoreView, inspect_store
from tgp.inspect.report.charts import Histogram, count_histogram, named_histogram, share_histogram
from tgp.inspect.report.scene import Scene, graph_scenes
from tgp.inspect.report.tables import MAX_FAILURES
from tgp.store import FailureRecord, StoreReader
from tgp.store.locations import Place, beside, open_store

__all__ = ["Contents", "LevelCharts", "choose_graphs", "collect"]

MAX_GRAPHS = 50
"""A page with more drawings is too heavy for a browser."""

_QUANTILES = (0.5, 0.0, 0.25, 0.75, 1.0)
"""Graphs drawn unless told otherwise, by their place in the order of sizes; the first is shown first."""


@dataclass(frozen=True)
class LevelCharts:
    """Histograms of one level over all graphs, clusters over a sample."""

    nodes: Histogram | None
    edges: Histogram | None
    ratio: Histogram | None
    clusters: Histogram | None


@dataclass(frozen=True)
class Contents:
    """Everything a report shows."""

    name: str
    view: StoreView
    digest: str
    version: int
    given: LevelCharts
    charts: dict[str, list[LevelCharts]]
    failures: list[tuple[str, FailureRecord]]
    num_failures: int
    scenes: list[list[Scene]]
    """Per graph: its scenes in all hierarchies."""
    sizes: list[tuple[int, int]]
    """Nodes and edges of the graphs drawn."""
    sampled: bool
    """Cluster sizes come from some of the graphs."""


def choose_graphs(reader: StoreReader, graphs: Sequence[int] | str | None = None) -> list[int]:
    """Check the ids (numbers, or text such as ``0,5,17``), or choose graphs from the smallest to the largest."""
    total = reader.num_graphs
    if isinstance(graphs, str):
        graphs = parse_graphs(graphs, total).tolist()
    if graphs is not None:
        if len(graphs) > MAX_GRAPHS:
            raise InputError(
                f"a report draws at most {MAX_GRAPHS} graphs, got {len(graphs)}",
                field="graphs",
                hint="Choose some, for example --graphs 0,5,17.",
            )
        bad = [g for g in graphs if not 0 <= g < total]
        if bad:
            raise InputError(f"the store holds graphs 0 to {total - 1}, got {bad[0]}", field="graphs")
        return list(dict.fromkeys(int(g) for g in graphs))
    nodes, _ = reader.sizes()
    order = np.argsort(nodes, kind="stable")
    picked = [int(order[round(q * (total - 1))]) for q in _QUANTILES] if total else []
    return list(dict.fromkeys(picked))


def collect(path: Place, graphs: Sequence[int] | str | None = None) -> Contents:
    """Read a store. Damage and missing stores raise the errors of :class:`~tgp.store.StoreReader`."""
    reader = open_store(path)
    chosen = choose_graphs(reader, graphs)
    view = inspect_store(path)
    nodes, edges = reader.sizes()
    ledger = {name: reader.failures(name) for name, info in reader.hierarchies.items() if info.failures}
    manifest = reader.manifest
    return Contents(
        beside(path, "").name,
        view,
        manifest.spec.data_digest,
        _format_version(),
        LevelCharts(count_histogram(nodes), count_histogram(edges), None, None),
        {
            h.name: [_charts(reader, h, k, ledger.get(h.name, ())) for k in range(len(h.levels))]
            for h in view.hierarchies
        },
        [(name, failure) for name, found in ledger.items() for failure in found[:MAX_FAILURES]],
        sum(info.failures for info in reader.hierarchies.values()),
        [graph_scenes(reader, graph) for graph in chosen],
        [(int(nodes[g]), int(edges[g])) for g in chosen],
        reader.num_graphs >= 2 * SAMPLE,
    )


def _format_version() -> int:
    from tgp.store.format import constants as fmt

    return fmt.VERSION


def _charts(
    reader: StoreReader, shown: HierarchyView, level: int, failures: Sequence[FailureRecord]
) -> LevelCharts:
    nodes, edges = reader.sizes(shown.name, level + 1)
    before, _ = reader.sizes(shown.name, level)
    done = np.ones(len(nodes), bool)
    done[[f.graph for f in failures]] = False  # they have no levels, which is not a size of 0
    some = done & (before > 0)
    counts = shown.levels[level].cluster_histogram
    clusters = None
    if any(counts):
        last = max(i for i, count in enumerate(counts) if count)
        names = [str(i + 1) if i + 1 < len(counts) else f"{i + 1}+" for i in range(last + 1)]
        first = next(i for i, count in enumerate(counts) if count) if sum(map(bool, counts)) == 1 else 0
        clusters = named_histogram(counts[first : last + 1], names[first:])
    return LevelCharts(
        count_histogram(nodes[done]),
        count_histogram(edges[done]),
        share_histogram(nodes[some] / before[some]),
        clusters,
    )
