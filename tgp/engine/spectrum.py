r"""Lowest and highest eigenvalues of graphs, and their errors in coarse graphs. Needs no torch, and no numba for small graphs.

The eigenvalues are those of :math:`(D - A) u = \lambda M u` for the undirected graph ``max((A + A^T) / 2, 0)`` with parallel
edges added up. By default :math:`M = D`, which gives the normalised Laplacian :math:`I - D^{-1/2} A D^{-1/2}`; self loops count
in ``A`` and ``D``. :math:`M = I` gives the combinatorial Laplacian, in which self loops cancel. A node without edges has
eigenvalue 0, so the number of zeros of a graph is its number of connected components. The zeros are counted, not computed.
The other eigenvalues in ascending order are called modes, :math:`\lambda_1 \le \lambda_2 \le \dots`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.kernels.array_types import Array, BoolArray, LongArray
from tgp.ragged.block import FloatArray, PtrArray
from tgp.ragged.offsets import run_ids

__all__ = [
    "MAX_DENSE_SIZE",
    "Components",
    "LargeModes",
    "Spectrum",
    "dense_laplacians",
    "eigenvalue_errors",
    "graph_spectrum",
    "highest_error",
    "undirected",
]

MAX_DENSE_SIZE = 600
"""Largest component for which LAPACK is used. Larger ones are solved by :mod:`tgp.engine.laplacian_eigs`."""

BATCH_ENTRIES = 1 << 22
"""Number of matrix entries that are passed to LAPACK in one call."""

LANCZOS_TOLERANCE = 1e-3
"""Relative accuracy of the highest eigenvalues of components with more than :data:`MAX_DENSE_SIZE` nodes."""

LANCZOS_RESTARTS = 300
"""Largest number of restarts of the Lanczos iteration. The highest modes are NaN if it does not converge."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Lowest eigenvalues of each graph.

    Args:
        zeros: ``[B]`` number of connected components.
        values: ``[B, modes]`` modes in ascending order, padded with NaN if a graph has fewer.
        highest: ``[B, modes]`` modes in descending order, padded with NaN; ``None`` if they were not computed.
        large: lowest solutions of the components with more than :data:`MAX_DENSE_SIZE` nodes.
    """

    zeros: LongArray
    values: FloatArray
    highest: FloatArray | None = None
    large: tuple[LargeModes, ...] = ()


@dataclass(frozen=True, eq=False)
class LargeModes:
    """Lowest solutions of one large component.

    Args:
        nodes: ``[n]`` nodes of the component, ascending.
        values: ``[k]`` modes, ascending.
        vectors: ``[n, k]`` eigenvectors, orthonormal in ``M``.
    """

    nodes: LongArray
    values: FloatArray
    vectors: FloatArray


class Components:
    """Connected components of a block of graphs.

    Args:
        adjacency: symmetric sparse matrix of the block.
        node_ptr: ``[B + 1]`` offsets of the graphs.

    Attributes:
        of_node: ``[N]`` component of each node.
        size: ``[C]`` number of nodes of each component.
        graph: ``[C]`` graph of each component.
    """

    def __init__(self, adjacency: Any, node_ptr: PtrArray) -> None:
        from scipy.sparse.csgraph import connected_components

        count, self.of_node = connected_components(adjacency, directed=False)
        self.graph = np.zeros(count, np.int64)
        self.graph[self.of_node] = run_ids(node_ptr)
        self.size = np.bincount(self.of_node, minlength=count)
        self._order = np.argsort(self.of_node, kind="stable")
        self._start = np.cumsum(self.size) - self.size

    def stacks(self) -> Iterator[tuple[LongArray, LongArray]]:
        """Yield groups of small components of equal size: their numbers ``[c]`` and their nodes ``[c, n]``."""
        for n in np.unique(self.size[(self.size > 1) & (self.size <= MAX_DENSE_SIZE)]).tolist():
            for some in _batches(np.flatnonzero(self.size == n), n):
                yield some, self._order[self._start[some][:, None] + np.arange(n)]

    def large(self) -> Iterator[tuple[int, LongArray]]:
        """Yield the number and the nodes of every component with more than :data:`MAX_DENSE_SIZE` nodes."""
        for c in np.flatnonzero(self.size > MAX_DENSE_SIZE).tolist():
            yield c, self._order[self._start[c] : self._start[c] + self.size[c]]


def graph_spectrum(
    edge_index: npt.NDArray[np.integer[Any]],
    weight: Array | None,
    node_ptr: PtrArray,
    modes: int,
    *,
    mass: FloatArray | None = None,
    highest: bool = False,
) -> Spectrum:
    """Return the number of components, the lowest and on request the highest modes of every graph of a block.

    The spectrum of a graph is the union of the spectra of its components, so each component is solved separately. Small
    components of equal size are solved together by LAPACK. Large ones are solved by iterative methods with linear
    memory: the lowest modes by multigrid, the highest ones by Lanczos.

    Args:
        edge_index: ``[2, E]`` edges; ids count through the block.
        weight: ``[E]`` weights, or ``None`` for ones.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        modes: number of modes per graph.
        mass: ``[N]`` positive diagonal of ``M``; ``None`` for the degrees.
        highest: also compute the highest modes.

    Raises:
        InputError: if a weight is not finite, or sums of weights are too large.
    """
    adjacency = undirected(edge_index, weight, int(node_ptr[-1]))
    if mass is None:
        mass = np.asarray(adjacency.sum(axis=1), np.float64).reshape(-1)
    parts = Components(adjacency, node_ptr)
    lowest, top = _Collector(), _Collector()
    large: list[LargeModes] = []
    for some, nodes in parts.stacks():
        found = _dense_modes(adjacency, nodes, mass)
        lowest.add(parts.graph[some], found[:, :modes])
        top.add(parts.graph[some], -found[:, ::-1][:, :modes])
    for c, nodes in parts.large():
        inner = adjacency[nodes][:, nodes].tocsr()
        large.append(_iterative_modes(inner, nodes, mass[nodes], modes))
        lowest.add(parts.graph[[c]], large[-1].values[None])
        if highest:
            top.add(parts.graph[[c]], -_lanczos_modes(inner, mass[nodes], modes)[None])
    graphs = len(node_ptr) - 1
    return Spectrum(
        np.bincount(parts.graph, minlength=graphs),
        lowest.smallest(graphs, modes),
        -top.smallest(graphs, modes) if highest else None,
        tuple(large),
    )


class _Collector:
    """Values of the graphs of a block, in any order."""

    def __init__(self) -> None:
        self.owners: list[LongArray] = [np.zeros(0, np.int64)]
        self.values: list[FloatArray] = [np.zeros(0)]

    def add(self, graphs: LongArray, values: FloatArray) -> None:
        """Add the rows of ``values``, one for each of ``graphs``."""
        self.owners.append(np.repeat(graphs, values.shape[1]))
        self.values.append(values.ravel())

    def smallest(self, graphs: int, count: int) -> FloatArray:
        """Return the smallest values ``[graphs, count]``."""
        return _lowest_values(np.concatenate(self.owners), np.concatenate(self.values), graphs, count)


def eigenvalue_errors(fine: Spectrum, coarse: Spectrum) -> dict[str, FloatArray]:
    r"""Return the relative errors of the modes of coarse graphs, one value per graph.

    Mode ``i`` of the coarse graph is compared with mode ``i`` of the fine graph, if both exist. A coarse graph with more
    components than the fine one has zeros in place of its first modes, with an error of 1 each.

    - ``eigenvalue_error``: mean of :math:`|\lambda'_i - \lambda_i| / \lambda_i`.
    - ``eigenvalue_error_scaled``: the smallest such mean if all :math:`\lambda'_i` are multiplied by one factor. A step
      on a coarse graph covers a larger distance, which multiplies small eigenvalues by about the same factor. The scaled
      error measures the change of the shape only. It is NaN for a single mode, which a factor always makes exact.

    A value is NaN if no mode can be compared.

    Args:
        fine: spectra of the fine graphs.
        coarse: spectra of the coarse graphs, in the same order.
    """
    modes = fine.values.shape[1]
    more_components = np.maximum(coarse.zeros - fine.zeros, 0)[:, None]
    position = np.arange(modes)[None, :] - more_components
    shifted = np.take_along_axis(coarse.values, np.maximum(position, 0), axis=1)
    ratio = np.where(position < 0, 0.0, shifted) / fine.values
    both = np.isfinite(ratio)
    count = both.sum(axis=1)
    return {
        "eigenvalue_error": _mean(np.abs(ratio - 1.0), both, count >= 1),
        "eigenvalue_error_scaled": _mean(np.abs(_best_factor(ratio) * ratio - 1.0), both, count >= 2),
    }


def highest_error(fine: Spectrum, coarse: Spectrum) -> FloatArray:
    r"""Return the mean of :math:`|\lambda'_i - \lambda_i| / \lambda_i` over the highest modes, one value per graph.

    The highest mode of the coarse graph is compared with the highest one of the fine graph, and so on. A value is NaN if
    no mode can be compared.

    Args:
        fine: spectra of the fine graphs, with their highest modes.
        coarse: spectra of the coarse graphs, in the same order.
    """
    assert fine.highest is not None and coarse.highest is not None
    ratio = coarse.highest / fine.highest
    both = np.isfinite(ratio)
    return _mean(np.abs(ratio - 1.0), both, both.sum(axis=1) >= 1)


def undirected(edge_index: Array, weight: Array | None, n: int) -> Any:
    """Return the sparse matrix ``max((A + A^T) / 2, 0)`` of a block with ``n`` nodes.

    Args:
        edge_index: ``[2, E]`` edges.
        weight: ``[E]`` weights, or ``None`` for ones.
        n: number of nodes.

    Raises:
        InputError: if a weight is not finite, or sums of weights are too large.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = _add_edges(edge_index, weight, n)
    if not np.isfinite(matrix.data).all():
        raise InputError(
            "no spectrum: expected finite edge weights, got NaN, infinity or an overflow", field="weight"
        )
    return matrix


