"""Graclus pooling."""

from __future__ import annotations

from tgp.select.graclus_select import GraclusSelect
from tgp.src.level import LevelPooling
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType

__all__ = ["GraclusPooling"]


class GraclusPooling(LevelPooling):
    r"""Merge pairs of neighbours, from `"Weighted Graph Cuts without Eigenvectors: A Multilevel Approach"
    <https://ieeexplore.ieee.org/document/4302760>`_ (the matching of its coarsening phase).

    Each node in turn joins its heaviest free neighbour, so that clusters have one or two nodes and
    :math:`N / 2 \le K \le N`; features add up. The matching depends on the graph and the seed alone.

    Args:
        lift, s_inv_op, lift_red_op: see :class:`~tgp.lift.BaseLift` and :class:`~tgp.select.SelectOutput`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm, count_edges: see
            :class:`~tgp.connect.SparseConnect`.
        cached: keep the result as long as the input graph stays the same.
        order: in which order nodes look for a partner: ``random`` (seeded, per graph), ``degree`` or ``index``.
        seed: seed of the random order.
    """

    def __init__(
        self,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        connect_red_op: ConnectionType = "sum",
        lift_red_op: ReduceType = "sum",
        cached: bool = False,
        remove_self_loops: bool = True,
        degree_norm: bool = False,
        edge_weight_norm: bool = False,
        *,
        count_edges: bool = False,
        order: str = "random",
        seed: int = 0,
    ) -> None:
        params = {
            "order": order,
            "connect_red_op": connect_red_op,
            "remove_self_loops": remove_self_loops,
            "degree_norm": degree_norm,
            "edge_weight_norm": edge_weight_norm,
            "count_edges": count_edges,
        }
        super().__init__(
            "graclus",
            params,
            selector=GraclusSelect(s_inv_op, order, seed),
            lift=lift,
            lift_red_op=lift_red_op,
            cached=cached,
        )
