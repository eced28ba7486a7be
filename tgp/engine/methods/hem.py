r"""Heavy-edge matching that reaches any size.

From `"A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs" <https://doi.org/10.1137/S1064827595287997>`_
(SIAM J. Sci. Comput. 1998), computed in rounds by the local maxima of
`"Efficient Parallel and External Matching" <https://arxiv.org/abs/1302.4587>`_ (Euro-Par 2013).
The edges are ordered by the share of the weight in the degrees of their two nodes,

.. math::
    s_{ij} = \frac{\mathbf{A}_{ij}}{\max(d_i, d_j)} ,

and by a hash of the edge where this is equal. Edges are taken in this order, each if both of its nodes are free. The two nodes
become a supernode. Nodes that stay alone are merged in pairs that have the same strongest neighbour :math:`\mathrm{argmax}_j s_{ij}`,
if the matching merges few nodes. To reach a ratio, this is repeated on the coarse graph. The last round merges only as many pairs as
needed.

Good for:
    Any ratio or number of supernodes, exactly: ``hem:ratio=0.1``. Graphs with hubs. Large graphs: all threads work on one graph.
    Training on a small coarse graph: ``hem:ratio=0.1:balanced=true``.

Avoid when:
    Supernodes should be connected in every case: the leaves of a hub are merged with each other.

Complexity:
    ``O(N + E)`` time and memory for one level, and about three times as much for a small ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tgp.engine.block_algebra import row_sums
from tgp.engine.contraction import contract
from tgp.engine.edge_scores import BalancedScore, Score, Share
from tgp.engine.level_method import (
    GraphSizes,
    LevelBound,
    LevelEstimate,
    LevelMethod,
    RandomKey,
    linear_bound,
)
from tgp.engine.pair_matching import match_once, match_to_sizes
from tgp.engine.parameter_checks import check_choice
from tgp.engine.target_size import SizeParams, has_ratios
from tgp.engine.threads import run_over_ranges
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray

__all__ = ["METHOD", "HEMParams"]

EdgeScore = Literal["share", "weight"]

_LARGE = 1 << 25
"""Number of stored entries from which scores are computed where they are needed. This takes up to twice the time, but an array of scores
takes 8 bytes per entry."""


@dataclass(frozen=True)
class HEMParams(SizeParams):
    """Parameters of the matching. Sizes and the coarse graph have those of :class:`~tgp.engine.target_size.SizeParams`.

    Args:
        score: what makes an edge heavy: its ``share``, which is the weight divided by the larger degree of its two nodes, or its
            ``weight``.
        two_hop: merge nodes that stay alone with each other, if they have the same strongest neighbour and the matching removes
            less than 30 % of the nodes. With a size and ``two_hop=False``, this is done where it removes less than 5 %.
        balanced: take edges whose two nodes have the fewest members first, and only then by the score, so that supernodes have
            similar sizes. It has no effect in the first round.
    """

    score: EdgeScore = "share"
    two_hop: bool = True
    balanced: bool = False

    def __post_init__(self) -> None:
        check_choice("score", self.score, EdgeScore)
        super().__post_init__()


def assign(block: BlockCSR, params: HEMParams, key: RandomKey) -> Assignment:
    """Merge pairs of nodes, once or until the size is reached.

    Edges count in both directions: the weight between two nodes is half of the sum of all stored ones. An unweighted edge counts
    1, and in further rounds the edges between two supernodes are counted. Edges of weight 0 or less are taken last. Self loops
    have no effect. With ``ratios`` the result is the first level.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.
    """
    if params.has_size:
        return assign_levels(block, params, key, 1)[0]
    return match_once(block, key, _score_function(params), two_hop=params.two_hop)


def assign_levels(block: BlockCSR, params: HEMParams, key: RandomKey, num_levels: int) -> list[Assignment]:
    """Return the nested levels of the ratios.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.
        num_levels: number of levels.
    """
    return match_to_sizes(block, params, key, _score_function(params), num_levels, two_hop=params.two_hop)


def _score_function(params: HEMParams) -> Score:
    score = _score_by_share if params.score == "share" else _score_by_weight
    return BalancedScore(score) if params.balanced else score


def _score_by_weight(graphs: BlockCSR, cluster: IndexArray | None) -> FloatArray | None:
    return graphs.weight


def _score_by_share(graphs: BlockCSR, cluster: IndexArray | None) -> FloatArray | Share:
    from tgp.kernels import local_matching as kernels

    arrays = graphs.arrays()
    degree = row_sums(*arrays)
    if graphs.num_edges >= _LARGE:
        return Share(degree)
    score = np.empty(graphs.num_edges)

    def divide(first: int, last: int) -> None:
        kernels.divide_by_degree(*arrays, degree, first, last, score)

    run_over_ranges(divide, graphs.indptr)
    return score


def bound(sizes: GraphSizes, params: HEMParams) -> LevelBound:
    """Bound time and memory. A graph without edges keeps all nodes, so the number of nodes has no better bound."""
    return linear_bound(sizes, 100.0, 40.0)


METHOD = LevelMethod(
    "hem",
    HEMParams,
    assign,
    contract,
    assign_levels,
    builds_levels=has_ratios,
    estimate=LevelEstimate(0.55, 0.6),
    bound=bound,
    contracts=True,
    external="tgp.engine.external.heavy_edge:METHOD",
)
