"""Top-k selection by the scores of a network that is trained for a large cut (MaxCut)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.nn.resolver import activation_resolver

from tgp.select.base_select import SelectOutput
from tgp.select.topk_select import TopkSelect
from tgp.utils.ops.adjacency import delta_gcn_edges
from tgp.utils.ops.adjacency import delta_gcn_matrix as delta_gcn_matrix
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.ops.products import EdgeMatrix
from tgp.utils.precision import widen
from tgp.utils.typing import SinvType
from tgp.utils.user_code import has_user_code

__all__ = ["MaxCutScoreNet", "MaxCutSelect"]

DEEP = (32,) * 4 + (16,) * 4 + (8,) * 4


def _activation(name: Any) -> torch.nn.Module:
    if name is None or (isinstance(name, str) and name.lower() in ("identity", "none", "linear")):
        return torch.nn.Identity()
    module: torch.nn.Module = activation_resolver(name)
    return module


class _Propagation:
    """Propagation matrix :math:`P = I - \\delta L_{sym}`: its edges, and the value ``1 - delta`` of its diagonal."""

    def __init__(self, edge_index: Tensor, weight: Tensor, delta: float, num_nodes: int) -> None:
        self.num_nodes, self.diagonal = num_nodes, 1.0 - delta
        self.source, self.target, self.weight = delta_gcn_edges(edge_index, weight, delta, num_nodes)

    def run(self, convs: torch.nn.ModuleList, act: torch.nn.Module, x: Tensor) -> Tensor:
        """Apply the convolutions.

        A convolution that may run other code gets the diagonal as self loops. Otherwise the diagonal is added as a
        multiple of the features, without edges.
        """
        if has_user_code(convs) or any(type(conv) is not GCNConv for conv in convs):
            loops = torch.arange(self.num_nodes, device=x.device)
            index = torch.stack([torch.cat([self.source, loops]), torch.cat([self.target, loops])])
            weight = torch.cat([self.weight, self.weight.new_full((self.num_nodes,), self.diagonal)])
            for conv in convs:
                x = act(conv(x, index, weight.to(x.dtype)))
            return x
        edges = EdgeMatrix(self.target, self.source, self.weight, self.num_nodes)
        for conv in convs:
            lin: Any = conv.lin
            bias: Any = conv.bias
            h = lin(x)
            out = torch.add(edges @ h, h, alpha=self.diagonal)
            x = act(out if bias is None else out + bias)
        return x


class MaxCutScoreNet(torch.nn.Module):
    r"""Network that scores nodes by message passing with :math:`P = I - \delta L_{sym}`.

    The propagation increases the differences between neighbours.

    Args:
        in_channels: feature size.
        mp_units: widths of the message-passing layers.
        mp_act: activation of the message-passing layers.
        mlp_units: widths of the linear layers that follow.
        mlp_act: activation of the linear layers.
        act: activation of the score.
        delta: :math:`\delta`.
        **kwargs: ignored, as in tgp 1.0.2.
    """

    def __init__(
        self,
        in_channels: int,
        mp_units: Sequence[int] = DEEP,
        mp_act: str = "tanh",
        mlp_units: Sequence[int] = (16, 16),
        mlp_act: str = "relu",
        act: str = "tanh",
        delta: float = 2.0,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.in_channels, self.delta = in_channels, delta
        self.mp_act, self.mlp_act, self.act = _activation(mp_act), _activation(mlp_act), _activation(act)
        self.initial_layer = torch.nn.Linear(in_channels, in_channels)
        widths = [in_channels, *mp_units]
        self.mp_convs = torch.nn.ModuleList(
            GCNConv(a, b, normalize=False, add_self_loops=False)
            for a, b in zip(widths, mp_units, strict=False)
        )
        widths = [widths[-1], *mlp_units]
        self.mlp = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(widths, mlp_units, strict=False))
        self.final_layer = torch.nn.Linear(widths[-1], 1)

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        layers: tuple[Any, ...] = (self.initial_layer, *self.mp_convs, *self.mlp, self.final_layer)
        for layer in layers:
            layer.reset_parameters()

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return ``[N, 1]`` scores.

        Args:
            x: ``[N, F]`` features.
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``; by default ones.
        """
        index, weight = connectivity_to_edge_index(edge_index, edge_weight)
        # Degrees are sums over edges, which need float32 or wider.
        dtype = widen(x).dtype if x.is_floating_point() else torch.get_default_dtype()
        ones = torch.ones(index.size(1), dtype=dtype, device=index.device)
        propagation = _Propagation(index, ones if weight is None else weight.to(dtype), self.delta, x.size(0))
        x = propagation.run(self.mp_convs, self.mp_act, self.initial_layer(x))
        for layer in self.mlp:
            x = self.mlp_act(layer(x))
        scores: Tensor = self.act(self.final_layer(x))
        return scores


