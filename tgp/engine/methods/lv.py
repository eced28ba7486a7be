r"""Local variation: merge the sets of nodes that change the lowest eigenvectors of the Laplacian least.

From `"Graph Reduction with Spectral and Cut Guarantees" <https://arxiv.org/abs/1808.10650>`_ (JMLR 2019). The sets are pairs of
neighbours, or with ``sets=neighborhoods`` nodes with all of their neighbours. Let :math:`\mathbf{U}` be the first :math:`K`
eigenvectors of :math:`\mathbf{L} = \mathbf{D} - \mathbf{A}` of a connected component without the constant one, :math:`\Lambda` their
eigenvalues, and :math:`\mathbf{B} = \mathbf{U} \Lambda^{-1/2}`. The cost of a set of nodes :math:`C` is

.. math::
    c_C = \frac{\| \mathbf{X}^\top \mathbf{L}_C \mathbf{X} \|_F}{|C| - 1} , \qquad
    c_{ij} = \frac{d_i + d_j}{2} \, \sum_k (\mathbf{B}_{ik} - \mathbf{B}_{jk})^2 ,

where :math:`\mathbf{X}` are the rows of :math:`\mathbf{B}` in the set minus their mean, and :math:`\mathbf{L}_C` is the Laplacian of the
edges of the set in which edges that leave the set count twice. For a pair this is :math:`c_{ij}`.

Sets without common nodes are merged in the order of ascending costs. A neighbourhood that has lost nodes to others is cut to its
remaining nodes and gets a new cost. In further rounds the rows of :math:`\mathbf{B}` are averaged over each set and orthonormalised
again, :math:`\mathbf{B}^\top \mathbf{L} \mathbf{B} = \mathbf{I}`, without a new eigenvalue problem. To reach a size exactly, the
last neighbourhoods are cut to the nodes that are closest to their centre.

Good for:
    Coarse graphs with a given number of nodes whose smallest eigenvalues are close to those of the graph: graph reduction,
    spectral filters, and training on a coarse graph. Nested levels (``ratios=0.5/0.3/0.1``) need one eigenvalue problem.
    Use ``lv:ratio=0.1:sets=neighborhoods`` for graphs with hubs and leaves, such as citation graphs.

Avoid when:
    The graph has millions of nodes or time is short: the eigenvectors take ten times as long as the matching. Weights are
    negative: such edges count as 0. With neighbourhoods: the graph is a grid or a mesh, where pairs are better, or supernodes should
    have similar sizes.

Complexity:
    ``O(K^2 N + K E)`` time and ``O(K N + E)`` memory for ``K`` modes; ``O(N^3)`` time for components with at most 128 nodes.
    Neighbourhoods take ``O(K^2 E + K E^1.5)`` time in the worst case, and ``O(K^2 E)`` where few edges are in many triangles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tgp.engine.block_algebra import Rows, row_sums
from tgp.engine.contraction import contract
from tgp.engine.edge_scores import BalancedScore, Score
from tgp.engine.laplacian_eigs import DENSE_SIZE, Effort
from tgp.engine.large_ranking import number_clusters
from tgp.engine.level_method import ADDED, GraphSizes, LevelBound, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.pair_matching import draw_codes, match_once, match_to_sizes
from tgp.engine.parameter_checks import check_choice, check_whole
from tgp.engine.spectral_clusters import cluster_modes, filter_rows
from tgp.engine.target_size import SizeParams, has_ratios
from tgp.engine.threads import run_over_ranges
from tgp.engine.undirected import make_undirected
from tgp.kernels.array_types import LongArray, WordArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = ["METHOD", "LVParams"]

Sets = Literal["edges", "neighborhoods"]

MODES = Effort(1e-2, 20, 0.001)
"""Rules for the eigenvectors of components with more than 2,000 nodes. Smaller ones are solved to a residual of 1e-5.

