"""Arrays of one graph of a store that are written to a file piece by piece, for graphs that do not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tgp.kernels.array_types import LongArray
from tgp.store import StoreReader
from tgp.store.read.mapped import MappedGraph, MappedRows, map_assignment, map_graph

__all__ = ["LARGE", "StreamedArray", "StreamedValues", "Values", "stream_graph", "stream_level"]

LARGE = 1 << 20
"""Number of edges of a graph from which on its arrays are written in pieces."""

_BLOCK = 1 << 18
"""Number of rows that are in memory at a time."""


@dataclass(frozen=True)
class StreamedArray:
    """Array that is read while it is written.

    Args:
        dtype: type.
        shape: shape.
        blocks: function that yields the values in order.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    blocks: Callable[[], Iterator[npt.NDArray[Any]]]

    def write(self, file: IO[bytes]) -> None:
        """Write the array in the format of ``.npy``."""
        descr = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": descr, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in self.blocks():
            file.write(np.ascontiguousarray(block, self.dtype).tobytes())


Values: TypeAlias = npt.NDArray[Any] | StreamedArray
StreamedValues: TypeAlias = dict[str, tuple[Values, LongArray]]
"""Values and offsets of some attributes, by name."""


def stream_graph(reader: StoreReader, graph: int) -> StreamedValues:
    """Return the attributes of an input graph. Those without one row per node or edge are read.

    Args:
        reader: store.
        graph: id of the graph.
    """
    mapped = map_graph(reader, graph) if "edge_index" in reader.fields else None
    found: StreamedValues = {}
    for name in reader.fields:
        rows = None if mapped is None else (mapped.nodes | mapped.edges).get(name)
        if mapped is not None and name == "edge_index":
            found[name] = _edges(mapped), np.array([0, mapped.edge_rows[1] - mapped.edge_rows[0]])
        elif rows is not None:
            found[name] = _rows(rows), np.array([0, len(rows)])
        else:
            field = reader.read_graph(graph, [name]).fields[name]
            found[name] = field.values, field.ptr
    return found


def stream_level(
    reader: StoreReader, graph: int, hierarchy: str, number: int
) -> tuple[dict[str, Values], StreamedValues]:
    """Return the offsets and arrays of a level of a graph, and its attributes.

    Args:
        reader: store.
        graph: id of the graph.
        hierarchy: name of the hierarchy.
        number: level, from 1.
    """
    info, mapped = reader.level_info(hierarchy, number - 1), map_graph(reader, graph, hierarchy, number)
    finer = int(reader.sizes(hierarchy, number - 1)[0][graph])
    nodes, edges = mapped.num_nodes, mapped.edge_rows[1] - mapped.edge_rows[0]
    ptrs = {"node_ptr": finer, "super_ptr": nodes, "edge_ptr": edges}
    arrays: dict[str, Values] = {name: np.array([0, count]) for name, count in ptrs.items()}
    arrays["edge_index"] = _edges(mapped)
    for name in ("edge_weight", "cluster", "weight", "soft", "theta", "representative"):
        if name not in info.arrays:
            continue
        if name == "edge_weight":
            rows = mapped.edges.get(name)
        else:
            rows = map_assignment(reader, graph, hierarchy, number, name)
        if rows is not None:
            arrays[name] = _rows(rows, {"cluster": (-1, nodes), "representative": (0, finer)}.get(name))
        else:
            level = reader.read_levels(graph, hierarchy, (name,), ())[number - 1]
            arrays[name] = level.arrays()[name]
    fields: StreamedValues = {}
    for field in info.fields:
        rows = (mapped.nodes | mapped.edges).get(field.name)
        if rows is not None:
            fields[field.name] = _rows(rows), np.array([0, len(rows)])
        else:
            values = reader.read_levels(graph, hierarchy, (), (field.name,))[number - 1].fields[field.name]
            fields[field.name] = values.values, values.ptr
    return arrays, fields


def _edges(graph: MappedGraph) -> StreamedArray:
    """Return the edges of a graph as ``int64``."""
    low, high = graph.edge_rows

    def blocks() -> Iterator[npt.NDArray[Any]]:
        for ends in graph.edge_index():
            for start in range(0, high - low, _BLOCK):
                block = np.asarray(ends[start : start + _BLOCK])
                graph.part.check_ids(graph.edge_path, block, 0, graph.num_nodes)
                yield block

    return StreamedArray(np.dtype(np.int64), (2, high - low), blocks)


def _rows(rows: MappedRows, valid: tuple[int, int] | None = None) -> StreamedArray:
    """Return rows of a graph in their original type.

    Args:
        rows: mapped rows.
        valid: smallest id, and the id after the largest one, if the rows are ids.
    """

    def blocks() -> Iterator[npt.NDArray[Any]]:
        for start in range(0, len(rows), _BLOCK):
            block = rows.take(slice(start, start + _BLOCK))
            if valid is not None:
                rows.part.check_ids(rows.path, block, *valid)
            yield block

    return StreamedArray(np.dtype(rows.dtype), rows.shape, blocks)
