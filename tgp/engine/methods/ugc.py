r"""Hashing of features: nodes in the order of one random projection, neighbours in the list are merged.

From `"AH-UGC: Adaptive and Heterogeneous-Universal Graph Coarsening" <https://arxiv.org/abs/2505.15842>`_ (2025), without labels. The features of a node and the mean of
its neighbours are projected on a random direction :math:`\mathbf{r}`,

.. math::
    z_i = (1 - \alpha) \, \mathbf{r}^\top \mathbf{x}_i + \alpha \, \mathbf{r}^\top \frac{\sum_j \mathbf{A}_{ij} \mathbf{x}_j}{\sum_j \mathbf{A}_{ij}} ,

where :math:`\alpha` is the heterophily that is assumed. The nodes of each graph are sorted by :math:`z_i`. Two neighbours in the list
cost the sum of squares that merging them adds,

.. math::
    c_{ab} = \frac{n_a n_b}{n_a + n_b} (z_a - z_b)^2 ,

for supernodes of :math:`n_a` and :math:`n_b` nodes with the means :math:`z_a` and :math:`z_b`. Pairs are taken from the lowest cost, each if both of its
sides are free. To reach a ratio, this is repeated on the list of supernodes. Edges are contracted at the end.

Good for:
    Graphs whose neighbours differ (heterophily), and types of nodes that have no edges among themselves: nodes need not be connected
    to be merged. Any ratio or number of supernodes, exactly: ``ugc:ratio=0.3``. Nested levels (``ratios=0.5/0.3/0.1``) sort once.

Avoid when:
    Supernodes should be connected. Graphs have no features, or features that say little about the task.

Complexity:
    ``O(N D + E + N log N)`` time and ``O(N + E)`` memory in addition to the ``D`` features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tgp.engine.contraction import contract
from tgp.engine.large_ranking import rank_by_first
from tgp.engine.level_method import LevelEstimate, LevelMethod, RandomKey
from tgp.engine.pair_matching import match_once, match_to_sizes
from tgp.engine.parameter_checks import check_share
from tgp.engine.target_size import SizeParams, has_ratios
from tgp.engine.threads import run_over_ranges
from tgp.engine.undirected import make_undirected
from tgp.kernels.array_types import LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.node_attributes import unit_scales

__all__ = ["METHOD", "UGCParams"]

_ROWS = 1024
"""Number of nodes whose features are converted to float64 at a time."""

_TYPICAL_WIDTH = 64
"""Number of features for which time is estimated. Methods do not know the features when a run is planned."""


@dataclass(frozen=True)
class UGCParams(SizeParams):
    """Parameters of the projection. The coarse graph has those of :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        heterophily: share of the neighbours in the projection, in [0, 1]: 0 uses the features of the node only, 1 the mean of its
            neighbours only. Choose a large number if neighbours have different labels.
        ratio: supernodes / nodes, in (0, 1]. A graph with ``n`` nodes gets exactly ``ceil(ratio * n)`` supernodes.
        nodes: number of supernodes of each graph. A smaller graph stays as it is.
        keep_small: graphs with at most this number of nodes stay as they are.
    """

    heterophily: float = 0.5

    def __post_init__(self) -> None:
        check_share("heterophily", self.heterophily, zero=True)
        super().__post_init__()


class _ListCosts:
    """Scores of neighbours in a list: minus the sum of squares that merging them adds.

    Args:
        value: ``[N]`` values in the order of the list.
        members: ``[N]`` number of input nodes of each node. Empty clusters of an earlier level count as one node.
    """

    def __init__(self, value: FloatArray, members: FloatArray) -> None:
        self.mean, self.members = value, np.where(members > 0.0, members, 1.0)

    def __call__(self, lists: BlockCSR, cluster: IndexArray | None) -> FloatArray:
        """Return the scores.

        Args:
            lists: paths of consecutive nodes.
            cluster: node of ``lists`` to which each node of the round before belongs; ``None`` in the first round.
        """
        from tgp.kernels import node_vectors as kernels

        if cluster is not None:
            size = lists.num_nodes
            total = np.bincount(cluster, self.members * self.mean, size).astype(np.float64)
            self.members = np.bincount(cluster, self.members, size).astype(np.float64)
            self.mean = total / self.members
        score = np.empty(lists.num_edges)

        def write(first: int, last: int) -> None:
            kernels.list_costs(lists.indptr, lists.indices, self.mean, self.members, first, last, score)

        run_over_ranges(write, lists.indptr)
        return score


def _project(block: BlockCSR, params: UGCParams, key: RandomKey) -> FloatArray:
    """Return the projection of each node."""
    from tgp.kernels import node_vectors as kernels

    x = block.node_values("x")
    scale, width = unit_scales(x, block.node_ptr), x.shape[1]
    direction, value, mixed = np.empty(width), np.empty(block.num_nodes), np.empty(block.num_nodes)
    kernels.random_direction(key.seed, key.level, direction)

    def project(first: int, last: int) -> None:
        for low in range(first, last, _ROWS):
            part = slice(low, min(low + _ROWS, last))
            rows = x[part].astype(np.float64)
            kernels.project_rows(rows, scale[part], direction, 0, len(rows), value[part])

    run_over_ranges(project, width * np.arange(block.num_nodes + 1))
    if params.heterophily == 0.0:
        return value
    arrays = make_undirected(block).arrays()

    def mix(first: int, last: int) -> None:
        kernels.mix_neighbours(*arrays, value, params.heterophily, first, last, mixed)

    run_over_ranges(mix, arrays[0])
    return mixed


def _join_neighbours(node_ptr: PtrArray) -> BlockCSR:
    """Return a path over the nodes of each graph, in their order."""
    size = int(node_ptr[-1])
    starts, ends = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    filled = np.diff(node_ptr) > 0
    starts[node_ptr[:-1][filled]] = True
    ends[node_ptr[1:][filled] - 1] = True
    both = np.arange(size)[:, None] + np.array([-1, 1])
    exists = np.stack([~starts, ~ends], axis=1)
    indptr = np.concatenate([[0], np.cumsum(exists.sum(axis=1))]).astype(np.int64)
    return BlockCSR(indptr, both[exists].astype(np.int32), None, node_ptr)


def _sort_nodes(
    block: BlockCSR, params: UGCParams, key: RandomKey
) -> tuple[IndexArray, BlockCSR, _ListCosts]:
    """Return the nodes of each graph in the order of their projection, the paths and the costs."""
    value = _project(block, params, key)
    order = np.lexsort((value, block.graph_of_node())).astype(np.int32)
    members = None if block.attributes is None else block.attributes.members
    counts = np.ones(block.num_nodes) if members is None else members[order]
    return order, _join_neighbours(block.node_ptr), _ListCosts(value[order], counts)


def _restore(order: IndexArray, found: Assignment) -> tuple[Assignment, IndexArray]:
    """Return the assignment of nodes from that of positions, and the supernodes in the order of the list.

    Args:
        order: ``[N]`` node at each position of the list.
        found: supernode of each position, in the order of the list.
    """
    assert found.cluster is not None
    supernode = np.empty(len(order), np.int32)
    supernode[order] = found.cluster
    number = rank_by_first(supernode, found.num_supernodes)
    return Assignment("hard", found.super_ptr, number[supernode]), number


def assign(block: BlockCSR, params: UGCParams, key: RandomKey) -> Assignment:
    """Merge neighbours in the sorted list, once or until the size is reached.

    Edges count in both directions: the weight between two nodes is half of the sum of all stored ones. An unweighted edge counts
    1. Edges of weight 0 or less and self loops have no effect. Equal projections are sorted by node. With ``ratios`` the result is
    the first level.

    Args:
        block: the graphs, with the attribute ``x``.
        params: parameters of the method.
        key: key of the random numbers.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.
    """
    if params.has_size:
        return assign_levels(block, params, key, 1)[0]
    order, lists, costs = _sort_nodes(block, params, key)
    return _restore(order, match_once(lists, key, costs, two_hop=False))[0]


def assign_levels(block: BlockCSR, params: UGCParams, key: RandomKey, num_levels: int) -> list[Assignment]:
    """Return the nested levels of the ratios. The nodes are sorted once.

    Args:
        block: the graphs, with the attribute ``x``.
        params: parameters of the method.
        key: key of the random numbers.
        num_levels: number of levels.
    """
    order, lists, costs = _sort_nodes(block, params, key)
    levels = []
    for found in match_to_sizes(lists, params, key, costs, num_levels, two_hop=False):
        level, order = _restore(order, found)
        levels.append(level)
    return levels


def cost(nodes: LongArray, edges: LongArray, params: UGCParams) -> FloatArray:
    """Estimate the work for 64 features."""
    return np.asarray((12.0 + 0.1 * _TYPICAL_WIDTH) * nodes + 2.0 * edges, np.float64)


METHOD = LevelMethod(
    "ugc",
    UGCParams,
    assign,
    contract,
    assign_levels,
    cost=cost,
    builds_levels=has_ratios,
    estimate=LevelEstimate(0.6, 0.8, scratch=200.0),
    contracts=True,
    joins_components=True,
    revision=3,
    needs=("x",),
)
