r"""Algebraic multigrid: coarse nodes from which the other nodes are interpolated, and the Galerkin product of the Laplacian.

A level has an interpolation matrix :math:`\mathbf{P}` with several weights per node, whose rows sum to 1. The Laplacian of the coarse graph is

.. math::
    \mathbf{L}' = \mathbf{P}^\top \mathbf{L} \mathbf{P} , \qquad \mathbf{L} = \mathbf{D} - \mathbf{A} .

The supernodes come from `"PyAMG: Algebraic Multigrid Solvers in Python" <https://doi.org/10.21105/joss.04142>`_ (JOSS 2022): by the
splitting of Ruge and Stuben (`"Algebraic Multigrid" <https://doi.org/10.1137/1.9781611971057.ch4>`_, SIAM 1987), by aggregation
(`"Algebraic Multigrid by Smoothed Aggregation" <https://doi.org/10.1007/BF02238511>`_, Computing 1996), or by Lloyd clustering of the graph, which
has exactly the number of supernodes that is asked for. After a splitting, a node :math:`i` that is not a center has the weights

.. math::
    \mathbf{P}_{ic} = \frac{\mathbf{A}_{ic}}{\sum_{d \in C_i} \mathbf{A}_{id}}

of the centers :math:`C_i` to which it has strong edges. Clusters with the assignment :math:`\mathbf{S}` are smoothed along strong edges,

.. math::
    \mathbf{P} = (\mathbf{I} - \frac{1}{3} \mathbf{D}^{-1} \mathbf{L}) \, \mathbf{S} .

The assignment of the level has one supernode per node, the one of the largest weight. The function
``tgp.engine.methods.amg.interpolation(block, assignment, params)`` returns :math:`\mathbf{P}`. The method needs an optional
package: ``pip install 'tgp-coarsen[amg]'``.

Good for:
    Solvers and models on meshes, grids and other graphs of small degree, whose coarse operator must act like the fine one on smooth
    values. Any ratio or number of supernodes, exactly: ``amg:ratio=0.1``.

Avoid when:
    Coarse weights must be positive, or must be sums of edge weights (``hem``). The graph has hubs: the coarse graph becomes dense. The
    package pyamg cannot be installed.

Complexity:
    ``O(N + E)`` memory, and about as much time for ``kind=rs`` and ``kind=sa``. The time of ``kind=lloyd`` also grows with the radius of the clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from tgp.engine.amg_backend import (
    check_pyamg,
    classical_weights,
    cluster_around_centers,
    find_aggregates,
    split_graphs,
)
from tgp.engine.interpolation import (
    StrongGraph,
    find_strong_edges,
    galerkin_graph,
    interpolate_from_centers,
    smooth_clusters,
    spread_centers,
)
from tgp.engine.large_ranking import number_clusters
from tgp.engine.level_method import GraphSizes, LevelBound, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.pair_matching import draw_codes
from tgp.engine.parameter_checks import check_choice, check_share, check_whole
from tgp.engine.target_size import SizeParams, component_targets, count_kept
from tgp.errors import InputError, ParameterError
from tgp.kernels.array_types import BoolArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray
from tgp.ragged.offsets import offsets

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["METHOD", "AMGParams", "interpolation"]

Kind = Literal["auto", "rs", "sa", "lloyd"]
Weights = Literal["auto", "direct", "classical", "smoothed", "constant"]

_WEIGHTS: dict[str, tuple[Weights, ...]] = {
    "rs": ("direct", "classical", "constant"),
    "sa": ("smoothed", "constant"),
    "lloyd": ("smoothed", "constant"),
}
"""Values of ``weights`` of each kind, the default first."""

_RATIO = 0.1
"""Ratio of ``kind=lloyd`` if no size is given."""


@dataclass(frozen=True)
class AMGParams:
    """Parameters of the coarse nodes and of the interpolation.

    Args:
        kind: how supernodes are made. ``rs``: Ruge-Stuben splitting into centers and other nodes. ``sa``: aggregates of neighbours, as
            in smoothed aggregation. ``lloyd``: clusters around centers that move to the middle of their clusters; edges have
            the length 1 / weight. ``auto``: ``lloyd`` if ``ratio`` or ``nodes`` is given, otherwise ``rs``.
        ratio: supernodes / nodes, in (0, 1], for ``lloyd`` only. A connected component with ``n`` nodes gets exactly ``ceil(ratio * n)``
            supernodes. Default 0.1 if ``nodes`` is not given.
        nodes: number of supernodes of each graph, for ``lloyd`` only, divided among the components as in ``hem``.
        strength: an edge is strong for a node if its weight is at least this share of the largest weight of the node, in
            [0, 1]. ``sa`` uses edges that are strong for one of their ends. ``lloyd`` makes clusters from all edges.
        weights: rule of the interpolation weights. ``direct`` (``rs``): the weights of the strong edges to centers.
            ``classical`` (``rs``): the same, with the weights of strong edges to other nodes passed on to the centers that both have in
            common. ``smoothed`` (``sa``, ``lloyd``): one smoothing step of the clusters. ``constant``: one weight per node, so that coarse
            weights are sums of edge weights. ``auto``: ``direct`` or ``smoothed``.
        entries: largest number of weights per node. The smaller ones are left out, and the others are scaled to the sum 1.
    """

    kind: Kind = "auto"
    ratio: float | None = None
    nodes: int | None = None
    strength: float = 0.25
    weights: Weights = "auto"
    entries: int = 4

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, Kind)
        check_choice("weights", self.weights, Weights)
        self.size  # noqa: B018 - checks ratio and nodes
        for name in ("ratio", "nodes"):
            if getattr(self, name) is not None and self.kind in ("rs", "sa"):
                raise ParameterError(
                    f"{name} is not supported by kind={self.kind}, which finds the number of supernodes itself: expected "
                    f"kind=lloyd, got {name}={getattr(self, name)}",
                    field=name,
                    hint=f"amg:{name}={getattr(self, name)} uses kind=lloyd",
                )
        check_share("strength", self.strength, zero=True)
        usable = _WEIGHTS[self.used_kind]
        if self.weights != "auto" and self.weights not in usable:
            raise ParameterError(
                f"weights does not fit kind={self.used_kind}: expected one of {', '.join(usable)}, got {self.weights!r}",
                field="weights",
            )
        check_whole("entries", self.entries)

    @property
    def used_kind(self) -> str:
        """The kind that ``auto`` stands for."""
        if self.kind != "auto":
            return self.kind
        return "rs" if self.ratio is None and self.nodes is None else "lloyd"

    @property
    def used_weights(self) -> Weights:
        """The rule that ``auto`` stands for."""
        return _WEIGHTS[self.used_kind][0] if self.weights == "auto" else self.weights

    @property
    def num_entries(self) -> int:
        """Largest number of entries of a row of the interpolation matrix."""
        return 1 if self.used_weights == "constant" else int(self.entries)

    @property
    def size(self) -> SizeParams:
        """The size of Lloyd clustering."""
        ratio = _RATIO if self.ratio is None and self.nodes is None else self.ratio
        return SizeParams(ratio=ratio, nodes=self.nodes)


def assign(block: BlockCSR, params: AMGParams, key: RandomKey) -> Assignment:
    """Choose centers or make aggregates, and assign every node to the supernode of its largest interpolation weight.

    Edges count in both directions: the weight between two nodes is half of the sum of all stored ones. An unweighted edge counts
    1. Edges of weight 0 or less and self loops have no effect. A node without edges is a supernode. Supernodes never join two
    components, and a connected graph stays connected. ``rs`` and ``sa`` depend on the order of the nodes and use no random numbers.
    ``lloyd`` starts with random centers.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.

    Returns:
        A hard assignment with the centers as representatives. Supernodes are numbered by their center for ``rs``, otherwise by their
        smallest node.

    Raises:
        MissingPackageError: if pyamg is not installed.
        GraphError: if there are too many edges for it.
    """
    strong = find_strong_edges(block, params.strength)
    check_pyamg(strong.graphs.num_edges)
    if params.used_kind == "rs":
        is_center = spread_centers(strong, split_graphs(strong))
        column = offsets(is_center)
        first = _interpolate_centers(strong, is_center, params, 1)
        return Assignment(
            "hard",
            column[block.node_ptr],
            first.indices.astype(np.int32),
            representative=np.flatnonzero(is_center).astype(np.int32),
        )
    if params.used_kind == "sa":
        root = find_aggregates(strong)
    else:
        root = cluster_around_centers(strong, _draw_centers(strong, params, key))
    found = number_clusters(root, block.node_ptr)
    assert found.cluster is not None
    centers = np.flatnonzero(root == np.arange(len(root))).astype(np.int32)
    representative = np.empty(found.num_supernodes, np.int32)
    representative[found.cluster[centers]] = centers
    return Assignment("hard", found.super_ptr, found.cluster, representative=representative)


def connect(block: BlockCSR, assignment: Assignment, params: AMGParams) -> BlockCSR:
    """Return the graphs whose Laplacians are ``P^T L P``."""
    strong = find_strong_edges(block, params.strength)
    return galerkin_graph(strong, _interpolate(strong, assignment, params), assignment)


def interpolation(block: BlockCSR, assignment: Assignment, params: AMGParams | None = None) -> csr_array:
    """Return the interpolation matrix of a level.

    Args:
        block: the graphs of the level before.
        assignment: the assignment of their nodes, with representatives. Without them, the weights are those of smoothed
            clusters.
        params: parameters of the level; default ``AMGParams()``.

    Returns:
        ``[N, K]`` matrix with non-negative entries, whose rows sum to 1. Rows of dropped nodes are empty.

    Raises:
        InputError: if the assignment does not fit the graphs.

    Examples:
        >>> from tgp.testing.graphs import path
        >>> pairs = Assignment("hard", np.array([0, 2]), np.array([0, 0, 1]), representative=np.array([0, 2]))
        >>> interpolation(path(3), pairs).toarray().tolist()
        [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    params = params or AMGParams()
    return _interpolate(find_strong_edges(block, params.strength), assignment, params)


def _interpolate(strong: StrongGraph, assignment: Assignment, params: AMGParams) -> csr_array:
    assignment.validate(strong.graphs.node_ptr)
    centers, cluster = assignment.representative, assignment.cluster
    if cluster is None:
        raise InputError(
            "assignment is not hard: expected one supernode per node, got a matrix", field="assignment"
        )
    if params.used_kind != "rs" or centers is None:
        return smooth_clusters(strong, assignment, params.num_entries)
    inside = not len(centers) or (centers[0] >= 0 and centers[-1] < len(cluster))
    if (np.diff(centers) <= 0).any() or not inside or (cluster[centers] != np.arange(len(centers))).any():
        raise InputError(
            "representatives are not centers: expected a member of each supernode, in ascending order",
            field="assignment",
        )
    is_center = np.zeros(strong.graphs.num_nodes, np.bool_)
    is_center[centers] = True
    return _interpolate_centers(strong, is_center, params, params.num_entries)


def _interpolate_centers(
    strong: StrongGraph, is_center: BoolArray, params: AMGParams, entries: int
) -> csr_array:
    """Return the interpolation matrix of a splitting."""
    is_classical = params.used_weights == "classical"
    weights = classical_weights(strong, is_center) if is_classical else None
    return interpolate_from_centers(strong, is_center, entries, weights)


def _draw_centers(strong: StrongGraph, params: AMGParams, key: RandomKey) -> IndexArray:
    """Return random centers, as many in each component as it has supernodes, in ascending order."""
    from tgp.kernels import csr

    graphs = strong.graphs
    label, component_ptr = csr.components(graphs.indptr, graphs.indices, graphs.node_ptr)
    sizes = np.bincount(label, minlength=component_ptr[-1])
    targets = component_targets(sizes, component_ptr, params.size)
    order = np.lexsort((draw_codes(graphs, key, 0), label))
    rank = np.arange(len(order)) - offsets(sizes)[label[order]]
    return np.sort(order[rank < targets[label[order]]]).astype(np.int32)


def cost(nodes: LongArray, edges: LongArray, params: AMGParams) -> FloatArray:
    """Estimate the work: sorting and matrix products, and a call of the package for each graph."""
    return np.asarray(5000.0 + 30.0 * (nodes + edges), np.float64)


def bound(sizes: GraphSizes, params: AMGParams) -> LevelBound:
    """Bound time and memory. A coarse edge joins two of the ``entries`` supernodes of the ends of an edge.

    Lloyd clustering visits all edges once per hop of the largest cluster.
    """
    nodes, edges = sizes.nodes.astype(np.float64), sizes.edges.astype(np.float64)
    entries = float(params.num_entries)
    work = nodes + edges
    visits = np.zeros(len(nodes))
    if params.used_kind == "lloyd":
        ratio, count = params.size.ratio, params.size.nodes
        clusters = (
            count_kept(sizes.nodes, ratio) if ratio is not None else np.minimum(sizes.nodes, count or 1)
        )
        visits = 0.1 * np.minimum(nodes, 4.0 * nodes / np.maximum(clusters, 1) * np.log2(nodes + 2.0))
    elif params.used_weights == "classical":
        visits = np.minimum(sizes.degree, np.sqrt(edges))
    most = np.minimum(nodes * nodes, entries * entries * work)
    seconds = 3e-4 + 1e-6 * work * (1.0 + 0.2 * entries) + 2e-8 * visits * work
    memory = (100.0 + 60.0 * entries) * work
    return LevelBound(seconds, memory, sizes.nodes, np.minimum(most, 2.0**62).astype(np.int64))


METHOD = LevelMethod(
    "amg",
    AMGParams,
    assign,
    connect,
    cost=cost,
    estimate=LevelEstimate(0.5, 1.0, weighted=True, scratch=600.0),
    representative="centers",
    bound=bound,
    revision=3,
    optional_package="pyamg",
)
