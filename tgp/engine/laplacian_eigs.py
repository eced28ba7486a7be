"""Lowest eigenvectors of one large graph Laplacian, in linear memory.

LOBPCG (locally optimal block preconditioned conjugate gradients) with explicit orthonormalisation, a
multigrid cycle over pairwise aggregates as preconditioner, and the aggregates' own eigenvectors as start: the
number of iterations hardly grows with the graph. No BLAS, no LAPACK, no random state: the same graph
gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = ["DENSE", "Rows", "graph_modes", "lowest_modes", "row_sums", "sums"]

DENSE = 128
"""Problems up to this size are solved densely."""

GUARD = 3
"""Vectors carried along beyond those wanted: they keep the last wanted ones from stalling."""

TOL = 1e-5
"""A residual below this share of its eigenvalue ends the iteration."""

COARSE_TOL = 1e-2
"""The same on aggregates, whose vectors are only a start."""

ROUNDS = 40
COARSE_ROUNDS = 5

GAIN = 1.8
"""Piecewise constant corrections fall short; this factor is what makes them fit."""

EXACT = 1e-15
"""A residual below this is as small as rounding lets it be."""

TIE = 1e-3
"""Squared entries this close (as a share) tie: wider than for dense solutions, which are more accurate."""

Rows = tuple[PtrArray, IndexArray, FloatArray]


@dataclass(frozen=True)
class Grid:
    """One level of aggregation of the problem ``(diag(degree) - A) u = value diag(mass) u``.

    ``inverse`` is the pseudo-inverse of the Laplacian on the last level, the one without aggregates.
    """

    rows: Rows
    degree: FloatArray
    mass: FloatArray
    aggregate: IndexArray
    num_coarse: int
    inverse: FloatArray | None = None


def lowest_modes(rows: Rows, mass: FloatArray, null: FloatArray, want: int) -> tuple[FloatArray, FloatArray]:
    """The lowest solutions of ``(D - A) u = value M u`` beside those with value 0.

    Args:
        rows: symmetric ``(indptr, indices, weight)``, weights positive, no self loops, no empty row.
        mass: ``[n]`` positive diagonal of ``M``.
        null: ``[n, c]`` solutions with value 0: one constant per component, norm 1 in ``M``.
        want: how many.

    Returns:
        Ascending values ``[w]`` and vectors ``[n, w]``, orthonormal in ``M``. ``w`` may exceed ``want``
        by a few, less accurate, so that the caller sees whether the last value repeats; it is smaller only if
        there are no more.
    """
    size = want + GUARD
    nulls = [null]
    if len(mass) <= max(DENSE, 5 * (size + null.shape[1])):
        values, vectors = _dense_modes(rows, row_sums(rows), mass)
        return values[null.shape[1] :], np.ascontiguousarray(vectors[:, null.shape[1] :])
    grids = _grids(rows, mass)
    for grid in grids[:-1]:
        coarse = np.zeros((grid.num_coarse, null.shape[1]))
        coarse[grid.aggregate] = nulls[-1]
        nulls.append(coarse)
    last = grids[-1]
    values, vectors = _dense_modes(last.rows, last.degree, last.mass)
    vectors = vectors[:, null.shape[1] : null.shape[1] + size]
    for level in range(len(grids) - 2, -1, -1):
        vectors = _prolong(grids[level], vectors, size, level)
        tol, rounds = (TOL, ROUNDS) if level == 0 else (COARSE_TOL, COARSE_ROUNDS)
        values, vectors = _lobpcg(grids[level:], vectors, nulls[level], want, tol, rounds)
    return values, vectors


def sums(index: npt.NDArray[Any], values: FloatArray, count: int) -> FloatArray:
    """``[count]`` sum of the ``values`` with each ``index``, taken in order."""
    return np.asarray(np.bincount(index, values, count), np.float64)


def row_sums(rows: Rows) -> FloatArray:
    """Degree of each node."""
    n = len(rows[0]) - 1
    return sums(np.repeat(np.arange(n), np.diff(rows[0])), rows[2], n)


def _dense_modes(rows: Rows, degree: FloatArray, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
    """All solutions of a small problem."""
    from tgp.kernels import spectral_basis

    indptr, indices, weight = rows
    n = len(degree)
    root = 1.0 / np.sqrt(mass)
    matrix = np.zeros((n, n))
    matrix[np.repeat(np.arange(n), np.diff(indptr)), indices] = -weight
    matrix[np.arange(n), np.arange(n)] = degree
    values, vectors = spectral_basis.eigh_rows(matrix * (root[:, None] * root))
    return values, (vectors * root).T


def _pseudo_inverse(rows: Rows, degree: FloatArray) -> FloatArray:
    from tgp.kernels import multigrid

    values, vectors = _dense_modes(rows, degree, np.ones(len(degree)))
    keep = values > 1e-12 * values[-1]
    kept = np.ascontiguousarray(vectors[:, keep].T)
    out: FloatArray = multigrid.gram(kept, kept, 1.0 / values[keep])
    return out


def _pair(rows: Rows, degree: FloatArray) -> tuple[IndexArray, int, Rows]:
    from tgp.kernels import contract, csr, multigrid

    aggregate, count = multigrid.pair_up(*rows, degree)
    return aggregate, count, contract.contract(*rows, True, aggregate, count, csr.SUM, True, -1.0)


def _grids(rows: Rows, mass: FloatArray) -> list[Grid]:
    """Aggregates of about four nodes, level over level, down to a dense problem."""
    grids = []
    degree = row_sums(rows)
    while len(mass) > DENSE:
        aggregate, count, coarse = _pair(rows, degree)
        if count > DENSE:
            again, count, coarse = _pair(coarse, row_sums(coarse))
            aggregate = again[aggregate]
        grids.append(Grid(rows, degree, mass, aggregate, count))
        mass = sums(aggregate, mass, count)
        rows, degree = coarse, row_sums(coarse)
    empty = np.zeros(0, np.int32)
    grids.append(Grid(rows, degree, mass, empty, 0, _pseudo_inverse(rows, degree)))
    return grids


def _prolong(grid: Grid, vectors: FloatArray, size: int, level: int) -> FloatArray:
    """Vectors of the aggregates on their members, filled up with draws to ``size`` vectors."""
    from tgp.kernels import multigrid

    out = vectors[grid.aggregate]
    if out.shape[1] < size:
        out = np.concatenate([out, multigrid.draw_block(len(out), size - out.shape[1], level)], 1)
    return np.ascontiguousarray(out)


def _cycle(grids: list[Grid], b: FloatArray) -> FloatArray:
    """Approximate solution of ``(D - A) x = b`` by one multigrid cycle."""
    from tgp.kernels import multigrid

    grid = grids[0]
    x: FloatArray
    if grid.inverse is not None:
        x = multigrid.combine(grid.inverse, b)
        return x
    x, coarse = multigrid.smooth_down(*grid.rows, grid.degree, b, grid.aggregate, grid.num_coarse)
    y = _cycle(grids[1:], coarse)
    below = grids[1]
    # A second visit pays where the coarse level is small; where edges hardly merge it would cost too much.
    if below.inverse is None and 3 * len(below.rows[1]) <= len(grid.rows[1]):
        coarse -= multigrid.apply_laplacian(*below.rows, below.degree, y)
        y += _cycle(grids[1:], coarse)
    multigrid.smooth_up(*grid.rows, grid.degree, b, grid.aggregate, y, GAIN, x)
    return x


def _orthonormal(vectors: FloatArray, basis: FloatArray, mass: FloatArray) -> FloatArray:
    """An orthonormal basis of what ``vectors`` add to ``basis``; twice, because once is not enough."""
    from tgp.kernels import multigrid, spectral_basis

    for _ in range(2):
        vectors = vectors - multigrid.combine(basis, multigrid.gram(basis, vectors, mass))
        gram = multigrid.gram(vectors, vectors, mass)
        size = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
        values, turn = spectral_basis.eigh_rows(gram / (size[:, None] * size))
        keep = values > 1e-12 * values[-1]
        turn = turn[keep] / np.sqrt(values[keep])[:, None] / size
        vectors = multigrid.combine(vectors, np.ascontiguousarray(turn.T))
    return vectors


def _lobpcg(
    grids: list[Grid], x: FloatArray, null: FloatArray, want: int, tol: float, rounds: int
) -> tuple[FloatArray, FloatArray]:
    """Improve the vectors ``x`` until the first ``want`` residuals are small, or for so many rounds."""
    from tgp.kernels import multigrid, spectral_basis

    grid = grids[0]
    ones = np.ones(len(grid.mass))
    span = _orthonormal(x, null, grid.mass)
    image = multigrid.apply_laplacian(*grid.rows, grid.degree, span)
    m = span.shape[1]
    for step in range(rounds + 1):
        gram = multigrid.gram(span, image, ones)
        values, turn = spectral_basis.eigh_rows(0.5 * (gram + gram.T))
        values, turn = values[:m], np.ascontiguousarray(turn[:m].T)
        x, image = multigrid.combine(span, turn), multigrid.combine(image, turn)
        residual = image - x * (grid.mass[:, None] * values)
        error = np.sqrt((residual * residual / grid.mass[:, None]).sum(0))
        if step == rounds or (error[:want] <= tol * values[:want] + EXACT).all():
            break
        basis = np.concatenate([null, x], 1)
        steps = _orthonormal(_cycle(grids, residual), basis, grid.mass)
        if span.shape[1] > m:
            past = multigrid.combine(np.ascontiguousarray(span[:, m:]), turn[m:])
            past = _orthonormal(past, np.concatenate([basis, steps], 1), grid.mass)
            steps = np.concatenate([steps, past], 1)
        span = np.concatenate([x, steps], 1)
        new = multigrid.apply_laplacian(*grid.rows, grid.degree, steps)
        image = np.concatenate([image, new], 1)
    return values, x


def graph_modes(rows: Rows, mass: FloatArray, take: int) -> FloatArray:
    """The first eigenvectors ``[<= take, n]`` of ``M^-1/2 (D - A) M^-1/2`` of any graph, canonical.

    Eigenvectors of value 0 are known: one per component. They come in the order in which
    :func:`~tgp.kernels.spectral_basis.canonical_rows` would pick them. Nodes without mass are unit
    vectors of value 1.

    Args:
        rows: symmetric ``(indptr, indices, weight)``, weights positive, no self loops.
        mass: ``[n]`` diagonal of ``M``, not negative; positive for every node that has an edge.
        take: how many vectors.
    """
    from tgp.kernels import csr, spectral_basis

    n = len(mass)
    component = csr.components(rows[0], rows[1], np.array([0, n]))[0]
    volume = sums(component, mass, int(component.max(initial=-1)) + 1)
    out = np.zeros((min(take, n), n))
    found = _null_vectors(out, component, volume, mass)
    if found == len(out):
        return out
    busy = np.diff(rows[0]) > 0
    want = len(out) - found
    parts = [np.ones(min(want, int((mass == 0).sum())))]
    vectors = [np.zeros((len(parts[0]), n))]
    vectors[0][np.arange(len(parts[0])), np.flatnonzero(mass == 0)[: len(parts[0])]] = 1.0
    if busy.any():
        values, some = _busy_modes(rows, mass, busy, component, volume, want)
        parts.append(values)
        vectors.append(some)
    values, stack = np.concatenate(parts), np.concatenate(vectors)
    order = np.argsort(values, kind="stable")
    values, stack = values[order], stack[order]
    spectral_basis.canonical_rows(values, stack, want, TIE)
    out[found:] = stack[:want]
    return out


def _null_vectors(out: FloatArray, component: IndexArray, volume: FloatArray, mass: FloatArray) -> int:
    """Fill rows with the eigenvectors of value 0; returns how many there are, at most ``len(out)``."""
    reach = np.where(mass > 0, mass / np.where(volume > 0, volume, 1.0)[component], -1.0)
    count = min(len(out), int((volume > 0).sum()))
    for row in out[:count]:
        pivot = int(np.argmax(reach >= reach.max() * (1.0 - TIE)))
        inside = component == component[pivot]
        row[inside] = np.sqrt(mass[inside] / volume[component[pivot]])
        reach[inside] = -1.0
    return count


def _busy_modes(
    rows: Rows,
    mass: FloatArray,
    busy: npt.NDArray[np.bool_],
    component: IndexArray,
    volume: FloatArray,
    want: int,
) -> tuple[FloatArray, FloatArray]:
    """:func:`lowest_modes` of the nodes that have edges, as row vectors over all nodes."""
    indptr, indices, weight = rows
    name = np.cumsum(busy, dtype=np.int32) - 1
    inner: Rows = (np.append(indptr[:-1][busy], indptr[-1]), name[indices], weight)
    kept, column = np.unique(component[busy], return_inverse=True)
    null = np.zeros((len(column), len(kept)))
    null[np.arange(len(column)), column] = 1.0 / np.sqrt(volume[component[busy]])
    values, vectors = lowest_modes(inner, mass[busy], null, want)
    out = np.zeros((len(values), len(mass)))
    out[:, busy] = (vectors * np.sqrt(mass[busy])[:, None]).T
    return values, out


def dense_eigenvectors(matrix: FloatArray) -> FloatArray:
    """All eigenvectors of a symmetric matrix as rows, by ascending eigenvalue, canonical."""
    from tgp.kernels import spectral_basis

    values, vectors = spectral_basis.eigh_rows(np.array(matrix, np.float64))
    if len(vectors):
        spectral_basis.canonical_rows(values, vectors, len(vectors), spectral_basis.TIE)
    out: FloatArray = vectors
    return out
