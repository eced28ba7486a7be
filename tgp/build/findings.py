"""Find problems of a store that a user should know about: levels that hardly shrink, torn graphs, failures, and others.

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

from tgp.build.level_checks import (
    STALL,
    LevelFigures,
    check_level,
    finite_values,
    keeps_most_nodes,
    part_text,
    sum_metric,
    verb,
    whole_metrics,
)
from tgp.build.size_checks import REPLACED, check_size
from tgp.errors import warn_user
from tgp.store import StoreReader
from tgp.store.format.schema import HierarchyInfo
from tgp.store.locations import Location, open_store
from tgp.store.read.piece_array import iter_blocks

__all__ = [
    "STALL",
    "Finding",
    "FindingWarning",
    "find_problems",
    "finite_values",
    "keeps_most_nodes",
    "sum_metric",
    "warn_about",
]

MOST_WEIGHTS = 10**8
"""Number of edge weights that are checked at most."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Finding:
    """Problem of a store. It does not make the store invalid, but a user should know it.

    Args:
        kind: Kind of problem: ``"failed"``, ``"weights"``, ``"stalled"``, ``"collapsed"``, ``"empty"``, ``"torn"``,
            ``"joined"``, ``"dropped"``, ``"singletons"``, ``"size"``, ``"files"`` or ``"core"``.
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
            size = check_size(level, lambda number: self._reader.sizes(self._info.name, number)[0])
            problems = check_level(level)
            if size is not None:
                problems = [size, *(problem for problem in problems if problem.kind not in REPLACED)]
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
