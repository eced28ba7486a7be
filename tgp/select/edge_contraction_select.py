"""Contraction of a matching of edges with high scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import softmax

from tgp.select.base_select import Select, SelectOutput
from tgp.utils.ops.connectivity import connectivity_to_edge_index, infer_num_nodes
from tgp.utils.precision import is_half, widen
from tgp.utils.tracing import on_host, opaque
from tgp.utils.typing import SinvType
from tgp.utils.user_code import has_user_code

__all__ = ["EdgeContractionSelect", "maximal_matching", "maximal_matching_cluster"]

EdgeScore = Callable[[Tensor, Tensor, int], Tensor]


def maximal_matching(edge_index: Any, num_nodes: int | None = None, perm: Tensor | None = None) -> Tensor:
    """Return the greedy maximal matching of a graph: take each edge whose ends are free, in the order ``perm``.

    The matching is computed in rounds. In each round an edge is taken if it comes first among the remaining edges at
    both of its ends. Then all edges at matched nodes are removed. The first remaining edge is always taken, so the
    loop ends. Self loops are never taken. Each round synchronizes once with an accelerator.

    Args:
        edge_index: edge list, sparse matrix or ``SparseTensor``.
        num_nodes: number of nodes; by default the largest id + 1.
        perm: edge ids, best first; by default the order of the list.

    Returns:
        ``[E]`` mask of the matched edges.

    Examples:
        >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> maximal_matching(path).tolist()
        [True, False, True]
    """
    edge_index, _ = connectivity_to_edge_index(edge_index)
    source, target = edge_index
    size, count = infer_num_nodes(edge_index, num_nodes), source.numel()
    rank = torch.arange(count, device=source.device)
    if perm is not None:
        rank = torch.empty_like(rank).scatter_(0, perm, rank)
    match = torch.zeros(count, dtype=torch.bool, device=source.device)
    # The last element collects edges that are not taken.
    taken = torch.zeros(size + 1, dtype=torch.bool, device=source.device)
    live = (source != target).nonzero().squeeze(1)
    while live.numel() > 0:
        s, t, r = source[live], target[live], rank[live]
        first = r.new_full((size,), count).scatter_reduce(0, s, r, "amin").scatter_reduce(0, t, r, "amin")
        wins = (first[s] == r) & (first[t] == r)
        match.index_copy_(0, live, wins)
        taken.index_fill_(0, torch.where(wins, s, size), True)
        taken.index_fill_(0, torch.where(wins, t, size), True)
        live = live[~(taken[s] | taken[t])]
    return match


def maximal_matching_cluster(
    edge_index: Any, num_nodes: int | None = None, perm: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return a greedy maximal matching and the clusters that contracting it gives.

    Args:
        edge_index, num_nodes, perm: see :func:`maximal_matching`.

    Returns:
        ``[E]`` mask of the matched edges, and the ``[N]`` cluster of each node. A cluster is a pair or a single node.
        Clusters are numbered in the order of their representatives; the source of a matched edge represents its pair.
    """
    edge_index, _ = connectivity_to_edge_index(edge_index)
    match, cluster, _, _ = _contract(edge_index, infer_num_nodes(edge_index, num_nodes), perm)
    return match, cluster


@opaque  # The rounds depend on values. This gives one break of a compiled graph instead of several per round.
def _contract(edge_index: Tensor, size: int, perm: Tensor | None) -> tuple[Tensor, Tensor, Tensor, int]:
    """Return mask and ids of the matched edges, cluster of each node, and the number of clusters."""
    match = maximal_matching(edge_index, size, perm)
    ids = match.nonzero().squeeze(1)
    nodes = torch.arange(size, device=edge_index.device)
    source, target = edge_index.index_select(1, ids)
    leader = nodes.index_copy(0, target, source)
    number = (leader == nodes).cumsum(0)
    count = int(number[-1]) if size else 0
    return match, (number - 1)[leader], ids, count


def _best_first(score: Tensor, key: Tensor) -> Tensor:
    """Return edge ids by descending score. Equal scores are ordered by ascending key."""
    if on_host(key) and bool((key[1:] >= key[:-1]).all()):
        return score.argsort(descending=True, stable=True)
    by_key = key.argsort(stable=True)
    return by_key[score[by_key].argsort(descending=True, stable=True)]


