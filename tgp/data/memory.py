"""A store's arrays held in memory: the reader of ``PooledDataset(..., in_memory=True)``."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.ragged import Field, GraphTable
from tgp.store.read.batch_plan import BatchPlan, Layout, UnitArrays
from tgp.store.read.gather import LevelArrays, RowGather
from tgp.store.read.index import Selection, locate
from tgp.store.read.reader import StoreReader

__all__ = ["MemoryReader"]

Array = npt.NDArray[Any]


class MemoryReader:
    """Serves what a :class:`~tgp.store.StoreReader` serves, out of arrays read once.

    All shards become one, so that a shuffled batch needs a single take per array. Pickling leaves the arrays behind;
    the other side reads them again.

    Args:
        reader: the store.
        hierarchy: the hierarchy to hold, if any.
        levels: its levels to hold.
        fields: attributes to hold; all if ``None``.
    """

    def __init__(
        self,
        reader: StoreReader,
        hierarchy: str | None,
        levels: Sequence[int],
        fields: Collection[str] | None,
    ) -> None:
        self.reader = reader
        self.held = (hierarchy, tuple(levels), None if fields is None else tuple(fields))
        self._load()

    def _load(self) -> None:
        hierarchy, levels, fields = self.held
        everything = np.arange(self.reader.num_graphs)
        self._bounds = np.array([0, self.reader.num_graphs])
        self.table = self.reader.gather_graphs(everything, fields)
        found = self.reader.gather_levels(everything, hierarchy, levels) if hierarchy and levels else []
        self._ptrs: dict[int, Array] = {}
        self._levels: dict[int, LevelArrays] = {}
        for number, level in zip(levels, found, strict=False):
            self._levels[number] = self._local(number, level)
        self._protect()

    def _protect(self) -> None:
        """Rows that lie together are taken as views: read-only arrays make sure that batches copy them."""
        held = [field.values for field in self.table.fields.values()]
        held += [
            a for level in self._levels.values() for a in vars(level).values() if isinstance(a, np.ndarray)
        ]
        for array in held:
            array.flags.writeable = False

    def _local(self, number: int, level: LevelArrays) -> LevelArrays:
        """Ids of each graph's own nodes, in 32 bits; offsets shared between neighbouring levels."""
        nodes = self._ptrs.setdefault(number, level.node_ptr)
        supers = self._ptrs.setdefault(number + 1, level.super_ptr)
        return LevelArrays(
            level.kind,
            nodes,
            supers,
            level.edge_ptr,
            _lowered(level.edge_index, level.edge_ptr, supers),
            level.edge_weight,
            None if level.cluster is None else _lowered(level.cluster, nodes, supers),
            level.weight,
            level.soft,
            level.theta,
            None if level.representative is None else _lowered(level.representative, supers, nodes),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"reader": self.reader, "held": self.held}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._load()

    def batch_plan(
        self, hierarchy: str | None, levels: Sequence[int], fields: Collection[str] | None = None
    ) -> BatchPlan | None:
        """See :meth:`tgp.store.StoreReader.batch_plan`."""
        infos = [self.reader.fields[name] for name in (self.table.fields if fields is None else fields)]
        if sys.byteorder != "little" or not all(Layout.supports(info) for info in infos):
            return None
        named = [(number, self.reader.level_info(str(hierarchy), number)) for number in levels]
        layout = Layout(infos, named)
        cuts = [self._cut(*key) for key in layout.cuts]
        arrays = [self._array(*column.key) for column in layout.columns]
        return BatchPlan(layout, self._bounds, lambda unit: UnitArrays(cuts, arrays, ()))

    def _cut(self, kind: Any, which: Any) -> Array | None:
        if kind == "step":
            return self._ptrs[which] if which else self.table.node_ptr
        if kind == "edges":
            return self._levels[which].edge_ptr
        if kind == "own":
            return self.table.fields[which].ptr
        return self._edge_ptr() if kind == "edge" else None

    def _edge_ptr(self) -> Array:
        """Offsets of the input edges: those of any field that is cut by them."""
        infos = self.reader.fields
        return next(f.ptr for name, f in self.table.fields.items() if infos[name].ptr == "edge")

    def _array(self, kind: Any, which: Any) -> Array | None:
        if kind == "field":
            values = self.table.fields[which].values
            return values.view(np.uint8) if values.dtype == np.bool_ else values
        return None if kind == "batch" else getattr(self._levels[kind], which)

    def gather_graphs(self, ids: npt.ArrayLike, fields: Collection[str] | None = None) -> GraphTable:
        """Input graphs in the order of ``ids``, with all or some of the fields held."""
        selection = locate(self._bounds, ids)
        nodes = RowGather(selection, [self.table.node_ptr])
        picks = {id(self.table.node_ptr): nodes}
        taken = {}
        for name in self.table.fields if fields is None else fields:
            field = self.table.fields[name]
            pick = picks.get(id(field.ptr))
            if pick is None:
                pick = picks[id(field.ptr)] = RowGather(selection, [field.ptr])
            values = pick.own([field.values], field.values.dtype, field.axis)
            taken[name] = Field(name, values, pick.ptr, field.axis, field.form, field.shifted)
        return GraphTable(nodes.ptr, taken)

    def gather_levels(self, ids: npt.ArrayLike, hierarchy: str, levels: Sequence[int]) -> list[LevelArrays]:
        """Levels of some graphs in the order of ``ids``."""
        selection = locate(self._bounds, ids)
        picks: dict[int, RowGather] = {}
        return [self._take(self._levels[number], selection, picks) for number in levels]

    def _take(self, level: LevelArrays, selection: Selection, picks: dict[int, RowGather]) -> LevelArrays:
        def pick(ptr: Array) -> RowGather:
            found = picks.get(id(ptr))
            if found is None:
                found = picks[id(ptr)] = RowGather(selection, [ptr])
            return found

        def plain(values: Array | None, rows: RowGather) -> Array | None:
            return None if values is None else rows.own([values], values.dtype)

        def ids(values: Array | None, rows: RowGather, target: RowGather) -> Array | None:
            if values is None:
                return None
            local = rows.take([values], values.dtype, axis=-1)
            shifted = local + rows.spread(target.ptr[:-1])
            if level.cluster is values:
                np.copyto(shifted, -1, where=local < 0)
            return shifted

        nodes, supers, edges = pick(level.node_ptr), pick(level.super_ptr), pick(level.edge_ptr)
        return LevelArrays(
            level.kind,
            nodes.ptr,
            supers.ptr,
            edges.ptr,
            ids(level.edge_index, edges, supers),
            plain(level.edge_weight, edges),
            ids(level.cluster, nodes, supers),
            plain(level.weight, nodes),
            plain(level.soft, nodes),
            plain(level.theta, nodes),
            ids(level.representative, supers, nodes),
        )


def _lowered(values: Array, ptr: Array, target: Array) -> Array:
    """Batch ids as ids inside their graph; -1 stays."""
    local = values - np.repeat(target[:-1], np.diff(ptr))
    local[values < 0] = -1
    return local.astype(np.int32) if not local.size or local.max() < 2**31 else local
