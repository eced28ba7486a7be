"""MinCut: relaxed normalised min-cut pooling."""

from __future__ import annotations

from collections.abc import Sequence

from tgp.src.dense import LossTerm
from tgp.src.mlp import MLPPooling
from tgp.utils.losses.balance import orthogonality
from tgp.utils.losses.cut import mincut
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import LiftType, SinvType

__all__ = ["MinCutPooling"]


class MinCutPooling(MLPPooling):
    r"""Min-cut pooling from `"Spectral Clustering in Graph Neural Networks for Graph Pooling"
    <https://arxiv.org/abs/1907.00481>`_.

    .. math::
        \mathcal{L}_{cut} = -\frac{\mathrm{Tr}(S^\top A S)}{\mathrm{Tr}(S^\top D S)}, \quad
        \mathcal{L}_{ortho} = \left\|\frac{S^\top S}{\|S^\top S\|_F} - \frac{I}{\sqrt K}\right\|_F

    Good for:
        Clusters of similar size with few edges between them: a sound first choice among the dense poolers, also for
        node clustering without labels.

    Avoid when:
        Clusters have very different sizes: the orthogonality loss works against them. ``k`` is large: the pooled graph
        is dense.

    Complexity:
        ``O(E K + N K^2)`` time in the unbatched mode, with ``O(N K)`` memory. The padded mode also stores ``[B, N, N]``
        adjacencies if the graphs have many edges.

    Args:
        in_channels, k, act, dropout, remove_self_loops, degree_norm, edge_weight_norm, adj_transpose, lift,
            s_inv_op, batched, sparse_output, cache_preprocessing: see :class:`~tgp.src.mlp.MLPPooling`.
        cut_loss_coeff: coefficient of the cut loss.
        ortho_loss_coeff: coefficient of the orthogonality loss.

    Examples:
        >>> import torch
        >>> pooler = MinCutPooling(in_channels=3, k=2)
        >>> out = pooler(x=torch.rand(4, 3), adj=torch.tensor([[0, 1, 2], [1, 2, 3]]))
        >>> list(out.x.shape), list(out.edge_index.shape), sorted(out.loss)
        ([1, 2, 3], [1, 2, 2], ['cut_loss', 'ortho_loss'])
    """

    _loss_terms = (
        LossTerm("cut_loss", mincut, "cut_loss_coeff"),
        LossTerm("ortho_loss", orthogonality, "ortho_loss_coeff"),
    )

    _loss_arguments = ("adj", "S", "adj_pooled")

    def __init__(
        self,
        in_channels: int | Sequence[int],
        k: int,
        act: str | None = None,
        dropout: float = 0.0,
        cut_loss_coeff: float = 1.0,
        ortho_loss_coeff: float = 1.0,
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
        self.cut_loss_coeff = cut_loss_coeff
        self.ortho_loss_coeff = ortho_loss_coeff
