r"""Lowest eigenvalues of graphs, and their errors in coarse graphs. Needs no torch, and no numba for small graphs.

The eigenvalues are those of the normalised Laplacian :math:`I - D^{-1/2} A D^{-1/2}` of the undirected graph
``max((A + A^T) / 2, 0)`` with parallel edges added up. Self loops count in ``A`` and ``D``. A node without edges has
eigenvalue 0, so the number of zeros of a graph is its number of connected components. The zeros are counted, not computed.
The other eigenvalues in ascending order are called modes, :math:`\lambda_1 \le \lambda_2 \le \dots`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.ragged.block import FloatArray, PtrArray

__all__ = ["MAX_DENSE_SIZE", "Spectrum", "eigenvalue_errors", "graph_spectrum"]

MAX_DENSE_SIZE = 600
"""Largest component for which LAPACK is used. Larger ones are solved by :mod:`tgp.engine.laplacian_eigs`."""

BATCH_ENTRIES = 1 << 22
"""Number of matrix entries that are passed to LAPACK in one call."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Lowest eigenvalues of each graph.

    Args:
        zeros: ``[B]`` number of connected components.
        values: ``[B, modes]`` modes in ascending order, filled up with NaN if a graph has fewer.
    """

    zeros: npt.NDArray[np.int64]
    values: FloatArray


def graph_spectrum(
    edge_index: npt.NDArray[np.integer[Any]],
    weight: npt.NDArray[Any] | None,
    node_ptr: PtrArray,
    modes: int,
) -> Spectrum:
    """Return the number of components and the lowest modes of every graph of a block.

    The spectrum of a graph is the union of the spectra of its components, so each component is solved separately. Small
    components of equal size are solved together by LAPACK. Large ones are solved by an iterative method with linear
    memory.

    Args:
        edge_index: ``[2, E]`` edges; ids count through the block.
        weight: ``[E]`` weights, or ``None`` for ones.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        modes: number of modes per graph.

    Raises:
        InputError: if a weight is not finite, or sums of weights are too large.
    """
    from scipy.sparse.csgraph import connected_components

    with np.errstate(over="ignore", invalid="ignore"):
        adjacency = _undirected(edge_index, weight, int(node_ptr[-1]))
    if not np.isfinite(adjacency.data).all():
        raise InputError(
            "no spectrum: expected finite edge weights, got NaN, infinity or an overflow", field="weight"
        )
    count, component = connected_components(adjacency, directed=False)
    graphs = len(node_ptr) - 1
    graph_of = np.zeros(count, np.int64)
    graph_of[component] = np.repeat(np.arange(graphs), np.diff(node_ptr))
    size = np.bincount(component, minlength=count)
    order = np.argsort(component, kind="stable")
    start = np.cumsum(size) - size
    owners: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    values: list[FloatArray] = [np.zeros(0)]
    for n in np.unique(size[(size > 1) & (size <= MAX_DENSE_SIZE)]).tolist():
        for some in _batches(np.flatnonzero(size == n), n):
            found = _dense_modes(adjacency, order[start[some][:, None] + np.arange(n)])[:, :modes]
            values.append(found.ravel())
            owners.append(np.repeat(graph_of[some], found.shape[1]))
    for c in np.flatnonzero(size > MAX_DENSE_SIZE).tolist():
        found = _iterative_modes(adjacency, order[start[c] : start[c] + size[c]], modes)
        values.append(found)
        owners.append(np.full(len(found), graph_of[c]))
    zeros = np.bincount(graph_of, minlength=graphs)
    return Spectrum(zeros, _lowest_values(np.concatenate(owners), np.concatenate(values), graphs, modes))


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


def _undirected(edge_index: npt.NDArray[Any], weight: npt.NDArray[Any] | None, n: int) -> Any:
    from scipy.sparse import coo_array

    given = np.ones(edge_index.shape[1]) if weight is None else np.asarray(weight, np.float64).reshape(-1)
    directed = coo_array((given, (edge_index[0], edge_index[1])), shape=(n, n)).tocsr()
    matrix = ((directed + directed.T) / 2).tocsr()
    matrix.data = np.maximum(matrix.data, 0.0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _batches(ids: npt.NDArray[np.int64], n: int) -> list[npt.NDArray[np.int64]]:
    step = max(1, BATCH_ENTRIES // (n * n))
    return [ids[low : low + step] for low in range(0, len(ids), step)]


def _dense_modes(adjacency: Any, nodes: npt.NDArray[np.int64]) -> FloatArray:
    """Return the modes ``[c, n - 1]`` of components, whose nodes are the rows of ``nodes``."""
    count, n = nodes.shape
    flat = nodes.ravel()
    rows = adjacency[flat].tocoo()
    position = np.full(adjacency.shape[0], -1)
    position[flat] = np.arange(len(flat)) % n
    stack = np.zeros((count, n, n))
    stack[rows.row // n, rows.row % n, position[rows.col]] = rows.data
    root = 1.0 / np.sqrt(stack.sum(axis=2))
    laplacian = np.eye(n) - root[:, :, None] * stack * root[:, None, :]
    # A connected component has positive modes. Rounding can make a tiny one negative.
    values: FloatArray = np.maximum(np.linalg.eigvalsh(laplacian)[:, 1:], np.finfo(np.float64).tiny)
    return values


def _iterative_modes(adjacency: Any, nodes: npt.NDArray[np.int64], modes: int) -> FloatArray:
    """Return the lowest modes of one large component."""
    from tgp.engine.laplacian_eigs import lowest_modes

    inner = adjacency[nodes][:, nodes].tocsr()
    mass = np.asarray(inner.sum(axis=1)).reshape(-1)
    inner.setdiag(0.0)
    inner.eliminate_zeros()
    inner.sort_indices()
    rows = (inner.indptr.astype(np.int64), inner.indices.astype(np.int32), inner.data)
    null = np.full((len(mass), 1), 1.0 / np.sqrt(mass.sum()))
    return lowest_modes(rows, mass, null, min(modes, len(nodes) - 1))[0][:modes]


def _lowest_values(owner: npt.NDArray[np.int64], values: FloatArray, graphs: int, modes: int) -> FloatArray:
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


def _mean(values: FloatArray, use: npt.NDArray[np.bool_], enough: npt.NDArray[np.bool_]) -> FloatArray:
    total = np.where(use, values, 0.0).sum(axis=1)
    return np.where(enough, total / np.maximum(use.sum(axis=1), 1), np.nan)
