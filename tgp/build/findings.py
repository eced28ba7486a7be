"""Find problems of a store that a user should know about: levels that hardly shrink, torn graphs, failures, ...

Everything is computed from the manifest, the sizes and the stored metrics. This module needs neither torch nor numba.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.store import StoreReader
from tgp.store.format.schema import HierarchyInfo
from tgp.store.locations import Location, open_store

__all__ = ["STALL", "Finding", "find_problems", "finite_values", "keeps_most_nodes", "sum_metric"]

STALL = 0.95
"""A level, or a graph, that keeps more than this share of its nodes hardly shrinks."""

FEW_GRAPHS = 0.01
"""Share of the graphs below which torn, joined and incomplete graphs are not reported."""

MANY_SINGLETONS = 0.5
"""Share of supernodes with one node above which a level is reported."""

MOST_WEIGHTS = 10**8
"""Number of edge weights that are checked at most."""

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Finding:
    """Problem of a store. It does not make the store invalid, but a user should know it.

    Args:
        kind: Kind of problem: ``"failed"``, ``"weights"``, ``"stalled"``, ``"collapsed"``, ``"empty"``, ``"torn"``,
            ``"joined"``, ``"dropped"`` or ``"singletons"``.
        hierarchy: Name of the hierarchy; ``None`` for a problem of the input graphs.
        level: Number of the level, from 1; ``None`` for a problem of the whole hierarchy or of the input graphs.
        text: Sentence that says what is wrong and how much of the data it concerns.
        hint: Sentence that says what to try.
    """

    kind: str
    hierarchy: str | None
    level: int | None
    text: str
    hint: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return dataclasses.asdict(self)


def find_problems(
    store: StoreReader | Location, hierarchies: Iterable[str] | None = None, *, inputs: bool = True
) -> list[Finding]:
    """Find the problems of a complete store.

    Args:
        store: Reader, directory or URL of the store. A store without metrics has fewer findings.
        hierarchies: Names of the hierarchies to check; all if ``None``.
        inputs: True to check the weights of the input graphs, too.

    Returns:
        Problems of the input graphs, then those of each hierarchy from the first level to the last.

    Raises:
        UnknownNameError: If the store has no such hierarchy.
        StoreError: If the store is missing or damaged.
    """
    reader = store if isinstance(store, StoreReader) else open_store(store)
    found = list(_find_weights(reader)) if inputs else []
    for name in reader.hierarchies if hierarchies is None else hierarchies:
        found += _Hierarchy(reader, reader.hierarchy(name)).findings()
    return found


def keeps_most_nodes(nodes: Any, before: Any) -> Any:
    """Return True where a graph or a level keeps more than :data:`STALL` of its nodes.

    Args:
        nodes: Number of nodes, or an array of them.
        before: Number of nodes before pooling. Nothing is kept of 0 nodes.
    """
    return (before > 0) & (nodes > STALL * before)


def finite_values(values: Array) -> Array:
    """Return the values of a metric without NaN and infinity."""
    return values[np.isfinite(values)] if values.dtype.kind == "f" else values


def sum_metric(values: Array) -> int | None:
    """Return the sum of a metric that counts something; ``None`` if it is too large for a float."""
    with np.errstate(over="ignore"):
        total = finite_values(values).sum(dtype=np.float64 if values.dtype.kind == "f" else None)
    return int(total) if np.isfinite(total) else None


def _find_weights(reader: StoreReader) -> Iterator[Finding]:
    """Find edge weights that are negative, NaN or infinite."""
    info = reader.fields.get("edge_weight")
    if info is None or info.dtype.startswith(("bool", "uint", "complex")):
        return
    edges = reader.sizes()[1]
    negative = invalid = checked = 0
    graphs = np.zeros(reader.num_graphs, bool)
    for shard, (low, high) in enumerate(pairwise(reader.manifest.spec.bounds)):
        if checked >= MOST_WEIGHTS:
            break
        values = reader.field_values("edge_weight", shard).reshape(-1)
        checked += len(values)
        bad = values < 0
        negative += int(bad.sum())
        if values.dtype.kind == "f":
            not_finite = ~np.isfinite(values)
            invalid += int(not_finite.sum())
            bad |= not_finite
        ends = np.cumsum(edges[low:high])
        if len(values) == (ends[-1] if len(ends) else 0):
            graphs[low + np.searchsorted(ends, np.flatnonzero(bad), side="right")] = True
    among = _share(int(graphs.sum()), reader.num_graphs, "graph")
    if negative:
        yield Finding(
            "weights",
            None,
            None,
            f"{_share(negative, checked, 'edge weight')} {_are(negative)} negative, in {among}.",
            "Most poolers expect weights of at least 0 and do not merge nodes along other edges. Use absolute values, or "
            "leave the weights out with --exclude edge_weight.",
        )
    if invalid:
        yield Finding(
            "weights",
            None,
            None,
            f"{_share(invalid, checked, 'edge weight')} {_are(invalid)} NaN or infinite, in {among}.",
            "Remove these edges or replace their weights, then coarsen the graphs again.",
        )


_METRICS = ("components_before", "components", "symmetric", "empty", "dropped", "singletons")
"""Metrics that findings are made from. They count something, or are True or False."""


def _whole_numbers(values: Array) -> npt.NDArray[np.int64]:
    """Convert a metric to integers. A store may hold any number, so NaN becomes 0 and large numbers are limited."""
    if values.dtype.kind == "f":
        values = np.nan_to_num(values.astype(np.float64), nan=0.0)
    return np.clip(values, 0, 2**40).astype(np.int64) if values.itemsize == 8 else values.astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Level:
    """Figures of one level.

    Args:
        number: Number of the level, from 1.
        method: Name of its method.
        nodes: Number of nodes of each graph.
        before: Number of nodes of each graph on the previous level.
        metrics: Metrics of :data:`_METRICS` that the store has, as whole numbers.
    """

    number: int
    method: str
    nodes: Array
    before: Array
    metrics: dict[str, npt.NDArray[np.int64]]

    @property
    def alive(self) -> Flags:
        """True for each graph that has nodes on this level. A graph that failed has none."""
        return self.nodes > 0

    @property
    def done(self) -> Flags:
        """True for each graph that had nothing left to pool: one node, or one node per connected component."""
        floor = self.metrics.get("components_before", np.ones_like(self.before))
        return self.alive & (self.before <= np.maximum(floor, 1))

    @property
    def active(self) -> Flags:
        """True for each graph that had something to pool and did not fail."""
        return self.alive & ~self.done

    @property
    def selects(self) -> bool:
        """True if the method keeps some nodes and drops the others, as NDP does."""
        single, dropped = self.metrics.get("singletons"), self.metrics.get("dropped")
        if single is None or dropped is None:
            return False
        return bool((single == self.nodes).all() and dropped[self.alive].any())


class _Hierarchy:
    """Search for problems of one hierarchy.

    Args:
        reader: Reader of the store.
        info: Description of the hierarchy.
    """

    def __init__(self, reader: StoreReader, info: HierarchyInfo) -> None:
        self._reader = reader
        self._info = info

    def findings(self) -> list[Finding]:
        """Return the problems of the hierarchy."""
        found = list(self._failures())
        if found and self._info.failures >= self._reader.num_graphs:
            return found  # no graph has levels
        for position in range(self._info.depth):
            level = self._level(position)
            if not level.alive.any():
                break
            if level.done[level.alive].mean() > STALL:
                found.append(self._collapsed(level))
                break  # all further levels repeat this one
            found += [finding for find in _FINDERS for finding in find(self._info, level)]
        return found

    def _level(self, position: int) -> _Level:
        name, count = self._info.name, self._reader.num_graphs
        metrics = self._reader.metrics(name, position)
        per_graph = {
            key: _whole_numbers(metrics[key])
            for key in _METRICS
            if key in metrics and metrics[key].shape == (count,) and metrics[key].dtype.kind in "biuf"
        }
        nodes, before = self._reader.sizes(name, position + 1)[0], self._reader.sizes(name, position)[0]
        return _Level(position + 1, self._info.levels[position].method, nodes, before, per_graph)

    def _failures(self) -> Iterator[Finding]:
        count, total = self._info.failures, self._reader.num_graphs
        if not count:
            return
        (first,) = self._reader.failures(self._info.name, 1)
        who = "Every graph" if count >= total > 1 else _share(count, total, "graph")
        yield Finding(
            "failed",
            self._info.name,
            None,
            f"{who} could not be coarsened and {'has' if count == 1 or who == 'Every graph' else 'have'} no levels. "
            f"The first is graph {first.graph:,} at level {first.level + 1}: {first.reason}",
            "Correct the data or choose another pooler. A run with --retry-failed repeats only these graphs.",
        )

    def _collapsed(self, level: _Level) -> Finding:
        depth, number = self._info.depth, level.number
        levels = f"Level {number} has" if number == depth else f"Levels {number} to {depth} have"
        start = "in the input" if number == 1 else f"after level {number - 1}"
        who = _share(int(level.done.sum()), int(level.alive.sum()), "graph")
        several = bool((level.before[level.done] > 1).any())
        unit = "connected component" if several else "graph"
        keep = f"Store {number - 1:,} {'level' if number == 2 else 'levels'} instead of {depth:,}"
        hint = f"{keep}." if number > 1 else "The graphs have no edges that a pooler could contract."
        if several:
            hint += " --largest-component leaves one component per graph."
        text = f"{levels} almost nothing left to pool: {start}, {who} {_have(int(level.done.sum()))} one node per {unit}."
        return Finding("collapsed", self._info.name, number, text, hint)


def _find_stalled(info: HierarchyInfo, level: _Level) -> Iterator[Finding]:
    active = level.active
    nodes, before = int(level.nodes[level.alive].sum()), int(level.before[level.alive].sum())
    stalled = int((active & keeps_most_nodes(level.nodes, level.before)).sum())
    graphs = _share(stalled, int(active.sum()), "graph")
    if level.method == "nopool":  # keeps every node on purpose
        return
    if keeps_most_nodes(nodes, before):
        kept = f"keeps {_percent(nodes, before)} of the nodes ({nodes:,} of {before:,})"
        text = f"Level {level.number} ({level.method}) hardly shrinks: it {kept}."
        if int(active.sum()) > 1:
            text += f" {graphs} {_keep(stalled)} more than {STALL:.0%} of {_their(stalled)} nodes."
        yield Finding("stalled", info.name, level.number, text, _stall_hint(level, info))
    elif stalled > active.sum() / 2:
        text = f"Level {level.number} ({level.method}) hardly shrinks {graphs}: each keeps more than {STALL:.0%} of its nodes."
        yield Finding("stalled", info.name, level.number, text, _stall_hint(level, info))


def _stall_hint(level: _Level, info: HierarchyInfo) -> str:
    """Say which parameter makes a level smaller, or which pooler to try."""
    symmetric = level.metrics.get("symmetric")
    if symmetric is not None and level.method in ("graclus", "kmis") and symmetric[level.active].mean() < 0.5:
        return "The graphs are directed: try --undirected."
    width = info.levels[level.number - 1].width
    if width is not None:
        return f"Every graph gets {width:,} supernodes. Try fewer, for example {level.method}:k={max(1, width // 2)}."
    other = {"graclus": "kmis or ndp", "kmis": "kmis:order_k=2 or ndp", "random": "a smaller ratio"}
    return f"Try {other.get(level.method, 'another pooler, for example graclus')}, or fewer levels."


def _find_empty(info: HierarchyInfo, level: _Level) -> Iterator[Finding]:
    if "empty" not in level.metrics:
        return
    empty = level.metrics["empty"]
    total, graphs = int(empty.sum()), int((empty > 0).sum())
    if not total:
        return
    text = (
        f"Level {level.number} ({level.method}) has {total:,} empty {'supernode' if total == 1 else 'supernodes'} "
        f"({_percent(total, int(level.nodes.sum()))}), in {_share(graphs, len(empty), 'graph')}. "
        "Their features are zero and they have no edges."
    )
    width = info.levels[level.number - 1].width
    smallest = int(level.before[level.alive].min())
    if width is not None and smallest < width:
        text += f" The smallest graph has {smallest:,} {'node' if smallest == 1 else 'nodes'} for {width:,} supernodes."
    hint = f"Try a smaller k, for example {level.method}:k={max(1, (width or 2) // 2)}, or a pooler without a fixed k."
    yield Finding("empty", info.name, level.number, text, hint)


def _find_torn(info: HierarchyInfo, level: _Level) -> Iterator[Finding]:
    """Find graphs whose number of connected components changes. Empty supernodes are reported elsewhere."""
    if "components" not in level.metrics or "components_before" not in level.metrics:
        return
    before = level.metrics["components_before"]
    after = level.metrics["components"] - level.metrics.get("empty", 0)
    active, total = level.active, int(level.alive.sum())
    torn, joined = active & (after > before), active & (after < before)
    for kind, changed in (("torn", torn), ("joined", joined)):
        graphs = int(changed.sum())
        if not graphs or graphs < FEW_GRAPHS * total:
            continue
        counts = f"{int(before[changed].sum()):,} connected components become {int(after[changed].sum()):,}"
        who = _share(graphs, total, "graph")
        if kind == "torn":
            text = f"Level {level.number} ({level.method}) tears {who} apart: {counts}."
            hint = "Contraction keeps graphs connected: try graclus or kmis. For ndp, try a smaller sparse_threshold."
        else:
            text = f"Level {level.number} ({level.method}) joins or drops components of {who}: {counts}."
            hint = "Try graclus or kmis, which never join components, or --largest-component."
        yield Finding(kind, info.name, level.number, text, hint)


def _find_dropped(info: HierarchyInfo, level: _Level) -> Iterator[Finding]:
    if "dropped" not in level.metrics or level.selects:
        return
    dropped = np.where(level.alive, level.metrics["dropped"], 0)
    graphs = int((dropped > 0).sum())
    if not graphs or graphs < FEW_GRAPHS * len(dropped):
        return
    share = _share(int(dropped.sum()), int(level.before[level.alive].sum()), "node")
    text = f"Level {level.number} ({level.method}) drops {share}, in {_share(graphs, len(dropped), 'graph')}."
    hint = "Dropped nodes are part of no supernode, and lifting gives them zeros. Try graclus or kmis to keep all nodes."
    yield Finding("dropped", info.name, level.number, text, hint)


def _find_singletons(info: HierarchyInfo, level: _Level) -> Iterator[Finding]:
    if "singletons" not in level.metrics or level.selects or level.method == "nopool":
        return
    active = level.active
    single, nodes = int(level.metrics["singletons"][active].sum()), int(level.nodes[active].sum())
    stalled = keeps_most_nodes(int(level.nodes[level.alive].sum()), int(level.before[level.alive].sum()))
    if stalled or single <= MANY_SINGLETONS * nodes:  # a level that hardly shrinks has many singletons
        return
    text = f"Level {level.number} ({level.method}) leaves {_share(single, nodes, 'supernode')} with a single node."
    yield Finding("singletons", info.name, level.number, text, _stall_hint(level, info))


_FINDERS = (_find_stalled, _find_empty, _find_torn, _find_dropped, _find_singletons)


def _share(count: int, total: int, noun: str) -> str:
    """Format a part of a total: ``12 of 188 graphs (6 %)``."""
    return f"{count:,} of {total:,} {noun if total == 1 else noun + 's'} ({_percent(count, total)})"


def _percent(count: int, total: int) -> str:
    """Format a share without rounding it to 0 or 100."""
    share = 100 * count / total if total else 0.0
    if 0 < share < 1:
        return "less than 1 %"
    return "more than 99 %" if 99 < share < 100 else f"{share:.0f} %"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _keep(count: int) -> str:
    return "keeps" if count == 1 else "keep"


def _their(count: int) -> str:
    return "its" if count == 1 else "their"
