"""One batch out of flat arrays: one take per array and shard, no Python per graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.ragged.hierarchy import AssignmentKind
from tgp.store.index import Selection
from tgp.store.parts import OpenPart

__all__ = ["LevelArrays", "Pick", "check_ids", "first_outside"]

_SCAN_AT_ONCE = 1 << 16
"""Id arrays up to this size are checked as a whole on first use."""

Ptr = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LevelArrays:
    """One level of a batch of graphs. All ids are those of the batch.

    Args:
        kind: kind of assignment, see :class:`tgp.ragged.Assignment`.
        node_ptr: ``[B + 1]`` offsets of the nodes that are pooled.
        super_ptr: ``[B + 1]`` offsets of the supernodes.
        edge_ptr: ``[B + 1]`` offsets of the coarse edges.
        edge_index: ``[2, E]`` int64 coarse edges between supernodes.
        edge_weight: ``[E]`` or ``None``.
        cluster: ``[N]`` int64 supernode of each node, -1 if dropped; ``None`` for soft assignments.
        weight: ``[N]`` values of ``S``; ``None`` means ones.
        soft: ``[N, k]`` dense ``S``.
        theta: ``[N, H]`` eigenvector modes.
        representative: ``[K]`` int64 node that stands for each supernode.
    """

    kind: AssignmentKind
    node_ptr: Ptr
    super_ptr: Ptr
    edge_ptr: Ptr
    edge_index: npt.NDArray[np.int64]
    edge_weight: npt.NDArray[Any] | None = None
    cluster: npt.NDArray[np.int64] | None = None
    weight: npt.NDArray[Any] | None = None
    soft: npt.NDArray[Any] | None = None
    theta: npt.NDArray[Any] | None = None
    representative: npt.NDArray[np.int64] | None = None


class Pick:
    """Which rows of arrays cut by one kind of offsets make up a batch.

    Args:
        selection: the graphs.
        ptrs: the offsets of each needed shard; ``None`` means one row per graph.
    """

    def __init__(self, selection: Selection, ptrs: Sequence[npt.NDArray[Any] | None]) -> None:
        self.selection = selection
        starts, counts = [], []
        for ptr, rows in zip(ptrs, selection.rows, strict=True):
            low = rows if ptr is None else ptr.take(rows).astype(np.int64)
            high = rows + 1 if ptr is None else ptr.take(rows + 1).astype(np.int64)
            starts.append(low)
            counts.append(high - low)
        self._counts = counts[0] if len(counts) == 1 else np.concatenate(counts)
        self._starts = starts[0] if len(starts) == 1 else np.concatenate(starts)
        order = selection.order
        self.counts = self._counts
        if order is not None:
            self.counts = np.empty_like(self._counts)
            self.counts[order] = self._counts
        self.ptr = _offsets(self.counts)

    @property
    def total(self) -> int:
        return int(self.ptr[-1])

    @cached_property
    def sources(self) -> list[slice | npt.NDArray[np.int64]]:
        """Per shard: positions of the rows in its arrays."""
        inside = self.ptr if self.selection.order is None else _offsets(self._counts)
        if len(self.selection.units) == 1 and _consecutive(self._starts, self._counts):
            low = int(self._starts[0]) if len(self._starts) else 0
            return [slice(low, low + self.total)]
        positions = np.arange(self.total) + np.repeat(self._starts - inside[:-1], self._counts)
        cuts = inside[self._cuts]
        return [positions[low:high] for low, high in zip(cuts[:-1], cuts[1:], strict=True)]

    @cached_property
    def _cuts(self) -> Ptr:
        return _offsets(np.array([len(rows) for rows in self.selection.rows]))

    @cached_property
    def _back(self) -> npt.NDArray[np.int64] | None:
        """Positions that bring rows in the order of shards into the order of the batch."""
        order = self.selection.order
        if order is None:
            return None
        inside = _offsets(self._counts)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return np.arange(self.total) + np.repeat(inside[place] - self.ptr[:-1], self.counts)

    def take(
        self, arrays: Sequence[npt.NDArray[Any] | None], dtype: npt.DTypeLike, axis: int = 0, fill: Any = 1
    ) -> npt.NDArray[Any]:
        """The batch's rows of one array, given for each shard; ``None`` stands for rows of ``fill``.

        ``dtype`` is that of the result if there are several shards. The result may be a view of the store.
        """
        pieces = [
            np.full((_length(source), *np.shape(fill)), fill, dtype)
            if array is None
            else _rows(array, source, axis)
            for array, source in zip(arrays, self.sources, strict=True)
        ]
        if len(pieces) == 1:
            return pieces[0]
        along = axis % pieces[0].ndim
        joined = np.concatenate(pieces, axis=along, dtype=dtype, casting="unsafe")
        return joined if self._back is None else joined.take(self._back, axis=along)

    def own(
        self, arrays: Sequence[npt.NDArray[Any] | None], dtype: npt.DTypeLike, axis: int = 0, fill: Any = 1
    ) -> npt.NDArray[Any]:
        """As :meth:`take`, but of type ``dtype`` and never a view: what callers get is theirs."""
        taken = self.take(arrays, dtype, axis, fill).astype(dtype, copy=False)
        return taken if taken.flags.writeable else taken.copy()

    def spread(self, values: Ptr) -> Ptr:
        """One value per graph -> one value per row."""
        return np.repeat(values, self.counts)


def _offsets(counts: npt.NDArray[np.int64]) -> Ptr:
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def _consecutive(starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> bool:
    return bool((starts[1:] == starts[:-1] + counts[:-1]).all())


def _length(source: slice | npt.NDArray[np.int64]) -> int:
    return source.stop - source.start if isinstance(source, slice) else len(source)


def _rows(array: npt.NDArray[Any], source: slice | npt.NDArray[np.int64], axis: int) -> npt.NDArray[Any]:
    if not isinstance(source, slice):
        return array.take(source, axis=axis)
    where: list[Any] = [slice(None)] * array.ndim
    where[axis] = source
    return array[tuple(where)]


def check_ids(
    part: OpenPart,
    path: str,
    ptr: npt.NDArray[Any] | None,
    sizes: npt.NDArray[Any],
    rows: npt.NDArray[np.int64],
    low: int = 0,
    axis: int = -1,
) -> None:
    """Refuse ids outside ``[low, size of their graph)`` before they are used.

    Args:
        part: the shard.
        path: the array of ids in it.
        ptr: its offsets; ``None`` for one row per graph.
        sizes: nodes of each graph of the shard.
        rows: graphs about to be gathered. Only theirs are looked at, until as many ids have been gathered as
            the array holds: then all are checked, and never again. A small array is checked at once.
        low: smallest id, -1 where a node may have been dropped.
        axis: the axis graphs follow one another along.
    """
    if path in part.checked:
        return
    array = part.array(path)
    length = array.shape[axis]
    offsets = np.arange(len(sizes) + 1) if ptr is None else ptr
    if length > _SCAN_AT_ONCE:
        pick = Pick(Selection(len(rows), (0,), (rows,), None), [offsets])
        part.gathered[path] = part.gathered.get(path, 0) + pick.total
        if part.gathered[path] < length:
            found = first_outside(pick.take([array], array.dtype, axis), pick.ptr, sizes[rows], low, axis)
            _refuse(part, path, None if found is None else int(rows[found]))
            return
    _refuse(part, path, first_outside(array, offsets, sizes, low, axis))
    part.checked.add(path)


def _refuse(part: OpenPart, path: str, row: int | None) -> None:
    if row is not None:
        raise part.damaged(path, f"holds an id outside its graph (row {row} of the shard)")


def first_outside(
    ids: npt.NDArray[Any], ptr: npt.NDArray[Any], sizes: npt.NDArray[Any], low: int = 0, axis: int = -1
) -> int | None:
    """The first graph with an id outside ``[low, its size)``, found by each graph's largest and smallest id."""
    if not ids.size:
        return None
    flat = np.moveaxis(ids, axis, -1).reshape(-1, ids.shape[axis])
    filled = np.flatnonzero(ptr[1:] > ptr[:-1])
    starts = ptr[filled].astype(np.int64)
    largest = np.maximum.reduceat(flat, starts, axis=-1)
    bad = (largest.astype(np.int64) >= sizes[filled].astype(np.int64)).any(axis=0)
    if largest.dtype.kind == "u" and largest.dtype.itemsize == 8:
        bad |= (largest > np.iinfo(np.int64).max).any(axis=0)  # such ids turned negative above
    if ids.dtype.kind == "i":
        bad |= (np.minimum.reduceat(flat, starts, axis=-1) < low).any(axis=0)
    return int(filled[np.argmax(bad)]) if bad.any() else None
