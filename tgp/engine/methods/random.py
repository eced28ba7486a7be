"""Random partition with a given ratio or number of supernodes: a baseline for other methods.

Good for:
    A baseline at a chosen ratio: a method that is not better than a random partition learns nothing from the structure.

Avoid when:
    The hierarchy is used for anything but a comparison: members of a supernode are not neighbours, and coarse graphs
    are dense.

Complexity:
    ``O(N + E)`` time and memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tgp.engine.contraction import ConnectParams, contract
from tgp.engine.level_method import (
    ADDED,
    GraphSizes,
    LevelBound,
    LevelEstimate,
    LevelMethod,
    RandomKey,
    linear_bound,
)
from tgp.engine.parameter_checks import check_share, check_whole
from tgp.engine.target_size import count_kept
from tgp.kernels.array_types import LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.offsets import offsets

__all__ = ["METHOD", "RandomParams"]


@dataclass(frozen=True)
class RandomParams(ConnectParams):
    """Parameters of the partition. The coarse graph has those of :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        ratio: supernodes per node, in (0, 1]. A graph of ``n`` nodes gets ``ceil(ratio * n)`` supernodes.
        nodes: number of supernodes of each graph, instead of ``ratio``. A smaller graph gets one supernode per node.
    """

    ratio: float = 0.5
    nodes: int | None = field(default=None, metadata=ADDED)

    def __post_init__(self) -> None:
        check_share("ratio", self.ratio)
        check_whole("nodes", self.nodes, optional=True)
        super().__post_init__()


def assign(block: BlockCSR, params: RandomParams, key: RandomKey) -> Assignment:
    """Assign the nodes of each graph to random supernodes, none of which is empty.

    The nodes are shuffled by a hash. The first ones start a supernode each, and every other node joins one of these by
    its hash.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.

    Returns:
        A hard assignment.
    """
    from tgp.kernels import matching

    super_ptr = offsets(_count_parts(np.diff(block.node_ptr), params))
    cluster = matching.random_partition(block.node_ptr, super_ptr, key.seed, key.level)
    return Assignment("hard", super_ptr, cluster)


def _count_parts(nodes: LongArray, params: RandomParams) -> LongArray:
    """Return the number of supernodes of graphs with the given numbers of nodes."""
    if params.nodes is not None:
        return np.minimum(nodes, params.nodes)
    return count_kept(nodes, params.ratio)


def bound(sizes: GraphSizes, params: RandomParams) -> LevelBound:
    """Bound time and memory. The number of supernodes is exact."""
    return linear_bound(sizes, 80.0, 40.0, nodes=_count_parts(sizes.nodes, params))


METHOD = LevelMethod(
    "random",
    RandomParams,
    assign,
    contract,
    estimate=LevelEstimate(0.5, 0.9),
    bound=bound,
    contracts=True,
    joins_components=True,
)
