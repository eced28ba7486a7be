"""HOSC: higher-order (motif) clustering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tgp.src.dense import LossTerm
from tgp.src.mlp import MLPPooling
from tgp.utils.layout import DenseView, LayoutView
from tgp.utils.losses.balance import hosc_orthogonality, orthogonality
from tgp.utils.losses.cut import mincut, motif_mincut
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import LiftType, SinvType

__all__ = ["HOSCPooling"]


def _motif_cut(view: LayoutView, alpha: float) -> Tensor:
    """Return the weighted sum of both cut losses. A cut with weight zero is not computed."""
    if alpha <= 0:
        return (1 - alpha) * mincut(view) / view.k
    if alpha >= 1:
        return alpha * motif_mincut(view) / view.k
    return ((1 - alpha) * mincut(view) + alpha * motif_mincut(view)) / view.k


def _orthogonality(view: LayoutView, hosc_ortho: bool) -> Tensor:
    return hosc_orthogonality(view) if hosc_ortho else orthogonality(view)


class HOSCPooling(MLPPooling):
    r"""HOSC pooling from `"Higher-order Clustering and Pooling for Graph Neural Networks"
    <https://arxiv.org/abs/2209.03473>`_.

    .. math::
        \mathcal{L}_{hosc} = \frac1K\big[(1-\alpha)\,\mathcal{L}_{cut}(A) + \alpha\,\mathcal{L}_{cut}(A^3)\big]

    The motif matrix :math:`A^3` is used only in the loss. It is applied as a product and never stored.

    Good for:
        Clusters that follow triangles and other small motifs, as in social and citation networks.

    Avoid when:
        Graphs have few triangles, as trees, grids and most molecules: the motif term then adds little.

    Complexity:
        ``O(E K + N K^2)`` time in the unbatched mode, with ``O(N K)`` memory. The padded mode also stores ``[B, N, N]``
        adjacencies if the graphs have many edges. The motif term takes three products with ``A`` instead of one.

    Args:
        in_channels, k, act, dropout, remove_self_loops, degree_norm, edge_weight_norm, adj_transpose, lift,
            s_inv_op, batched, sparse_output, cache_preprocessing: see :class:`~tgp.src.mlp.MLPPooling`.
        mu: coefficient of the orthogonality loss.
        alpha: weight :math:`\alpha` of the motif cut.
        hosc_ortho: use the orthogonality loss of the paper instead of that of :class:`~tgp.poolers.MinCutPooling`.
    """

    _loss_terms = (
        LossTerm("hosc_loss", _motif_cut, "hosc_loss_coeff", ("alpha",)),
        LossTerm("ortho_loss", _orthogonality, "mu", ("hosc_ortho",)),
    )

    _loss_arguments = ("adj", "S", "adj_pooled", "mask")

    hosc_loss_coeff = 1.0

    def __init__(
        self,
        in_channels: int | Sequence[int],
        k: int,
        act: str | None = None,
        dropout: float = 0.0,
        mu: float = 0.1,
        alpha: float = 0.5,
        hosc_ortho: bool = False,
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
        self.mu = mu
        self.alpha = alpha
        self.hosc_ortho = hosc_ortho

    def compute_loss(  # type: ignore[override]
        self, adj: Tensor, S: Tensor, adj_pool: Tensor | None = None, mask: Tensor | None = None
    ) -> dict[str, Tensor] | None:
        """Return the losses of padded graphs; see :meth:`~tgp.src.DenseSRCPooling.compute_loss`."""
        return self._losses(DenseView(S, adj, mask), {})

    def extra_repr_args(self) -> dict[str, Any]:
        return {"batched": self.batched, "mu": self.mu, "alpha": self.alpha, "hosc_ortho": self.hosc_ortho}
