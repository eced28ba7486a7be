"""Build, join and slice tables of graphs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tgp.errors import DatasetError, InputError
from tgp.input_limits import InputBudget, input_budget
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged import Field, GraphTable
from tgp.ragged.offsets import offsets
from tgp.sources.arrays import check_sparse
from tgp.sources.families import SPLITS

__all__ = [
    "MAX_COUNT",
    "check_table",
    "join_splits",
    "join_tables",
    "mark_graphs",
    "mark_nodes",
    "slice_table",
    "table_from_arrays",
    "weight_type",
]


MAX_COUNT = 1 << 53
"""Largest number of nodes or elements of all graphs together."""

MAX_NAME = 200
"""Largest number of characters of the name of an attribute."""


def table_from_arrays(
    arrays: Mapping[str, Array], where: str, *, base: GraphTable | None = None
) -> GraphTable:
    """Build a table from named arrays.

    One graph needs ``edge_index`` of shape ``[2, E]`` and has an optional ``num_nodes``. Many graphs need ``node_ptr``
    and ``edge_ptr`` of shape ``[B + 1]``, too; their node ids are local to each graph. The arrays ``indptr``,
    ``indices`` and ``data`` of a scipy matrix are accepted instead of ``edge_index``.

    Any other array belongs to the nodes, the edges or the graphs, depending on its length. If several lengths fit,
    ``edge_*`` belongs to the edges, ``y`` to the graphs, and other arrays to the nodes. An array ``<name>_ptr`` holds
    explicit offsets of the array ``<name>``.

    Args:
        arrays: Arrays by name.
        where: Name of the file for error messages.
        base: Table to which the arrays are added. By default a new table is built.

    Raises:
        DatasetError: If an array is missing, has the wrong type, or has a length that fits nothing.
    """
    given = {name: np.asarray(values) for name, values in arrays.items()}
    for name, values in given.items():
        if values.dtype.kind not in "biufc" and not (name == "format" and "indptr" in given):
            raise DatasetError(f"{where}: {name!r} must hold numbers, got {values.dtype}")
    fields: dict[str, Field] = {}
    if base is None:
        given = _edges_from_scipy(given, where)
        node_ptr, edge_ptr = _pop_offsets(given, where)
        edges = given.pop("edge_index").astype(np.int64, copy=False)
        fields["edge_index"] = Field("edge_index", edges, edge_ptr, axis=-1, shifted=True)
    else:
        node_ptr, fields = base.node_ptr, dict(base.fields)
        edge_ptr = fields["edge_index"].ptr
    own = {name: given.pop(f"{name}_ptr") for name in [*given] if f"{name}_ptr" in given}
    for name, values in given.items():
        if name in own:
            fields[name] = Field(name, values, _check_offsets(own[name], f"{name}_ptr", where))
        else:
            fields[name] = _field_by_length(name, values, node_ptr, edge_ptr, where)
    try:
        return GraphTable(node_ptr, fields).validate()
    except InputError as error:
        raise DatasetError(f"{where}: {error}") from error


def _edges_from_scipy(given: dict[str, Array], where: str) -> dict[str, Array]:
    """Convert a matrix saved by ``scipy.sparse.save_npz`` to an edge list with weights."""
    if "edge_index" in given or not {"indptr", "indices", "data"} <= given.keys():
        return given
    kind = given.pop("format", np.array(b"csr"))
    name = kind.item() if kind.ndim == 0 else b""
    if name not in (b"csr", "csr", b"csc", "csc"):
        raise DatasetError(f"{where}: a sparse matrix must be CSR or CSC, got {name!r}")
    by_row = name in (b"csr", "csr")
    sides = check_sparse(given, "", where, axis=0 if by_row else 1)
    given.pop("shape", None)
    indptr, indices, data = given.pop("indptr"), given.pop("indices"), given.pop("data")
    ptr: LongArray = indptr.astype(np.int64)
    counts = ptr[1:] - ptr[:-1]
    rows = np.repeat(np.arange(len(counts)), counts)
    edges = np.stack([rows, indices.astype(np.int64)] if by_row else [indices.astype(np.int64), rows])
    given |= {"edge_index": edges, "num_nodes": np.array([max(sides)])}
    if not (data == 1).all():
        given["edge_weight"] = data
    return given


def _pop_offsets(given: dict[str, Array], where: str) -> tuple[LongArray, LongArray]:
    """Return the offsets of nodes and edges, and remove the arrays that describe them from ``given``."""
    edges = given.get("edge_index")
    if edges is not None and edges.ndim == 2 and edges.shape[1] == 2 != edges.shape[0]:
        edges = given["edge_index"] = np.ascontiguousarray(edges.T)
    if edges is None or edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        got = "nothing" if edges is None else f"{edges.dtype} {list(edges.shape)}"
        raise DatasetError(f"{where} must hold integers 'edge_index' of shape [2, E] or [E, 2], got {got}")
    _check_int64(edges, "edge_index", where)
    if edges.dtype != np.int64:
        with input_budget() as budget:
            budget.charge(8 * edges.size, where, "'edge_index'")
    many = [name for name in ("node_ptr", "edge_ptr") if name in given]
    if len(many) == 1:
        raise DatasetError(f"{where} has {many[0]!r}: many graphs need both 'node_ptr' and 'edge_ptr'")
    if many:
        node_ptr, edge_ptr = (_check_offsets(given.pop(name), name, where) for name in many)
        return node_ptr, edge_ptr
    if "num_nodes" in given:
        num_nodes = _pop_num_nodes(given, where)
    else:
        lengths = {len(given[name]) for name in ("x", "pos") if name in given and given[name].ndim}
        num_nodes = max(lengths) if lengths else int(edges.max(initial=0)) + 1 if edges.size else 0
    if num_nodes > MAX_COUNT:
        raise DatasetError(f"{where}: a graph must have at most {MAX_COUNT} nodes, got {num_nodes}")
    return offsets([num_nodes]), offsets([edges.shape[1]])


def _pop_num_nodes(given: dict[str, Array], where: str) -> int:
    values = given.pop("num_nodes")
    if values.dtype.kind not in "iu" or not values.size or values.min() < 0:
        raise DatasetError(
            f"{where}: 'num_nodes' must hold integers of at least 0, got {values.dtype} {values.ravel()[:3]}"
        )
    return sum(int(n) for n in values.ravel())


def _check_int64(values: Array, name: str, where: str) -> None:
    """Check that unsigned integers keep their value as int64."""
    if values.dtype == np.uint64 and values.size and int(values.max()) > np.iinfo(np.int64).max:
        raise DatasetError(f"{where}: {name!r} must hold integers below 2^63, got {values.max()}")


def _check_offsets(ptr: Array, name: str, where: str) -> LongArray:
    is_index = ptr.ndim == 1 and len(ptr) > 0 and ptr.dtype.kind in "iu"
    if not is_index or ptr[0] != 0 or (ptr[1:] < ptr[:-1]).any() or int(ptr[-1]) > MAX_COUNT:
        raise DatasetError(
            f"{where}: {name!r} must hold integers that start at 0, never decrease and are at most {MAX_COUNT}"
        )
    return ptr.astype(np.int64, copy=False)


def _field_by_length(name: str, values: Array, node_ptr: LongArray, edge_ptr: LongArray, where: str) -> Field:
    num_graphs = len(node_ptr) - 1
    values = np.ascontiguousarray(np.atleast_1d(values))
    choices = {"node": node_ptr, "edge": edge_ptr, "graph": np.arange(num_graphs + 1)}
    order = ["edge", "node", "graph"] if name.startswith("edge_") else ["node", "edge", "graph"]
    if name in ("y", "num_nodes"):
        order = ["graph", "node", "edge"]
    for kind in order:
        if len(values) == choices[kind][-1]:
            return Field(name, values, choices[kind])
    if num_graphs == 1:  # the whole array is the value of the only graph
        return Field(name, values, offsets([len(values)]))
    lengths = f"{node_ptr[-1]} nodes, {edge_ptr[-1]} edges or {num_graphs} graphs"
    raise DatasetError(f"{where}: {name!r} has {len(values)} rows, expected one per {lengths}")


def join_tables(parts: Sequence[tuple[str, GraphTable]]) -> GraphTable:
    """Concatenate the graphs of several tables.

    Args:
        parts: Name for error messages and table of each part.

    Raises:
        DatasetError: If the tables have different attributes, or an attribute has different shapes.
    """
    first_name, first = parts[0]
    names = first.fields.keys()
    for name, table in parts:
        if table.fields.keys() != names:
            odd = sorted(table.fields.keys() ^ names)[0]
            raise DatasetError(
                f"graphs must have the same attributes: {odd!r} is not in both {first_name} and {name}"
            )
    fields = {key: _join_fields(key, [(name, t.fields[key]) for name, t in parts]) for key in names}
    return GraphTable(_join_offsets([t.node_ptr for _, t in parts]), fields)


def _join_fields(key: str, parts: Sequence[tuple[str, Field]]) -> Field:
    first_name, first = parts[0]
    for name, field in parts:
        tails = [np.moveaxis(f.values, f.axis, 0).shape[1:] for f in (first, field)]
        if tails[0] != tails[1] or field.form != first.form:
            raise DatasetError(
                f"{key!r} has rows of shape {list(tails[0])} in {first_name}, {list(tails[1])} in {name}"
            )
    values = np.concatenate([f.values for _, f in parts], axis=first.axis)
    return Field(key, values, _join_offsets([f.ptr for _, f in parts]), first.axis, first.form, first.shifted)


def _join_offsets(ptrs: Sequence[LongArray]) -> LongArray:
    return offsets(np.concatenate([np.diff(ptr) for ptr in ptrs]))


def join_splits(parts: Sequence[GraphTable]) -> GraphTable:
    """Concatenate the splits of a dataset and add the field ``split``.

    Args:
        parts: Tables in the order of :data:`tgp.sources.families.SPLITS`.

    Raises:
        DatasetError: If the splits have different attributes, or an attribute has different shapes.
    """
    plain = [
        GraphTable(part.node_ptr, {n: f for n, f in part.fields.items() if n != "split"}) for part in parts
    ]
    table = join_tables(list(zip(SPLITS, plain, strict=True)))
    return mark_graphs(table, np.repeat(np.arange(len(parts)), [part.num_graphs for part in parts]))


def mark_graphs(table: GraphTable, split: Array) -> GraphTable:
    """Add the field ``split`` to a table.

    Args:
        table: Graphs.
        split: ``[B]`` number of the split of each graph.
    """
    field = Field("split", split.astype(np.int64), np.arange(table.num_graphs + 1))
    return GraphTable(table.node_ptr, {**table.fields, "split": field})


def check_table(table: GraphTable, where: str, budget: InputBudget) -> GraphTable:
    """Check the number of nodes and the names of the attributes of graphs that were read from files.

    Args:
        table: Graphs.
        where: Name of the dataset for error messages.
        budget: Budget of the dataset. Coarsening needs memory for each node, even if no byte of a file belongs to it.

    Returns:
        The table itself.

    Raises:
        DatasetError: If a check fails.
    """
    budget.check(table.num_nodes * 16, where, f"the number of nodes ({table.num_nodes})")
    for name in table.fields:
        if not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise DatasetError(
                f"{where}: the name of an attribute must have 1 to {MAX_NAME} printable characters, "
                f"got {len(name)}: {name[:80]!a}"
            )
    return table


def mark_nodes(table: GraphTable, ids: Mapping[str, Array]) -> GraphTable:
    """Add a mask per split, such as ``train_mask``, to a table of one graph.

    Args:
        table: The graph.
        ids: Name of each split -> ids of its nodes.
    """
    fields = dict(table.fields)
    for name, nodes in ids.items():
        mask = np.zeros(table.num_nodes, bool)
        mask[nodes] = True
        fields[f"{name}_mask"] = Field(f"{name}_mask", mask, table.node_ptr)
    return GraphTable(table.node_ptr, fields)


def slice_table(table: GraphTable, low: int, high: int, names: Collection[str] | None = None) -> GraphTable:
    """Return graphs ``low:high`` of a table as views.

    Args:
        table: Graphs.
        low: First graph.
        high: End of the range.
        names: Attributes to keep; ``None`` for all.
    """
    fields = {}
    for name, entry in table.fields.items():
        if names is None or name in names:
            first, last = int(entry.ptr[low]), int(entry.ptr[high])
            values = entry.values[..., first:last] if entry.axis else entry.values[first:last]
            ptr = entry.ptr[low : high + 1] - first
            fields[name] = Field(name, values, ptr, entry.axis, entry.form, entry.shifted)
    return GraphTable(table.node_ptr[low : high + 1] - table.node_ptr[low], fields)


def weight_type(table: GraphTable) -> type[np.floating[Any]]:
    """Return the type of coarse weights: float64 if the graphs have float64 weights, else float32.

    The online layers choose the same type.

    Args:
        table: Graphs.
    """
    weight = table.fields.get("edge_weight")
    return np.float64 if weight is not None and weight.values.dtype == np.float64 else np.float32
