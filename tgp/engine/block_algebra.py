"""Products of large graphs and blocks of vectors on several threads, with the same bits for any number of threads.

Rows of a result that do not depend on each other are computed by ranges. Sums over all rows, and sweeps in which a row reads the ones before
it, are divided by vectors if there are many, because the vectors of a block do not depend on each other. See :mod:`tgp.kernels.multigrid`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tgp.engine import threads
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = ["Rows", "apply_laplacian", "combine", "gram", "row_sums", "smooth_down", "smooth_up"]

Rows = tuple[PtrArray, IndexArray, FloatArray]
"""Symmetric rows ``(indptr, indices, weight)`` of a graph."""

_MIN_WORK, _LEAST_VECTORS = 1 << 20, 32
"""Number of products, and of vectors for each thread, from which vectors are divided among threads. Fewer vectors do not pay, because
every thread reads the whole graph."""


def _run_over_vectors(kernel: Callable[[int, int], object], vectors: int, work: int) -> None:
    """Call ``kernel`` for ranges of vectors, one for each thread."""
    count = min(threads.num_threads(), vectors // _LEAST_VECTORS)
    if count < 2 or work * vectors < _MIN_WORK:
        kernel(0, vectors)
        return
    threads.run_ranges(kernel, np.arange(count + 1) * vectors // count, count)


def row_sums(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray | None, weighted: bool = True
) -> FloatArray:
    """Return the sum of the weights of each row without self loops. Weights are added in order.

    Args:
        indptr, indices, weight: rows of graphs.
        weighted: False if every entry counts 1.
    """
    from tgp.kernels import local_matching

    values, out = np.empty(0) if weight is None else weight, np.empty(len(indptr) - 1)

    def add(first: int, last: int) -> None:
        local_matching.weighted_degree(indptr, indices, values, weighted, first, last, out)

    threads.run_over_ranges(add, indptr)
    return out


def apply_laplacian(rows: Rows, degree: FloatArray, x: FloatArray) -> FloatArray:
    """Return ``(D - A) x``.

    Args:
        rows: symmetric rows of ``A``.
        degree: ``[n]`` diagonal of ``D``.
        x: ``[n, m]`` vectors.
    """
    from tgp.kernels import multigrid

    out = np.empty(x.shape)

    def run(first: int, last: int) -> None:
        multigrid.apply_laplacian(*rows, degree, x, first, last, out)

    threads.run_over_ranges(run, rows[0])
    return out


def combine(x: FloatArray, c: FloatArray) -> FloatArray:
    """Return ``x c``.

    Args:
        x: ``[n, p]`` vectors.
        c: ``[p, q]`` coefficients.
    """
    from tgp.kernels import multigrid

    out = np.empty((len(x), c.shape[1]))

    def run(first: int, last: int) -> None:
        multigrid.combine(x, c, first, last, out)

    threads.run_over_items(run, len(x))
    return out


def gram(x: FloatArray, y: FloatArray, mass: FloatArray) -> FloatArray:
    """Return ``x^T diag(mass) y``.

    Args:
        x, y: ``[n, p]`` and ``[n, q]`` vectors.
        mass: ``[n]`` diagonal.
    """
    from tgp.kernels import multigrid

    out = np.empty((x.shape[1], y.shape[1]))

    def run(first: int, last: int) -> None:
        multigrid.gram(x, y, mass, first, last, out)

    _run_over_vectors(run, x.shape[1], y.size)
    return out


def smooth_down(
    rows: Rows, degree: FloatArray, b: FloatArray, aggregate: IndexArray, num_coarse: int
) -> tuple[FloatArray, FloatArray]:
    """Run one forward Gauss-Seidel sweep on ``(D - A) x = b`` from zero.

    Args:
        rows, degree: see :func:`apply_laplacian`.
        b: ``[n, m]`` right sides.
        aggregate: ``[n]`` coarse node of each node.
        num_coarse: number of coarse nodes.

    Returns:
        ``x`` ``[n, m]`` and the residual, summed over aggregates, ``[num_coarse, m]``.
    """
    from tgp.kernels import multigrid

    x, coarse = np.empty(b.shape), np.zeros((num_coarse, b.shape[1]))

    def run(first: int, last: int) -> None:
        multigrid.smooth_down(*rows, degree, b, aggregate, first, last, x, coarse)

    _run_over_vectors(run, b.shape[1], len(rows[1]))
    return x, coarse


def smooth_up(
    rows: Rows,
    degree: FloatArray,
    b: FloatArray,
    aggregate: IndexArray,
    coarse: FloatArray,
    gain: float,
    x: FloatArray,
) -> None:
    """Add ``gain`` times the coarse correction to ``x`` and run one backward Gauss-Seidel sweep, in place.

    Args:
        rows, degree, b, aggregate: see :func:`smooth_down`.
        coarse: ``[num_coarse, m]`` correction.
        gain: factor of the correction.
        x: ``[n, m]`` solution, changed in place.
    """
    from tgp.kernels import multigrid

    def run(first: int, last: int) -> None:
        multigrid.smooth_up(*rows, degree, b, aggregate, coarse, gain, first, last, x)

    _run_over_vectors(run, b.shape[1], len(rows[1]))
