"""What a store holds and how good it is: totals, ratios, quality figures. Needs neither torch nor numba."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError, StoreError
from tgp.store import StoreReader
from tgp.store.locations import Place, open_store

__all__ = [
    "HierarchyView",
    "LevelView",
    "SpectralOptions",
    "StoreView",
    "find_stores",
    "inspect_graph",
    "inspect_store",
]

STALL = 0.95
"""A level that keeps more than this share of the nodes did next to nothing."""

BINS = 8
SAMPLE = 2000
"""Graphs whose clusters are read for the histogram of cluster sizes."""

COUNTS = ("dropped", "singletons", "empty", "isolated", "components_before", "components")

ON_REQUEST = ("eigenvalue_error", "eigenvalue_error_scaled", "eigenvalue_error_restricted")
"""Figures that exist only if spectral ones were asked for."""


@dataclass(frozen=True)
class SpectralOptions:
    """Which spectral figures to compute.

    Args:
        sample: graphs to look at; all if there are no more.
        modes: eigenvalues to compare per graph.
        seed: chooses the sample.
    """

    sample: int = 100
    modes: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("sample", "modes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}", field=name)


@dataclass(frozen=True)
class LevelView:
    """One level over all graphs. ``level`` is its position in the schedule; -1 means the input graphs."""

    level: int
    method: str
    nodes: int
    edges: int
    bytes: int
    ratio: float | None = None
    edge_ratio: float | None = None
    stalled: bool = False
    stalled_graphs: int = 0
    node_histogram: list[int] = field(default_factory=list)
    cluster_mean: float | None = None
    cluster_largest: int | None = None
    cluster_histogram: list[int] = field(default_factory=list)
    metrics: dict[str, float | None] = field(default_factory=dict)
    """Counts are added over graphs, everything else is the mean over graphs that have a value."""


@dataclass(frozen=True)
class HierarchyView:
    """One hierarchy."""

    name: str
    schedule: list[dict[str, Any]]
    seed: int
    failures: int
    bytes: int
    levels: list[LevelView]

    @property
    def summary(self) -> str:
        """The methods in order, repetitions folded: ``ndp,graclus*2``."""
        runs: list[list[Any]] = []
        for level in self.schedule:
            name = str(level.get("method", "?"))
            if runs and runs[-1][0] == name:
                runs[-1][1] += 1
            else:
                runs.append([name, 1])
        return ",".join(name if times == 1 else f"{name}*{times}" for name, times in runs)


@dataclass(frozen=True)
class StoreView:
    """A store."""

    path: str
    dataset: dict[str, Any]
    num_graphs: int
    num_shards: int
    profile: str
    fields: list[dict[str, Any]]
    fingerprint: str
    bytes: int
    input: LevelView
    hierarchies: list[HierarchyView]
    spectral: dict[str, int] | None = None
    """Sample, modes and seed of the spectral figures, if there are any."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def find_stores(folder: Path) -> list[dict[str, Any]]:
    """Stores in ``folder`` and its sub-folders of the first level, also unfinished ones."""
    found = []
    places = [folder, *sorted(p for p in folder.iterdir() if p.is_dir())] if folder.is_dir() else []
    for place in places:
        if not (place / "manifest.json").is_file() and not (place / "records").is_dir():
            continue
        row: dict[str, Any] = {
            "path": str(place),
            "status": "complete",
            "num_graphs": None,
            "hierarchies": [],
            "bytes": None,
        }
        try:
            reader = StoreReader(place)
        except StoreError as error:
            row["status"] = (
                "unfinished" if not (place / "manifest.json").is_file() else f"unreadable: {error}"
            )
        else:
            parts = ("graphs", *reader.hierarchies)
            row |= {"num_graphs": reader.num_graphs, "hierarchies": [*reader.hierarchies]}
            row["bytes"] = sum(reader.file_bytes(part) for part in parts)
        found.append(row)
    return found


def inspect_store(
    path: Place,
    *,
    hierarchy: str | None = None,
    level: int | None = None,
    spectral: SpectralOptions | None = None,
) -> StoreView:
    """Read the figures of a store, of all or of one hierarchy or level.

    Args:
        path: directory or URL of the store.
        hierarchy: only this one.
        level: only this one.
        spectral: also compute spectral figures of a sample of the graphs.
    """
    reader = open_store(path)
    names = [reader.hierarchy(hierarchy).name] if hierarchy is not None else [*reader.hierarchies]
    manifest = reader.manifest
    nodes, edges = reader.sizes()
    given = LevelView(
        -1,
        "input",
        int(nodes.sum()),
        int(edges.sum()),
        reader.num_bytes()[0],
        node_histogram=_histogram(nodes),
    )
    _check_level(reader, names, level)
    extra = _spectral(reader, names, spectral)
    views = [_hierarchy(reader, name, level, extra.get(name, [])) for name in names]
    fields = [
        {"name": f.name, "dtype": f.dtype, "per": f.ptr, "shape": list(f.tail)} for f in manifest.fields
    ]
    return StoreView(
        str(path),
        dict(manifest.spec.dataset),
        reader.num_graphs,
        reader.num_shards,
        manifest.spec.profile,
        fields,
        manifest.fingerprint,
        sum(reader.file_bytes(part) for part in ("graphs", *reader.hierarchies)),
        given,
        views,
        None if spectral is None else asdict(spectral),
    )


def _check_level(reader: StoreReader, names: list[str], level: int | None) -> None:
    deepest = max((reader.hierarchies[name].depth for name in names), default=0)
    if level is not None and not 0 <= level < deepest:
        which = f"hierarchy {names[0]!r}" if len(names) == 1 else "the store"
        have = f"levels 0 to {deepest - 1}" if deepest else "no levels"
        raise InputError(f"{which} has {have}, got {level}", field="level")


