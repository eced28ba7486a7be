"""Find problems of a store that a user should know about: levels that hardly shrink, torn graphs, failures, and others.

Everything is computed from the manifest, the sizes and the stored metrics. This module needs neither torch nor numba.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from tgp.build.level_checks import (
    STALL,
    LevelFigures,
    Problem,
    check_level,
    finite_values,
    keeps_most_nodes,
    part_text,
    sum_metric,
    verb,
    whole_metrics,
)
from tgp.engine.target_size import count_kept
from tgp.errors import warn_user
from tgp.kernels.array_types import BoolArray, LongArray
from tgp.store import StoreReader
from tgp.store.format.schema import HierarchyInfo
from tgp.store.locations import Location, open_store
from tgp.store.read.piece_array import iter_blocks

__all__ = [
    "STALL",
    "Finding",
    "FindingWarning",
    "check_size",
    "find_problems",
    "finite_values",
    "keeps_most_nodes",
    "sum_metric",
    "warn_about",
]

MOST_WEIGHTS = 10**8
"""Number of edge weights that are checked at most."""

_REPLACED = ("stalled", "singletons")
"""Kinds of problems of a level that follow from its size, so they are not reported in addition to a wrong size."""

_REQUESTED = ("singletons",)
"""Kinds of problems that follow from a size that the schedule asks for, even if it is reached."""

_MORE = 1.1
"""Nodes of a level / nodes that were asked for, above which a ratio counts as not reached."""

_FEW_GRAPHS = 0.01
"""Share of the graphs below which a number of nodes that is not reached is not reported."""

Sizes = Callable[[int], LongArray]


@dataclass(frozen=True)
class Finding:
    """Problem of a store. It does not make the store invalid, but a user should know it.

    Args:
        kind: Kind of problem: ``"failed"``, ``"weights"``, ``"stalled"``, ``"collapsed"``, ``"empty"``, ``"torn"``,
            ``"joined"``, ``"dropped"``, ``"singletons"``, ``"size"``, ``"files"``, ``"memory"`` or ``"core"``.
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


def find_problems(store: StoreReader | Location, hierarchies: Iterable[str] | None = None) -> list[Finding]:
    """Find the problems of a complete store.

    Args:
        store: Reader, directory or URL of the store. A store without metrics has fewer findings.
        hierarchies: Names of the hierarchies to check; all if ``None``.

    Returns:
        Problems of the input graphs, then those of each hierarchy from the first level to the last.

    Raises:
        UnknownNameError: If the store has no such hierarchy.
        StoreError: If the store is missing or damaged.
    """
    reader = store if isinstance(store, StoreReader) else open_store(store)
    found = list(_find_weights(reader))
    for name in reader.hierarchies if hierarchies is None else hierarchies:
        found += _Hierarchy(reader, reader.hierarchy(name)).findings()
    return found


class FindingWarning(UserWarning):
    """Warning about a problem of a run or of its result."""