class MaxCutSelect(TopkSelect):
    """Selector that keeps the nodes with the highest (signed) scores of a :class:`MaxCutScoreNet`.

    ``so.scores`` holds the scores of all nodes. With ``batch_size`` given, a call synchronizes an accelerator once to
    remove self loops, once for the number of kept nodes, and once more with ``assign_all_nodes``.

    Args:
        in_channels, mp_units, mp_act, mlp_units, mlp_act, act, delta: see :class:`MaxCutScoreNet`.
        ratio, min_score, s_inv_op: see :class:`~tgp.select.TopkSelect`.
        assign_all_nodes: assign every other node to the nearest kept node.
        max_iter: rounds of propagation. Nodes that are not reached get a random supernode of their graph.
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        assign_all_nodes: bool = True,
        max_iter: int = 5,
        mp_units: Sequence[int] = DEEP,
        mp_act: str = "tanh",
        mlp_units: Sequence[int] = (16, 16),
        mlp_act: str = "relu",
        act: str = "tanh",
        delta: float = 2.0,
        min_score: float | None = None,
        s_inv_op: SinvType = "transpose",
    ) -> None:
        super().__init__(None, ratio, min_score, None, s_inv_op)
        self.in_channels, self.assign_all_nodes, self.max_iter = in_channels, assign_all_nodes, max_iter
        self.mp_units, self.mp_act = list(mp_units), mp_act
        self.mlp_units, self.mlp_act = list(mlp_units), mlp_act
        self.score_act, self.delta = act, delta
        self.score_net = MaxCutScoreNet(in_channels, mp_units, mp_act, mlp_units, mlp_act, act, delta)

    def options(self) -> dict[str, Any]:
        names = ("in_channels", "ratio", "assign_all_nodes", "max_iter", "min_score", "s_inv_op")
        return {name: getattr(self, name) for name in names}

    def reset_parameters(self) -> None:
        """Reset the score network."""
        if hasattr(self, "score_net"):
            self.score_net.reset_parameters()

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Score the nodes and select the best; with ``assign_all_nodes``, assign the others to them.

        Args:
            x: ``[N, F]`` features, or ``[N]``.
            edge_index: edge list, sparse matrix or ``SparseTensor``; ``None`` for a graph without edges.
            edge_weight: ``[E]`` or ``[E, 1]``.
            batch: ``[N]`` graph ids, in any order.
            batch_size: number of graphs.
            **kwargs: ignored.
        """
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        if edge_index is None:
            edge_index = torch.empty(2, 0, dtype=torch.long, device=x.device)
        score = self.score_net(x, edge_index, edge_weight).view(-1)
        so = super().forward(score, batch=batch, batch_size=batch_size)
        if self.assign_all_nodes:
            so = self.assign_remaining_nodes(so, edge_index, score, batch)
        so.scores = score
        so._extra_args.add("scores")
        return so

    def assign_remaining_nodes(
        self, so: SelectOutput, edge_index: Any, weight: Tensor | None, batch: Tensor | None
    ) -> SelectOutput:
        """Return an assignment in which every node has a supernode.

        Args:
            so: selection of nodes.
            edge_index: connectivity.
            weight: ``[N]`` values of the entries.
            batch: ``[N]`` graph ids.
        """
        return so.assign_all_nodes(adj=edge_index, weight=weight, max_iter=self.max_iter, batch=batch)
