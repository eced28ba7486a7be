"""Compare the coarse edges of a level with the contraction of the finer edges, with plain numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Edges", "first_wrong_contraction", "is_plain_sum", "unit_edges", "unit_ids"]


@dataclass(frozen=True)
class Edges:
    """Edges of all graphs of a unit, on one level. Ids count the nodes of the whole unit."""

    source: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float64] | None
    graph: npt.NDArray[np.int64]


def unit_ids(
    local: npt.NDArray[Any], ptr: npt.NDArray[Any], target: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """Convert local ids to ids of the unit. ``ptr`` cuts the ids into graphs, graph ``g`` starts at ``target[g]``.

    The id -1 stays -1.
    """
    counts: npt.NDArray[np.int64] = np.diff(ptr).astype(np.int64)
    ids = local.astype(np.int64) + np.repeat(target[:-1].astype(np.int64), counts)
    return np.where(local < 0, -1, ids) if local.dtype.kind == "i" else ids


def unit_edges(
    index: npt.NDArray[Any], weight: npt.NDArray[Any] | None, ptr: npt.NDArray[Any], nodes: npt.NDArray[Any]
) -> Edges:
    """Return the edges of all graphs of a unit from local node ids."""
    source, target = (unit_ids(row, ptr, nodes) for row in index)
    graph = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr).astype(np.int64))
    return Edges(source, target, None if weight is None else weight.astype(np.float64), graph)


def is_plain_sum(level: dict[str, Any]) -> bool:
    """Return True if a level of a schedule promises ``A' = S^T A S`` without any scaling."""
    params = level.get("params")
    if not isinstance(params, dict) or params.get("connect_red_op") != "sum":
        return False
    return not params.get("degree_norm") and not params.get("edge_weight_norm")


def _unique_sorted(ordered: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Remove duplicates from sorted numbers. This is faster than ``np.unique``, which hashes."""
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def _in_sorted(values: npt.NDArray[np.int64], ordered: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return a mask of the values that occur in sorted numbers."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    position = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: npt.NDArray[np.bool_] = ordered[position] == values
    return found


def first_wrong_contraction(
    finer: Edges,
    coarse: Edges,
    cluster: npt.NDArray[np.int64],
    options: dict[str, Any],
    dtype: str | None,
    count: int,
) -> int | None:
    """Return the first graph whose coarse edges are not the contraction of the finer edges, or ``None``.

    Compares the pairs of supernodes that are connected, and the total weight of each graph up to rounding.

    Args:
        finer: Edges of the finer level.
        coarse: Edges of the coarse level.
        cluster: Supernode of each node of the finer level, -1 if it was dropped.
        options: Parameters of the level in the schedule.
        dtype: Type of the stored weights.
        count: Number of graphs.
    """
    source, target = cluster[finer.source], cluster[finer.target]
    kept = (source >= 0) & (target >= 0)
    if options.get("remove_self_loops", True):
        kept &= source != target
    width = int(max(cluster.max(initial=0), coarse.source.max(initial=0), coarse.target.max(initial=0))) + 1
    wanted = source[kept] * width + target[kept]
    keys = coarse.source * width + coarse.target
    pairs, order = _unique_sorted(np.sort(wanted)), np.sort(keys)
    bad = np.zeros(count, bool)
    bad[coarse.graph[~_in_sorted(keys, pairs)]] = True
    if coarse.weight is None:
        twice = order[1:][order[1:] == order[:-1]]
        if len(twice) or len(keys) != len(pairs):
            bad[finer.graph[kept][~_in_sorted(wanted, order)]] = True
            bad[coarse.graph[_in_sorted(keys, twice)]] = True
    else:
        weight = np.ones(len(source)) if finer.weight is None else finer.weight
        before = np.bincount(finer.graph[kept], weight[kept], minlength=count)
        after = np.bincount(coarse.graph, coarse.weight, minlength=count)
        scale = np.bincount(finer.graph[kept], np.abs(weight[kept]), minlength=count)
        entries = np.bincount(coarse.graph, minlength=count)
        eps = np.finfo(dtype or "float32").eps
        with np.errstate(invalid="ignore", over="ignore"):  # a damaged file may contain any weights
            # The contraction removes weights up to 1e-8 times the largest one, which is at most the total weight.
            bad |= ~(
                np.abs(before - after) <= 4 * eps * scale + 1e-6 * np.minimum(scale, 1.0) * (entries + 1)
            )
    return int(np.argmax(bad)) if bad.any() else None
