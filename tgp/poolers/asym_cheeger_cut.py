"""Asymmetric Cheeger cut pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tgp.src.dense import LossTerm
from tgp.src.mlp import MLPPooling
from tgp.utils.layout import DenseView, LayoutView
from tgp.utils.losses.balance import asym_norm
from tgp.utils.losses.cut import total_variation
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import LiftType, SinvType

__all__ = ["AsymCheegerCutPooling"]


def _balance(view: LayoutView) -> Tensor:
    return asym_norm(view, view.k)


class AsymCheegerCutPooling(MLPPooling):
    r"""Asymmetric Cheeger cut pooling from `"Total Variation Graph Neural Networks"
    <https://arxiv.org/abs/2211.06218>`_. The paper uses it together with :class:`~tgp.mp.GTVConv` layers.

    .. math::
        \mathcal{L}_{tv} = \frac{1}{2|E|}\sum_{ij} a_{ij}\|S_i - S_j\|_1, \quad
        \mathcal{L}_{balance} = 1 - \frac{\sum_k \|S_{:k} - \mathrm{quant}(S_{:k})\|_{1,\rho}}{N(K-1)}

    Good for:
        Clusters with sharp borders and similar sizes, together with :class:`~tgp.mp.GTVConv` layers. Also node
        clustering without labels.

    Avoid when:
        Clusters have very different sizes: the balance loss works against them. The number of clusters is not known.

    Complexity:
        ``O(E K + N K^2)`` time in the unbatched mode, with ``O(N K)`` memory. The padded mode also stores ``[B, N, N]``
        adjacencies if the graphs have many edges. The quantiles of the balance loss take ``O(K N log N)``.

    Args:
        in_channels, k, act, dropout, remove_self_loops, degree_norm, edge_weight_norm, adj_transpose, lift,
            s_inv_op, batched, sparse_output, cache_preprocessing: see :class:`~tgp.src.mlp.MLPPooling`.
        totvar_coeff: coefficient of the total variation loss.
        balance_coeff: coefficient of the balance loss.
    """

    _loss_terms = (
        LossTerm("total_variation_loss", total_variation, "totvar_coeff"),
        LossTerm("balance_loss", _balance, "balance_coeff"),
    )

    _loss_arguments = ("adj", "S", "mask=")

    def __init__(
        self,
        in_channels: int | Sequence[int],
        k: int,
        act: str | None = None,
        dropout: float = 0.0,
        totvar_coeff: float = 1.0,
        balance_coeff: float = 1.0,
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
        self.totvar_coeff = totvar_coeff
        self.balance_coeff = balance_coeff

    def compute_loss(  # type: ignore[override]
        self, adj: Tensor, S: Tensor, mask: Tensor | None = None, **kwargs: Any
    ) -> dict[str, Tensor] | None:
        """Return the losses of padded graphs; see :meth:`~tgp.src.DenseSRCPooling.compute_loss`."""
        return self._losses(DenseView(S, adj, mask), {})
