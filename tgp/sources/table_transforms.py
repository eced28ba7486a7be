"""Transform the input graphs before they are stored and coarsened. Works on whole tables, without torch."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tgp.errors import DatasetError
from tgp.kernels.array_types import BoolArray, LongArray
from tgp.ragged import Field, GraphTable
from tgp.ragged.offsets import offsets, run_ids

__all__ = ["add_degree", "exclude", "keep_largest_component", "make_undirected"]


def exclude(table: GraphTable, names: Collection[str]) -> GraphTable:
    """Remove attributes.

    Args:
        table: Graphs.
        names: Attributes to remove.

    Raises:
        DatasetError: If the graphs do not have such an attribute, or it is ``edge_index``.
    """
    for name in names:
        if name not in table.fields or name == "edge_index":
            have = ", ".join(n for n in table.fields if n != "edge_index")
            raise DatasetError(f"cannot exclude {name!r}: expected one of {have or 'no attributes'}")
    return GraphTable(table.node_ptr, {n: f for n, f in table.fields.items() if n not in names}, table.types)


def make_undirected(table: GraphTable) -> GraphTable:
    """Add the missing reverse edges. A reverse edge copies the attributes of its edge.

    Args:
        table: Graphs. Existing edges keep their order.
    """
    edges, edge_ptr, graph = _edges(table)
    total = max(table.num_nodes, 1)
    start = table.node_ptr[graph]
    row, col = edges[0] + start, edges[1] + start
    key, reverse = row * total + col, col * total + row
    one_way = np.flatnonzero(~np.isin(reverse, key))
    one_way = one_way[np.unique(reverse[one_way], return_index=True)[1]]
    source = np.concatenate([np.arange(len(key)), one_way])
    order = np.argsort(graph[source], kind="stable")
    flip = (np.arange(len(source)) >= len(key))[order]
    source = source[order]
    ends = edges[:, source]
    ends[:, flip] = ends[::-1, flip]
    counts = np.bincount(graph[source], minlength=table.num_graphs)
    return _replace_edges(table, edge_ptr, ends, source, offsets(counts))


def keep_largest_component(table: GraphTable) -> GraphTable:
    """Keep the largest weakly connected component of each graph.

    Args:
        table: Graphs. Of components of equal size, the one with the smallest node id is kept.

    Raises:
        DatasetError: If an attribute other than ``edge_index`` holds node ids.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges, edge_ptr, graph = _edges(table)
    start = table.node_ptr[graph]
    total = table.num_nodes
    matrix = coo_array(
        (np.ones(len(start), np.int8), (edges[0] + start, edges[1] + start)), shape=(total, total)
    )
    _, part = connected_components(matrix, directed=False)
    # Components are numbered in the order of their first node, so the first maximum of each graph is kept.
    size = np.bincount(part)
    owner = run_ids(table.node_ptr)
    part_owner = np.zeros(len(size), np.int64)
    part_owner[part] = owner
    best = np.lexsort((np.arange(len(size)), -size, part_owner))
    first = np.unique(part_owner[best], return_index=True)[1]
    chosen = np.zeros(len(size), bool)
    chosen[best[first]] = True
    return _take_nodes(table, chosen[part], edges, edge_ptr, graph)


def add_degree(table: GraphTable) -> GraphTable:
    """Append the out-degree of each node to ``x``. If there is no ``x``, it is created.

    Args:
        table: Graphs.

    Raises:
        DatasetError: If ``x`` does not have one row per node.
    """
    edges, _, graph = _edges(table)
    degree = np.bincount(edges[0] + table.node_ptr[graph], minlength=table.num_nodes).astype(np.float32)[
        :, None
    ]
    x = table.fields.get("x")
    if x is not None and (x.values.ndim > 2 or not np.array_equal(x.ptr, table.node_ptr)):
        raise DatasetError(
            f"'x' must hold one row per node to append the degree, got shape {list(x.values.shape)}"
        )
    if x is not None:
        rows = x.values.reshape(len(x.values), -1)
        degree = np.concatenate([rows, degree.astype(np.result_type(rows, np.float32))], axis=1)
    return GraphTable(table.node_ptr, {**table.fields, "x": Field("x", degree, table.node_ptr)})


def _edges(table: GraphTable) -> tuple[LongArray, LongArray, LongArray]:
    field = table.fields.get("edge_index")
    if field is None:
        raise DatasetError(f"graphs need an 'edge_index', got {', '.join(table.fields) or 'nothing'}")
    graph = run_ids(field.ptr)
    return field.values.astype(np.int64, copy=False), field.ptr, graph


def _is_edge_field(name: str, field: Field, edge_ptr: LongArray) -> bool:
    """Return True if a field has one row per edge. Its name must start with "edge", because a node field can have
    the same offsets."""
    return (
        field.axis == 0
        and field.form == "rows"
        and name.startswith("edge")
        and np.array_equal(field.ptr, edge_ptr)
    )


def _replace_edges(
    table: GraphTable, edge_ptr: LongArray, edges: LongArray, source: LongArray, ptr: LongArray
) -> GraphTable:
    """Replace the edges of a table. ``source`` holds the old edge from which each new edge copies its attributes."""
    fields = {}
    for name, field in table.fields.items():
        if name == "edge_index":
            fields[name] = Field(name, edges, ptr, -1, "rows", True)
        elif _is_edge_field(name, field, edge_ptr):
            fields[name] = Field(name, field.values[source], ptr)
        else:
            fields[name] = field
    return GraphTable(table.node_ptr, fields)


def _take_nodes(
    table: GraphTable, keep: BoolArray, edges: LongArray, edge_ptr: LongArray, graph: LongArray
) -> GraphTable:
    start = table.node_ptr[graph]
    before = offsets(keep)
    node_ptr = before[table.node_ptr]
    inside = np.flatnonzero(keep[edges[0] + start] & keep[edges[1] + start])
    new_id = before[:-1] - np.repeat(node_ptr[:-1], np.diff(table.node_ptr))
    ends = new_id[edges[:, inside] + start[inside]]
    ptr = offsets(np.bincount(graph[inside], minlength=table.num_graphs))
    partial = _replace_edges(table, edge_ptr, ends, inside, ptr)
    fields = {}
    for name, field in partial.fields.items():
        if name == "num_nodes":
            fields[name] = Field(name, np.diff(node_ptr), field.ptr, 0, field.form)
        elif field.shifted and name != "edge_index":
            raise DatasetError(
                f"attribute {name!r} holds node ids, which are invalid after removing nodes",
                hint=f"--exclude {name}",
            )
        elif name != "edge_index" and field.form == "rows" and np.array_equal(field.ptr, table.node_ptr):
            fields[name] = Field(name, np.compress(keep, field.values, axis=field.axis), node_ptr, field.axis)
        else:
            fields[name] = field
    return GraphTable(node_ptr, fields)
