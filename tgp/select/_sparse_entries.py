"""Entries of an assignment: check and sort them, build matrices from them, and add entries for all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.imports import is_sparsetensor
from tgp.utils.ops.assign import get_assignments
from tgp.utils.ops.batching import num_graphs
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.tracing import on_host, opaque

if TYPE_CHECKING:
    from tgp.select.base_select import SelectOutput

__all__ = [
    "AssignmentError",
    "assign_all_nodes",
    "check_inverse_op",
    "checked",
    "checked_mask",
    "cluster_to_s",
    "coo_matrix",
    "from_matrix",
    "is_expressive",
    "matrix",
    "onehot_mask",
    "onehot_matrix",
    "refuse",
    "to_nodes",
]

Entries = tuple[Tensor | None, Tensor, Tensor | None, int, int]
"""``node_index`` (``None`` if entry ``i`` is node ``i``), ``cluster_index``, ``weight`` (``None`` for ones), N, K."""

NO_CLUSTERS = "'cluster_index' cannot be None if 's' is None"
NO_COLUMNS = "s must have shape [N, K] or [B, N, K] (cluster_index is for one cluster per node)"
NO_MATRIX = (
    "Either a sparse or dense assignment matrix is provided through 's' or a cluster assignment vector must be "
    "provided through 'cluster_index': expected s to be a Tensor"
)


class AssignmentError(InputError, AssertionError):
    """Invalid arguments. Also an ``AssertionError``, which tgp 1.0.2 raised."""


def refuse(given: Mapping[str, Any], kind: str) -> None:
    """Raise an error if an argument is given that contradicts ``s``."""
    for name, value in given.items():
        if value is not None:
            raise AssignmentError(f"'{name}' cannot be set if 's' is {kind}: expected None", field=name)


def check_inverse_op(op: str) -> None:
    """Check that ``op`` is ``transpose`` or ``inverse``."""
    if op not in ("transpose", "inverse"):
        raise InputError(f"s_inv_op must be 'transpose' or 'inverse', got {op!r}", field="s_inv_op")


def _check_range(name: str, ids: Tensor, size: int) -> None:
    if not on_host(ids):
        torch._assert_async(((ids >= 0) & (ids < size)).all(), f"{name} must hold ids in [0, {size})")
    elif ids.numel() > 0:
        low, high = (int(v) for v in torch.aminmax(ids))
        if low < 0 or high >= size:
            raise InputError(
                f"{name} must hold ids in [0, {size}), got {low if low < 0 else high}", field=name
            )


def _check_tensors(**given: Any) -> None:
    """Check the types of the arguments."""
    for name, value in given.items():
        if value is not None and not isinstance(value, Tensor):
            raise InputError(f"{name} must be a Tensor, got {type(value).__name__}", field=name)


def checked(
    cluster_index: Tensor,
    node_index: Tensor | None,
    weight: Tensor | None,
    num_nodes: int | None,
    num_supernodes: int | None,
) -> Entries:
    """Check entries and return them sorted by node, then by supernode, with duplicates summed."""
    _check_tensors(cluster_index=cluster_index, node_index=node_index, weight=weight)
    if num_nodes is None:
        num_nodes = cluster_index.numel()
        if node_index is not None and node_index.numel() > 0:
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


def _sorted(
    rows: Tensor, cols: Tensor, weight: Tensor | None, num_nodes: int, num_supernodes: int
) -> Entries:
    """Sort entries and sum duplicates."""
    key = rows * max(num_supernodes, 1) + cols
    if key.numel() > 1 and not bool((key[1:] > key[:-1]).all()):
        key, order = key.sort(stable=True)
        rows, cols = rows[order], cols[order]
        weight = None if weight is None else weight[order]
        repeated = key[1:] == key[:-1]
        if bool(repeated.any()):
            merged, position = torch.unique_consecutive(key, return_inverse=True)
            values = torch.ones(key.numel(), device=key.device) if weight is None else weight
            weight = values.new_zeros(merged.numel()).index_add(0, position, values)
            rows, cols = merged // max(num_supernodes, 1), merged % max(num_supernodes, 1)
    return rows, cols, weight, num_nodes, num_supernodes


def from_matrix(
    s: Tensor, weight: Tensor | None, num_nodes: int | None, num_supernodes: int | None
) -> tuple[Tensor | None, Tensor, Tensor | None, int, int, Tensor | None]:
    """Return the entries of a sparse matrix, and the matrix itself if it needs no change."""
    coo: Tensor = s.to_sparse_coo().coalesce()
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
    """Check that ``in_mask`` fits a dense ``[B, N, K]`` assignment and return it as bool ``[B, N]``."""
    if in_mask.dim() != 2:
        raise InputError(f"in_mask must be 2D with shape [B, N], got {tuple(in_mask.shape)}", field="in_mask")
    if so.is_sparse or so.s.dim() != 3:
        raise InputError(
            "in_mask is only supported for batched dense assignments with shape [B, N, K], got another assignment",
            field="in_mask",
        )
    if in_mask.shape != so.s.shape[:2]:
        raise InputError(
            f"in_mask must have shape {tuple(so.s.shape[:2])}, got {tuple(in_mask.shape)}", field="in_mask"
        )
    return in_mask.bool()


def matrix(
    rows: Tensor | None,
    cols: Tensor,
    weight: Tensor | None,
    num_nodes: int,
    num_supernodes: int,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the COO matrix ``[N, K]`` of sorted entries. Missing weights are ones of ``dtype``."""
    if rows is None:
        rows = torch.arange(num_nodes, device=cols.device)
    if weight is None:
        weight = torch.ones(cols.numel(), dtype=dtype, device=cols.device)
    return coo_matrix(torch.stack([rows, cols]), weight, (num_nodes, num_supernodes))


