"""Lowest eigenvectors of one large graph Laplacian, in linear memory.

The solver is LOBPCG (locally optimal block preconditioned conjugate gradients) with explicit orthonormalisation. The
preconditioner is a multigrid cycle over pairwise aggregates, and the start vectors are the eigenvectors of the
aggregates. The number of iterations therefore hardly grows with the graph. The solver uses neither BLAS nor LAPACK nor
random state, so the same graph gives the same bits on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tgp.engine import block_algebra
from tgp.engine.block_algebra import Rows, row_sums
from tgp.engine.range_contraction import contract_rows
from tgp.kernels.array_types import Array, BoolArray
from tgp.ragged.block import FloatArray, IndexArray
from tgp.ragged.offsets import run_ids

__all__ = [
    "CLUSTERING",
    "DENSE_SIZE",
    "EXACT",
    "LARGE_CLUSTER",
    "Effort",
    "dense_eigenvectors",
    "graph_modes",
    "lowest_modes",
    "sum_by_index",
]

DENSE_SIZE = 128
"""Largest number of nodes for which the dense solver is used."""

GUARD_VECTORS = 3
"""Number of extra vectors. They speed up the convergence of the last requested ones."""

OVERCORRECTION = 1.8
"""Factor of the correction from the aggregates. A piecewise constant correction is too small."""

ROUNDING = 1e-15
"""Residual that cannot be reduced further because of rounding."""

TIE = 1e-3
"""Relative difference below which two squared entries count as equal. It is larger than for the dense solver, which is
more accurate."""


@dataclass(frozen=True)
class Effort:
    """Rules that end the iteration.

    Args:
        tolerance: the iteration ends when each residual is below this share of its eigenvalue.
        rounds: largest number of rounds.
        gain: the iteration also ends when a round lowers the sum of the eigenvalues by less than this share; 0 does
            not use this rule.
        thorough: also search in the directions of the last round, and orthonormalise twice. Small residuals need the
            second pass because of rounding. A round without both takes less than half of the time and memory.
    """

    tolerance: float
    rounds: int
    gain: float = 0.0
    thorough: bool = True


EXACT = Effort(1e-5, 40)
"""Rules for eigenvectors that are results."""

LARGE_CLUSTER = Effort(1e-3, 20)
"""Rules for the modes of large clusters, which are stored in single precision."""

CLUSTERING = Effort(1e-2, 12, 0.01, thorough=False)
"""Rules for the clusters of large graphs. More rounds hardly change the clusters."""

AGGREGATES = Effort(1e-2, 5)
"""Rules for aggregates, whose vectors are only start vectors."""


@dataclass(frozen=True)
class Grid:
    """One multigrid level of the problem ``(diag(degree) - A) u = value diag(mass) u``.

    Args:
        rows: rows of ``A``.
        degree: row sums of ``A``.
        mass: diagonal of the mass matrix.
        aggregate: aggregate of each node, a node of the next level; empty on the last level.
        num_coarse: number of aggregates.
        inverse: pseudo-inverse of the Laplacian on the last level; ``None`` on the others.
    """

    rows: Rows
    degree: FloatArray
    mass: FloatArray
    aggregate: IndexArray
    num_coarse: int
    inverse: FloatArray | None = None


def lowest_modes(
    rows: Rows, mass: FloatArray, null: FloatArray, want: int, effort: Effort = EXACT
) -> tuple[FloatArray, FloatArray]:
    """Return the lowest solutions of ``(D - A) u = value M u`` with a positive value.

    Args:
        rows: symmetric ``(indptr, indices, weight)`` with positive weights, without self loops and empty rows.
        mass: ``[n]`` positive diagonal of ``M``.
        null: ``[n, c]`` solutions with value 0: one constant vector per component, with norm 1 in ``M``.
        want: number of solutions.
        effort: rules that end the iteration.

    Returns:
        Ascending values ``[w]`` and vectors ``[n, w]``, orthonormal in ``M``. ``w`` can be a little larger than
        ``want``, so that the caller sees if the last value repeats; the additional solutions are less accurate. ``w``
        is smaller than ``want`` only if there are no more solutions.
    """
    size = want + GUARD_VECTORS
    nulls = [null]
    if len(mass) <= max(DENSE_SIZE, 5 * (size + null.shape[1])):
        values, vectors = _dense_modes(rows, row_sums(*rows), mass)
        return values[null.shape[1] :], np.ascontiguousarray(vectors[:, null.shape[1] :])
    grids = _build_grids(rows, mass)
    for grid in grids[:-1]:
        coarse = np.zeros((grid.num_coarse, null.shape[1]))
        coarse[grid.aggregate] = nulls[-1]
        nulls.append(coarse)
    last = grids[-1]
    values, vectors = _dense_modes(last.rows, last.degree, last.mass)
    vectors = vectors[:, null.shape[1] : null.shape[1] + size]
    for level in range(len(grids) - 2, -1, -1):
        vectors = _prolong(grids[level], vectors, size, level)
        rules = effort if level == 0 else replace(AGGREGATES, gain=effort.gain, thorough=effort.thorough)
        values, vectors = _lobpcg(grids[level:], vectors, nulls[level], want, rules)
    return values, vectors


def sum_by_index(index: Array, values: FloatArray, count: int) -> FloatArray:
    """Return the sum of the values of each index, ``[count]``. Values are added in order.

    Args:
        index: index of each value.
        values: the values.
        count: number of indices.
    """
    return np.asarray(np.bincount(index, values, count), np.float64)


def _dense_modes(rows: Rows, degree: FloatArray, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return all solutions of a small problem."""
    from tgp.kernels import spectral_basis

    indptr, indices, weight = rows
    n = len(degree)
    root = 1.0 / np.sqrt(mass)
    matrix = np.zeros((n, n))
    matrix[run_ids(indptr), indices] = -weight
    matrix[np.arange(n), np.arange(n)] = degree
    values, vectors = spectral_basis.eigh_rows(matrix * (root[:, None] * root))
    return values, (vectors * root).T


