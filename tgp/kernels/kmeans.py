"""k-means of many point sets: k-means++ initialization with hashed random numbers, Lloyd's algorithm, several restarts.

Distances that differ by less than the rounding error count as equal, and the first candidate is used. Exact ties are
common in symmetric graphs; their labels therefore do not depend on the last bits of an eigenvector.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import hash_uniform, kernel
from tgp.kernels.array_types import FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["kmeans_graphs", "kmeans_large", "number_by_first"]

TIE = 1e-9
"""Squared distances whose difference, relative to the variance, is at most this value count as equal."""

GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, cover the unit interval evenly."""

SAMPLE = 2000
SAMPLE_PER_CENTER = 32
"""Least size of the sample of many points, and its size per cluster."""

GAIN = 1e-3
"""Relative gain of a pass over all points below which no further pass is made."""

FEW_ROUNDS = 10
"""Largest number of passes over all points."""


@kernel(inner=True)
def _init_centers(
    points: MatrixArray, lo: int, n: int, dims: int, k: int, tol: float, seed: int, level: int, restart: int,
    label: PtrArray, nearest: FloatArray,
) -> None:  # fmt: skip
    """Choose ``k`` points as centers with k-means++.

    The probability of a point is proportional to its squared distance from the centers chosen so far. Writes
    ``label`` ``[n]`` and the squared distances ``nearest`` ``[n]``.
    """
    for c in range(k):
        uniform = hash_uniform(seed, level, restart, c)
        pick = np.int64(0)
        if c == 0:
            pick = np.int64(uniform * n)
            if pick > n - 1:
                pick = n - 1
        else:
            total = 0.0
            for i in range(n):
                if nearest[i] > tol:
                    total += nearest[i]
            goal = uniform * total
            passed = 0.0
            # pick stays 0 if there are fewer than k distinct points; _run_lloyd sets the remaining centers
            for i in range(n):
                if nearest[i] > tol:
                    passed += nearest[i]
                    pick = i
                    if passed > goal:
                        break
        for i in range(n):
            away = 0.0
            for t in range(dims):
                step = points[lo + i, t] - points[lo + pick, t]
                away += step * step
            if c == 0 or away < nearest[i] - tol:
                nearest[i] = away
                label[i] = c


@kernel(inner=True)
def _run_lloyd(
    points: MatrixArray, lo: int, n: int, dims: int, k: int, tol: float, max_rounds: int, center: MatrixArray,
    away: FloatArray, label: PtrArray, size: PtrArray, nearest: FloatArray,
) -> float:  # fmt: skip
    """Run Lloyd's algorithm until no label changes and return the sum of squared distances.

    Updates ``label``, ``size`` and ``nearest`` in place. No cluster is empty at the end: an empty cluster gets the point
    that is farthest from its center and not alone in its cluster. ``center`` ``[dims, k]`` and ``away`` ``[k]`` are scratch.
    """
    moved = True
    rounds = 0
    while moved:
        for c in range(k):
            size[c] = 0
            for t in range(dims):
                center[t, c] = 0.0
        for i in range(n):
            c = label[i]
            size[c] += 1
            for t in range(dims):
                center[t, c] += points[lo + i, t]
        for c in range(k):
            if size[c] > 0:
                for t in range(dims):
                    center[t, c] /= size[c]
        for i in range(n):
            c = label[i]
            total = 0.0
            for t in range(dims):
                step = points[lo + i, t] - center[t, c]
                total += step * step
            nearest[i] = total
        for c in range(k):
            if size[c] > 0:
                continue
            far = -1
            for i in range(n):
                if size[label[i]] > 1 and (far < 0 or nearest[i] > nearest[far] + tol):
                    far = i
            size[label[far]] -= 1
            label[far] = c
            size[c] = 1
            nearest[far] = 0.0
            for t in range(dims):
                center[t, c] = points[lo + far, t]
        moved = False
        for i in range(n if rounds < max_rounds else 0):
            for c in range(k):
                away[c] = 0.0
            for t in range(dims):
                value = points[lo + i, t]
                for c in range(k):
                    step = value - center[t, c]
                    away[c] += step * step
            best = nearest[i]
            own = label[i]
            for c in range(k):
                if c != own and away[c] < best - tol:
                    best = away[c]
                    label[i] = c
                    moved = True
        rounds += 1
    inertia = 0.0
    for i in range(n):
        inertia += nearest[i]
    return inertia


@kernel
def _cluster(
    points: MatrixArray, dims: int, node_ptr: PtrArray, graphs: PtrArray, k: int, seed: int, level: int, restarts: int,
    max_rounds: int, center: MatrixArray, away: FloatArray, nearest: FloatArray, label: PtrArray, chosen: PtrArray,
    size: PtrArray, rename: PtrArray, out: IndexArray,
) -> None:  # fmt: skip
    """Cluster the points of each graph, see :func:`kmeans_graphs`. ``center`` and the arrays after it are scratch."""
    for q in range(graphs.shape[0]):
        lo = node_ptr[graphs[q]]
        n = node_ptr[graphs[q] + 1] - lo
        spread = 0.0
        for t in range(dims):
            mean = 0.0
            for i in range(n):
                mean += points[lo + i, t]
            mean /= n
            for i in range(n):
                step = points[lo + i, t] - mean
                spread += step * step
        tol = TIE * spread / n
        best = np.inf
        for i in range(n):
            chosen[i] = 0
        for r in range(restarts):
            _init_centers(points, lo, n, dims, k, tol, seed, level, r, label, nearest)
            inertia = _run_lloyd(points, lo, n, dims, k, tol, max_rounds, center, away, label, size, nearest)
            if inertia < best - tol * n:
                best = inertia
                for i in range(n):
                    chosen[i] = label[i]
        for c in range(k):
            rename[c] = -1
        count = 0
        for i in range(n):
            c = chosen[i]
            if rename[c] < 0:
                rename[c] = count
                count += 1
            out[lo + i] = rename[c]


