"""One batch out of flat arrays: one take per array and shard, no Python per graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.ragged import Field
from tgp.ragged.hierarchy import AssignmentKind
from tgp.store.format.codec import restore
from tgp.store.format.schema import FieldInfo, LevelInfo
from tgp.store.read.index import Selection
from tgp.store.read.parts import GraphsPart, HierarchyPart, OpenPart, level_paths

__all__ = ["LevelArrays", "RowGather", "check_ids", "first_outside", "take_field", "take_level"]

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


class RowGather:
    """Which rows of arrays cut by one kind of offsets make up a batch.

    Args:
        selection: the graphs.
        ptrs: the offsets of each needed shard; ``None`` means one row per graph.
    """

    def __init__(self, selection: Selection, ptrs: Sequence[npt.NDArray[Any] | None]) -> None:
        self.selection = selection
        self.ptrs = ptrs
        limits = [
            pair if ptr is None else ptr.take(pair).astype(np.int64, copy=False)
            for ptr, pair in zip(ptrs, selection.pairs, strict=True)
        ]
        ends = limits[0] if len(limits) == 1 else np.concatenate(limits, axis=1)
        self._starts = ends[0]
        self._counts = ends[1] - ends[0]
        self.counts = self._counts if selection.back is None else self._counts.take(selection.back)
        self.ptr = _offsets(self.counts)
        self.total = int(self.ptr[-1])

    @cached_property
    def sources(self) -> list[slice | npt.NDArray[np.int64]]:
        """Per shard: positions of the rows in its arrays."""
        if self.selection.run:
            low = int(self._starts[0]) if len(self._starts) else 0
            return [slice(low, low + self.total)]
        inside = self._inside
        positions = np.arange(self.total)
        positions += (self._starts - inside[:-1]).repeat(self._counts)
        if len(self.selection.units) == 1:
            return [positions]
        cuts = inside[self.selection.cuts].tolist()
        return [positions[low:high] for low, high in pairwise(cuts)]

    @cached_property
    def _inside(self) -> Ptr:
        """Offsets in the order of shards."""
        return self.ptr if self.selection.order is None else _offsets(self._counts)

    @cached_property
    def _back(self) -> npt.NDArray[np.int64] | None:
        """Positions that bring rows in the order of shards into the order of the batch."""
        if self.selection.back is None:
            return None
        positions = np.arange(self.total)
        positions += (self._inside.take(self.selection.back) - self.ptr[:-1]).repeat(self.counts)
        return positions

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
        return values.repeat(self.counts)


def _offsets(counts: npt.NDArray[np.int64]) -> Ptr:
    ptr = np.zeros(len(counts) + 1, np.int64)
    counts.cumsum(out=ptr[1:])
    return ptr


def _length(source: slice | npt.NDArray[np.int64]) -> int:
    return source.stop - source.start if isinstance(source, slice) else len(source)


def _rows(array: npt.NDArray[Any], source: slice | npt.NDArray[np.int64], axis: int) -> npt.NDArray[Any]:
    if not isinstance(source, slice):
        return array.take(source, axis=axis)
    where: list[Any] = [slice(None)] * array.ndim
    where[axis] = source
    rows: npt.NDArray[Any] = array[tuple(where)]
    return rows


def check_ids(
    ids: npt.NDArray[Any],
    pick: RowGather,
    target: RowGather,
    parts: Sequence[OpenPart],
    path: str,
    low: int = 0,
    axis: int = -1,
) -> None:
    """Refuse ids outside their graphs, before they are used.

    Only the gathered ids are looked at, until as many have been gathered from a shard as it holds: then all
    of the shard's are checked, and never again. A small array is checked as a whole at once. So checking
    costs about as much as gathering has, and nothing in the long run.

    Args:
        ids: the gathered, still local ids.
        pick: how they were gathered.
        target: the nodes they name.
        parts: the shards.
        path: the array in each shard.
        low: smallest id, -1 where a node may have been dropped.
        axis: the axis graphs follow one another along.
    """
    unchecked = [i for i, part in enumerate(parts) if path not in part.checked]
    if not unchecked:
        return
    graph = first_outside(ids, pick.ptr, target.counts, low, axis)
    if graph is not None:
        part = parts[pick.selection.shard_of(graph)]
        raise part.damaged(path, f"holds an id outside its graph (graph {graph} of the batch)")
    for i in unchecked:
        part = parts[i]
        length = part.info(path).shape[axis]
        part.gathered[path] = part.gathered.get(path, 0) + _length(pick.sources[i])
        if length <= _SCAN_AT_ONCE or part.gathered[path] >= length:
            _check_whole(part, path, pick.ptrs[i], target.ptrs[i], low, axis)


def _check_whole(
    part: OpenPart,
    path: str,
    ptr: npt.NDArray[Any] | None,
    target: npt.NDArray[Any] | None,
    low: int,
    axis: int,
) -> None:
    assert target is not None, "ids name nodes, and nodes have offsets"
    offsets = np.arange(len(target)) if ptr is None else ptr
    graph = first_outside(part.array(path), offsets, target[1:] - target[:-1], low, axis)
    if graph is not None:
        raise part.damaged(path, f"holds an id outside its graph (graph {graph} of the shard)")
    part.checked.add(path)


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


def take_field(info: FieldInfo, parts: Sequence[GraphsPart], pick: RowGather, nodes: RowGather) -> Field:
    """One field of the input graphs of a batch."""
    path = GraphsPart.path(info.name)
    arrays = [part.array(path) for part in parts]
    dtype = np.dtype(info.dtype)
    axis = info.axis
    if dtype.kind == "c":  # stored with one more axis at the end
        axis = 0 if axis == 0 else -2
    taken = pick.own(arrays, np.result_type(*arrays) if dtype.kind in "bc" else dtype, axis)
    if info.shifted:
        check_ids(taken, pick, nodes, parts, path, axis=axis)
    return Field(info.name, restore(taken, info.dtype), pick.ptr, info.axis, info.form, info.shifted)


def take_level(
    level: LevelInfo,
    number: int,
    parts: Sequence[HierarchyPart],
    nodes: RowGather,
    supers: RowGather,
    wanted: Collection[str],
) -> LevelArrays:
    """One level of a batch, ids shifted to those of the batch.

    Args:
        level: what the level holds.
        number: its position in the schedule.
        parts: the shards.
        nodes: rows of the nodes that are pooled.
        supers: rows of the supernodes.
        wanted: optional arrays to read.
    """
    paths = level_paths(number)
    edges = RowGather(nodes.selection, [part.edge_ptrs[number] for part in parts])

    def arrays(name: str) -> list[npt.NDArray[Any] | None]:
        path = paths[name]
        return [part.array(path) if path in part.present else None for part in parts]

    def plain(name: str, pick: RowGather, dtype: npt.DTypeLike, fill: Any = 1) -> npt.NDArray[Any] | None:
        return pick.own(arrays(name), dtype, fill=fill) if name in wanted else None

    def ids(name: str, pick: RowGather, target: RowGather, low: int = 0) -> npt.NDArray[np.int64]:
        local = pick.take(arrays(name), np.int64, axis=-1, fill=-1)
        check_ids(local, pick, target, parts, paths[name], low)
        shifted: npt.NDArray[np.int64] = np.add(local, pick.spread(target.ptr[:-1]), dtype=np.int64)
        if low < 0 and local.dtype.kind == "i":
            shifted[local < 0] = -1
        return shifted

    return LevelArrays(
        level.kind,
        nodes.ptr,
        supers.ptr,
        edges.ptr,
        ids("edge_index", edges, supers),
        plain("edge_weight", edges, level.weight_dtype or np.float32),
        ids("cluster", nodes, supers, low=-1) if "cluster" in wanted else None,
        plain("weight", nodes, np.float32),
        plain("soft", nodes, np.float32, np.zeros(level.width or 0)),
        plain("theta", nodes, np.float32, np.zeros(level.modes or 0)),
        ids("representative", supers, nodes) if "representative" in wanted else None,
    )
