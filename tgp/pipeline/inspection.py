"""What a store holds and how good it is: totals, ratios, quality figures. Needs neither torch nor numba."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError, StoreError, UnknownNameError
from tgp.store import StoreReader

__all__ = [
    "HierarchyView",
    "LevelView",
    "StoreView",
    "check_thresholds",
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


def inspect_store(path: Path, *, hierarchy: str | None = None, level: int | None = None) -> StoreView:
    """Read the figures of a store, of all or of one hierarchy or level."""
    reader = StoreReader(path)
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
    views = [_hierarchy(reader, name, level) for name in names]
    if level is not None and not any(view.levels for view in views):
        raise InputError(f"no hierarchy of {path} has a level {level}", field="level")
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
    )


def _hierarchy(reader: StoreReader, name: str, only: int | None) -> HierarchyView:
    info = reader.hierarchies[name]
    levels = [_level(reader, name, n) for n in range(info.depth) if only is None or n == only]
    return HierarchyView(name, list(info.schedule), info.seed, info.failures, reader.file_bytes(name), levels)


def _level(reader: StoreReader, name: str, number: int) -> LevelView:
    nodes, edges = reader.sizes(name, number + 1)
    before, edges_before = reader.sizes(name, number)
    metrics = reader.metrics(name, number)
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


def inspect_graph(path: Path, graph: int, *, hierarchy: str | None = None) -> dict[str, Any]:
    """Every figure of one graph."""
    reader = StoreReader(path)
    if not 0 <= graph < reader.num_graphs:
        raise InputError(f"{path} holds graphs 0 to {reader.num_graphs - 1}, got {graph}", field="graph")
    names = [reader.hierarchy(hierarchy).name] if hierarchy is not None else [*reader.hierarchies]
    nodes, edges = reader.sizes()
    rows = []
    for name in names:
        failed = {f.graph: f.reason for f in reader.failures(name)}
        for number in range(reader.hierarchies[name].depth):
            (n, e), (before, _) = reader.sizes(name, number + 1), reader.sizes(name, number)
            row = {"hierarchy": name, "level": number, "method": reader.level_info(name, number).method}
            row |= {"nodes": int(n[graph]), "edges": int(e[graph])}
            row["ratio"] = int(n[graph]) / int(before[graph]) if before[graph] else None
            row["metrics"] = {
                key: values[graph].item() for key, values in sorted(reader.metrics(name, number).items())
            }
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


_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def _figures(level: LevelView) -> dict[str, float]:
    values: dict[str, Any] = {**asdict(level), **level.metrics}
    return {k: float(v) for k, v in values.items() if isinstance(v, int | float) and k != "level"}


def check_thresholds(view: StoreView, conditions: list[str]) -> Iterator[str]:
    """Every level for which a condition such as ``ratio>0.95`` holds, as a sentence."""
    parsed = [_condition(text) for text in conditions]
    for hierarchy in view.hierarchies:
        for level in hierarchy.levels:
            figures = {**_figures(level), "failures": float(hierarchy.failures)}
            for text, name, compare, bound in parsed:
                if name not in figures:
                    if name in level.metrics:
                        continue
                    raise UnknownNameError("figure", name, figures)
                if compare(figures[name], bound):
                    yield f"{hierarchy.name}, level {level.level}: {name} = {figures[name]:g} ({text})"


def _condition(text: str) -> tuple[str, str, Callable[[float, float], bool], float]:
    match = re.fullmatch(r"\s*([A-Za-z_]+)\s*(>=|<=|==|!=|>|<)\s*([-+0-9.eE]+)\s*", text)
    try:
        if match is None:
            raise ValueError
        return text.strip(), match[1], _OPERATORS[match[2]], float(match[3])
    except ValueError:
        raise InputError(
            f"expected a condition such as 'ratio>0.95', got {text!r}", field="fail_if"
        ) from None
