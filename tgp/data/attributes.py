"""Arrays to attributes: what a batch holds, from the tables and levels of a store or of the engine.

Each function returns the attributes themselves and what PyG keeps beside them to take a batch apart again: the
offsets of every attribute (``slices``) and what was added to its ids (``incs``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tgp.data.convert import NODE_KEYS
from tgp.engine.methods import representative_name
from tgp.ragged import BlockCSR, Field, GraphTable, Hierarchy
from tgp.ragged.block import PtrArray
from tgp.ragged.hierarchy import AssignmentKind
from tgp.select.base_select import SelectOutput

__all__ = [
    "Attributes",
    "LevelArrays",
    "LevelView",
    "hierarchy_levels",
    "level_attributes",
    "table_attributes",
]

Array = npt.NDArray[Any]


class LevelArrays(Protocol):
    """One pooled level of some graphs; ids are those of the whole batch (see ``tgp.store.LevelArrays``)."""

    kind: AssignmentKind
    node_ptr: PtrArray
    super_ptr: PtrArray
    edge_ptr: PtrArray
    edge_index: Array
    edge_weight: Array | None
    cluster: Array | None
    weight: Array | None
    soft: Array | None
    theta: Array | None
    representative: Array | None


@dataclass(frozen=True, eq=False)
class LevelView:
    """:class:`LevelArrays` of a level that the engine has just made."""

    kind: AssignmentKind
    node_ptr: PtrArray
    super_ptr: PtrArray
    edge_ptr: PtrArray
    edge_index: Array
    edge_weight: Array | None = None
    cluster: Array | None = None
    weight: Array | None = None
    soft: Array | None = None
    theta: Array | None = None
    representative: Array | None = None


class Attributes(NamedTuple):
    """Attributes of a batch, and how to take them apart."""

    mapping: dict[str, Any]
    slices: dict[str, Any]
    incs: dict[str, Any]
    private: dict[str, Any]


def hierarchy_levels(hierarchy: Hierarchy, weight_dtype: npt.DTypeLike = np.float32) -> list[LevelView]:
    """The levels of a hierarchy over one block of graphs."""
    levels, node_ptr = [], hierarchy.node_ptr
    for level in hierarchy.levels:
        given, block = level.assignment, level.block
        levels.append(
            LevelView(
                given.kind,
                node_ptr,
                given.super_ptr,
                block.edge_ptr,
                _edge_index(block),
                None if block.weight is None else block.weight.astype(weight_dtype),
                None if given.cluster is None else given.cluster.astype(np.int64),
                given.weight,
                given.soft,
                given.theta,
                None if given.representative is None else given.representative.astype(np.int64),
            )
        )
        node_ptr = given.super_ptr
    return levels


def _edge_index(block: BlockCSR) -> Array:
    edges = np.empty((2, block.num_edges), np.int64)
    edges[0], edges[1] = block.rows(), block.indices
    return edges


def graph_ids(ptr: PtrArray) -> Tensor:
    """``[N]`` graph of each row."""
    return torch.from_numpy(np.repeat(np.arange(len(ptr) - 1), ptr[1:] - ptr[:-1]))


@lru_cache(maxsize=8)
def _counting(count: int) -> Tensor:
    """``0, 1, ...``, shared by the batches of a run; only read, to take batches apart."""
    return torch.arange(count)


def as_tensor(array: Array) -> Tensor:
    """A tensor over the array's memory; a read-only array (a mapped file) is copied first."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def level_attributes(
    level: LevelArrays,
    node_ptr: Tensor,
    node_batch: Tensor,
    method: str | None = None,
    batch: Tensor | None = None,
) -> Attributes:
    """Attributes of one pooled level; ``node_ptr`` and ``node_batch`` belong to the nodes that are pooled.

    ``batch`` is the graph of each supernode, made here if it is not given.
    """
    ptr = torch.from_numpy(level.super_ptr)
    edge_ptr = torch.from_numpy(level.edge_ptr)
    graphs = len(level.super_ptr) - 1
    if batch is None:
        batch = graph_ids(level.super_ptr)
    mapping: dict[str, Any] = {"edge_index": as_tensor(level.edge_index)}
    slices: dict[str, Any] = {"edge_index": edge_ptr}
    incs: dict[str, Any] = {"edge_index": ptr}
    if level.edge_weight is not None:
        mapping["edge_weight"] = as_tensor(level.edge_weight)
        slices["edge_weight"], incs["edge_weight"] = edge_ptr, None
    mapping["batch"] = batch
    slices["batch"], incs["batch"] = ptr, _counting(graphs)
    so = select_output(level, node_batch, method)
    if so is not None:
        mask = so.out_mask
        if mask is not None:
            mapping["mask"] = mask
            slices["mask"], incs["mask"] = _counting(graphs + 1), None
        mapping["so"] = so
    mapping["num_nodes"] = int(level.super_ptr[-1])
    mapping["ptr"] = ptr
    private = {
        "_num_nodes": (level.super_ptr[1:] - level.super_ptr[:-1]).tolist(),
        "_so_ptr": (node_ptr, ptr),
    }
    return Attributes(mapping, slices, incs, private)


