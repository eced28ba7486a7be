"""Adjacency matrices: degrees, self-loops, merging of parallel edges, post-processing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp import eps
from tgp.errors import InputError
from tgp.utils.ops.connectivity import (
    Container,
    check_and_filter_edge_weights,
    connectivity_to_edge_index,
    infer_num_nodes,
)

__all__ = [
    "add_remaining_self_loops",
    "coalesce_edges",
    "delta_gcn_edges",
    "delta_gcn_matrix",
    "dense_to_block_diag",
    "filter_edges",
    "inverse_sqrt_degree",
    "postprocess_adj_pool_dense",
    "postprocess_adj_pool_sparse",
    "rank3_diag",
    "rank3_trace",
    "weighted_degree",
]

_REDUCE = {"sum": "sum", "add": "sum", "mean": "mean", "min": "amin", "max": "amax", "mul": "prod"}


def rank3_trace(x: Tensor) -> Tensor:
    """``[B, N, N] -> [B]``: trace of each matrix."""
    return x.diagonal(dim1=-2, dim2=-1).sum(-1)


def rank3_diag(x: Tensor) -> Tensor:
    """``[B, N] -> [B, N, N]``: diagonal matrices."""
    return torch.diag_embed(x)


def weighted_degree(index: Tensor, weights: Tensor | None = None, num_nodes: int | None = None) -> Tensor:
    """``[N]``: sum of ``weights`` per id of ``index``; int32 counts without weights."""
    size = infer_num_nodes(index, num_nodes)
    if weights is None:
        return torch.bincount(index, minlength=size).to(torch.int32)
    return weights.new_zeros(size).index_add(0, index, weights)


def inverse_sqrt_degree(degree: Tensor) -> Tensor:
    """``d^-1/2``, and 0 where the degree is not positive (a sink, or negative weights)."""
    positive = degree > eps
    return torch.where(positive, degree, torch.ones_like(degree)).rsqrt() * positive


def coalesce_edges(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, reduce_op: str = "sum"
) -> tuple[Tensor, Tensor | None]:
    """Merge parallel edges; the result is sorted by row, then column.

    Args:
        edge_index: ``[2, E]``.
        edge_weight: ``[E]`` or ``None``, which stays ``None``.
        num_nodes: ``N``.
        reduce_op: ``sum``, ``mean``, ``min``, ``max`` or ``mul`` of parallel weights.
    """
    if reduce_op not in _REDUCE:
        raise InputError(
            f"reduce_op must be one of {', '.join(_REDUCE)}, got {reduce_op!r}", field="reduce_op"
        )
    size = max(num_nodes, 1)
    key = edge_index[0] * size + edge_index[1]
    if edge_weight is None:
        merged = torch.unique(key)
        return torch.stack([merged // size, merged % size]), None
    merged, inverse = torch.unique(key, return_inverse=True)
    weight = edge_weight.new_zeros(merged.numel())
    if reduce_op in ("sum", "add"):
        weight = weight.index_add(0, inverse, edge_weight)
    else:
        weight = weight.scatter_reduce(0, inverse, edge_weight, _REDUCE[reduce_op], include_self=False)
    return torch.stack([merged // size, merged % size]), weight


def filter_edges(
    edge_index: Tensor, edge_weight: Tensor | None, keep: Tensor
) -> tuple[Tensor, Tensor | None]:
    """The edges where ``keep [E]`` is true; nothing is copied if that is all of them."""
    if bool(keep.all()):
        return edge_index, edge_weight
    chosen = keep.nonzero().squeeze(1)
    weight = None if edge_weight is None else edge_weight.index_select(0, chosen)
    return edge_index.index_select(1, chosen), weight


def add_remaining_self_loops(
    edge_index: Any,
    edge_weight: Tensor | None = None,
    fill_value: float = 1.0,
    num_nodes: int | None = None,
) -> tuple[Any, Tensor | None]:
    """Add a self-loop to every node that has none; existing loops keep their weight.

    The same for every container; a matrix keeps its size unless ``num_nodes`` is larger.
    """
    from torch_geometric.utils import add_remaining_self_loops as pyg_add

    container = Container.of(edge_index)
    index, weight = connectivity_to_edge_index(edge_index, edge_weight)
    size = infer_num_nodes(edge_index if container.kind != "edge_index" else index)
    if num_nodes is not None:
        size = num_nodes if container.kind == "edge_index" else max(size, num_nodes)
    index, weight = pyg_add(index, weight, fill_value=fill_value, num_nodes=size)
    return container.pack(index, weight, size)


def delta_gcn_edges(
    edge_index: Tensor, edge_weight: Tensor | None, delta: float, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, targets and values of :func:`delta_gcn_matrix` off the diagonal, parallel edges apart."""
    weight = torch.ones(edge_index.size(1), device=edge_index.device) if edge_weight is None else edge_weight
    index, weight = filter_edges(edge_index, weight, edge_index[0] != edge_index[1])
    source, target = index
    scale = inverse_sqrt_degree(weighted_degree(source, weight, num_nodes))
    return source, target, delta * scale[source] * weight * scale[target]


