"""Entries of an assignment: checking, sorting, and the matrices made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.imports import is_sparsetensor

if TYPE_CHECKING:
    from tgp.select.base_select import SelectOutput

__all__ = [
    "AssignmentError",
    "check_inverse_op",
    "check_propagation",
    "checked",
    "checked_mask",
    "first_of_each",
    "from_matrix",
    "is_expressive",
    "matrix",
    "onehot_matrix",
    "refuse",
]

Parts = tuple[Tensor | None, Tensor, Tensor | None, int, int]
"""node_index (None: entry i is node i), cluster_index, weight (None: ones), N, K."""


class AssignmentError(InputError, AssertionError):
    """Also an ``AssertionError``, which callers of ``SelectOutput`` may catch."""


def refuse(given: Mapping[str, Any], why: str) -> None:
    """Complain about arguments that make no sense together with ``s``."""
    for name, value in given.items():
        if value is not None:
            raise AssignmentError(f"{name} must be None when {why}", field=name)


def check_inverse_op(op: str) -> None:
    """``transpose`` and ``inverse`` are the ways to invert an assignment."""
    if op not in ("transpose", "inverse"):
        raise InputError(f"s_inv_op must be 'transpose' or 'inverse', got {op!r}", field="s_inv_op")


def _check_range(name: str, ids: Tensor, size: int) -> None:
    if ids.numel():
        low, high = (int(v) for v in torch.aminmax(ids))
        if low < 0 or high >= size:
            raise InputError(
                f"{name} must hold ids in [0, {size}), got {low if low < 0 else high}", field=name
            )


def checked(
    cluster_index: Tensor,
    node_index: Tensor | None,
    weight: Tensor | None,
    num_nodes: int | None,
    num_supernodes: int | None,
) -> Parts:
    """Entries in canonical form: ids in range, sorted by node then cluster, duplicates summed."""
    if num_nodes is None:
        num_nodes = cluster_index.numel()
        if node_index is not None and node_index.numel():
            num_nodes = max(num_nodes, int(node_index.max()) + 1)
    if num_supernodes is None:
        if cluster_index.numel() == 0:
            raise InputError(
                "num_supernodes must be given for an empty cluster_index", field="num_supernodes"
            )
        num_supernodes = int(cluster_index.max()) + 1
    for name, value in (("node_index", node_index), ("weight", weight)):
        if value is not None and value.numel() != cluster_index.numel():
            raise InputError(
                f"{name} must hold {cluster_index.numel()} values, got {value.numel()}", field=name
            )
    if node_index is None and cluster_index.numel() > num_nodes:
        raise InputError(
            f"cluster_index must hold at most {num_nodes} values, got {cluster_index.numel()}",
            field="cluster_index",
        )
    _check_range("cluster_index", cluster_index, num_supernodes)
    cluster_index = cluster_index.reshape(-1).long()
    weight = None if weight is None else weight.reshape(-1)
    if node_index is None:
        if cluster_index.numel() < num_nodes:
            node_index = torch.arange(cluster_index.numel(), device=cluster_index.device)
        return node_index, cluster_index, weight, num_nodes, num_supernodes
    _check_range("node_index", node_index, num_nodes)
    return _sorted(node_index.reshape(-1).long(), cluster_index, weight, num_nodes, num_supernodes)


def _sorted(rows: Tensor, cols: Tensor, weight: Tensor | None, num_nodes: int, num_supernodes: int) -> Parts:
    key = rows * max(num_supernodes, 1) + cols
    if key.numel() > 1 and not bool((key[1:] > key[:-1]).all()):
        key, order = key.sort(stable=True)
        rows, cols = rows[order], cols[order]
        weight = None if weight is None else weight[order]
        repeated = key[1:] == key[:-1]
        if bool(repeated.any()):
            merged, place = torch.unique_consecutive(key, return_inverse=True)
            values = torch.ones(key.numel(), device=key.device) if weight is None else weight
            weight = values.new_zeros(merged.numel()).index_add(0, place, values)
            rows, cols = merged // max(num_supernodes, 1), merged % max(num_supernodes, 1)
    return rows, cols, weight, num_nodes, num_supernodes


def from_matrix(
    s: Tensor, weight: Tensor | None, num_nodes: int | None, num_supernodes: int | None
) -> tuple[Tensor | None, Tensor, Tensor | None, int, int, Tensor | None]:
    """Entries of a sparse matrix and the matrix itself, where it can be used as it is."""
    coo = s.to_sparse_coo().coalesce()
    rows, cols = coo.indices()
    shape = (num_nodes or coo.size(0), num_supernodes or coo.size(1))
    values = coo.values()
    if weight is not None:
        if weight.numel() != values.numel():
            raise InputError(
                f"weight must hold {values.numel()} values, got {weight.numel()}", field="weight"
            )
        values = weight.reshape(-1).to(s.dtype)
    _check_range("node_index", rows, shape[0])
    _check_range("cluster_index", cols, shape[1])
    same = weight is None and shape == tuple(coo.shape)
    return rows, cols, values, shape[0], shape[1], coo if same else None


def checked_mask(in_mask: Tensor, so: SelectOutput) -> Tensor:
    """``in_mask`` as bool ``[B, N]`` of a dense ``[B, N, K]`` assignment."""
    if in_mask.dim() != 2:
        raise InputError(f"in_mask must be 2D [B, N], got {list(in_mask.shape)}", field="in_mask")
    if so.is_sparse or so.s.dim() != 3:
        raise InputError("in_mask is only supported for batched dense assignments [B, N, K]", field="in_mask")
    if in_mask.shape != so.s.shape[:2]:
        raise InputError(
            f"in_mask must have shape {list(so.s.shape[:2])}, got {list(in_mask.shape)}", field="in_mask"
        )
    return in_mask.bool()


def matrix(
    rows: Tensor | None, cols: Tensor, weight: Tensor | None, num_nodes: int, num_supernodes: int
) -> Tensor:
    """COO ``[N, K]`` of canonical entries."""
    if rows is None:
        rows = torch.arange(num_nodes, device=cols.device)
    if weight is None:
        weight = torch.ones(cols.numel(), device=cols.device)
    return torch.sparse_coo_tensor(
        torch.stack([rows, cols]),
        weight,
        (num_nodes, num_supernodes),
        is_coalesced=True,
        check_invariants=False,
    )


def onehot_matrix(column: Tensor, k: int) -> Tensor:
    """Dense ``[N, k]`` with a one in the given column of each row; ``-1`` gives a zero row."""
    return (column.unsqueeze(1) == torch.arange(k, device=column.device)).float()


def is_expressive(so: SelectOutput) -> bool:
    """Whether all row sums equal one non-zero constant."""
    if so.is_sparse:
        if so._node_index is None and so._weight is None:
            return so.num_nodes > 0
        weight = so.weight
        sums = weight.new_zeros(so.num_nodes).index_add(0, so.node_index, weight)
    else:
        sums = so.s.sum(-1)
        sums = sums[so.in_mask] if so.in_mask is not None else sums.reshape(-1)
    if sums.numel() == 0 or bool(sums[0] == 0):
        return False
    return torch.allclose(sums, sums[0].expand_as(sums))


def first_of_each(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct values of an ascending vector and where each occurs first."""
    first = torch.ones_like(rows, dtype=torch.bool)
    first[1:] = rows[1:] != rows[:-1]
    return rows[first], first


def check_propagation(adj: Any, max_iter: int, batch: Tensor | None, closest: bool) -> Any:
    """The connectivity to propagate along, or ``None`` for a random spread."""
    if not closest:
        if batch is None:
            raise InputError("batch must be given when closest_node_assignment=False", field="batch")
        return None
    if adj is None:
        raise AssignmentError("adj must be given when closest_node_assignment=True", field="adj")
    if max_iter <= 0:
        raise AssignmentError(f"max_iter must be positive, got {max_iter}", field="max_iter")
    if not isinstance(adj, Tensor) and not is_sparsetensor(adj):
        raise InputError(f"adj must be a Tensor or a SparseTensor, got {type(adj).__name__}", field="adj")
    return adj
