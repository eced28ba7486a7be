"""Compare two hierarchies over the same graphs: which graphs differ, and by how much."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.inspect.export import level_ptr, local_arrays
from tgp.inspect.partition_similarity import ComposedClusters, partition_similarity
from tgp.kernels.array_types import FloatArray, LongArray
from tgp.ragged import Level
from tgp.ragged.fields import take_ragged
from tgp.ragged.offsets import run_ids
from tgp.store import StoreReader
from tgp.store.locations import Location, open_store, parse_location, shown_location

__all__ = ["Comparison", "EdgeChanges", "LevelComparison", "compare_hierarchies", "compare_stores"]

CHUNK = 20_000
"""Number of graphs that are compared at a time."""


@dataclass(frozen=True)
class EdgeChanges:
    """Differences between the edges of those graphs that have the same supernodes in both hierarchies.

    Args:
        graphs: number of such graphs. Edges of other graphs cannot be matched.
        only_first: number of edges that only the first hierarchy has.
        only_second: number of edges that only the second hierarchy has.
        reweighted: number of common edges with different weights; an edge without a weight has weight 1.
        largest: largest difference between two weights.
    """

    graphs: int
    only_first: int
    only_second: int
    reweighted: int
    largest: float


@dataclass(frozen=True)
class LevelComparison:
    """Comparison of one level of two hierarchies.

    Args:
        level: number of the level; the first pooled graphs are level 1.
        different: number of graphs whose arrays differ.
        examples: ids of the first of these graphs.
        rand: mean adjusted Rand index of the clusters of input nodes that all levels up to this one make, 1 for equal
            partitions. ``None`` after a soft assignment, and if no graph has two nodes.
        nmi: mean normalised mutual information of the same clusters, normalised by the mean of the two entropies.
        edges: number of coarse edges in the first and in the second hierarchy.
        edge_changes: differences between the edges.
        attributes: attribute -> number of graphs in which it differs, of the graphs whose arrays are equal. An attribute that only
            one hierarchy has differs in all of them. Equal attributes are left out.
    """

    level: int
    different: int
    examples: list[int]
    rand: float | None
    nmi: float | None
    edges: tuple[int, int]
    edge_changes: EdgeChanges
    attributes: dict[str, int]


@dataclass(frozen=True)
class Comparison:
    """Comparison of two hierarchies.

    Args:
        first: name of the first hierarchy.
        second: name of the second hierarchy.
        num_graphs: number of graphs.
        same_graphs: True if both were made from the same input graphs.
        depths: number of levels of the first and of the second hierarchy.
        levels: comparisons of the levels that both have.
    """

    first: str
    second: str
    num_graphs: int
    same_graphs: bool
    depths: tuple[int, int]
    levels: list[LevelComparison]

    @property
    def equal(self) -> bool:
        """True if nothing differs."""
        same_depth = self.depths[0] == self.depths[1]
        return (
            self.same_graphs
            and same_depth
            and not any(level.different or level.attributes for level in self.levels)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        return {**asdict(self), "equal": self.equal}


def compare_stores(first: Location, second: Location) -> list[Comparison]:
    """Compare the hierarchies that have the same name in two stores.

    If both stores have exactly one hierarchy, these are compared whatever their names are.

    Args:
        first: directory or URL of a store; ``PATH#NAME`` selects one hierarchy.
        second: the same for the other store.

    Returns:
        One comparison per pair of hierarchies.

    Raises:
        InputError: if the stores have no hierarchy in common, or have different numbers of graphs.
        UnknownNameError: if a named hierarchy does not exist.
    """
    (path, one, name), (other, two, name2) = _open_named(first), _open_named(second)
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


def _open_named(place: Location) -> tuple[str, StoreReader, str | None]:
    """Open ``PATH`` or ``PATH#NAME`` and return the path, the reader and the name."""
    text, mark, name = str(place).rpartition("#")
    if not mark or Path(str(place)).exists():
        return shown_location(place), open_store(place), None
    reader = open_store(parse_location(text))
    return shown_location(text), reader, reader.hierarchy(name).name


