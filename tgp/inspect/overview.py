"""Summarize a store: totals, ratios, distributions and quality figures. Needs neither torch nor numba."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.build.findings import Finding, find_problems, finite_values, keeps_most_nodes, sum_metric
from tgp.build.summary import HierarchySummary, LevelSummary, describe_fields, describe_manifest
from tgp.errors import InputError, StoreError
from tgp.inspect.figures import figure_of
from tgp.store import StoreReader
from tgp.store.locations import Location, open_store, shown_location

__all__ = [
    "SpectralOptions",
    "StoreView",
    "find_stores",
    "inspect_graph",
    "inspect_store",
]

BINS = 8
"""Number of bins of the histograms."""

SAMPLE = 2000
"""Number of graphs whose clusters are read for the histogram of cluster sizes."""

Metrics = Mapping[str, npt.NDArray[Any]]
"""Name of a metric -> one value per graph."""


@dataclass(frozen=True)
class SpectralOptions:
    """Options of the spectral metrics.

    Args:
        sample: number of graphs to measure; all graphs if the store has fewer.
        modes: number of eigenvalues to compare per graph.
        seed: seed that selects the sample.
    """

    sample: int = 100
    modes: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("sample", "modes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}", field=name)


@dataclass(frozen=True)
class StoreView:
    """Summary of a store.

    Args:
        path: directory or URL of the store.
        dataset: description of the dataset that the store was made from.
        num_graphs: number of graphs.
        num_shards: number of shards of the graphs and of each hierarchy.
        profile: storage profile, ``"fast"`` or ``"small"``.
        fields: attributes of the input graphs.
        fingerprint: fingerprint of the data and the settings.
        bytes: size of all files.
        input: totals of the input graphs (level 0).
        hierarchies: hierarchies with the figures of their levels.
        spectral: sample, modes and seed of the spectral metrics, and the signals of the hyperbolic error (``"x"`` or
            ``"identity"``); ``None`` if they were not computed.
        findings: problems of the chosen hierarchies and levels.
    """

    path: str
    dataset: dict[str, Any]
    num_graphs: int
    num_shards: int
    profile: str
    fields: list[dict[str, Any]]
    fingerprint: str
    bytes: int
    input: LevelSummary
    hierarchies: list[HierarchySummary]
    spectral: dict[str, Any] | None = None
    findings: list[Finding] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return asdict(self)


def find_stores(folder: Path) -> list[dict[str, Any]]:
    """Find stores in a folder and in its direct subfolders.

    Args:
        folder: folder to search; it need not exist.

    Returns:
        One entry per store, also for stores that are incomplete or cannot be read, with the keys ``path``, ``status``,
        ``num_graphs``, ``hierarchies`` and ``bytes``.
    """
    found = []
    paths = [folder, *sorted(p for p in folder.iterdir() if p.is_dir())] if folder.is_dir() else []
    for path in paths:
        finished = (path / "manifest.json").is_file()
        if not finished and not (path / "records").is_dir():
            continue
        row: dict[str, Any] = {
            "path": str(path),
            "status": "complete",
            "num_graphs": None,
            "hierarchies": [],
            "bytes": None,
        }
        try:
            reader = StoreReader(path)
        except StoreError as error:
            row["status"] = f"unreadable: {error}" if finished else "incomplete"
        else:
            row |= {"num_graphs": reader.num_graphs, "hierarchies": [*reader.hierarchies]}
            row["bytes"] = describe_manifest(reader.manifest)[1]
        found.append(row)
    return found


def inspect_store(
    path: Location,
    *,
    hierarchy: str | None = None,
    level: int | None = None,
    spectral: SpectralOptions | None = None,
) -> StoreView:
    """Summarize a store.

    Args:
        path: directory or URL of the store, or an open reader.
        hierarchy: name of the only hierarchy to include.
        level: number of the only level to include; the first pooled graphs are level 1.
        spectral: options of the spectral metrics; they are not computed if ``None``.

    Returns:
        The totals of the input graphs and the figures of the chosen hierarchies and levels.

    Raises:
        InputError: if no chosen hierarchy has that level.
        UnknownNameError: if the store has no such hierarchy.
        StoreError: if the store is missing or damaged.
    """
    reader = open_store(path)
    names = _chosen_hierarchies(reader, hierarchy, level)
    manifest = reader.manifest
    nodes, edges = reader.sizes()
    input_graphs = LevelSummary(
        0,
        "input",
        int(nodes.sum()),
        int(edges.sum()),
        reader.num_bytes()[0],
        node_histogram=_histogram(nodes),
        metrics=_input_metrics(reader),
        node_range=_range(nodes),
    )
    summaries, size = describe_manifest(manifest)
    extra: dict[str, list[dict[str, npt.NDArray[np.float64]]]] = {}
    facts: dict[str, Any] | None = None
    if spectral is not None:
        from tgp.inspect.spectral_errors import signals_of, spectral_metrics

        extra = spectral_metrics(reader, names, spectral)
        facts = asdict(spectral) | {"signals": signals_of(reader)}
    hierarchies = [
        _add_figures(reader, summary, level, extra.get(summary.name))
        for summary in summaries
        if summary.name in names
    ]
    fields = describe_fields(manifest.fields)
    return StoreView(
        shown_location(path),
        dict(manifest.spec.dataset),
        reader.num_graphs,
        reader.num_shards,
        manifest.spec.profile,
        fields,
        manifest.fingerprint,
        size,
        input_graphs,
        hierarchies,
        facts,
        [finding for finding in find_problems(reader, names) if level in (None, finding.level)],
    )


def _chosen_hierarchies(reader: StoreReader, hierarchy: str | None, level: int | None) -> list[str]:
    """Return the names of the hierarchies to include and check that one of them has ``level``."""
    names = [reader.hierarchy(hierarchy).name] if hierarchy is not None else [*reader.hierarchies]
    deepest = max((reader.hierarchies[name].depth for name in names), default=0)
    if level is not None and not 1 <= level <= deepest:
        owner = f"hierarchy {names[0]!r}" if len(names) == 1 else "the store"
        have = f"levels 1 to {deepest}" if deepest else "no levels"
        raise InputError(
            f"{owner} has {have}, got {level}",
            field="level",
            hint="level 0 is the input graphs, level 1 the first pooled graphs",
        )
    return names


def _add_figures(
    reader: StoreReader,
    summary: HierarchySummary,
    only: int | None,
    extra: list[dict[str, npt.NDArray[np.float64]]] | None,
) -> HierarchySummary:
    """Add the figures of the chosen levels to the totals of the manifest."""
    levels = [
        _level_figures(reader, summary.name, level, {} if extra is None else extra[level.level - 1])
        for level in summary.levels
        if only in (None, level.level)
    ]
    return replace(summary, levels=levels)


def _level_figures(reader: StoreReader, name: str, level: LevelSummary, extra: Metrics) -> LevelSummary:
    nodes, edges = reader.sizes(name, level.level)
    before, edges_before = reader.sizes(name, level.level - 1)
    metrics = {**reader.metrics(name, level.level - 1), **extra}
    dropped = sum_metric(metrics["dropped"]) if "dropped" in metrics else 0
    has_clusters = "largest" in metrics
    return replace(
        level,
        edge_ratio=int(edges.sum()) / int(edges_before.sum()) if edges_before.sum() else None,
        stalled=bool(keeps_most_nodes(level.nodes, int(before.sum()))),
        stalled_graphs=int(keeps_most_nodes(nodes, before).sum()),
        node_histogram=_histogram(nodes),
        cluster_mean=(int(before.sum()) - (dropped or 0)) / level.nodes
        if level.nodes and has_clusters
        else None,
        cluster_largest=int(finite_values(metrics["largest"]).max(initial=0)) if has_clusters else None,
        cluster_histogram=_cluster_histogram(reader, name, level.level - 1),
        metrics={key: _aggregate(key, values) for key, values in sorted(metrics.items()) if key != "largest"}
        | _label_figures(reader, name, level),
        node_range=_range(nodes),
    )


def _label_figures(reader: StoreReader, name: str, level: LevelSummary) -> dict[str, float | None]:
    """Return the mean purity of the labels of supernodes, and the number of supernodes with mixed training labels."""
    found: dict[str, float | None] = {}
    for info in level.attributes:
        key = info["name"]
        is_purity = key.endswith("_purity") and info["dtype"].startswith("float")
        if info["shape"] or not (is_purity or (key.endswith("_mixed") and info["dtype"] == "bool")):
            continue
        values = np.concatenate([np.zeros(0), *reader.level_field_values(name, level.level - 1, key)])
        found[key] = _aggregate(key, values) if is_purity else float(np.count_nonzero(values))
    return found


def _input_metrics(reader: StoreReader) -> dict[str, float | None]:
    """Return the metrics of the input graphs, which are stored with the first level of a hierarchy."""
    for name in reader.hierarchies:
        if "0/components_before" in reader.hierarchy(name).metrics:
            return {"components": sum_metric(reader.metrics(name, 0)["components_before"])}
    return {}


def _aggregate(name: str, values: npt.NDArray[Any]) -> float | None:
    if figure_of(name).aggregation == "sum":
        return sum_metric(values)
    finite = finite_values(values)
    with np.errstate(over="ignore"):
        mean = float(finite.mean(dtype=np.float64)) if finite.size else np.nan
    return mean if np.isfinite(mean) else None


def _histogram(values: npt.NDArray[np.int64]) -> list[int]:
    return [int(count) for count in np.histogram(values, bins=BINS)[0]] if values.size else []


def _range(values: npt.NDArray[np.int64]) -> tuple[int, int] | None:
    return (int(values.min()), int(values.max())) if values.size else None


def sampled_graphs(num_graphs: int) -> npt.NDArray[np.int64]:
    """Return the ids of the graphs whose cluster sizes are counted."""
    return np.arange(0, num_graphs, max(1, num_graphs // SAMPLE))


def _cluster_histogram(reader: StoreReader, name: str, position: int) -> list[int]:
    """Count the supernodes with 1, 2, ... and at least ``BINS`` members in a sample of the graphs."""
    if "cluster" not in reader.level_info(name, position).arrays:
        return []
    members = reader.cluster_sizes(name, position, sampled_graphs(reader.num_graphs))
    if not members.size:
        return []
    return [int(count) for count in np.bincount(np.clip(members, 1, BINS) - 1, minlength=BINS)]


def inspect_graph(
    path: Location,
    graph: int,
    *,
    hierarchy: str | None = None,
    level: int | None = None,
    modes: int | None = None,
) -> dict[str, Any]:
    """Return all figures of one graph.

    Args:
        path: directory or URL of the store, or an open reader.
        graph: id of the graph.
        hierarchy: name of the only hierarchy to include.
        level: number of the only level to include; the first pooled graph is level 1.
        modes: number of eigenvalues for the spectral metrics; they are not computed if ``None``.

    Returns:
        The size and the fields of the input graph, and under ``levels`` the figures of every level.

    Raises:
        InputError: if the store has no such graph or level.
        UnknownNameError: if the store has no such hierarchy.
    """
    reader = open_store(path)
    if not 0 <= graph < reader.num_graphs:
        raise InputError(
            f"{shown_location(path)} holds graphs 0 to {reader.num_graphs - 1}, got {graph}", field="graph"
        )
    names = _chosen_hierarchies(reader, hierarchy, level)
    nodes, edges = reader.sizes()
    extra: dict[str, list[dict[str, npt.NDArray[np.float64]]]] = {}
    if modes is not None:
        from tgp.inspect.spectral_errors import measure_graphs

        extra = measure_graphs(reader, np.array([graph]), names, modes)
    rows = []
    for name in names:
        failed = {f.graph: f.reason for f in reader.failures(name)}
        for position in range(reader.hierarchies[name].depth):
            if level in (None, position + 1):
                spectral = {key: v[0].item() for key, v in extra[name][position].items()} if extra else {}
                row = _graph_row(reader, graph, name, position, spectral)
                rows.append(row | {"failure": failed.get(graph)})
    shapes = _field_shapes(reader, graph, int(nodes[graph]), int(edges[graph]))
    fields = {
        name: {"dtype": info.value_type, "shape": [] if info.is_text else shapes[name]}
        for name, info in reader.fields.items()
    }
    return {
        "graph": graph,
        "nodes": int(nodes[graph]),
        "edges": int(edges[graph]),
        "fields": fields,
        "levels": rows,
    }


def _field_shapes(reader: StoreReader, graph: int, nodes: int, edges: int) -> dict[str, list[int]]:
    """Return the shapes of the attributes of a graph. Attributes of the nodes and edges of a divided graph are not read."""
    found, unread = {}, []
    for name, info in reader.fields.items():
        rows = {"node": nodes, "edge": edges}.get(info.ptr)
        if rows is None or reader.manifest.spec.shard_edges is None:
            unread.append(name)
        else:
            found[name] = [rows, *info.tail] if info.axis == 0 else [*info.tail, rows]
    return found | {n: list(f.values.shape) for n, f in reader.read_graph(graph, unread).fields.items()}


def _graph_row(
    reader: StoreReader, graph: int, name: str, position: int, spectral: dict[str, float]
) -> dict[str, Any]:
    (nodes, edges), (before, _) = reader.sizes(name, position + 1), reader.sizes(name, position)
    metrics = reader.metrics(name, position)
    return {
        "hierarchy": name,
        "level": position + 1,
        "method": reader.level_info(name, position).method,
        "nodes": int(nodes[graph]),
        "edges": int(edges[graph]),
        "ratio": int(nodes[graph]) / int(before[graph]) if before[graph] else None,
        "metrics": {
            # A metric with one number per shard is no figure of a graph. A row of several numbers is a list.
            key: values[graph].tolist() if len(values) == reader.num_graphs else None
            for key, values in sorted(metrics.items())
        }
        | spectral,
    }
