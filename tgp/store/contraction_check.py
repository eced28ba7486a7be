"""Compare the coarse edges of a level with the contraction of the finer edges, with plain numpy."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from tgp.kernels.array_types import Array, BoolArray, FloatArray, LongArray
from tgp.ragged.offsets import find_run

if TYPE_CHECKING:
    from tgp.store.read.piece_array import StoredArray


__all__ = [
    "Edges",
    "first_wrong_contraction",
    "first_wrong_map",
    "in_sorted",
    "is_plain_sum",
    "unique_sorted",
    "unit_edges",
    "unit_ids",
]


_BLOCK_EDGES = 1 << 17
"""Number of edges that are compared at a time. Their arrays fit in the cache of a core."""

_DENSE_RATIO = 64
"""Largest number of pairs of supernodes, relative to the number of edges, for which a table of all pairs is used."""


_Ids = TypeVar("_Ids", bound=np.generic)


@dataclass(frozen=True)
class Edges:
    """Edges of all graphs of a unit, on one level, as they are stored.

    Args:
        index: ``[2, E]`` node ids that are local to their graph.
        weight: ``[E]`` weights, or ``None``.
        ptr: ``[B + 1]`` offsets of the edges of each graph.
        nodes: ``[B + 1]`` offsets of the nodes of each graph.
    """

    index: StoredArray
    weight: StoredArray | None
    ptr: LongArray
    nodes: LongArray


@dataclass(frozen=True)
class _BlockEdges:
    """Edges of consecutive graphs. Ids count the nodes of these graphs."""

    source: LongArray
    target: LongArray
    weight: FloatArray | None
    counts: LongArray

    @cached_property
    def graph(self) -> LongArray:
        """Graph of each edge."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def unit_ids(local: Array, ptr: Array, target: Array) -> LongArray:
    """Convert local ids to ids of the unit. ``ptr`` cuts the ids into graphs, graph ``g`` starts at ``target[g]``.

    The id -1 stays -1.
    """
    counts: LongArray = np.diff(ptr).astype(np.int64)
    ids = _add(np.repeat(target[:-1].astype(np.int64), counts), local)
    if local.dtype.kind == "i" and local.min(initial=0) < 0:
        ids[local < 0] = -1
    return ids


def unit_edges(index: StoredArray, weight: StoredArray | None, ptr: Array, nodes: Array) -> Edges:
    """Return the edges of all graphs of a unit from the arrays of a file."""
    return Edges(index, weight, ptr.astype(np.int64), nodes.astype(np.int64))


def _add(values: npt.NDArray[_Ids], other: Array) -> npt.NDArray[_Ids]:
    """Add integers of any type to ``values`` in place, and return them."""
    np.add(values, other, out=values, dtype=values.dtype, casting="unsafe")
    return values


def _block_ids(edges: Edges, low: int, high: int) -> tuple[Array, Array]:
    """Return sources and targets of the edges of the graphs ``low:high``. Ids count the nodes of these graphs."""
    source, target = edges.index[:, edges.ptr[low] : edges.ptr[high]]
    # Small types take less than half of the time, although they are converted when they are used as indices.
    kind = np.min_scalar_type(int(edges.nodes[high] - edges.nodes[low]))
    first = (edges.nodes[low:high] - edges.nodes[low]).astype(kind)
    shift = np.repeat(first, np.diff(edges.ptr[low : high + 1]))
    return np.add(shift, source, dtype=kind, casting="unsafe"), _add(shift, target)


def _block_edges(edges: Edges, low: int, high: int) -> _BlockEdges:
    """Return the edges of the graphs ``low:high``."""
    first, last = int(edges.ptr[low]), int(edges.ptr[high])
    weight = None if edges.weight is None else edges.weight[first:last].astype(np.float64)
    source, target = (ids.astype(np.int64) for ids in _block_ids(edges, low, high))
    return _BlockEdges(source, target, weight, np.diff(edges.ptr[low : high + 1]))


