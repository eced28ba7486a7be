"""Self-attention pooling."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GraphConv, Linear

from tgp.select.base_select import SelectOutput
from tgp.src.inputs import PoolInputs
from tgp.src.output import PoolingOutput
from tgp.src.scored import ScoredPooling, build_gnn
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.ops.products import EdgeMatrix
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType
from tgp.utils.user_code import has_user_code

__all__ = ["SAGPooling"]


class SAGPooling(ScoredPooling):
    r"""Keep the nodes with the highest score of a graph convolution, from `"Self-Attention Graph Pooling"
    <https://arxiv.org/abs/1904.08082>`_.

    .. math::
        \mathbf{s} = \sigma(\mathrm{GNN}(\mathbf{X}, \mathbf{A})), \quad \mathbf{i} = \mathrm{top}_k(\mathbf{s}), \quad
        \mathbf{X}' = (\mathbf{X} \odot \mathbf{s})_{\mathbf{i}}, \quad \mathbf{A}' = \mathbf{A}_{\mathbf{i}, \mathbf{i}}

    Args:
        in_channels: size of the features.
        GNN: class of the convolution, built as ``GNN(in_channels, 1, ...)``; edge weights are passed to it if
            its ``forward`` takes them.
        ratio, min_score, multiplier, nonlinearity, lift, s_inv_op, connect_red_op, lift_red_op,
            remove_self_loops, degree_norm, edge_weight_norm: see :class:`~tgp.src.scored.ScoredPooling`.
        **kwargs: arguments of the convolution; names it does not know are left out.
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        GNN: type | None = None,
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**base_kwargs(ScoredPooling, locals()), "in_channels": None})
        self.in_channels = in_channels
        self.gnn = build_gnn(GNN or GraphConv, in_channels, 1, kwargs)
        self._weighted = "edge_weight" in inspect.signature(self.gnn.forward).parameters

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
        """Pool or lift; the convolution reads ``attn`` instead of ``x`` if it is given."""
        return self._pool(
            lifting, x=x, adj=adj, edge_weight=edge_weight, so=so, batch=batch, attn=attn, **kwargs
        )

    def _scored(self, inputs: PoolInputs) -> Tensor:
        """Return the convolution of ``attn`` or ``x``."""
        attn = inputs.extra.get("attn")
        h = inputs.x if attn is None else attn
        h = h.unsqueeze(-1) if h.dim() == 1 else h
        index, weight = connectivity_to_edge_index(inputs.adj, inputs.edge_weight)
        if _is_plain_graph_conv(self.gnn):
            return self._graph_conv(h, index, weight, inputs.checked)
        if self._weighted and weight is not None:
            return self.gnn(h, index, edge_weight=weight)
        return self.gnn(h, index)

    def _graph_conv(self, h: Tensor, index: Tensor, weight: Tensor | None, checked: bool) -> Tensor:
        """Return ``GraphConv`` with one output: features are projected first, so that edges add up numbers."""
        source, target = index if self.gnn.flow == "source_to_target" else index.flip(0)
        projected = F.linear(h, self.gnn.lin_rel.weight)
        moved = EdgeMatrix(target, source, weight, h.size(0), checked=checked).times(projected)
        bias = self.gnn.lin_rel.bias
        return (moved if bias is None else moved + bias) + self.gnn.lin_root(h)

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        super().reset_parameters()
        self.gnn.reset_parameters()


def _is_plain_graph_conv(gnn: nn.Module) -> bool:
    """Return True if the convolution may be computed from its weights: PyG's own layers, no code of the user."""
    if type(gnn) is not GraphConv or gnn.aggr not in ("add", "sum") or gnn.explain:
        return False
    return type(gnn.lin_rel) is Linear and type(gnn.lin_root) is Linear and not has_user_code(gnn)
