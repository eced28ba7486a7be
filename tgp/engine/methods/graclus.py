r"""Graclus: greedy matching of heavy edges.

From `"Weighted Graph Cuts without Eigenvectors: A Multilevel Approach" <https://ieeexplore.ieee.org/document/4302760>`_
(TPAMI 2007), the coarsening phase. Nodes are visited in some order. A free node :math:`i` is merged with the free
neighbour :math:`j` of the largest weight,

.. math::
    j = \mathrm{argmax}_{k \,\text{free}} \, \mathbf{A}_{ik} ,

and stays alone if it has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tgp.engine.contraction import ConnectParams, contract
from tgp.engine.level_method import GraphSizes, LevelBound, LevelMethod, RandomKey, linear_bound
from tgp.errors import ParameterError
from tgp.ragged import Assignment, BlockCSR

__all__ = ["METHOD", "GraclusParams"]

Order = Literal["random", "degree", "index"]
_ORDERS = {name: code for code, name in enumerate(get_args(Order))}


@dataclass(frozen=True)
class GraclusParams(ConnectParams):
    """Parameters of the matching. The coarse graph has those of :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        order: order in which nodes are visited: ``random`` (by a hash of the seed), ``degree`` (fewest neighbours
            first, ties by index) or ``index``. ``degree`` and ``index`` do not depend on the seed.
    """

    order: Order = "random"

    def __post_init__(self) -> None:
        if self.order not in _ORDERS:
            raise ParameterError(
                f"order is unknown: expected one of {', '.join(_ORDERS)}, got {self.order!r}", field="order"
            )
        super().__post_init__()


def assign(block: BlockCSR, params: GraclusParams, key: RandomKey) -> Assignment:
    """Merge each node with its heaviest free out-neighbour.

    Self loops are ignored. Edges of negative weight never match, edges of weight 0 can. An unweighted graph is treated
    as one whose weights are all 1. Among equally heavy neighbours, ``order="random"`` chooses one by a hash (each entry
    is equally likely) and the other orders choose the smallest index. In a directed graph only the out-edges of the
    visited node count.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.
    """
    from tgp.kernels import matching

    cluster, super_ptr = matching.match(
        *block.arrays(), block.node_ptr, _ORDERS[params.order], key.seed, key.level
    )
    return Assignment("hard", super_ptr, cluster)


def connect(block: BlockCSR, assignment: Assignment, params: GraclusParams) -> BlockCSR:
    """Return the graphs with matched pairs contracted."""
    return contract(block, assignment, params.contract_options())


def bound(sizes: GraphSizes, params: GraclusParams) -> LevelBound:
    """Bound time and memory. A star keeps all nodes but one, so the number of nodes has no better bound."""
    return linear_bound(sizes, 100.0, 40.0)


METHOD = LevelMethod("graclus", GraclusParams, assign, connect, bound=bound)
