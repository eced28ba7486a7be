"""Top-k pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from tgp.select.base_select import SelectOutput
from tgp.src.inputs import PoolInputs
from tgp.src.output import PoolingOutput
from tgp.src.scored import ScoredPooling
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType

__all__ = ["TopkPooling"]


class TopkPooling(ScoredPooling):
    r"""Keep the nodes with the highest projection scores, from `"Graph U-Nets"
    <https://arxiv.org/abs/1905.05178>`_, `"Towards Sparse Hierarchical Graph Classifiers"
    <https://arxiv.org/abs/1811.01287>`_ and `"Understanding Attention and Generalization in Graph Neural
    Networks" <https://arxiv.org/abs/1905.02850>`_.

    .. math::
        \mathbf{s} = \sigma(\mathbf{X}\mathbf{p} / \|\mathbf{p}\|), \quad
        \mathbf{i} = \mathrm{top}_k(\mathbf{s}), \quad
        \mathbf{X}' = (\mathbf{X} \odot \mathbf{s})_{\mathbf{i}}, \quad
        \mathbf{A}' = \mathbf{A}_{\mathbf{i}, \mathbf{i}}

    Row ``c`` of ``x``, ``batch`` and the assignment and node ``c`` of ``edge_index`` are the same
    supernode: the ``c``-th best, graph after graph. Ties go to the smaller node id.

    Args:
        in_channels: size of the features; with 1 the feature itself is the score.
        ratio: share of nodes to keep (a float up to 1, rounded up; ``1.0`` keeps all), or a number per graph.
        min_score: keep nodes above this softmax score instead.
        multiplier: factor on the pooled features.
        nonlinearity: activation of the scores.
        lift, s_inv_op, lift_red_op: see :class:`~tgp.lift.BaseLift` and :class:`~tgp.select.SelectOutput`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm: see
            :class:`~tgp.connect.SparseConnect`.
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

    def forward(
        self,
        x: Tensor | None = None,
        adj: Any = None,
        edge_weight: Tensor | None = None,
        so: SelectOutput | None = None,
        batch: Tensor | None = None,
        attn: Tensor | None = None,
        lifting: bool = False,
        **kwargs: Any,
    ) -> PoolingOutput | Tensor:
        """Pool or lift; ``attn`` (``in_channels`` columns) is scored instead of ``x`` if it is given."""
        return self._pool(
            lifting, x=x, adj=adj, edge_weight=edge_weight, so=so, batch=batch, attn=attn, **kwargs
        )

    def _scored(self, inputs: PoolInputs) -> Tensor:
        """Return ``attn`` if it is given, else ``x``."""
        attn = inputs.extra.get("attn")
        return inputs.x if attn is None else attn