def select_output(level: LevelArrays, batch: Tensor, method: str | None = None) -> SelectOutput | None:
    """The assignment of a level, its matrix not yet built; ``None`` if the level was read without it."""
    graphs = len(level.super_ptr) - 1
    extras: dict[str, Tensor] = {}
    if level.theta is not None:
        extras["theta"] = as_tensor(level.theta)
    representative = None if level.representative is None else representative_name(method)
    if representative is not None:
        extras[representative] = as_tensor(level.representative)
    so = _select_output(level, batch, graphs, extras)
    if representative is not None and so is not None:
        so._node_id_extras = frozenset({representative})
    return so


def _select_output(
    level: LevelArrays, batch: Tensor, graphs: int, extras: dict[str, Tensor]
) -> SelectOutput | None:
    if level.kind == "soft":
        if level.soft is None:
            return None
        return SelectOutput(s=as_tensor(level.soft), batch=batch, batch_size=graphs, **extras)
    if level.cluster is None:
        return None
    if level.kind == "onehot":
        width = int(level.super_ptr[1] - level.super_ptr[0]) if graphs else 0
        column = as_tensor(level.cluster)
        column = torch.where(column < 0, column, column - batch * width)
        return SelectOutput.onehot(column, width, batch=batch, batch_size=graphs, **extras)
    cluster, rows, weight = level.cluster, None, level.weight
    if len(cluster) and int(cluster.min()) < 0:
        kept = np.flatnonzero(cluster >= 0)
        cluster, rows = cluster[kept], torch.from_numpy(kept)
        weight = None if weight is None else weight[kept]
    return SelectOutput.hard(
        as_tensor(cluster),
        int(level.super_ptr[-1]),
        node_index=rows,
        num_nodes=len(level.cluster),
        weight=None if weight is None else as_tensor(weight),
        batch=batch,
        batch_size=graphs,
        **extras,
    )


def table_attributes(table: GraphTable, batch: Tensor | None = None, *, shifted: bool = False) -> Attributes:
    """Attributes of a batch of input graphs, as PyG's own collate would make them.

    Args:
        table: the graphs.
        batch: graph of each node, made here if it is not given.
        shifted: node ids are already those of the batch.
    """
    out = Attributes({}, {}, {}, {"_forms": {}})
    told = False
    for name, field in table.fields.items():
        told = told or name == "num_nodes" or (name in NODE_KEYS and field.form == "rows")
        if name in ("num_nodes", "ptr"):
            continue
        value, inc = _batched(field, table.node_ptr, shifted)
        out.mapping[name] = value
        if field.form == "str":
            out.slices[name] = _counting(field.num_graphs + 1)
        else:
            out.slices[name] = torch.from_numpy(field.ptr)
        out.incs[name] = inc
        if field.form in ("int", "float", "bool", "stacked"):
            out.private["_forms"][name] = field.form
    if "num_nodes" in table.fields or not told:
        out.mapping["num_nodes"] = table.num_nodes
        out.private["_num_nodes"] = np.diff(table.node_ptr).tolist()
    out.mapping["batch"] = graph_ids(table.node_ptr) if batch is None else batch
    out.mapping["ptr"] = torch.from_numpy(table.node_ptr)
    return out


def _batched(field: Field, node_ptr: PtrArray, shifted: bool) -> tuple[Any, Tensor | None]:
    """The value of an attribute in a batch, and what was added to each graph's ids."""
    if field.form == "str":
        raw, ptr = field.values.tobytes(), field.ptr.tolist()
        return [raw[low:high].decode() for low, high in pairwise(ptr)], None
    if field.form == "float":
        return torch.from_numpy(field.values).to(torch.get_default_dtype()), None
    start = None
    if field.shifted:
        start = node_ptr[:-1]
        if shifted:
            return torch.from_numpy(field.values), torch.from_numpy(start)
    elif "batch" in field.name and field.form in ("rows", "stacked"):
        start = _graphs_before(field)
    if start is None:
        return as_tensor(field.values), None
    shift = np.repeat(start, np.diff(field.ptr)).astype(field.values.dtype)
    if field.axis == 0 and field.values.ndim > 1:
        shift = shift.reshape(-1, *[1] * (field.values.ndim - 1))
    return torch.from_numpy(field.values + shift), torch.from_numpy(np.ascontiguousarray(start))


def _graphs_before(field: Field) -> PtrArray:
    """PyG's rule for attributes with 'batch' in their name: ids of each graph start behind those of the last."""
    sizes = np.zeros(field.num_graphs, np.int64)
    filled = np.flatnonzero(np.diff(field.ptr))
    if len(filled):
        rows = np.moveaxis(field.values, field.axis, 0)
        rows = rows.reshape(len(rows), -1).max(axis=1)
        sizes[filled] = np.maximum.reduceat(rows, field.ptr[filled]) + 1
    return np.cumsum(sizes) - sizes
