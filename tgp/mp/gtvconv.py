"""Graph total-variation convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.utils import add_remaining_self_loops, remove_self_loops

from tgp.errors import InputError
from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj

__all__ = ["GTVConv", "gtv_adj_weights"]


class GTVConv(MessagePassing):
    r"""The layer of `"Total Variation Graph Neural Networks" <https://arxiv.org/abs/2211.06218>`_.

    .. math::
        h = XW, \quad \Gamma_{ij} = \frac{a_{ij}}{\max(\|h_i - h_j\|_1, \epsilon)}, \quad
        X' = \sigma\big((I - \delta L_\Gamma)\,h + b\big), \quad L_\Gamma = \mathrm{diag}(\Gamma 1) - \Gamma

    Self loops cancel out. Sparse and dense inputs give the same numbers.

    Args:
        in_channels: size of the input features.
        out_channels: size of the output features.
        bias: whether to add a bias.
        delta_coeff: step size :math:`\delta`.
        eps: smallest distance :math:`\epsilon`.
        act: activation, a name or a callable; ``None`` for none.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        bias: bool = True,
        delta_coeff: float = 1.0,
        eps: float = 1e-3,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
    ) -> None:
        super().__init__(aggr="sum")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.delta_coeff, self.eps = delta_coeff, eps
        identity = act is None or (isinstance(act, str) and act.lower() in ("identity", "linear", "none"))
        self.act = None if identity else activation_resolver(act)
        self.weight = torch.nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.kaiming_normal_(self.weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Convolve ``x``.

        Args:
            x: ``[N, F]``, or ``[B, N, F]`` with a dense adjacency.
            edge_index: edge list, sparse matrix, or dense ``[N, N]`` / ``[B, N, N]``.
            edge_weight: ``[E]`` for an edge list.
            mask: ``[B, N]`` (or ``[N]``) of real nodes; the rest are set to zero before the activation.

        Returns:
            ``[N, F']``; ``[B, N, F']`` for a dense adjacency.
        """
        h = x @ self.weight
        out = (
            self._dense(h, edge_index)
            if is_dense_adj(edge_index)
            else self._sparse(h, edge_index, edge_weight)
        )
        if self.bias is not None:
            out = out + self.bias
        if mask is not None:
            out = out * mask.reshape(*out.shape[:-1], 1).to(out.dtype)
        return out if self.act is None else self.act(out)

    def _sparse(self, h: Tensor, edge_index: Any, edge_weight: Tensor | None) -> Tensor:
        edge_index, edge_weight = connectivity_to_edge_index(edge_index, edge_weight)
        row, col = edge_index
        weight = h.new_ones(row.numel()) if edge_weight is None else edge_weight.to(h.dtype)
        gamma = weight / (h[row] - h[col]).abs().sum(-1).clamp(min=self.eps)
        flow = torch.zeros_like(h).index_add(0, row, gamma.unsqueeze(-1) * (h[col] - h[row]))
        return h + self.delta_coeff * flow

    def _dense(self, h: Tensor, adj: Tensor) -> Tensor:
        h = h.unsqueeze(0) if h.dim() == 2 else h
        adj = adj.unsqueeze(0) if adj.dim() == 2 else adj
        # Loops cancel in exact arithmetic only: a_ii / eps would swamp the rest.
        adj = adj.to(h.dtype) * (1 - torch.eye(adj.size(-1), dtype=h.dtype, device=h.device))
        gamma = adj / torch.cdist(h, h, p=1).clamp(min=self.eps)
        return h + self.delta_coeff * (gamma @ h - gamma.sum(-1, keepdim=True) * h)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels})"


def gtv_adj_weights(
    edge_index: Tensor,
    edge_weight: Tensor,
    num_nodes: int | None = None,
    flow: str = "source_to_target",
    coeff: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Edge list of ``I - coeff (D - A)`` with an explicit diagonal.

    Degrees are summed over destinations for ``source_to_target`` and over sources for
    ``target_to_source``.
    """
    if flow not in ("source_to_target", "target_to_source"):
        raise InputError(f"flow must be 'source_to_target' or 'target_to_source', got {flow!r}", field="flow")
    if edge_weight is None:
        raise InputError("edge_weight must be a tensor, got None", field="edge_weight")
    if num_nodes is None:
        num_nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
    weight = edge_weight.view(-1)
    # A loop adds the same to D and to A.
    edge_index, weight = remove_self_loops(edge_index, weight)
    end = edge_index[1] if flow == "source_to_target" else edge_index[0]
    degree = weight.new_zeros(num_nodes).index_add(0, end, weight)
    edge_index, weight = add_remaining_self_loops(edge_index, weight, 0.0, num_nodes)
    loop = edge_index[0] == edge_index[1]
    diagonal = 1 - coeff * degree[edge_index[0]]
    return edge_index, torch.where(loop, diagonal, coeff * weight)