def coo_matrix(index: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the COO matrix of sorted, distinct entries without checking them."""
    return torch.sparse_coo_tensor(index, values, size, is_coalesced=True, check_invariants=False)


def onehot_matrix(column: Tensor, k: int, dtype: torch.dtype | None = None) -> Tensor:
    """Return the dense ``[N, k]`` matrix with a one in the given column of each row; ``-1`` gives a zero row."""
    hits = column.unsqueeze(1) == torch.arange(k, device=column.device)
    return hits.to(torch.get_default_dtype() if dtype is None else dtype)


def onehot_mask(column: Tensor, k: int, batch: Tensor | None, batch_size: int | None) -> Tensor:
    """Return the mask ``[B, k]`` of the columns that a node of the graph has, without an ``[N, k]`` matrix."""
    count = num_graphs(batch, batch_size)
    position = column if batch is None else batch * k + column
    position = torch.where(column < 0, count * k, position)  # the last element collects rows without a column
    hits = torch.zeros(count * k + 1, dtype=torch.bool, device=column.device)
    return hits.index_fill(0, position, True)[:-1].view(count, k)


def to_nodes(so: SelectOutput, x: Tensor) -> Tensor:
    """Implement :meth:`SelectOutput.to_nodes`."""
    padded = so.is_dense and so._cluster_index is None and so.s.dim() == 3
    if not padded:
        if x.dim() > 0 and x.size(0) == so.num_nodes:
            return x
        raise InputError(
            f"x has the wrong shape: expected {so.num_nodes} rows, because this assignment is not padded, "
            f"got {list(x.shape)}",
            field="x",
        )
    if x.shape[:2] != so.s.shape[:2]:
        raise InputError(
            f"x has the wrong shape: expected {list(so.s.shape[:2])} as its first two sizes, as in the assignment, "
            f"got {list(x.shape)}",
            field="x",
        )
    if so._layout is not None:
        return so._layout.unpad(x)
    return x.flatten(0, 1) if so.in_mask is None else x[so.in_mask]


def cluster_to_s(
    cluster_index: Tensor,
    node_index: Tensor | None = None,
    weight: Tensor | None = None,
    as_edge_index: bool = False,
    num_nodes: int | None = None,
    num_supernodes: int | None = None,
) -> Tensor | tuple[Tensor, Tensor | None]:
    """Return the COO matrix ``[N, K]`` of the given entries. Duplicates are summed.

    Args:
        cluster_index: supernode of each entry.
        node_index: node of each entry; by default ``0, 1, ...``.
        weight: value of each entry; by default ones.
        as_edge_index: return ``(stack([node_index, cluster_index]), weight)`` unchanged instead of a matrix.
        num_nodes: ``N``; by default the number of entries.
        num_supernodes: ``K``; by default the largest id + 1.

    Returns:
        The matrix, or with ``as_edge_index`` the entries.
    """
    if as_edge_index:
        rows = (
            node_index
            if node_index is not None
            else torch.arange(cluster_index.numel(), device=cluster_index.device)
        )
        return torch.stack([rows, cluster_index]), weight
    entries = checked(cluster_index, node_index, weight, num_nodes, num_supernodes)
    return matrix(*entries)


def is_expressive(so: SelectOutput) -> bool:
    """Return True if all row sums equal one non-zero constant."""
    if so.is_sparse:
        if so._node_index is None and so._weight is None:
            return so.num_nodes > 0
        weight, rows = so.weight, so.node_index
        assert weight is not None and rows is not None
        sums = weight.new_zeros(so.num_nodes).index_add(0, rows, weight)
    else:
        sums = so.s.sum(-1)
        sums = sums[so.in_mask] if so.in_mask is not None else sums.reshape(-1)
    if sums.numel() == 0 or bool(sums[0] == 0):
        return False
    return torch.allclose(sums, sums[0].expand_as(sums))


@opaque  # The rounds depend on values. This gives one break of a compiled graph instead of many.
def assign_all_nodes(
    so: SelectOutput, adj: Any, weight: Tensor | None, max_iter: int, batch: Tensor | None, closest: bool
) -> SelectOutput:
    """Implement :meth:`SelectOutput.assign_all_nodes`."""
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
    assert kept is not None and cluster is not None  # the assignment is sparse
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
    """Return the distinct values of an ascending vector and the mask of their first occurrences."""
    first = torch.ones_like(rows, dtype=torch.bool)
    first[1:] = rows[1:] != rows[:-1]
    return rows[first], first


def _check_propagation(adj: Any, max_iter: int, batch: Tensor | None, closest: bool) -> Any:
    """Check the arguments. Return the connectivity to propagate along, or ``None`` for random supernodes."""
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
