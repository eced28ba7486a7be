"""Modularity (the spectral loss of DMoN)."""

from __future__ import annotations

from torch import Tensor

from tgp.utils.layout import DenseView, LayoutView
from tgp.utils.losses._shared import BatchReductionType, reduce_graphs, safe_divide, segment_view, trace_of

__all__ = ["modularity", "sparse_spectral_loss", "spectral_loss"]


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
