"""PAN pooling: top-k by path-integral scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tgp.select.base_select import SelectOutput
from tgp.select.topk_select import check_channels
from tgp.src.inputs import PoolInputs
from tgp.src.output import PoolingOutput
from tgp.src.scored import ScoredPooling
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType

__all__ = ["PANPooling"]


class PANPooling(ScoredPooling):
    r"""PAN pooling from `"Path Integral Based Convolution and Pooling for Graph Neural Networks"
    <https://arxiv.org/abs/2006.16811>`_.

    The nodes with the highest scores are kept. A score is the weighted sum of a projection of the features and of the
    path-integral centrality,

    .. math::
        \mathbf{r} = \beta_0 \mathbf{X}\mathbf{p} + \beta_1 \mathbf{M}^\top\mathbf{1} .

    :math:`\mathbf{M}` is the matrix of maximal-entropy transitions, the second output of :class:`~tgp.mp.PANConv`. It may
    be an edge list with weights, a sparse matrix or a ``SparseTensor``. The pooled matrix has the same type. Entries
    without weights are ones.

    Good for:
        Models with :class:`~tgp.mp.PANConv` layers, whose transition matrix gives the centrality of the nodes.

    Avoid when:
        The model has other layers: the pooler needs the matrix of a ``PANConv``. The graph must stay connected: only
        edges between kept nodes remain.

    Complexity:
        ``O(N F + N log N + M)`` time with ``M`` entries of the transition matrix.

    Args:
        in_channels: feature size.
        ratio, min_score, multiplier, nonlinearity, lift, s_inv_op, connect_red_op, lift_red_op,
            remove_self_loops, degree_norm, edge_weight_norm: see :class:`~tgp.src.scored.ScoredPooling`.
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
        remove_self_loops: bool = False,
        degree_norm: bool = False,
        edge_weight_norm: bool = False,
    ) -> None:
        super().__init__(**{**base_kwargs(ScoredPooling, locals()), "in_channels": None})
        self.in_channels = in_channels
        self.p = torch.nn.Parameter(torch.ones(in_channels))
        self.beta = torch.nn.Parameter(torch.full((2,), 0.5))

    def reset_own_parameters(self) -> None:
        """Reset the parameters :math:`p` and :math:`\\beta` to their initial values."""
        with torch.no_grad():
            self.p.fill_(1.0)
            self.beta.fill_(0.5)

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        super().reset_parameters()
        self.reset_own_parameters()

    def forward(  # type: ignore[override]
        self,
        x: Tensor | None = None,
        adj: Any = None,
        so: SelectOutput | None = None,
        batch: Tensor | None = None,
        lifting: bool = False,
        *,
        edge_weight: Tensor | None = None,
        **kwargs: Any,
    ) -> PoolingOutput | Tensor:
        """Pool or lift.

        Args:
            x, so, batch, lifting: see :meth:`~tgp.src.SRCPooling.forward`.
            **kwargs: further arguments of that method.
            adj: matrix :math:`M`.
            edge_weight: values of :math:`M`, if ``adj`` is an edge list.
        """
        return self._pool(lifting, x=x, adj=adj, edge_weight=edge_weight, so=so, batch=batch, **kwargs)

    def _scored(self, inputs: PoolInputs) -> Tensor:
        """Return the weighted sum of the projected features and the column sums of ``M``."""
        x = inputs.x
        assert x is not None  # the pooler needs features
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        check_channels(x, self.p.numel())
        (_, column), weight = connectivity_to_edge_index(inputs.adj, inputs.edge_weight)
        weight = x.new_ones(column.numel()) if weight is None else weight.to(x.dtype)
        centrality = x.new_zeros(x.size(0)).index_add(0, column, weight)
        return self.beta[0] * (x * self.p).sum(-1) + self.beta[1] * centrality
