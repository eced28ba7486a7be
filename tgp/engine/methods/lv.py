r"""Local variation: merge the pairs of neighbours that change the lowest eigenvectors of the Laplacian least.

From `"Graph Reduction with Spectral and Cut Guarantees" <https://arxiv.org/abs/1808.10650>`_ (JMLR 2019), the variant that
contracts edges. Let :math:`\mathbf{U}` be the first :math:`K` eigenvectors of :math:`\mathbf{L} = \mathbf{D} - \mathbf{A}` of a
connected component without the constant one, :math:`\Lambda` their eigenvalues, and
:math:`\mathbf{B} = \mathbf{U} \Lambda^{-1/2}`. The cost of an edge is

.. math::
    c_{ij} = \frac{d_i + d_j}{2} \, \sum_k (\mathbf{B}_{ik} - \mathbf{B}_{jk})^2 .

Pairs are matched in the order of ascending costs. In further rounds the rows of :math:`\mathbf{B}` are averaged over each pair and
orthonormalised again, :math:`\mathbf{B}^\top \mathbf{L} \mathbf{B} = \mathbf{I}`, without a new eigenvalue problem.

Good for:
    Coarse graphs with a given number of nodes whose smallest eigenvalues are close to those of the graph: graph reduction,
    spectral filters, and training on a coarse graph. Nested levels (``ratios=0.5/0.3/0.1``) need one eigenvalue problem.

Avoid when:
    The graph has millions of nodes or time is short: the eigenvectors take ten times as long as the matching. Weights are
    negative: such edges count as 0.

Complexity:
    ``O(K^2 N + K E)`` time and ``O(K N + E)`` memory for ``K`` modes; ``O(N^3)`` time for components with at most 128 nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.engine.balanced_matching import BalancedScore
from tgp.engine.contraction import contract
from tgp.engine.laplacian_eigs import DENSE_SIZE, Effort, Rows
from tgp.engine.level_method import GraphSizes, LevelBound, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.pair_matching import Score, match_once, match_to_sizes
from tgp.engine.spectral_clusters import cluster_modes, filter_rows
from tgp.engine.target_size import SizeParams
from tgp.engine.threads import run_over_ranges
from tgp.errors import ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray
from tgp.ragged.offsets import offsets

__all__ = ["METHOD", "LVParams"]

MODES = Effort(1e-2, 20, 0.001)
"""Rules for the eigenvectors of components with more than 2,000 nodes. Smaller ones are solved to a residual of 1e-5.