class EdgeContractionSelect(Select):
    r"""Selector that scores every edge and contracts a greedy matching of the best edges.

    The raw score of an edge is :math:`r_{ij} = \mathbf{w}^\top[\mathbf{x}_i \| \mathbf{x}_j] + b`. The score is
    ``edge_score_method(r) + add_to_edge_score``. The weight of a merged pair is the score of its edge, so gradients
    reach the parameters. The weight of a single node is one. Scores of half-precision features are computed in float32.

    A call synchronizes an accelerator once per round of :func:`maximal_matching` (about the logarithm of the number of
    edges) and three more times.

    Args:
        in_channels: feature size.
        edge_score_method: function ``(raw [E], edge_index, num_nodes) -> [E]``; by default the softmax over the edges
            with the same target.
        dropout: dropout of raw scores in training mode.
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
        self.compute_edge_score = edge_score_method or self.compute_edge_score_softmax
        self.dropout = dropout
        self.add_to_edge_score = add_to_edge_score
        self.s_inv_op = s_inv_op
        self.lin = torch.nn.Linear(2 * in_channels, 1)
        self.reset_parameters()  # tgp 1.0.2 also initializes twice, so a seed gives the same weights

    @property
    def edge_score_method(self) -> EdgeScore:
        """Function that turns raw scores into scores."""
        return self.compute_edge_score

    @edge_score_method.setter
    def edge_score_method(self, value: EdgeScore) -> None:
        self.compute_edge_score = value

    def reset_parameters(self) -> None:
        """Reset the parameters of the edge score."""
        self.lin.reset_parameters()

    @staticmethod
    def compute_edge_score_softmax(raw_edge_score: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Return the softmax of the raw scores over the edges with the same target."""
        score: Tensor = softmax(raw_edge_score, edge_index[1], num_nodes=num_nodes)
        return score

    @staticmethod
    def compute_edge_score_tanh(
        raw_edge_score: Tensor, edge_index: Tensor | None = None, num_nodes: int | None = None
    ) -> Tensor:
        """Return the tanh of the raw scores."""
        return raw_edge_score.tanh()

    @staticmethod
    def compute_edge_score_sigmoid(
        raw_edge_score: Tensor, edge_index: Tensor | None = None, num_nodes: int | None = None
    ) -> Tensor:
        """Return the sigmoid of the raw scores."""
        return raw_edge_score.sigmoid()

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
        """Return the ``[E]`` score of every edge, in float32 or wider."""
        raw = self._raw_scores(x, edge_index)
        raw = widen(raw)
        raw = F.dropout(raw, p=self.dropout, training=self.training)
        return self.compute_edge_score(raw, edge_index, x.size(0)) + self.add_to_edge_score

    def _raw_scores(self, x: Tensor, edge_index: Tensor) -> Tensor:
        lin = self.lin
        source, target = edge_index
        if type(lin) is not torch.nn.Linear or has_user_code(lin) or torch.is_autocast_enabled(x.device.type):
            scores: Tensor = lin(torch.cat([x[source], x[target]], dim=-1))
            return scores.view(-1)
        # Project the nodes first, so that no row of 2F features per edge is needed.
        ends = x @ lin.weight.to(x.dtype).view(2, -1).t()
        raw = ends[:, 0][source] + ends[:, 1][target]
        return raw if lin.bias is None else raw + lin.bias

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        edge_index: Any = None,
        *,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Contract a matching. Edge weights are not used. Clusters never contain nodes of two graphs.

        Args:
            x: ``[N, F]`` features, or ``[N]``.
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            batch: ``[N]`` graph ids, kept as ``so.batch``.
            batch_size: number of graphs, kept as ``so.batch_size``.
        """
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        edge_index, _ = connectivity_to_edge_index(edge_index)
        size = x.size(0)
        score = self.scores(x, edge_index)
        # Equal scores are ordered by node ids, so that the order of the edge list does not matter.
        best = _best_first(score.detach(), edge_index[0] * size + edge_index[1])
        _, cluster, ids, num_supernodes = _contract(edge_index, size, best)
        score = score.to(x.dtype) if is_half(x) else score
        weight = score.new_ones(num_supernodes).index_copy(0, cluster[edge_index[0, ids]], score[ids])
        return SelectOutput.hard(
            cluster,
            num_supernodes,
            weight=weight[cluster],
            s_inv_op=self.s_inv_op,
            batch=batch,
            batch_size=batch_size,
        )
