"""Losses that reconstruct the graph from its clusters, and priors on clusters."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Beta, Distribution, kl_divergence

import tgp
from tgp.errors import InputError
from tgp.utils.checks import check_ids
from tgp.utils.layout import DenseView, LayoutView
from tgp.utils.losses._shared import BatchReductionType, reduce_graphs, safe_divide, safe_sqrt, segment_view
from tgp.utils.ops.batching import num_graphs
from tgp.utils.precision import widen

__all__ = [
    "cluster_connectivity_prior_loss",
    "entropy_loss",
    "kl_loss",
    "link_prediction",
    "link_pred_loss",
    "row_entropy",
    "sparse_bce_reconstruction_loss",
    "sparse_link_pred_loss",
    "unbatched_entropy_loss",
    "weighted_bce_reconstruction_loss",
]


def link_prediction(view: LayoutView, normalize_loss: bool = False) -> Tensor:
    r"""Return one norm :math:`\|A - SS^\top\|_F` over all graphs; if normalized, divided by the number of node pairs."""
    norm = safe_sqrt(_squared_residual(view).clamp(min=0))
    return safe_divide(norm, view.counts.square().sum()) if normalize_loss else norm


def _squared_residual(view: LayoutView) -> Tensor:
    """Return ``Σ_g ‖A - SSᵀ‖² = Σ_g ‖A‖² - 2 Tr(SᵀAS) + ‖SᵀS‖²``. Weights of parallel edges are summed."""
    return view.squares().sum() - 2 * view.quad().sum() + view.gram().square().sum()


def link_pred_loss(S: Tensor, adj: Tensor, normalize_loss: bool = True, mask: Tensor | None = None) -> Tensor:
    """Return the link prediction loss of padded graphs. Padding does not count as nodes."""
    return link_prediction(DenseView(S, adj, mask), normalize_loss)


def sparse_link_pred_loss(
    S: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    normalize_loss: bool = True,
) -> Tensor:
    """Return the link prediction loss of flat graphs, without forming ``SSᵀ``."""
    return link_prediction(segment_view(S, edge_index, edge_weight, batch), normalize_loss)


def row_entropy(view: LayoutView) -> Tensor:
    """Return the mean entropy of the assignment of a node, over all graphs."""
    return entropy_loss(view.s, view.counts.sum())


def entropy_loss(S: Tensor, num_nodes: int | Tensor) -> Tensor:
    """Return the mean entropy of the rows of ``S`` over ``num_nodes`` nodes."""
    S = widen(S)
    total = -(S * (S + tgp.eps).log()).sum()
    count = torch.as_tensor(num_nodes, dtype=S.dtype, device=S.device)
    return safe_divide(total, count)


def unbatched_entropy_loss(S: Tensor, num_nodes: int | Tensor | None = None) -> Tensor:
    """Return the mean entropy of the rows of ``S``."""
    return entropy_loss(S, S.size(0) if num_nodes is None else num_nodes)


def weighted_bce_reconstruction_loss(
    rec_adj: Tensor,
    adj: Tensor,
    mask: Tensor | None = None,
    balance_links: bool = True,
    normalizing_const: Tensor | float | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    """Return the cross entropy between logits ``rec_adj`` and ``adj``, both ``[B, N, N]``.

    With ``balance_links`` every edge is weighted by the ratio of non-edges to edges of its graph.
    """
    if rec_adj.dim() == 2:
        rec_adj, adj = rec_adj.unsqueeze(0), adj.unsqueeze(0)
    rec_adj = widen(rec_adj)
    loss = F.binary_cross_entropy_with_logits(rec_adj, adj.to(rec_adj.dtype), reduction="none")
    valid = torch.ones_like(loss)
    if mask is not None:
        rows = mask.to(loss.dtype)
        valid = rows.unsqueeze(-1) * rows.unsqueeze(-2)
    if balance_links:
        links = (adj != 0) & (valid != 0)
        edges = links.sum((1, 2)).to(loss.dtype)
        pairs = valid.sum((1, 2))
        ratio = (pairs - edges).clamp(min=1) / edges.clamp(min=1)
        loss = torch.where(links, loss * ratio.view(-1, 1, 1), loss)
    value = (loss * valid).sum((1, 2))
    return reduce_graphs(_normalised(value, normalizing_const), batch_reduction)


def _normalised(value: Tensor, constant: Tensor | float | None) -> Tensor:
    if constant is None:
        return value
    divisor = torch.as_tensor(constant, dtype=value.dtype, device=value.device).expand_as(value)
    return safe_divide(value, divisor)


def kl_loss(
    q: Distribution,
    p: Distribution,
    mask: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    normalizing_const: Tensor | float | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    """Return the KL divergence of ``q`` from ``p``, summed over the nodes of each graph.

    Args:
        q: Posterior with one value per node (and component).
        p: Prior.
        mask: ``[B, N]`` mask of the nodes that are not padding.
        batch: ``[N]`` graph ids of flat graphs.
        batch_size: Number of graphs; needed with ``batch``.
        normalizing_const: Divisor of each graph.
        batch_reduction: ``mean`` or ``sum`` over graphs.
    """
    if mask is not None and batch is not None:
        raise InputError(
            "Cannot specify both mask and batch: expected mask for padded graphs or batch for flat graphs, got both."
        )
    if batch is not None and batch_size is None:
        raise InputError("Batch size must be specified together with batch: got None.", field="batch_size")
    value = _divergence(q, p).sum(-1)
    if mask is not None:
        value = (value * mask.to(value.dtype)).sum(-1)
    elif batch is not None and batch_size is not None:
        value = value.new_zeros(batch_size).index_add(0, batch, value)
    else:
        value = value.sum(-1, keepdim=value.dim() == 1)
    return reduce_graphs(_normalised(value, normalizing_const), batch_reduction)


def _divergence(q: Distribution, p: Distribution) -> Tensor:
    """Return the KL divergence.

    The divergence of two Beta distributions is computed here in float32 or wider: ``torch.compile`` cannot trace the
    function of torch, which also does not support half precision.
    """
    if type(q) is not Beta or type(p) is not Beta:
        return kl_divergence(q, p)
    a, b = widen(q.concentration1), widen(q.concentration0)
    c, d = widen(p.concentration1), widen(p.concentration0)
    constants = (c.lgamma() + d.lgamma() + (a + b).lgamma()) - (a.lgamma() + b.lgamma() + (c + d).lgamma())
    means = (a - c) * a.digamma() + (b - d) * b.digamma()
    return constants + means + ((c + d) - (a + b)) * (a + b).digamma()


def cluster_connectivity_prior_loss(
    K: Tensor,
    K_mu: Tensor | float,
    K_var: Tensor | float,
    normalizing_const: Tensor | float | None = None,
    batch_reduction: BatchReductionType = "mean",
) -> Tensor:
    r"""Return the Gaussian prior :math:`P = \frac12\sum (K - \mu)^2/\sigma^2` on the cluster connectivity.

    With one constant :math:`\gamma_g` per graph, the value of a graph is :math:`P/\gamma_g`.
    """
    K = widen(K)
    prior = 0.5 * ((K - K_mu).square() / K_var).sum()
    if normalizing_const is None:
        return prior
    constant = torch.as_tensor(normalizing_const, dtype=K.dtype, device=K.device).view(-1)
    return reduce_graphs(_normalised(prior.expand(constant.numel()), constant), batch_reduction)


def sparse_bce_reconstruction_loss(
    link_prob_loigit: Tensor | None = None,
    true_y: Tensor | None = None,
    edges_batch_id: Tensor | None = None,
    batch_size: int | None = None,
    batch_reduction: BatchReductionType = "mean",
    *,
    link_prob_logit: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the cross entropy over sampled node pairs, and the number of pairs per graph.

    Args:
        link_prob_loigit: ``[E]`` logits (the spelling is that of tgp 1.0.2).
        true_y: ``[E]`` labels.
        edges_batch_id: ``[E]`` graph ids of the pairs; one graph if ``None``.
        batch_size: Number of graphs; default is the largest id + 1.
        batch_reduction: ``mean`` or ``sum`` over graphs.
        link_prob_logit: Another name of the first argument.
    """
    logits = link_prob_logit if link_prob_loigit is None else link_prob_loigit
    if logits is None or true_y is None:
        raise InputError("link_prob_loigit and true_y are required: got None.", field="link_prob_loigit")
    logits = widen(logits)
    loss = F.binary_cross_entropy_with_logits(logits, true_y.to(logits.dtype), reduction="none")
    if edges_batch_id is None:
        count = loss.new_tensor(float(loss.numel()))
        return safe_divide(loss.sum(), count), count
    if batch_size is None:
        batch_size = max(num_graphs(edges_batch_id), 1)
    check_ids(edges_batch_id, batch_size, "edges_batch_id")
    zeros = loss.new_zeros(batch_size)
    count = zeros.index_add(0, edges_batch_id, torch.ones_like(loss)).clamp(min=1)
    return reduce_graphs(zeros.index_add(0, edges_batch_id, loss) / count, batch_reduction), count
