"""Reference of trainable poolers: their formulas with one row of features per edge, dense matrices and PyG modules."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import softmax

from tgp.utils.ops import delta_gcn_matrix

__all__ = [
    "asap_fitness",
    "asap_neighbourhoods",
    "dense_matrix",
    "edge_contraction_raw",
    "largest_neighbour",
    "maxcut_scores",
    "reconstruction",
]


def dense_matrix(source: Tensor, target: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Return ``[N, N]`` with parallel edges added."""
    weight = torch.ones(len(source), dtype=torch.float64) if weight is None else weight
    return weight.new_zeros(size, size).index_put((source, target), weight, accumulate=True)


def largest_neighbour(values: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Return the largest value over the incoming edges of each node, with the gradient of torch."""
    place = target.unsqueeze(-1).expand(-1, values.size(-1))
    # Start at minus infinity: a start at 0 would receive a share of the gradient where the maximum is 0.
    lowest = torch.full_like(values, -torch.inf)
    largest = lowest.scatter_reduce(0, place, values[source], "amax")
    return torch.where(largest > -torch.inf, largest, torch.zeros_like(largest))


def asap_neighbourhoods(pooler, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return neighbourhood features and attention over ``[query ; member]`` of every edge."""
    source, target = edges
    query = pooler.lin(largest_neighbour(x, source, target))
    score = pooler.att(torch.cat([query[target], x[source]], dim=-1)).view(-1)
    alpha = softmax(F.leaky_relu(score, pooler.negative_slope), target, num_nodes=x.size(0))
    return torch.zeros_like(x).index_add(0, target, alpha.unsqueeze(-1) * x[source]), alpha


def asap_fitness(pooler, x: Tensor, edges: Tensor, weight: Tensor | None) -> Tensor:
    """Return the output of ``LEConv`` of PyG."""
    return pooler.select_scorer(x, edges, weight)


def maxcut_scores(net, x: Tensor, edges: Tensor, weight: Tensor | None) -> Tensor:
    """Return the output of ``GCNConv`` of PyG on the propagation matrix."""
    weight = None if weight is None else weight.to(x.dtype)
    edges, weight = delta_gcn_matrix(edges, weight, net.delta, x.size(0))
    x = net.initial_layer(x)
    for conv in net.mp_convs:
        x = net.mp_act(conv(x, edges, weight.to(x.dtype)))
    for layer in net.mlp:
        x = net.mlp_act(layer(x))
    return net.act(net.final_layer(x))


def edge_contraction_raw(selector, x: Tensor, edges: Tensor) -> Tensor:
    """Return the output of one linear layer on ``[x_i ; x_j]`` of every edge."""
    return selector.lin(torch.cat([x[edges[0]], x[edges[1]]], dim=-1)).view(-1)


def reconstruction(s: Tensor, k: Tensor, adj: Tensor) -> Tensor:
    """Return the balanced cross entropy of ``S K Sᵀ`` of one graph, divided by its number of node pairs."""
    label = (adj != 0).to(s.dtype)
    loss = F.binary_cross_entropy_with_logits(s @ k @ s.t(), label, reduction="none")
    edges = label.sum()
    ratio = (label.numel() - edges).clamp(min=1) / edges.clamp(min=1)
    return torch.where(label > 0, ratio * loss, loss).sum() / max(label.numel(), 1)
