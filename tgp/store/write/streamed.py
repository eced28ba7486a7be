"""Write the shard files of one graph whose arrays do not fit in memory.

The files have the same bytes as those of :mod:`tgp.store.write.shard`. Arrays of the fast profile are contiguous, so their place in the
file is known before their values are, and the values are written piece by piece. A graph with more edges than
``StoreSpec.shard_edges`` is divided over several files, see :mod:`tgp.store.write.divided`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tgp.kernels.array_types import Array
from tgp.ragged import Field, GraphTable
from tgp.store.format import constants as fmt
from tgp.store.format.codec import integer_type
from tgp.store.format.data_digest import DataDigest
from tgp.store.format.manifest import PartRecord
from tgp.store.format.schema import LevelInfo
from tgp.store.io.sink import Sink
from tgp.store.write.divided import (
    NOT_DIVIDED,
    Column,
    Ranges,
    Target,
    find_ranges,
    write_columns,
    write_pieces,
)
from tgp.store.write.field_infos import graph_field_info
from tgp.store.write.limits import check_rows
from tgp.store.write.shard import PartSummary, ShardFile
from tgp.store.write.writer import StoreWriter

__all__ = [
    "StreamedGraph",
    "StreamedLevel",
    "streamed_digest",
    "write_streamed_graph",
    "write_streamed_levels",
]

_EDGES = ("edge_index", "edge_weight")

EdgePiece = tuple[Array, Array, Array | None]
"""Sources, targets and weights of consecutive edges."""


@dataclass(frozen=True)
class StreamedGraph:
    """One graph whose edges are read piece by piece.

    Args:
        num_nodes: Number of nodes.
        num_edges: Number of stored edges.
        max_id: Largest id in the list of edges; 0 if there are none.
        edges: Function that yields the edges, sorted by source and target.
        weight_dtype: Name of the type of the weights; ``None`` if there are none.
        nodes: Attributes of the nodes: their type, and a function that yields the values.
    """

    num_nodes: int
    num_edges: int
    max_id: int
    edges: Callable[[], Iterator[EdgePiece]]
    weight_dtype: str | None = None
    nodes: Mapping[str, tuple[str, Callable[[], Iterable[Array]]]] | None = None

    def model(self) -> GraphTable:
        """Return a table with the schema of the graph. All values are 0 and need no memory."""
        node_ptr = np.array([0, self.num_nodes])
        edge_ptr = np.array([0, self.num_edges])
        index = np.broadcast_to(np.int64(0), (2, self.num_edges))
        fields = {"edge_index": Field("edge_index", index, edge_ptr, axis=-1, shifted=True)}
        if self.weight_dtype is not None:
            weight = np.broadcast_to(np.zeros((), self.weight_dtype), (self.num_edges,))
            fields["edge_weight"] = Field("edge_weight", weight, edge_ptr)
        for name, (dtype, _) in (self.nodes or {}).items():
            values = np.broadcast_to(np.zeros((), dtype), (self.num_nodes,))
            fields[name] = Field(name, values, node_ptr)
        return GraphTable(node_ptr, fields)


@dataclass(frozen=True)
class StreamedLevel:
    """One level of a streamed graph.

    Args:
        method: Name of the level method.
        graph: The coarse graph.
        num_fine_nodes: Number of nodes of the finer graph.
        cluster: Function that yields the supernode of each node of the finer graph. All of them have one, and all supernodes have a
            node.
        weight: Function that yields the values of the assignment matrix; ``None`` if all are 1.
        representative: Function that yields the node that stands for each supernode; ``None`` if there is none.
    """

    method: str
    graph: StreamedGraph
    num_fine_nodes: int
    cluster: Callable[[], Iterable[Array]]
    weight: Callable[[], Iterable[Array]] | None = None
    representative: Callable[[], Iterable[Array]] | None = None


def streamed_digest(graph: StreamedGraph) -> str:
    """Return the digest of a graph, see :func:`tgp.store.data_digest`.

    Args:
        graph: The graph.
    """
    pieces: dict[str, Iterable[Array]] = {
        "edge_index": (np.stack([u, v], axis=1) for u, v, _ in graph.edges()),
        "edge_weight": (weight for _, _, weight in graph.edges() if weight is not None),
        **{name: values() for name, (_, values) in (graph.nodes or {}).items()},
    }
    digest = DataDigest()
    digest.update_in_pieces(graph.model(), pieces)
    return digest.hexdigest()


def write_streamed_graph(writer: StoreWriter, graph: StreamedGraph) -> PartRecord:
    """Write the input graph of a store of one graph.

    Args:
        writer: Writer of a store with the fast profile.
        graph: The graph.

    Returns:
        The completion record of the file.
    """
    model = graph.model()
    infos = tuple(graph_field_info(model, model.fields[name]) for name in sorted(model.fields))
    targets = {
        info.name: Target(
            f"fields/{fmt.encode_name(info.name)}",
            _stored_type(graph, info.name),
            {"dtype": info.dtype, **ShardFile.describe(info)},
            model.fields[info.name].values.shape[:-1],
            info.axis,
        )
        for info in infos
    }
    columns = _columns(graph, targets)
    divided = NOT_DIVIDED
    ranges = _find_ranges(graph, writer)
    if ranges is not None:
        divided = write_pieces(writer, 0, fmt.GRAPHS, 0, ranges, columns, 0)
    header: dict[str, str | int] = {"part": fmt.GRAPHS, "unit": 0, "first_graph": 0, "num_graphs": 1}

    def fill(sink: Sink) -> PartSummary:
        with ShardFile(sink, "fast", header) as out:
            size = out.array(out.file["/"], "node_ptr", model.node_ptr)
            size += out.array(out.file["/"], "edge_ptr", model.fields["edge_index"].ptr)
            out.group("fields"), out.group("ptr")
            counts = {"rows": graph.num_nodes, "edges": graph.num_edges}
            size += write_columns(out, columns, counts, divided)
        check_rows("nodes", graph.num_nodes, size)
        return PartSummary([graph.num_nodes], [graph.num_edges], [size], fields=infos, pieces=divided.pieces)

    return writer.write_part(0, fmt.GRAPHS, fill)


def _find_ranges(graph: StreamedGraph, writer: StoreWriter, num_nodes: int = 0) -> Ranges | None:
    sources = (u for u, _, _ in graph.edges())
    limit = writer.spec.shard_edges
    return find_ranges(graph.num_nodes, graph.num_edges, sources, limit, num_nodes)


def _columns(graph: StreamedGraph, targets: Mapping[str, Target]) -> list[Column]:
    """Return the columns of the edges and of the attributes of the nodes."""
    columns = [
        Column("edges", tuple(targets[n] for n in _EDGES if n in targets), lambda: _edge_chunks(graph))
    ]
    for name, (_, values) in (graph.nodes or {}).items():
        columns.append(Column("rows", (targets[name],), functools.partial(_single, values)))
    return columns


def _single(
    values: Callable[[], Iterable[Array]],
) -> Iterator[tuple[Array, ...]]:
    return ((piece,) for piece in values())


def _edge_chunks(graph: StreamedGraph) -> Iterator[tuple[Array, ...]]:
    for source, target, weight in graph.edges():
        index = np.stack([source, target])
        yield (index,) if weight is None else (index, weight)


def _stored_type(graph: StreamedGraph, name: str) -> np.dtype[Any]:
    if name == "edge_index":
        return integer_type(0, graph.max_id)
    if name == "edge_weight":
        return _little_endian(graph.weight_dtype)
    dtype, values = (graph.nodes or {})[name]
    if np.dtype(dtype).kind not in "iu":
        return _little_endian(dtype)
    return _smallest_type(values)


def _smallest_type(values: Callable[[], Iterable[Array]]) -> np.dtype[Any]:
    """Return the smallest type that holds all values, which are integers."""
    low, high = 0, 0
    for piece in values():
        low, high = min(low, int(piece.min(initial=0))), max(high, int(piece.max(initial=0)))
    return integer_type(low, high)


def _little_endian(dtype: str | None) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype(dtype).newbyteorder("<")
    return kind


def write_streamed_levels(writer: StoreWriter, name: str, levels: list[StreamedLevel]) -> PartRecord:
    """Write a hierarchy of a store of one graph.

    Args:
        writer: Writer of a store with the fast profile.
        name: Name of the hierarchy.
        levels: Its levels, finest first.

    Returns:
        The completion record of the file.
    """
    header: dict[str, str | int] = {
        "part": name,
        "unit": 0,
        "first_graph": 0,
        "num_graphs": 1,
        "num_levels": len(levels),
    }
    columns = [_level_columns(number, level) for number, level in enumerate(levels)]
    divided = NOT_DIVIDED
    for number, level in enumerate(levels):
        ranges = _find_ranges(level.graph, writer, level.num_fine_nodes)
        if ranges is not None:
            divided += write_pieces(writer, 0, name, number, ranges, columns[number], len(divided.pieces))

    def fill(sink: Sink) -> PartSummary:
        summary, infos = PartSummary(pieces=divided.pieces), []
        with ShardFile(sink, "fast", header) as out:
            out.array(out.file["/"], "node_ptr", np.array([0, levels[0].num_fine_nodes]))
            for number, level in enumerate(levels):
                group = out.group(f"levels/{number}", {"method": level.method, "kind": "hard"})
                graph = level.graph
                size = out.array(group, "super_ptr", np.array([0, graph.num_nodes]))
                size += out.array(group, "edge_ptr", np.array([0, graph.num_edges]))
                counts = {"rows": graph.num_nodes, "edges": graph.num_edges, "nodes": level.num_fine_nodes}
                summary.bytes.append(size + write_columns(out, columns[number], counts, divided))
                summary.nodes.append(graph.num_nodes)
                summary.edges.append(graph.num_edges)
                infos.append(_level_info(level))
        summary.levels = tuple(infos)
        return summary

    return writer.write_part(0, name, fill)


def _level_columns(number: int, level: StreamedLevel) -> list[Column]:
    graph, base, ids = level.graph, f"levels/{number}", {"dtype": "int64"}
    targets = {"edge_index": Target(f"{base}/edge_index", integer_type(0, graph.max_id), ids, (2,), -1)}
    if graph.weight_dtype is not None:
        attributes = {"dtype": graph.weight_dtype}
        targets["edge_weight"] = Target(f"{base}/edge_weight", _little_endian(graph.weight_dtype), attributes)
    cluster = Target(f"{base}/cluster", integer_type(0, max(graph.num_nodes - 1, 0)), ids)
    columns = [
        *_columns(graph, targets),
        Column("nodes", (cluster,), functools.partial(_single, level.cluster)),
    ]
    if level.weight is not None:
        weight = Target(f"{base}/weight", _little_endian("float32"), {"dtype": "float32"})
        columns.append(Column("nodes", (weight,), functools.partial(_single, level.weight)))
    if level.representative is not None:
        chosen = Target(f"{base}/representative", _smallest_type(level.representative), ids)
        columns.append(Column("rows", (chosen,), functools.partial(_single, level.representative)))
    return columns


def _level_info(level: StreamedLevel) -> LevelInfo:
    names = {"super_ptr", "edge_ptr", "edge_index", "cluster"}
    if level.graph.weight_dtype is not None:
        names.add("edge_weight")
    names |= {name for name in ("weight", "representative") if getattr(level, name) is not None}
    arrays = tuple(name for name in fmt.LEVEL_ARRAYS if name in names)
    return LevelInfo(level.method, "hard", None, None, level.graph.weight_dtype, arrays, ())
