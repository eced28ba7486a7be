"""Non-negative factorization ``A = W H`` of many sparse matrices, and soft clusters from ``H``.

Coordinate descent (HALS): if one factor is fixed, each row of the other one is a small quadratic problem in ``k``
unknowns. Its coordinates are minimized one after another, in order, so that the residual never grows. One sweep over
both factors takes ``O(E k + n k^2)`` time, and there is no ``n x n`` array.

A factor of a graph with ``n`` nodes is stored as ``[tiles, k, LANES]``: node ``i`` is lane ``i % LANES`` of tile
``i // LANES``. Rows are independent of each other. The nodes of a tile are therefore updated together, and the inner
loops become vector instructions without changing any sum. Lanes after the last node, and components after ``k``, are
zero.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import hash_normal, kernel
from tgp.kernels.array_types import Float32Array, Float32MatrixArray, FloatArray, IndexArray, PtrArray

__all__ = ["nmf_soft"]

LANES = 32
"""Number of nodes that are updated together. ``SHIFT``, ``MASK`` and ``STEP`` must agree with it."""

SHIFT = np.uint64(5)
MASK = np.uint64(31)
STEP = np.uint64(32)

DEAD = 1e-20
"""A component whose squared norm, relative to the largest one, is at most this value consists of rounding errors."""


@kernel
def _gram(factor: FloatArray, n: int, k: int, out: FloatArray) -> None:
    """Write ``factor^T factor`` to ``out``, in blocks of two by two components, so that each value is used twice."""
    out[:] = 0.0
    for tile in range(factor.shape[0]):
        used = min(LANES, n - tile * LANES)
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


@kernel
def _multiply(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, lo: int, n: int, k: int, factor: FloatArray,
    out: FloatArray, transposed: bool,
) -> None:  # fmt: skip
    """Write ``A factor``, or ``A^T factor``, to ``out`` for the graph whose first node is ``lo``."""
    source, target = factor.reshape(-1), out.reshape(-1)
    target[:] = 0.0
    stride = np.uint64(factor.shape[1] * LANES)
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
                target[here] += value * source[there]
                here += STEP
                there += STEP


@kernel
def _sweep(
    factor: FloatArray, k: int, gram: FloatArray, product: FloatArray, grad: FloatArray, moved: FloatArray
) -> float:
    """Update each coordinate of ``factor`` once, in place; return the projected-gradient violation.

    The violation of a coordinate is the length of its projected step in units of the gradient. A component that the
    other factor no longer uses (except for rounding errors) becomes zero. ``grad`` and ``moved`` are scratch.
    """
    total = 0.0
    top = 0.0
    for t in range(k):
        top = max(top, gram[t, t])
    dead = DEAD * top
    for tile in range(factor.shape[0]):
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


@kernel
def _init_factor(factor: FloatArray, n: int, k: int, scale: float, seed: int, level: int, first: int) -> None:
    """Write absolute normal random numbers, keyed by node index in its graph and component, to ``factor``."""
    for i in range(n):
        for a in range(k):
            factor[i // LANES, a, i % LANES] = scale * abs(hash_normal(seed, level, i, first + a))


@kernel
def _write_soft_rows(
    factor: FloatArray, lo: int, n: int, k: int, row: FloatArray, soft: Float32Array
) -> None:
    """Scale each component to mean square 1 over the nodes and write the softmax of each node's row to ``soft``."""
    scale = np.zeros(k)
    for a in range(k):
        square = 0.0
        for i in range(n):
            square += factor[i // LANES, a, i % LANES] ** 2
        if square > 0.0:
            scale[a] = math.sqrt(n / square)
    for i in range(n):
        top = 0.0
        for a in range(k):
            row[a] = factor[i // LANES, a, i % LANES] * scale[a]
            top = max(top, row[a])
        total = 0.0
        for a in range(k):
            row[a] = math.exp(row[a] - top)
            total += row[a]
        for a in range(k):
            soft[lo + i, a] = row[a] / total


@kernel
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
    sweeps = np.zeros(graphs.shape[0], np.int64)
    gram = np.zeros((width, width))
    grad = np.empty(LANES)
    moved = np.empty(LANES)
    row = np.empty(k)
    for q in range(graphs.shape[0]):
        lo = node_ptr[graphs[q]]
        n = node_ptr[graphs[q] + 1] - lo
        shape = ((n + LANES - 1) // LANES, width, LANES)
        w = np.zeros(shape)
        h = np.zeros(shape)
        total = 0.0
        for e in range(indptr[lo], indptr[lo + n]):
            total += weight[e]
        if total > 0.0:
            scale = math.sqrt(total / (float(n) * n) / k)
            _init_factor(w, n, k, scale, seed, level, 0)
            _init_factor(h, n, k, scale, seed, level, k)
            product = np.empty(shape)
            first = 0.0
            for s in range(max_sweeps):
                _gram(h, n, k, gram)
                _multiply(indptr, indices, weight, lo, n, k, h, product, False)
                violation = _sweep(w, k, gram, product, grad, moved)
                _gram(w, n, k, gram)
                _multiply(indptr, indices, weight, lo, n, k, w, product, True)
                violation += _sweep(h, k, gram, product, grad, moved)
                sweeps[q] = s + 1
                if s == 0:
                    first = violation
                if violation <= tol * first:
                    break
        _write_soft_rows(h, lo, n, k, row, soft)
    return sweeps
