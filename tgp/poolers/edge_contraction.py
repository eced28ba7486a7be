"""Edge-contraction pooling."""

from __future__ import annotations

from tgp.connect.base_conn import SparseConnect
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.edge_contraction_select import EdgeContractionSelect, EdgeScore
from tgp.src.base import SRCPooling
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType

__all__ = ["EdgeContractionPooling"]


class EdgeContractionPooling(SRCPooling):
    r"""Contract a greedy matching of scored edges, from `"Edge Contraction Pooling for Graph Neural Networks"
    <https://arxiv.org/abs/1905.10990>`_, with the exact parallel matching of `"Greedy Sequential Maximal
    Independent Set and Matching are Parallel on Average" <https://arxiv.org/abs/1202.3205>`_.

    At least half of the nodes remain: a supernode is a pair or a single node. See
    :class:`~tgp.select.EdgeContractionSelect` for the scores.

    Args:
        in_channels: size of the features.
        edge_score_method, dropout, add_to_edge_score: see :class:`~tgp.select.EdgeContractionSelect`.
        lift, s_inv_op, lift_red_op: see :class:`~tgp.lift.BaseLift` and :class:`~tgp.select.SelectOutput`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm: see
            :class:`~tgp.connect.SparseConnect`.
    """

    _needs_features = True

    def __init__(
        self,
        in_channels: int,
        edge_score_method: EdgeScore | None = None,
        dropout: float = 0.0,
        add_to_edge_score: float = 0.5,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        connect_red_op: ConnectionType = "sum",
        lift_red_op: ReduceType = "sum",
        remove_self_loops: bool = True,
        degree_norm: bool = False,
        edge_weight_norm: bool = False,
    ) -> None:
        super().__init__(
            selector=EdgeContractionSelect(
                in_channels, edge_score_method, dropout, add_to_edge_score, s_inv_op
            ),
            reducer=BaseReduce(),
            lifter=BaseLift(lift, lift_red_op),
            connector=SparseConnect(connect_red_op, remove_self_loops, edge_weight_norm, degree_norm),
        )
