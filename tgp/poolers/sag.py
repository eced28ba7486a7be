"""SAG pooling: top-k by the scores of a graph convolution."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GraphConv, Linear

from tgp.src.inputs import PoolInputs
from tgp.src.scored import FeatureScoredPooling, ScoredPooling, build_gnn
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.ops.products import EdgeMatrix
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType
from tgp.utils.user_code import has_user_code

__all__ = ["SAGPooling"]


class SAGPooling(FeatureScoredPooling):
    r"""Self-attention pooling from `"Self-Attention Graph Pooling" <https://arxiv.org/abs/1904.08082>`_.

    A graph convolution scores the nodes, and the nodes with the highest scores are kept.

    .. math::
        \mathbf{s} = \sigma(\mathrm{GNN}(\mathbf{X}, \mathbf{A})), \quad \mathbf{i} = \mathrm{top}_k(\mathbf{s}), \quad
        \mathbf{X}' = (\mathbf{X} \odot \mathbf{s})_{\mathbf{i}}, \quad \mathbf{A}' = \mathbf{A}_{\mathbf{i}, \mathbf{i}}

    Good for:
        A chosen ratio at low cost, where the importance of a node depends on its neighbours.

    Avoid when:
        All nodes matter: dropped nodes lose their features. The graph must stay connected: only edges between kept
        nodes remain.

    Complexity:
        ``O(E F + N log N)`` time and ``O(E + N F)`` memory.

    Args:
        in_channels: feature size.
        GNN: class of the convolution, built as ``GNN(in_channels, 1, ...)``; by default ``GraphConv``. It gets the edge
            weights if its ``forward`` has the argument ``edge_weight``.
        ratio, min_score, multiplier, nonlinearity, lift, s_inv_op, connect_red_op, lift_red_op,
            remove_self_loops, degree_norm, edge_weight_norm: see :class:`~tgp.src.scored.ScoredPooling`.
        **kwargs: arguments of the convolution. Names that it does not accept are ignored.
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

    def _scored(self, inputs: PoolInputs) -> Tensor:
        """Return the output of the convolution."""
        h = self._features_to_score(inputs)
        h = h.unsqueeze(-1) if h.dim() == 1 else h
        index, weight = connectivity_to_edge_index(inputs.adj, inputs.edge_weight)
        if _is_plain_graph_conv(self.gnn):
            return self._graph_conv(h, index, weight, inputs.checked)
        weighted = self._weighted and weight is not None
        scores: Tensor = self.gnn(h, index, edge_weight=weight) if weighted else self.gnn(h, index)
        return scores

    def _graph_conv(self, h: Tensor, index: Tensor, weight: Tensor | None, checked: bool) -> Tensor:
        """Return the output of ``GraphConv`` with one channel.

        The features are projected before they are summed over the edges, which needs one number per edge.
        """
        source, target = index if self.gnn.flow == "source_to_target" else index.flip(0)
        projected = F.linear(h, self.gnn.lin_rel.weight)
        summed = EdgeMatrix(target, source, weight, h.size(0), checked=checked).times(projected)
        bias = self.gnn.lin_rel.bias
        scores: Tensor = (summed if bias is None else summed + bias) + self.gnn.lin_root(h)
        return scores

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        super().reset_parameters()
        self.gnn.reset_parameters()


def _is_plain_graph_conv(gnn: nn.Module) -> bool:
    """Return True if ``gnn`` is PyG's ``GraphConv`` without user code, so that its weights can be used directly."""
    if type(gnn) is not GraphConv or gnn.aggr not in ("add", "sum") or gnn.explain:
        return False
    return type(gnn.lin_rel) is Linear and type(gnn.lin_root) is Linear and not has_user_code(gnn)
