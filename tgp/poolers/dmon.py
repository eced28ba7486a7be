"""DMoN: deep modularity clustering."""

from __future__ import annotations

from collections.abc import Sequence

from tgp.src.dense import LossTerm
from tgp.src.mlp import MLPPooling
from tgp.utils.losses.balance import cluster_balance, orthogonality
from tgp.utils.losses.cut import modularity
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import LiftType, SinvType

__all__ = ["DMoNPooling"]


class DMoNPooling(MLPPooling):
    r"""DMoN pooling from `"Graph Clustering with Graph Neural Networks" <https://arxiv.org/abs/2006.16904>`_.

    .. math::
        \mathcal{L}_{spectral} = -\frac{1}{2m}\mathrm{Tr}\Big(S^\top A S - \frac{S^\top d d^\top S}{2m}\Big),
        \quad \mathcal{L}_{cluster} = \frac{\sqrt K}{N}\Big\|\sum_i S_i\Big\|_2 - 1

    Good for:
        Communities, in pooling and in node clustering without labels: the loss is the modularity, and one cluster
        cannot take all nodes.

    Avoid when:
        Graphs have no communities, as grids and molecules: modularity then says little.

    Complexity:
        ``O(E K + N K^2)`` time in the unbatched mode, with ``O(N K)`` memory. The padded mode also stores ``[B, N, N]``
        adjacencies if the graphs have many edges.

    Args:
        in_channels, k, act, dropout, remove_self_loops, degree_norm, edge_weight_norm, adj_transpose, lift,
            s_inv_op, batched, sparse_output, cache_preprocessing: see :class:`~tgp.src.mlp.MLPPooling`.
        spectral_loss_coeff: coefficient of the spectral loss, the negative modularity.
        cluster_loss_coeff: coefficient of the cluster loss, which prevents that one cluster takes all nodes.
        ortho_loss_coeff: coefficient of the orthogonality loss of :class:`~tgp.poolers.MinCutPooling`; by default 0.
    """

    _loss_terms = (
        LossTerm("spectral_loss", modularity, "spectral_loss_coeff"),
        LossTerm("cluster_loss", cluster_balance, "cluster_loss_coeff"),
        LossTerm("ortho_loss", orthogonality, "ortho_loss_coeff"),
    )

    def __init__(
        self,
        in_channels: int | Sequence[int],
        k: int,
        act: str | None = None,
        dropout: float = 0.0,
        spectral_loss_coeff: float = 1.0,
        cluster_loss_coeff: float = 1.0,
        ortho_loss_coeff: float = 0.0,
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
        self.spectral_loss_coeff = spectral_loss_coeff
        self.cluster_loss_coeff = cluster_loss_coeff
        self.ortho_loss_coeff = ortho_loss_coeff