def compare_hierarchies(store: Location, first: str, second: str) -> Comparison:
    """Compare two hierarchies of one store.

    Args:
        store: directory or URL of the store.
        first: name of a hierarchy.
        second: name of the other hierarchy.

    Raises:
        UnknownNameError: if the store has no such hierarchy.
    """
    reader = open_store(store)
    for name in (first, second):
        reader.hierarchy(name)
    return _compare(reader, first, reader, second, (first, second))


def _compare(
    one: StoreReader, first: str, two: StoreReader, second: str, labels: tuple[str, str]
) -> Comparison:
    if one.num_graphs != two.num_graphs:
        raise InputError(
            f"hierarchies over different graphs cannot be compared: {one.num_graphs:,} and {two.num_graphs:,} graphs",
            field="diff",
        )
    same = one.manifest.spec.data_digest == two.manifest.spec.data_digest
    depths = one.hierarchies[first].depth, two.hierarchies[second].depth
    found: list[list[_ChunkComparison]] = [[] for _ in range(min(depths))]
    for low in range(0, one.num_graphs, CHUNK):
        ids = np.arange(low, min(low + CHUNK, one.num_graphs))
        left, right = ComposedClusters(one, ids), ComposedClusters(two, ids)
        for position in range(min(depths)):
            pairs = ((one, first), (two, second))
            a, b = (r.gather_levels(ids, name, (position,))[0] for r, name in pairs)
            left.add(a)
            right.add(b)
            different = _differs(a, b)
            found[position].append(
                _ChunkComparison(
                    ids[different],
                    partition_similarity(left, right),
                    (a.edge_index.shape[1], b.edge_index.shape[1]),
                    _edge_changes(a, b),
                    _attribute_changes(a, b, ~different),
                )
            )
    levels = [_join_chunks(number, chunks) for number, chunks in enumerate(found, start=1)]
    return Comparison(*labels, one.num_graphs, same, depths, levels)


@dataclass(frozen=True)
class _ChunkComparison:
    """Comparison of one level over a chunk of the graphs."""

    different: LongArray
    similarity: tuple[FloatArray, FloatArray]
    edges: tuple[int, int]
    changes: EdgeChanges
    attributes: Counter[str]


def _join_chunks(number: int, chunks: list[_ChunkComparison]) -> LevelComparison:
    different = np.concatenate([chunk.different for chunk in chunks])
    rand, nmi = (_mean(np.concatenate([chunk.similarity[i] for chunk in chunks])) for i in (0, 1))
    changes = [chunk.changes for chunk in chunks]
    return LevelComparison(
        number,
        len(different),
        different[:10].tolist(),
        rand,
        nmi,
        (sum(chunk.edges[0] for chunk in chunks), sum(chunk.edges[1] for chunk in chunks)),
        EdgeChanges(
            sum(c.graphs for c in changes),
            sum(c.only_first for c in changes),
            sum(c.only_second for c in changes),
            sum(c.reweighted for c in changes),
            max(c.largest for c in changes),
        ),
        dict(sum((chunk.attributes for chunk in chunks), Counter())),
    )


