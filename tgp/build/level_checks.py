"""Check the figures of one level for problems: few nodes merged, empty supernodes, torn graphs, and others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tgp.engine.methods import METHODS
from tgp.engine.schedule import STALL, LevelSpec, Schedule
from tgp.errors import TgpError
from tgp.kernels.array_types import Array, BoolArray, LongArray

__all__ = [
    "STALL",
    "LevelFigures",
    "Problem",
    "check_level",
    "finite_values",
    "keeps_most_nodes",
    "part_text",
    "suggest_schedule",
    "sum_metric",
    "verb",
    "whole_metrics",
]

FEW_GRAPHS = 0.01
"""Share of the graphs below which torn, joined and incomplete graphs are not reported."""

MERGED = 0.02
"""A level that keeps fewer than this share of its nodes merges almost everything."""

MANY_SINGLETONS = 0.5
"""Share of supernodes with one node above which a level is reported."""


class Problem(NamedTuple):
    """Problem of a level.

    Args:
        kind: Kind of problem, see :class:`tgp.build.findings.Finding`.
        text: What is wrong, and how much of the data it concerns.
        hint: What to try.
    """

    kind: str
    text: str
    hint: str


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


_METRICS = ("components_before", "components", "symmetric", "empty", "dropped", "singletons")
"""Metrics that findings are made from. They count something, or are True or False."""


def whole_metrics(metrics: dict[str, Array], count: int) -> dict[str, LongArray]:
    """Return the metrics that :class:`LevelFigures` needs, as whole numbers.

    Args:
        metrics: Metrics of a store by name.
        count: Number of graphs. Metrics with one number per shard are left out.
    """
    return {
        key: _whole_numbers(metrics[key])
        for key in _METRICS
        if key in metrics and metrics[key].shape == (count,) and metrics[key].dtype.kind in "biuf"
    }


def _whole_numbers(values: Array) -> LongArray:
    """Convert a metric to integers. A store may hold any number, so NaN becomes 0 and large numbers are limited."""
    if values.dtype.kind == "f":
        values = np.nan_to_num(values.astype(np.float64), nan=0.0)
    return np.clip(values, 0, 2**40).astype(np.int64) if values.itemsize == 8 else values.astype(np.int64)


@dataclass(frozen=True, eq=False)
class LevelFigures:
    """Figures of one level.

    Args:
        number: Number of the level, from 1.
        method: Name of its method.
        width: Number of supernodes of every graph, if it is fixed.
        nodes: Number of nodes of each graph.
        before: Number of nodes of each graph on the previous level.
        metrics: Metrics of :data:`_METRICS` that the store has, as whole numbers.
        schedule: Stored form of the whole schedule, to suggest another one.
    """

    number: int
    method: str
    width: int | None
    nodes: Array
    before: Array
    metrics: dict[str, LongArray]
    schedule: tuple[dict[str, Any], ...] = ()

    @cached_property
    def until(self) -> int | None:
        """Number of nodes at or below which the level leaves a graph as it is; ``None`` if there is no such limit."""
        stored = self.schedule[self.number - 1] if self.number <= len(self.schedule) else {}
        limit = stored.get("levels", [stored])[0].get("until")
        return limit if isinstance(limit, int) else None

    @cached_property
    def alive(self) -> BoolArray:
        """True for each graph that has nodes on this level. A graph that failed has none."""
        return self.nodes > 0

    @cached_property
    def done(self) -> BoolArray:
        """True for each graph that had nothing left to pool: one node, one node per component, or the size limit."""
        floor = self.metrics.get("components_before", np.ones_like(self.before))
        return self.alive & (self.before <= np.maximum(floor, self.until or 1))

    @cached_property
    def active(self) -> BoolArray:
        """True for each graph that had something to pool and did not fail."""
        return self.alive & ~self.done

    @cached_property
    def selects(self) -> bool:
        """True if the method keeps some nodes and drops the others, as NDP does."""
        single, dropped = self.metrics.get("singletons"), self.metrics.get("dropped")
        if single is None or dropped is None:
            return False
        return bool((single == self.nodes).all() and dropped[self.alive].any())


def check_level(level: LevelFigures) -> list[Problem]:
    """Return the problems of a level.

    Args:
        level: Figures of the level.
    """
    return [problem for find in _FINDERS for problem in find(level)]


def _find_stalled(level: LevelFigures) -> Iterator[Problem]:
    active = level.active
    counted = level.alive if level.until is None else active
    nodes, before = int(level.nodes[counted].sum()), int(level.before[counted].sum())
    stalled = int((active & keeps_most_nodes(level.nodes, level.before)).sum())
    graphs = part_text(stalled, int(active.sum()), "graph")
    if level.method == "nopool":  # keeps every node on purpose
        return
    if keeps_most_nodes(nodes, before):
        kept = f"keeps {_percent_text(nodes, before)} of the nodes ({nodes:,} of {before:,})"
        text = f"Level {level.number} ({level.method}) hardly shrinks: it {kept}."
        if int(active.sum()) > 1:
            text += f" {graphs} {verb(stalled, 'keeps', 'keep')} more than {100 * STALL:.0f} % of {verb(stalled, 'its', 'their')} nodes."
        yield Problem("stalled", text, _stall_hint(level))
    elif stalled > active.sum() / 2:
        text = f"Level {level.number} ({level.method}) hardly shrinks {graphs}: each keeps more than {100 * STALL:.0f} % of its nodes."
        yield Problem("stalled", text, _stall_hint(level))


def _stall_hint(level: LevelFigures) -> str:
    """Say which parameter makes a level smaller, or which pooler to try."""
    symmetric = level.metrics.get("symmetric")
    if symmetric is not None and level.method in ("graclus", "kmis") and symmetric[level.active].mean() < 0.5:
        return "The graphs are directed: try --undirected."
    width = level.width
    if width is not None:
        return f"Every graph gets {width:,} supernodes. Try fewer, for example {level.method}:k={max(1, width // 2)}."
    for option, reason in _MORE_MERGED.get(level.method.split("+")[0], ()):
        better = suggest_schedule(level, option)
        if better is not None:
            return f"Try {better}: {reason}"
    other = {"graclus": "kmis or ndp", "kmis": "ndp", "random": "a smaller ratio"}
    return f"Try {other.get(level.method, 'another pooler, for example graclus')}, or fewer levels."


_MORE_MERGED: dict[str, tuple[tuple[dict[str, Any], str], ...]] = {
    "graclus": (
        (
            {"two_hop": True},
            "it also merges nodes that have a common neighbour, such as the leaves of a hub.",
        ),
    ),
    "kmis": (({"order_k": 2}, "it covers two hops instead of one."),),
}
"""Parameters that make the levels of a method smaller, with the reason."""

_FEWER_MERGED: dict[str, tuple[dict[str, Any], str]] = {
    "kmis": ({"max_size": 8}, "it divides clusters with more than eight nodes."),
}
"""Parameters that limit how much a level of a method merges, with the reason."""


def suggest_schedule(level: LevelFigures, option: dict[str, Any]) -> str | None:
    """Return the schedule of a hierarchy with other parameters for the method of one level.

    Args:
        level: Figures of the level.
        option: Parameters of its method.

    Returns:
        The text to write, or ``None`` if the schedule has the parameters already, or cannot be read without running code of
        another package.
    """
    stored = [item for entry in level.schedule for item in entry.get("levels", [entry])]
    known = {str(item.get("method")): METHODS.find(str(item.get("method"))) for item in stored}
    if not known or any(entry is None or entry.package is not None for entry in known.values()):
        return None
    try:
        specs = Schedule.from_json(stored).levels
        wanted = level.method.split("+")[0]
        changed = [
            LevelSpec(s.method, replace(s.params, **option)) if s.method == wanted else s for s in specs
        ]
    except (TgpError, TypeError):
        return None
    # A schedule that has another value already, such as a larger order_k, is left alone.
    defaults = {f.name: f.default for spec in specs for f in fields(spec.params) if spec.method == wanted}
    if any(getattr(s.params, n) != defaults[n] for s in specs if s.method == wanted for n in option):
        return None
    return str(Schedule(tuple(changed)))


def _find_merged(level: LevelFigures) -> Iterator[Problem]:
    """Find a level that leaves hardly any nodes, although its method is meant to leave more."""
    method = level.method.split("+")[0]
    active = level.active
    nodes, before = int(level.nodes[active].sum()), int(level.before[active].sum())
    if method not in _FEWER_MERGED or nodes >= MERGED * before:
        return
    text = (
        f"Level {level.number} ({level.method}) merges almost everything: {before:,} nodes become {nodes:,}."
    )
    yield Problem("collapsed", text, _limit_hint(level) or "Use fewer levels.")


def _limit_hint(level: LevelFigures) -> str | None:
    """Say which parameter makes the clusters of a level more even; ``None`` if there is none."""
    option, reason = _FEWER_MERGED.get(level.method.split("+")[0], ({}, ""))
    better = suggest_schedule(level, option) if option else None
    return None if better is None else f"Try {better}: {reason}"


def _find_empty(level: LevelFigures) -> Iterator[Problem]:
    if "empty" not in level.metrics:
        return
    empty = level.metrics["empty"]
    total, graphs = int(empty.sum()), int((empty > 0).sum())
    if not total:
        return
    text = (
        f"Level {level.number} ({level.method}) has {total:,} empty {'supernode' if total == 1 else 'supernodes'} "
        f"({_percent_text(total, int(level.nodes.sum()))}), in {part_text(graphs, len(empty), 'graph')}. "
        "Their features are zero and they have no edges."
    )
    width = level.width
    smallest = int(level.before[level.alive].min())
    if width is not None and smallest < width:
        text += f" The smallest graph has {smallest:,} {'node' if smallest == 1 else 'nodes'} for {width:,} supernodes."
    hint = f"Try a smaller k, for example {level.method}:k={max(1, (width or 2) // 2)}, or a pooler without a fixed k."
    yield Problem("empty", text, hint)


def _find_torn(level: LevelFigures) -> Iterator[Problem]:
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
        who = part_text(graphs, total, "graph")
        if kind == "torn":
            text = f"Level {level.number} ({level.method}) tears {who} apart: {counts}."
            hint = "Contraction keeps graphs connected: try graclus or kmis. For ndp, try a smaller sparse_threshold."
        else:
            text = f"Level {level.number} ({level.method}) joins or drops components of {who}: {counts}."
            hint = "Try graclus or kmis, which never join components, or --largest-component."
        yield Problem(kind, text, hint)


def _find_dropped(level: LevelFigures) -> Iterator[Problem]:
    if "dropped" not in level.metrics or level.selects:
        return
    dropped = np.where(level.alive, level.metrics["dropped"], 0)
    graphs = int((dropped > 0).sum())
    if not graphs or graphs < FEW_GRAPHS * len(dropped):
        return
    share = part_text(int(dropped.sum()), int(level.before[level.alive].sum()), "node")
    text = (
        f"Level {level.number} ({level.method}) drops {share}, in {part_text(graphs, len(dropped), 'graph')}."
    )
    hint = "Dropped nodes are part of no supernode, and lifting gives them zeros. Try graclus or kmis to keep all nodes."
    yield Problem("dropped", text, hint)


def _find_singletons(level: LevelFigures) -> Iterator[Problem]:
    if "singletons" not in level.metrics or level.selects or level.method == "nopool":
        return
    active = level.active
    single, nodes = int(level.metrics["singletons"][active].sum()), int(level.nodes[active].sum())
    stalled = keeps_most_nodes(int(level.nodes[level.alive].sum()), int(level.before[level.alive].sum()))
    if stalled or single <= MANY_SINGLETONS * nodes:  # a level that hardly shrinks has many singletons
        return
    text = f"Level {level.number} ({level.method}) leaves {part_text(single, nodes, 'supernode')} with a single node."
    # A small level with many singletons has few clusters that contain nearly everything.
    uneven = nodes < MANY_SINGLETONS * int(level.before[active].sum())
    yield Problem("singletons", text, (_limit_hint(level) if uneven else None) or _stall_hint(level))


_FINDERS = (_find_stalled, _find_merged, _find_empty, _find_torn, _find_dropped, _find_singletons)


def part_text(count: int, total: int, noun: str) -> str:
    """Format a part of a total: ``12 of 188 graphs (6 %)``."""
    return f"{count:,} of {total:,} {noun if total == 1 else noun + 's'} ({_percent_text(count, total)})"


def _percent_text(count: int, total: int) -> str:
    """Format a share without rounding it to 0 or 100."""
    share = 100 * count / total if total else 0.0
    if 0 < share < 1:
        return "less than 1 %"
    return "more than 99 %" if 99 < share < 100 else f"{share:.0f} %"


def verb(count: int, one: str, many: str) -> str:
    """Return a verb in the singular or the plural."""
    return one if count == 1 else many
