"""Clusters around a k-hop maximal independent set (k-MIS)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import to_undirected

from tgp.engine.methods.kmis import assign_by_order, assign_by_score, with_reverse_edges
from tgp.engine.schedule import LevelSpec
from tgp.errors import InputError, ParameterError
from tgp.imports import HAS_TORCH_SCATTER as HAS_TORCH_SCATTER
from tgp.select.base_select import Select as Select
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import LevelSelect, MethodParameter, to_select_output
from tgp.utils.blocks import to_block, to_host
from tgp.utils.ops.adjacency import weighted_degree as weighted_degree
from tgp.utils.ops.connectivity import check_connectivity, connectivity_to_edge_index, infer_num_nodes
from tgp.utils.tracing import opaque
from tgp.utils.typing import SinvType

__all__ = [
    "KMISSelect",
    "degree_scorer",
    "maximal_independent_set",
    "maximal_independent_set_cluster",
]

_BY_ENGINE = ("random", "constant", "canonical", "degree")
_BY_FEATURES = ("linear", "first", "last")

_HEURISTICS = ("greedy", "w-greedy", None)

Scorer = str | Tensor | Callable[..., Tensor]


class _ScorerError(ParameterError, AssertionError):
    """Unknown name of a scorer or heuristic. Also an ``AssertionError``, which tgp 1.0.2 raised."""


class _FeatureError(InputError, AssertionError):
    """Missing features. Also an ``AssertionError``, which tgp 1.0.2 raised."""


def degree_scorer(
    edge_index: Any, edge_weight: Tensor | None = None, num_nodes: int | None = None, dim: int = 1
) -> Tensor:
    """Return the weighted degree of each node. Gradients reach the weights.

    Args:
        edge_index: edge list, sparse matrix or ``SparseTensor``.
        edge_weight: ``[E]``; by default ones.
        num_nodes: ``N``; by default it is read from the connectivity.
        dim: 1 for the in-degree, 0 for the out-degree.

    Returns:
        ``[N]`` degrees.
    """
    num_nodes = infer_num_nodes(edge_index, num_nodes)
    index, weight = connectivity_to_edge_index(edge_index, edge_weight)
    if weight is None:
        weight = torch.ones(index.size(1), device=index.device)
    weight = weight.view(-1)
    return weight.new_zeros(num_nodes).index_add(0, index[dim], weight)


def maximal_independent_set(
    edge_index: Any, order_k: int = 1, perm: Tensor | None = None, num_nodes: int | None = None
) -> Tensor:
    """Return a k-hop maximal independent set.

    Two members of the set are more than ``k`` hops apart, and every node has a member within ``k`` hops.

    Args:
        edge_index: edge list, sparse matrix or ``SparseTensor``. Edges are used in both directions.
        order_k: ``k``.
        perm: permutation of the nodes in which they are considered; by default ``0, 1, ...``.
        num_nodes: ``N``; by default it is read from the connectivity.

    Returns:
        ``[N]`` mask of the members.

    Examples:
        >>> maximal_independent_set(torch.tensor([[0, 1, 2], [1, 2, 3]])).tolist()
        [True, False, True, False]
    """
    return maximal_independent_set_cluster(edge_index, order_k, perm, num_nodes)[0]


def maximal_independent_set_cluster(
    edge_index: Any, order_k: int = 1, perm: Tensor | None = None, num_nodes: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return a k-hop maximal independent set and the cluster of each node.

    Args:
        edge_index, order_k, perm, num_nodes: see :func:`maximal_independent_set`.

    Returns:
        ``[N]`` mask of the members, and the ``[N]`` cluster of each node. A node joins the member within ``k`` hops that
        comes first in ``perm``. Clusters are numbered in the order of the node ids of their members.
    """
    source = to_block(edge_index, None, None, num_nodes)
    order = None if perm is None else to_host(perm)[0].numpy()
    found = assign_by_order(source.block, order, order_k)
    assert found.representative is not None and found.cluster is not None  # k-MIS makes both
    mask = torch.zeros(source.block.num_nodes, dtype=torch.bool, device=source.device)
    mask[source.tensor(source.node_ids(found.representative))] = True
    return mask, source.tensor(found.cluster.astype("int64"))


