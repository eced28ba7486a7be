r"""Matching of neighbours with similar features, to any size.

Features are smoothed over the edges of the graph as in
`"Simplifying Graph Convolutional Networks" <https://arxiv.org/abs/1902.07153>`_ (ICML 2019), :math:`p = 2` times by default,

.. math::
    \mathbf{H} = \left( \mathbf{D}^{-1/2} (\mathbf{A} + \mathbf{I}) \mathbf{D}^{-1/2} \right)^p \mathbf{X} ,

where :math:`\mathbf{D}` are the degrees with the self loops :math:`\mathbf{I}`. The similarity of two neighbours is the cosine of their
rows :math:`\mathbf{h}_i` and :math:`\mathbf{h}_j`,

.. math::
    s_{ij} = \frac{\mathbf{h}_i^\top \mathbf{h}_j}{\|\mathbf{h}_i\| \|\mathbf{h}_j\|} .

Edges are ordered by the cosine :math:`s_{ij}`, and by a hash of
the edge where this is equal. Edges are taken in this order, each if both of its nodes are free. The two nodes become a supernode.
Nodes that stay alone are merged in pairs that have the same most similar neighbour, if the matching merges few nodes. To reach a
ratio, this is repeated on the coarse graph, where the smoothed features of the members of a supernode are added up.

Good for:
    Training on a coarse graph whose node features carry the labels, such as citation graphs. Any ratio or number of supernodes,
    exactly: ``simmatch:ratio=0.3``. Nested levels (``ratios=0.5/0.3/0.1``) smooth the features once.

Avoid when:
    Graphs have no features, or features that do not differ. The features are wide and time is short: a level costs as much as
    two graph convolutions without weights.

Complexity:
    ``O(p E D)`` time and ``O(N D + E)`` memory for ``D`` features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tgp.engine.block_algebra import row_sums
from tgp.engine.contraction import contract
from tgp.engine.level_method import LevelEstimate, LevelMethod, RandomKey
from tgp.engine.pair_matching import match_once, match_to_sizes
from tgp.engine.parameter_checks import check_whole
from tgp.engine.target_size import SizeParams, has_ratios
from tgp.engine.threads import run_over_ranges
from tgp.kernels.array_types import Float32MatrixArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray
from tgp.ragged.node_attributes import RowArray, unit_scales

__all__ = ["METHOD", "SimMatchParams"]

_COLUMNS = 64
"""Number of features that are smoothed at a time."""

_TYPICAL_WIDTH = 64
"""Number of features for which time and memory are estimated. Methods do not know the features when a run is planned."""


@dataclass(frozen=True)
class SimMatchParams(SizeParams):
    """Parameters of the similarity and the matching. Sizes and the coarse graph have those of
    :class:`~tgp.engine.target_size.SizeParams`.

    Args:
        hops: number of times that features are smoothed; 0 compares the features themselves.
        two_hop: merge nodes that stay alone with each other, if they have the same most similar neighbour and the matching removes
            less than 30 % of the nodes. With a size and ``two_hop=False``, this is done where it removes less than 5 %.
    """

    hops: int = 2
    two_hop: bool = True

    def __post_init__(self) -> None:
        check_whole("hops", self.hops, 0, 100)
        super().__post_init__()


class _Cosines:
    """Scores of edges: cosines of smoothed features. The rows of merged nodes are added from round to round.

    Args:
        x: ``[N, D]`` features.
        members: ``[N]`` number of input nodes of each node; ``None`` if all are 1.
        hops: number of times that features are smoothed.
    """

    def __init__(self, x: RowArray, members: FloatArray | None, hops: int) -> None:
        self.x, self.members, self.hops = x, members, hops
        self.rows: Float32MatrixArray = np.empty((0, 1), np.float32)

    def __call__(self, graphs: BlockCSR, cluster: IndexArray | None) -> FloatArray:
        """Return the scores, -inf for edges without weight.

        Args:
            graphs: undirected graphs.
            cluster: node of ``graphs`` to which each node of the round before belongs; ``None`` in the first round.
        """
        from tgp.kernels import node_vectors as kernels

        if cluster is None:
            self.rows = _smooth(graphs, self.x, self.hops)
            if self.members is not None:
                self.rows *= self.members.astype(np.float32)[:, None]
        else:
            self.rows = _add_rows(self.rows, cluster, graphs.num_nodes)
        rows, norm, score = self.rows, np.empty(graphs.num_nodes), np.empty(graphs.num_edges)
        width = rows.shape[1]

        def write_norms(first: int, last: int) -> None:
            kernels.row_norms(rows, first, last, norm)

        def write_cosines(first: int, last: int) -> None:
            kernels.edge_cosines(graphs.indptr, graphs.indices, rows, norm, first, last, score)

        run_over_ranges(write_norms, width * np.arange(graphs.num_nodes + 1))
        run_over_ranges(write_cosines, width * graphs.indptr)
        if graphs.weight is not None:
            score[graphs.weight <= 0.0] = -np.inf
        return score


def _smooth(graphs: BlockCSR, x: RowArray, hops: int) -> Float32MatrixArray:
    """Return the smoothed features, scaled in each graph so that the largest feature is about 1."""
    from tgp.kernels import node_vectors as kernels

    arrays, nodes = graphs.arrays(), graphs.num_nodes
    scale = 1.0 / np.sqrt(1.0 + row_sums(*arrays))
    unit = unit_scales(x, graphs.node_ptr)
    smoothed = np.empty(x.shape, np.float32)
    for low in range(0, x.shape[1], _COLUMNS):
        columns = slice(low, low + _COLUMNS)
        values = x[:, columns].astype(np.float64) * unit[:, None]
        out = np.empty_like(values)
        for _ in range(hops):

            def smooth(first: int, last: int, given: FloatArray = values, made: FloatArray = out) -> None:
                kernels.smooth_rows(*arrays, scale, given, first, last, made)

            run_over_ranges(smooth, values.shape[1] * (graphs.indptr + np.arange(nodes + 1)))
            values, out = out, values
        smoothed[:, columns] = values
    return smoothed


def _add_rows(rows: Float32MatrixArray, cluster: IndexArray, size: int) -> Float32MatrixArray:
    """Return the sum of the rows of each cluster."""
    from tgp.kernels import carry

    out, segment = np.empty((size, rows.shape[1]), np.float32), cluster.astype(np.int64)
    for low in range(0, rows.shape[1], _COLUMNS):
        columns = slice(low, low + _COLUMNS)
        part = rows[:, columns].astype(np.float64)
        total = np.zeros((size, part.shape[1]))
        carry.add_rows(part, segment, np.empty(0), False, total)
        out[:, columns] = total
    return out


def _score_function(block: BlockCSR, params: SimMatchParams) -> _Cosines:
    members = None if block.attributes is None else block.attributes.members
    return _Cosines(block.node_values("x"), members, int(params.hops))


def assign(block: BlockCSR, params: SimMatchParams, key: RandomKey) -> Assignment:
    """Merge pairs of nodes, once or until the size is reached.

    Edges count in both directions: the weight between two nodes is half of the sum of all stored ones. An unweighted edge counts
    1. Weights have an effect on the smoothing only, except that edges of weight 0 or less are taken last. Self loops have no effect.
    With ``ratios`` the result is the first level.

    Args:
        block: the graphs, with the attribute ``x``.
        params: parameters of the method.
        key: key of the random numbers.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.
    """
    if params.has_size:
        return assign_levels(block, params, key, 1)[0]
    return match_once(block, key, _score_function(block, params), two_hop=params.two_hop)


def assign_levels(
    block: BlockCSR, params: SimMatchParams, key: RandomKey, num_levels: int
) -> list[Assignment]:
    """Return the nested levels of the ratios. The features are smoothed once.

    Args:
        block: the graphs, with the attribute ``x``.
        params: parameters of the method.
        key: key of the random numbers.
        num_levels: number of levels.
    """
    score = _score_function(block, params)
    return match_to_sizes(block, params, key, score, num_levels, two_hop=params.two_hop)


def cost(nodes: LongArray, edges: LongArray, params: SimMatchParams) -> FloatArray:
    """Estimate the work for 64 features."""
    width = _TYPICAL_WIDTH * (1.0 + params.hops)
    return np.asarray(10.0 * (nodes + edges) + 0.05 * width * (nodes + edges), np.float64)


METHOD = LevelMethod(
    "simmatch",
    SimMatchParams,
    assign,
    contract,
    assign_levels,
    cost=cost,
    builds_levels=has_ratios,
    estimate=LevelEstimate(0.55, 0.6, scratch=60.0 + 12.0 * _TYPICAL_WIDTH),
    contracts=True,
    revision=3,
    needs=("x",),
)
