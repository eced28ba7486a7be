"""Divide graphs and levels that are in memory, into the files that a run on a graph larger than memory writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt

from tgp.ragged import Field, GraphTable, Hierarchy
from tgp.store.format import constants as fmt
from tgp.store.format.codec import narrow
from tgp.store.format.schema import FieldInfo
from tgp.store.write.divided import NOT_DIVIDED, Column, Divided, Target, find_ranges, write_pieces
from tgp.store.write.field_infos import graph_field_info, level_field_info
from tgp.store.write.shard import IDS, ShardFile, level_arrays

if TYPE_CHECKING:
    from tgp.store.write.part_writer import PartWriter

__all__ = ["divide_graphs", "divide_hierarchy"]

Counts = Literal["rows", "edges", "nodes"]

_COUNTS: dict[str, Counts] = {"edge_index": "edges", "edge_weight": "edges", "representative": "rows"}
"""Rows of the arrays of a level. Other arrays have one row per node of the finer graph."""

_OF_PTR: dict[str, Counts] = {"node": "rows", "edge": "edges"}


def divide_graphs(writer: PartWriter, unit: int, table: GraphTable) -> Divided:
    """Write the pieces of the input graph of a unit, if it is to be divided.

    A graph is not divided if it is not alone in its unit, or if its edges are not sorted by source.

    Args:
        writer: Writer of the store.
        unit: Number of the unit.
        table: Its graphs.

    Returns:
        The arrays that are in pieces.
    """
    edges = table.fields.get("edge_index")
    if writer.spec.shard_edges is None or table.num_graphs != 1 or edges is None:
        return NOT_DIVIDED
    table.validate()
    sources = edges.values[0]
    if (sources[1:] < sources[:-1]).any():
        return NOT_DIVIDED
    ranges = find_ranges(table.num_nodes, edges.values.shape[1], [sources], writer.spec.shard_edges)
    if ranges is None:
        return NOT_DIVIDED
    infos = [graph_field_info(table, table.fields[name]) for name in sorted(table.fields)]
    columns = _field_columns("fields", infos, table.fields)
    return write_pieces(writer, unit, fmt.GRAPHS, 0, ranges, columns, 0)


def divide_hierarchy(writer: PartWriter, unit: int, name: str, hierarchy: Hierarchy) -> Divided:
    """Write the pieces of the levels of a unit that are to be divided.

    Args:
        writer: Writer of the store.
        unit: Number of the unit.
        name: Name of the hierarchy.
        hierarchy: Its levels.

    Returns:
        The arrays that are in pieces.
    """
    divided, node_ptr, limit = NOT_DIVIDED, hierarchy.node_ptr, writer.spec.shard_edges
    if limit is None or hierarchy.num_graphs != 1:
        return divided
    for number, level in enumerate(hierarchy.levels):
        if level.block.num_edges > limit:
            arrays, base = level_arrays(level, node_ptr, number), f"levels/{number}"
            sources, nodes = arrays["edge_index"][0], int(node_ptr[-1])
            ranges = find_ranges(level.block.num_nodes, len(arrays["edge_index"][0]), [sources], limit, nodes)
            if ranges is not None:
                columns = [
                    _column(
                        _COUNTS.get(key, "nodes"), f"{base}/{key}", values, {"dtype": _dtype(key, values)}
                    )
                    for key, values in arrays.items()
                    if key not in ("super_ptr", "edge_ptr")
                ]
                infos = [level_field_info(level, field, number) for field in sorted(level.fields)]
                columns += _field_columns(f"{base}/fields", infos, level.fields)
                divided += write_pieces(writer, unit, name, number, ranges, columns, len(divided.pieces))
        node_ptr = level.block.node_ptr
    return divided


def _dtype(name: str, values: npt.NDArray[Any]) -> str:
    return IDS.get(name) or values.dtype.newbyteorder("=").name


def _field_columns(base: str, infos: list[FieldInfo], fields: Mapping[str, Field]) -> list[Column]:
    """Return the columns of the attributes of nodes and edges. Others stay in the file of the part."""
    columns = []
    for info in infos:
        is_edges = info.name == "edge_index" and info.axis != 0
        if info.ptr in _OF_PTR and (info.axis == 0 or is_edges):
            values = fields[info.name].values
            attributes = {"dtype": values.dtype.newbyteorder("=").name, **ShardFile.describe(info)}
            path = f"{base}/{fmt.encode_name(info.name)}"
            columns.append(_column(_OF_PTR[info.ptr], path, values, attributes))
    return columns


def _column(
    counts: Counts, path: str, values: npt.NDArray[Any], attributes: Mapping[str, str | int]
) -> Column:
    stored = narrow(values, path)
    axis = -1 if path.endswith("/edge_index") else 0
    tail = stored.shape[1:] if axis == 0 else stored.shape[:-1]
    return Column(counts, (Target(path, stored.dtype, attributes, tail, axis),), lambda: [(stored,)])
