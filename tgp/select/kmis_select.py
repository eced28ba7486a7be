"""k-hop maximal independent sets as a selector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import to_undirected

from tgp.engine.methods.kmis import assign_by_order, assign_by_score, both_ways
from tgp.engine.schedule import LevelSpec
from tgp.errors import InputError, ParameterError
from tgp.imports import HAS_TORCH_SCATTER as HAS_TORCH_SCATTER
from tgp.select.base_select import Select as Select
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import LevelSelect, MethodParameter, NoTopologyError, to_select_output
from tgp.utils.blocks import to_block, to_host
from tgp.utils.ops.adjacency import weighted_degree as weighted_degree
from tgp.utils.ops.connectivity import connectivity_to_edge_index, infer_num_nodes
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
    """Unknown name; also an ``AssertionError``, which tgp 1.0.2 raised."""


class _FeatureError(InputError, AssertionError):
    """Missing features; also an ``AssertionError``, which tgp 1.0.2 raised."""


def degree_scorer(
    edge_index: Any, edge_weight: Tensor | None = None, num_nodes: int | None = None, dim: int = 1
) -> Tensor:
    """Return the weighted degree of each node, ``[N]``; gradients reach the weights.

    Args:
        edge_index: edge list, sparse matrix or ``SparseTensor``.
        edge_weight: ``[E]``; ones if absent.
        num_nodes: ``N``; default from the connectivity.
        dim: end of an edge that counts: 1 the target (in-degree), 0 the source.
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
    """Return a set of nodes more than ``k`` hops apart, with one within ``k`` hops of every node: ``[N]`` bool.

    Args:
        edge_index: edge list, sparse matrix or ``SparseTensor``; edges count both ways.
        order_k: ``k``.
        perm: all nodes, those to take first in front; default ``0, 1, ...``.
        num_nodes: ``N``; default from the connectivity.
    """
    return maximal_independent_set_cluster(edge_index, order_k, perm, num_nodes)[0]


