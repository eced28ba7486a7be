r"""Leiden: connected communities of high modularity.

From `"From Louvain to Leiden: guaranteeing well-connected communities" <https://arxiv.org/abs/1810.08473>`_ (Scientific
Reports 2019). A run maximises the modularity at resolution :math:`\gamma`,

.. math::
    Q = \frac{1}{W} \sum_{ij} \Big( \mathbf{A}_{ij} - \gamma \frac{d_i d_j}{W} \Big) \, \delta(c_i, c_j) ,

where :math:`d_i` is the degree of node :math:`i` and :math:`W` the sum of all degrees. Each pass moves single nodes to the
neighbouring community of the largest gain, divides every community into connected parts, and merges every part to one
node. The next pass starts from the communities.

Good for:
    Connected communities of large graphs, also with hubs, at several levels. ``resolution`` and ``max_size`` control their sizes,
    and ``iterations=2`` raises the modularity.

Avoid when:
    All supernodes must have similar sizes, or a ratio is given.

Complexity:
    About ``O(N + E)`` time per pass, with usually less than ten passes on quickly shrinking graphs; ``O(N + E)`` memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tgp.engine.communities import CommunityParams, bound, cost, find_levels
from tgp.engine.contraction import contract
from tgp.engine.level_method import ADDED, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.parameter_checks import check_whole
from tgp.ragged import Assignment, BlockCSR

__all__ = ["METHOD", "LeidenParams"]


@dataclass(frozen=True)
class LeidenParams(CommunityParams):
    """Parameters of the runs. Those of the communities and the coarse graph are those of
    :class:`~tgp.engine.communities.CommunityParams`.

    Args:
        iterations: number of runs. Each of them starts from the communities of the one before, which raises the modularity:
            by about 1 % for the second run of graphs with hubs, and less for others. The levels are those of the last run.
    """

    iterations: int = field(default=1, metadata=ADDED)

    def __post_init__(self) -> None:
        check_whole("iterations", self.iterations, 1, 100)
        super().__post_init__()

    @property
    def num_runs(self) -> int:
        """Number of runs, each of which starts from the communities of the one before."""
        return self.iterations


def assign(block: BlockCSR, params: LeidenParams, key: RandomKey) -> Assignment:
    """Assign the nodes to the final communities of a run. Every community is connected.

    A directed graph is replaced by ``A + A^T``. An unweighted graph has an edge of weight 1 wherever there is an edge in
    either direction. A self loop adds its weight to the degree of its node. Nodes are visited in an order given by hashes,
    and equal gains are decided by the first neighbour. The refinement is greedy: a node joins the part of the largest gain,
    not a random one. The run starts from the communities of a short run of Louvain. If the refinement merges less than one
    node in twenty, the pass uses the connected components of the communities instead.

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


def assign_levels(block: BlockCSR, params: LeidenParams, key: RandomKey, num_levels: int) -> list[Assignment]:
    """Return several levels of one run. The supernodes of every level are connected.

    Level ``i`` is the ``i``-th aggregation of the run: the parts of the refinement. The last level merges all further
    aggregations, so its supernodes are the final communities. If the run of a graph has fewer aggregations, the remaining
    levels are the identity.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the visiting orders.
        num_levels: number of levels.
    """
    return find_levels(block, params, key, num_levels, name="leiden", refine=True)


METHOD = LevelMethod(
    "leiden",
    LeidenParams,
    assign,
    contract,
    assign_levels,
    cost,
    LevelEstimate(0.2, 0.2, scratch=150.0),
    bound=bound,
    contracts=True,
    one_core="the moves of nodes",
)
