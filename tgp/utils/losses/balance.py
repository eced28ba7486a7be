"""Losses on cluster sizes and overlaps: orthogonality, balance, asymmetric norm."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import tgp
from tgp.utils.layout import DenseView, LayoutView
from tgp.utils.losses._shared import BatchReductionType, reduce_graphs, safe_divide, safe_sqrt, segment_view

__all__ = [
    "asym_norm",
    "asym_norm_loss",
    "cluster_balance",
    "cluster_loss",
    "column_norms",
    "hosc_orthogonality",
    "hosc_orthogonality_loss",
    "just_balance",
    "just_balance_loss",
    "orthogonality",
    "orthogonality_loss",
    "unbatched_asym_norm_loss",
    "unbatched_cluster_loss",
    "unbatched_hosc_orthogonality_loss",
    "unbatched_just_balance_loss",
    "unbatched_orthogonality_loss",
]


def column_norms(view: LayoutView) -> Tensor:
    """Return ``[B, K]`` squared norms of the columns of ``S``: the diagonal of ``SᵀS``."""
    return view.sum(view.s.square())


def orthogonality(view: LayoutView) -> Tensor:
    r"""Return ``[B]``: :math:`\|S^\top S/\|S^\top S\|_F - I/\sqrt{K}\|_F`; 0 for a graph without nodes."""
    gram = view.gram()
    size = gram.square().sum((1, 2))
    norm = safe_sqrt(size)
    eye = torch.eye(gram.size(-1), dtype=gram.dtype, device=gram.device) / math.sqrt(max(gram.size(-1), 1))
    gap = safe_divide(gram, norm.view(-1, 1, 1).expand_as(gram)) - eye
    return torch.where(view.counts > 0, safe_sqrt(gap.square().sum((1, 2))), torch.zeros_like(norm))


def hosc_orthogonality(view: LayoutView) -> Tensor:
    r"""Return ``[B]``: :math:`(\sqrt K - \sum_j\|S_{:j}\|/\sqrt n) / (\sqrt K - 1)`; 0 for one cluster or no nodes."""
    k = view.k
    norms = safe_sqrt(column_norms(view)).sum(-1)
    if k <= 1:
        return torch.zeros_like(norms)
    value = (math.sqrt(k) - safe_divide(norms, view.counts.sqrt())) / (math.sqrt(k) - 1)
    return torch.where(view.counts > 0, value, torch.zeros_like(value))


def cluster_balance(view: LayoutView) -> Tensor:
    r"""Return ``[B]``: :math:`\sqrt K\,\|\sum_i S_i\|_2 / n - 1`; 0 for a graph without nodes."""
    sizes = safe_sqrt(view.column_sums().square().sum(-1))
    value = safe_divide(sizes, view.counts) * math.sqrt(view.k) - 1
    return torch.where(view.counts > 0, value, torch.zeros_like(value))


def just_balance(view: LayoutView, normalize_loss: bool = True) -> Tensor:
    r"""Return ``[B]``: :math:`-\sum_j\sqrt{(S^\top S)_{jj}+\epsilon}`, over :math:`\sqrt{nK}` if normalised."""
    value = -(column_norms(view) + tgp.eps).sqrt().sum(-1)
    value = torch.where(view.counts > 0, value, torch.zeros_like(value))
    return safe_divide(value, (view.counts * view.k).sqrt()) if normalize_loss else value


def asym_norm(view: LayoutView, k: int) -> Tensor:
    """Return ``[B]``: asymmetric distance of ``S`` to its column quantiles; 0 for one cluster or no nodes."""
    count = view.counts
    if k <= 1 or view.s.size(-2) == 0:
        return torch.zeros_like(count)
    position = torch.minimum((count / k).floor(), count - 1).clamp(min=0).long()
    quantile = view.column_quantile(position)
    gap = view.s - view.spread(quantile)
    cost = torch.where(gap >= 0, (k - 1) * gap, -gap)
    scale = count * (k - 1)
    return safe_divide(scale - view.sum(cost.sum(-1)), scale)


def orthogonality_loss(S: Tensor, batch_reduction: BatchReductionType = "mean") -> Tensor:
    """Return the orthogonality loss of padded graphs."""
    return reduce_graphs(orthogonality(DenseView(S)), batch_reduction)


def unbatched_orthogonality_loss(
    S: Tensor, batch: Tensor | None = None, batch_reduction: BatchReductionType = "mean"
) -> Tensor:
    """Return the orthogonality loss of flat graphs."""
    return reduce_graphs(orthogonality(segment_view(S, batch=batch)), batch_reduction)


def hosc_orthogonality_loss(
    S: Tensor, mask: Tensor | None = None, batch_reduction: BatchReductionType = "mean"
) -> Tensor:
    """Return the orthogonality loss of HOSC for padded graphs."""
    return reduce_graphs(hosc_orthogonality(DenseView(S, mask=mask)), batch_reduction)


def unbatched_hosc_orthogonality_loss(
    S: Tensor, batch: Tensor | None = None, batch_reduction: BatchReductionType = "mean"
) -> Tensor:
    """Return the orthogonality loss of HOSC for flat graphs."""
    return reduce_graphs(hosc_orthogonality(segment_view(S, batch=batch)), batch_reduction)


def cluster_loss(
    S: Tensor,
    mask: Tensor | None = None,
    num_supernodes: int | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    """Return the collapse penalty of DMoN for padded graphs. ``num_supernodes`` has no effect."""
    return reduce_graphs(cluster_balance(DenseView(S, mask=mask)), batch_reduction)


def unbatched_cluster_loss(
    S: Tensor, batch: Tensor | None = None, batch_reduction: BatchReductionType = "mean"
) -> Tensor:
    """Return the collapse penalty of DMoN for flat graphs."""
    return reduce_graphs(cluster_balance(segment_view(S, batch=batch)), batch_reduction)


def just_balance_loss(
    S: Tensor,
    mask: Tensor | None = None,
    normalize_loss: bool = True,
    num_nodes: int | None = None,
    num_supernodes: int | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    """Return the balance loss of cluster sizes for padded graphs.

    ``num_nodes`` overrides the node count of every graph where no mask is given; ``num_supernodes``
    is read from ``S``.
    """
    view = DenseView(S, mask=mask)
    if num_nodes is not None and mask is None:
        view.counts = torch.full_like(view.counts, float(num_nodes))
    return reduce_graphs(just_balance(view, normalize_loss), batch_reduction)


def unbatched_just_balance_loss(
    S: Tensor,
    batch: Tensor | None = None,
    normalize_loss: bool = True,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    """Return the balance loss of cluster sizes for flat graphs."""
    return reduce_graphs(just_balance(segment_view(S, batch=batch), normalize_loss), batch_reduction)


def asym_norm_loss(
    S: Tensor, k: int, mask: Tensor | None = None, batch_reduction: BatchReductionType = "mean"
) -> Tensor:
    """Return the asymmetric-norm balance of padded graphs; 0 without nodes."""
    return reduce_graphs(asym_norm(DenseView(S, mask=mask), k), batch_reduction)


def unbatched_asym_norm_loss(
    S: Tensor, k: int, batch: Tensor | None = None, batch_reduction: BatchReductionType = "mean"
) -> Tensor:
    """Return the asymmetric-norm balance of flat graphs; 0 without nodes."""
    return reduce_graphs(asym_norm(segment_view(S, batch=batch), k), batch_reduction)
