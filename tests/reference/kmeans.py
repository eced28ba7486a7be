"""Reference of k-means of one point set: k-means++ with hashed numbers, Lloyd's algorithm, restarts, tolerance for ties."""

import numpy as np

from tgp.kernels._prims import hash_uniform

TIE = 1e-9


def distances(points, center):
    return ((points - center) ** 2).sum(-1)


def initial_labels(points, k, tol, seed, level, restart):
    """Return the nearest of ``k`` randomly chosen points for each point, the first one in a tie."""
    n = len(points)
    nearest = np.full(n, np.inf)
    label = np.zeros(n, int)
    for c in range(k):
        u = hash_uniform(seed, level, restart, c)
        if c == 0:
            pick = min(int(u * n), n - 1)
        else:
            share = np.where(nearest > tol, nearest, 0)
            candidates = np.flatnonzero(share)
            over = candidates[np.cumsum(share[candidates]) > u * share.sum()]
            pick = over[0] if len(over) else (candidates[-1] if len(candidates) else 0)
        away = distances(points, points[pick])
        closer = away < nearest - tol
        nearest[closer], label[closer] = away[closer], c
    return label


def lloyd(points, label, k, tol, max_rounds):
    n = len(points)
    for rounds in range(max_rounds + 1):
        center = np.array(
            [points[label == c].mean(0) if (label == c).any() else 0 * points[0] for c in range(k)]
        )
        nearest = np.array([distances(points[i], center[label[i]]) for i in range(n)])
        for c in range(k):
            if (label == c).any():
                continue
            far = -1
            for i in range(n):
                if (label == label[i]).sum() > 1 and (far < 0 or nearest[i] > nearest[far] + tol):
                    far = i
            label[far], nearest[far], center[c] = c, 0.0, points[far]
        if rounds == max_rounds:
            break
        old = label.copy()
        for i in range(n):
            best = nearest[i]
            for c in range(k):
                away = distances(points[i], center[c])
                if c != old[i] and away < best - tol:
                    best, label[i] = away, c
        if (old == label).all():
            break
    return label, nearest.sum()


def by_smallest_member(label):
    """Renumber clusters in the order of their first occurrence."""
    names = {}
    return np.array([names.setdefault(c, len(names)) for c in label], int)


def kmeans(points, k, seed=0, level=0, restarts=10, max_rounds=100):
    n = len(points)
    tol = TIE * ((points - points.mean(0)) ** 2).sum() / n
    best, chosen = np.inf, None
    for r in range(restarts):
        label, inertia = lloyd(points, initial_labels(points, k, tol, seed, level, r), k, tol, max_rounds)
        if inertia < best - tol * n:
            best, chosen = inertia, label.copy()
    return by_smallest_member(chosen)
