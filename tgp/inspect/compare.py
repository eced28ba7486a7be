"""Compare two hierarchies over the same graphs: which graphs differ, and by how much."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.inspect.partition_similarity import Composed, Floats, Ints, partition_similarity
from tgp.store import LevelArrays, StoreReader
from tgp.store.locations import Place, open_store, parse_place

__all__ = ["Comparison", "EdgeChanges", "LevelComparison", "compare_hierarchies", "compare_stores"]

CHUNK = 20_000
"""Graphs compared at a time."""


@dataclass(frozen=True)
class LevelComparison:
    """One level of two hierarchies.

    Args:
        level: position in the schedules.
        different: graphs whose arrays differ.
        examples: the first of them.
        rand: mean adjusted Rand index of the clusters that this level and those below make of the input
            nodes, 1 for equal partitions; ``None`` behind a soft assignment, or if no graph has two nodes.
        nmi: mean normalised mutual information of the same, by the mean of the two entropies.
        edges: coarse edges of either.
        edge_changes: see :class:`EdgeChanges`.
    """

    level: int
    different: int
    examples: list[int]
    rand: float | None
    nmi: float | None
    edges: tuple[int, int]
    edge_changes: EdgeChanges


@dataclass(frozen=True)
class EdgeChanges:
    """Differences of the edges of graphs that have the same supernodes in both.

    Args:
        graphs: how many such graphs there are; edges of the others have no common names.
        only_first: edges that only the first has.
        only_second: edges that only the second has.
        reweighted: edges of both with different weights; an edge without weight counts 1.
        largest: largest difference of two weights.
    """

    graphs: int
    only_first: int
    only_second: int
    reweighted: int
    largest: float


@dataclass(frozen=True)
class Comparison:
    """Two hierarchies."""

    first: str
    second: str
    num_graphs: int
    same_graphs: bool
    depths: tuple[int, int]
    levels: list[LevelComparison]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        same_depth = self.depths[0] == self.depths[1]
        return self.same_graphs and same_depth and not any(level.different for level in self.levels)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "equal": self.equal}


def compare_stores(first: Place, second: Place) -> list[Comparison]:
    """Compare the hierarchies that two stores share by name; if none, the only ones of either.

    ``PATH#NAME`` stands for one hierarchy of a store.
    """
    (path, one, name), (other, two, name2) = _parse(first), _parse(second)
    ours = [name] if name else [*one.hierarchies]
    theirs = [name2] if name2 else [*two.hierarchies]
    pairs = [(a, a) for a in ours if a in theirs]
    if len(ours) == len(theirs) == 1:
        pairs = [(ours[0], theirs[0])]
    if not pairs:
        names = [f"{p} has {', '.join(n) or 'none'}" for p, n in ((path, ours), (other, theirs))]
        raise InputError(
            f"the stores share no hierarchy: {'; '.join(names)}",
            field="diff",
            hint="name one of each: --diff STORE#NAME STORE#NAME",
        )
    return [_compare(one, a, two, b, (f"{path}#{a}", f"{other}#{b}")) for a, b in pairs]


def _parse(place: Place) -> tuple[str, StoreReader, str | None]:
    text, mark, name = str(place).rpartition("#")
    if not mark or Path(str(place)).exists():
        return str(place), open_store(place), None
    reader = open_store(parse_place(text))
    return text, reader, reader.hierarchy(name).name


def compare_hierarchies(store: Place, first: str, second: str) -> Comparison:
    """Compare two hierarchies of one store."""
    reader = open_store(store)
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
    depths = one.hierarchies[first].depth, two.hierarchies[second].depth
    found: list[list[_Piece]] = [[] for _ in range(min(depths))]
    for low in range(0, one.num_graphs, CHUNK):
        ids = np.arange(low, min(low + CHUNK, one.num_graphs))
        left, right = Composed(one, ids), Composed(two, ids)
        for number in range(min(depths)):
            a, b = one.gather_level(ids, first, number), two.gather_level(ids, second, number)
            left.add(a)
            right.add(b)
            different = ids[_differs(a, b)]
            found[number].append(_Piece(different, partition_similarity(left, right), a, b))
    return Comparison(*labels, one.num_graphs, same, depths, [_joined(n, p) for n, p in enumerate(found)])


class _Piece:
    """What one chunk of graphs says about a level."""

    def __init__(
        self, different: Ints, scores: tuple[Floats, Floats], a: LevelArrays, b: LevelArrays
    ) -> None:
        self.different = different
        self.scores = scores
        self.edges = (a.edge_index.shape[1], b.edge_index.shape[1])
        self.changes = edge_changes(a, b)


def _joined(number: int, pieces: list[_Piece]) -> LevelComparison:
    different = np.concatenate([piece.different for piece in pieces])
    rand, nmi = (_mean(np.concatenate([piece.scores[i] for piece in pieces])) for i in (0, 1))
    changes = [piece.changes for piece in pieces]
    counts = [
        sum(getattr(c, f) for c in changes) for f in ("graphs", "only_first", "only_second", "reweighted")
    ]
    return LevelComparison(
        number,
        len(different),
        different[:10].tolist(),
        rand,
        nmi,
        (sum(piece.edges[0] for piece in pieces), sum(piece.edges[1] for piece in pieces)),
        EdgeChanges(*counts, max(c.largest for c in changes)),
    )


def _mean(values: Floats) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None


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


def edge_changes(a: LevelArrays, b: LevelArrays) -> EdgeChanges:
    """How the edges differ where both levels have the same supernodes."""
    same = _same_supernodes(a, b)
    (first, weight), (second, other) = _edges(a, same), _edges(b, same)
    common, i, j = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    gap = np.abs(weight[i] - other[j])
    return EdgeChanges(
        int(same.sum()),
        len(first) - len(common),
        len(second) - len(common),
        int((gap != 0).sum()),
        float(gap.max(initial=0.0)),
    )


def _same_supernodes(a: LevelArrays, b: LevelArrays) -> npt.NDArray[np.bool_]:
    same = (np.diff(a.node_ptr) == np.diff(b.node_ptr)) & (np.diff(a.super_ptr) == np.diff(b.super_ptr))
    if (a.cluster is None) != (b.cluster is None):
        return np.zeros_like(same)
    if a.cluster is None or b.cluster is None:
        return same
    x, y = (_localised(level, level.cluster, "node_ptr", "super_ptr") for level in (a, b))
    return same & ~_unequal(x, a.node_ptr, y, b.node_ptr)


def _edges(level: LevelArrays, use: npt.NDArray[np.bool_]) -> tuple[Ints, Floats]:
    """Ascending names of the edges of some graphs, parallel ones added up, and their weights.

    The same edge of the same graph has the same name in both levels: these graphs have as many supernodes.
    """
    counts = np.diff(level.super_ptr)
    start = np.cumsum(np.where(use, counts, 0) * np.where(use, counts, 0)) - np.where(use, counts, 0) ** 2
    graph = np.repeat(np.arange(len(counts)), np.diff(level.edge_ptr))
    inside = use[graph]
    graph = graph[inside]
    row, column = level.edge_index[:, inside] - level.super_ptr[graph]
    weight = (
        np.ones(len(graph)) if level.edge_weight is None else level.edge_weight[inside].astype(np.float64)
    )
    names, place = np.unique(start[graph] + row * counts[graph] + column, return_inverse=True)
    return names, np.bincount(place, weight, len(names))