def warn_about(findings: Iterable[Finding]) -> None:
    """Issue a :class:`FindingWarning` for each finding. It names the line of the user that called tgp.

    Args:
        findings: Problems of a run or of its result.
    """
    for finding in findings:
        owner = f"{finding.hierarchy}: " if finding.hierarchy else ""
        warn_user(f"{owner}{finding.text} Hint: {finding.hint}", FindingWarning)


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
        ends, stored = np.cumsum(edges[low:high]), reader.field_values("edge_weight", shard)
        for first, block in iter_blocks(stored):  # several blocks if a graph is divided
            values = block.reshape(-1)
            checked += len(values)
            bad = values < 0
            negative += int(bad.sum())
            if values.dtype.kind == "f":
                not_finite = ~np.isfinite(values)
                invalid += int(not_finite.sum())
                bad |= not_finite
            if stored.shape[0] == (ends[-1] if len(ends) else 0) and len(values) == len(block):
                graphs[low + np.searchsorted(ends, first + np.flatnonzero(bad), side="right")] = True
            if checked >= MOST_WEIGHTS:
                break
    among = part_text(int(graphs.sum()), reader.num_graphs, "graph")
    if negative:
        yield Finding(
            "weights",
            None,
            None,
            f"{part_text(negative, checked, 'edge weight')} {verb(negative, 'is', 'are')} negative, in {among}.",
            "Most poolers expect weights of at least 0 and do not merge nodes along other edges. Use absolute values, or "
            "leave the weights out with --exclude edge_weight.",
        )
    if invalid:
        yield Finding(
            "weights",
            None,
            None,
            f"{part_text(invalid, checked, 'edge weight')} {verb(invalid, 'is', 'are')} NaN or infinite, in {among}.",
            "Remove these edges or replace their weights, then coarsen the graphs again.",
        )


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
            if level.until is None and level.done[level.alive].mean() > STALL:
                found.append(self._collapsed(level))
                break  # all further levels repeat this one
            target = read_target_size(level, lambda number: self._reader.sizes(self._info.name, number)[0])
            size = None if target is None else check_size(level, target)
            left_out = () if target is None else _REQUESTED if size is None else _REPLACED
            problems = [problem for problem in check_level(level) if problem.kind not in left_out]
            problems = problems if size is None else [size, *problems]
            found += [Finding(p.kind, self._info.name, level.number, p.text, p.hint) for p in problems]
        return found

    def _level(self, position: int) -> LevelFigures:
        reader, name, info = self._reader, self._info.name, self._info.levels[position]
        nodes, before = reader.sizes(name, position + 1)[0], reader.sizes(name, position)[0]
        metrics = whole_metrics(reader.metrics(name, position), reader.num_graphs)
        schedule = self._info.schedule
        return LevelFigures(position + 1, info.method, info.width, nodes, before, metrics, schedule)

    def _failures(self) -> Iterator[Finding]:
        count, total = self._info.failures, self._reader.num_graphs
        if not count:
            return
        (first,) = self._reader.failures(self._info.name, 1)
        if count >= total > 1:
            who = f"None of the {total:,} graphs could be coarsened."
        else:
            who = f"{part_text(count, total, 'graph')} could not be coarsened and {verb(count, 'has', 'have')} no levels."
        text = f"{who} The first is graph {first.graph:,} at level {first.level + 1}: {first.reason}"
        yield Finding(
            "failed",
            self._info.name,
            None,
            text,
            "Correct the data or choose another pooler. A run with --retry-failed repeats only these graphs.",
        )

    def _collapsed(self, level: LevelFigures) -> Finding:
        depth, number = self._info.depth, level.number
        levels = f"Level {number} has" if number == depth else f"Levels {number} to {depth} have"
        start = "in the input" if number == 1 else f"after level {number - 1}"
        who = part_text(int(level.done.sum()), int(level.alive.sum()), "graph")
        several = bool((level.before[level.done] > 1).any())
        unit = "connected component" if several else "graph"
        keep = f"Store {number - 1:,} {'level' if number == 2 else 'levels'} instead of {depth:,}"
        hint = f"{keep}." if number > 1 else "The graphs have no edges that a pooler could contract."
        if several and number > 1:
            hint += " --largest-component leaves one component per graph."
        text = f"{levels} almost nothing left to pool: {start}, {who} {verb(int(level.done.sum()), 'has', 'have')} one node per {unit}."
        return Finding("collapsed", self._info.name, number, text, hint)


class TargetSize(NamedTuple):
    """Size that a schedule asks for.

    Args:
        text: Parameter as it is written in a schedule, for example ``nodes=10``.
        counts: Number of nodes of each graph; at most those of the level before.
        exact: True for a number of nodes, False for a ratio.
        other: Schedule of a method that merges nodes of different components.
    """

    text: str
    counts: LongArray
    exact: bool
    other: str