class KMISSelect(LevelSelect):
    r"""Selector of clusters around a k-hop maximal independent set, from `"Generalizing Downsampling from Regular Data
    to Graphs" <https://arxiv.org/abs/2208.03523>`_.

    Nodes are considered by descending score. A node becomes a member of the set unless a member is within :math:`k`
    hops. Every node then joins the member with the highest rank within :math:`k` hops. Among equal scores the smaller
    index comes first. The scores are the values of :math:`\mathbf{S}`. Edges are used in both directions.

    Args:
        in_channels: number of features, for ``linear``; of a list the first element is used.
        order_k: number of hops :math:`k`. Members of the set are more than :math:`k` hops apart.
        scorer: ``linear`` (learned, :math:`\sigma(\mathbf{x}^\top \mathbf{p} + b)`), ``first`` or ``last``
            (the first or last feature), ``degree`` (weighted in-degree), ``random`` (seeded, per graph), ``constant``,
            ``canonical`` (minus the index inside the graph), a tensor of ``[N]`` scores, or a function
            ``(x, edge_index, edge_weight, batch) -> [N]``.
        score_heuristic: divide the scores before ranking by the size of the k-hop neighbourhood (``greedy``) or
            by the sum of its scores (``w-greedy``); ``None`` for no division.
        force_undirected: use the larger weight of the two directions of an edge for both.
        s_inv_op: ``transpose`` or ``inverse``.
        seed: seed of random scores.
        max_size: largest number of nodes of a cluster. A larger one is divided into parts of nearly equal size, by the index
            of its nodes. ``None`` for no limit.
    """

    def __init__(
        self,
        in_channels: int | Sequence[int] | None = None,
        order_k: int = 1,
        scorer: Scorer = "linear",
        score_heuristic: str | None = "greedy",
        force_undirected: bool = False,
        s_inv_op: SinvType = "transpose",
        *,
        seed: int = 0,
        max_size: int | None = None,
    ) -> None:
        named = isinstance(scorer, str)
        if named and scorer not in (*_BY_FEATURES, *_BY_ENGINE):
            raise _ScorerError(
                f"Unrecognized `scorer` value: {scorer}. The scorer must be one of "
                f"{', '.join((*_BY_FEATURES, *_BY_ENGINE))}, scores or a function",
                field="scorer",
            )
        if score_heuristic not in _HEURISTICS:
            raise _ScorerError(
                f"Unrecognized `score_heuristic` value: {score_heuristic}. Expected 'greedy', 'w-greedy' or None",
                field="score_heuristic",
            )
        if not named and not isinstance(scorer, Tensor) and not callable(scorer):
            raise ParameterError(
                f"scorer must be a name, scores or a function, got {type(scorer).__name__}", field="scorer"
            )
        params: dict[str, Any] = {
            "order_k": order_k,
            "score_heuristic": score_heuristic,
            "force_undirected": force_undirected,
            "max_size": max_size,
        }
        if named and scorer in _BY_ENGINE:
            params["scorer"] = scorer
        super().__init__("kmis", params, seed=seed, s_inv_op=s_inv_op)
        self.in_channels = in_channels
        self._scorer = scorer
        self.lin: Linear | None = None
        if named and scorer == "linear":
            if in_channels is None:
                raise ParameterError(
                    "in_channels is missing: expected the number of node features for scorer='linear', got None. "
                    "A scorer such as 'degree' does not need it",
                    field="in_channels",
                )
            size = in_channels if isinstance(in_channels, int) else int(in_channels[0])
            self.lin = Linear(size, 1, weight_initializer="uniform")

    order_k = MethodParameter("Number of hops; members are further apart.")
    score_heuristic = MethodParameter("Rule that divides the scores before ranking.")
    force_undirected = MethodParameter(
        "True if the larger weight of the two directions of an edge is used for both."
    )
    max_size = MethodParameter("Largest number of nodes of a cluster; None for no limit.")

    def _state_from_1_0_2(self, state: dict[str, Any]) -> dict[str, Any]:
        layer = state["_modules"].get("lin")
        return super()._state_from_1_0_2(
            state if layer is None else {**state, "in_channels": layer.in_channels}
        )

    @property
    def scorer(self) -> Scorer:
        """Name of the scorer, a tensor of scores, or a function that returns scores."""
        return self._scorer

    @scorer.setter
    def scorer(self, value: Scorer) -> None:
        self._scorer = value
        if self.scores_by_engine:
            self.spec = LevelSpec(self.method, replace(self.spec.params, scorer=value))

    @property
    def scores_by_engine(self) -> bool:
        """True if the engine computes the scores, because they depend only on the graph."""
        return isinstance(self._scorer, str) and self._scorer in _BY_ENGINE

    def reset_parameters(self) -> None:
        """Reset the weights of the linear score."""
        if self.lin is not None:
            self.lin.reset_parameters()

    @opaque
    def forward(  # type: ignore[override]
        self,
        *,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        x: Tensor | None = None,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        batch_size: int | None = None,
        level: int = 0,
        keep_link: bool = False,
        **kwargs: Any,
    ) -> SelectOutput:
        """Assign the nodes of every graph. ``so.mis`` holds the members of the set.

        Args:
            edge_index, edge_weight, batch, num_nodes, batch_size, level, keep_link: see
                :meth:`~tgp.select.LevelSelect.forward`.
            **kwargs: ignored.
            x: ``[N, F]`` features, for the scorers that use them.
        """
        if self.scores_by_engine:
            so = super().forward(
                x,
                edge_index,
                edge_weight,
                batch=batch,
                num_nodes=num_nodes,
                batch_size=batch_size,
                level=level,
                keep_link=keep_link,
            )
            if self.scorer == "degree" and edge_weight is not None and edge_weight.requires_grad:
                so._weight = self._degree(edge_index, edge_weight, so.num_nodes)
            return so
        check_connectivity(edge_index, "this selection")
        score = self._score(x, edge_index, edge_weight, batch)
        source = to_block(
            edge_index, edge_weight, batch, score.numel(), batch_size, dtype=score.dtype, node_values=score
        )
        assert source.node_values is not None
        assignment = assign_by_score(source.block, source.node_values, self.spec.params)
        so = to_select_output(assignment, source, self.s_inv_op, batch, batch_size, self.representative)
        so._weight = score
        if keep_link:
            so._link = (source, assignment)
        return so

    def _score(
        self, x: Tensor | None, edge_index: Any, edge_weight: Tensor | None, batch: Tensor | None
    ) -> Tensor:
        """Return the ``[N]`` scores that the engine cannot compute."""
        score: Tensor
        if isinstance(self.scorer, Tensor):
            score = self.scorer
        elif callable(self.scorer):
            score = self.scorer(x, edge_index, edge_weight, batch)
        elif x is None:
            raise _FeatureError(
                f"x must be provided when scorer is {self.scorer!r}: expected features, got None", field="x"
            )
        elif self.lin is not None:
            score = self.lin(x if x.dim() > 1 else x.unsqueeze(-1)).sigmoid()
        else:
            columns = x if x.dim() > 1 else x.unsqueeze(-1)
            score = columns[:, 0 if self.scorer == "first" else -1]
        if score.dim() == 2 and score.size(1) == 1:
            score = score.squeeze(1)
        if score.dim() != 1 or (x is not None and score.numel() != x.size(0)):
            wanted = "N" if x is None else str(x.size(0))
            raise InputError(f"scores must have shape [{wanted}], got {list(score.shape)}", field="scorer")
        return score if score.is_floating_point() else score.to(torch.get_default_dtype())

    def _degree(self, edge_index: Any, edge_weight: Tensor, num_nodes: int) -> Tensor:
        """Return the degrees that the engine computes, with gradients."""
        index, weight = connectivity_to_edge_index(edge_index, edge_weight)
        if self.force_undirected and weight is not None:
            index, weight = to_undirected(index, weight.view(-1), num_nodes, reduce="max")
        return degree_scorer(*add_reverse_edges(index, weight, num_nodes), num_nodes)


def add_reverse_edges(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    """Add the reverse of every edge that has none. Gradients reach the weights.

    Args:
        edge_index: ``[2, E]`` edge list.
        edge_weight: ``[E]`` or ``[E, 1]``, or ``None``.
        num_nodes: number of nodes.
    """
    block = to_block(edge_index, None, None, num_nodes).block
    if with_reverse_edges(block)[0] is block:
        return edge_index, edge_weight
    key = edge_index[0] * num_nodes + edge_index[1]
    reverse_key = edge_index[1] * num_nodes + edge_index[0]
    one_way = ~torch.isin(reverse_key, key)
    edges = torch.cat([edge_index, edge_index[:, one_way].flip(0)], dim=1)
    if edge_weight is None:
        return edges, None
    weight = edge_weight.view(-1)
    return edges, torch.cat([weight, weight[one_way]])