def _pseudo_inverse(rows: Rows, degree: FloatArray) -> FloatArray:

    values, vectors = _dense_modes(rows, degree, np.ones(len(degree)))
    keep = values > 1e-12 * values[-1]
    kept = np.ascontiguousarray(vectors[:, keep].T)
    out: FloatArray = block_algebra.gram(kept, kept, 1.0 / values[keep])
    return out


def _aggregate_pairs(rows: Rows, degree: FloatArray) -> tuple[IndexArray, int, Rows]:
    from tgp.kernels import csr, multigrid

    aggregate, count = multigrid.aggregate_pairs(*rows, degree)
    return aggregate, count, contract_rows(*rows, True, aggregate, count, csr.SUM, True, -1.0)


def _build_grids(rows: Rows, mass: FloatArray) -> list[Grid]:
    """Aggregate about four nodes at a time until the problem is small enough for the dense solver."""
    grids = []
    degree = row_sums(*rows)
    while len(mass) > DENSE_SIZE:
        aggregate, count, coarse = _aggregate_pairs(rows, degree)
        if count > DENSE_SIZE:
            pairs_of_pairs, count, coarse = _aggregate_pairs(coarse, row_sums(*coarse))
            aggregate = pairs_of_pairs[aggregate]
        grids.append(Grid(rows, degree, mass, aggregate, count))
        mass = sum_by_index(aggregate, mass, count)
        rows, degree = coarse, row_sums(*coarse)
    empty = np.zeros(0, np.int32)
    grids.append(Grid(rows, degree, mass, empty, 0, _pseudo_inverse(rows, degree)))
    return grids


def _prolong(grid: Grid, vectors: FloatArray, size: int, level: int) -> FloatArray:
    """Copy the vectors of the aggregates to their nodes, and add pseudo-random vectors up to ``size`` vectors."""
    from tgp.kernels import multigrid

    out = vectors[grid.aggregate]
    if out.shape[1] < size:
        out = np.concatenate([out, multigrid.random_block(len(out), size - out.shape[1], level)], 1)
    return np.ascontiguousarray(out)


