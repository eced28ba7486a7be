"""Non-negative factorisation ``A = W H`` of many sparse matrices, and soft clusters from ``H``.

Coordinate descent (HALS): with one factor fixed, every row of the other is a small quadratic problem
in ``k`` unknowns; its coordinates are minimised one after another, in order, so the residual never
grows. One sweep over both factors costs ``O(E k + n k^2)`` and no ``n x n`` array exists.

A factor of a graph with ``n`` nodes is stored as ``[tiles, k, LANES]``: node ``i`` is lane ``i % LANES``
of tile ``i // LANES``. Rows do not depend on each other, so the nodes of a tile move through the
coordinates together, and the inner loops become vector instructions without a change in any sum.
Lanes beyond the last node, and components beyond ``k``, are zero.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tgp.kernels._prims import hash_normal

__all__ = ["nmf_soft"]

LANES = 32
"""Nodes that are updated together; also what ``SHIFT``, ``MASK`` and ``STEP`` say."""

SHIFT = np.uint64(5)
MASK = np.uint64(31)
STEP = np.uint64(32)

DEAD = 1e-20
"""A component with this share of the largest squared norm is only rounding."""


@njit(cache=True, nogil=True)
def _gram(factor, n, k, out):
    """``out = factor^T factor``, two by two components at a time: each number read is used twice."""
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


@njit(cache=True, nogil=True)
def _times(indptr, indices, weight, lo, n, k, factor, out, transposed):
    """``out = A factor``, or ``A^T factor``, for the graph whose first node is ``lo``."""
    source, target = factor.reshape(-1), out.reshape(-1)
    target[:] = 0.0
    stride = np.uint64(factor.shape[1] * LANES)
    for i in range(n):
        row = (np.uint64(i) >> SHIFT) * stride + (np.uint64(i) & MASK)
        for e in range(indptr[lo + i], indptr[lo + i + 1]):
            j = np.uint64(indices[e] - lo)
            there = (j >> SHIFT) * stride + (j & MASK)
            value = weight[e]
            # Unsigned positions: signed ones would be tested for counting from the end.
            here = row
            if transposed:
                here, there = there, here
            for _ in range(k):
                target[here] += value * source[there]
                here += STEP
                there += STEP


@njit(cache=True, nogil=True)
def _sweep(factor, k, gram, product, grad, moved):
    """One pass over the coordinates of ``factor``; returns the projected-gradient violation.

    The violation of a coordinate is the length of its projected step in units of the gradient. A
    component that the other factor no longer uses (nothing left but rounding) becomes zero.
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


@njit(cache=True, nogil=True)
def _start(factor, n, k, scale, seed, level, first):
    """Absolute normal draws by (node index in its graph, component)."""
    for i in range(n):
        for a in range(k):
            factor[i // LANES, a, i % LANES] = scale * abs(hash_normal(seed, level, i, first + a))


@njit(cache=True, nogil=True)
def _soft_rows(factor, lo, n, k, row, soft):
    """Softmax of each node's components after every component got mean square 1 over the nodes."""
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


@njit(cache=True, nogil=True)
def nmf_soft(indptr, indices, weight, node_ptr, graphs, k, seed, level, tol, max_sweeps, soft):
    """Fill ``soft[:, :k]`` for the nodes of ``graphs`` (each with more than ``k`` nodes).

    Args:
        weight: ``[nnz]`` float64, not negative.
        graphs: ``[G]`` int64 ids of the graphs to factorise.
        tol: stop when the projected-gradient violation of a sweep is at most ``tol`` times the first.
        max_sweeps: stop after so many sweeps.
        soft: ``[N, K >= k]`` float32, written for the nodes of ``graphs`` only.

    Returns:
        ``[G]`` int64 number of sweeps of each graph.
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
            _start(w, n, k, scale, seed, level, 0)
            _start(h, n, k, scale, seed, level, k)
            product = np.empty(shape)
            first = 0.0
            for s in range(max_sweeps):
                _gram(h, n, k, gram)
                _times(indptr, indices, weight, lo, n, k, h, product, False)
                violation = _sweep(w, k, gram, product, grad, moved)
                _gram(w, n, k, gram)
                _times(indptr, indices, weight, lo, n, k, w, product, True)
                violation += _sweep(h, k, gram, product, grad, moved)
                sweeps[q] = s + 1
                if s == 0:
                    first = violation
                if violation <= tol * first:
                    break
        _soft_rows(h, lo, n, k, row, soft)
    return sweeps
