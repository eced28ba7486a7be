"""Extend an assignment to the nodes that it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.imports import is_sparsetensor
from tgp.select._sparse_entries import AssignmentError
from tgp.utils.ops.assign import get_assignments
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.tracing import opaque

if TYPE_CHECKING:
    from tgp.select.base_select import SelectOutput

__all__ = ["assign_all_nodes"]


@opaque  # its rounds depend on values: one break of a compiled graph instead of many
def assign_all_nodes(
    so: SelectOutput, adj: Any, weight: Tensor | None, max_iter: int, batch: Tensor | None, closest: bool
) -> SelectOutput:
    """See :meth:`SelectOutput.assign_all_nodes`."""
    if so.is_dense:
        raise InputError("assign_all_nodes needs a sparse assignment, got a dense one", field="s")
    if so.covers_all:
        return so
    batch = so.batch if batch is None else batch
    edge_index = _check_propagation(adj, max_iter, batch, closest)
    if weight is not None and weight.numel() != so.num_nodes:
        raise InputError(
            f"Weight tensor size ({weight.numel()}) must match the number of nodes ({so.num_nodes})",
            field="weight",
        )
    if edge_index is not None:
        edge_index, _ = connectivity_to_edge_index(edge_index)
    kept, cluster = so.node_index, so._cluster_index
    if not so._has_distinct_nodes():
        kept, first = _first_of_each(kept)
        cluster = cluster[first]
    leader = get_assignments(kept, edge_index, max_iter if closest else 0, batch, so.num_nodes)[1]
    extras = {name: getattr(so, name) for name in so._extra_args - {"in_mask"} if hasattr(so, name)}
    return type(so).hard(
        cluster[leader],
        so.num_supernodes,
        weight=None if weight is None else weight.reshape(-1),
        s_inv_op=so.s_inv_op,
        batch=batch,
        batch_size=so.batch_size,
        dtype=so._dtype,
        **extras,
    )


def _first_of_each(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct values of an ascending vector and a mask of their first places."""
    first = torch.ones_like(rows, dtype=torch.bool)
    first[1:] = rows[1:] != rows[:-1]
    return rows[first], first


def _check_propagation(adj: Any, max_iter: int, batch: Tensor | None, closest: bool) -> Any:
    """Return the connectivity to propagate along, or ``None`` for a random spread."""
    if not closest:
        if batch is None:
            raise InputError(
                "Either num_nodes, batch, or edge_index must be provided to determine the number of nodes: expected "
                "batch for closest_node_assignment=False, got None",
                field="batch",
            )
        return None
    if adj is None:
        raise AssignmentError("adj must be provided for closest_node_assignment", field="adj")
    if max_iter <= 0:
        raise AssignmentError(
            f"max_iter must be greater than 0 for closest_node_assignment, got {max_iter}", field="max_iter"
        )
    if not isinstance(adj, Tensor) and not is_sparsetensor(adj):
        raise InputError(
            f"Invalid adjacency type: expected a Tensor or a SparseTensor, got {type(adj).__name__}",
            field="adj",
        )
    return adj
