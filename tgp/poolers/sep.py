"""SEP pooling."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.engine.contraction import ConnectParams
from tgp.engine.methods.sep import Cut
from tgp.select.sep_select import SEPSelect
from tgp.src.level import LevelPooling
from tgp.src.output import PoolingOutput
from tgp.utils.checks import check_levels
from tgp.utils.ops.connectivity import check_connectivity
from tgp.utils.signature import base_kwargs
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType
from tgp.utils.user_code import is_overridden

__all__ = ["SEPPooling"]


class SEPPooling(LevelPooling):
    r"""SEP from `"Structural Entropy Guided Graph Hierarchical Pooling"
    <https://proceedings.mlr.press/v162/wu22b.html>`_.

    The clusters are the inner nodes of a coding tree with small structural entropy. A tree :math:`T` with the nodes of
    the graph as leaves has the entropy

    .. math::
        H_T = -\sum_{\alpha \neq \text{root}} \frac{g_\alpha}{V} \log_2 \frac{V_\alpha}{V_{\alpha^-}},

    where :math:`g_\alpha` is the weight of the edges between the leaves under :math:`\alpha` and other leaves,
    :math:`V_\alpha` the volume of :math:`\alpha`, and :math:`V_{\alpha^-}` the volume of its parent. One level comes from
    a greedy tree of height 2. ``multi_level_precoarsening`` builds one tree for all of its levels. A connected component
    with at least two nodes has at least two clusters, so a component of two nodes is never merged. The features of a
    cluster are summed.

    Good for:
        Communities: the method finds the number of clusters itself, without parameters, and one tree gives all levels
        of a run such as ``sep*3``.

    Avoid when:
        You need an exact number of supernodes, or a given ratio. Components have two nodes: these are never merged. On
        large graphs the rule of the paper makes few, large clusters; ``cut="optimal"`` makes more and smaller ones.

    Complexity:
        Near-linear, also on stars and scale-free graphs: ``O((N + E) log^2 N)`` in practice. ``O(N + E)`` memory.

    Args:
        lift, s_inv_op, lift_red_op: see :class:`~tgp.src.level.LevelPooling`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm, count_edges: see
            :class:`~tgp.engine.contraction.ConnectParams`.
        cached: reuse the result as long as the input graph does not change.
        cut: rule that makes clusters from the merge tree, see :class:`~tgp.engine.methods.sep.SEPParams`: ``greedy`` as in
            the paper, or ``optimal`` for the smallest structural entropy.
    """

    def __init__(
        self,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        connect_red_op: ConnectionType = "sum",
        lift_red_op: ReduceType = "sum",
        cached: bool = False,
        remove_self_loops: bool = True,
        degree_norm: bool = True,
        edge_weight_norm: bool = False,
        *,
        count_edges: bool = False,
        cut: Cut = "greedy",
    ) -> None:
        super().__init__(
            "sep",
            {**base_kwargs(ConnectParams, locals()), "cut": cut},
            selector=SEPSelect(s_inv_op, cut=cut),
            lift=lift,
            lift_red_op=lift_red_op,
            cached=cached,
        )

    def multi_level_precoarsening(
        self,
        levels: int,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        level: int = 0,
        **kwargs: Any,
    ) -> list[PoolingOutput]:
        """Return several levels of one coding tree.

        Args:
            levels: number of levels.
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            batch: ``[N]`` graph ids, in any order.
            num_nodes: ``N``; by default it is read from ``batch`` or the connectivity.
            level: number of the first level.
            **kwargs: further arguments of the selector.
        """
        check_levels(levels)
        check_connectivity(edge_index, "precoarsening")
        selector = self.selector
        overridden = any(is_overridden(self, name) for name in ("select", "precoarsening"))
        if overridden or self._runs_by_engine(edge_weight) or not isinstance(selector, SEPSelect):
            kwargs.update(batch=batch, num_nodes=num_nodes, level=level)
            return super().multi_level_precoarsening(levels, edge_index, edge_weight, **kwargs)
        # The connector was replaced. The assignments still come from one tree.
        assignments = selector.multi_level_select(
            edge_index, edge_weight, batch=batch, num_nodes=num_nodes, levels=levels, **kwargs
        )
        outputs = []
        for so in assignments:
            outputs.append(self._precoarsening_from_select_output(so, edge_index, edge_weight, batch=batch))
            edge_index, edge_weight, batch = (
                outputs[-1].edge_index,
                outputs[-1].edge_weight,
                outputs[-1].batch,
            )
        return outputs
