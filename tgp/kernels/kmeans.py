"""k-means of many point sets: k-means++ initialization with hashed random numbers, Lloyd's algorithm, several restarts.

Distances that differ by less than the rounding error count as equal, and the first candidate is used. Exact ties are
common in symmetric graphs; their labels therefore do not depend on the last bits of an eigenvector.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import hash_uniform, kernel
from tgp.kernels.array_types import FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["kmeans_graphs"]

TIE = 1e-9
"""Squared distances whose difference, relative to the variance, is at most this value count as equal."""


@kernel
def _squared_distance(points: FloatArray, i: int, center: FloatArray, c: int, dims: int) -> float:
    total = 0.0
    for t in range(dims):
        step = points[i, t] - center[c, t]
        total += step * step
    return total


@kernel
def _init_centers(
    points: FloatArray, lo: int, n: int, dims: int, k: int, tol: float, seed: int, level: int, restart: int,
    center: FloatArray, label: PtrArray, nearest: FloatArray,
) -> None:  # fmt: skip
    """Choose ``k`` points as centers with k-means++.

    The probability of a point is proportional to its squared distance from the centers chosen so far. Writes
    ``center`` ``[k, dims]``, ``label`` ``[n]`` and the squared distances ``nearest`` ``[n]``.
    """
    pick = min(np.int64(hash_uniform(seed, level, restart, 0) * n), n - 1)
    for c in range(k):
        if c > 0:
            total = 0.0
            for i in range(n):
                if nearest[i] > tol:
                    total += nearest[i]
            goal = hash_uniform(seed, level, restart, c) * total
            pick = -1
            passed = 0.0
            for i in range(n):
                if nearest[i] > tol:
                    passed += nearest[i]
                    pick = i
                    if passed > goal:
                        break
            if pick < 0:  # fewer than k distinct points: _fill_empty sets the remaining centers
                pick = 0
        for t in range(dims):
            center[c, t] = points[lo + pick, t]
        for i in range(n):
            away = _squared_distance(points, lo + i, center, c, dims)
            if c == 0 or away < nearest[i] - tol:
                nearest[i] = away
                label[i] = c


@kernel
def _fill_empty(
    points: FloatArray, lo: int, n: int, dims: int, k: int, tol: float, center: FloatArray, label: PtrArray,
    size: PtrArray, nearest: FloatArray,
) -> None:  # fmt: skip
    """Move to each empty cluster the point that is farthest from its center and not alone in its cluster.

    Updates ``center``, ``label``, ``size`` and ``nearest`` in place.
    """
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
            center[c, t] = points[lo + far, t]


@kernel
def _run_lloyd(
    points: FloatArray, lo: int, n: int, dims: int, k: int, tol: float, max_rounds: int, center: FloatArray,
    label: PtrArray, size: PtrArray, nearest: FloatArray,
) -> float:  # fmt: skip
    """Run Lloyd's algorithm until no label changes and return the sum of squared distances.

    Updates ``center``, ``label``, ``size`` and ``nearest`` in place. No cluster is empty at the end.
    """
    for rounds in range(max_rounds + 1):
        center[:k] = 0.0
        size[:] = 0
        for i in range(n):
            size[label[i]] += 1
            for t in range(dims):
                center[label[i], t] += points[lo + i, t]
        for c in range(k):
            if size[c] > 0:
                for t in range(dims):
                    center[c, t] /= size[c]
        for i in range(n):
            nearest[i] = _squared_distance(points, lo + i, center, label[i], dims)
        _fill_empty(points, lo, n, dims, k, tol, center, label, size, nearest)
        moved = False
        for i in range(n if rounds < max_rounds else 0):
            best = nearest[i]
            own = label[i]
            for c in range(k):
                if c != own:
                    away = _squared_distance(points, lo + i, center, c, dims)
                    if away < best - tol:
                        best = away
                        label[i] = c
                        moved = True
        if not moved:
            break
    inertia = 0.0
    for i in range(n):
        inertia += nearest[i]
    return inertia


@kernel
def _write_canonical_labels(
    label: PtrArray, n: int, k: int, lo: int, out: IndexArray, rename: PtrArray
) -> None:
    """Write ``label`` to ``out[lo:lo + n]`` with clusters numbered by their smallest members."""
    rename[:k] = -1
    count = 0
    for i in range(n):
        if rename[label[i]] < 0:
            rename[label[i]] = count
            count += 1
        out[lo + i] = rename[label[i]]


@kernel
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
    center = np.empty((k, dims))
    size = np.empty(k, np.int64)
    rename = np.empty(k, np.int64)
    for g in graphs:
        lo = node_ptr[g]
        n = node_ptr[g + 1] - lo
        label = np.empty(n, np.int64)
        chosen = np.zeros(n, np.int64)
        nearest = np.empty(n)
        spread = 0.0
        for t in range(dims):
            mean = 0.0
            for i in range(n):
                mean += points[lo + i, t]
            mean /= n
            for i in range(n):
                spread += (points[lo + i, t] - mean) ** 2
        tol = TIE * spread / n
        best = np.inf
        for r in range(restarts):
            _init_centers(points, lo, n, dims, k, tol, seed, level, r, center, label, nearest)
            inertia = _run_lloyd(points, lo, n, dims, k, tol, max_rounds, center, label, size, nearest)
            if inertia < best - tol * n:
                best = inertia
                for i in range(n):
                    chosen[i] = label[i]
        _write_canonical_labels(chosen, n, k, lo, out, rename)
