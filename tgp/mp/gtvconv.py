"""GTVConv: graph total-variation convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.utils import add_remaining_self_loops, remove_self_loops

from tgp.errors import InputError
from tgp.utils.checks import check_ids
from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj, real_weights
from tgp.utils.precision import matmul, widen
from tgp.utils.user_code import is_overridden

__all__ = ["GTVConv", "gtv_adj_weights"]


class GTVConv(MessagePassing):
    r"""Layer of `"Total Variation Graph Neural Networks" <https://arxiv.org/abs/2211.06218>`_.

    .. math::
        h = XW, \quad \Gamma_{ij} = \frac{a_{ij}}{\max(\|h_i - h_j\|_1, \epsilon)}, \quad
        X' = \sigma\big((I - \delta L_\Gamma)\,h + b\big), \quad L_\Gamma = \mathrm{diag}(\Gamma 1) - \Gamma

    Self loops have no effect. Sparse and dense inputs give the same result.

    Args:
        in_channels: size of the input features.
        out_channels: size of the output features.
        bias: add a bias.
        delta_coeff: step size :math:`\delta`.
        eps: smallest distance :math:`\epsilon`.
        act: name of an activation, or a function; ``None`` for no activation.
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
        """Reset all learnable parameters."""
        super().reset_parameters()
        torch.nn.init.kaiming_normal_(self.weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Return the output features.

        Args:
            x: ``[N, F]``, or ``[B, N, F]`` with a dense adjacency.
            edge_index: edge list, sparse matrix, or dense ``[N, N]`` / ``[B, N, N]``.
            edge_weight: ``[E]`` weights of an edge list.
            mask: mask of the real nodes, ``[B, N]`` or ``[N]`` for all graphs. Other rows are set to zero before the
                activation.

        Returns:
            ``[N, F']``, or ``[B, N, F']`` for a dense adjacency.

        Raises:
            InputError: If a node id is out of range.
        """
        h = x @ self.weight
        out: Tensor
        if is_dense_adj(edge_index):
            out = self._dense(h, edge_index)
        else:
            out = self._sparse(h, edge_index, edge_weight)
        if self.bias is not None:
            out = out + self.bias
        if mask is not None:
            out = out * _node_mask(mask, out)
        if self.act is not None:
            out = self.act(out)
        return out

    def message(self, x_j: Tensor, edge_weight: Tensor) -> Tensor:
        """Return the messages of the filter ``I - delta L``. The edges include the diagonal.

        The layer computes the filter without messages. It calls this method only if a subclass overrides a step of
        message passing.

        Args:
            x_j: ``[E, F']`` features of the sources.
            edge_weight: ``[E]`` weights of the filter.
        """
        return edge_weight.view(-1, 1) * x_j

    def _sparse(self, h: Tensor, edge_index: Any, edge_weight: Tensor | None) -> Tensor:
        edge_index, edge_weight = connectivity_to_edge_index(edge_index, edge_weight)
        check_ids(edge_index, h.size(0), "edge_index")
        row, col = edge_index
        wide = widen(h)
        weight = wide.new_ones(row.numel()) if edge_weight is None else edge_weight.to(wide.dtype)
        difference = wide.index_select(0, col) - wide.index_select(0, row)
        gamma = weight / difference.abs().sum(-1).clamp(min=self.eps)
        if self._has_own_messages():
            edges, values = gtv_adj_weights(edge_index.flip(0), gamma, h.size(0), coeff=self.delta_coeff)
            out: Tensor = self.propagate(edges, x=h, edge_weight=values.to(h.dtype), size=None)
            return out
        flow = torch.zeros_like(wide).index_add(0, row, gamma.unsqueeze(-1) * difference)
        return (wide + self.delta_coeff * flow).to(h.dtype)

    def _has_own_messages(self) -> bool:
        """Return True if a subclass or a hook changes a step of message passing."""
        hooks = (
            self._message_forward_hooks,
            self._message_forward_pre_hooks,
            self._propagate_forward_hooks,
            self._propagate_forward_pre_hooks,
            self._aggregate_forward_hooks,
            self._aggregate_forward_pre_hooks,
        )
        methods = ("message", "aggregate", "update", "propagate")
        return any(hooks) or any(is_overridden(self, name) for name in methods)

    def _dense(self, h: Tensor, adj: Tensor) -> Tensor:
        h = h.unsqueeze(0) if h.dim() == 2 else h
        adj = adj.unsqueeze(0) if adj.dim() == 2 else adj
        wide = widen(h)
        # Self loops have no effect in exact arithmetic, but a_ii / eps would dominate the sums in floating point.
        adj = adj.to(wide.dtype) * (1 - torch.eye(adj.size(-1), dtype=wide.dtype, device=h.device))
        gamma = adj / torch.cdist(wide, wide, p=1).clamp(min=self.eps)
        flow = matmul(gamma, wide) - gamma.sum(-1, keepdim=True) * wide
        return (wide + self.delta_coeff * flow).to(h.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels})"


def _node_mask(mask: Tensor, out: Tensor) -> Tensor:
    """Return the mask in a shape that broadcasts over ``out``."""
    if mask.numel() == out[..., 0].numel():
        return mask.reshape(*out.shape[:-1], 1).to(out.dtype)
    return mask.reshape(-1, out.size(-2), 1).to(out.dtype)


def gtv_adj_weights(
    edge_index: Tensor,
    edge_weight: Tensor,
    num_nodes: int | None = None,
    flow: str = "source_to_target",
    coeff: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return the edge list and weights of ``I - coeff (D - A)`` with an explicit diagonal.

    Args:
        edge_index: ``[2, E]``.
        edge_weight: ``[E]`` or ``[E, 1]``.
        num_nodes: ``N``; by default the largest id + 1.
        flow: ``source_to_target`` for in-degrees, ``target_to_source`` for out-degrees.
        coeff: Step size.

    Returns:
        ``[2, E']`` edges and their ``[E']`` weights.

    Raises:
        InputError: If ``flow`` is unknown, weights are missing, or an id is out of range.
    """
    if flow not in ("source_to_target", "target_to_source"):
        raise InputError(f"flow must be 'source_to_target' or 'target_to_source', got {flow!r}", field="flow")
    if edge_weight is None:
        raise InputError("edge_weight must be a tensor, got None", field="edge_weight")
    if num_nodes is None:
        num_nodes = int(edge_index.max()) + 1 if edge_index.numel() > 0 else 0
    check_ids(edge_index, num_nodes, "edge_index")
    weight = real_weights(edge_weight.reshape(-1))
    # A self loop adds the same value to D and to A.
    edge_index, weight = remove_self_loops(edge_index, weight)
    end = edge_index[1] if flow == "source_to_target" else edge_index[0]
    degree = weight.new_zeros(num_nodes).index_add(0, end, weight)
    edge_index, weight = add_remaining_self_loops(edge_index, weight, 0.0, num_nodes)
    loop = edge_index[0] == edge_index[1]
    diagonal = 1 - coeff * degree[edge_index[0]]
    return edge_index, torch.where(loop, diagonal, coeff * weight)
