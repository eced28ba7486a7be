"""``MLPPooling``: dense poolers whose assignment is an MLP on node features."""

from __future__ import annotations

from collections.abc import Sequence

from tgp.connect.dense_conn import DenseConnect
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.mlp_select import MLPSelect
from tgp.src.dense import DenseSRCPooling
from tgp.utils.typing import LiftType, SinvType

__all__ = ["MLPPooling"]


class MLPPooling(DenseSRCPooling):
    r"""Base class of poolers that compute clusters with an MLP and differ only in their auxiliary losses.

    :math:`\mathbf{S} = \mathrm{softmax}(\mathrm{MLP}(\mathbf{X}))`,
    :math:`\mathbf{X}' = \mathbf{S}^\top\mathbf{X}`, :math:`\mathbf{A}' = \mathbf{S}^\top\mathbf{A}\mathbf{S}`. A
    subclass declares ``_loss_terms`` and names its coefficients.

    Args:
        in_channels: Number of features, or the widths of all layers, of which the first is the number of features.
        k: Number of supernodes per graph.
        act: Activation of hidden layers; ``None`` for linear layers.
        dropout: Dropout of hidden layers.
        remove_self_loops: Remove self loops of the pooled graph.
        degree_norm: Normalize the pooled adjacency by degrees.
        edge_weight_norm: Divide pooled weights by the largest weight of their graph.
        adj_transpose: Dense adjacencies have targets in rows, as ``DenseGCNConv`` expects.
        lift, s_inv_op: See :class:`~tgp.src.level.LevelPooling`.
        batched: Run on padded graphs (True) or on flat rows (False).
        sparse_output: Return the pooled graphs as one edge list.
        cache_preprocessing: Keep the padded adjacency of a single graph as long as it stays the same.
    """

    _select_class = MLPSelect
    _needs_features = True

    def __init__(
        self,
        in_channels: int | Sequence[int],
        k: int,
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
    ) -> None:
        super().__init__(
            selector=self._select_class(in_channels, k, batched, act, dropout, s_inv_op),
            reducer=BaseReduce(),
            lifter=BaseLift(matrix_op=lift),
            connector=DenseConnect(
                remove_self_loops, degree_norm, adj_transpose, edge_weight_norm, sparse_output
            ),
            adj_transpose=adj_transpose,
            batched=batched,
            sparse_output=sparse_output,
            cache_preprocessing=cache_preprocessing,
        )
        self.k = k
