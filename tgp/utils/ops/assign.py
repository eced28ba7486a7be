"""Assignments: pseudo-inverse, one-hot matrices, and assignment of all nodes to kept nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.utils.checks import check_ids
from tgp.utils.ops.connectivity import connectivity_to_edge_index, infer_num_nodes
from tgp.utils.precision import widen
from tgp.utils.tracing import on_host

__all__ = [
    "create_one_hot_tensor",
    "get_assignments",
    "get_random_map_mask",
    "propagate_assignments_sparse",
    "pseudo_inverse",
]

_TINY = 1e-5


def pseudo_inverse(edge_index: Tensor) -> Tensor:
    """Return the Moore-Penrose inverse ``[..., K, N]`` of a matrix ``[..., N, K]``.

    The inverse of a sparse matrix is sparse. If the matrix has at most one entry per row, the inverse is
    ``diag(1 / column sums of squares) S^T`` and is computed without a dense matrix.

    Args:
        edge_index: The matrix, dense or sparse; the name is that of tgp 1.0.2. Half precision is inverted in
            float32.

    Returns:
        The inverse in the dtype of the matrix; float32 for bool and integers.

    Raises:
        InputError: If the argument is not a tensor (also a ``NotImplementedError``).
    """
    matrix = edge_index
    if not isinstance(matrix, Tensor):
        raise _NotATensor(f"edge_index must be a Tensor, got {type(matrix).__name__}.", field="edge_index")
    if matrix.layout is torch.strided:
        if not matrix.is_floating_point():
            matrix = matrix.float()
        inverse: Tensor = torch.linalg.pinv(widen(matrix))
        return inverse.to(matrix.dtype)
    coo: Tensor = matrix.to_sparse_coo().coalesce()
    rows, cols = coo.indices()
    if rows.numel() < 2 or bool((rows[1:] != rows[:-1]).all()):
        return _hard_inverse(rows, cols, coo.values(), coo.shape)
    dense = pseudo_inverse(coo.to_dense())
    sparse: Tensor = torch.where(dense.abs() < _TINY, torch.zeros_like(dense), dense).to_sparse_coo()
    return sparse


def _hard_inverse(rows: Tensor, cols: Tensor, values: Tensor, shape: Sequence[int]) -> Tensor:
    values = values if values.is_floating_point() else values.float()
    wide = widen(values)
    norm = wide.new_zeros(shape[1]).index_add(0, cols, wide * wide)
    norm = torch.where(norm == 0, torch.ones_like(norm), norm)
    order = cols.argsort(stable=True)
    index = torch.stack([cols, rows])[:, order]
    inverse = (wide / norm[cols])[order].to(values.dtype)
    return torch.sparse_coo_tensor(
        index, inverse, (shape[1], shape[0]), is_coalesced=True, check_invariants=False
    )


class _NotATensor(InputError, NotImplementedError):
    """An argument that is not a tensor. Also a ``NotImplementedError``, which tgp 1.0.2 raised."""


def create_one_hot_tensor(
    num_nodes: int,
    kept_node_tensor: Tensor,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a one-hot matrix ``[N, K + 1]`` of kept nodes.

    Column 0 means unassigned; the ``i``-th kept node has its one in column ``i + 1``.

    Args:
        num_nodes: ``N``.
        kept_node_tensor: ``[K]`` node ids.
        device: Device of the result.
        dtype: Type of the result; default float32.

    Raises:
        InputError: If a node id is out of range.
    """
    kept = kept_node_tensor.reshape(-1)
    check_ids(kept, num_nodes, "kept_node_tensor")
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
    """Run one round of label propagation.

    A node without a label takes the most frequent label of the sources of its edges.

    Args:
        assignments: ``[N]`` labels 1..K, 0 for unassigned.
        edge_index: ``[2, E]``. Labels move from source to target.
        kept_node_tensor: ``[K]`` node ids of the labels.
        mask: ``[N]`` True for nodes that have a label.
        num_clusters: ``K``.

    Returns:
        New labels, ``[2, M]`` newly assigned nodes with their kept nodes, and the new mask. The smaller label wins
        a tie. The inputs are not changed.
    """
    source, target = edge_index
    if on_host(assignments, edge_index, mask):  # use only the edges that can change a label
        useful = (assignments.index_select(0, source) > 0) & ~mask.index_select(0, target)
        chosen = useful.nonzero().squeeze(1)
        if chosen.numel() == 0:
            return assignments, torch.empty(2, 0, dtype=torch.long, device=edge_index.device), mask
        source, target = source.index_select(0, chosen), target.index_select(0, chosen)
    labels, changed = _vote(assignments, source, target, mask, num_clusters)
    node = changed.nonzero().squeeze(1)
    kept = kept_node_tensor.reshape(-1)[labels.index_select(0, node).long() - 1]
    return labels, torch.stack([node, kept]), mask | changed


