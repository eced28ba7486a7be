"""k-MIS pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tgp.connect.edge_attributes import contract_edge_attributes
from tgp.engine.contraction import ConnectParams
from tgp.errors import InputError, ParameterError
from tgp.reduce.base_reduce import BaseReduce, Reduce
from tgp.select.base_select import SelectOutput
from tgp.select.kmis_select import KMISSelect, Scorer, add_reverse_edges
from tgp.src.execution import Pooled, SparseExecution
from tgp.src.inputs import PoolInputs
from tgp.src.level import LevelPooling
from tgp.src.output import PoolingOutput
from tgp.utils.engine_link import EngineLink
from tgp.utils.ops.connectivity import Container, connectivity_to_edge_index
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType

__all__ = ["KMISPooling"]


class KMISPooling(LevelPooling):
    r"""k-MIS pooling from `"Generalizing Downsampling from Regular Data to Graphs" <https://arxiv.org/abs/2208.03523>`_.

    Clusters are built around a k-hop maximal independent set of nodes with high scores; see
    :class:`~tgp.select.KMISSelect`. With scores :math:`s_i` the features of cluster :math:`C` are

    .. math::
        \mathbf{x}'_C = \sum_{i \in C} s_i \mathbf{x}_i .

    The edges of the pooled graph do not depend on the scores. Edges are used in both directions, in the selection and
    in the pooled graph. Edge attributes are pooled in the direction of the input edges: a pooled edge that stands for
    reverse edges only has the attributes 0.

    The scorers ``degree``, ``random``, ``constant`` and ``canonical`` depend only on the graph. With them the levels can
    be computed before training. In a schedule the default scorer is ``degree``.

    Good for:
        Supernodes that are spread evenly over the graph, each within ``order_k`` hops of its members: downsampling of
        grids, meshes and molecules. A larger ``order_k`` shrinks more per level.

    Avoid when:
        You need an exact number of supernodes. The graph has hubs and ``max_size`` is not set: a hub covers most of the
        graph, and two levels can leave one cluster. ``max_size=8`` keeps at least an eighth of the nodes.

    Complexity:
        ``O(N log N + k E)`` time for most graphs and ``O(N + E)`` memory.

    Args:
        in_channels, order_k, scorer, score_heuristic, force_undirected, seed, max_size: see :class:`~tgp.select.KMISSelect`.
        lift, s_inv_op, lift_red_op: see :class:`~tgp.src.level.LevelPooling`.
        reduce_red_op: ``None`` to use only the features of the member of each cluster, times its score. Any other value
            selects the weighted sum.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm, count_edges: see
            :class:`~tgp.engine.contraction.ConnectParams`.
        cached: reuse the result as long as the input graph does not change. Not possible if the scores depend on
            features.

    Raises:
        ParameterError: if ``cached`` is set and the scores depend on features.
    """

    def __init__(
        self,
        in_channels: int | Sequence[int] | None = None,
        order_k: int = 1,
        scorer: Scorer = "linear",
        score_heuristic: str | None = "greedy",
        force_undirected: bool = False,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        reduce_red_op: ReduceType | None = "sum",
        connect_red_op: ConnectionType = "sum",
        lift_red_op: ReduceType = "sum",
        remove_self_loops: bool = True,
        degree_norm: bool = False,
        edge_weight_norm: bool = False,
        cached: bool = False,
        *,
        count_edges: bool = False,
        seed: int = 0,
        max_size: int | None = None,
    ) -> None:
        selector = KMISSelect(
            in_channels,
            order_k,
            scorer,
            score_heuristic,
            force_undirected,
            s_inv_op,
            seed=seed,
            max_size=max_size,
        )
        if cached and not selector.scores_by_engine and not isinstance(scorer, Tensor):
            raise ParameterError(
                "cached=True needs scores that depend only on the graph: expected degree, random, constant or "
                f"canonical, got {scorer!r}",
                field="cached",
            )
        params = {
            "order_k": order_k,
            "scorer": selector.spec.params.scorer,
            "score_heuristic": score_heuristic,
            "force_undirected": force_undirected,
            "max_size": max_size,
            **base_kwargs(ConnectParams, locals()),
        }
        super().__init__(
            "kmis",
            params,
            selector=selector,
            reducer=_MemberReduce() if reduce_red_op is None else BaseReduce(),
            lift=lift,
            lift_red_op=lift_red_op,
            cached=cached,
        )
        self.reduce_red_op = reduce_red_op
        self.precoarsenable = not self.is_trainable

    def _selects_by_engine(self) -> bool:
        """Return True if the engine computes the scores and the assignment."""
        return super()._selects_by_engine() and getattr(self.selector, "scores_by_engine", False)

    def _execution(self, inputs: PoolInputs) -> KMISExecution:
        return KMISExecution(self, inputs)

    def _undirected(
        self, so: SelectOutput, edge_index: Any, edge_weight: Tensor | None
    ) -> tuple[Any, Tensor | None]:
        """Return the edges in both directions for a connector. The engine adds reverse edges itself."""
        link = so._link
        connector = self.connector
        by_engine = isinstance(link, EngineLink) and connector is not None
        if by_engine and link.fits(connector, edge_index, edge_weight):
            return edge_index, edge_weight
        index, weight = connectivity_to_edge_index(edge_index, edge_weight)
        edges, values = add_reverse_edges(index, weight, so.num_nodes)
        if edges is index:
            return edge_index, edge_weight
        return Container.of(edge_index).pack(edges, values, so.num_nodes)

    def _precoarsening_from_select_output(
        self, so: SelectOutput, edge_index: Any, edge_weight: Tensor | None = None, **kwargs: Any
    ) -> PoolingOutput:
        edge_index, edge_weight = self._undirected(so, edge_index, edge_weight)
        return super()._precoarsening_from_select_output(so, edge_index, edge_weight, **kwargs)

    def extra_repr_args(self) -> dict[str, Any]:
        """Return the reduction of features."""
        return {**super().extra_repr_args(), "reduce_red_op": self.reduce_red_op}


class KMISExecution(SparseExecution):
    """Execution of the stages of k-MIS pooling, which uses edges in both directions."""

    pooler: KMISPooling

    def connect(self, so: SelectOutput, batch_pool: Tensor | None) -> Pooled:
        """Return the pooled connectivity of the undirected graph."""
        inputs = self.inputs
        adj, weight = self.pooler._undirected(so, inputs.adj, inputs.edge_weight)
        self.inputs = inputs.replace(adj=adj, edge_weight=weight, edge_attr=None)
        pooled = super().connect(so, batch_pool)
        if inputs.edge_attr is not None:  # reverse edges have no attributes
            how = inputs.edge_attr_reduce or "mean"
            self.edge_attr = contract_edge_attributes(
                inputs.adj, so, pooled[0], inputs.edge_attr, how, allow_empty=True
            )
        return pooled


class _MemberReduce(Reduce):
    """Reducer that returns the features of the member of each cluster, times its score."""

    def forward(
        self, x: Tensor, so: SelectOutput, *, batch: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return ``x[mis] * s[mis]`` and ``batch[mis]``."""
        mis = getattr(so, "mis", None)
        if mis is None:
            raise InputError(
                "reduce_red_op=None needs the members of an independent set: expected an assignment with the attribute "
                "'mis', got one without",
                field="so",
            )
        batch = so.batch if batch is None else batch
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        weight = so.weight
        assert weight is not None  # the assignment is sparse
        return x[mis] * weight[mis].unsqueeze(-1), None if batch is None else batch[mis]
