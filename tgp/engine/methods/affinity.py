r"""Algebraic distance: merge neighbours whose values stay close together in relaxed random vectors.

From `"Relaxation-Based Coarsening and Multiscale Graph Organization" <https://arxiv.org/abs/1004.1220>`_ (Multiscale Modeling & Simulation
2011). Random test vectors :math:`\mathbf{X}` are smoothed by a few steps of the damped Jacobi iteration,

.. math::
    \mathbf{X}' = \frac{1}{2} \left( \mathbf{X} + \mathbf{D}^{-1} \mathbf{A} \mathbf{X} \right) .

The distance of two neighbours is the difference of their values after the last step,

.. math::
    c_{ij} = \sum_k (\mathbf{X}_{ik} - \mathbf{X}_{jk})^2 .

It is small for nodes that many short paths connect, not only one edge. Pairs are matched in the order of ascending distances. The coarse graph of
every round gets new vectors.

Good for:
    Graphs whose weights say little, such as unweighted graphs: edges inside a cluster are merged before edges between clusters. Any ratio or number
    of supernodes, exactly: ``affinity:ratio=0.1``.

Avoid when:
    Time is short: ``hem`` needs a quarter to a tenth of the time. The result should be the same after nodes are renumbered: the vectors are random.

Complexity:
    ``O(K T E)`` time for ``K`` vectors and ``T`` steps, and ``O(K N + E)`` memory; about twice the time for a small ratio.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tgp.engine.contraction import contract
from tgp.engine.edge_scores import Score
from tgp.engine.level_method import (
    GraphSizes,
    LevelBound,
    LevelEstimate,
    LevelMethod,
    RandomKey,
    linear_bound,
)
from tgp.engine.pair_matching import match_once, match_to_sizes
from tgp.engine.parameter_checks import check_whole
from tgp.engine.target_size import SizeParams, has_ratios
from tgp.engine.threads import run_over_ranges
from tgp.kernels.array_types import LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray

__all__ = ["METHOD", "AffinityParams"]


@dataclass(frozen=True)
class AffinityParams(SizeParams):
    """Parameters of the distances and the matching. Sizes and the coarse graph have those of
    :class:`~tgp.engine.target_size.SizeParams`.

    Args:
        num_vectors: number of test vectors.
        num_steps: number of steps of the iteration. More steps look at longer paths.
        two_hop: merge nodes that stay alone with each other, if their shortest edges lead to the same neighbour and the matching
            removes less than 30 % of the nodes. With a size and ``two_hop=False``, this is done where it removes less than 5 %.
    """

    num_vectors: int = 8
    num_steps: int = 20
    two_hop: bool = True

    def __post_init__(self) -> None:
        for name in ("num_vectors", "num_steps"):
            check_whole(name, getattr(self, name))
        super().__post_init__()


def assign(block: BlockCSR, params: AffinityParams, key: RandomKey) -> Assignment:
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
    return match_once(block, key, _negative_distances(params, key), two_hop=params.two_hop)


def assign_levels(
    block: BlockCSR, params: AffinityParams, key: RandomKey, num_levels: int
) -> list[Assignment]:
    """Return the nested levels of the ratios.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.
        num_levels: number of levels.
    """
    score = _negative_distances(params, key)
    return match_to_sizes(block, params, key, score, num_levels, two_hop=params.two_hop)


def _negative_distances(params: AffinityParams, key: RandomKey) -> Score:
    """Return the function that scores edges by their negative distances, and edges without weight by -inf."""

    def score(graphs: BlockCSR, cluster: IndexArray | None) -> FloatArray:
        # The vectors do not depend on the number of the round, which differs among the graphs of a block.
        from tgp.kernels import node_vectors as kernels

        vectors, out = _relaxed_vectors(graphs, params, key), np.empty(graphs.num_edges)

        def write_distances(first: int, last: int) -> None:
            kernels.edge_distances(graphs.indptr, graphs.indices, vectors, first, last, out)

        run_over_ranges(write_distances, graphs.indptr)
        np.negative(out, out=out)
        if graphs.weight is not None:
            out[graphs.weight <= 0.0] = -np.inf
        return out

    return score


def _relaxed_vectors(graphs: BlockCSR, params: AffinityParams, key: RandomKey) -> FloatArray:
    """Return the test vectors after the last step, ``[N, num_vectors]``."""
    from tgp.kernels import node_vectors as kernels

    arrays = graphs.arrays()
    vectors = np.empty((graphs.num_nodes, int(params.num_vectors)))
    others = np.empty_like(vectors)

    def draw(first: int, last: int) -> None:
        kernels.random_vectors(graphs.node_ptr, key.seed, key.level, first, last, vectors)

    run_over_ranges(draw, graphs.node_ptr)
    for _ in range(int(params.num_steps)):

        def relax(first: int, last: int, old: FloatArray = vectors, new: FloatArray = others) -> None:
            kernels.relax(*arrays, old, first, last, new)

        run_over_ranges(relax, graphs.indptr)
        vectors, others = others, vectors
    return vectors


def cost(nodes: LongArray, edges: LongArray, params: AffinityParams) -> FloatArray:
    """Estimate the work: the steps of the iteration, and the matching."""
    passes = 2.0 + 0.04 * int(params.num_vectors) * int(params.num_steps)
    return passes * (nodes + edges).astype(np.float64)


def bound(sizes: GraphSizes, params: AffinityParams) -> LevelBound:
    """Bound time and memory. A graph without edges keeps all nodes, so the number of nodes has no better bound."""
    vectors, steps = int(params.num_vectors), int(params.num_steps)
    return linear_bound(sizes, 150.0 + 6.0 * vectors * steps, 60.0 + 16.0 * vectors)


METHOD = LevelMethod(
    "affinity",
    AffinityParams,
    assign,
    contract,
    assign_levels,
    cost=cost,
    builds_levels=has_ratios,
    estimate=LevelEstimate(0.55, 0.6, scratch=200.0),
    bound=bound,
    contracts=True,
)