def maximal_independent_set_cluster(
    edge_index: Any, order_k: int = 1, perm: Tensor | None = None, num_nodes: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return :func:`maximal_independent_set` and the cluster of each node.

    Returns:
        ``mask`` ``[N]`` bool, and ``cluster`` ``[N]``: a node joins the member within ``k`` hops that comes
        first in ``perm``. Clusters are numbered by their members' ids.
    """
    source = to_block(edge_index, None, None, num_nodes)
    order = None if perm is None else to_host(perm)[0].numpy()
    found = assign_by_order(source.block, order, order_k)
    mask = torch.zeros(source.block.num_nodes, dtype=torch.bool, device=source.device)
    mask[source.tensor(source.node_ids(found.representative))] = True
    return mask, source.tensor(found.cluster.astype("int64"))


class KMISSelect(LevelSelect):
    r"""Clusters around a k-hop maximal independent set, from `"Generalizing Downsampling from Regular Data to
    Graphs" <https://arxiv.org/abs/2208.03523>`_.

    Nodes are taken by descending score, unless a node taken before lies within :math:`k` hops; every node
    joins the best-ranked member within :math:`k` hops. Ties fall to the smaller index. The scores are the
    values of :math:`\mathbf{S}`. Edges count both ways.

    Args:
        in_channels: number of features, for ``linear``; of a list the first counts.
        order_k: :math:`k`.
        scorer: ``linear`` (learned, :math:`\sigma(\mathbf{x}^\top \mathbf{p} + b)`), ``first`` or ``last``
            (that feature), ``degree`` (weighted in-degree), ``random`` (seeded, per graph), ``constant``,
            ``canonical`` (minus the index inside the graph), ``[N]`` scores, or a function
            ``(x, edge_index, edge_weight, batch) -> [N]``.
        score_heuristic: divide scores before ranking by the size of the k-hop neighbourhood (``greedy``) or
            by the sum of its scores (``w-greedy``); ``None`` does not.
        force_undirected: let the larger weight of two directions count for both.
        s_inv_op: ``transpose`` or ``inverse``.
        seed: seed of random scores.
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
        params = {
            "order_k": order_k,
            "score_heuristic": score_heuristic,
            "force_undirected": force_undirected,
        }
        if named and scorer in _BY_ENGINE:
            params["scorer"] = scorer
        super().__init__("kmis", params, seed=seed, s_inv_op=s_inv_op)
        self.in_channels = in_channels
        self._scorer = scorer
        self.lin = None
        if named and scorer == "linear":
            if in_channels is None:
                raise ParameterError(
                    "scorer='linear' needs in_channels, the number of node features; "
                    "a scorer such as 'degree' needs none",
                    field="in_channels",
                )
            size = in_channels if isinstance(in_channels, int) else int(in_channels[0])
            self.lin = Linear(size, 1, weight_initializer="uniform")

    order_k = MethodParameter("Number of hops that members are more than apart.")
    score_heuristic = MethodParameter("Rule by which scores are divided before ranking.")
    force_undirected = MethodParameter("True if the larger weight of two directions counts for both.")

    def _adopted_state(self, state: dict[str, Any]) -> dict[str, Any]:
        layer = state["_modules"].get("lin")
        return super()._adopted_state(state if layer is None else {**state, "in_channels": layer.in_channels})

    @property
    def scorer(self) -> Scorer:
        """Name of the scorer, scores, or a function that returns scores."""
        return self._scorer

    @scorer.setter
    def scorer(self, value: Scorer) -> None:
        self._scorer = value
        if self.scores_by_engine:
            self.spec = LevelSpec(self.method, replace(self.spec.params, scorer=value))

    @property
    def scores_by_engine(self) -> bool:
        """True if the engine computes the scores, because they follow from the graph alone."""
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
        """Assign the nodes of every graph; ``so.mis`` holds the members.

        Args:
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            x: ``[N, F]`` features, for the scorers that read them.
            batch: ``[N]`` graph ids in any order.
            num_nodes: ``N``; default from ``x``, ``batch`` or the connectivity.
            batch_size: number of graphs.
            level: place of this step in a schedule; another level draws other random scores.
            keep_link: store the arrays of the engine in the result, for the connector.
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
        if edge_index is None:
            raise NoTopologyError(
                "edge_index cannot be None: this selection reads the topology", field="edge_index"
            )
        score = self._score(x, edge_index, edge_weight, batch)
        source = to_block(
            edge_index, edge_weight, batch, score.numel(), batch_size, dtype=score.dtype, node_values=score
        )
        assignment = assign_by_score(source.block, source.node_values, self.spec.params)
        so = to_select_output(assignment, source, self.s_inv_op, batch, batch_size, self.representative)
        so._weight = score
        if keep_link:
            so._link = (source, assignment)
        return so

    def _score(
        self, x: Tensor | None, edge_index: Any, edge_weight: Tensor | None, batch: Tensor | None
    ) -> Tensor:
        if isinstance(self.scorer, Tensor):
            score = self.scorer
        elif callable(self.scorer):
            score = self.scorer(x, edge_index, edge_weight, batch)
        elif x is None:
            raise _FeatureError(f"x must be provided when scorer is {self.scorer!r}: x is None", field="x")
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
        if self.force_undirected:
            index, weight = to_undirected(index, weight.view(-1), num_nodes, reduce="max")
        return degree_scorer(*add_mirrors(index, weight, num_nodes), num_nodes)


def add_mirrors(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    """Return an edge list with the mirror images of those edges that have none; gradients pass."""
    block = to_block(edge_index, None, None, num_nodes).block
    if both_ways(block)[0] is block:
        return edge_index, edge_weight
    there = edge_index[0] * num_nodes + edge_index[1]
    back = edge_index[1] * num_nodes + edge_index[0]
    alone = ~torch.isin(back, there)
    edges = torch.cat([edge_index, edge_index[:, alone].flip(0)], dim=1)
    if edge_weight is None:
        return edges, None
    weight = edge_weight.view(-1)
    return edges, torch.cat([weight, weight[alone]])
