"""BN-Pool: Bayesian nonparametric pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Beta

from tgp.errors import ParameterError
from tgp.select.base_select import SelectOutput
from tgp.select.dp_select import DPSelect
from tgp.src.mlp import MLPPooling
from tgp.src.output import PoolingOutput
from tgp.utils.layout import DenseView, LayoutView, SegmentView
from tgp.utils.losses._shared import safe_divide
from tgp.utils.losses.reconstruct import (
    cluster_connectivity_prior_loss,
    kl_loss,
    sparse_bce_reconstruction_loss,
)
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.ops.products import EdgeMatrix
from tgp.utils.ops.sampling import batched_negative_edge_sampling, negative_edge_sampling
from tgp.utils.signature import base_kwargs
from tgp.utils.tracing import on_host
from tgp.utils.typing import LiftType, SinvType

__all__ = ["BNPool"]

_SIZE_CLASSES = 4
EXACT_PAIRS = 2**22
"""Largest number of (padded) node pairs for which the loss of a flat batch uses all pairs. Above it, pairs are
sampled."""


class BNPool(MLPPooling):
    r"""BN-Pool from `"BN-Pool: Bayesian Nonparametric Graph Pooling" <https://arxiv.org/abs/2501.09821>`_.

    Nodes are assigned by a truncated stick-breaking process (:class:`~tgp.select.DPSelect`). The adjacency is
    reconstructed with the logits :math:`S K S^\top`. The losses are averaged over the graphs:

    - ``quality``: :math:`\frac{1}{N^2}\sum_{ij}\omega_{ij}\,\mathrm{BCE}((SKS^\top)_{ij}, [A_{ij}\ne 0])`, where edges are
      weighted by the ratio of the numbers of non-edges and edges;
    - ``kl``: :math:`\frac{\eta}{N^2}\sum_i KL(q_i \,\|\, \mathrm{Beta}(1, \alpha))`;
    - ``K_prior``: :math:`\frac{1}{2N^2}\sum (K-\mu)^2/\sigma^2`, if ``K`` is learned.

    The losses are the same in the batched and the unbatched mode. For flat batches with very many node pairs,
    non-edges are sampled; this estimate is unbiased.

    Good for:
        An unknown number of clusters: ``k`` is only an upper limit, and each graph uses as many supernodes as it needs.

    Avoid when:
        Graphs are large and padded: the loss reads all pairs of nodes. A forward pass must be repeatable during
        training: assignments are sampled.

    Complexity:
        ``O(N^2 K)`` time for the reconstruction of all pairs of nodes. In the unbatched mode non-edges of large graphs
        are sampled, so that time and memory are ``O(E K + N K^2)``.

    Args:
        in_channels, act, dropout, remove_self_loops, degree_norm, edge_weight_norm, adj_transpose, lift,
            s_inv_op, batched, sparse_output, cache_preprocessing: see :class:`~tgp.src.mlp.MLPPooling`.
        k: largest number of supernodes per graph.
        alpha_DP: concentration :math:`\alpha` of the process.
        K_var: variance :math:`\sigma^2` of the prior of ``K``.
        K_mu: mean :math:`\mu` of the prior of the diagonal of ``K``. The mean of other entries is ``-K_mu``.
        K_init: initial value of the diagonal of ``K``. Other entries start with ``-K_init``.
        eta: coefficient :math:`\eta` of the KL loss.
        train_K: learn ``K``.
        num_neg_samples: number of non-edges per graph that are sampled in the unbatched mode; by default non-edges are
            sampled only if there are very many pairs.
    """

    alpha_prior: Tensor
    beta_prior: Tensor
    K_var: Tensor
    K_mu: Tensor

    _select_class = DPSelect
    _loss_arguments = ("adj", "mask", "so")
    _sparse_loss_arguments = ("adj", "batch", "so")

    def __init__(
        self,
        in_channels: int | Sequence[int],
        k: int,
        alpha_DP: float = 1.0,
        K_var: float = 1.0,
        K_mu: float = 10.0,
        K_init: float = 1.0,
        eta: float = 1.0,
        train_K: bool = True,
        act: str | None = None,
        dropout: float = 0.0,
        remove_self_loops: bool = True,
        degree_norm: bool = True,
        edge_weight_norm: bool = False,
        adj_transpose: bool = True,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        batched: bool = True,
        sparse_output: bool = False,
        cache_preprocessing: bool = False,
        num_neg_samples: int | None = None,
    ) -> None:
        for name, value in {"alpha_DP": alpha_DP, "K_var": K_var, "eta": eta, "max_k": k}.items():
            if value <= 0:
                raise ParameterError(f"{name} must be positive, got {value}", field=name)
        super().__init__(**base_kwargs(MLPPooling, locals()))
        self.alpha_DP, self.eta, self.train_K, self.num_neg_samples = alpha_DP, eta, train_K, num_neg_samples
        self.K_init_val, self.K_var_val, self.K_mu_val = K_init, K_var, K_mu
        sign = 2 * torch.eye(k) - 1
        self.K = torch.nn.Parameter(K_init * sign, requires_grad=train_K)
        self.register_buffer("alpha_prior", torch.ones(k - 1))
        self.register_buffer("beta_prior", alpha_DP * torch.ones(k - 1))
        self.register_buffer("K_var", torch.tensor(float(K_var)))
        self.register_buffer("K_mu", K_mu * sign)

    def forward(  # type: ignore[override]
        self,
        x: Tensor | None = None,
        adj: Any = None,
        edge_weight: Tensor | None = None,
        so: SelectOutput | None = None,
        batch: Tensor | None = None,
        batch_pooled: Tensor | None = None,
        lifting: bool = False,
        mask: Tensor | None = None,
        **kwargs: Any,
    ) -> PoolingOutput | Tensor:
        """Pool or lift; see :meth:`~tgp.src.DenseSRCPooling.forward`."""
        return super().forward(x, adj, edge_weight, so, mask, batch, batch_pooled, lifting, **kwargs)

    def reset_parameters(self) -> None:
        """Reset all learnable parameters and the buffers of the priors, which ``to_empty`` does not initialize."""
        super().reset_parameters()
        sign = 2 * torch.eye(self.k, device=self.K.device) - 1
        with torch.no_grad():
            self.K.copy_(self.K_init_val * sign)
            self.alpha_prior.fill_(1.0)
            self.beta_prior.fill_(self.alpha_DP)
            self.K_var.fill_(self.K_var_val)
            self.K_mu.copy_(self.K_mu_val * sign)

    @property
    def has_loss(self) -> bool:
        return True

    def extra_repr_args(self) -> dict[str, Any]:
        return {
            "batched": self.batched,
            "alpha_DP": self.alpha_DP,
            "k_prior_variance": self.K_var_val,
            "k_prior_mean": self.K_mu_val,
            "k_init_value": self.K_init_val,
            "eta": self.eta,
            "train_K": self.train_K,
            "num_neg_samples": self.num_neg_samples,
        }

    # -- losses --------------------------------------------------------------------------------

    def _losses(self, view: LayoutView, selected: Mapping[str, Any]) -> dict[str, Tensor]:
        exact = self.batched or not isinstance(view, SegmentView) or self._uses_all_pairs(view)
        return self._terms(view, selected["q_z"], exact)

    def compute_loss(  # type: ignore[override]
        self, adj: Tensor, mask: Tensor | None, so: SelectOutput
    ) -> dict[str, Tensor]:
        """Return the losses of padded graphs.

        Args:
            adj: ``[B, N, N]``, sources in rows.
            mask: ``[B, N]`` mask of the real nodes.
            so: assignment.
        """
        return self._terms(DenseView(so.s, adj, mask), so.q_z, True)

    def compute_sparse_loss(  # type: ignore[override]
        self, adj: Any, batch: Tensor | None, so: SelectOutput
    ) -> dict[str, Tensor]:
        """Return the losses of flat graphs.

        Args:
            adj: edge list, sparse matrix or ``SparseTensor``.
            batch: ``[N]`` graph ids.
            so: assignment.
        """
        index, weight = connectivity_to_edge_index(adj)
        view = SegmentView(so.s, index, weight, batch)
        return self._terms(view, so.q_z, self._uses_all_pairs(view))

    def _terms(self, view: LayoutView, posterior: Beta, exact: bool) -> dict[str, Tensor]:
        pairs = view.counts.square()
        prior = Beta(self.alpha_prior, self.beta_prior, validate_args=False)
        if posterior.mean.dim() == 2:  # one row per node, even if the adjacency is dense
            graph, size = view.rows()[1], view.num_graphs
            kl = kl_loss(posterior, prior, batch=graph, batch_size=size, normalizing_const=pairs)
        else:
            kl = kl_loss(posterior, prior, mask=view.padded()[1], normalizing_const=pairs)
        k_prior = view.s.new_zeros(())
        if self.train_K:
            k_prior = cluster_connectivity_prior_loss(self.K, self.K_mu, self.K_var, pairs)
        quality = self._quality(view, exact)
        quality = quality.mean() if quality.numel() > 0 else quality.sum()
        return {"quality": quality, "kl": self.eta * kl, "K_prior": k_prior}

    def _quality(self, view: LayoutView, exact: bool) -> Tensor:
        """Return the balanced cross entropy ``[B]`` of the reconstructed adjacency, divided by the number of pairs."""
        if exact and not on_host(view.s):
            return self._quality_of_all_pairs(view)
        rows, graph = view.rows()
        # The loss asks if there is an edge, so edge weights are not used: every entry counts as one edge.
        source, target, _, _ = view.merged()
        logits = self._logits(rows, source, target)
        count, owner = view.s.new_zeros(view.num_graphs), graph.index_select(0, source)
        num_edges = count.index_add(0, owner, torch.ones_like(logits))
        on_edges = count.index_add(0, owner, F.softplus(-logits))
        non_edges = (view.counts.square() - num_edges).clamp(min=1)
        if exact:
            total = self._all_pairs_as_non_edges(view)
            off_edges = total - count.index_add(0, owner, F.softplus(logits))
        else:
            off_edges = self._estimated_non_edges(view, torch.stack([source, target]), non_edges)
        weighted = on_edges * non_edges / num_edges.clamp(min=1)
        return safe_divide(weighted + off_edges, view.counts.square())

    def _quality_of_all_pairs(self, view: LayoutView) -> Tensor:
        """Return the same as ``_quality`` from dense matrices, without synchronizing an accelerator."""
        padded, mask = view.padded()
        if isinstance(view, DenseView):
            adj = view.adj
        else:
            assert isinstance(view, SegmentView)
            adj = self._padded_adjacency(view.edge_index, view.edge_weight, view.layout, view.s)
            adj = adj.mT if self.adj_transpose else adj
        logits = self.get_rec_adj(padded)
        pair = (mask.unsqueeze(1) & mask.unsqueeze(2)).to(logits.dtype)
        edge = (adj != 0).to(logits.dtype)
        num_edges = edge.sum((1, 2))
        non_edges = (view.counts.square() - num_edges).clamp(min=1)
        on_edges = (F.softplus(-logits) * edge).sum((1, 2))
        off_edges = (F.softplus(logits) * (pair - edge)).sum((1, 2))
        weighted = on_edges * non_edges / num_edges.clamp(min=1)
        return safe_divide(weighted + off_edges, view.counts.square())

    def _uses_all_pairs(self, view: SegmentView) -> bool:
        padded = view.num_graphs * view.layout.max_count**2
        return self.num_neg_samples is None and padded <= EXACT_PAIRS

    def _as_non_edges(self, rows: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Return the cross entropy of pairs with the label 0."""
        return F.softplus(self._logits(rows, source, target))

    def _logits(self, rows: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return EdgeMatrix(source, target, None, rows.size(0)).dots(rows @ self.K.to(rows.dtype), rows)

    def _all_pairs_as_non_edges(self, view: LayoutView) -> Tensor:
        """Return the cross entropy ``[B]`` of all pairs with the label 0, which is the sum of softplus(logit)."""
        padded, mask = view.padded()
        # Compute groups of graphs of similar size: padding all graphs to the largest would double the pairs.
        # The real nodes of a given mask may be at any position, so its graphs are not cut.
        order, holes = view.counts.argsort(), isinstance(view, DenseView)
        parts = [view.s.new_zeros(0)]
        for graphs in order.split(max(1, -(-order.numel() // _SIZE_CLASSES))):
            width = mask.size(1) if holes or graphs.numel() == 0 else int(view.counts[graphs[-1]])
            loss = F.softplus(self.get_rec_adj(padded[graphs, :width]))
            valid = mask[graphs, :width].to(loss.dtype)
            parts.append((valid.unsqueeze(1) @ loss @ valid.unsqueeze(2)).view(-1))
        return torch.cat(parts)[order.argsort()]

    def _estimated_non_edges(self, view: LayoutView, edges: Tensor, non_edges: Tensor) -> Tensor:
        """Return the cross entropy ``[B]`` of all non-edges. The diagonal is exact; other pairs are sampled."""
        rows, graph = view.rows()
        zeros = view.s.new_zeros(view.num_graphs)
        node = torch.arange(rows.size(0), device=rows.device)
        no_loop = torch.ones_like(node, dtype=torch.bool).index_fill(0, edges[0, edges[0] == edges[1]], False)
        node = node[no_loop]
        diagonal = zeros.index_add(0, graph[node], self._as_non_edges(rows, node, node))
        rest = non_edges - zeros.index_add(0, graph[node], torch.ones_like(node, dtype=zeros.dtype))
        source, target = self._negatives(edges, graph, view.num_graphs, rows.size(0))
        loss = self._as_non_edges(rows, source, target)
        count = zeros.index_add(0, graph[source], torch.ones_like(loss)).clamp(min=1)
        return diagonal + rest.clamp(min=0) * zeros.index_add(0, graph[source], loss) / count

    def _negatives(self, positives: Tensor, graph: Tensor, num_graphs: int, num_nodes: int) -> Tensor:
        wanted = self.num_neg_samples
        if num_graphs == 1:
            return negative_edge_sampling(positives, num_nodes, wanted, force_undirected=True)
        return batched_negative_edge_sampling(positives, graph, wanted, force_undirected=True)

    # -- parts ---------------------------------------------------------------------------------

    def get_rec_adj(self, S: Tensor) -> Tensor:
        """Return the logits ``S K S^T`` of all pairs of nodes.

        Args:
            S: ``[..., N, K]``.
        """
        return S @ self.K.to(S.dtype) @ S.transpose(-1, -2)

    def get_prob_link_logit(self, node_assignment: Tensor, edges_list: Tensor) -> Tensor:
        """Return the logits ``[E]`` of given pairs of nodes.

        Args:
            node_assignment: ``[N, K]``.
            edges_list: ``[2, E]`` pairs.
        """
        return self._logits(node_assignment, edges_list[0], edges_list[1])

    def get_sparse_rec_loss(
        self, node_assignment: Tensor, adj: Any, batch: Tensor | None = None, batch_size: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the mean cross entropy of the edges and of the same number of sampled non-edges.

        Args:
            node_assignment: ``[N, K]``.
            adj: edge list, sparse matrix or ``SparseTensor``.
            batch: ``[N]`` graph ids.
            batch_size: number of graphs.

        Returns:
            The loss, and the number of pairs of each graph.
        """
        positives, _ = connectivity_to_edge_index(adj)
        view = SegmentView(node_assignment, positives, None, batch, batch_size)
        _, graph = view.rows()
        negatives = self._negatives(positives, graph, view.num_graphs, node_assignment.size(0))
        pairs = torch.cat([positives, negatives], dim=1)
        labels = (torch.arange(pairs.size(1), device=pairs.device) < positives.size(1)).to(
            node_assignment.dtype
        )
        logits = self.get_prob_link_logit(node_assignment, pairs)
        if batch is None:
            return sparse_bce_reconstruction_loss(logits, labels)
        return sparse_bce_reconstruction_loss(logits, labels, graph[pairs[0]], view.num_graphs)
