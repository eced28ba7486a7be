"""Compare the coarse edges of one large graph with the contraction of the finer edges, in pieces of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.ragged.offsets import offsets
from tgp.store.contraction import Edges, first_wrong_contraction
from tgp.store.read.piece_array import PieceArray, StoredArray, iter_blocks

__all__ = ["first_disordered_piece", "is_divided", "is_wrong_contraction", "loaded_edges"]

Array = npt.NDArray[Any]
Ids = npt.NDArray[np.int64]

_PIECE = 1 << 18
"""Number of edges that are in memory at a time."""


def is_divided(edges: Edges) -> bool:
    """Return True if edges are in several files."""
    return isinstance(edges.index, PieceArray)


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

    This compares the same as :func:`~tgp.store.contraction.first_wrong_contraction`. Memory holds some numbers per supernode and one bit
    per coarse edge. If the coarse edges are not sorted by source and target, all edges are read into memory.

    Args:
        finer: Edges of the finer level.
        coarse: Edges of the coarse level.
        cluster: Supernode of each node of the finer level, -1 if it was dropped.
        options: Parameters of the level in the schedule.
        dtype: Type of the stored weights.
    """
    rows = _row_pointers(coarse)
    if rows is None:
        loaded = loaded_edges(finer), loaded_edges(coarse)
        return first_wrong_contraction(*loaded, cluster, options, dtype) is not None
    loops, marks = not options.get("remove_self_loops", True), _Marks(int(rows[-1]))
    targets, total, scale = coarse.index[1], 0.0, 0.0
    for source, target, weight in _blocks(finer):
        first, second = cluster[source].astype(np.int64), cluster[target].astype(np.int64)
        kept = (first >= 0) & (second >= 0)
        if not loops:
            kept &= first != second
        place, is_found = _find(targets, rows, first[kept], second[kept])
        if coarse.weight is None and not is_found.all():
            return True
        marks.add(place[is_found])
        chosen = np.ones(int(kept.sum())) if weight is None else weight[kept]
        with np.errstate(invalid="ignore", over="ignore"):  # a damaged file may contain any weights
            total += float(chosen.sum())
            scale += float(np.abs(chosen).sum())
    return not marks.is_full or (
        coarse.weight is not None and _differs(coarse, total, scale, float(np.finfo(dtype or "float32").eps))
    )


def _differs(coarse: Edges, total: float, scale: float, eps: float) -> bool:
    """Return True if the sum of the coarse weights differs from that of the finer weights by more than rounding."""
    assert coarse.weight is not None
    with np.errstate(invalid="ignore", over="ignore"):
        after = sum(float(block.astype(np.float64).sum()) for _, block in iter_blocks(coarse.weight, _PIECE))
    # The contraction removes weights up to 1e-8 times the largest one, which is at most the total weight.
    removed = 1e-6 * min(scale, 1.0) * (int(coarse.ptr[-1]) + 1)
    return not abs(total - after) <= 4 * eps * scale + removed


def _blocks(edges: Edges) -> Iterator[tuple[Array, Array, Array | None]]:
    """Yield sources, targets and weights of pieces of the edges."""
    for low, block in iter_blocks(edges.index, _PIECE, axis=-1):
        weight = None
        if edges.weight is not None:
            rows = np.asarray(edges.weight[low : low + block.shape[1]])
            weight = rows.reshape(-1).astype(np.float64)
        yield block[0], block[1], weight


def _row_pointers(edges: Edges) -> Ids | None:
    """Return the first edge of each node, or ``None`` if edges are not sorted by source and target, or occur twice."""
    counts, last = np.zeros(int(edges.nodes[-1]), np.int64), (-1, -1)
    for source, target, _ in _blocks(Edges(edges.index, None, edges.ptr, edges.nodes)):
        first, second = source.astype(np.int64), target.astype(np.int64)
        step, inner = np.diff(first, prepend=last[0]), np.diff(second, prepend=last[1])
        if not ((step > 0) | ((step == 0) & (inner > 0))).all():
            return None
        last = int(first[-1]), int(second[-1])
        counts[first[0] : last[0] + 1] += np.bincount(first - first[0])
    return offsets(counts)


def _find(targets: StoredArray, rows: Ids, row: Ids, value: Ids) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Return the position of a value in each of some ascending rows by bisection, and a mask of the values that are there."""
    low, high = rows[row], rows[row + 1]
    end = high.copy()
    while (low < high).any():
        is_open = np.flatnonzero(low < high)
        middle = (low[is_open] + high[is_open]) // 2
        is_less = targets[middle] < value[is_open]
        low[is_open] = np.where(is_less, middle + 1, low[is_open])
        high[is_open] = np.where(is_less, high[is_open], middle)
    found = low < end
    found[found] = targets[low[found]] == value[found]
    return low, found


class _Marks:
    """One bit per number.

    Args:
        count: Number of bits.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._bits = np.zeros(-(-count // 8), np.uint8)

    def add(self, numbers: Ids) -> None:
        """Set the bits of some numbers."""
        np.bitwise_or.at(self._bits, numbers >> 3, (1 << (numbers & 7)).astype(np.uint8))

    @property
    def is_full(self) -> bool:
        """True if all bits are set."""
        rest = self.count % 8
        whole = self._bits[:-1] if rest else self._bits
        return bool((whole == 255).all()) and (not rest or int(self._bits[-1]) == (1 << rest) - 1)