def is_plain_sum(level: dict[str, Any]) -> bool:
    """Return True if a level of a schedule promises ``A' = S^T A S`` without any scaling."""
    params = level.get("params")
    if not isinstance(params, dict) or params.get("connect_red_op") != "sum":
        return False
    return not params.get("degree_norm") and not params.get("edge_weight_norm")


def unique_sorted(ordered: npt.NDArray[_Ids]) -> npt.NDArray[_Ids]:
    """Remove duplicates from sorted numbers. This is faster than ``np.unique``, which hashes."""
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def in_sorted(values: Array, ordered: Array) -> BoolArray:
    """Return a mask of the values that occur in sorted numbers."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    position = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: BoolArray = ordered[position] == values
    return found


def first_wrong_contraction(
    finer: Edges, coarse: Edges, cluster: Array, options: dict[str, Any], dtype: str | None
) -> int | None:
    """Return the first graph whose coarse edges are not the contraction of the finer edges, or ``None``.

    Compares the pairs of supernodes that are connected, and the total weight of each graph up to rounding.

    Args:
        finer: Edges of the finer level.
        coarse: Edges of the coarse level.
        cluster: Local supernode of each node of the finer level, -1 if it was dropped.
        options: Parameters of the level in the schedule.
        dtype: Type of the stored weights.
    """
    work = finer.ptr + coarse.ptr
    steps = np.searchsorted(work, np.arange(_BLOCK_EDGES, int(work[-1]), _BLOCK_EDGES))
    bounds: list[int] = np.unique(np.concatenate([[0], steps, [len(work) - 1]])).tolist()
    loops = not options.get("remove_self_loops", True)
    for low, high in itertools.pairwise(bounds):
        local = cluster[finer.nodes[low] : finer.nodes[high]]
        same = _have_same_pairs(finer, coarse, local, low, high, loops)
        if same and coarse.weight is None:
            continue
        nodes, supers = (ptr[low : high + 1] - ptr[low] for ptr in (finer.nodes, coarse.nodes))
        fine, pooled = _block_edges(finer, low, high), _block_edges(coarse, low, high)
        row = _first_wrong(fine, pooled, unit_ids(local, nodes, supers), same, loops, dtype)
        if row is not None:
            return low + row
    return None


def first_wrong_map(finer: Edges, coarse: Edges, cluster: LongArray, found: LongArray) -> int | None:
    """Return the first graph with an edge that is not mapped to the coarse edge between its supernodes, or ``None``.

    Args:
        finer: Edges of the finer level.
        coarse: Edges of the coarse level.
        cluster: Supernode of each node of the finer level, counted through the unit, -1 if it was dropped.
        found: Coarse edge of each finer edge, counted through the unit, or -1.
    """
    source, target = (cluster[unit_ids(row, finer.ptr, finer.nodes)] for row in finer.index)
    first, last = (unit_ids(row, coarse.ptr, coarse.nodes) for row in coarse.index)
    size = int(coarse.nodes[-1])
    pair = np.where((source < 0) | (target < 0), -1, source * size + target)
    pooled = first * size + last
    mapped = found >= 0
    wrong = np.zeros(len(found), bool)
    wrong[mapped] = pooled[found[mapped]] != pair[mapped]
    wrong[~mapped] = np.isin(pair[~mapped], pooled)
    return find_run(finer.ptr, np.argmax(wrong)) if wrong.any() else None


def _first_wrong(
    finer: _BlockEdges,
    coarse: _BlockEdges,
    cluster: LongArray,
    same: bool,
    loops: bool,
    dtype: str | None,
) -> int | None:
    """Return the first wrong graph of a block.

    Args:
        finer: Finer edges.
        coarse: Coarse edges.
        cluster: Supernode of each node, -1 if it was dropped.
        same: True if the pairs of the coarse edges are known to be right.
        loops: True if the contraction keeps self loops.
        dtype: Type of the stored weights.
    """
    count = len(coarse.counts)
    source, target = cluster[finer.source], cluster[finer.target]
    kept = (source >= 0) & (target >= 0)
    if not loops:
        kept &= source != target
    bad = np.zeros(count, bool)
    if not same:
        bad[_wrong_pairs(source[kept], target[kept], finer.graph[kept], coarse)] = True
    if coarse.weight is not None:
        weight = np.ones(len(kept)) if finer.weight is None else finer.weight
        before = np.bincount(finer.graph[kept], weight[kept], minlength=count)
        after = np.bincount(coarse.graph, coarse.weight, minlength=count)
        scale = np.bincount(finer.graph[kept], np.abs(weight[kept]), minlength=count)
        eps = np.finfo(dtype or "float32").eps
        with np.errstate(invalid="ignore", over="ignore"):  # a damaged file may contain any weights
            # The contraction removes weights up to 1e-8 times the largest one, which is at most the total weight.
            removed = 1e-6 * np.minimum(scale, 1.0) * (coarse.counts + 1)
            bad |= ~(np.abs(before - after) <= 4 * eps * scale + removed)
    return int(np.argmax(bad)) if bad.any() else None


def _have_same_pairs(finer: Edges, coarse: Edges, cluster: Array, low: int, high: int, loops: bool) -> bool:
    """Return True if a table of all pairs of supernodes shows that the pairs of the coarse edges are right.

    Args:
        finer: Finer edges.
        coarse: Coarse edges. With weights, some pairs may be missing. Without weights, no pair occurs twice.
        cluster: Local supernode of each node of the graphs ``low:high``.
        low: First graph.
        high: End of the range.
        loops: True if the contraction keeps self loops.

    Returns:
        False if they are wrong, or if the table would be too large.
    """
    fine_counts, counts = (np.diff(edges.ptr[low : high + 1]) for edges in (finer, coarse))
    nodes, sizes = (np.diff(edges.nodes[low : high + 1]) for edges in (finer, coarse))
    ends = np.cumsum(sizes**2)
    if not len(ends) or ends[-1] > _DENSE_RATIO * (fine_counts.sum() + counts.sum()):
        return False
    # The pair (s, t) has the position row[s] + t, if t counts inside its graph. The last one belongs to dropped nodes.
    supers, total = coarse.nodes[low:high] - coarse.nodes[low], int(ends[-1])
    width = np.repeat(sizes, sizes)
    row = np.cumsum(width) - width
    chosen = _add(np.repeat(supers, nodes), cluster)
    source, target = _block_ids(finer, low, high)
    position = _add((row.take(chosen) if len(row) else chosen).take(source), cluster.take(target))
    if cluster.min(initial=0) < 0:
        dropped = cluster < 0
        position[dropped[source] | dropped[target]] = total
    wanted = np.zeros(total + 1, bool)
    wanted[position] = True
    wanted[-1] = False
    if not loops:
        wanted[row + np.arange(len(row)) - np.repeat(supers, sizes)] = False
    source, target = coarse.index[:, coarse.ptr[low] : coarse.ptr[high]]
    keys = _add(row.take(_add(np.repeat(supers, counts), source)), target)
    if not wanted.take(keys).all():
        return False
    if coarse.weight is not None:
        return True
    if not (keys[1:] > keys[:-1]).all():  # edges that are not sorted may occur twice
        keys = unique_sorted(np.sort(keys))
    return len(keys) == int(counts.sum()) and np.count_nonzero(wanted) == len(keys)


def _wrong_pairs(
    source: LongArray,
    target: LongArray,
    graph: LongArray,
    coarse: _BlockEdges,
) -> LongArray:
    """Return the graphs whose pairs of supernodes are wrong, see :func:`_have_same_pairs`."""
    width = int(max(ids.max(initial=0) for ids in (source, target, coarse.source, coarse.target))) + 1
    wanted = source * width + target
    keys = coarse.source * width + coarse.target
    pairs, order = unique_sorted(np.sort(wanted)), np.sort(keys)
    wrong = [coarse.graph[~in_sorted(keys, pairs)]]
    if coarse.weight is None:
        twice = order[1:][order[1:] == order[:-1]]
        if len(twice) or len(keys) != len(pairs):
            wrong += [graph[~in_sorted(wanted, order)], coarse.graph[in_sorted(keys, twice)]]
    return np.concatenate(wrong)
