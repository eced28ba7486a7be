r"""EigenPool: spectral clusters, each with the first eigenvectors of its own Laplacian.

From `"Graph Convolutional Networks with EigenPooling" <https://arxiv.org/abs/1904.13107>`_ (KDD 2019). Features are pooled
with the eigenvectors of the subgraph of each cluster :math:`c`: mode :math:`h` of the pooled features is

.. math::
    \mathbf{X}'_{c,h} = \sum_{i \in c} \theta_{i,h} \mathbf{X}_i , \qquad
    \mathbf{L}^{(c)} \theta_h = \lambda_h \theta_h .
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tgp.engine.contraction import ContractOptions, contract, make_options
from tgp.engine.laplacian_eigs import DENSE_SIZE
from tgp.engine.level_method import ADDED, GraphSizes, LevelBound, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.parameter_checks import check_whole
from tgp.engine.spectral_clusters import LARGE_GRAPH, affinity_rows, cluster_modes, spectral_labels
from tgp.kernels.array_types import FloatArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.offsets import run_lengths

__all__ = ["METHOD", "EigenParams"]


@dataclass(frozen=True)
class EigenParams:
    """Parameters of the clusters, their modes, and the coarse graph.

    Args:
        k: number of supernodes per graph. A graph with fewer nodes gets empty supernodes.
        num_modes: number of eigenvectors per cluster.
        normalized: compute the modes from the symmetric normalised Laplacian instead of ``D - A``.
        remove_self_loops: has no effect, because edges inside a cluster are always removed.
        degree_norm: normalise the coarse graph symmetrically by its degrees.
        edge_weight_norm: divide the coarse weights of each graph by the largest one.
        restarts: number of k-means runs with different starts; the best one is used.
        split_components: divide the supernodes of a graph with more than ``k`` components among them by size. Otherwise
            ``k - 1`` components are supernodes, and the rest is one supernode.
    """

    k: int = 8
    num_modes: int = 5
    normalized: bool = True
    remove_self_loops: bool = True
    degree_norm: bool = True
    edge_weight_norm: bool = False
    restarts: int = 10
    split_components: bool = field(default=True, metadata=ADDED)

    def __post_init__(self) -> None:
        for name in ("k", "num_modes", "restarts"):
            check_whole(name, getattr(self, name))

    def contract_options(self) -> ContractOptions:
        """Return the options of the contraction. Unweighted edges count 1 each."""
        return make_options(
            degree_norm=self.degree_norm, edge_weight_norm=self.edge_weight_norm, count_edges=True
        )


def assign(block: BlockCSR, params: EigenParams, key: RandomKey) -> Assignment:
    """Compute spectral clusters of every graph and the modes of every cluster.

    Both are computed from the undirected graph ``max((A + A^T) / 2, 0)``, with parallel edges added up.

    Clusters: k-means of the ``k`` lowest eigenvectors of the symmetric normalised Laplacian without self loops, divided
    by the square root of the degree. A graph with at most ``k`` nodes keeps them. Clusters are numbered by their
    smallest node. None is empty, except those beyond the number of nodes. The supernodes of a graph with more than ``k``
    components are divided among the components, see :func:`~tgp.engine.spectral_clusters.divide_clusters`.

    Modes: ``theta[:, h]`` is eigenvector ``h`` of the Laplacian of the cluster, which includes self loops. A cluster
    with fewer than ``num_modes`` nodes has zeros after its last mode. The modes of a single node are ``1, 0, 0, ...``,
    and lifting is exact if all modes are kept.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random starts of k-means.

    Returns:
        A one-hot assignment with ``k`` columns and ``theta``.
    """
    rows = affinity_rows(block)
    label = spectral_labels(
        rows, block.node_ptr, params.k, params.restarts, key, split_components=params.split_components
    )
    super_ptr = np.arange(block.num_graphs + 1, dtype=np.int64) * int(params.k)
    cluster = label + np.repeat(super_ptr[:-1], run_lengths(block.node_ptr)).astype(np.int32)
    theta = cluster_modes(rows, cluster, int(super_ptr[-1]), params.num_modes, params.normalized)
    return Assignment("onehot", super_ptr, cluster, theta=theta.astype(np.float32))


def cost(nodes: LongArray, edges: LongArray, params: EigenParams) -> FloatArray:
    """Estimate the work: cubic for the dense solver of small graphs, linear with a large constant for large graphs."""
    work = np.minimum(nodes, DENSE_SIZE) ** 3 / 8.0 + 2000.0 * np.maximum(nodes - DENSE_SIZE, 0)
    return np.asarray(np.where(nodes > params.k, work, 1.0) + 10.0 * (nodes + edges), np.float64)


def bound(sizes: GraphSizes, params: EigenParams) -> LevelBound:
    """Bound time and memory of the eigensolver for the size of a graph, of k-means, and of the modes."""
    k = params.k
    nodes, edges = sizes.nodes.astype(np.float64), sizes.edges.astype(np.float64)
    dense = nodes <= max(DENSE_SIZE, 5 * k)
    exact = 120.0 + 2.0 * k * k + 0.1 * params.restarts * k * k
    fast = 100.0 + 4.0 * k + 0.1 * k * k
    iterative = np.where(nodes <= LARGE_GRAPH, exact, fast) * nodes + (2.0 + 0.2 * k) * edges
    direct = 0.02 * nodes**3 + 0.1 * params.restarts * k * k * nodes + edges
    small_modes = 0.02 * DENSE_SIZE**2 * np.minimum(nodes, DENSE_SIZE * k)
    seconds = 1e-6 * np.where(dense, direct, iterative + small_modes)
    columns = np.where(nodes <= LARGE_GRAPH, 260.0, 120.0) * (k + params.num_modes + 6) + 500.0
    memory = np.where(dense, 40.0 * nodes**2, 0.0) + columns * nodes + 150.0 * edges
    supernodes = np.full(len(nodes), k)
    return LevelBound(seconds, memory, supernodes, np.minimum(sizes.edges, supernodes**2))


METHOD = LevelMethod(
    "eigen",
    EigenParams,
    assign,
    contract,
    cost=cost,
    estimate=LevelEstimate(weighted=True, scratch=2000.0),
    dense=True,
    bound=bound,
    revision=2,
    contracts=True,
    one_core="the smoothing of the eigenvectors and k-means",
)
