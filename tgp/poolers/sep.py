"""SEP pooling."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.select.sep_select import SEPSelect
from tgp.src.level import LevelPooling
from tgp.src.output import PoolingOutput
from tgp.src.precoarsening import check_connectivity, check_levels
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType
from tgp.utils.user_code import is_overridden

__all__ = ["SEPPooling"]


class SEPPooling(LevelPooling):
    r"""Clusters of least structural entropy, from `"Structural Entropy Guided Graph Hierarchical Pooling"
    <https://proceedings.mlr.press/v162/wu22b.html>`_.

    A coding tree :math:`T` with the nodes as leaves has the structural entropy

    .. math::
        H_T = -\sum_{\alpha \neq \text{root}} \frac{g_\alpha}{V} \log_2 \frac{V_\alpha}{V_{\alpha^-}},

    with the weight :math:`g_\alpha` of edges that leave the leaves under :math:`\alpha`, and volumes
    :math:`V_\alpha` of :math:`\alpha` and :math:`V_{\alpha^-}` of its parent. A greedy tree of height 2 gives one
    level; ``multi_level_precoarsening`` makes one tree for all its levels. Every connected component has
    at least two clusters if it has two nodes, so two connected nodes are never pooled. Features add up.

    Args:
        lift, s_inv_op, lift_red_op: see :class:`~tgp.lift.BaseLift` and :class:`~tgp.select.SelectOutput`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm, count_edges: see
            :class:`~tgp.connect.SparseConnect`.
        cached: keep the result as long as the input graph stays the same.
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
    ) -> None:
        params = {
            "connect_red_op": connect_red_op,
            "remove_self_loops": remove_self_loops,
            "degree_norm": degree_norm,
            "edge_weight_norm": edge_weight_norm,
            "count_edges": count_edges,
        }
        super().__init__(
            "sep",
            params,
            selector=SEPSelect(s_inv_op),
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
        """Return several levels of one tree, also where the connector was replaced."""
        check_levels(levels)
        check_connectivity(edge_index)
        whole = self._runs_by_engine(edge_weight) or not isinstance(self.selector, SEPSelect)
        if whole or any(is_overridden(self, name) for name in ("select", "precoarsening")):
            kwargs.update(batch=batch, num_nodes=num_nodes, level=level)
            return super().multi_level_precoarsening(levels, edge_index, edge_weight, **kwargs)
        chosen = self.selector.multi_level_select(
            edge_index, edge_weight, batch=batch, num_nodes=num_nodes, levels=levels, **kwargs
        )
        outputs = []
        for so in chosen:
            outputs.append(self._precoarsening_from_select_output(so, edge_index, edge_weight, batch=batch))
            edge_index, edge_weight, batch = (
                outputs[-1].edge_index,
                outputs[-1].edge_weight,
                outputs[-1].batch,
            )
        return outputs
