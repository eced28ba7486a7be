"""Convert PyG graphs to flat arrays and back.

An ``InMemoryDataset`` already stores one concatenated tensor and its offsets (``slices``) per attribute. These arrays are
used without a loop over graphs. Any other collection is read once, attribute by attribute. A
:class:`~tgp.ragged.Field` records how a batch joins the attribute (:meth:`Data.__cat_dim__`, :meth:`Data.__inc__`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.data.data import BaseData

from tgp.data.columns import (
    AttributeProblems,
    check_presence,
    field_from_slices,
    field_of_values,
    is_joined_last,
    number_field,
    values_by_graph,
)
from tgp.data.fast_data import make_data, paused_gc
from tgp.data.hetero_table import hetero_to_table
from tgp.errors import DatasetError
from tgp.ragged import BlockCSR, Field, GraphTable
from tgp.ragged.block import PtrArray
from tgp.ragged.offsets import find_run, offsets, run_maxima

__all__ = ["check_data", "graphs_to_arrays", "graphs_to_table", "table_to_data"]

NODE_KEYS = frozenset({"x", "feat", "pos", "batch", "node_type", "n_id"})
"""Attributes whose length PyG uses as the number of nodes. The first one in the order of the graph decides."""


def graphs_to_arrays(graphs: Any, *, exclude_keys: Iterable[str] = ()) -> tuple[GraphTable, BlockCSR]:
    """Return all attributes of a collection of graphs and their block-diagonal adjacency.

    Args:
        graphs: ``InMemoryDataset`` (or a subset of one), any other dataset, or any iterable of ``Data``.
        exclude_keys: Attributes to leave out. Their values may be of any type.

    Raises:
        DatasetError: If ids or weights are invalid, or if an attribute with tensors or numbers cannot be stored. The error
            names all such attributes. Other attributes that cannot be stored are left out with one warning.
    """
    table = graphs_to_table(graphs, exclude_keys=exclude_keys)
    return table, table.to_block()


def graphs_to_table(graphs: Any, *, exclude_keys: Iterable[str] = ()) -> GraphTable:
    """Return the :class:`~tgp.ragged.GraphTable` of a collection of graphs; see :func:`graphs_to_arrays`."""
    excluded = frozenset(exclude_keys)
    if isinstance(graphs, BaseData):
        raise DatasetError(
            f"the graphs must be a collection, got one {type(graphs).__name__}: put it in a list"
        )
    if isinstance(graphs, InMemoryDataset) and _is_ragged(graphs):
        fields = _fields_from_slices(graphs._data, graphs.slices, excluded)
        table = _finish(fields, graphs.len(), excluded)
        indices = graphs._indices
        return table if indices is None else table.take(np.asarray(indices, dtype=np.int64))
    items = list(graphs)
    if items and isinstance(items[0], HeteroData):
        return hetero_to_table(items, excluded)
    _check_graphs(items)
    return _finish(_fields_from_graphs(items, excluded), len(items), excluded)


def table_to_data(table: GraphTable, cls: type[Data] = Data) -> list[Data]:
    """Return the graphs of a table as ``Data`` objects. This is the inverse of :func:`graphs_to_table`.

    Tensors are views of the arrays of the table. The graphs get an explicit ``num_nodes`` if no attribute determines it.

    Args:
        table: Attributes of the graphs.
        cls: Class of the graphs.
    """
    columns = {name: values_by_graph(field) for name, field in table.fields.items()}
    if not any(f.form == "rows" and n in NODE_KEYS for n, f in table.fields.items()):
        columns.setdefault("num_nodes", np.diff(table.node_ptr).tolist())
    rows = zip(*columns.values(), strict=True) if columns else ((),) * table.num_graphs
    with paused_gc():
        return [make_data(dict(zip(columns, values, strict=True)), cls) for values in rows]


def _is_ragged(dataset: InMemoryDataset) -> bool:
    """Return True if the concatenated tensors hold what indexing the dataset returns."""
    return (
        dataset.transform is None
        and dataset.slices is not None
        and isinstance(dataset._data, Data)
        and _plain_rules(type(dataset._data))
        and type(dataset).get is InMemoryDataset.get
    )


def _plain_rules(cls: type[Data]) -> bool:
    """Return True if a class joins attributes by the rules of ``Data``."""
    return cls.__inc__ is Data.__inc__ and cls.__cat_dim__ is Data.__cat_dim__


def check_data(graph: Any, name: str) -> Data:
    """Check that a graph is a homogeneous graph of PyG.

    Args:
        graph: Object that was given as a graph.
        name: Name of the graph for the message.

    Raises:
        DatasetError: If it has another type.
    """
    if isinstance(graph, Data):
        mapping = graph._store._mapping
        if "adj_t" in mapping and "edge_index" not in mapping:
            raise DatasetError(
                f"{name} has no 'edge_index': expected an edge list, got the sparse matrix 'adj_t'",
                hint="apply ToSparseTensor after the graphs are coarsened, or set data.edge_index, data.edge_weight = "
                "torch_geometric.utils.to_edge_index(data.adj_t.t())",
            )
        return graph
    hint = "tgp.coarsen also takes networkx graphs, scipy matrices, names and paths"
    if isinstance(graph, HeteroData):
        hint = "all graphs must be of one type: HeteroData is accepted if all graphs are HeteroData"
    raise DatasetError(
        f"{name} must be homogeneous (torch_geometric.data.Data), got {type(graph).__name__}", hint=hint
    )


def _check_graphs(items: Sequence[Any]) -> None:
    for position, graph in enumerate(items):
        check_data(graph, f"graph {position}")


def _fields_from_slices(data: Data, slices: Mapping[str, Any], excluded: frozenset[str]) -> dict[str, Field]:
    """Return the fields of an ``InMemoryDataset`` without a loop over graphs, except for strings and lists."""
    store = data._store
    fields: dict[str, Field] = {}
    problems = AttributeProblems()
    for key, value in store._mapping.items():
        if key not in slices or key == "num_nodes":
            continue
        if key not in excluded or (isinstance(value, Tensor) and _counts_nodes(key)):
            with problems.collect(key):
                fields[key] = field_from_slices(key, value, slices[key])
    problems.report()
    counts = getattr(store, "_num_nodes", None)
    if counts is not None:
        fields["num_nodes"] = number_field("num_nodes", [int(n) for n in counts], int)
    return fields


def _fields_from_graphs(items: Sequence[Data], excluded: frozenset[str]) -> dict[str, Field]:
    if not items:
        return {}
    rows = [graph._store._mapping for graph in items]
    owners = None if all(_plain_rules(cls) for cls in {type(g) for g in items}) else items
    fields: dict[str, Field] = {}
    problems = AttributeProblems()
    names = dict.fromkeys(key for row in rows for key in row)
    for key in names:
        if key in excluded and key != "num_nodes":
            if _counts_nodes(key) and all(isinstance(row.get(key), Tensor) for row in rows):
                fields[key] = _count_field(key, [row[key] for row in rows])
            continue
        with problems.collect(key):
            check_presence(key, rows)
            fields[key] = field_of_values(key, [row[key] for row in rows], owners)
    problems.report()
    return fields


def _counts_nodes(key: str) -> bool:
    return key in NODE_KEYS or "node" in key or key in ("edge_index", "face")


def _count_field(key: str, values: Sequence[Tensor]) -> Field:
    """Return what :func:`_node_counts` needs of an attribute that is left out: its ids, or its number of rows."""
    if is_joined_last(key):
        return field_of_values(key, values, None)
    ptr = offsets([value.size(0) if value.dim() else 1 for value in values])
    return Field(key, np.zeros((int(ptr[-1]), 0), np.uint8), ptr)


def _finish(fields: dict[str, Field], num_graphs: int, excluded: frozenset[str]) -> GraphTable:
    """Return the table of some fields: find the node counts, check ids, and share equal offsets."""
    node_ptr = offsets(_node_counts(fields)) if num_graphs else np.zeros(1, np.int64)
    shared = [node_ptr, *(fields[key].ptr for key in ("edge_index",) if key in fields)]
    kept = {}
    problems = AttributeProblems()
    for key, field in fields.items():
        if key in excluded:
            continue
        if field.shifted:
            with problems.collect(key):
                _check_ids(field, node_ptr)
        ptr = next((p for p in shared if np.array_equal(p, field.ptr)), field.ptr)
        kept[key] = replace(field, ptr=ptr)
    problems.report()
    return GraphTable(node_ptr, kept)


def _node_counts(fields: Mapping[str, Field]) -> npt.NDArray[Any]:
    """Return the number of nodes of each graph, from the attribute that ``Data.num_nodes`` uses."""
    if "num_nodes" in fields:
        return fields["num_nodes"].values
    rows = {key: field for key, field in fields.items() if field.form == "rows"}
    per_node = [*(key for key in rows if key in NODE_KEYS), *(key for key in rows if "node" in key)]
    if per_node:
        return np.diff(rows[per_node[0]].ptr)
    for key in ("edge_index", "face"):
        if key in rows:
            return _largest_id(rows[key]) + 1
    raise DatasetError(
        "the number of nodes is unknown: expected 'num_nodes', 'x', 'pos' or 'edge_index', got "
        + (", ".join(fields) or "empty graphs"),
        hint="set data.num_nodes",
    )


def _largest_id(field: Field) -> npt.NDArray[np.int64]:
    """Return ``[B]`` largest id of each graph, or -1 if it has no ids."""
    flat = field.values.max(axis=0) if field.values.ndim > 1 else field.values
    return run_maxima(flat.astype(np.int64, copy=False), field.ptr, empty=-1)


def _check_ids(field: Field, node_ptr: PtrArray) -> None:
    if not field.values.size:
        return
    if not np.issubdtype(field.values.dtype, np.integer):
        raise DatasetError(
            f"attribute {field.name!r} must hold integers, because it holds node ids, got {field.values.dtype}"
        )
    ids = field.values if field.axis != 0 else np.moveaxis(field.values, 0, -1)
    sizes = np.repeat(np.diff(node_ptr), np.diff(field.ptr))
    wrong = ((ids < 0) | (ids >= sizes)).reshape(-1, ids.shape[-1]).any(axis=0)
    if wrong.any():
        column = int(np.flatnonzero(wrong)[0])
        graph = find_run(field.ptr, column)
        raise DatasetError(
            f"attribute {field.name!r} must hold node ids in [0, {sizes[column]}) on graph {graph}, "
            f"got {ids[..., column].tolist()}",
            hint="ids count from 0 in each graph; set data.num_nodes if there are more nodes"
            if field.name == "edge_index"
            else "PyG treats attributes with 'index' in their name as node ids: rename it if it holds something else",
        )
