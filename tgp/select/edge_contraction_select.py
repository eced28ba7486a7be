"""Merge the end points of a matching of high-scoring edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import softmax

from tgp.select.base_select import Select, SelectOutput
from tgp.utils.ops.connectivity import connectivity_to_edge_index, infer_num_nodes
from tgp.utils.typing import SinvType

__all__ = ["EdgeContractionSelect", "maximal_matching", "maximal_matching_cluster"]

EdgeScore = Callable[[Tensor, Tensor, int], Tensor]


def maximal_matching(edge_index: Any, num_nodes: int | None = None, perm: Tensor | None = None) -> Tensor:
    """``[E]`` bool: the matching that a scan of the edges in the order ``perm`` would take.

    Computed in rounds: an edge wins if no live edge at either of its ends comes before it; then
    all edges at matched nodes die. The first live edge always wins, so it ends. Self loops never match.

    Args:
        edge_index: any sparse connectivity.
        num_nodes: number of nodes; default largest id + 1.
        perm: edge ids, best first; default the order of the list.
    """
    edge_index, _ = connectivity_to_edge_index(edge_index)
    source, target = edge_index
    size, count = infer_num_nodes(edge_index, num_nodes), source.numel()
    rank = torch.arange(count, device=source.device)
    if perm is not None:
        rank = torch.empty_like(rank).scatter_(0, perm, rank)
    match = torch.zeros(count, dtype=torch.bool, device=source.device)
    taken = torch.zeros(size, dtype=torch.bool, device=source.device)
    live = (source != target).nonzero().squeeze(1)
    while live.numel():
        s, t, r = source[live], target[live], rank[live]
        first = r.new_full((size,), count).scatter_reduce(0, s, r, "amin").scatter_reduce(0, t, r, "amin")
        wins = (first[s] == r) & (first[t] == r)
        match[live[wins]] = True
        taken[s[wins]] = True
        taken[t[wins]] = True
        live = live[~(taken[s] | taken[t])]
    return match


def maximal_matching_cluster(
    edge_index: Any, num_nodes: int | None = None, perm: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The matching and ``[N]`` clusters: pairs and singletons, numbered by representative.

    The source of a matched edge represents its pair.
    """
    edge_index, _ = connectivity_to_edge_index(edge_index)
    size = infer_num_nodes(edge_index, num_nodes)
    match = maximal_matching(edge_index, size, perm)
    leader = torch.arange(size, device=edge_index.device)
    source, target = edge_index[:, match]
    leader[target] = source
    return match, torch.unique(leader, return_inverse=True)[1]


def _best_first(score: Tensor, key: Tensor) -> Tensor:
    """Edge ids by descending score, equal scores by ascending key."""
    if bool((key[1:] >= key[:-1]).all()):
        return score.argsort(descending=True, stable=True)
    by_key = key.argsort(stable=True)
    return by_key[score[by_key].argsort(descending=True, stable=True)]


class EdgeContractionSelect(Select):
    r"""Score every edge from the features of its ends, then contract a greedy matching.

    :math:`r_{ij} = \mathbf{w}^\top[\mathbf{x}_i \| \mathbf{x}_j] + b`, turned into a score by
    ``edge_score_method`` plus a constant. A merged pair is weighted by the score of its edge, which is how
    gradients reach the parameters; a node on its own by one.

    Args:
        in_channels: feature size.
        edge_score_method: ``(raw [E], edge_index, num_nodes) -> [E]``; default softmax over the edges
            that share a target.
        dropout: dropout of raw scores in training.
        add_to_edge_score: constant added to every score.
        s_inv_op: see :class:`~tgp.select.SelectOutput`.
    """

    def __init__(
        self,
        in_channels: int,
        edge_score_method: EdgeScore | None = None,
        dropout: float = 0.0,
        add_to_edge_score: float = 0.5,
        s_inv_op: SinvType = "transpose",
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.edge_score_method = edge_score_method or self.compute_edge_score_softmax
        self.dropout = dropout
        self.add_to_edge_score = add_to_edge_score
        self.s_inv_op = s_inv_op
        self.lin = torch.nn.Linear(2 * in_channels, 1)

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    @staticmethod
    def compute_edge_score_softmax(raw: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Softmax over the edges with the same target."""
        return softmax(raw, edge_index[1], num_nodes=num_nodes)

    @staticmethod
    def compute_edge_score_tanh(
        raw: Tensor, edge_index: Tensor | None = None, num_nodes: int | None = None
    ) -> Tensor:
        """Elementwise tanh."""
        return raw.tanh()

    @staticmethod
    def compute_edge_score_sigmoid(
        raw: Tensor, edge_index: Tensor | None = None, num_nodes: int | None = None
    ) -> Tensor:
        """Elementwise sigmoid."""
        return raw.sigmoid()

    def options(self) -> dict[str, Any]:
        name = getattr(self.edge_score_method, "__name__", repr(self.edge_score_method))
        return {
            "in_channels": self.in_channels,
            "edge_score_method": name,
            "dropout": self.dropout,
            "add_to_edge_score": self.add_to_edge_score,
            "s_inv_op": self.s_inv_op,
        }

    def scores(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """``[E]`` score of every edge."""
        # One number per node and end, which then meet on edges: no row of 2F features per edge.
        ends = x @ self.lin.weight.to(x.dtype).view(2, -1).t()
        raw = ends[:, 0][edge_index[0]] + ends[:, 1][edge_index[1]]
        raw = raw if self.lin.bias is None else raw + self.lin.bias
        raw = F.dropout(raw, p=self.dropout, training=self.training)
        return self.edge_score_method(raw, edge_index, x.size(0)) + self.add_to_edge_score

    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Contract a matching. Weights of edges play no role; clusters never cross graphs."""
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        edge_index, _ = connectivity_to_edge_index(edge_index)
        size = x.size(0)
        score = self.scores(x, edge_index)
        # Best first; equal scores by node ids, so that the order of the edge list does not matter.
        best = _best_first(score.detach(), edge_index[0] * size + edge_index[1])
        match, cluster = maximal_matching_cluster(edge_index, size, best)
        num_supernodes = int(cluster.max()) + 1 if size else 0
        weight = score.new_ones(num_supernodes).index_copy(0, cluster[edge_index[0, match]], score[match])
        return SelectOutput.hard(
            cluster, num_supernodes, weight=weight[cluster], s_inv_op=self.s_inv_op, batch=batch
        )
