"""Compare two hierarchies over the same graphs: which graphs differ, and by how much."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.store import LevelArrays, StoreReader

__all__ = ["Comparison", "LevelComparison", "compare_hierarchies", "compare_stores"]

Ints = npt.NDArray[np.int64]
CHUNK = 20_000
"""Graphs compared at a time."""


@dataclass(frozen=True)
class LevelComparison:
    """One level of two hierarchies.

    Args:
        level: position in the schedules.
        different: graphs whose arrays differ.
        examples: the first of them.
        rand: mean adjusted Rand index of the clusters, 1 for equal partitions; ``None`` for soft ones or
            where the levels below already have different nodes.
    """

    level: int
    different: int
    examples: list[int]
    rand: float | None


@dataclass(frozen=True)
class Comparison:
    """Two hierarchies."""

    first: str
    second: str
    num_graphs: int
    same_graphs: bool
    levels: list[LevelComparison]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return self.same_graphs and not any(level.different for level in self.levels)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "equal": self.equal}


def compare_stores(first: Path, second: Path) -> list[Comparison]:
    """Compare the hierarchies that two stores share by name; if none, the only ones of either."""
    one, two = StoreReader(first), StoreReader(second)
    shared = [name for name in one.hierarchies if name in two.hierarchies]
    pairs = [(name, name) for name in shared]
    if not pairs and len(one.hierarchies) == len(two.hierarchies) == 1:
        pairs = [(next(iter(one.hierarchies)), next(iter(two.hierarchies)))]
    if not pairs:
        names = [
            f"{path} has {', '.join(reader.hierarchies) or 'none'}"
            for path, reader in ((first, one), (second, two))
        ]
        raise InputError(f"the stores share no hierarchy: {'; '.join(names)}", field="diff")
    return [_compare(one, a, two, b, (f"{first}#{a}", f"{second}#{b}")) for a, b in pairs]


def compare_hierarchies(store: Path, first: str, second: str) -> Comparison:
    """Compare two hierarchies of one store."""
    reader = StoreReader(store)
    for name in (first, second):
        reader.hierarchy(name)
    return _compare(reader, first, reader, second, (first, second))


def _compare(
    one: StoreReader, first: str, two: StoreReader, second: str, labels: tuple[str, str]
) -> Comparison:
    if one.num_graphs != two.num_graphs:
        raise InputError(
            f"hierarchies over different graphs cannot be compared: {one.num_graphs} and {two.num_graphs} graphs",
            field="diff",
        )
    same = one.manifest.spec.data_digest == two.manifest.spec.data_digest
    depth = min(one.hierarchies[first].depth, two.hierarchies[second].depth)
    levels = []
    for number in range(depth):
        different, scores = [], []
        for low in range(0, one.num_graphs, CHUNK):
            ids = np.arange(low, min(low + CHUNK, one.num_graphs))
            a, b = one.gather_level(ids, first, number), two.gather_level(ids, second, number)
            different.append(ids[_differs(a, b)])
            scores.append(_rand(a, b))
        found = np.concatenate(different)
        score = np.concatenate(scores)
        rand = float(score[np.isfinite(score)].mean()) if np.isfinite(score).any() else None
        levels.append(LevelComparison(number, len(found), found[:10].tolist(), rand))
    return Comparison(*labels, one.num_graphs, same, levels)


def _differs(a: LevelArrays, b: LevelArrays) -> npt.NDArray[np.bool_]:
    """``[B]`` whether any array of a graph differs."""
    sizes = [np.diff(getattr(a, p)) != np.diff(getattr(b, p)) for p in ("node_ptr", "super_ptr", "edge_ptr")]
    wrong: npt.NDArray[np.bool_] = np.logical_or.reduce(sizes)
    if a.kind != b.kind:
        return np.ones_like(wrong)
    bases = {"edge_index": "edge_ptr", "edge_weight": "edge_ptr", "representative": "super_ptr"}
    for name in ("edge_index", "edge_weight", "cluster", "weight", "soft", "theta", "representative"):
        x, y = getattr(a, name), getattr(b, name)
        ptr = bases.get(name, "node_ptr")
        if (x is None) != (y is None):
            return np.ones_like(wrong)
        if x is None:
            continue
        shift = {"edge_index": "super_ptr", "cluster": "super_ptr", "representative": "node_ptr"}.get(name)
        wrong = wrong | _unequal(
            _localised(a, x, ptr, shift), getattr(a, ptr), _localised(b, y, ptr, shift), getattr(b, ptr)
        )
    return wrong


def _localised(level: LevelArrays, values: npt.NDArray[Any], ptr: str, shift: str | None) -> npt.NDArray[Any]:
    """Rows first, ids counted inside their graph."""
    rows = values.T if values.ndim == 2 and ptr == "edge_ptr" else values
    if shift is None:
        return rows
    start = np.repeat(getattr(level, shift)[:-1], np.diff(getattr(level, ptr)))
    local = rows - (start[:, None] if rows.ndim == 2 else start)
    return np.where(rows < 0, -1, local)


def _unequal(x: npt.NDArray[Any], x_ptr: Ints, y: npt.NDArray[Any], y_ptr: Ints) -> npt.NDArray[np.bool_]:
    wrong = np.diff(x_ptr) != np.diff(y_ptr)
    if x.shape[1:] != y.shape[1:]:
        return np.ones_like(wrong)
    same = np.flatnonzero(~wrong)
    counts = np.diff(x_ptr)[same]
    owner = np.repeat(same, counts)
    inner = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    pieces = x[x_ptr[owner] + inner] != y[y_ptr[owner] + inner]
    rows = pieces.any(axis=1) if pieces.ndim > 1 else pieces
    wrong[owner[rows]] = True
    return wrong


def _rand(a: LevelArrays, b: LevelArrays) -> npt.NDArray[np.float64]:
    """``[B]`` adjusted Rand index; NaN where it has no meaning. A dropped node is a cluster of its own."""
    graphs = len(a.node_ptr) - 1
    if a.cluster is None or b.cluster is None or not np.array_equal(a.node_ptr, b.node_ptr):
        return np.full(graphs, np.nan)
    owner = np.repeat(np.arange(graphs), np.diff(a.node_ptr))
    x, y = (
        _named(a.cluster, len(a.super_ptr) and int(a.super_ptr[-1])),
        _named(b.cluster, int(b.super_ptr[-1])),
    )
    both = np.unique(np.stack([owner, x, y]), axis=1, return_counts=True)
    pairs = _pairs(graphs, both[0][0], both[1])
    left = _pairs(graphs, *_counts(owner, x))
    right = _pairs(graphs, *_counts(owner, y))
    size = np.diff(a.node_ptr).astype(np.float64)
    total = size * (size - 1) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = left * right / total
        highest = (left + right) / 2
        score = (pairs - expected) / (highest - expected)
    return np.where(total == 0, np.nan, np.where(highest == expected, 1.0, score))


def _named(cluster: Ints, start: int) -> Ints:
    return np.where(cluster < 0, start + np.arange(len(cluster)), cluster)


def _counts(owner: Ints, cluster: Ints) -> tuple[Ints, Ints]:
    _, first, counts = np.unique(cluster, return_index=True, return_counts=True)
    return owner[first], counts


def _pairs(graphs: int, owner: Ints, counts: Ints) -> npt.NDArray[np.float64]:
    return np.bincount(owner, counts * (counts - 1) / 2, minlength=graphs)
