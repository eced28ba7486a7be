"""Plain named arrays as a table of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError, InputError
from tgp.ragged import Field, GraphTable

__all__ = ["join_tables", "table_from_arrays"]

Ints = npt.NDArray[np.int64]


def table_from_arrays(
    arrays: Mapping[str, npt.NDArray[Any]], where: str, *, base: GraphTable | None = None
) -> GraphTable:
    """A table from ``edge_index`` and whatever else is there.

    One graph: ``edge_index`` ``[2, E]``, optionally ``num_nodes``. Many graphs: also ``node_ptr`` and
    ``edge_ptr`` ``[B + 1]``, with ids local to each graph. Every other array belongs to the nodes, the
    edges or the graphs, whichever its length fits; ``edge_*`` are tried as edges first, ``y`` as graphs
    first; offsets of its own may stand in ``<name>_ptr``. The three arrays of a scipy matrix (``indptr``, ``indices``, ``data``) are understood, too.

    Args:
        arrays: by name.
        where: named in errors.
        base: add the arrays to this table instead.
    """
    given = {name: np.asarray(values) for name, values in arrays.items()}
    for name, values in given.items():
        if values.dtype.kind not in "biufc" and not (name == "format" and "indptr" in given):
            raise DatasetError(f"{where}: {name!r} must hold numbers, got {values.dtype}")
    fields: dict[str, Field] = {}
    if base is None:
        given = _from_scipy(given)
        node_ptr, edge_ptr = _skeleton(given, where)
        edges = given.pop("edge_index").astype(np.int64)
        fields["edge_index"] = Field("edge_index", edges, edge_ptr, axis=-1, shifted=True)
    else:
        node_ptr, fields = base.node_ptr, dict(base.fields)
        edge_ptr = fields["edge_index"].ptr
    own = {name: given.pop(f"{name}_ptr") for name in [*given] if f"{name}_ptr" in given}
    for name, values in given.items():
        if name in own:
            fields[name] = Field(name, values, _offsets(own[name], f"{name}_ptr", where))
        else:
            fields[name] = _field(name, values, node_ptr, edge_ptr, where)
    try:
        return GraphTable(node_ptr, fields).validate()
    except InputError as error:
        raise DatasetError(f"{where}: {error}") from error


def _from_scipy(given: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """A sparse matrix as saved by ``scipy.sparse.save_npz`` becomes an edge list with weights."""
    if "edge_index" in given or not {"indptr", "indices", "data"} <= given.keys():
        return given
    kind = given.pop("format", np.array(b"csr")).item()
    indptr, indices, data = given.pop("indptr"), given.pop("indices"), given.pop("data")
    shape = given.pop("shape", np.array([len(indptr) - 1]))
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    edges = np.stack([rows, indices] if kind in (b"csr", "csr") else [indices, rows]).astype(np.int64)
    given |= {"edge_index": edges, "num_nodes": np.array([int(shape.max())])}
    if not (data == 1).all():
        given["edge_weight"] = data
    return given


def _skeleton(given: dict[str, npt.NDArray[Any]], where: str) -> tuple[Ints, Ints]:
    """Offsets of nodes and edges; takes what describes them out of ``given``."""
    edges = given.get("edge_index")
    if edges is None or edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        got = "nothing" if edges is None else f"{edges.dtype} {list(edges.shape)}"
        raise DatasetError(f"{where} must hold integers 'edge_index' of shape [2, E], got {got}")
    many = [name for name in ("node_ptr", "edge_ptr") if name in given]
    if len(many) == 1:
        raise DatasetError(f"{where} has {many[0]!r}: many graphs need both 'node_ptr' and 'edge_ptr'")
    if many:
        return tuple(_offsets(given.pop(name), name, where) for name in many)  # type: ignore[return-value]
    count = given.pop("num_nodes", None)
    if count is None:
        lengths = {len(given[name]) for name in ("x", "pos") if name in given and given[name].ndim}
        count = max(lengths) if lengths else int(edges.max(initial=-1)) + 1
    return np.array([0, int(np.asarray(count).sum())], np.int64), np.array([0, edges.shape[1]], np.int64)


def _offsets(ptr: npt.NDArray[Any], name: str, where: str) -> Ints:
    if (
        ptr.ndim != 1
        or not len(ptr)
        or ptr.dtype.kind not in "iu"
        or ptr[0] != 0
        or (np.diff(ptr.astype(np.int64)) < 0).any()
    ):
        raise DatasetError(f"{where}: {name!r} must be whole numbers that start at 0 and never fall")
    return ptr.astype(np.int64)


def _field(name: str, values: npt.NDArray[Any], node_ptr: Ints, edge_ptr: Ints, where: str) -> Field:
    num_graphs = len(node_ptr) - 1
    values = np.ascontiguousarray(np.atleast_1d(values))
    choices = {"node": node_ptr, "edge": edge_ptr, "graph": np.arange(num_graphs + 1)}
    order = ["edge", "node", "graph"] if name.startswith("edge_") else ["node", "edge", "graph"]
    if name in ("y", "num_nodes"):
        order = ["graph", "node", "edge"]
    for kind in order:
        if len(values) == choices[kind][-1]:
            return Field(name, values, choices[kind])
    if num_graphs == 1:  # one graph: the whole array is its value
        return Field(name, values, np.array([0, len(values)], np.int64))
    lengths = f"{node_ptr[-1]} nodes, {edge_ptr[-1]} edges or {num_graphs} graphs"
    raise DatasetError(f"{where}: {name!r} has {len(values)} rows, expected one per {lengths}")


def join_tables(parts: Sequence[tuple[str, GraphTable]]) -> GraphTable:
    """The graphs of several tables behind one another; all must have the same attributes.

    Args:
        parts: (name for errors, table).
    """
    first_name, first = parts[0]
    names = first.fields.keys()
    for name, table in parts:
        if table.fields.keys() != names:
            odd = sorted(table.fields.keys() ^ names)[0]
            raise DatasetError(
                f"graphs must have the same attributes: {odd!r} is not in both {first_name} and {name}"
            )
    fields = {key: _join_field(key, [(name, t.fields[key]) for name, t in parts]) for key in names}
    return GraphTable(_join_ptr([t.node_ptr for _, t in parts]), fields)


def _join_field(key: str, parts: Sequence[tuple[str, Field]]) -> Field:
    first_name, first = parts[0]
    for name, field in parts:
        tails = [np.moveaxis(f.values, f.axis, 0).shape[1:] for f in (first, field)]
        if tails[0] != tails[1] or field.form != first.form:
            raise DatasetError(
                f"{key!r} has rows of shape {list(tails[0])} in {first_name}, {list(tails[1])} in {name}"
            )
    values = np.concatenate([f.values for _, f in parts], axis=first.axis)
    return Field(key, values, _join_ptr([f.ptr for _, f in parts]), first.axis, first.form, first.shifted)


def _join_ptr(ptrs: Sequence[Ints]) -> Ints:
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(p) for p in ptrs]))]).astype(np.int64)