On DBLP the costs of edges differ by 0.2 % from those of exact eigenvectors, on a random graph without gaps in its spectrum by 9 %.
"""

LOST = 1e-9
"""Variation of a column of norm 1 after averaging below which only rounding errors are left."""


@dataclass(frozen=True)
class LVParams(SizeParams):
    """Parameters of the costs and the matching. Sizes and the coarse graph have those of
    :class:`~tgp.engine.target_size.SizeParams`.

    Args:
        num_modes: number of eigenvectors of each component, with the constant one.
        two_hop: merge nodes that stay alone with each other, if their cheapest edges lead to the same neighbour and the matching
            removes less than 30 % of the nodes. With a size and ``two_hop=False``, this is done where it removes less than 5 %.
        balanced: take edges whose two nodes have the fewest members first, and only then by cost, so that supernodes have
            similar sizes. It has no effect in the first round.
    """

    num_modes: int = 10
    two_hop: bool = True
    balanced: bool = False

    def __post_init__(self) -> None:
        value = self.num_modes
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 2:
            raise ParameterError(
                f"num_modes is out of range: expected a whole number >= 2, got {value!r}", field="num_modes"
            )
        super().__post_init__()


class _NegativeCosts:
    """Scores of edges: their negative costs. The basis of the modes is passed on from round to round.

    Args:
        num_modes: number of eigenvectors of each component.
    """

    def __init__(self, num_modes: int) -> None:
        self.num_modes = num_modes
        self.basis: FloatArray = np.empty((0, num_modes - 1))

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
        if cluster is None:
            modes = cluster_modes(rows, component, count, self.num_modes, False, MODES)
            self.basis = np.ascontiguousarray(modes[:, 1:])
        else:
            self.basis = _average(self.basis, cluster, graphs.num_nodes)
        members = np.argsort(component, kind="stable")
        member_ptr = offsets(np.bincount(component, minlength=count))
        smallest = 0.0 if cluster is None else LOST

        def orthonormalize(first: int, last: int) -> None:
            kernels.orthonormalize(*rows, members, member_ptr, first, last, smallest, self.basis)

        run_over_ranges(orthonormalize, offsets(np.diff(rows[0])[members])[member_ptr] + member_ptr)
        score, degree = np.empty(graphs.num_edges), _degrees(rows)

        def write_costs(first: int, last: int) -> None:
            kernels.edge_costs(graphs.indptr, graphs.indices, degree, self.basis, first, last, score)

        run_over_ranges(write_costs, graphs.indptr)
        np.negative(score, out=score)
        score[~positive] = -np.inf
        return score


def _degrees(rows: Rows) -> FloatArray:
    """Return the sum of the weights of each row without self loops."""
    from tgp.kernels import local_matching

    degree = np.empty(len(rows[0]) - 1)

    def add(first: int, last: int) -> None:
        local_matching.weighted_degree(*rows, True, first, last, degree)

    run_over_ranges(add, rows[0])
    return degree


def _average(basis: FloatArray, cluster: IndexArray, num_clusters: int) -> FloatArray:
    """Return the mean of the rows of each cluster."""
    sizes = np.bincount(cluster, minlength=num_clusters)
    columns = [np.bincount(cluster, column, num_clusters) / sizes for column in basis.T]
    return np.ascontiguousarray(np.stack(columns, 1))


def assign(block: BlockCSR, params: LVParams, key: RandomKey) -> Assignment:
    """Merge pairs of nodes, once or until the size is reached.

    Edges count in both directions: the weight between two nodes is half of the sum of all stored ones. An unweighted edge counts
    1, and in further rounds the edges between two supernodes are counted. Edges of weight 0 or less are taken last. Self loops
    have no effect. Equal costs are ordered by a hash. With ``ratios`` the result is the first level.

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


def assign_levels(block: BlockCSR, params: LVParams, key: RandomKey, num_levels: int) -> list[Assignment]:
    """Return the nested levels of the ratios. The eigenvectors are computed once.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.
        num_levels: number of levels.
    """
    return match_to_sizes(block, params, key, _score_function(params), num_levels, two_hop=params.two_hop)


def _score_function(params: LVParams) -> Score:
    costs = _NegativeCosts(int(params.num_modes))
    return BalancedScore(costs) if params.balanced else costs


def connect(block: BlockCSR, assignment: Assignment, params: LVParams) -> BlockCSR:
    """Return the graphs with the supernodes contracted."""
    return contract(block, assignment, params.contract_options())


def cost(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], params: LVParams
) -> npt.NDArray[np.float64]:
    """Estimate the work: cubic for the dense solver of small graphs, linear with a large constant for large graphs."""
    work = np.minimum(nodes, DENSE_SIZE) ** 3 / 8.0 + 1500.0 * np.maximum(nodes - DENSE_SIZE, 0)
    return np.asarray(work + 10.0 * (nodes + edges), np.float64)


def bound(sizes: GraphSizes, params: LVParams) -> LevelBound:
    """Bound time and memory of the eigensolver for the size of a graph, and of the matching."""
    k = int(params.num_modes)
    nodes, edges = sizes.nodes.astype(np.float64), sizes.edges.astype(np.float64)
    dense = nodes <= max(DENSE_SIZE, 5 * k)
    iterative = (120.0 + 2.0 * k * k) * nodes + (2.0 + 0.2 * k) * edges
    seconds = 1e-6 * np.where(dense, 0.02 * nodes**3 + edges, iterative) + 1e-7 * (nodes + edges)
    memory = np.where(dense, 40.0 * nodes**2, 0.0) + (260.0 * (k + 6) + 500.0) * nodes + 190.0 * edges
    return LevelBound(seconds, memory, sizes.nodes, sizes.edges)


def _has_ratios(params: LVParams) -> bool:
    return bool(params.ratios)


METHOD = LevelMethod(
    "lv",
    LVParams,
    assign,
    connect,
    assign_levels,
    cost=cost,
    builds_levels=_has_ratios,
    estimate=LevelEstimate(0.55, 0.6, scratch=2000.0),
    bound=bound,
    contracts=True,
)
