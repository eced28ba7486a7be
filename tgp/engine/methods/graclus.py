"""Graclus: greedy heavy-edge matching, pairs of nodes become supernodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tgp.engine.contraction import ContractOptions, ReduceOp, contract
from tgp.engine.protocol import LevelMethod, RandomKey
from tgp.errors import ParameterError
from tgp.ragged import Assignment, BlockCSR

__all__ = ["METHOD", "GraclusParams"]

_ORDERS = {"random": 0, "degree": 1, "index": 2}


@dataclass(frozen=True)
class GraclusParams:
    """Parameters of the matching and of the coarse graph.

    Args:
        order: in which order nodes look for a partner: ``random`` (seeded, per graph), ``degree``
            (few neighbours first, ties by index) or ``index``. The last two do not use the seed.
        connect_red_op: how parallel coarse edges merge.
        remove_self_loops: leave out edges inside a supernode.
        degree_norm: symmetric degree normalisation of the coarse graph.
        edge_weight_norm: divide coarse weights by the largest of their graph.
        count_edges: let the coarse weights of an unweighted graph count edges.
    """

    order: Literal["random", "degree", "index"] = "random"
    connect_red_op: ReduceOp = "sum"
    remove_self_loops: bool = True
    degree_norm: bool = False
    edge_weight_norm: bool = False
    count_edges: bool = False

    def __post_init__(self) -> None:
        if self.order not in _ORDERS:
            raise ParameterError(
                f"order must be one of {', '.join(_ORDERS)}, got {self.order!r}", field="order"
            )
        self.options()

    def options(self) -> ContractOptions:
        """The same, as the contraction takes it."""
        return ContractOptions(
            self.connect_red_op,
            self.remove_self_loops,
            self.degree_norm,
            self.edge_weight_norm,
            self.count_edges,
        )


def assign(block: BlockCSR, params: GraclusParams, draw: RandomKey) -> Assignment:
    """Match each node, in turn, with its heaviest free out-neighbour.

    From "Weighted Graph Cuts without Eigenvectors: A Multilevel Approach" (TPAMI 2007), the
    coarsening phase. Self loops do not count, negative weights never match, weight 0 may. An
    unweighted graph behaves as one whose weights are all 1. Among equally heavy neighbours a random order picks one by
    hash (each entry is as likely), the other orders pick the smallest index. In a directed graph only
    out-edges of the visited node count. Supernodes are numbered by smallest member.
    """
    from tgp.kernels import matching

    cluster, super_ptr = matching.match(
        *block.arrays(), block.node_ptr, _ORDERS[params.order], draw.seed, draw.level
    )
    return Assignment("hard", super_ptr, cluster)


def connect(block: BlockCSR, assignment: Assignment, params: GraclusParams) -> BlockCSR:
    """Contract the matched pairs."""
    return contract(block, assignment, params.options())


METHOD = LevelMethod("graclus", GraclusParams, assign, connect)
