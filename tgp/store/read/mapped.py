"""One graph or one level of a store as mapped arrays, for graphs that are not to be loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tgp.errors import InputError
from tgp.kernels.array_types import Array, LongArray
from tgp.store.format.codec import restore
from tgp.store.format.schema import FieldInfo
from tgp.store.read.contents import level_field_path, level_paths
from tgp.store.read.divided_part import DividedPart
from tgp.store.read.piece_array import StoredArray
from tgp.store.read.reader import StoreReader
from tgp.store.read.value_checks import first_too_large, largest_number

__all__ = ["MappedGraph", "MappedRows", "compose_clusters", "map_assignment", "map_graph"]


@dataclass(frozen=True)
class MappedRows:
    """Rows of one graph in a stored array. Only the rows that are taken are read.

    Args:
        part: Open shard.
        path: Path of the array.
        dtype: numpy name of the original type.
        low: First row of the graph.
        high: Row after the last one.
    """

    part: DividedPart
    path: str
    dtype: str
    low: int
    high: int

    def __len__(self) -> int:
        return self.high - self.low

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the original array."""
        tail = self.part.info(self.path).shape[1:]
        return len(self), *(tail[:-1] if self.dtype.startswith("complex") else tail)

    def take(self, index: Any = None) -> Array:
        """Return a copy of some rows in their original type.

        Args:
            index: Slice, or array of row numbers or flags; all rows if ``None``.

        Raises:
            IndexError: If there is no such row.
            StoreDamagedError: If the file has changed, or contains a value that is not of the original type.
        """
        self.part.check_unchanged()
        rows = self.part.stored(self.path)[self.low : self.high]
        values = np.array(rows if index is None else rows[index], order="C")
        high = 1 if self.dtype == "bool" else largest_number(self.dtype)
        if first_too_large(values, high) is not None:
            raise self.part.damaged(self.path, f"holds a number above {high}")
        return restore(values, self.dtype)


@dataclass(frozen=True)
class MappedGraph:
    """One graph of a store.

    Args:
        num_nodes: Number of nodes.
        part: Open shard with the edges.
        edge_path: Path of the edges in it.
        edge_rows: First edge of the graph, and the edge after its last one.
        nodes: Attributes of the nodes, by name.
        edges: Attributes of the edges, by name.
    """

    num_nodes: int
    part: DividedPart
    edge_path: str
    edge_rows: tuple[int, int]
    nodes: dict[str, MappedRows]
    edges: dict[str, MappedRows]

    def edge_index(self) -> tuple[StoredArray, StoredArray]:
        """Return the source and the target of each edge: views of the files in the stored type, which are not checked."""
        self.part.check_unchanged()
        low, high = self.edge_rows
        source, target = self.part.stored(self.edge_path)[:, low:high]
        return source, target


def map_graph(reader: StoreReader, graph: int, hierarchy: str | None = None, level: int = 0) -> MappedGraph:
    """Return one graph, or one of its levels, as mapped arrays. In the small profile, arrays are decoded when they are used.

    Args:
        reader: Reader of the store.
        graph: Graph id.
        hierarchy: Name of the hierarchy; not needed for level 0.
        level: 0 for the input graph, 1 for the first pooled graph, and so on.

    Raises:
        InputError: If there is no such graph or level, or if the input graph has no edges.
    """
    unit, row = reader._locate(graph)
    if level:
        return _map_level(reader, unit, row, str(hierarchy), level - 1)
    part = reader._graphs_part(unit)
    if part.edge_ptr is None:
        raise InputError("the graphs of the store have no edges: expected 'edge_index'", field="edge_index")
    nodes, edges = _span(part.node_ptr, row), _span(part.edge_ptr, row)
    fields = [info for info in reader.fields.values() if _is_plain(info)]
    return MappedGraph(
        nodes[1] - nodes[0],
        part,
        part.path("edge_index"),
        edges,
        {i.name: MappedRows(part, part.path(i.name), i.dtype, *nodes) for i in fields if i.ptr == "node"},
        {i.name: MappedRows(part, part.path(i.name), i.dtype, *edges) for i in fields if i.ptr == "edge"},
    )


def map_assignment(
    reader: StoreReader, graph: int, hierarchy: str, level: int, name: str = "cluster"
) -> MappedRows | None:
    """Return the supernode of each node of the level before, -1 if it was dropped, or another array of the assignment.

    Args:
        reader: Reader of the store.
        graph: Graph id.
        hierarchy: Name of the hierarchy.
        level: 1 for the first pooled graph, and so on.
        name: Name of the array: ``"cluster"``, which a soft assignment does not have, ``"weight"``, ``"soft"``, ``"theta"``, or
            ``"representative"``, which has a row for each supernode instead.

    Returns:
        The array, ``None`` if the file does not contain it.
    """
    info = reader.level_info(hierarchy, level - 1)
    unit, row = reader._locate(graph)
    part, path = reader._hierarchy_part(hierarchy, unit), level_paths(level - 1)[name]
    if path not in part.present or (name == "cluster" and info.kind == "soft"):
        return None
    dtype = "int64" if name in ("cluster", "representative") else "float32"
    ptr = part.node_ptrs[level if name == "representative" else level - 1]
    return MappedRows(part, path, dtype, *_span(ptr, row))


def compose_clusters(reader: StoreReader, graph: int, hierarchy: str, level: int) -> LongArray | None:
    """Return the supernode at a level of each node of the input graph, -1 for dropped nodes; ``None`` after a soft assignment.

    Args:
        reader: Reader of the store.
        graph: Graph id.
        hierarchy: Name of the hierarchy.
        level: 0 for the input graph, 1 for the first pooled graph, and so on.
    """
    cluster = np.arange(int(reader.sizes()[0][graph]))
    for number in range(1, level + 1):
        step = map_assignment(reader, graph, hierarchy, number)
        if step is None:
            return None
        kept = cluster >= 0
        cluster[kept] = step.take()[cluster[kept]]
    return cluster


def _map_level(reader: StoreReader, unit: int, row: int, hierarchy: str, number: int) -> MappedGraph:
    info, paths = reader.level_info(hierarchy, number), level_paths(number)
    part = reader._hierarchy_part(hierarchy, unit)
    nodes, edges = _span(part.node_ptrs[number + 1], row), _span(part.edge_ptrs[number], row)
    found: dict[str, dict[str, MappedRows]] = {"node": {}, "edge": {}}
    if paths["edge_weight"] in part.present:
        dtype = str(info.weight_dtype or "float32")
        found["edge"]["edge_weight"] = MappedRows(part, paths["edge_weight"], dtype, *edges)
    for field in info.fields:
        path = level_field_path(number, field.name)
        if _is_plain(field) and field.ptr in found and path in part.present:
            rows = nodes if field.ptr == "node" else edges
            found[field.ptr][field.name] = MappedRows(part, path, field.dtype, *rows)
    return MappedGraph(nodes[1] - nodes[0], part, paths["edge_index"], edges, found["node"], found["edge"])


def _is_plain(info: FieldInfo) -> bool:
    """Return True for a tensor with one row per node or edge."""
    return info.axis == 0 and info.form == "rows" and not info.shifted


def _span(ptr: Array, row: int) -> tuple[int, int]:
    return int(ptr[row]), int(ptr[row + 1])