def _spectral(
    reader: StoreReader, names: list[str], options: SpectralOptions | None
) -> dict[str, list[dict[str, npt.NDArray[Any]]]]:
    if options is None:
        return {}
    from tgp.inspect.spectral_errors import spectral_figures

    return spectral_figures(reader, names, options)


def _hierarchy(
    reader: StoreReader, name: str, only: int | None, extra: list[dict[str, npt.NDArray[Any]]]
) -> HierarchyView:
    info = reader.hierarchies[name]
    levels = [
        _level(reader, name, n, extra[n] if extra else {})
        for n in range(info.depth)
        if only is None or n == only
    ]
    return HierarchyView(name, list(info.schedule), info.seed, info.failures, reader.file_bytes(name), levels)


def _level(reader: StoreReader, name: str, number: int, extra: dict[str, npt.NDArray[Any]]) -> LevelView:
    nodes, edges = reader.sizes(name, number + 1)
    before, edges_before = reader.sizes(name, number)
    metrics = reader.metrics(name, number) | extra
    some = before > 0
    ratios = nodes[some] / before[some]
    total, total_before = int(nodes.sum()), int(before.sum())
    ratio = total / total_before if total_before else None
    dropped = int(metrics["dropped"].sum()) if "dropped" in metrics else 0
    return LevelView(
        number,
        reader.level_info(name, number).method,
        total,
        int(edges.sum()),
        reader.num_bytes(name)[number],
        ratio=ratio,
        edge_ratio=int(edges.sum()) / int(edges_before.sum()) if edges_before.sum() else None,
        stalled=ratio is not None and ratio > STALL,
        stalled_graphs=int((ratios > STALL).sum()),
        node_histogram=_histogram(nodes),
        cluster_mean=(total_before - dropped) / total if total and "largest" in metrics else None,
        cluster_largest=int(metrics["largest"].max(initial=0)) if "largest" in metrics else None,
        cluster_histogram=_cluster_histogram(reader, name, number),
        metrics={key: _aggregate(key, values) for key, values in sorted(metrics.items()) if key != "largest"},
    )


def _aggregate(name: str, values: npt.NDArray[Any]) -> float | None:
    if name in COUNTS:
        return int(values.sum())
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    return float(finite.mean(dtype=np.float64)) if finite.size else None


def _histogram(values: npt.NDArray[np.int64]) -> list[int]:
    return np.histogram(values, bins=BINS)[0].tolist() if values.size else []


def _cluster_histogram(reader: StoreReader, name: str, number: int) -> list[int]:
    """How many supernodes have 1, 2, ... 7, and more members, in a sample."""
    if "cluster" not in reader.level_info(name, number).arrays:
        return []
    step = max(1, reader.num_graphs // SAMPLE)
    arrays = reader.gather_level(np.arange(0, reader.num_graphs, step), name, number, ("cluster",))
    if arrays.cluster is None or not len(arrays.cluster):
        return []
    members = np.bincount(arrays.cluster[arrays.cluster >= 0], minlength=int(arrays.super_ptr[-1]))
    return np.bincount(np.clip(members, 1, BINS) - 1, minlength=BINS).tolist()


def inspect_graph(
    path: Place,
    graph: int,
    *,
    hierarchy: str | None = None,
    level: int | None = None,
    modes: int | None = None,
) -> dict[str, Any]:
    """Every figure of one graph.

    Args:
        path: directory or URL of the store.
        graph: its number.
        hierarchy: only this one.
        level: only this one.
        modes: also compute the error of so many eigenvalues.
    """
    reader = open_store(path)
    if not 0 <= graph < reader.num_graphs:
        raise InputError(f"{path} holds graphs 0 to {reader.num_graphs - 1}, got {graph}", field="graph")
    names = [reader.hierarchy(hierarchy).name] if hierarchy is not None else [*reader.hierarchies]
    _check_level(reader, names, level)
    nodes, edges = reader.sizes()
    extra = _graph_spectrum(reader, names, graph, modes)
    rows = []
    for name in names:
        failed = {f.graph: f.reason for f in reader.failures(name)}
        for number in range(reader.hierarchies[name].depth):
            if level not in (None, number):
                continue
            (n, e), (before, _) = reader.sizes(name, number + 1), reader.sizes(name, number)
            row = {"hierarchy": name, "level": number, "method": reader.level_info(name, number).method}
            row |= {"nodes": int(n[graph]), "edges": int(e[graph])}
            row["ratio"] = int(n[graph]) / int(before[graph]) if before[graph] else None
            row["metrics"] = {
                key: values[graph].item() for key, values in sorted(reader.metrics(name, number).items())
            }
            row["metrics"] |= {key: values[0].item() for key, values in extra.get((name, number), {}).items()}
            row["failure"] = failed.get(graph)
            rows.append(row)
    table = reader.gather_graphs([graph])
    fields = {
        name: {"dtype": str(f.values.dtype), "shape": list(f.values.shape)}
        for name, f in table.fields.items()
    }
    return {
        "graph": graph,
        "nodes": int(nodes[graph]),
        "edges": int(edges[graph]),
        "fields": fields,
        "levels": rows,
    }


def _graph_spectrum(
    reader: StoreReader, names: list[str], graph: int, modes: int | None
) -> dict[tuple[str, int], dict[str, npt.NDArray[Any]]]:
    if modes is None:
        return {}
    from tgp.inspect.spectral_errors import errors_of

    found = errors_of(reader, np.array([graph]), names, modes)
    return {(name, number): figures for name in names for number, figures in enumerate(found[name])}
