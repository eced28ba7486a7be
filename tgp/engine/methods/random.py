"""Random partition at a chosen ratio: what any pooler has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tgp.engine.contraction import ContractOptions, ReduceOp, contract
from tgp.engine.protocol import LevelEstimate, LevelMethod, RandomKey
from tgp.errors import ParameterError
from tgp.ragged import Assignment, BlockCSR

__all__ = ["METHOD", "RandomParams"]


@dataclass(frozen=True)
class RandomParams:
    """Parameters of the partition and of the coarse graph.

    Args:
        ratio: supernodes per node, in (0, 1]; a graph of ``n`` nodes gets ``ceil(ratio * n)``.
        connect_red_op: how parallel coarse edges merge.
        remove_self_loops: leave out edges inside a supernode.
        degree_norm: symmetric degree normalisation of the coarse graph.
        edge_weight_norm: divide coarse weights by the largest of their graph.
        count_edges: let the coarse weights of an unweighted graph count edges.
    """

    ratio: float = 0.5
    connect_red_op: ReduceOp = "sum"
    remove_self_loops: bool = True
    degree_norm: bool = False
    edge_weight_norm: bool = False
    count_edges: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.ratio <= 1.0:
            raise ParameterError(f"ratio must be in (0, 1], got {self.ratio}", field="ratio")
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


def assign(block: BlockCSR, params: RandomParams, draw: RandomKey) -> Assignment:
    """Shuffle each graph's nodes; the first ones found a supernode each, the others join by hash."""
    from tgp.kernels import matching

    nodes = np.diff(block.node_ptr)
    # The product of two floats may exceed a whole number by a hair: 0.07 * 100 is 7.000000000000001.
    parts = np.ceil(params.ratio * nodes - 1e-9 * (nodes + 1)).astype(np.int64)
    parts = np.minimum(np.maximum(parts, nodes > 0), nodes)
    super_ptr = np.zeros(block.num_graphs + 1, np.int64)
    np.cumsum(parts, out=super_ptr[1:])
    cluster = matching.random_partition(block.node_ptr, super_ptr, draw.seed, draw.level)
    return Assignment("hard", super_ptr, cluster)


def connect(block: BlockCSR, assignment: Assignment, params: RandomParams) -> BlockCSR:
    """Contract the parts."""
    return contract(block, assignment, params.options())


METHOD = LevelMethod("random", RandomParams, assign, connect, expected=LevelEstimate(0.5, 0.9))
