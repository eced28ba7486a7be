r"""Louvain: communities of high modularity.

From `"Fast unfolding of communities in large networks" <https://arxiv.org/abs/0803.0476>`_ (J. Stat. Mech. 2008). A run
maximises the modularity at resolution :math:`\gamma`,

.. math::
    Q = \frac{1}{W} \sum_{ij} \Big( \mathbf{A}_{ij} - \gamma \frac{d_i d_j}{W} \Big) \, \delta(c_i, c_j) ,

where :math:`d_i` is the degree of node :math:`i` and :math:`W` the sum of all degrees. Each pass moves single nodes to the
neighbouring community of the largest gain, until no node wants to move, and then merges every community to one node.

Good for:
    Communities of large graphs, also with hubs, in little time. The graph decides how many there are, and ``resolution`` controls it.

Avoid when:
    Communities must be connected (use ``leiden``), all supernodes must have similar sizes, or a ratio is given.

Complexity:
    About ``O(N + E)`` time per pass, with usually less than ten passes on quickly shrinking graphs; ``O(N + E)`` memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from tgp.engine.communities import CommunityParams, bound, cost, find_levels
from tgp.engine.contraction import contract
from tgp.engine.level_method import LevelEstimate, LevelMethod, RandomKey
from tgp.ragged import Assignment, BlockCSR

__all__ = ["METHOD", "LouvainParams"]


@dataclass(frozen=True)
class LouvainParams(CommunityParams):
    """Parameters of the communities and the coarse graph, see :class:`~tgp.engine.communities.CommunityParams`."""


def assign(block: BlockCSR, params: LouvainParams, key: RandomKey) -> Assignment:
    """Assign the nodes to the final communities of a run.

    A directed graph is replaced by ``A + A^T``. An unweighted graph has an edge of weight 1 wherever there is an edge in
    either direction. A self loop adds its weight to the degree of its node. Nodes are visited in an order given by hashes,
    and equal gains are decided by the first neighbour. A community can be disconnected; ``leiden`` prevents it.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the visiting orders.

    Returns:
        A hard assignment. Supernodes are numbered by their first node.

    Raises:
        GraphError: if a weight is negative, or the sum of the weights overflows.
    """
    return assign_levels(block, params, key, 1)[0]


def assign_levels(
    block: BlockCSR, params: LouvainParams, key: RandomKey, num_levels: int
) -> list[Assignment]:
    """Return several levels of one run.

    Level ``i`` is the ``i``-th aggregation of the run. The last level merges all further aggregations, so its supernodes are
    the final communities. If the run of a graph has fewer aggregations, the remaining levels are the identity.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the visiting orders.
        num_levels: number of levels.
    """
    return find_levels(block, params, key, num_levels, name="louvain", refine=False)


METHOD = LevelMethod(
    "louvain",
    LouvainParams,
    assign,
    contract,
    assign_levels,
    cost,
    LevelEstimate(0.2, 0.2, scratch=150.0),
    bound=bound,
    contracts=True,
    one_core="the moves of nodes",
)
