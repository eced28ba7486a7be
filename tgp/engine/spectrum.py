"""How well coarse graphs keep the low end of the spectrum. Needs neither torch nor, for small graphs, numba.

The eigenvalues are those of the normalised Laplacian :math:`I - D^{-1/2} A D^{-1/2}` of the undirected graph
``max((A + A^T) / 2, 0)``, parallel edges added up; self loops count in ``A`` and ``D``. A node without edges
has eigenvalue 0, so a graph has exactly as many zeros as connected components. These *trivial* ones are counted,
not computed; the others, ascending, are its *modes* :math:`\\lambda_1 \\le \\lambda_2 \\le \\dots`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.ragged.block import FloatArray, PtrArray

__all__ = ["DENSE", "Spectrum", "eigenvalue_errors", "graph_spectrum"]

DENSE = 600
"""Components up to this size are solved densely; larger ones by the solver of :mod:`tgp.engine.laplacian_eigs`."""

BATCH_ENTRIES = 1 << 22
"""Matrix entries that one dense call handles."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The lowest eigenvalues of each graph.

    Args:
        zeros: ``[B]`` connected components.
        values: ``[B, modes]`` ascending modes; NaN where a graph has no more.
    """

    zeros: npt.NDArray[np.int64]
    values: FloatArray


def graph_spectrum(
    edge_index: npt.NDArray[np.integer[Any]],
    weight: npt.NDArray[Any] | None,
    node_ptr: PtrArray,
    modes: int,
) -> Spectrum:
    """Components and lowest modes of every graph of a block.

    The spectrum of a graph is the union of those of its components, so each component is solved alone: dense
    batches of equal size for small ones, the iterative solver for large ones, whose memory is linear.

    Args:
        edge_index: ``[2, E]`` in block ids.
        weight: ``[E]``, or ``None`` for ones.
        node_ptr: ``[B + 1]`` start of each graph.
        modes: how many.
    """
    from scipy.sparse.csgraph import connected_components

    adjacency = _undirected(edge_index, weight, int(node_ptr[-1]))
    count, component = connected_components(adjacency, directed=False)
    graphs = len(node_ptr) - 1
    graph_of = np.zeros(count, np.int64)
    graph_of[component] = np.repeat(np.arange(graphs), np.diff(node_ptr))
    size = np.bincount(component, minlength=count)
    order = np.argsort(component, kind="stable")
    start = np.cumsum(size) - size
    owners: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    values: list[FloatArray] = [np.zeros(0)]
    for n in np.unique(size[(size > 1) & (size <= DENSE)]).tolist():
        for some in _batches(np.flatnonzero(size == n), n):
            found = _dense(adjacency, order[start[some][:, None] + np.arange(n)])[:, :modes]
            values.append(found.ravel())
            owners.append(np.repeat(graph_of[some], found.shape[1]))
    for c in np.flatnonzero(size > DENSE).tolist():
        found = _iterative(adjacency, order[start[c] : start[c] + size[c]], modes)
        values.append(found)
        owners.append(np.full(len(found), graph_of[c]))
    zeros = np.bincount(graph_of, minlength=graphs)
    return Spectrum(zeros, _lowest(np.concatenate(owners), np.concatenate(values), graphs, modes))


def eigenvalue_errors(fine: Spectrum, coarse: Spectrum) -> dict[str, FloatArray]:
    """Relative errors of the modes of coarse graphs, one value per graph.

    Mode ``i`` of the coarse graph is compared with mode ``i`` of the fine graph, as far as both have one. A
    coarse graph with more components than the fine one has zeros instead of its first modes: an error of 1 each.

    - ``eigenvalue_error``: mean of :math:`|\\lambda'_i - \\lambda_i| / \\lambda_i`.
    - ``eigenvalue_error_scaled``: the same after the factor on all :math:`\\lambda'_i` that makes it smallest. A
      step on a coarse graph goes further, which multiplies small eigenvalues by about the same factor; what is
      left is the change of shape. A single mode always fits: NaN.

    NaN where nothing can be compared.
    """
    modes = fine.values.shape[1]
    torn = np.maximum(coarse.zeros - fine.zeros, 0)[:, None]
    position = np.arange(modes)[None, :] - torn
    shifted = np.take_along_axis(coarse.values, np.maximum(position, 0), axis=1)
    ratio = np.where(position < 0, 0.0, shifted) / fine.values
    both = np.isfinite(ratio)
    count = both.sum(axis=1)
    return {
        "eigenvalue_error": _mean(np.abs(ratio - 1.0), both, count >= 1),
        "eigenvalue_error_scaled": _mean(np.abs(_fit(ratio) * ratio - 1.0), both, count >= 2),
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


def _dense(adjacency: Any, nodes: npt.NDArray[np.int64]) -> FloatArray:
    """``[c, n - 1]`` modes of components, given as rows of nodes."""
    count, n = nodes.shape
    flat = nodes.ravel()
    rows = adjacency[flat].tocoo()
    place = np.full(adjacency.shape[0], -1)
    place[flat] = np.arange(len(flat)) % n
    stack = np.zeros((count, n, n))
    stack[rows.row // n, rows.row % n, place[rows.col]] = rows.data
    root = 1.0 / np.sqrt(stack.sum(axis=2))
    laplacian = np.eye(n) - root[:, :, None] * stack * root[:, None, :]
    values: FloatArray = np.linalg.eigvalsh(laplacian)[:, 1:]
    # Rounding may leave a tiny mode below zero; it is positive, because the component is connected.
    return np.maximum(values, np.finfo(np.float64).tiny)


def _iterative(adjacency: Any, nodes: npt.NDArray[np.int64], modes: int) -> FloatArray:
    """Lowest modes of one large component."""
    from tgp.engine.laplacian_eigs import lowest_modes

    inner = adjacency[nodes][:, nodes].tocsr()
    mass = np.asarray(inner.sum(axis=1)).reshape(-1)
    inner.setdiag(0.0)
    inner.eliminate_zeros()
    inner.sort_indices()
    rows = (inner.indptr.astype(np.int64), inner.indices.astype(np.int32), inner.data)
    null = np.full((len(mass), 1), 1.0 / np.sqrt(mass.sum()))
    return lowest_modes(rows, mass, null, min(modes, len(nodes) - 1))[0][:modes]


def _lowest(owner: npt.NDArray[np.int64], values: FloatArray, graphs: int, modes: int) -> FloatArray:
    """``[B, modes]`` the smallest values of each graph."""
    order = np.lexsort((values, owner))
    owner, values = owner[order], values[order]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    keep = rank < modes
    out = np.full((graphs, modes), np.nan)
    out[owner[keep], rank[keep]] = values[keep]
    return out


def _fit(ratio: FloatArray) -> FloatArray:
    """``[B, 1]`` the factor ``s`` that makes the mean of ``|s r - 1|`` smallest.

    The sum is convex and linear between the points ``1 / r``, so it is smallest at one of them: the weighted
    median, with weights ``r``.
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
