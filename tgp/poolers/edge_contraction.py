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
    r"""Edge contraction pooling from `"Edge Contraction Pooling for Graph Neural Networks"
    <https://arxiv.org/abs/1905.10990>`_.

    Edges are scored by :class:`~tgp.select.EdgeContractionSelect`, and the edges of a greedy matching are contracted:

    .. math::
        s_{ij} = \sigma(\mathbf{w}^\top[\mathbf{x}_i \| \mathbf{x}_j] + b) + 0.5, \quad
        \mathbf{x}'_{ij} = s_{ij}(\mathbf{x}_i + \mathbf{x}_j)

    with :math:`\sigma` the ``edge_score_method``. A supernode is a pair or a single node, so at least half of the nodes remain. The matching is computed in parallel
    and is equal to the sequential one, as in `"Greedy Sequential Maximal Independent Set and Matching are Parallel on
    Average" <https://arxiv.org/abs/1202.3205>`_.

    Good for:
        Learned matchings: pairs of neighbours are merged by a score of their features, so a connected graph stays
        connected.

    Avoid when:
        You need a chosen ratio: at least half of the nodes remain, and more around hubs. Graphs have no features.

    Complexity:
        ``O(E F + E log E)`` time and ``O(E + N F)`` memory.

    Args:
        in_channels: feature size.
        edge_score_method, dropout, add_to_edge_score: see :class:`~tgp.select.EdgeContractionSelect`.
        lift, s_inv_op, lift_red_op: see :class:`~tgp.src.level.LevelPooling`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm: see
            :class:`~tgp.engine.contraction.ConnectParams`.
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
