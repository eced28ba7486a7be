"""Assignments: pseudo-inverse, one-hot matrices, and giving every node to a kept one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.utils.ops.connectivity import connectivity_to_edge_index

__all__ = [
    "create_one_hot_tensor",
    "get_assignments",
    "get_random_map_mask",
    "propagate_assignments_sparse",
    "pseudo_inverse",
]

_TINY = 1e-5


def pseudo_inverse(matrix: Tensor) -> Tensor:
    """Moore-Penrose inverse ``[..., N, K] -> [..., K, N]``; sparse in, sparse out.

    A sparse matrix with at most one entry per row is inverted by its formula
    ``diag(1 / column sums of squares) S^T``, without ever being dense.
    """
    if not isinstance(matrix, Tensor):
        raise _NotATensor(f"pseudo_inverse takes a Tensor, got {type(matrix).__name__}", field="matrix")
    if matrix.layout is torch.strided:
        wide = matrix if matrix.dtype == torch.float64 else matrix.float()
        return torch.linalg.pinv(wide)
    coo = matrix.to_sparse_coo().coalesce()
    rows, cols = coo.indices()
    if rows.numel() < 2 or bool((rows[1:] != rows[:-1]).all()):
        return _hard_inverse(rows, cols, coo.values(), coo.shape)
    dense = pseudo_inverse(coo.to_dense())
    return torch.where(dense.abs() < _TINY, torch.zeros_like(dense), dense).to_sparse_coo()


def _hard_inverse(rows: Tensor, cols: Tensor, values: Tensor, shape: Sequence[int]) -> Tensor:
    values = values if values.is_floating_point() else values.float()
    norm = values.new_zeros(shape[1]).index_add(0, cols, values * values)
    norm = torch.where(norm == 0, torch.ones_like(norm), norm)
    order = cols.argsort(stable=True)
    index = torch.stack([cols, rows])[:, order]
    return torch.sparse_coo_tensor(
        index, (values / norm[cols])[order], (shape[1], shape[0]), is_coalesced=True, check_invariants=False
    )


class _NotATensor(InputError, NotImplementedError):
    """Also a ``NotImplementedError``, which users of this check may catch."""


def create_one_hot_tensor(
    num_nodes: int,
    kept_node_tensor: Tensor,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """``[N, K + 1]``: column 0 means unassigned, kept node ``i`` has its one in column ``i + 1``."""
    kept = kept_node_tensor.reshape(-1)
    out = torch.zeros(num_nodes, kept.numel() + 1, device=device, dtype=dtype or torch.float32)
    out[kept, torch.arange(1, kept.numel() + 1, device=kept.device)] = 1
    return out


def propagate_assignments_sparse(
    assignments: Tensor,
    edge_index: Tensor,
    kept_node_tensor: Tensor,
    mask: Tensor,
    num_clusters: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """One round: an unassigned target takes the label most frequent among its assigned sources.

    Args:
        assignments: ``[N]`` labels 1..K, 0 for unassigned.
        edge_index: ``[2, E]``, direction is followed.
        kept_node_tensor: ``[K]`` node ids of the labels.
        mask: ``[N]`` true where assigned.
        num_clusters: ``K``.

    Returns:
        New labels, ``[2, M]`` newly assigned nodes with their kept nodes, new mask. Ties go to the
        smaller label. The inputs are not changed.
    """
    source, target = edge_index
    useful = (assignments[source] > 0) & ~mask[target]
    empty = torch.empty(2, 0, dtype=torch.long, device=edge_index.device)
    if not bool(useful.any()):
        return assignments, empty, mask
    width = num_clusters + 1
    votes, counts = torch.unique(target[useful] * width + assignments[source[useful]], return_counts=True)
    node, label = votes // width, votes % width
    # Descending count, ascending label inside each node: the first row of a node is its choice.
    order = (node * (int(counts.max()) + 1) - counts).argsort(stable=True)
    node, label = node[order], label[order]
    first = torch.ones_like(node, dtype=torch.bool)
    first[1:] = node[1:] != node[:-1]
    node, label = node[first], label[first]
    assignments = assignments.index_copy(0, node, label.to(assignments.dtype))
    mask = mask.index_fill(0, node, True)
    return assignments, torch.stack([node, kept_node_tensor.reshape(-1)[label - 1]]), mask


def _scramble(ids: Tensor) -> Tensor:
    """Well-mixed non-negative int64 per id: the same on every run and device."""
    z = ids * 2654435761 + 12345
    z = (z ^ (z >> 16)) * 73244475
    z = (z ^ (z >> 16)) * 73244475
    return (z ^ (z >> 16)) & 0x7FFFFFFF


def get_random_map_mask(
    kept_nodes: Tensor,
    mask: Tensor,
    batch: Tensor | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """``[2, M]``: each unassigned node and a kept node for it, of its own graph where there is one.

    A graph without kept nodes draws from all kept nodes. Without a ``generator`` the choice is a hash
    of the node's position, so it is the same on every run.
    """
    kept_nodes = kept_nodes.reshape(-1)
    node = (~mask.bool()).nonzero().squeeze(1)
    if node.numel() == 0:
        return torch.stack([node, node])
    if kept_nodes.numel() == 0:
        raise InputError("at least one kept node is needed to assign the others", field="kept_nodes")
    if generator is None:
        draw = _scramble(node)
    else:
        draw = torch.randint(2**31, (node.numel(),), generator=generator, device=generator.device).to(
            node.device
        )
    if batch is None:
        return torch.stack([node, kept_nodes[draw % kept_nodes.numel()]])
    graph_of_kept, order = batch[kept_nodes].sort(stable=True)
    counts = torch.bincount(graph_of_kept, minlength=int(batch.max()) + 1)
    start = counts.cumsum(0) - counts
    own = counts[batch[node]]
    size = torch.where(own > 0, own, torch.full_like(own, kept_nodes.numel()))
    first = torch.where(own > 0, start[batch[node]], torch.zeros_like(own))
    return torch.stack([node, kept_nodes[order][first + draw % size]])


def get_assignments(
    kept_node_indices: Tensor | Sequence[int],
    edge_index: Any = None,
    max_iter: int = 5,
    batch: Tensor | None = None,
    num_nodes: int | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Give every node to a kept one: ``[2, N]`` node ids and consecutive cluster ids.

    Kept nodes are their own clusters, numbered by ascending id; then up to ``max_iter`` rounds of
    :func:`propagate_assignments_sparse`; the rest by :func:`get_random_map_mask`.

    Args:
        kept_node_indices: ids of the kept nodes, in any order.
        edge_index: connectivity in any sparse form; needed if ``max_iter > 0``.
        max_iter: rounds of propagation.
        batch: ``[N]`` graph ids for the last step.
        num_nodes: ``N``; default from ``batch``, else from ``edge_index``.
        generator: random source of the last step.
    """
    if num_nodes is None and batch is None and edge_index is None:
        raise InputError(
            "one of num_nodes, batch and edge_index must be given to know the nodes", field="num_nodes"
        )
    if max_iter > 0 and edge_index is None:
        raise InputError(
            f"edge_index must be given when max_iter > 0, got max_iter={max_iter}", field="edge_index"
        )
    index = None if edge_index is None else connectivity_to_edge_index(edge_index)[0]
    if num_nodes is None:
        num_nodes = batch.numel() if batch is not None else int(index.max()) + 1 if index.numel() else 0
    device = index.device if index is not None else batch.device if batch is not None else None
    kept = torch.as_tensor(kept_node_indices, dtype=torch.long, device=device).reshape(-1)
    kept = torch.unique(kept)
    labels = torch.zeros(num_nodes, dtype=torch.long, device=kept.device)
    labels[kept] = torch.arange(1, kept.numel() + 1, device=kept.device)
    mask = labels > 0
    for _ in range(max_iter):
        before = mask
        labels, _, mask = propagate_assignments_sparse(labels, index, kept, mask, kept.numel())
        if mask is before:
            break
    rest = get_random_map_mask(kept, mask, batch, generator=generator)
    labels[rest[0]] = torch.searchsorted(kept, rest[1]) + 1
    return torch.stack([torch.arange(num_nodes, device=kept.device), labels - 1])
