"""Top-k pooling."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tgp.src.inputs import PoolInputs
from tgp.src.scored import FeatureScoredPooling, ScoredPooling
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType

__all__ = ["TopkPooling"]


class TopkPooling(FeatureScoredPooling):
    r"""Top-k pooling from `"Graph U-Nets" <https://arxiv.org/abs/1905.05178>`_, `"Towards Sparse Hierarchical Graph Classifiers"
    <https://arxiv.org/abs/1811.01287>`_ and `"Understanding Attention and Generalization in Graph Neural
    Networks" <https://arxiv.org/abs/1905.02850>`_.

    .. math::
        \mathbf{s} = \sigma(\mathbf{X}\mathbf{p} / \|\mathbf{p}\|), \quad
        \mathbf{i} = \mathrm{top}_k(\mathbf{s}), \quad
        \mathbf{X}' = (\mathbf{X} \odot \mathbf{s})_{\mathbf{i}}, \quad
        \mathbf{A}' = \mathbf{A}_{\mathbf{i}, \mathbf{i}}

    Supernodes are numbered by rank, graph by graph. Among equal scores the smaller node id comes first.

    Good for:
        The cheapest trainable pooler, at a chosen ratio, for large graphs and Graph U-Nets.

    Avoid when:
        All nodes matter: dropped nodes lose their features. The graph must stay connected: only edges between kept
        nodes remain.

    Complexity:
        ``O(N F + N log N + E)`` time and ``O(E + N F)`` memory.

    Args:
        in_channels: feature size. With 1 the feature itself is used instead of a projection.
        ratio, min_score, multiplier, nonlinearity, lift, s_inv_op, connect_red_op, lift_red_op,
            remove_self_loops, degree_norm, edge_weight_norm: see :class:`~tgp.src.scored.ScoredPooling`.

    Examples:
        >>> import torch
        >>> pooler = TopkPooling(in_channels=1, ratio=0.5)
        >>> out = pooler(x=torch.tensor([[0.1], [0.4], [0.3], [0.2]]), adj=torch.tensor([[0, 1, 2], [1, 2, 3]]))
        >>> out.so.node_index.tolist(), out.edge_index.tolist()
        ([1, 2], [[0], [1]])
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: str | Callable[[Tensor], Tensor] = "tanh",
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        connect_red_op: ConnectionType = "sum",
        lift_red_op: ReduceType = "sum",
        remove_self_loops: bool = True,
        degree_norm: bool = False,
        edge_weight_norm: bool = False,
    ) -> None:
        super().__init__(**base_kwargs(ScoredPooling, locals()))

    def _scored(self, inputs: PoolInputs) -> Tensor:
        """Return the features to score."""
        return self._features_to_score(inputs)
