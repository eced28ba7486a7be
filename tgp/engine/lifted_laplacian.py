r"""Errors of clusters in the conventions of the literature on graph reduction. Needs no torch, and no numba for small graphs.

Let :math:`L = D - A` be the combinatorial Laplacian of an undirected graph (see :mod:`tgp.engine.spectrum`), and :math:`C` the
matrix of the clusters, one column per supernode, with columns scaled to norm 1. Then :math:`\Pi = C C^\top` replaces every value
of a signal by the mean of its cluster. The size-weighted Laplacian of the coarse graph is :math:`L_c = C^\top L C`, and the lifted one is
:math:`L_\Pi = C L_c C^\top = \Pi L \Pi`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tgp.engine.laplacian_eigs import sum_by_index
from tgp.engine.spectrum import Components, Spectrum, dense_laplacians
from tgp.kernels.array_types import Array, BoolArray, LongArray
from tgp.ragged.block import FloatArray, PtrArray
from tgp.ragged.offsets import run_ids

__all__ = ["Clusters", "hyperbolic_errors", "reconstruction_errors", "restricted_approximations"]

COLUMNS_AT_ONCE = 64
"""Number of columns of the signals that are processed together."""

ROUNDING = 1e-12
"""Share of a sum below which a difference of it is only a rounding error."""

TIE = 1e-8
"""Relative difference below which two eigenvalues count as equal."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of the nodes of a block.

    Args:
        cluster: ``[N]`` supernode of each node, counted over the block; -1 for a dropped node.
        num_clusters: number of supernodes.
    """

    cluster: LongArray
    num_clusters: int

    def project(self, signals: FloatArray) -> FloatArray:
        """Replace every row of ``[N, F]`` signals by the mean of its cluster. A dropped node gets 0."""
        members = self.indicator()
        size = np.maximum(np.asarray(members.sum(axis=0)).reshape(-1), 1.0)
        mean: FloatArray = members @ ((members.T @ signals) / size[:, None])
        return mean

    def indicator(self) -> Any:
        """Return the sparse matrix ``[N, K]`` with a 1 for the supernode of each node."""
        from scipy.sparse import csr_array

        kept = np.flatnonzero(self.cluster >= 0)
        shape = (len(self.cluster), self.num_clusters)
        return csr_array((np.ones(len(kept)), (kept, self.cluster[kept])), shape=shape)

    def sizes(self) -> FloatArray:
        """Return ``[K]`` numbers of members, 1 for an empty supernode."""
        counts = np.bincount(self.cluster[self.cluster >= 0], minlength=self.num_clusters)
        return np.maximum(counts, 1).astype(np.float64)

    def undefined(self, node_ptr: PtrArray) -> BoolArray:
        """Return ``[B]`` True for graphs with dropped nodes."""
        owner = run_ids(node_ptr)
        dropped: BoolArray = np.bincount(owner[self.cluster < 0], minlength=len(node_ptr) - 1) > 0
        return dropped


def _squares(
    adjacency: Any, degree: FloatArray, scale: FloatArray, owner: LongArray, graphs: int
) -> tuple[FloatArray, FloatArray]:
    """Return the squared Frobenius norm and the trace of ``scale (D - A) scale`` for each graph."""
    entries = adjacency.tocoo()
    diagonal = entries.row == entries.col
    trace_terms = (degree - adjacency.diagonal()) * scale**2
    inner = np.where(diagonal, 0.0, entries.data * scale[entries.row] * scale[entries.col])
    norm = sum_by_index(owner[entries.row], inner**2, graphs) + sum_by_index(owner, trace_terms**2, graphs)
    return norm, sum_by_index(owner, trace_terms, graphs)


def _row_sums(matrix: Any) -> FloatArray:
    return np.asarray(matrix.sum(axis=1), np.float64).reshape(-1)


def reconstruction_errors(
    adjacency: Any, node_ptr: PtrArray, clusters: Clusters
) -> tuple[FloatArray, FloatArray]:
    r"""Return the reconstruction error and the hyperbolic error without signals, one value per graph.

    The reconstruction error is :math:`\|L - L_\Pi\|_F^2 = \|L\|_F^2 - \|L_c\|_F^2`. The hyperbolic error is that of
    :func:`hyperbolic_errors` for :math:`X = I`. Both take linear time. They are NaN for graphs with dropped nodes.

    Args:
        adjacency: symmetric sparse matrix of the block.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        clusters: clusters of the nodes.
    """
    graphs, sizes = len(node_ptr) - 1, np.diff(node_ptr)
    owner = np.repeat(np.arange(graphs), sizes)
    members = clusters.indicator()
    coarse = (members.T @ adjacency @ members).tocsr()
    coarse_owner = np.zeros(clusters.num_clusters, np.int64)
    coarse_owner[clusters.cluster[clusters.cluster >= 0]] = owner[clusters.cluster >= 0]
    fine_norm, fine_trace = _squares(adjacency, _row_sums(adjacency), np.ones(len(owner)), owner, graphs)
    scale = 1.0 / np.sqrt(clusters.sizes())
    norm, trace = _squares(coarse, _row_sums(coarse), scale, coarse_owner, graphs)
    undefined = clusters.undefined(node_ptr)
    error = np.where(undefined, np.nan, np.maximum(fine_norm - norm, 0.0))
    return error, _distance(error, sizes.astype(np.float64), fine_trace, trace, fine_trace)


def _distance(
    difference: FloatArray, norm: FloatArray, fine: FloatArray, lifted: FloatArray, scale: FloatArray
) -> FloatArray:
    """Return ``arccosh(1 + difference * norm / (2 fine lifted))``, NaN where a trace is 0 except for rounding errors."""
    usable = (fine > ROUNDING * scale) & (lifted > ROUNDING * scale)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        inner = 1.0 + difference / fine * (norm / lifted) / 2.0
        return np.where(usable & np.isfinite(inner), np.arccosh(np.maximum(inner, 1.0)), np.nan)


def hyperbolic_errors(
    adjacency: Any, node_ptr: PtrArray, clusters: Sequence[Clusters], signals: Array
) -> list[FloatArray]:
    r"""Return the hyperbolic error of each partition, one value per graph.

    .. math::
        \mathrm{arccosh}\left(1 + \frac{\|(L - L_\Pi) X\|_F^2 \, \|X\|_F^2}
        {2 \mathrm{tr}(X^\top L X) \mathrm{tr}(X^\top L_\Pi X)}\right)

    It is NaN for graphs with dropped nodes, and where a trace is 0, such as for constant signals. Columns are processed in groups, so
    the memory is linear.

    Args:
        adjacency: symmetric sparse matrix of the block.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        clusters: partitions of the same nodes.
        signals: ``[N, F]`` features.
    """
    graphs = len(node_ptr) - 1
    owner = run_ids(node_ptr)
    degree = _row_sums(adjacency)[:, None]

    def apply(values: FloatArray) -> FloatArray:
        product: FloatArray = degree * values - adjacency @ values
        return product

    def total(values: FloatArray) -> FloatArray:
        return sum_by_index(owner, values.sum(axis=1), graphs)

    sums = np.zeros((len(clusters), 2, graphs))
    norm, fine, scale = np.zeros(graphs), np.zeros(graphs), np.zeros(graphs)
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, signals.shape[1], COLUMNS_AT_ONCE):
            x = np.asarray(signals[:, first : first + COLUMNS_AT_ONCE], np.float64)
            image = apply(x)
            norm += total(x**2)
            fine += total(x * image)
            scale += total(degree * x**2)
            for number, partition in enumerate(clusters):
                mean = partition.project(x)
                smooth = apply(mean)
                sums[number, 0] += total((image - partition.project(smooth)) ** 2)
                sums[number, 1] += total(mean * smooth)
        found = [_distance(difference, norm, fine, lifted, scale) for difference, lifted in sums]
    return [
        np.where(partition.undefined(node_ptr), np.nan, values)
        for partition, values in zip(clusters, found, strict=True)
    ]


def restricted_approximations(
    adjacency: Any, node_ptr: PtrArray, clusters: Sequence[Clusters], fine: Spectrum
) -> list[FloatArray]:
    r"""Return the constant of the restricted spectral approximation of each partition, one value per graph.

    It is the smallest :math:`\epsilon` with :math:`\|x - \Pi x\|_L \le \epsilon \|x\|_L` for all signals :math:`x` in the span of the lowest
    eigenvectors of :math:`L` (Loukas, 2019), where :math:`\|x\|_L^2 = x^\top L x`. If the last eigenvalue repeats, all its
    eigenvectors are used in components that LAPACK solves. It is NaN for graphs with dropped nodes, without modes, and with a
    supernode in two components: then no such number exists.

    Args:
        adjacency: symmetric sparse matrix of the block.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        clusters: partitions of the same nodes.
        fine: spectrum of the combinatorial Laplacian; its number of modes is the number of eigenvectors.
    """
    parts = Components(adjacency, node_ptr)
    graphs = len(node_ptr) - 1
    highest = np.where(np.isnan(fine.values[:, -1]), np.inf, fine.values[:, -1]) * (1.0 + TIE)
    found = np.full((len(clusters), graphs), -1.0)
    for some, nodes in parts.stacks():
        values, vectors = np.linalg.eigh(dense_laplacians(adjacency, nodes))
        values, vectors = np.maximum(values[:, 1:], np.finfo(np.float64).tiny), vectors[:, :, 1:]
        _add_errors(adjacency, parts.graph[some], nodes, values, vectors, highest, clusters, found)
    for solution in fine.large:
        graph = parts.graph[parts.of_node[solution.nodes[:1]]]
        values, vectors = solution.values[None], solution.vectors[None]
        _add_errors(adjacency, graph, solution.nodes[None], values, vectors, highest, clusters, found)
    results = []
    for partition, errors in zip(clusters, found, strict=True):
        bad = partition.undefined(node_ptr) | _joined_components(parts, partition, graphs) | (errors < 0)
        results.append(np.where(bad, np.nan, np.sqrt(np.maximum(errors, 0.0))))
    return results


def _add_errors(
    adjacency: Any, graph: LongArray, nodes: LongArray, values: FloatArray, vectors: FloatArray, highest: FloatArray,
    clusters: Sequence[Clusters], found: FloatArray,
) -> None:  # fmt: skip
    """Raise ``found``, ``[P, B]``, to the squared errors of the modes of components of equal size.

    Args:
        adjacency: symmetric sparse matrix of the block.
        graph: ``[c]`` graphs of the components.
        nodes: ``[c, n]`` their nodes.
        values, vectors: ``[c, k]`` and ``[c, n, k]`` their lowest solutions.
        highest: ``[B]`` largest eigenvalue that is used.
        clusters: partitions.
        found: result.
    """
    used = values <= highest[graph][:, None]
    count = int(used.sum(axis=1).max(initial=0))
    if count == 0:
        return
    scale = np.where(used, 1.0 / np.sqrt(values), 0.0)[:, :count]
    basis = (vectors[:, :, :count] * scale[:, None, :]).reshape(-1, count)
    flat = nodes.ravel()
    inner = adjacency[flat][:, flat].tocsr()
    degree = _row_sums(inner)[:, None]
    active = used.any(axis=1)
    for number, partition in enumerate(clusters):
        lost = basis - Clusters(*_renumber(partition.cluster[flat])).project(basis)
        image = degree * lost - inner @ lost
        shape = (*nodes.shape, count)
        gram = np.einsum("cnk,cnl->ckl", lost.reshape(shape), image.reshape(shape), optimize=True)
        errors = np.linalg.eigvalsh((gram + gram.transpose(0, 2, 1)) / 2)[:, -1]
        np.maximum.at(found[number], graph[active], np.maximum(errors[active], 0.0))


def _renumber(cluster: LongArray) -> tuple[LongArray, int]:
    """Number the clusters of some nodes from 0; -1 stays."""
    kept = cluster >= 0
    names, inverse = np.unique(cluster[kept], return_inverse=True)
    out = np.full(len(cluster), -1)
    out[kept] = inverse
    return out, len(names)


def _joined_components(parts: Components, partition: Clusters, graphs: int) -> BoolArray:
    """Return ``[B]`` True for graphs with a supernode that has nodes of two components."""
    kept = np.flatnonzero(partition.cluster >= 0)
    cluster, component = partition.cluster[kept], parts.of_node[kept]
    one = np.zeros(partition.num_clusters, np.int64)
    one[cluster] = component
    joined = np.zeros(graphs, bool)
    joined[parts.graph[component[one[cluster] != component]]] = True
    return joined