def _mean(values: FloatArray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None


def _differs(a: Level, b: Level) -> npt.NDArray[np.bool_]:
    """Return ``[B]`` True for the graphs of which an array differs."""
    sizes = [np.diff(getattr(a, p)) != np.diff(getattr(b, p)) for p in ("node_ptr", "super_ptr", "edge_ptr")]
    wrong: npt.NDArray[np.bool_] = np.logical_or.reduce(sizes)
    first, second = local_arrays(a), local_arrays(b)
    if a.assignment.kind != b.assignment.kind or first.keys() != second.keys():
        return np.ones_like(wrong)
    for name in first:
        wrong = wrong | _arrays_differ(name, a, first[name], b, second[name])
    return wrong


def _arrays_differ(
    name: str, a: Level, x: npt.NDArray[Any], b: Level, y: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Return ``[B]`` True for the graphs whose rows of one array of the levels differ."""
    if name == "edge_index":
        x, y = x.T, y.T
    return _rows_differ(x, level_ptr(a, name), y, level_ptr(b, name))


def _attribute_changes(a: Level, b: Level, use: npt.NDArray[np.bool_]) -> Counter[str]:
    """Return the number of graphs in which each attribute differs, among some graphs. NaN is equal to NaN."""
    found: Counter[str] = Counter()
    for name in sorted(a.fields.keys() | b.fields.keys()):
        wrong = use
        if name in a.fields and name in b.fields:
            one, two = a.fields[name], b.fields[name]
            if (one.form, one.values.dtype) == (two.form, two.values.dtype):
                wrong = use & _rows_differ(one.values, one.ptr, two.values, two.ptr)
        if wrong.any():
            found[name] = int(wrong.sum())
    return found


def _rows_differ(
    x: npt.NDArray[Any], x_ptr: LongArray, y: npt.NDArray[Any], y_ptr: LongArray
) -> npt.NDArray[np.bool_]:
    """Return ``[B]`` True for the graphs whose rows differ."""
    wrong: npt.NDArray[np.bool_] = np.diff(x_ptr) != np.diff(y_ptr)
    if x.shape[1:] != y.shape[1:]:
        return np.ones_like(wrong)
    same = np.flatnonzero(~wrong)
    owner = np.repeat(same, np.diff(x_ptr)[same])
    x, y = x[take_ragged(x_ptr, same)[1]], y[take_ragged(y_ptr, same)[1]]
    unequal = (x != y) & ((x == x) | (y == y))
    wrong[owner[unequal.reshape(len(owner), int(np.prod(x.shape[1:]))).any(axis=1)]] = True
    return wrong


def _edge_changes(a: Level, b: Level) -> EdgeChanges:
    same = _same_supernodes(a, b)
    (first, weight), (second, other) = _edge_keys(a, same), _edge_keys(b, same)
    common, i, j = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    gap = np.abs(weight[i] - other[j])
    return EdgeChanges(
        int(same.sum()),
        len(first) - len(common),
        len(second) - len(common),
        int((gap != 0).sum()),
        float(gap.max(initial=0.0)),
    )


def _same_supernodes(a: Level, b: Level) -> npt.NDArray[np.bool_]:
    """Return ``[B]`` True for the graphs whose nodes have the same supernodes in both levels."""
    same: npt.NDArray[np.bool_] = np.diff(a.node_ptr) == np.diff(b.node_ptr)
    same &= np.diff(a.super_ptr) == np.diff(b.super_ptr)
    if (a.assignment.cluster is None) != (b.assignment.cluster is None):
        return np.zeros_like(same)
    if a.assignment.cluster is None:
        return same
    return same & ~_arrays_differ("cluster", a, local_arrays(a)["cluster"], b, local_arrays(b)["cluster"])


def _edge_keys(level: Level, use: npt.NDArray[np.bool_]) -> tuple[LongArray, FloatArray]:
    """Return ascending keys of the edges of some graphs and their weights. Weights of parallel edges are added.

    An edge has the same key in two levels in which its graph has the same number of supernodes.
    """
    counts = np.diff(level.super_ptr)
    squares = np.where(use, counts, 0) ** 2
    start = np.cumsum(squares) - squares
    graph = run_ids(level.edge_ptr)
    inside = use[graph]
    graph = graph[inside]
    row, column = level.edge_index[:, inside] - level.super_ptr[graph]
    weight = (
        np.ones(len(graph)) if level.edge_weight is None else level.edge_weight[inside].astype(np.float64)
    )
    keys, place = np.unique(start[graph] + row * counts[graph] + column, return_inverse=True)
    sums: FloatArray = np.bincount(place, weight, len(keys)).astype(np.float64, copy=False)
    return keys.astype(np.int64, copy=False), sums
