"""Adjacency matrices: degrees, self-loops, merging of parallel edges, post-processing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp import eps
from tgp.errors import InputError
from tgp.utils.checks import check_ids
from tgp.utils.ops.connectivity import (
    Container,
    check_and_filter_edge_weights,
    connectivity_to_edge_index,
    infer_num_nodes,
    real_weights,
)
from tgp.utils.precision import widen
from tgp.utils.tracing import on_host

__all__ = [
    "add_remaining_self_loops",
    "coalesce_edges",
    "delta_gcn_edges",
    "delta_gcn_matrix",
    "dense_to_block_diag",
    "filter_edges",
    "filter_rows",
    "inverse_sqrt_degree",
    "largest_weights",
    "mark_heavy_edges",
    "merge_parallel_edges",
    "postprocess_adj_pool_dense",
    "postprocess_adj_pool_sparse",
    "rank3_diag",
    "rank3_trace",
    "weighted_degree",
]

_REDUCE = {"sum": "sum", "add": "sum", "mean": "mean", "min": "amin", "max": "amax", "mul": "prod"}


def rank3_trace(x: Tensor) -> Tensor:
    """Return the traces ``[B]`` of matrices ``[B, N, N]``."""
    return x.diagonal(dim1=-2, dim2=-1).sum(-1)


def rank3_diag(x: Tensor) -> Tensor:
    """Return diagonal matrices ``[B, N, N]`` from diagonals ``[B, N]``."""
    return torch.diag_embed(x)


def weighted_degree(index: Tensor, weights: Tensor | None = None, num_nodes: int | None = None) -> Tensor:
    """Return ``[N]`` the sum of ``weights`` for each id of ``index``, or int32 counts without weights.

    Args:
        index: ``[E]`` ids.
        weights: ``[E]``. Half-precision weights are summed in float32, bool and integer weights as floats.
        num_nodes: ``N``; default largest id + 1.

    Returns:
        Degrees in the dtype of the weights.

    Raises:
        InputError: If an id is out of range.
    """
    size = infer_num_nodes(index, num_nodes)
    if weights is None and on_host(index):
        check_ids(index, size, "index")
        return torch.bincount(index, minlength=size).to(torch.int32)
    if weights is None:
        ones = torch.ones_like(index, dtype=torch.int32)
        return torch.zeros(size, dtype=torch.int32, device=index.device).index_add(0, index, ones)
    weights = real_weights(weights)
    wide = widen(weights)
    return wide.new_zeros(size).index_add(0, index, wide).to(weights.dtype)


def inverse_sqrt_degree(degree: Tensor) -> Tensor:
    """Return ``d^-1/2``, and 0 for a degree that is not positive (no outgoing edges, or negative weights)."""
    positive = degree > eps
    return torch.where(positive, degree, torch.ones_like(degree)).rsqrt() * positive


def coalesce_edges(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    """Merge parallel edges by the sum of their weights, and sort the result by row, then column.

    Args:
        edge_index: ``[2, E]``.
        edge_weight: ``[E]`` or ``None``, which stays ``None``.
        num_nodes: ``N``.
    """
    index, weight, _ = merge_parallel_edges(edge_index, edge_weight, num_nodes, "sum", False)
    return index, weight


def merge_parallel_edges(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, reduce_op: str, with_groups: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Merge parallel edges, see :func:`coalesce_edges`, and return the merged edge of each edge.

    Args:
        edge_index: ``[2, E]``.
        edge_weight: ``[E]`` or ``None``.
        num_nodes: ``N``.
        reduce_op: ``sum``, ``mean``, ``min``, ``max`` or ``mul`` of parallel weights.
        with_groups: Return the merged edges also for a graph without weights, which takes longer.

    Returns:
        The merged edges, their weights, and ``[E]`` the position of the merged edge of each edge or ``None``.
    """
    if reduce_op not in _REDUCE:
        raise InputError(
            f"reduce_op must be one of {', '.join(_REDUCE)}, got {reduce_op!r}", field="reduce_op"
        )
    size = max(num_nodes, 1)
    key = edge_index[0] * size + edge_index[1]
    if edge_weight is None and not with_groups:
        merged = torch.unique(key)
        return torch.stack([merged // size, merged % size]), None, None
    merged, inverse = torch.unique(key, return_inverse=True)
    index = torch.stack([merged // size, merged % size])
    if edge_weight is None:
        return index, None, inverse
    wide = widen(edge_weight)
    weight = wide.new_zeros(merged.numel())
    if reduce_op in ("sum", "add"):
        weight = weight.index_add(0, inverse, wide)
    else:
        weight = weight.scatter_reduce(0, inverse, wide, _REDUCE[reduce_op], include_self=False)
    return index, weight.to(edge_weight.dtype), inverse


def filter_rows(values: Tensor, keep: Tensor) -> Tensor:
    """Return the rows of ``values [E, ...]`` for which ``keep [E]`` is True, see :func:`filter_edges`."""
    if on_host(keep) and bool(keep.all()):
        return values
    return values.index_select(0, keep.nonzero().squeeze(1))


def filter_edges(
    edge_index: Tensor, edge_weight: Tensor | None, keep: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return the edges for which ``keep [E]`` is True. On the host nothing is copied if all edges are kept."""
    if on_host(keep) and bool(keep.all()):
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
    """Add a self-loop to every node without one. Existing loops keep their weight.

    The result has the container of the input. A matrix keeps its size unless ``num_nodes`` is larger.
    """
    from torch_geometric.utils import add_remaining_self_loops as pyg_add

    container = Container.of(edge_index)
    index, weight = connectivity_to_edge_index(edge_index, edge_weight)
    if container.kind == "edge_index":
        size = infer_num_nodes(index, num_nodes)
    else:
        size = max(infer_num_nodes(edge_index), num_nodes or 0)
    index, weight = pyg_add(index, weight, fill_value=fill_value, num_nodes=size)
    return container.pack(index, weight, size)


def delta_gcn_edges(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    delta: float,
    num_nodes: int,
    *,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return sources, targets and values of :func:`delta_gcn_matrix` off the diagonal, without merging parallel edges.

    Args:
        edge_index: ``[2, E]``.
        edge_weight: ``[E]`` or ``None`` for ones.
        delta: Strength of the filter.
        num_nodes: ``N``.
        dtype: Type of the values; default is that of the weights, or float32 without weights.
    """
    if edge_weight is None:
        weight = torch.ones(edge_index.size(1), dtype=dtype or torch.float32, device=edge_index.device)
    else:
        weight = real_weights(edge_weight, dtype)
    index, kept = filter_edges(edge_index, widen(weight), edge_index[0] != edge_index[1])
    assert kept is not None
    (source, target), weight = index, kept
    scale = inverse_sqrt_degree(weighted_degree(source, weight, num_nodes))
    values = delta * scale[source] * weight * scale[target]
    return source, target, values if dtype is None else values.to(dtype)


def delta_gcn_matrix(
    edge_index: Any,
    edge_weight: Tensor | None = None,
    delta: float = 2.0,
    num_nodes: int | None = None,
    *,
    dtype: torch.dtype | None = None,
) -> tuple[Any, Tensor | None]:
    r"""Return the propagation matrix :math:`\mathbf{P} = \mathbf{I} - \delta \mathbf{L}_\mathrm{sym}`.

    Self-loops of the input are removed first, so an isolated node has the diagonal entry
    :math:`1 - \delta`.

    Args:
        edge_index: Any sparse connectivity; the result has the same form.
        edge_weight: ``[E]`` weights of an edge list.
        delta: Strength of the filter.
        num_nodes: ``N``; default from the connectivity.
        dtype: Type of the values; default is that of the weights, or float32 without weights.
    """
    container = Container.of(edge_index)
    index, weight = connectivity_to_edge_index(edge_index, edge_weight)
    size = infer_num_nodes(edge_index if container.kind != "edge_index" else index, num_nodes)
    check_ids(index, size, "edge_index")
    source, target, off = delta_gcn_edges(index, weight, delta, size, dtype=dtype)
    loops = torch.arange(size, device=index.device)
    full = torch.stack([torch.cat([source, loops]), torch.cat([target, loops])])
    values = torch.cat([off, off.new_full((size,), 1.0 - delta)])
    merged, merged_weight = coalesce_edges(full, values, size)
    return container.pack(merged, merged_weight, size)


def dense_to_block_diag(adj_pool: Tensor) -> tuple[Tensor, Tensor]:
    """Return one block-diagonal edge list of the entries with ``|a| > eps``.

    Args:
        adj_pool: ``[B, K, K]`` or ``[K, K]``.

    Returns:
        Edge list ``[2, E]`` and weights ``[E]``.
    """
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
    """Return a pooled adjacency without self-loops, divided by degrees, then by the largest weight.

    Each step is optional. The input is not changed.

    Half-precision input is processed in float32; the result has the dtype of the input.

    Args:
        adj_pool: ``[..., K, K]``.
        remove_self_loops: Set the diagonal to 0.
        degree_norm: Divide by the square roots of both degrees; the result is 0 for a degree that is not positive.
        adj_transpose: Degrees are column sums instead of row sums, because targets are in rows.
        edge_weight_norm: Divide each matrix by its largest absolute entry.
    """
    dtype, adj_pool = adj_pool.dtype, widen(adj_pool)
    if remove_self_loops:
        diagonal = torch.eye(adj_pool.size(-1), dtype=torch.bool, device=adj_pool.device)
        adj_pool = adj_pool.masked_fill(diagonal, 0.0)
    if degree_norm:
        scale = inverse_sqrt_degree(adj_pool.sum(-2 if adj_transpose else -1))
        adj_pool = adj_pool * scale.unsqueeze(-1) * scale.unsqueeze(-2)
    if edge_weight_norm and adj_pool.numel() > 0:
        top = adj_pool.abs().amax(dim=(-2, -1), keepdim=True)
        adj_pool = adj_pool / torch.where(top == 0, torch.ones_like(top), top)
    return adj_pool.to(dtype)


def postprocess_adj_pool_sparse(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    remove_self_loops: bool = False,
    degree_norm: bool = False,
    edge_weight_norm: bool = False,
    batch_pooled: Tensor | None = None,
    *,
    dtype: torch.dtype | None = None,
    largest: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Return a pooled edge list without self-loops and tiny weights, divided by degrees, then by the largest weight.

    Half-precision weights are processed in float32; the result has their dtype.

    Args:
        edge_index: ``[2, E]``.
        edge_weight: ``[E]``, ``[E, 1]`` or ``None``. Both normalizations treat missing weights as ones.
        num_nodes: ``K``.
        remove_self_loops: Remove self-loops.
        degree_norm: Divide by the square roots of both out-degrees; the result is 0 for a degree that is not positive.
        edge_weight_norm: Divide by the largest absolute weight of each graph.
        batch_pooled: ``[K]`` graph ids; one graph if ``None``.
        dtype: Type of weights of one if there are no weights; default is float32.
        largest: Largest ``|w|`` before pooling: ``[K]``, that of the graph of each supernode, or one number. Weights
            ``|w| <= eps`` are removed. If ``largest`` is given and less than 1, ``eps`` is multiplied by it.
    """
    edge_weight = check_and_filter_edge_weights(edge_weight)
    if remove_self_loops:
        edge_index, edge_weight = filter_edges(edge_index, edge_weight, edge_index[0] != edge_index[1])
    if edge_weight is not None:
        edge_weight = real_weights(edge_weight, dtype)
        heavy = mark_heavy_edges(edge_index, edge_weight, largest)
        edge_index, edge_weight = filter_edges(edge_index, edge_weight, heavy)
    elif degree_norm or edge_weight_norm:
        edge_weight = torch.ones(edge_index.size(1), dtype=dtype or torch.float32, device=edge_index.device)
    if edge_weight is None or edge_weight.numel() == 0:
        return edge_index, edge_weight
    wide = widen(edge_weight)
    if degree_norm:
        scale = inverse_sqrt_degree(weighted_degree(edge_index[0], wide, num_nodes))
        wide = wide * scale[edge_index[0]] * scale[edge_index[1]]
    if edge_weight_norm:
        wide = wide / _largest_of_graph(edge_index[0], wide, batch_pooled)
    return edge_index, wide.to(edge_weight.dtype)


def mark_heavy_edges(edge_index: Tensor, edge_weight: Tensor, largest: Tensor | None) -> Tensor:
    """Return ``[E]`` True for the edges that are not removed because of a tiny weight.

    Args:
        edge_index: ``[2, E]``.
        edge_weight: ``[E]``.
        largest: See :func:`postprocess_adj_pool_sparse`.
    """
    tiny: Tensor | float = eps
    if largest is not None:
        limit = eps * largest.clamp(max=1.0)
        tiny = limit if limit.dim() == 0 else limit[edge_index[0]]
    return edge_weight.abs() > tiny


def largest_weights(
    coarse: Tensor, weight: Tensor | None, num_nodes: int, batch: Tensor | None
) -> Tensor | None:
    """Return the largest ``|w|`` of the graph of each supernode ``[K]``, or one number if there is one graph.

    Args:
        coarse: ``[2, E]`` supernodes of the ends of each edge before pooling, -1 for a dropped node.
        weight: ``[E]`` weights before pooling, or ``None``.
        num_nodes: ``K``.
        batch: ``[K]`` graph ids; one graph if ``None``.

    Returns:
        The weights, or ``None`` if there are none.
    """
    if weight is None or weight.numel() == 0 or num_nodes == 0:
        return None
    size = widen(real_weights(weight.detach().reshape(-1))).abs()
    if batch is None:
        return size.max()
    source = coarse[0].clamp(min=0)
    top = size.new_zeros(num_nodes).scatter_reduce(0, source, size * (coarse[0] >= 0), "amax")
    return _largest_of_graph(torch.arange(num_nodes, device=top.device), top, batch)


def _largest_of_graph(source: Tensor, weight: Tensor, batch_pooled: Tensor | None) -> Tensor:
    """Return the largest absolute weight of the graph of each edge, or 1 if it is 0: ``[E]``, or one number."""
    size = weight.abs()
    if batch_pooled is None:
        top = size.max()
        return torch.where(top == 0, torch.ones_like(top), top)
    graph = batch_pooled[source]
    if on_host(graph):
        graphs = int(graph.max()) + 1
    else:  # the number of graphs is unknown, so use the position of the first supernode of a graph as its id
        graph, graphs = torch.searchsorted(batch_pooled.sort().values, graph), batch_pooled.numel()
    top = size.new_zeros(graphs).scatter_reduce(0, graph, size, "amax")
    return torch.where(top == 0, torch.ones_like(top), top)[graph]
