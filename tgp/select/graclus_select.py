"""Greedy heavy-edge matching (Graclus)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.imports import check_torch_cluster_available as check_torch_cluster_available
from tgp.select.base_select import Select as Select
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import LevelSelect, MethodParameter
from tgp.utils.ops.connectivity import connectivity_to_edge_index as connectivity_to_edge_index
from tgp.utils.typing import SinvType

__all__ = ["GraclusSelect"]


class GraclusSelect(LevelSelect):
    """Selector that merges pairs of neighbours, from `"Weighted Graph Cuts without Eigenvectors: A Multilevel Approach"
    <https://ieeexplore.ieee.org/document/4302760>`_.

    Args:
        s_inv_op: ``transpose`` or ``inverse``.
        order: order in which the nodes choose a partner: ``random`` (seeded, per graph), ``degree`` or ``index``.
        seed: seed of the random order.
        two_hop: match nodes without a free neighbour with each other, if they have a common neighbour.
        match_on: ``weights`` or ``counts``, see :class:`~tgp.poolers.GraclusPooling`.
    """

    def __init__(
        self,
        s_inv_op: SinvType = "transpose",
        order: str = "random",
        seed: int = 0,
        *,
        two_hop: bool = False,
        match_on: str = "weights",
    ) -> None:
        params = {"order": order, "two_hop": two_hop, "match_on": match_on}
        super().__init__("graclus", params, seed=seed, s_inv_op=s_inv_op)

    order = MethodParameter("Order in which the nodes choose a partner.")
    two_hop = MethodParameter("True if nodes with a common neighbour can be matched.")
    match_on = MethodParameter(
        "What makes an edge heavy: its weight, or the number of edges that it stands for."
    )

    def forward(  # type: ignore[override]
        self,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        num_nodes: int | None = None,
        *,
        x: Tensor | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Match the nodes of every graph.

        Args:
            edge_index, edge_weight, num_nodes, x: see :meth:`~tgp.select.LevelSelect.forward`.
            **kwargs: further arguments of that method.
        """
        return super().forward(x, edge_index, edge_weight, num_nodes=num_nodes, **kwargs)