def _cycle(grids: list[Grid], b: FloatArray) -> FloatArray:
    """Return an approximate solution of ``(D - A) x = b`` by one multigrid cycle."""

    grid = grids[0]
    x: FloatArray
    if grid.inverse is not None:
        x = block_algebra.combine(grid.inverse, b)
        return x
    x, coarse = block_algebra.smooth_down(grid.rows, grid.degree, b, grid.aggregate, grid.num_coarse)
    y = _cycle(grids[1:], coarse)
    below = grids[1]
    # A second visit is worth its time if the coarse level is small. If few edges merge, it costs too much.
    if below.inverse is None and 3 * len(below.rows[1]) <= len(grid.rows[1]):
        coarse -= block_algebra.apply_laplacian(below.rows, below.degree, y)
        y += _cycle(grids[1:], coarse)
    block_algebra.smooth_up(grid.rows, grid.degree, b, grid.aggregate, y, OVERCORRECTION, x)
    return x


def _orthonormal(vectors: FloatArray, basis: FloatArray, mass: FloatArray, passes: int) -> FloatArray:
    """Return an orthonormal basis of the part of ``vectors`` that is orthogonal to ``basis``."""
    from tgp.kernels import spectral_basis

    for _ in range(passes):
        vectors = vectors - block_algebra.combine(basis, block_algebra.gram(basis, vectors, mass))
        gram = block_algebra.gram(vectors, vectors, mass)
        size = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
        values, turn = spectral_basis.eigh_rows(gram / (size[:, None] * size))
        keep = values > 1e-12 * values[-1]
        turn = turn[keep] / np.sqrt(values[keep])[:, None] / size
        vectors = block_algebra.combine(vectors, np.ascontiguousarray(turn.T))
    return vectors


def _lobpcg(
    grids: list[Grid], x: FloatArray, null: FloatArray, want: int, effort: Effort
) -> tuple[FloatArray, FloatArray]:
    """Improve the vectors ``x`` until the first ``want`` residuals are small or another rule ends the iteration."""
    from tgp.kernels import spectral_basis

    grid = grids[0]
    ones = np.ones(len(grid.mass))
    span = _orthonormal(x, null, grid.mass, 2)
    image = block_algebra.apply_laplacian(grid.rows, grid.degree, span)
    m = span.shape[1]
    passes = 2 if effort.thorough else 1
    before = np.inf
    for step in range(effort.rounds + 1):
        gram = block_algebra.gram(span, image, ones)
        values, turn = spectral_basis.eigh_rows(0.5 * (gram + gram.T))
        values, turn = values[:m], np.ascontiguousarray(turn[:m].T)
        x, image = block_algebra.combine(span, turn), block_algebra.combine(image, turn)
        residual = image - x * (grid.mass[:, None] * values)
        error = np.sqrt((residual * residual / grid.mass[:, None]).sum(0))
        total = float(values[:want].sum())
        stalls = step > 1 and total >= (1.0 - effort.gain) * before
        small = (error[:want] <= effort.tolerance * values[:want] + ROUNDING).all()
        if step == effort.rounds or small or (effort.gain > 0.0 and stalls):
            break
        before = total
        basis = np.concatenate([null, x], 1)
        steps = _orthonormal(_cycle(grids, residual), basis, grid.mass, passes)
        if span.shape[1] > m and effort.thorough:
            past = block_algebra.combine(np.ascontiguousarray(span[:, m:]), turn[m:])
            past = _orthonormal(past, np.concatenate([basis, steps], 1), grid.mass, passes)
            steps = np.concatenate([steps, past], 1)
        span = np.concatenate([x, steps], 1)
        new = block_algebra.apply_laplacian(grid.rows, grid.degree, steps)
        image = np.concatenate([image, new], 1)
    return values, x


