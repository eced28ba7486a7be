"""EigenPool: spectral clusters, each with the first eigenvectors of its own Laplacian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.engine.contraction import ContractOptions, contract
from tgp.engine.laplacian_eigs import DENSE, Rows, graph_modes, row_sums, sums
from tgp.engine.protocol import LevelEstimate, LevelMethod, RandomKey
from tgp.errors import ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = ["METHOD", "EigenParams", "modes_of", "spectral_labels"]

ROUNDS = 100
"""Most Lloyd rounds of one k-means run."""


@dataclass(frozen=True)
class EigenParams:
    """Parameters of the clusters, their modes, and the coarse graph.

    Args:
        k: supernodes per graph; a graph with fewer nodes gets empty ones.
        num_modes: eigenvectors per cluster.
        normalized: take the modes from the symmetric normalised Laplacian rather than ``D - A``.
        remove_self_loops: has no effect: edges inside a cluster never count.
        degree_norm: symmetric degree normalisation of the coarse graph.
        edge_weight_norm: divide coarse weights by the largest of their graph.
        restarts: how many seedings k-means tries.
    """

    k: int = 8
    num_modes: int = 5
    normalized: bool = True
    remove_self_loops: bool = True
    degree_norm: bool = True
    edge_weight_norm: bool = False
    restarts: int = 10

    def __post_init__(self) -> None:
        for name in ("k", "num_modes", "restarts"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ParameterError(f"{name} must be a whole number >= 1, got {value!r}", field=name)

    def options(self) -> ContractOptions:
        """The part that shapes the coarse graph. Unweighted edges count 1 each."""
        return ContractOptions(
            degree_norm=self.degree_norm, edge_weight_norm=self.edge_weight_norm, count_edges=True
        )


def assign(block: BlockCSR, params: EigenParams, draw: RandomKey) -> Assignment:
    """Spectral clustering of every graph, and the modes of every cluster.

    From "Graph Convolutional Networks with EigenPooling" (KDD 2019). Clusters and modes see the
    undirected graph ``max((A + A^T) / 2, 0)`` with parallel edges added up.

    Clusters: ``k`` lowest eigenvectors of the symmetric normalised Laplacian without self loops, divided by the
    root of the degree, then k-means. A graph with at most ``k`` nodes keeps them. Clusters are
    numbered by smallest member and none is empty, except those beyond the number of nodes.

    Modes (``theta[:, h]``): eigenvector ``h`` of the Laplacian of the cluster, which counts self loops. A cluster
    with fewer than ``num_modes`` nodes has zeros behind its last mode, so the modes of a node alone are
    ``1, 0, 0, ...`` and lifting is exact wherever all modes are kept.
    """
    rows = _affinity(block)
    label = spectral_labels(rows, block.node_ptr, params.k, params.restarts, draw)
    super_ptr = np.arange(block.num_graphs + 1, dtype=np.int64) * int(params.k)
    cluster = label + np.repeat(super_ptr[:-1], np.diff(block.node_ptr)).astype(np.int32)
    theta = modes_of(rows, cluster, int(super_ptr[-1]), params.num_modes, params.normalized)
    return Assignment("onehot", super_ptr, cluster, theta=theta)


def _affinity(block: BlockCSR) -> Rows:
    """``max((A + A^T) / 2, 0)`` without zeros, as compressed rows."""
    from tgp.kernels import csr

    indptr, indices, weight = csr.symmetrise(
        block.indptr, block.indices, block.weights_or_ones(), True, csr.SUM
    )
    row = np.repeat(np.arange(block.num_nodes, dtype=np.int32), np.diff(indptr))
    weight = np.where(row == indices, weight, 0.5 * weight)
    return (indptr, indices, weight) if (weight > 0).all() else _keep(indptr, indices, weight, weight > 0)


def _keep(indptr: PtrArray, indices: IndexArray, weight: FloatArray, keep: npt.NDArray[np.bool_]) -> Rows:
    """The entries where ``keep`` holds."""
    before = np.append(0, np.cumsum(keep))
    return before[indptr], indices[keep], weight[keep]


def spectral_labels(
    rows: Rows, node_ptr: PtrArray, k: int, restarts: int = 10, draw: RandomKey | None = None
) -> IndexArray:
    """``[N]`` cluster of each node inside its graph, for a block of undirected affinities."""
    from tgp.kernels import kmeans, spectral_basis

    draw = draw or RandomKey()
    k = int(k)
    sizes = np.diff(node_ptr)
    local = np.arange(node_ptr[-1]) - np.repeat(node_ptr[:-1], sizes)
    label = np.where(np.repeat(sizes <= k, sizes), local, 0).astype(np.int32)
    split = np.flatnonzero(sizes > k)
    if k == 1 or len(split) == 0:
        return label
    points = np.zeros((len(label), k))
    large = sizes[split] > max(DENSE, 5 * k)
    spectral_basis.embed_graphs(*rows, node_ptr, split[~large], k, points)
    for g in split[large]:
        nodes = slice(node_ptr[g], node_ptr[g + 1])
        points[nodes] = _embed_large(_graph(rows, nodes), k)
    kmeans.kmeans_graphs(points, k, node_ptr, split, k, draw.seed, draw.level, restarts, ROUNDS, label)
    return label


def _graph(rows: Rows, nodes: slice) -> Rows:
    """One graph of a block, self loops left out."""
    indptr, indices, weight = rows
    entries = slice(indptr[nodes.start], indptr[nodes.stop])
    ptr = indptr[nodes.start : nodes.stop + 1] - indptr[nodes.start]
    inner = indices[entries] - np.int32(nodes.start)
    row = np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr))
    return _keep(ptr, inner, weight[entries], row != inner)


def _embed_large(rows: Rows, k: int) -> FloatArray:
    """Spectral coordinates ``[n, k]``, scaled as in :func:`~tgp.kernels.spectral_basis.embed_graphs`."""
    degree = row_sums(rows)
    mass = np.where(degree > 0, degree, 1.0)
    total = float(degree.sum())
    scale = np.sqrt(total if total > 0 else 1.0) / np.sqrt(mass)
    return np.ascontiguousarray((graph_modes(rows, mass, k) * scale).T)


def modes_of(
    rows: Rows, cluster: IndexArray, num_clusters: int, num_modes: int, normalized: bool
) -> npt.NDArray[np.float32]:
    """``[N, num_modes]`` first eigenvectors of the Laplacian of each cluster, for undirected affinities."""
    from tgp.kernels import spectral_basis

    theta = np.zeros((len(cluster), int(num_modes)), np.float32)
    members = np.argsort(cluster, kind="stable")
    sizes = np.bincount(cluster, minlength=num_clusters)
    member_ptr = np.append(0, np.cumsum(sizes))
    place = np.empty(len(cluster), np.int64)
    place[members] = np.arange(len(cluster)) - np.repeat(member_ptr[:-1], sizes)
    large = sizes > max(DENSE, 5 * num_modes)
    small = np.flatnonzero((sizes > 0) & ~large)
    spectral_basis.cluster_modes(*rows, members, member_ptr, cluster, place, small, normalized, theta)
    for c in np.flatnonzero(large):
        nodes = members[member_ptr[c] : member_ptr[c + 1]]
        theta[nodes] = _modes_of_large(rows, nodes, cluster, place, num_modes, normalized)
    return theta


def _modes_of_large(
    rows: Rows,
    nodes: npt.NDArray[np.int64],
    cluster: IndexArray,
    place: npt.NDArray[np.int64],
    num_modes: int,
    normalized: bool,
) -> FloatArray:
    """Modes ``[n, num_modes]`` of one large cluster."""
    from tgp.kernels.spectral_basis import NOISE

    indptr, indices, weight = rows
    counts = indptr[nodes + 1] - indptr[nodes]
    ptr = np.append(0, np.cumsum(counts))
    entries = np.arange(ptr[-1]) + np.repeat(indptr[nodes] - ptr[:-1], counts)
    inside = cluster[indices[entries]] == cluster[nodes[0]]
    row = np.repeat(np.arange(len(nodes), dtype=np.int32), counts)
    column = place[indices[entries]].astype(np.int32)
    value = weight[entries]
    mass = sums(row[inside], value[inside], len(nodes)) if normalized else np.ones(len(nodes))
    inner = _keep(ptr, column, value, inside & (row != column))
    out = np.zeros((len(nodes), num_modes))
    modes = graph_modes(inner, mass, num_modes)
    out[:, : len(modes)] = np.where(np.abs(modes) > NOISE, modes, 0.0).T
    return out


def connect(block: BlockCSR, assignment: Assignment, params: EigenParams) -> BlockCSR:
    """Contract the edges between clusters; those inside vanish, whatever the options say."""
    return contract(block, assignment, params.options())


def cost(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], params: EigenParams
) -> npt.NDArray[np.float64]:
    """Dense eigenvectors of small graphs are cubic; large graphs are linear, with a large constant."""
    work = np.minimum(nodes, DENSE) ** 3 / 8.0 + 2000.0 * np.maximum(nodes - DENSE, 0)
    return np.asarray(np.where(nodes > params.k, work, 1.0) + 10.0 * (nodes + edges), np.float64)


METHOD = LevelMethod(
    "eigen",
    EigenParams,
    assign,
    connect,
    cost=cost,
    expected=LevelEstimate(fixed_k=True, weighted=True, scratch=2000.0),
)
