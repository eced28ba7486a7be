"""Soft clusters by non-negative matrix factorisation (NMF)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.select.base_select import Select as Select
from tgp.select.base_select import SelectOutput
from tgp.select.level_select import FixedKSelect
from tgp.utils.ops.batching import is_multi_graph_batch as is_multi_graph_batch
from tgp.utils.ops.connectivity import connectivity_to_edge_index as connectivity_to_edge_index
from tgp.utils.typing import SinvType

__all__ = ["NMFSelect"]


class NMFSelect(FixedKSelect):
    r"""Selector of soft clusters from a non-negative factorisation of the adjacency, from `"A Non-Negative Factorization
    approach to node pooling in Graph Convolutional Neural Networks" <https://arxiv.org/abs/1909.03287>`_.

    With non-negative factors :math:`\max(\mathbf{A}, 0) \approx \mathbf{W} \mathbf{H}`, the assignment is

    .. math::
        \mathbf{S} = \mathrm{softmax}(\mathbf{H}^\top), \qquad \text{rows of } \mathbf{H} \text{ scaled to mean square } 1

    Because of the scaling, :math:`\mathbf{S}` depends neither on the arbitrary scale between the factors nor on the
    size of the graph. A graph with at most ``k`` nodes keeps all of them. The result depends only on the graph and the
    seed.

    Args:
        k: number of supernodes per graph.
        s_inv_op: ``transpose`` or ``inverse``.
        tol: stop if the projected gradient of a sweep is below this share of the first one.
        max_sweeps: largest number of sweeps over both factors.
        seed: seed of the initial factors.
        gain: stop on a graph of more than 2,000 nodes when the second half of the sweeps explained less than this share
            more of the adjacency matrix. 0 uses only ``tol`` and ``max_sweeps``.
    """

    def __init__(
        self,
        k: int,
        s_inv_op: SinvType = "transpose",
        *,
        tol: float = 1e-3,
        max_sweeps: int = 1000,
        seed: int = 0,
        gain: float = 0.01,
    ) -> None:
        params = {"k": k, "tol": tol, "max_sweeps": max_sweeps, "gain": gain}
        super().__init__("nmf", params, seed, s_inv_op)

    def forward(  # type: ignore[override]
        self,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        fixed_k: bool = False,
        x: Tensor | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Factorise the adjacency of every graph.

        Args:
            edge_index, edge_weight, batch, num_nodes, x: see :meth:`~tgp.select.LevelSelect.forward`.
            **kwargs: further arguments of that method.
            fixed_k: always return ``k`` columns.
        """
        return super().forward(
            x, edge_index, edge_weight, batch=batch, num_nodes=num_nodes, fixed_k=fixed_k, **kwargs
        )
