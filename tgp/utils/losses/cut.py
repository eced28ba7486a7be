"""Losses on edges between clusters: min-cut, its third-order version, total variation, max-cut, modularity."""

from __future__ import annotations

import torch
from torch import Tensor

import tgp
from tgp.errors import InputError
from tgp.utils.layout import DenseView, LayoutView
from tgp.utils.losses._shared import BatchReductionType, reduce_graphs, safe_divide, segment_view, trace_of

__all__ = [
    "maxcut_loss",
    "mincut",
    "mincut_loss",
    "modularity",
    "motif_mincut",
    "sparse_ho_mincut_loss",
    "sparse_mincut_loss",
    "sparse_spectral_loss",
    "sparse_totvar_loss",
    "spectral_loss",
    "total_variation",
    "totvar_loss",
]


def mincut(view: LayoutView, pooled: Tensor | None = None) -> Tensor:
    r"""Return ``[B]``: :math:`-\mathrm{Tr}(S^\top A S) / (\mathrm{Tr}(S^\top D S) + \epsilon)`.

    Args:
        view: Assignment and adjacency.
        pooled: ``SᵀAS`` without post-processing, if it is already known.
    """
    kept = view.quad() if pooled is None else trace_of(pooled)
    return -kept / (view.degree_quad() + tgp.eps)


def motif_mincut(view: LayoutView) -> Tensor:
    """Return ``[B]`` min-cuts of ``M = A³``. The matrix ``M`` is not computed; ``A`` is applied three times."""
    moved, degree = view.assignment_image, view.degree
    for _ in range(2):
        moved, degree = view.propagate(moved), view.propagate(degree)
    cut = view.sum((view.s * moved).sum(-1))
    return -cut / (view.sum(degree * view.s.square().sum(-1)) + tgp.eps)


def total_variation(view: LayoutView) -> Tensor:
    r"""Return ``[B]``: :math:`\sum a_{ij}\|S_i - S_j\|_1 / 2\max(nnz, 1)`."""
    variation, entries = view.variation()
    return variation / (2 * entries.clamp(min=1))


def mincut_loss(
    adj: Tensor, S: Tensor, adj_pooled: Tensor, batch_reduction: BatchReductionType = "mean"
) -> Tensor:
    """Return the relaxed normalised min-cut of padded graphs; ``adj_pooled`` is ``SᵀAS`` without post-processing."""
    return reduce_graphs(mincut(DenseView(S, adj), adj_pooled), batch_reduction)


def sparse_mincut_loss(
    edge_index: Tensor,
    S: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    """Return the relaxed normalised min-cut of flat graphs."""
    return reduce_graphs(mincut(segment_view(S, edge_index, edge_weight, batch)), batch_reduction)


def sparse_ho_mincut_loss(
    edge_index: Tensor,
    S: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    """Return the min-cut of the third-order motif matrix ``A³`` of flat graphs."""
    return reduce_graphs(motif_mincut(segment_view(S, edge_index, edge_weight, batch)), batch_reduction)


def totvar_loss(S: Tensor, adj: Tensor, batch_reduction: BatchReductionType = "mean") -> Tensor:
    """Return the total variation of padded graphs."""
    return reduce_graphs(total_variation(DenseView(S, adj)), batch_reduction)


def sparse_totvar_loss(
    edge_index: Tensor,
    S: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    """Return the total variation of flat graphs."""
    return reduce_graphs(total_variation(segment_view(S, edge_index, edge_weight, batch)), batch_reduction)


def maxcut_loss(
    scores: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    r"""Return :math:`z^\top A z / \sum_e w_e` per graph, which is small if neighbours have opposite signs."""
    if scores.dim() > 2 or (scores.dim() == 2 and scores.size(1) != 1) or scores.dim() == 0:
        raise InputError(
            f"Expected scores to have shape [N] or [N, 1], got {list(scores.shape)}.", field="scores"
        )
    view = segment_view(scores.view(-1, 1), edge_index, edge_weight, batch)
    volume = view.volume()
    return reduce_graphs(
        view.quad() / torch.where(volume == 0, torch.ones_like(volume), volume), batch_reduction
    )


def modularity(view: LayoutView, pooled: Tensor | None = None) -> Tensor:
    r"""Return ``[B]``: :math:`-(\mathrm{Tr}(S^\top A S) - \|S^\top d\|^2/2m)/2m`; 0 for a graph without edges."""
    twice_m = view.volume()
    expected = view.sum(view.s * view.degree.unsqueeze(-1)).square().sum(-1)
    kept = view.quad() if pooled is None else trace_of(pooled)
    return -safe_divide(kept - safe_divide(expected, twice_m), twice_m)


def spectral_loss(
    adj: Tensor,
    S: Tensor,
    adj_pooled: Tensor,
    mask: Tensor | None = None,
    num_supernodes: int | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    """Return the negative modularity of padded graphs. ``num_supernodes`` has no effect."""
    return reduce_graphs(modularity(DenseView(S, adj, mask), adj_pooled), batch_reduction)


def sparse_spectral_loss(
    edge_index: Tensor,
    S: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    """Return the negative modularity of flat graphs."""
    return reduce_graphs(modularity(segment_view(S, edge_index, edge_weight, batch)), batch_reduction)
