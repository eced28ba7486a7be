r"""Farthest-point sampling: nodes that are spread evenly in space, each with the nodes around it.

The first center is the node that is farthest from the mean of all positions of its graph. Each further center is the node that is
farthest from all centers so far,

.. math::
    c_{m+1} = \mathrm{argmax}_i \, \mathrm{min}_{j = 1 .. m} \|\mathbf{p}_i - \mathbf{p}_{c_j}\| ,

until the share of the nodes that was asked for is reached, as in
`"PointNet++: Deep Hierarchical Feature Learning on Point Sets in a Metric Space" <https://arxiv.org/abs/1706.02413>`_ (NeurIPS 2017). Every other node belongs to the supernode of its nearest center. The edges
between two supernodes are contracted to one edge. Edges have no effect on the supernodes.

Good for:
    Point clouds and meshes: an exact number of supernodes that cover the space evenly, ``fps:ratio=0.25``. The centers are
    nodes of the graph (``so.centers``).

Avoid when:
    Supernodes should be connected: nodes that are close in space can be far from each other in the graph. Positions have outliers,
    which are chosen first. Graphs have no positions.

Complexity:
    About ``O(N log N + E)`` time for points in a few dimensions, ``O(K N)`` at worst for ``K`` supernodes, and ``O(N + E)`` memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tgp.engine.contraction import ConnectParams, contract
from tgp.engine.large_ranking import rank_by_first
from tgp.engine.level_method import LevelEstimate, LevelMethod, RandomKey
from tgp.engine.parameter_checks import check_share, check_whole
from tgp.engine.target_size import count_kept
from tgp.engine.threads import run_over_ranges
from tgp.kernels.array_types import FloatArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.node_attributes import unit_scales
from tgp.ragged.offsets import offsets

__all__ = ["METHOD", "FPSParams"]


@dataclass(frozen=True)
class FPSParams(ConnectParams):
    """Parameters of the sampling. The coarse graph has those of :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        ratio: supernodes / nodes, in (0, 1]. A graph with ``n`` nodes gets exactly ``ceil(ratio * n)`` supernodes.
        nodes: number of supernodes of each graph, instead of ``ratio``. A smaller graph stays as it is.
    """

    ratio: float = 0.25
    nodes: int | None = None

    def __post_init__(self) -> None:
        check_share("ratio", self.ratio)
        if self.nodes is not None:
            check_whole("nodes", self.nodes)
        super().__post_init__()


def assign(block: BlockCSR, params: FPSParams, key: RandomKey) -> Assignment:
    """Choose centers and assign every node to its nearest center.

    Among equal distances the smallest node becomes a center, and a node joins the center that was chosen first.

    Args:
        block: the graphs, with the attribute ``pos``.
        params: parameters of the method.
        key: not used.

    Returns:
        A hard assignment with centers as representatives. Supernodes are numbered by their smallest node.
    """
    from tgp.kernels import points as kernels

    sizes = np.diff(block.node_ptr)
    center_ptr = offsets(_count_centers(sizes, params))
    pos = block.node_values("pos").astype(np.float64)
    pos *= unit_scales(pos, block.node_ptr)[:, None]
    distance, owner = np.empty(block.num_nodes), np.empty(block.num_nodes, np.int32)
    center = np.empty(int(center_ptr[-1]), np.int64)

    def sample(first: int, last: int) -> None:
        kernels.sample_farthest(pos, block.node_ptr, center_ptr, first, last, distance, owner, center)

    run_over_ranges(sample, 8 * block.node_ptr)
    chosen = owner + np.repeat(center_ptr[:-1], sizes)
    # Numbers by smallest member: centers in the order of the first node that belongs to each of them.
    rank = rank_by_first(chosen, len(center))
    representative = np.empty(len(center), np.int32)
    representative[rank] = center
    return Assignment("hard", center_ptr, rank[chosen], representative=representative)


def _count_centers(nodes: LongArray, params: FPSParams) -> LongArray:
    """Return the number of supernodes of graphs with the given numbers of nodes."""
    if params.nodes is not None:
        return np.minimum(nodes, params.nodes)
    return count_kept(nodes, params.ratio)


def cost(nodes: LongArray, edges: LongArray, params: FPSParams) -> FloatArray:
    """Estimate the work: sampling takes much longer than contracting the edges."""
    return np.asarray(nodes * (20.0 + 5.0 * np.log2(nodes + 1.0)) + edges, np.float64)


METHOD = LevelMethod(
    "fps",
    FPSParams,
    assign,
    contract,
    cost=cost,
    estimate=LevelEstimate(0.25, 0.4, scratch=120.0),
    representative="centers",
    contracts=True,
    joins_components=True,
    revision=3,
    needs=("pos",),
)
