"""Changes to the input graphs before they are stored and coarsened: whole tables at once, no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError
from tgp.ragged import Field, GraphTable

__all__ = ["add_degree", "exclude", "keep_largest_component", "make_undirected"]

Ints = npt.NDArray[np.int64]


def exclude(table: GraphTable, names: tuple[str, ...]) -> GraphTable:
    """Leave attributes out."""
    for name in names:
        if name not in table.fields or name == "edge_index":
            have = ", ".join(n for n in table.fields if n != "edge_index")
            raise DatasetError(f"cannot leave out {name!r}: the graphs have {have or 'no attributes'}")
    return GraphTable(table.node_ptr, {n: f for n, f in table.fields.items() if n not in names})


def make_undirected(table: GraphTable) -> GraphTable:
    """Add the reverse of every edge that lacks it, with the attributes of the edge; other edges stay in place."""
    edges, edge_ptr, graph = _edges(table)
    total = max(table.num_nodes, 1)
    start = table.node_ptr[graph]
    row, col = edges[0] + start, edges[1] + start
    key, reverse = row * total + col, col * total + row
    lonely = np.flatnonzero(~np.isin(reverse, key))
    lonely = lonely[np.unique(reverse[lonely], return_index=True)[1]]
    source = np.concatenate([np.arange(len(key)), lonely])
    order = np.argsort(graph[source], kind="stable")
    flip = (np.arange(len(source)) >= len(key))[order]
    source = source[order]
    ends = edges[:, source]
    ends[:, flip] = ends[::-1, flip]
    counts = np.bincount(graph[source], minlength=table.num_graphs)
    return _with_edges(table, edge_ptr, ends, source, _offsets(counts))


def keep_largest_component(table: GraphTable) -> GraphTable:
    """Keep the largest (weakly) connected component of each graph; of equal ones that of the smallest node."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges, edge_ptr, graph = _edges(table)
    start = table.node_ptr[graph]
    total = table.num_nodes
    matrix = coo_array(
        (np.ones(len(start), np.int8), (edges[0] + start, edges[1] + start)), shape=(total, total)
    )
    _, part = connected_components(matrix, directed=False)
    # Parts are numbered in the order of their first node, so the first maximum of a graph is its choice.
    size = np.bincount(part)
    owner = np.repeat(np.arange(table.num_graphs), np.diff(table.node_ptr))
    part_owner = np.zeros(len(size), np.int64)
    part_owner[part] = owner
    best = np.lexsort((np.arange(len(size)), -size, part_owner))
    first = np.unique(part_owner[best], return_index=True)[1]
    chosen = np.zeros(len(size), bool)
    chosen[best[first]] = True
    return _take_nodes(table, chosen[part], edges, edge_ptr, graph)


def add_degree(table: GraphTable) -> GraphTable:
    """Append the number of out-edges of each node to ``x``, which is made if absent."""
    edges, _, graph = _edges(table)
    degree = np.bincount(edges[0] + table.node_ptr[graph], minlength=table.num_nodes).astype(np.float32)[
        :, None
    ]
    x = table.fields.get("x")
    if x is not None and (x.values.ndim > 2 or not np.array_equal(x.ptr, table.node_ptr)):
        raise DatasetError(f"degrees need one row of 'x' per node, got shape {list(x.values.shape)}")
    if x is not None:
        rows = x.values.reshape(len(x.values), -1)
        degree = np.concatenate([rows, degree.astype(np.result_type(rows, np.float32))], axis=1)
    return GraphTable(table.node_ptr, {**table.fields, "x": Field("x", degree, table.node_ptr)})


def _edges(table: GraphTable) -> tuple[Ints, Ints, Ints]:
    field = table.fields.get("edge_index")
    if field is None:
        raise DatasetError(f"graphs need an 'edge_index', got {', '.join(table.fields) or 'nothing'}")
    graph = np.repeat(np.arange(table.num_graphs), np.diff(field.ptr))
    return field.values.astype(np.int64, copy=False), field.ptr, graph


def _offsets(counts: npt.NDArray[Any]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _per_edge(name: str, field: Field, edge_ptr: Ints) -> bool:
    """Whether a field has one row per edge; names decide where the offsets of nodes are the same."""
    return (
        field.axis == 0
        and field.form == "rows"
        and name.startswith("edge")
        and np.array_equal(field.ptr, edge_ptr)
    )


def _with_edges(table: GraphTable, edge_ptr: Ints, edges: Ints, source: Ints, ptr: Ints) -> GraphTable:
    """The table with new edges; ``source`` is the old edge whose attributes each new one has."""
    fields = {}
    for name, field in table.fields.items():
        if name == "edge_index":
            fields[name] = Field(name, edges, ptr, -1, "rows", True)
        elif _per_edge(name, field, edge_ptr):
            fields[name] = Field(name, field.values[source], ptr)
        else:
            fields[name] = field
    return GraphTable(table.node_ptr, fields)


def _take_nodes(
    table: GraphTable, keep: npt.NDArray[np.bool_], edges: Ints, edge_ptr: Ints, graph: Ints
) -> GraphTable:
    start = table.node_ptr[graph]
    before = np.concatenate([[0], np.cumsum(keep)])
    node_ptr = before[table.node_ptr].astype(np.int64)
    inside = np.flatnonzero(keep[edges[0] + start] & keep[edges[1] + start])
    new_id = before[:-1] - np.repeat(node_ptr[:-1], np.diff(table.node_ptr))
    ends = new_id[edges[:, inside] + start[inside]].astype(np.int64)
    ptr = _offsets(np.bincount(graph[inside], minlength=table.num_graphs))
    partial = _with_edges(table, edge_ptr, ends, inside, ptr)
    fields = {}
    for name, field in partial.fields.items():
        if name == "num_nodes":
            fields[name] = Field(name, np.diff(node_ptr), field.ptr, 0, field.form)
        elif field.shifted and name != "edge_index":
            raise DatasetError(
                f"attribute {name!r} holds node ids, which taking components would break",
                hint=f"--exclude {name}",
            )
        elif name != "edge_index" and field.form == "rows" and np.array_equal(field.ptr, table.node_ptr):
            fields[name] = Field(name, np.compress(keep, field.values, axis=field.axis), node_ptr, field.axis)
        else:
            fields[name] = field
    return GraphTable(node_ptr, fields)
