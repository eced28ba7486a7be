"""DiffPool: differentiable pooling with a link-prediction loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tgp.src.dense import LossTerm
from tgp.src.mlp import MLPPooling
from tgp.utils.layout import DenseView
from tgp.utils.losses.reconstruct import link_prediction, row_entropy
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import LiftType, SinvType

__all__ = ["DiffPool"]


class DiffPool(MLPPooling):
    r"""DiffPool from `"Hierarchical Graph Representation Learning with Differentiable Pooling"
    <https://arxiv.org/abs/1806.08804>`_.

    .. math::
        \mathcal{L}_{link} = \|A - SS^\top\|_F, \quad \mathcal{L}_{entropy} = \frac1N\sum_i H(S_i)

    The norm is taken over the whole batch. The assignment is computed by an MLP, so message-passing layers should come
    before the pooler.

    Good for:
        A first dense pooler to compare with: neighbours are drawn into the same soft cluster, for batches of small
        graphs.

    Avoid when:
        Graphs are large and losses have their defaults: the link loss grows with the number of nodes and can outweigh
        the loss of the task (see ``normalize_loss``). You cluster nodes without labels: ``mincut``, ``dmon`` and
        ``acc`` find better clusters.

    Complexity:
        ``O(E K + N K^2)`` time in the unbatched mode, with ``O(N K)`` memory. The padded mode also stores ``[B, N, N]``
        adjacencies if the graphs have many edges.

    Args:
        in_channels, k, act, dropout, remove_self_loops, degree_norm, edge_weight_norm, adj_transpose, lift,
            s_inv_op, batched, sparse_output, cache_preprocessing: see :class:`~tgp.src.mlp.MLPPooling`.
        link_loss_coeff: coefficient of the link-prediction loss.
        ent_loss_coeff: coefficient of the entropy loss.
        normalize_loss: divide the link loss by the number of node pairs.
    """

    _loss_terms = (
        LossTerm("link_loss", link_prediction, "link_loss_coeff", ("normalize_loss",)),
        LossTerm("entropy_loss", row_entropy, "ent_loss_coeff"),
    )

    _loss_arguments = ("adj=", "S=", "num_nodes=")

    def __init__(
        self,
        in_channels: int | Sequence[int],
        k: int,
        act: str | None = None,
        dropout: float = 0.0,
        link_loss_coeff: float = 1.0,
        ent_loss_coeff: float = 1.0,
        normalize_loss: bool = False,
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
        self.link_loss_coeff = link_loss_coeff
        self.ent_loss_coeff = ent_loss_coeff
        self.normalize_loss = normalize_loss

    def extra_repr_args(self) -> dict[str, Any]:
        return {**super().extra_repr_args(), "normalize_loss": self.normalize_loss}

    def compute_loss(  # type: ignore[override]
        self, adj: Tensor, S: Tensor, num_nodes: Tensor | int | None = None, mask: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the losses of padded graphs.

        Args:
            adj, S, mask: see :meth:`~tgp.src.DenseSRCPooling.compute_loss`.
            num_nodes: number of real nodes, if there is no mask.
        """
        losses = self._losses(DenseView(S, adj, mask), {})
        assert losses is not None  # the class declares loss terms
        if num_nodes is not None and mask is None:
            padded = S.numel() // S.size(-1)
            losses["entropy_loss"] = losses["entropy_loss"] * padded / num_nodes
        return losses