def _add_edges(edge_index: Array, weight: Array | None, n: int) -> Any:
    from scipy.sparse import coo_array

    given = np.ones(edge_index.shape[1]) if weight is None else np.asarray(weight, np.float64).reshape(-1)
    directed = coo_array((given, (edge_index[0], edge_index[1])), shape=(n, n)).tocsr()
    matrix = ((directed + directed.T) / 2).tocsr()
    matrix.data = np.maximum(matrix.data, 0.0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _batches(ids: LongArray, n: int) -> list[LongArray]:
    step = max(1, BATCH_ENTRIES // (n * n))
    return [ids[low : low + step] for low in range(0, len(ids), step)]


def dense_laplacians(adjacency: Any, nodes: LongArray) -> FloatArray:
    """Return the matrices ``D - A``, ``[c, n, n]``, of components whose nodes are the rows of ``nodes``."""
    count, n = nodes.shape
    flat = nodes.ravel()
    rows = adjacency[flat].tocoo()
    position = np.full(adjacency.shape[0], -1)
    position[flat] = np.arange(len(flat)) % n
    stack = np.zeros((count, n, n))
    stack[rows.row // n, rows.row % n, position[rows.col]] = -rows.data
    stack[:, np.arange(n), np.arange(n)] -= stack.sum(axis=2)
    return stack


def _dense_modes(adjacency: Any, nodes: LongArray, mass: FloatArray) -> FloatArray:
    """Return the modes ``[c, n - 1]`` of components, whose nodes are the rows of ``nodes``."""
    root = 1.0 / np.sqrt(mass[nodes])
    laplacian = root[:, :, None] * dense_laplacians(adjacency, nodes) * root[:, None, :]
    # A connected component has positive modes. Rounding can make a tiny one negative.
    values: FloatArray = np.maximum(np.linalg.eigvalsh(laplacian)[:, 1:], np.finfo(np.float64).tiny)
    return values


def _iterative_modes(inner: Any, nodes: LongArray, mass: FloatArray, modes: int) -> LargeModes:
    """Return the lowest modes of one large component with the adjacency matrix ``inner``."""
    from tgp.engine.laplacian_eigs import lowest_modes

    inner = inner.copy()
    inner.setdiag(0.0)
    inner.eliminate_zeros()
    inner.sort_indices()
    rows = (inner.indptr.astype(np.int64), inner.indices.astype(np.int32), inner.data)
    null = np.full((len(mass), 1), 1.0 / np.sqrt(mass.sum()))
    values, vectors = lowest_modes(rows, mass, null, min(modes, len(nodes) - 1))
    return LargeModes(nodes, values[:modes], vectors[:, :modes])


def _lanczos_modes(inner: Any, mass: FloatArray, modes: int) -> FloatArray:
    """Return the highest modes of one large component, NaN if the iteration does not converge."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    n, root = len(mass), 1.0 / np.sqrt(mass)
    scale = diags_array(root)
    degree = np.asarray(inner.sum(axis=1)).reshape(-1)
    matrix = (diags_array(degree / mass) - scale @ inner @ scale).tocsr()
    start = np.cos(np.arange(n) ** 2 % 1009.0) * root  # any vector without symmetry
    count = min(modes, n - 1)
    try:
        found = eigsh(
            matrix, count, which="LA", v0=start, tol=LANCZOS_TOLERANCE, maxiter=LANCZOS_RESTARTS,
            return_eigenvectors=False,
        )  # fmt: skip
    except ArpackNoConvergence:
        return np.full(count, np.nan)
    values: FloatArray = np.sort(found)[::-1]
    return values


def _lowest_values(owner: LongArray, values: FloatArray, graphs: int, modes: int) -> FloatArray:
    """Return the smallest values ``[B, modes]`` of each graph. ``owner`` is the graph of each value."""
    order = np.lexsort((values, owner))
    owner, values = owner[order], values[order]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    keep = rank < modes
    out = np.full((graphs, modes), np.nan)
    out[owner[keep], rank[keep]] = values[keep]
    return out


def _best_factor(ratio: FloatArray) -> FloatArray:
    """Return the factors ``s``, ``[B, 1]``, that minimise the mean of ``|s r - 1|``.

    The sum is convex and linear between the points ``1 / r``. Its minimum is therefore at one of them, the weighted
    median with weights ``r``.
    """
    usable = np.isfinite(ratio) & (ratio > 0)
    weight = np.where(usable, ratio, 0.0)
    order = np.argsort(-weight, axis=1, kind="stable")  # ascending 1 / r
    ordered = np.take_along_axis(weight, order, axis=1)
    sums = np.cumsum(ordered, axis=1)
    median = (sums < sums[:, -1:] / 2).sum(axis=1, keepdims=True)
    chosen = np.take_along_axis(ordered, np.minimum(median, ratio.shape[1] - 1), axis=1)
    return np.where(chosen > 0, 1.0 / np.where(chosen > 0, chosen, 1.0), 1.0)


def _mean(values: FloatArray, use: BoolArray, enough: BoolArray) -> FloatArray:
    total = np.where(use, values, 0.0).sum(axis=1)
    return np.where(enough, total / np.maximum(use.sum(axis=1), 1), np.nan)
