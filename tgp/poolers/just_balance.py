"""Just Balance: balanced clusters on a filtered graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from tgp.errors import InputError
from tgp.src.dense import LossTerm
from tgp.src.mlp import MLPPooling
from tgp.utils.layout import DenseView, LayoutView, SegmentView
from tgp.utils.losses.balance import just_balance
from tgp.utils.signature import base_kwargs
from tgp.utils.tracing import on_host
from tgp.utils.transforms import NormalizeAdj
from tgp.utils.typing import LiftType, SinvType

__all__ = ["JustBalancePooling"]


class JustBalancePooling(MLPPooling):
    r"""Just Balance pooling from `"Simplifying Clustering with Graph Neural Networks"
    <https://arxiv.org/abs/2207.08779>`_.

    .. math::
        \mathcal{L} = -\sum_k \sqrt{(S^\top S)_{kk} + \epsilon} \,/\, \sqrt{NK}

    The loss depends only on the norms of the columns of :math:`S`. Message-passing layers should run on the graph that
    the transform of :meth:`data_transforms` returns.

    Good for:
        Clusters of similar size with one simple loss and no cut term, on graphs that the message passing before it has
        smoothed.

    Avoid when:
        No message passing comes before the pooler: the loss does not read the edges. Clusters have very different
        sizes.

    Complexity:
        ``O(E K + N K^2)`` time in the unbatched mode, with ``O(N K)`` memory. The padded mode also stores ``[B, N, N]``
        adjacencies if the graphs have many edges.

    Args:
        in_channels, k, act, dropout, remove_self_loops, degree_norm, edge_weight_norm, adj_transpose, lift,
            s_inv_op, batched, sparse_output, cache_preprocessing: see :class:`~tgp.src.mlp.MLPPooling`.
        normalize_loss: divide the loss of each graph by :math:`\sqrt{NK}`.
        loss_coeff: coefficient of the loss.
    """

    _loss_terms = (LossTerm("balance_loss", just_balance, "loss_coeff", ("normalize_loss",)),)

    _loss_arguments = ("S", "mask", "padded_size", "num_supernodes")
    _sparse_loss_arguments = ("S", "batch")

    def __init__(
        self,
        in_channels: int | Sequence[int],
        k: int,
        act: str | None = None,
        dropout: float = 0.0,
        normalize_loss: bool = True,
        loss_coeff: float = 1.0,
        remove_self_loops: bool = True,
        degree_norm: bool = True,
        edge_weight_norm: bool = False,
        adj_transpose: bool = True,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        batched: bool = True,
        sparse_output: bool = False,
        cache_preprocessing: bool = False,
    ) -> None:
        super().__init__(**base_kwargs(MLPPooling, locals()))
        self.normalize_loss = normalize_loss
        self.loss_coeff = loss_coeff

    def extra_repr_args(self) -> dict[str, Any]:
        return {**super().extra_repr_args(), "normalize_loss": self.normalize_loss}

    @staticmethod
    def data_transforms() -> NormalizeAdj:
        """Return the transform that replaces the adjacency by ``I - 0.85 L``."""
        return NormalizeAdj(delta=0.85)

    def _losses(self, view: LayoutView, selected: Mapping[str, Any]) -> dict[str, Tensor]:
        losses = super()._losses(view, selected)
        assert losses is not None  # the class declares a loss term
        value = losses["balance_loss"]
        if on_host(value) and bool(value.isnan()):
            raise InputError(
                "Loss is NaN: expected finite values in the assignment, got NaN. Check the features and the weights",
                field="S",
            )
        return losses

    def compute_loss(  # type: ignore[override]
        self,
        S: Tensor,
        mask: Tensor | None = None,
        num_nodes: int | None = None,
        num_supernodes: int | None = None,
    ) -> dict[str, Tensor]:
        """Return the losses of padded graphs.

        Args:
            S: ``[B, N, K]``.
            mask: ``[B, N]`` mask of the real nodes.
            num_nodes: number of nodes per graph, if there is no mask; by default ``N``.
            num_supernodes: ignored; the number of supernodes is ``K``.
        """
        view = DenseView(S, mask=mask)
        if num_nodes is not None and mask is None:
            view.counts = view.counts.new_full(view.counts.shape, float(num_nodes))
        return self._losses(view, {})

    def compute_sparse_loss(  # type: ignore[override]
        self, S: Tensor, batch: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the losses of flat graphs.

        Args:
            S: ``[N, K]``.
            batch: ``[N]`` graph ids.
        """
        return self._losses(SegmentView(S, batch=batch), {})
