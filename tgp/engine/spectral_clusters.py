"""Spectral clusters of the nodes of each graph: k-means of the lowest eigenvectors of the normalised Laplacian.

Also the eigenvectors of the subgraph of each cluster.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from tgp.engine.block_algebra import Rows, row_sums
from tgp.engine.laplacian_eigs import (
    CLUSTERING,
    DENSE_SIZE,
    EXACT,
    LARGE_CLUSTER,
    Effort,
    graph_modes,
    sum_by_index,
)
from tgp.engine.level_method import RandomKey
from tgp.engine.threads import run_over_ranges
from tgp.kernels.array_types import BoolArray, LongArray
from tgp.ragged import BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets, run_lengths, run_positions

__all__ = [
    "LARGE_GRAPH",
    "affinity_rows",
    "cluster_modes",
    "dense_work",
    "filter_rows",
    "spectral_labels",
]

LARGE_GRAPH = 2000
"""Number of nodes above which eigenvectors are computed less accurately, and k-means starts with a sample."""

LARGE_RESTARTS = 3
"""Largest number of k-means runs for a large graph. More runs give the same cut."""

MAX_ROUNDS = 100
"""Largest number of Lloyd iterations of one k-means run."""


def filter_rows(indptr: PtrArray, indices: IndexArray, weight: FloatArray, keep: BoolArray) -> Rows:
    """Return the rows with only those entries for which ``keep`` is True.

    Args:
        indptr, indices, weight: the rows.
        keep: ``[nnz]``.
    """
    return offsets(keep)[indptr], indices[keep], weight[keep]


def affinity_rows(block: BlockCSR) -> Rows:
    """Return the rows of ``max((A + A^T) / 2, 0)`` without zeros. Parallel edges are added up.

    Args:
        block: the graphs.
    """
    from tgp.kernels import csr

    indptr, indices, weight = csr.symmetrise(
        block.indptr, block.indices, block.weights_or_ones(), True, csr.SUM
    )
    row = np.repeat(np.arange(block.num_nodes, dtype=np.int32), run_lengths(indptr))
    weight = np.where(row == indices, weight, 0.5 * weight)
    return (
        (indptr, indices, weight) if (weight > 0).all() else filter_rows(indptr, indices, weight, weight > 0)
    )


def dense_work(sizes: LongArray) -> PtrArray:
    """Return offsets of the work of dense eigensolvers, for :func:`~tgp.engine.threads.run_over_ranges`.

    Args:
        sizes: number of rows of each matrix.
    """
    return offsets(sizes * (sizes * sizes // 8 + 8))


def spectral_labels(
    rows: Rows,
    node_ptr: PtrArray,
    k: int,
    restarts: int = 10,
    key: RandomKey | None = None,
    *,
    split_components: bool = True,
) -> IndexArray:
    """Return the spectral cluster of each node inside its graph.

    Args:
        rows: symmetric rows of non-negative affinities.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        k: number of clusters per graph.
        restarts: number of k-means runs with different starts, at most 3 for a large graph.
        key: key of the random starts.
        split_components: divide the clusters of a graph with more than ``k`` components among them, see
            :func:`divide_clusters`. Otherwise ``k - 1`` of its components are clusters, and the rest is one cluster.

    Returns:
        ``[N]`` int32 labels from 0 to ``k - 1``.
    """
    key = key or RandomKey()
    k = int(k)
    sizes = run_lengths(node_ptr)
    local = run_positions(node_ptr)
    label = np.where(np.repeat(sizes <= k, sizes), local, 0).astype(np.int32)
    clustered = np.flatnonzero(sizes > k)
    if k == 1 or len(clustered) == 0:
        return label
    if split_components:
        from tgp.kernels import csr

        component, component_ptr = csr.components(rows[0], rows[1], node_ptr)
        many = run_lengths(component_ptr)[clustered] > k
        for g in clustered[many]:
            nodes = slice(int(node_ptr[g]), int(node_ptr[g + 1]))
            label[nodes] = _cluster_components(
                rows, nodes, component[nodes] - component_ptr[g], k, restarts, key
            )
        clustered = clustered[~many]
    large = sizes[clustered] > max(DENSE_SIZE, 5 * k, LARGE_GRAPH)
    _cluster_small(rows, node_ptr, clustered[~large], k, restarts, key, label)
    for g in clustered[large]:
        from tgp.kernels import kmeans

        nodes = slice(int(node_ptr[g]), int(node_ptr[g + 1]))
        points = _embed(_graph_rows(rows, nodes), k)
        runs = min(restarts, LARGE_RESTARTS)
        label[nodes] = kmeans.kmeans_large(points, k, key.seed, key.level, runs, MAX_ROUNDS)[0]
    return label


def _cluster_small(
    rows: Rows, node_ptr: PtrArray, graphs: PtrArray, k: int, restarts: int, key: RandomKey, label: IndexArray
) -> None:
    """Write the labels of small graphs, on several threads."""
    if len(graphs) == 0:
        return
    from tgp.kernels import kmeans, spectral_basis

    points = np.zeros((len(label), k))
    sizes = run_lengths(node_ptr)[graphs]
    dense = graphs[sizes <= max(DENSE_SIZE, 5 * k)]
    for g in graphs[sizes > max(DENSE_SIZE, 5 * k)]:
        nodes = slice(int(node_ptr[g]), int(node_ptr[g + 1]))
        points[nodes] = _embed(_graph_rows(rows, nodes), k)

    def embed(first: int, last: int) -> None:
        spectral_basis.embed_graphs(*rows, node_ptr, dense[first:last], points)

    def cluster(first: int, last: int) -> None:
        some = graphs[first:last]
        kmeans.kmeans_graphs(points, k, node_ptr, some, k, key.seed, key.level, restarts, MAX_ROUNDS, label)

    if len(dense):
        _run_dense(embed, run_lengths(node_ptr)[dense])
    run_over_ranges(cluster, offsets(sizes * k * restarts))


def _run_dense(kernel: Callable[[int, int], None], sizes: LongArray) -> None:
    """Call ``kernel(first, last)`` for ranges of matrices of the given sizes, which dense eigensolvers solve."""
    if len(sizes) == 1:
        kernel(0, 1)
    else:
        run_over_ranges(kernel, dense_work(sizes))


def _graph_rows(rows: Rows, nodes: slice) -> Rows:
    """Return the rows of one graph of a block without self loops."""
    indptr, indices, weight = rows
    entries = slice(indptr[nodes.start], indptr[nodes.stop])
    ptr = indptr[nodes.start : nodes.stop + 1] - indptr[nodes.start]
    inner = indices[entries] - np.int32(nodes.start)
    row = np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), run_lengths(ptr))
    return filter_rows(ptr, inner, weight[entries], row != inner)


def _embed(rows: Rows, k: int) -> FloatArray:
    """Return spectral coordinates ``[n, k]``, scaled as in :func:`~tgp.kernels.spectral_basis.embed_graphs`."""
    degree = row_sums(*rows)
    mass = np.where(degree > 0, degree, 1.0)
    total = float(degree.sum())
    scale = np.sqrt(total if total > 0 else 1.0) / np.sqrt(mass)
    effort = CLUSTERING if len(mass) > LARGE_GRAPH else EXACT
    return np.ascontiguousarray((graph_modes(rows, mass, k, effort) * scale).T)


def divide_clusters(sizes: LongArray, k: int) -> tuple[LongArray, IndexArray]:
    """Divide ``k`` clusters among more than ``k`` components.

    A component with at least ``n / k`` of the ``n`` nodes gets clusters of its own. Their number is proportional to its size
    (method of Sainte-Lague, at least one). The other components share the remaining clusters: largest first, each joins the
    cluster with the fewest nodes.

    Args:
        sizes: ``[C]`` number of nodes of each component.
        k: number of clusters, less than ``C``.

    Returns:
        ``[C]`` number of clusters of each component, 0 if it shares a cluster, and ``[C]`` number of its shared cluster, -1
        if it has clusters of its own.

    Examples:
        >>> divide_clusters(np.array([60, 1, 30, 1, 1]), 4)
        (array([2, 0, 1, 0, 0]), array([-1,  0, -1,  0,  0], dtype=int32))
    """
    alone = np.flatnonzero(sizes * k >= sizes.sum())
    together = np.flatnonzero(sizes * k < sizes.sum())
    party = np.append(sizes[alone], sizes[together].sum())
    most = np.append(sizes[alone], len(together))
    seats = np.ones(len(party), np.int64)
    for _ in range(k - len(party)):
        seats[np.argmax(np.where(seats < most, party / (2 * seats + 1), -1.0))] += 1
    own = np.zeros(len(sizes), np.int64)
    own[alone] = seats[:-1]
    shared = np.full(len(sizes), -1, np.int32)
    load = [(0, cluster) for cluster in range(seats[-1])]
    for c in together[np.argsort(-sizes[together], kind="stable")]:
        nodes, cluster = load[0]
        heapq.heapreplace(load, (nodes + int(sizes[c]), cluster))
        shared[c] = cluster
    return own, shared


def _cluster_components(
    rows: Rows, nodes: slice, component: IndexArray, k: int, restarts: int, key: RandomKey
) -> IndexArray:
    """Return the labels of a graph with more than ``k`` components, numbered by their smallest nodes."""
    from tgp.kernels.kmeans import number_by_first

    own, shared = divide_clusters(np.bincount(component), k)
    label = shared[component]
    count = int(shared.max()) + 1
    rename = np.empty(len(component), np.int32)
    indptr, indices, weight = _graph_rows(rows, nodes)
    for c in np.flatnonzero(own):
        members = np.flatnonzero(component == c)
        rename[members] = np.arange(len(members), dtype=np.int32)
        inside = np.repeat(component == c, run_lengths(indptr))
        part: Rows = (
            offsets(run_lengths(indptr)[members]), rename[indices[inside]], weight[inside]
        )  # fmt: skip
        label[members] = count + spectral_labels(
            part, np.array([0, len(members)]), int(own[c]), restarts, key, split_components=False
        )
        count += int(own[c])
    return number_by_first(label, k)


def cluster_modes(
    rows: Rows,
    cluster: IndexArray,
    num_clusters: int,
    num_modes: int,
    normalized: bool,
    effort: Effort = LARGE_CLUSTER,
) -> FloatArray:
    """Return the first eigenvectors of the Laplacian of each cluster.

    Args:
        rows: symmetric rows of non-negative affinities.
        cluster: ``[N]`` cluster of each node.
        num_clusters: number of clusters.
        num_modes: number of eigenvectors per cluster.
        normalized: use the symmetric normalised Laplacian instead of ``D - A``.
        effort: rules that end the iteration on a cluster of more than 2,000 nodes.

    Returns:
        ``[N, num_modes]`` values. A cluster has zeros after its last mode.
    """
    from tgp.kernels import spectral_basis

    theta = np.zeros((len(cluster), int(num_modes)))
    members = np.argsort(cluster, kind="stable")
    sizes = np.bincount(cluster, minlength=num_clusters)
    member_ptr = offsets(sizes)
    position = np.empty(len(cluster), np.int64)  # of each node in its cluster
    position[members] = run_positions(member_ptr)
    large = sizes > max(DENSE_SIZE, 5 * num_modes)
    small = np.flatnonzero((sizes > 0) & ~large)

    def run(first: int, last: int) -> None:
        some = small[first:last]
        spectral_basis.cluster_modes(*rows, members, member_ptr, cluster, position, some, normalized, theta)

    _run_dense(run, sizes[small])
    for c in np.flatnonzero(large):
        nodes = members[member_ptr[c] : member_ptr[c + 1]]
        theta[nodes] = _large_cluster_modes(rows, nodes, cluster, position, num_modes, normalized, effort)
    return theta


def _large_cluster_modes(
    rows: Rows,
    nodes: LongArray,
    cluster: IndexArray,
    position: LongArray,
    num_modes: int,
    normalized: bool,
    effort: Effort,
) -> FloatArray:
    """Return the modes ``[n, num_modes]`` of one large cluster."""
    from tgp.kernels.spectral_basis import NOISE

    indptr, indices, weight = rows
    counts = indptr[nodes + 1] - indptr[nodes]
    ptr = offsets(counts)
    entries = np.arange(ptr[-1]) + np.repeat(indptr[nodes] - ptr[:-1], counts)
    inside = cluster[indices[entries]] == cluster[nodes[0]]
    row = np.repeat(np.arange(len(nodes), dtype=np.int32), counts)
    column = position[indices[entries]].astype(np.int32)
    value = weight[entries]
    mass = sum_by_index(row[inside], value[inside], len(nodes)) if normalized else np.ones(len(nodes))
    inner = filter_rows(ptr, column, value, inside & (row != column))
    out = np.zeros((len(nodes), num_modes))
    modes = graph_modes(inner, mass, num_modes, effort if len(nodes) > LARGE_GRAPH else EXACT)
    out[:, : len(modes)] = np.where(np.abs(modes) > NOISE, modes, 0.0).T
    return out
