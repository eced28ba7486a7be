"""Non-negative factorization ``A = W H`` of many sparse matrices, and soft clusters from ``H``.

Coordinate descent (HALS): if one factor is fixed, each row of the other one is a small quadratic problem in ``k``
unknowns. Its coordinates are minimized one after another, in order, so that the residual never grows. One sweep over
both factors takes ``O(E k + n k^2)`` time, and there is no ``n x n`` array.

A factor of a graph with ``n`` nodes is stored as ``[tiles, k, LANES]``: node ``i`` is lane ``i % LANES`` of tile
``i // LANES``. Rows are independent of each other. The nodes of a tile are therefore updated together, and the inner
loops become vector instructions without changing any sum. Lanes after the last node, and components after ``k``, are
zero.

Large graphs (:func:`nmf_rows`) use rows of ``k`` values. Factors soon have few non-zero values per row, so a gradient that
is updated for each value that moves needs ``O(k)`` time per non-zero value instead of ``O(k^2)`` per row.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import hash_normal, kernel
from tgp.kernels.array_types import Float32MatrixArray, FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["nmf_rows", "nmf_soft"]

LANES = 32
"""Number of nodes that are updated together. ``SHIFT``, ``MASK``, ``STEP`` and the shifts by 5 must agree with it."""

SHIFT = np.uint64(5)
MASK = np.uint64(31)
STEP = np.uint64(32)

DEAD = 1e-20
"""A component whose squared norm, relative to the largest one, is at most this value consists of rounding errors."""

LEAST_SWEEPS = 40
"""Least number of sweeps over a large graph. Earlier, the start can look like a result."""


@kernel(inner=True)
def _gram(factor: FloatArray, n: int, k: int, out: FloatArray) -> None:
    """Write ``factor^T factor`` to ``out``, in blocks of two by two components, so that each value is used twice."""
    for a in range(k + k % 2):
        for b in range(k + k % 2):
            out[a, b] = 0.0
    for tile in range((n + LANES - 1) // LANES):
        used = n - tile * LANES
        if used > LANES:
            used = LANES
        for a in range(0, k, 2):
            for b in range(0, a + 2, 2):
                p0 = p1 = q0 = q1 = s0 = s1 = t0 = t1 = 0.0
                for r in range(0, used, 2):
                    x0, x1 = factor[tile, a, r], factor[tile, a, r + 1]
                    y0, y1 = factor[tile, a + 1, r], factor[tile, a + 1, r + 1]
                    u0, u1 = factor[tile, b, r], factor[tile, b, r + 1]
                    v0, v1 = factor[tile, b + 1, r], factor[tile, b + 1, r + 1]
                    p0 += x0 * u0
                    p1 += x1 * u1
                    q0 += x0 * v0
                    q1 += x1 * v1
                    s0 += y0 * u0
                    s1 += y1 * u1
                    t0 += y0 * v0
                    t1 += y1 * v1
                out[a, b] += p0 + p1
                out[a, b + 1] += q0 + q1
                out[a + 1, b] += s0 + s1
                out[a + 1, b + 1] += t0 + t1
    for a in range(k):
        for b in range(a):
            out[b, a] = out[a, b]


@kernel(inner=True)
def _multiply(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, lo: int, n: int, k: int, factor: FloatArray,
    out: FloatArray, width: int, transposed: int,
) -> None:  # fmt: skip
    """Write ``A factor``, or ``A^T factor``, to ``out`` for the graph whose first node is ``lo``. Both arrays are flat."""
    stride = np.uint64(width * LANES)
    for e in range((n + LANES - 1) // LANES * width * LANES):
        out[e] = 0.0
    for i in range(n):
        row = (np.uint64(i) >> SHIFT) * stride + (np.uint64(i) & MASK)
        for e in range(indptr[lo + i], indptr[lo + i + 1]):
            j = np.uint64(indices[e] - lo)
            there = (j >> SHIFT) * stride + (j & MASK)
            value = weight[e]
            # Unsigned positions, because numba checks signed ones for negative indices.
            here = row
            if transposed:
                here, there = there, here
            for _ in range(k):
                out[here] += value * factor[there]
                here += STEP
                there += STEP


@kernel(inner=True)
def _sweep(
    factor: FloatArray, n: int, k: int, gram: FloatArray, product: FloatArray, grad: FloatArray, moved: FloatArray
) -> float:  # fmt: skip
    """Update each coordinate of ``factor`` once, in place; return the projected-gradient violation.

    The violation of a coordinate is the length of its projected step in units of the gradient. A component that the
    other factor no longer uses (except for rounding errors) becomes zero. ``grad`` and ``moved`` are scratch.
    """
    total = 0.0
    top = 0.0
    for t in range(k):
        if gram[t, t] > top:
            top = gram[t, t]
    dead = DEAD * top
    for tile in range((n + LANES - 1) // LANES):
        for r in range(LANES):
            moved[r] = 0.0
        for t in range(k):
            for r in range(LANES):
                grad[r] = -product[tile, t, r]
            for b in range(0, k, 4):
                v0, v1, v2, v3 = gram[t, b], gram[t, b + 1], gram[t, b + 2], gram[t, b + 3]
                for r in range(LANES):
                    grad[r] += (v0 * factor[tile, b, r] + v1 * factor[tile, b + 1, r]) + (
                        v2 * factor[tile, b + 2, r] + v3 * factor[tile, b + 3, r]
                    )
            curvature = gram[t, t]
            alive = curvature > dead
            inverse = 1.0 / curvature if alive else 0.0
            keep = 1.0 if alive else 0.0
            for r in range(LANES):
                old = factor[tile, t, r]
                new = max(keep * old - grad[r] * inverse, 0.0)
                factor[tile, t, r] = new
                moved[r] += abs(new - old) * curvature
        for r in range(LANES):
            total += moved[r]
    return total


@kernel(inner=True)
def _init_factor(
    factor: FloatArray, n: int, k: int, shift: int, stride: int, step: int, scale: float, seed: int, level: int,
    first: int,
) -> None:  # fmt: skip
    """Write absolute normal random numbers, keyed by node index in its graph and component, to a flat factor.

    The value of node ``i`` and component ``a`` has the position ``(i >> shift) * stride + i % 2^shift + a * step``.
    """
    mask = (1 << shift) - 1
    for i in range(n):
        at = (i >> shift) * stride + (i & mask)
        for a in range(k):
            factor[at + a * step] = scale * abs(hash_normal(seed, level, i, first + a))


@kernel(inner=True)
def _write_soft_rows(
    factor: FloatArray, n: int, k: int, shift: int, stride: int, step: int, row: MatrixArray, lo: int,
    soft: Float32MatrixArray,
) -> None:  # fmt: skip
    """Scale each component to mean square 1 over the nodes and write the softmax of each node's row to ``soft``.

    Positions are those of :func:`_init_factor`; ``row`` ``[2, >= k]`` is scratch.
    """
    mask = (1 << shift) - 1
    for a in range(k):
        square = 0.0
        for i in range(n):
            value = factor[(i >> shift) * stride + (i & mask) + a * step]
            square += value * value
        row[1, a] = math.sqrt(n / square) if square > 0.0 else 0.0
    for i in range(n):
        at = (i >> shift) * stride + (i & mask)
        top = 0.0
        for a in range(k):
            row[0, a] = factor[at + a * step] * row[1, a]
            if row[0, a] > top:
                top = row[0, a]
        total = 0.0
        for a in range(k):
            row[0, a] = math.exp(row[0, a] - top)
            total += row[0, a]
        for a in range(k):
            soft[lo + i, a] = row[0, a] / total


@kernel
def _factorize(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, graphs: PtrArray, k: int, seed: int,
    level: int, tol: float, max_sweeps: int, w: FloatArray, h: FloatArray, product: FloatArray, gram: MatrixArray,
    lanes: MatrixArray, rows: MatrixArray, soft: Float32MatrixArray, sweeps: PtrArray,
) -> None:  # fmt: skip
    """Factorize graphs one after another, see :func:`nmf_soft`. The arrays after ``max_sweeps`` are scratch and output."""
    width = gram.shape[0]
    stride = width * LANES
    shape = (product.shape[0] // stride, width, LANES)
    w_tiles, h_tiles, product_tiles = w.reshape(shape), h.reshape(shape), product.reshape(shape)
    for q in range(graphs.shape[0]):
        lo = node_ptr[graphs[q]]
        n = node_ptr[graphs[q] + 1] - lo
        total = 0.0
        for e in range(indptr[lo], indptr[lo + n]):
            total += weight[e]
        scale = math.sqrt(total / (float(n) * n) / k)
        first = 0.0
        for e in range((n + LANES - 1) // LANES * stride):
            w[e] = 0.0
            h[e] = 0.0
        # The first pass writes the start.
        for s in range(max_sweeps + 1 if total > 0.0 else 0):
            violation = 0.0
            for half in range(2):
                moving, fixed, moving_tiles, fixed_tiles = w, h, w_tiles, h_tiles
                if half == 1:
                    moving, fixed, moving_tiles, fixed_tiles = h, w, h_tiles, w_tiles
                if s == 0:
                    _init_factor(moving, n, k, 5, stride, LANES, scale, seed, level, half * k)
                    continue
                _gram(fixed_tiles, n, k, gram)
                _multiply(indptr, indices, weight, lo, n, k, fixed, product, width, half)
                violation += _sweep(moving_tiles, n, k, gram, product_tiles, lanes[0], lanes[1])
            sweeps[q] = s
            if s == 1:
                first = violation
            if s > 0 and violation <= tol * first:
                break
        _write_soft_rows(h, n, k, 5, stride, LANES, rows, lo, soft)


def nmf_soft(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, graphs: PtrArray, k: int, seed: int,
    level: int, tol: float, max_sweeps: int, soft: Float32MatrixArray,
) -> PtrArray:  # fmt: skip
    """Factorize graphs with more than ``k`` nodes each and write their soft assignments to ``soft[:, :k]``.

    Args:
        indptr, indices: Rows of the block.
        weight: ``[nnz]``, not negative.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        graphs: ``[G]`` ids of the graphs to factorize.
        k: Number of components.
        seed, level: Key of the random numbers.
        tol: Stop if the projected-gradient violation of a sweep is at most ``tol`` times that of the first sweep.
        max_sweeps: Largest number of sweeps.
        soft: ``[N, >= k]`` output, written only for the nodes of ``graphs``.

    Returns:
        ``[G]`` number of sweeps of each graph.
    """
    width = 4 * ((k + 3) // 4)
    most = int((node_ptr[graphs + 1] - node_ptr[graphs]).max(initial=1))
    size = (most + LANES - 1) // LANES * width * LANES
    sweeps = np.zeros(len(graphs), np.int64)
    _factorize(
        indptr, indices, weight, node_ptr, graphs, k, seed, level, tol, max_sweeps, np.empty(size), np.empty(size),
        np.empty(size), np.zeros((width, width)), np.empty((2, LANES)), np.empty((2, k)), soft, sweeps,
    )  # fmt: skip
    return sweeps


@kernel
def _sweep_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, fixed: MatrixArray, gram: MatrixArray, inverse: FloatArray,
    factor: MatrixArray, grad: FloatArray, new_gram: MatrixArray,
) -> tuple[float, float]:  # fmt: skip
    """Update each coordinate of ``factor`` ``[n, k]`` once, in place, in the order of :func:`_sweep`.

    The gradient of a row is computed once and updated whenever a coordinate moves. Only coordinates that are not zero or
    move take time that is proportional to ``k``.

    Args:
        indptr, indices, weight: Rows of the matrix, or of its transpose.
        fixed: ``[n, k]``, the other factor.
        gram: ``fixed^T fixed``.
        inverse: ``[k]``, inverse of its diagonal; 0 for a component that becomes zero.
        factor: ``[n, k]``, updated.
        grad: ``[k]`` scratch.
        new_gram: ``factor^T factor`` after the update.

    Returns:
        The projected-gradient violation, and the sum of ``factor * gradient`` after the update.
    """
    n, k = factor.shape
    violation = 0.0
    slope = 0.0
    for a in range(k):
        for b in range(k):
            new_gram[a, b] = 0.0
    for i in range(n):
        for a in range(k):
            grad[a] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            value = weight[e]
            for a in range(k):
                grad[a] -= value * fixed[j, a]
        for b in range(k):
            value = factor[i, b]
            if value != 0.0:
                for a in range(k):
                    grad[a] += value * gram[b, a]
        for t in range(k):
            old = factor[i, t]
            new = old - grad[t] * inverse[t]
            if new < 0.0 or inverse[t] == 0.0:
                new = 0.0
            step = new - old
            if step != 0.0:
                factor[i, t] = new
                violation += abs(step) * gram[t, t]
                for a in range(k):
                    grad[a] += step * gram[t, a]
        for b in range(k):
            value = factor[i, b]
            if value != 0.0:
                slope += value * grad[b]
                for a in range(k):
                    new_gram[b, a] += value * factor[i, a]
    return violation, slope


def nmf_rows(
    rows: tuple[PtrArray, IndexArray, FloatArray], transposed: tuple[PtrArray, IndexArray, FloatArray], k: int,
    seed: int, level: int, tol: float, max_sweeps: int, gain: float,
    soft: Float32MatrixArray,
) -> int:  # fmt: skip
    """Factorize one large graph and write its soft assignment. The start and the updates are those of :func:`nmf_soft`; sums have another order.

    The explained part of ``|A|^2`` is ``2 <A, W H> - |W H|^2``. The iteration also ends after at least ``LEAST_SWEEPS``
    sweeps if the second half of them raised it by less than the share ``gain``: the next percent would take as long as
    everything before.

    Args:
        rows: ``(indptr, indices, weight)`` with non-negative weights, of which one is positive.
        transposed: Rows of the transposed matrix.
        k: Number of components.
        seed, level: Key of the random numbers.
        tol, max_sweeps: See :func:`nmf_soft`.
        gain: Share; 0 uses only ``tol`` and ``max_sweeps``.

        soft: ``[n, k]`` output.

    Returns:
        The number of sweeps.
    """
    from tgp.kernels import multigrid

    n = len(rows[0]) - 1
    total = float(np.cumsum(rows[2])[-1])  # in order, unlike a sum of numpy
    scale = math.sqrt(total / (float(n) * n) / k)
    w, h = np.empty((n, k)), np.empty((n, k))
    _init_factor(w.reshape(-1), n, k, 0, k, 1, scale, seed, level, 0)
    _init_factor(h.reshape(-1), n, k, 0, k, 1, scale, seed, level, k)
    gram_w, gram_h, grad = np.empty((k, k)), np.empty((k, k)), np.empty(k)
    multigrid.gram(h, h, np.ones(n), 0, k, gram_h)
    explained = np.zeros(max_sweeps + 1)
    first = 0.0
    for s in range(1, max_sweeps + 1):
        violation, slope = _sweep_rows(*rows, h, gram_h, _inverse_diagonal(gram_h), w, grad, gram_w)
        explained[s] = np.sum(gram_w * gram_h) - 2.0 * slope
        more, _ = _sweep_rows(*transposed, w, gram_w, _inverse_diagonal(gram_w), h, grad, gram_h)
        violation += more
        first = violation if s == 1 else first
        stalls = s >= LEAST_SWEEPS and explained[s] <= (1.0 + gain) * explained[s // 2]
        if violation <= tol * first or (gain > 0.0 and stalls):
            break
    _write_soft_rows(h.reshape(-1), n, k, 0, k, 1, np.empty((2, k)), 0, soft)
    return s


def _inverse_diagonal(gram: MatrixArray) -> FloatArray:
    diagonal = gram.diagonal()
    alive = diagonal > DEAD * diagonal.max()
    return np.where(alive, 1.0 / np.where(alive, diagonal, 1.0), 0.0)
