"""k-means of many point sets at once: k-means++ seeding by hash draws, Lloyd rounds, several restarts.

Distances that differ by less than rounding count as equal, and then the first candidate wins. So symmetric
graphs, where exact ties are the rule, get labels that do not hang on the last bit of an eigenvector.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tgp.kernels._prims import hash_uniform

__all__ = ["kmeans_graphs"]

TIE = 1e-9
"""Squared distances this close (as a share of the variance) count as equal."""


@njit(cache=True, nogil=True)
def _distance(points, i, center, c, dims):
    total = 0.0
    for t in range(dims):
        step = points[i, t] - center[c, t]
        total += step * step
    return total


@njit(cache=True, nogil=True)
def _seed_centers(points, lo, n, dims, k, tol, seed, level, restart, center, label, nearest):
    """RandomKey ``k`` points, each with probability proportional to its squared distance from those before."""
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
            if pick < 0:  # fewer than k different points: the rest of the centres is given out later
                pick = 0
        for t in range(dims):
            center[c, t] = points[lo + pick, t]
        for i in range(n):
            away = _distance(points, lo + i, center, c, dims)
            if c == 0 or away < nearest[i] - tol:
                nearest[i] = away
                label[i] = c


@njit(cache=True, nogil=True)
def _fill_empty(points, lo, n, dims, k, tol, center, label, size, nearest):
    """Give every empty cluster the point that is furthest from its centre and has company."""
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


@njit(cache=True, nogil=True)
def _lloyd(points, lo, n, dims, k, tol, max_rounds, center, label, size, nearest):
    """Move labels until none moves; returns the sum of squared distances. No cluster ends up empty."""
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
            nearest[i] = _distance(points, lo + i, center, label[i], dims)
        _fill_empty(points, lo, n, dims, k, tol, center, label, size, nearest)
        moved = False
        for i in range(n if rounds < max_rounds else 0):
            best = nearest[i]
            own = label[i]
            for c in range(k):
                if c != own:
                    away = _distance(points, lo + i, center, c, dims)
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


@njit(cache=True, nogil=True)
def _by_smallest_member(label, n, k, lo, out, rename):
    """Write ``label`` with clusters renumbered by their smallest member."""
    rename[:k] = -1
    count = 0
    for i in range(n):
        if rename[label[i]] < 0:
            rename[label[i]] = count
            count += 1
        out[lo + i] = rename[label[i]]


@njit(cache=True, nogil=True)
def kmeans_graphs(points, dims, node_ptr, graphs, k, seed, level, restarts, max_rounds, out):
    """Cluster the points of each graph into ``k`` non-empty clusters: fill ``out``.

    Args:
        points: ``[N, >= dims]`` float64 coordinates.
        graphs: ``[G]`` int64 ids; each graph has at least ``k`` points.
        restarts: how many seedings are tried; the smallest sum of squares wins, the first on ties.
        out: ``[N]`` int32 cluster of each point in its graph, numbered by smallest member.
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
            _seed_centers(points, lo, n, dims, k, tol, seed, level, r, center, label, nearest)
            inertia = _lloyd(points, lo, n, dims, k, tol, max_rounds, center, label, size, nearest)
            if inertia < best - tol * n:
                best = inertia
                for i in range(n):
                    chosen[i] = label[i]
        _by_smallest_member(chosen, n, k, lo, out, rename)