def _vote(
    assignments: Tensor, source: Tensor, target: Tensor, mask: Tensor, num_clusters: int
) -> tuple[Tensor, Tensor]:
    """Return new labels, and a mask of the nodes that got one.

    Every target without a label takes the most frequent label of its sources; the smaller label wins a tie.
    """
    width = num_clusters + 1
    votes, count = _count_equal(target * width + assignments.index_select(0, source))
    node, label = votes // width, votes % width
    # The label with more votes wins, then the smaller label. Label 0 is not a vote.
    score = (count * width + num_clusters - label) * (label > 0)
    best = torch.zeros_like(assignments, dtype=torch.long).scatter_reduce(0, node, score, "amax")
    changed = (best > 0) & ~mask
    chosen = (num_clusters - best % width).to(assignments.dtype)
    return torch.where(changed, chosen, assignments), changed


def _count_equal(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return sorted keys and how often each occurs. Keys are unique on the host and repeated elsewhere."""
    if on_host(keys):
        values, counts = torch.unique(keys, return_counts=True)
        return values, counts
    keys, _ = keys.sort()
    first = torch.cat([torch.ones_like(keys[:1], dtype=torch.bool), keys[1:] != keys[:-1]])
    group = first.long().cumsum(0) - 1
    return keys, torch.zeros_like(keys).index_add(0, group, torch.ones_like(keys)).index_select(0, group)


def _scramble(ids: Tensor) -> Tensor:
    """Return a pseudo-random non-negative int64 for each id, which is the same in every run and on every device."""
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
    """Return ``[2, M]``: each unassigned node and a random kept node of the same graph.

    If a graph has no kept node, the choice is made among all kept nodes. Without a ``generator`` the choice is a
    hash of the node id, so it is the same in every run.
    """
    kept_nodes = kept_nodes.reshape(-1)
    node = (~mask.bool()).nonzero().squeeze(1)
    if node.numel() == 0:
        return torch.stack([node, node])
    if kept_nodes.numel() == 0:
        raise InputError(
            "kept_nodes is empty: expected at least one kept node to assign the other nodes to, got none.",
            field="kept_nodes",
        )
    if generator is None:
        draw = _scramble(node)
    else:
        draw = torch.randint(2**31, (node.numel(),), generator=generator, device=generator.device).to(
            node.device
        )
    return torch.stack([node, _draw_kept(kept_nodes, draw, batch, None if batch is None else batch[node])])


def _draw_kept(kept_nodes: Tensor, draw: Tensor, batch: Tensor | None, graph: Tensor | None) -> Tensor:
    """Return a kept node for each number in ``draw``, from the same graph if it has a kept node."""
    if batch is None or graph is None:
        return kept_nodes[draw % kept_nodes.numel()]
    graph_of_kept, order = batch[kept_nodes].sort(stable=True)
    first = torch.searchsorted(graph_of_kept, graph)
    own = torch.searchsorted(graph_of_kept, graph, right=True) - first
    size = torch.where(own > 0, own, torch.full_like(own, kept_nodes.numel()))
    first = torch.where(own > 0, first, torch.zeros_like(own))
    return kept_nodes[order][first + draw % size]


def get_assignments(
    kept_node_indices: Tensor | Sequence[int],
    edge_index: Any = None,
    max_iter: int = 5,
    batch: Tensor | None = None,
    num_nodes: int | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Assign every node to a kept node.

    Each kept node is a cluster; clusters are numbered by ascending node id. Other nodes get their cluster in up to
    ``max_iter`` rounds of :func:`propagate_assignments_sparse`, and the remaining ones from
    :func:`get_random_map_mask`.

    Args:
        kept_node_indices: Ids of the kept nodes, in any order.
        edge_index: Connectivity in any sparse form; needed if ``max_iter > 0``.
        max_iter: Number of rounds of propagation.
        batch: ``[N]`` graph ids for the last step.
        num_nodes: ``N``; the default is taken from ``batch``, else from ``edge_index``.
        generator: Random number generator of the last step.

    Returns:
        ``[2, N]`` node ids and consecutive cluster ids.

    Raises:
        InputError: If an argument is missing or an id is out of range.
    """
    if num_nodes is None and batch is None and edge_index is None:
        raise InputError(
            "Either num_nodes, batch, or edge_index must be provided: the number of nodes is not known.",
            field="num_nodes",
        )
    if max_iter > 0 and edge_index is None:
        raise InputError(
            f"edge_index must be given when max_iter > 0, got max_iter={max_iter}", field="edge_index"
        )
    index = None if edge_index is None else connectivity_to_edge_index(edge_index)[0]
    if num_nodes is None:
        num_nodes = infer_num_nodes(index) if batch is None else batch.numel()
    device = index.device if index is not None else batch.device if batch is not None else None
    kept = torch.as_tensor(kept_node_indices, dtype=torch.long, device=device).reshape(-1)
    kept = torch.unique(kept)
    check_ids(kept, num_nodes, "kept_node_indices")
    if index is not None:
        check_ids(index, num_nodes, "edge_index")
    labels = torch.zeros(num_nodes, dtype=torch.long, device=kept.device)
    labels[kept] = torch.arange(1, kept.numel() + 1, device=kept.device)
    if on_host(labels, index) or generator is not None or kept.numel() == 0:
        labels = _assign_on_host(labels, index, kept, max_iter, batch, generator)
    else:
        labels = _assign_on_device(labels, index, kept, max_iter, batch)
    return torch.stack([torch.arange(num_nodes, device=kept.device), labels - 1])


def _assign_on_host(
    labels: Tensor,
    index: Tensor | None,
    kept: Tensor,
    max_iter: int,
    batch: Tensor | None,
    generator: torch.Generator | None,
) -> Tensor:
    """Return the labels of all nodes; stop after a round without changes."""
    mask = labels > 0
    for _ in range(max_iter):
        assert index is not None
        before = mask
        labels, _, mask = propagate_assignments_sparse(labels, index, kept, mask, kept.numel())
        if mask is before:
            break
    rest = get_random_map_mask(kept, mask, batch, generator=generator)
    labels[rest[0]] = torch.searchsorted(kept, rest[1]) + 1
    return labels


def _assign_on_device(
    labels: Tensor, index: Tensor | None, kept: Tensor, max_iter: int, batch: Tensor | None
) -> Tensor:
    """Return the same labels from a fixed number of rounds, without reading a value on the host."""
    mask = labels > 0
    for _ in range(max_iter):
        assert index is not None
        labels, changed = _vote(labels, index[0], index[1], mask, kept.numel())
        mask = mask | changed
    draw = _scramble(torch.arange(labels.numel(), device=labels.device))
    rest = torch.searchsorted(kept, _draw_kept(kept, draw, batch, batch)) + 1
    return torch.where(mask, labels, rest)