def delta_gcn_matrix(
    edge_index: Any,
    edge_weight: Tensor | None = None,
    delta: float = 2.0,
    num_nodes: int | None = None,
) -> tuple[Any, Tensor | None]:
    r"""Propagation matrix :math:`\mathbf{P} = \mathbf{I} - \delta \mathbf{L}_\mathrm{sym}`, same container.

    Self-loops of the input are removed first, so an isolated node has the diagonal entry
    :math:`1 - \delta`.
    """
    container = Container.of(edge_index)
    index, weight = connectivity_to_edge_index(edge_index, edge_weight)
    size = infer_num_nodes(edge_index if container.kind != "edge_index" else index, num_nodes)
    source, target, off = delta_gcn_edges(index, weight, delta, size)
    loops = torch.arange(size, device=index.device)
    full = torch.stack([torch.cat([source, loops]), torch.cat([target, loops])])
    values = torch.cat([off, off.new_full((size,), 1.0 - delta)])
    merged, merged_weight = coalesce_edges(full, values, size)
    return container.pack(merged, merged_weight, size)


def dense_to_block_diag(adj_pool: Tensor) -> tuple[Tensor, Tensor]:
    """``[B, K, K]`` or ``[K, K]`` to one block-diagonal edge list of the entries with ``|a| > eps``."""
    if adj_pool.dim() == 2:
        adj_pool = adj_pool.unsqueeze(0)
    if adj_pool.dim() != 3:
        raise InputError(
            f"adj_pool must have shape [B, K, K] or [K, K], got {list(adj_pool.shape)}", field="adj_pool"
        )
    graph, row, col = (adj_pool.abs() > eps).nonzero(as_tuple=True)
    offset = graph * adj_pool.size(-1)
    return torch.stack([row + offset, col + offset]), adj_pool[graph, row, col]


def postprocess_adj_pool_dense(
    adj_pool: Tensor,
    remove_self_loops: bool = False,
    degree_norm: bool = False,
    adj_transpose: bool = False,
    edge_weight_norm: bool = False,
) -> Tensor:
    """Self-loops, then degrees, then the largest weight. The input is not changed.

    Args:
        adj_pool: ``[..., K, K]``.
        remove_self_loops: zero the diagonal.
        degree_norm: divide by the roots of both degrees; a degree that is not positive gives 0.
        adj_transpose: degrees are column sums (targets stand in rows) instead of row sums.
        edge_weight_norm: divide each matrix by its largest absolute entry.
    """
    if remove_self_loops:
        diagonal = torch.eye(adj_pool.size(-1), dtype=torch.bool, device=adj_pool.device)
        adj_pool = adj_pool.masked_fill(diagonal, 0.0)
    if degree_norm:
        scale = inverse_sqrt_degree(adj_pool.sum(-2 if adj_transpose else -1))
        adj_pool = adj_pool * scale.unsqueeze(-1) * scale.unsqueeze(-2)
    if edge_weight_norm and adj_pool.numel():
        top = adj_pool.abs().amax(dim=(-2, -1), keepdim=True)
        adj_pool = adj_pool / torch.where(top == 0, torch.ones_like(top), top)
    return adj_pool


def postprocess_adj_pool_sparse(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    remove_self_loops: bool = False,
    degree_norm: bool = False,
    edge_weight_norm: bool = False,
    batch_pooled: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Self-loops, tiny weights, degrees, then the largest weight per graph.

    Args:
        edge_index: ``[2, E]``.
        edge_weight: ``[E]``, ``[E, 1]`` or ``None``; either normalisation makes missing weights ones.
        num_nodes: ``K``.
        remove_self_loops: drop them.
        degree_norm: divide by the roots of both out-degrees; a degree that is not positive gives 0.
        edge_weight_norm: divide by the largest absolute weight of each graph.
        batch_pooled: ``[K]`` graph ids; one graph if absent.
    """
    edge_weight = check_and_filter_edge_weights(edge_weight)
    if remove_self_loops:
        edge_index, edge_weight = filter_edges(edge_index, edge_weight, edge_index[0] != edge_index[1])
    if edge_weight is not None:
        edge_index, edge_weight = filter_edges(edge_index, edge_weight, edge_weight.abs() > eps)
    elif degree_norm or edge_weight_norm:
        edge_weight = torch.ones(edge_index.size(1), device=edge_index.device)
    if edge_weight is None or edge_weight.numel() == 0:
        return edge_index, edge_weight
    if degree_norm:
        scale = inverse_sqrt_degree(weighted_degree(edge_index[0], edge_weight, num_nodes))
        edge_weight = edge_weight * scale[edge_index[0]] * scale[edge_index[1]]
    if edge_weight_norm:
        edge_weight = edge_weight / _largest_of_graph(edge_index[0], edge_weight, batch_pooled)
    return edge_index, edge_weight


def _largest_of_graph(source: Tensor, weight: Tensor, batch_pooled: Tensor | None) -> Tensor:
    """``[E]`` or scalar: largest absolute weight of each edge's graph, 1 where that is 0."""
    size = weight.abs()
    if batch_pooled is None:
        top = size.max()
        return torch.where(top == 0, torch.ones_like(top), top)
    graph = batch_pooled[source]
    top = size.new_zeros(int(graph.max()) + 1).scatter_reduce(0, graph, size, "amax")
    return torch.where(top == 0, torch.ones_like(top), top)[graph]
