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
"""Nodes that are updated together; also what ``SHIFT`` and ``MASK`` say."""

SHIFT = 5
MASK = 31

DEAD = 1e-20
"""A component with this share of the largest squared norm is only rounding."""


@njit(cache=True, nogil=True)
def _gram(factor, n, k, out):
    """``out = factor^T factor``. Four sums at a time, because one would wait for each addition."""
    out[:] = 0.0
    for tile in range(factor.shape[0]):
        used = min(LANES, n - tile * LANES)
        for a in range(k):
            for b in range(a + 1):
                s0 = s1 = s2 = s3 = 0.0
                for r in range(0, used, 4):
                    s0 += factor[tile, a, r] * factor[tile, b, r]
                    s1 += factor[tile, a, r + 1] * factor[tile, b, r + 1]
                    s2 += factor[tile, a, r + 2] * factor[tile, b, r + 2]
                    s3 += factor[tile, a, r + 3] * factor[tile, b, r + 3]
                out[a, b] += (s0 + s2) + (s1 + s3)
    for a in range(k):
        for b in range(a):
            out[b, a] = out[a, b]


@njit(cache=True, nogil=True)
def _times(indptr, indices, weight, lo, n, k, factor, out, transposed):
    """``out = A factor``, or ``A^T factor``, for the graph whose first node is ``lo``."""
    out[:] = 0.0
    for i in range(n):
        for e in range(indptr[lo + i], indptr[lo + i + 1]):
            source = np.int64(indices[e]) - lo
            target = i
            if transposed:
                source, target = target, source
            value = weight[e]
            tile, lane = source >> SHIFT, source & MASK
            to_tile, to_lane = target >> SHIFT, target & MASK
            for a in range(k):
                out[to_tile, a, to_lane] += value * factor[tile, a, lane]


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
            factor[i >> SHIFT, a, i & MASK] = scale * abs(hash_normal(seed, level, i, first + a))


@njit(cache=True, nogil=True)
def _soft_rows(factor, lo, n, k, row, soft):
    """Softmax of each node's components after every component got mean square 1 over the nodes."""
    scale = np.zeros(k)
    for a in range(k):
        square = 0.0
        for i in range(n):
            square += factor[i >> SHIFT, a, i & MASK] ** 2
        if square > 0.0:
            scale[a] = math.sqrt(n / square)
    for i in range(n):
        top = 0.0
        for a in range(k):
            row[a] = factor[i >> SHIFT, a, i & MASK] * scale[a]
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
    gram = np.zeros((k, width))
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