def kmeans_graphs(
    points: MatrixArray, dims: int, node_ptr: PtrArray, graphs: PtrArray, k: int, seed: int, level: int, restarts: int,
    max_rounds: int, out: IndexArray,
) -> None:  # fmt: skip
    """Cluster the points of each graph into ``k`` non-empty clusters.

    Args:
        points: ``[N, >= dims]`` coordinates.
        dims: Number of coordinates to use.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        graphs: ``[G]`` ids of the graphs to process; each graph has at least ``k`` points.
        k: Number of clusters.
        seed, level: Key of the random numbers.
        restarts: Number of initializations. The smallest sum of squares wins, and the first one in a tie.
        max_rounds: Largest number of rounds of Lloyd's algorithm.
        out: ``[N]`` output: cluster of each point in its graph, numbered by smallest member.
    """
    most = int((node_ptr[graphs + 1] - node_ptr[graphs]).max(initial=1))
    floats = np.empty((dims, k)), np.empty(k), np.empty(most)
    labels = np.empty(most, np.int64), np.empty(most, np.int64)
    counts = np.empty(k, np.int64), np.empty(k, np.int64)
    _cluster(
        points, dims, node_ptr, graphs, k, seed, level, restarts, max_rounds, *floats, *labels, *counts, out
    )


@kernel
def _assign_points(
    points: MatrixArray, center: MatrixArray, away: FloatArray, label: IndexArray, nearest: FloatArray, total: MatrixArray,
    size: PtrArray,
) -> float:  # fmt: skip
    """Write the nearest center of each point, its squared distance, and the sums and sizes of the clusters.

    ``center`` and ``total`` are ``[dims, k]``. Returns the sum of the squared distances.
    """
    n, dims = points.shape
    k = center.shape[1]
    inertia = 0.0
    for c in range(k):
        size[c] = 0
        for t in range(dims):
            total[t, c] = 0.0
    for i in range(n):
        for c in range(k):
            away[c] = 0.0
        for t in range(dims):
            value = points[i, t]
            for c in range(k):
                step = value - center[t, c]
                away[c] += step * step
        best = np.int32(0)
        for c in range(k):
            if away[c] < away[best]:
                best = np.int32(c)
        label[i] = best
        nearest[i] = away[best]
        inertia += away[best]
        size[best] += 1
        for t in range(dims):
            total[t, best] += points[i, t]
    return inertia


def kmeans_large(
    points: MatrixArray, k: int, seed: int, level: int, restarts: int, max_rounds: int
) -> tuple[IndexArray, int]:
    """Cluster many points into ``k`` non-empty clusters, in a few passes over all of them.

    The restarts use a sample of the points. Lloyd's algorithm continues from the best result with all points, until a
    round lowers the sum of squares by less than ``GAIN`` or ``FEW_ROUNDS`` rounds are done.

    Args:
        points: ``[n, dims]`` coordinates.
        k: Number of clusters.
        seed, level, restarts, max_rounds: See :func:`kmeans_graphs`; the last two for the sample.

    Returns:
        ``[n]`` cluster of each point, numbered by smallest member, and the number of passes over all points.
    """
    n, dims = points.shape
    count = min(n, max(SAMPLE, SAMPLE_PER_CENTER * k))
    spread = np.unique(
        (np.arange(1, count + 1) * GOLDEN % 1.0 * n).astype(np.int64)
    )  # even, without a period
    sample = np.ascontiguousarray(points[spread])
    label = np.zeros(len(sample), np.int32)
    kmeans_graphs(
        sample, dims, np.array([0, len(sample)]), np.array([0]), k, seed, level, restarts, max_rounds, label
    )
    size = np.bincount(label, minlength=k)
    center = np.stack([np.bincount(label, sample[:, t], k) for t in range(dims)]) / size
    label, nearest, away, total = np.empty(n, np.int32), np.empty(n), np.empty(k), np.empty((dims, k))
    before, passes = np.inf, 0
    while passes < FEW_ROUNDS:
        inertia = _assign_points(points, center, away, label, nearest, total, size)
        passes += 1
        if inertia >= (1.0 - GAIN) * before:
            break
        before = inertia
        center = np.where(size > 0, total / np.maximum(size, 1), center)
    for c in np.flatnonzero(size == 0):
        far = int(np.argmax(np.where(size[label] > 1, nearest, -1.0)))
        size[label[far]] -= 1
        label[far], nearest[far], size[c] = c, 0.0, 1
    return number_by_first(label, k), passes


def number_by_first(label: IndexArray, k: int) -> IndexArray:
    """Return labels numbered in the order of their first nodes.

    Args:
        label: ``[n]`` labels from 0 to ``k - 1``.
        k: Number of labels.
    """
    first = np.full(k, len(label))
    first[label[::-1]] = np.arange(len(label))[::-1]
    rename = np.empty(k, np.int32)
    rename[np.argsort(first, kind="stable")] = np.arange(k, dtype=np.int32)
    return np.asarray(rename[label], np.int32)