def check_size(level: LevelFigures, target: TargetSize) -> Problem | None:
    """Return the problem of a level that has other sizes than its schedule asks for, or ``None``.

    Args:
        level: Figures of the level.
        target: Size that the schedule asks for.
    """
    active = level.active
    if not active.any():
        return None
    method = level.method.split("+")[-1]
    kept = active & (target.counts > STALL * level.before)
    if kept.sum() > active.sum() / 2:
        text = (
            f"Level {level.number} ({method}) hardly shrinks {part_text(int(kept.sum()), int(active.sum()), 'graph')}, because "
            f"{target.text} asks for it: {int(level.nodes[kept].sum()):,} of {int(level.before[kept].sum()):,} nodes remain."
        )
        return Problem("stalled", text, "Ask for fewer nodes, or remove the level.")
    larger = active & (level.nodes > target.counts)
    nodes, wanted = int(level.nodes[larger].sum()), int(target.counts[larger].sum())
    if target.exact:
        missed = larger.sum() > _FEW_GRAPHS * active.sum()
    else:
        missed = level.nodes[active].sum() > _MORE * target.counts[active].sum()
    if not missed:
        return None
    where = "" if len(level.nodes) == 1 else f" in {part_text(int(larger.sum()), int(active.sum()), 'graph')}"
    text = (
        f"Level {level.number} ({method}) has {nodes:,} nodes{where} instead of {wanted:,} ({target.text})."
    )
    return Problem("size", text + _explain(level, larger), _hint(level, target))


def _explain(level: LevelFigures, larger: BoolArray) -> str:
    """Return a sentence about the connected components of the graphs, if they are the reason."""
    components = level.metrics.get("components_before")
    if components is None:
        return " Many methods keep at least one node of each connected component."
    count = int(components[larger].max())
    if count < 2:
        return ""
    who = "The graph has" if len(level.nodes) == 1 else "These graphs have up to"
    return f" {who} {count:,} connected components, and each keeps at least one node."


def _hint(level: LevelFigures, target: TargetSize) -> str:
    """Say how to reach the size."""
    small = "keep_small=0 merges small components, too. " if _last_params(level).get("keep_small") else ""
    return f"{small}--largest-component leaves one component per graph. {target.other} also merges nodes of different components."


def _last_params(level: LevelFigures) -> Mapping[str, Any]:
    """Return the parameters of a level, those of the last one if several levels became one."""
    steps = _steps(level.schedule[level.number - 1 : level.number])
    params = steps[-1].get("params") if steps else None
    return params if isinstance(params, Mapping) else {}


def _steps(schedule: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the levels of a stored schedule, with those that became one stored level one by one."""
    return [step for entry in schedule for step in entry.get("levels", [entry])]


def read_target_size(level: LevelFigures, sizes: Sizes) -> TargetSize | None:
    """Read the size that the schedule of a store asks for. Its values are not trusted.

    Args:
        level: Figures of the level.
        sizes: Function from the number of a level to the number of nodes of each graph. Level 0 has the input graphs.

    Returns:
        The size, or ``None`` if the schedule asks for none.
    """
    if level.number > len(level.schedule):
        return None
    params = _last_params(level)
    nodes, ratio, ratios = params.get("nodes"), params.get("ratio"), params.get("ratios")
    before = level.before.astype(np.int64)
    if isinstance(nodes, int) and not isinstance(nodes, bool) and nodes > 0:
        return TargetSize(
            f"nodes={nodes}", np.minimum(before, min(nodes, 2**40)), True, f"partition:k={nodes}"
        )
    composed = "levels" in level.schedule[level.number - 1]
    if composed or any("levels" in entry for entry in level.schedule[: level.number]):
        return None  # ratios refer to a level that is not stored
    if _is_ratio(ratio):
        return TargetSize(
            f"ratio={ratio:g}", count_kept(before, float(ratio)), False, f"partition:ratio={ratio:g}"
        )
    if not isinstance(ratios, (list, tuple)) or not ratios or not all(map(_is_ratio, ratios)):
        return None
    entry = level.schedule[level.number - 1]
    same = takewhile(lambda other: other == entry, reversed(level.schedule[: level.number]))
    step = (sum(1 for _ in same) - 1) % len(ratios)
    first = sizes(level.number - 1 - step).astype(np.int64)
    text = f"ratios={'/'.join(f'{value:g}' for value in ratios)}"
    return TargetSize(text, np.minimum(before, count_kept(first, float(ratios[step]))), False, "partition")


def _is_ratio(value: object) -> TypeGuard[float]:
    return isinstance(value, float) and 0.0 < value <= 1.0