def graph_modes(rows: Rows, mass: FloatArray, take: int, effort: Effort = EXACT) -> FloatArray:
    """Return the first eigenvectors of ``M^-1/2 (D - A) M^-1/2`` of any graph, in canonical form.

    The eigenvectors of value 0 are known: there is one per component. They are returned in the order in which
    :func:`~tgp.kernels.spectral_basis.canonical_rows` would choose them. A node without mass has a unit vector of
    value 1.

    Args:
        rows: symmetric ``(indptr, indices, weight)`` with positive weights, without self loops.
        mass: ``[n]`` non-negative diagonal of ``M``; positive for every node that has an edge.
        take: number of vectors.
        effort: rules that end the iteration on a large graph.

    Returns:
        ``[min(take, n), n]`` eigenvectors as rows, by ascending eigenvalue.
    """
    from tgp.kernels import csr, spectral_basis

    n = len(mass)
    component = csr.components(rows[0], rows[1], np.array([0, n]))[0]
    volume = sum_by_index(component, mass, int(component.max(initial=-1)) + 1)
    out = np.zeros((min(take, n), n))
    found = _fill_null_vectors(out, component, volume, mass)
    if found == len(out):
        return out
    has_edges = np.diff(rows[0]) > 0
    want = len(out) - found
    parts = [np.ones(min(want, int((mass == 0).sum())))]
    vectors = [np.zeros((len(parts[0]), n))]
    vectors[0][np.arange(len(parts[0])), np.flatnonzero(mass == 0)[: len(parts[0])]] = 1.0
    if has_edges.any():
        values, some = _connected_modes(rows, mass, has_edges, component, volume, want, effort)
        parts.append(values)
        vectors.append(some)
    values, stack = np.concatenate(parts), np.concatenate(vectors)
    order = np.argsort(values, kind="stable")
    values, stack = values[order], stack[order]
    spectral_basis.canonical_rows(values, stack, want, TIE)
    out[found:] = stack[:want]
    return out


def _fill_null_vectors(out: FloatArray, component: IndexArray, volume: FloatArray, mass: FloatArray) -> int:
    """Write the eigenvectors of value 0 to the first rows and return their number, at most ``len(out)``."""
    largest = np.where(mass > 0, mass / np.where(volume > 0, volume, 1.0)[component], -1.0)
    count = min(len(out), int((volume > 0).sum()))
    for row in out[:count]:
        pivot = int(np.argmax(largest >= largest.max() * (1.0 - TIE)))
        inside = component == component[pivot]
        row[inside] = np.sqrt(mass[inside] / volume[component[pivot]])
        largest[inside] = -1.0
    return count


def _connected_modes(
    rows: Rows,
    mass: FloatArray,
    has_edges: BoolArray,
    component: IndexArray,
    volume: FloatArray,
    want: int,
    effort: Effort,
) -> tuple[FloatArray, FloatArray]:
    """Return :func:`lowest_modes` of the nodes that have edges, as row vectors over all nodes."""
    indptr, indices, weight = rows
    new_id = np.cumsum(has_edges, dtype=np.int32) - 1
    inner: Rows = (np.append(indptr[:-1][has_edges], indptr[-1]), new_id[indices], weight)
    kept, column = np.unique(component[has_edges], return_inverse=True)
    null = np.zeros((len(column), len(kept)))
    null[np.arange(len(column)), column] = 1.0 / np.sqrt(volume[component[has_edges]])
    values, vectors = lowest_modes(inner, mass[has_edges], null, want, effort)
    out = np.zeros((len(values), len(mass)))
    out[:, has_edges] = (vectors * np.sqrt(mass[has_edges])[:, None]).T
    return values, out


def dense_eigenvectors(matrix: FloatArray) -> FloatArray:
    """Return all eigenvectors of a symmetric matrix as rows, by ascending eigenvalue, in canonical form.

    Args:
        matrix: ``[n, n]`` symmetric matrix.
    """
    from tgp.kernels import spectral_basis

    values, vectors = spectral_basis.eigh_rows(np.array(matrix, np.float64))
    if len(vectors):
        spectral_basis.canonical_rows(values, vectors, len(vectors), spectral_basis.TIE)
    out: FloatArray = vectors
    return out