On DBLP the costs of edges differ by 0.2 % from those of exact eigenvectors, on a random graph without gaps in its spectrum by 9 %.
"""

LOST = 1e-9
"""Variation of a column of norm 1 after averaging below which only rounding errors are left."""

RANGE = (-40, 200)
"""Exponents of two between which the largest weight of a graph is used as it is. With smaller ones the eigensolver would stop early, and
squares of larger ones overflow."""

LEAST = 2.0**-400
"""Weights below this number count as 0."""

MOST_CUTS = 8
"""Number of new costs after which a neighbourhood that loses nodes to others is left out of the round."""


@dataclass(frozen=True)
class LVParams(SizeParams):
    """Parameters of the costs and the matching. Sizes and the coarse graph have those of
    :class:`~tgp.engine.target_size.SizeParams`.

    Args:
        num_modes: number of eigenvectors of each component, with the constant one.
        two_hop: merge nodes that stay alone with each other, if their cheapest edges lead to the same neighbour and the matching
            removes less than 30 % of the nodes. With a size and ``two_hop=False``, this is done where it removes less than 5 %.
            With neighbourhoods: merge the neighbours of a node also if the node itself belongs to another set. With
            ``two_hop=False`` every set is connected.
        balanced: take edges whose two nodes have the fewest members first, and only then by cost, so that supernodes have
            similar sizes. It has no effect in the first round. For neighbourhoods, the mean number of members counts.
        sets: sets of nodes that are merged: ``edges`` merges pairs, ``neighborhoods`` merges nodes with all of their neighbours.
    """

    num_modes: int = 10
    two_hop: bool = True
    balanced: bool = False
    sets: Sets = field(default="edges", metadata=ADDED)

    def __post_init__(self) -> None:
        check_choice("sets", self.sets, Sets)
        check_whole("num_modes", self.num_modes, 2)
        super().__post_init__()


class _NegativeCosts:
    """Scores of edges: their negative costs. The basis of the modes is passed on from round to round.

    ``rows``, ``degree`` and ``basis`` are those of the last graphs: their edges with weight, the degrees, and the modes of all nodes.

    Args:
        num_modes: number of eigenvectors of each component.
    """

    def __init__(self, num_modes: int) -> None:
        self.num_modes = num_modes
        self.basis: FloatArray = np.empty((0, num_modes - 1))
        self.rows: Rows
        self.degree: FloatArray

    def __call__(self, graphs: BlockCSR, cluster: IndexArray | None) -> FloatArray:
        """Return the scores, -inf for edges without weight.

        Args:
            graphs: undirected graphs.
            cluster: node of ``graphs`` to which each node of the round before belongs; ``None`` in the first round.
        """
        from tgp.kernels import csr
        from tgp.kernels import local_variation as kernels

        weight = graphs.weights_or_ones()
        positive = weight > 0.0
        rows: Rows = graphs.indptr, graphs.indices, weight
        if not positive.all():
            rows = filter_rows(*rows, positive)
        component, component_ptr = csr.components(rows[0], rows[1], graphs.node_ptr)
        count = int(component_ptr[-1])
        changed = np.ones(count, np.bool_)
        if cluster is None:
            modes = cluster_modes(rows, component, count, self.num_modes, False, MODES)
            self.basis = np.ascontiguousarray(modes[:, 1:])
        else:
            self.basis, sizes = _average(self.basis, cluster, graphs.num_nodes)
            changed[:] = False
            changed[component[sizes > 1]] = True
        # The basis of a component that waits for others stays the same in every bit.
        members = np.argsort(component, kind="stable")
        members = members[changed[component[members]]]
        member_ptr = offsets(np.bincount(component, minlength=count)[changed])
        smallest = 0.0 if cluster is None else LOST

        def orthonormalize(first: int, last: int) -> None:
            kernels.orthonormalize(*rows, members, member_ptr, first, last, smallest, self.basis)

        run_over_ranges(orthonormalize, offsets(np.diff(rows[0])[members])[member_ptr] + member_ptr)
        self.rows, self.degree = rows, row_sums(*rows)
        score = np.empty(graphs.num_edges)

        def write_costs(first: int, last: int) -> None:
            kernels.edge_costs(graphs.indptr, graphs.indices, self.degree, self.basis, first, last, score)

        run_over_ranges(write_costs, graphs.indptr)
        np.negative(score, out=score)
        score[~positive] = -np.inf
        return score


def _average(basis: FloatArray, cluster: IndexArray, num_clusters: int) -> tuple[FloatArray, LongArray]:
    """Return the mean of the rows of each cluster, and the sizes of the clusters."""
    sizes = np.bincount(cluster, minlength=num_clusters)
    columns = [np.bincount(cluster, column, num_clusters) / sizes for column in basis.T]
    return np.ascontiguousarray(np.stack(columns, 1)), sizes


class _Neighborhoods:
    """Costs of neighbourhoods, and the sets of nodes that are merged in a round.

    Args:
        params: parameters of the method.
    """

    def __init__(self, params: LVParams) -> None:
        self.costs = _NegativeCosts(int(params.num_modes))
        self.balanced = BalancedScore(self.costs) if params.balanced else None
        self.needs_centre = not params.two_hop

    def __call__(self, graphs: BlockCSR, cluster: IndexArray | None) -> FloatArray:
        """Return the scores of the edges, see :class:`_NegativeCosts`."""
        return (self.balanced or self.costs)(graphs, cluster)

    def merge(
        self,
        graphs: BlockCSR,
        scores: FloatArray,
        label: IndexArray | PtrArray,
        excess: LongArray,
        code: WordArray,
    ) -> Assignment | None:
        """Merge disjoint neighbourhoods, see :data:`~tgp.engine.pair_matching.MergeFirst`."""
        from tgp.kernels import local_variation as kernels

        rows, degree, basis = self.costs.rows, self.costs.degree, self.costs.basis
        members = np.empty(0) if self.balanced is None else self.balanced.members.astype(np.float64)
        once = _take_edges_once(rows)
        free, key = excess[label] > 0, np.empty(graphs.num_nodes)
        count, target = np.empty(graphs.num_nodes, np.int64), np.empty(graphs.num_nodes, np.int32)
        problem = rows[0], rows[1], *once, degree, basis, members

        def score(first: int, last: int) -> None:
            kernels.score_neighborhoods(*problem, free, self.needs_centre, first, last, count, key)

        run_over_ranges(score, offsets(1 + _add_neighbours(rows, np.diff(once[0]))))
        order = np.lexsort((code, label)).astype(np.int32)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order), dtype=np.int32)
        order_ptr = offsets(np.bincount(label, minlength=len(excess)))
        most = int(np.diff(rows[0]).max(initial=0)) + 1

        def merge(first: int, last: int) -> None:
            kernels.merge_neighborhoods(
                *problem, order, order_ptr, rank, excess, self.needs_centre, MOST_CUTS, most, first, last, free,
                count, key, target,
            )  # fmt: skip

        run_over_ranges(merge, offsets(np.diff(rows[0])[order])[order_ptr] + order_ptr)
        if (target == np.arange(len(target))).all():
            return None
        return number_clusters(target, graphs.node_ptr)


def _take_edges_once(rows: Rows) -> Rows:
    """Return rows that have each edge at one of its nodes: the one with fewer neighbours, so that all rows are short."""
    row = np.repeat(np.arange(len(rows[0]) - 1, dtype=np.int32), np.diff(rows[0]))
    near, far = np.diff(rows[0])[row], np.diff(rows[0])[rows[1]]
    return filter_rows(*rows, (near < far) | ((near == far) & (row < rows[1])))


def _add_neighbours(rows: Rows, values: LongArray) -> LongArray:
    """Return the sum of the values of each node and its neighbours."""
    return values + np.diff(offsets(values[rows[1]])[rows[0]])


def assign(block: BlockCSR, params: LVParams, key: RandomKey) -> Assignment:
    """Merge pairs or neighbourhoods, once or until the size is reached.

    Edges count in both directions: the weight between two nodes is half of the sum of all stored ones. An unweighted edge counts
    1, and in further rounds the edges between two supernodes are counted. Edges of weight 0 or less are taken last; they belong
    to no neighbourhood, so without a size they stay. Self loops have no effect. Equal costs are ordered by a hash. With ``ratios``
    the result is the first level.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.
    """
    if params.has_size:
        return assign_levels(block, params, key, 1)[0]
    graphs = _bring_into_range(make_undirected(block))
    if params.sets == "neighborhoods":
        return _merge_once(graphs, params, key)
    return match_once(graphs, key, _score_function(params), two_hop=params.two_hop)


def assign_levels(block: BlockCSR, params: LVParams, key: RandomKey, num_levels: int) -> list[Assignment]:
    """Return the nested levels of the ratios. The eigenvectors are computed once.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.
        num_levels: number of levels.
    """
    graphs = _bring_into_range(make_undirected(block))
    if params.sets == "edges":
        return match_to_sizes(
            graphs, params, key, _score_function(params), num_levels, two_hop=params.two_hop
        )
    sets = _Neighborhoods(params)
    return match_to_sizes(graphs, params, key, sets, num_levels, merge_first=sets.merge, match_merged=False)


def _bring_into_range(graphs: BlockCSR) -> BlockCSR:
    """Return the graphs with weights that suit the eigensolver.

    Costs do not depend on the unit of the weights. Graphs whose largest weight is beyond ``2^-40 .. 2^200`` are multiplied by a power
    of two. Weights that are then smaller than ``2^-400`` count as 0.

    Args:
        graphs: undirected graphs.
    """
    if graphs.weight is None or not graphs.num_edges:
        return graphs
    filled = np.flatnonzero(np.diff(graphs.edge_ptr))
    exponent = np.zeros(graphs.num_graphs, np.int64)
    exponent[filled] = np.frexp(np.maximum.reduceat(graphs.weight, graphs.edge_ptr[filled]))[1]
    exponent[(exponent >= RANGE[0]) & (exponent <= RANGE[1])] = 0
    weight = graphs.weight
    if exponent.any():
        weight = np.ldexp(weight, -np.repeat(exponent, np.diff(graphs.edge_ptr)))
    if weight.min() < LEAST:
        weight = np.where(weight < LEAST, 0.0, weight)
    return BlockCSR(graphs.indptr, graphs.indices, weight, graphs.node_ptr)


def _merge_once(graphs: BlockCSR, params: LVParams, key: RandomKey) -> Assignment:
    """Merge neighbourhoods until no node that is free has a free neighbour."""
    sets = _Neighborhoods(params)
    scores, code = sets(graphs, None), draw_codes(graphs, key, 0)
    found = sets.merge(graphs, scores, graphs.graph_of_node(), np.diff(graphs.node_ptr), code)
    alone = np.arange(graphs.num_nodes, dtype=np.int32)
    return found or number_clusters(alone, graphs.node_ptr)


def _score_function(params: LVParams) -> Score:
    costs = _NegativeCosts(int(params.num_modes))
    return BalancedScore(costs) if params.balanced else costs


def cost(nodes: LongArray, edges: LongArray, params: LVParams) -> FloatArray:
    """Estimate the work: cubic for the dense solver of small graphs, linear with a large constant for large graphs."""
    work = np.minimum(nodes, DENSE_SIZE) ** 3 / 8.0 + 1500.0 * np.maximum(nodes - DENSE_SIZE, 0)
    each = 10.0 if params.sets == "edges" else 40.0
    return np.asarray(work + each * (nodes + edges), np.float64)


def bound(sizes: GraphSizes, params: LVParams) -> LevelBound:
    """Bound time and memory of the eigensolver for the size of a graph, and of the matching."""
    k = int(params.num_modes)
    nodes, edges = sizes.nodes.astype(np.float64), sizes.edges.astype(np.float64)
    dense = nodes <= max(DENSE_SIZE, 5 * k)
    iterative = (120.0 + 2.0 * k * k) * nodes + (2.0 + 0.2 * k) * edges
    seconds = 1e-6 * np.where(dense, 0.02 * nodes**3 + edges, iterative) + 1e-7 * (nodes + edges)
    memory = np.where(dense, 40.0 * nodes**2, 0.0) + (260.0 * (k + 6) + 500.0) * nodes + 190.0 * edges
    if params.sets == "neighborhoods":
        # The nodes of an edge have at most sqrt(E) common neighbours on average over the edges. Sets that are cut are scored again.
        triangles = edges * np.minimum(sizes.degree, np.sqrt(edges))
        seconds = seconds + 1e-9 * (10.0 * k * k * (nodes + edges) + 4.0 * k * triangles)
        memory = memory + 80.0 * (nodes + edges) + 64.0 * k * sizes.degree
    return LevelBound(seconds, memory, sizes.nodes, sizes.edges)


METHOD = LevelMethod(
    "lv",
    LVParams,
    assign,
    contract,
    assign_levels,
    cost=cost,
    builds_levels=has_ratios,
    estimate=LevelEstimate(0.55, 0.6, scratch=2000.0),
    bound=bound,
    contracts=True,
    one_core="the smoothing of the eigenvectors",
)
