"""Compare the coarse edges of one large graph with the contraction of the finer edges, some coarse rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tgp.kernels.array_types import Array, FloatArray, LongArray
from tgp.ragged.fields import take_ragged
from tgp.ragged.offsets import offsets
from tgp.store.contraction_check import Edges, first_wrong_contraction, in_sorted, unique_sorted
from tgp.store.read.piece_array import PieceArray, StoredArray, iter_blocks

__all__ = ["first_disordered_piece", "is_one_large_graph", "is_wrong_contraction", "loaded_edges"]


_PIECE = 1 << 18
"""Number of edges that are in memory at a time."""

_LARGE = 1 << 20
"""Number of edges of a graph in one file from which on it is compared by some rows at a time. This needs a fifth of the memory."""


def is_one_large_graph(edges: Edges) -> bool:
    """Return True for edges that :func:`is_wrong_contraction` should compare: those of one graph that are many or in several files."""
    return len(edges.ptr) == 2 and (isinstance(edges.index, PieceArray) or int(edges.ptr[-1]) >= _LARGE)


def loaded_edges(edges: Edges) -> Edges:
    """Return edges with all arrays in memory."""
    weight = None if edges.weight is None else np.asarray(edges.weight).reshape(-1)
    return Edges(np.asarray(edges.index), weight, edges.ptr, edges.nodes)


def first_disordered_piece(array: StoredArray, spans: Sequence[tuple[int, int]]) -> int | None:
    """Return the first piece with a source outside its rows, or below the one before it; ``None`` if there is none.

    Args:
        array: ``[2, E]`` edges.
        spans: Rows of each piece; none if the edges are in one file.
    """
    if not isinstance(array, PieceArray):
        return None
    for number, (low, high) in enumerate(spans):
        source = array.piece(number)[0]
        if (source[1:] < source[:-1]).any() or (len(source) and not low <= source[0] <= source[-1] < high):
            return number
    return None


def is_wrong_contraction(
    finer: Edges, coarse: Edges, cluster: Array, options: dict[str, Any], dtype: str | None
) -> bool:
    """Return True if the coarse edges of one graph are not the contraction of the finer edges.

    This compares the same as :func:`~tgp.store.contraction_check.first_wrong_contraction`, for some coarse rows at a time: the rows of their
    members are read, and the pairs of supernodes are sorted. Memory holds some numbers per node. If the edges of a level are not sorted
    by source, which is only possible in one file, the edges of both levels are read into memory.

    Args:
        finer: Edges of the finer level.
        coarse: Edges of the coarse level.
        cluster: Supernode of each node of the finer level, -1 if it was dropped.
        options: Parameters of the level in the schedule.
        dtype: Type of the stored weights.
    """
    finer_rows, rows = _row_pointers(finer), _row_pointers(coarse)
    if finer_rows is None or rows is None:
        loaded = loaded_edges(finer), loaded_edges(coarse)
        return first_wrong_contraction(*loaded, cluster, options, dtype) is not None
    loops, size = not options.get("remove_self_loops", True), len(rows) - 1
    order, members, work = _order_members(cluster, finer_rows, size)
    work += rows
    steps = np.searchsorted(work, np.arange(_PIECE, int(work[-1]), _PIECE))
    total = scale = 0.0
    for low, high in pairwise(np.unique(np.concatenate([[0], steps, [size]])).tolist()):
        nodes = np.sort(order[members[low] : members[high]]).astype(np.int64)
        source, target, weight = _contracted_edges(finer, finer_rows, cluster, nodes, loops)
        wanted = _pair_numbers(source, target, low, high, size)
        wanted.sort()
        wanted = unique_sorted(wanted)
        source, target = (np.asarray(ids[rows[low] : rows[high]]) for ids in coarse.index)
        found = _pair_numbers(source, target, low, high, size)
        if not np.array_equal(found, wanted):
            found.sort()
            is_complete = np.array_equal(found, wanted)
            if not is_complete and (coarse.weight is None or not in_sorted(found, wanted).all()):
                return True
        with np.errstate(invalid="ignore", over="ignore"):  # a damaged file may contain any weights
            total += float(weight.sum())
            scale += float(np.abs(weight).sum())
    return coarse.weight is not None and _differs(
        coarse, total, scale, float(np.finfo(dtype or "float32").eps)
    )


def _order_members(cluster: Array, rows: LongArray, size: int) -> tuple[Array, LongArray, LongArray]:
    """Sort nodes by supernode.

    Args:
        cluster: Supernode of each node, -1 if it was dropped.
        rows: First edge of each node.
        size: Number of supernodes.

    Returns:
        Nodes by supernode, the dropped ones first; the first member of each supernode in this order; and the number of edges of all
        supernodes before each.
    """
    counts, degree = np.zeros((2, size), np.int64)
    for low in range(0, len(cluster), _PIECE):
        ids = cluster[low : low + _PIECE]
        kept = ids >= 0
        np.add.at(counts, ids[kept], 1)
        np.add.at(degree, ids[kept], np.diff(rows[low : low + len(ids) + 1])[kept])
    order = np.argsort(cluster, kind="stable").astype(np.min_scalar_type(len(cluster)))
    members = offsets(counts)
    members += len(cluster) - members[-1]
    return order, members, offsets(degree)


def _contracted_edges(
    finer: Edges, rows: LongArray, cluster: Array, nodes: LongArray, loops: bool
) -> tuple[Array, Array, FloatArray]:
    """Return the supernodes that the edges of some nodes connect, and the weights of these edges.

    Args:
        finer: Edges of the finer level.
        rows: First edge of each node.
        cluster: Supernode of each node, -1 if it was dropped.
        nodes: Nodes that were not dropped, ascending.
        loops: True if the contraction keeps self loops.
    """
    ptr, places = take_ragged(rows, nodes)
    source, target = np.repeat(cluster[nodes], np.diff(ptr)), cluster[finer.index[1][places]]
    kept = target >= 0
    if not loops:
        kept &= source != target
    source, target = source[kept], target[kept]
    if finer.weight is None:
        return source, target, np.ones(len(source))
    return source, target, finer.weight[places[kept]].reshape(-1).astype(np.float64)


def _pair_numbers(source: Array, target: Array, low: int, high: int, size: int) -> Array:
    """Return a number for each pair of a supernode from ``low`` to ``high`` and any other. Small numbers are sorted in half of the time."""
    dtype = np.uint32 if (high - low) * size < 2**32 else np.int64
    numbers = source.astype(dtype)
    numbers -= dtype(low)
    numbers *= dtype(size)
    numbers += target.astype(dtype)
    return numbers


def _differs(coarse: Edges, total: float, scale: float, eps: float) -> bool:
    """Return True if the sum of the coarse weights differs from that of the finer weights by more than rounding."""
    assert coarse.weight is not None
    with np.errstate(invalid="ignore", over="ignore"):
        after = sum(float(block.astype(np.float64).sum()) for _, block in iter_blocks(coarse.weight, _PIECE))
    # The contraction removes weights up to 1e-8 times the largest one, which is at most the total weight.
    removed = 1e-6 * min(scale, 1.0) * (int(coarse.ptr[-1]) + 1)
    return not abs(total - after) <= 4 * eps * scale + removed


def _row_pointers(edges: Edges) -> LongArray | None:
    """Return the first edge of each node, or ``None`` if edges are not sorted by source."""
    counts, last = np.zeros(int(edges.nodes[-1]), np.int64), -1
    for _, source in iter_blocks(edges.index[0], _PIECE):
        if not last <= int(source[0]) or (source[1:] < source[:-1]).any():
            return None
        first, last = int(source[0]), int(source[-1])
        counts[first : last + 1] += np.bincount(source.astype(np.int64) - first)
    return offsets(counts)
