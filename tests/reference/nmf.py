"""Reference of the non-negative factorization of one dense matrix, coordinate by coordinate."""

import math

import numpy as np

from tgp.kernels._prims import hash_normal


def adjacency(block) -> np.ndarray:
    """Return the dense ``A`` of a block with one graph; parallel edges are added."""
    matrix = np.zeros((block.num_nodes, block.num_nodes))
    np.add.at(matrix, tuple(block.edge_index()), block.weights_or_ones())
    return matrix


def start(n, k, scale, seed, level, first):
    """Return absolute normal random numbers by node and component."""
    return np.array(
        [[scale * abs(hash_normal(seed, level, i, first + a)) for a in range(k)] for i in range(n)]
    ).reshape(n, k)


def sweep(target, fixed, factor):
    """Minimize ``|target - factor fixed^T|`` over each coordinate in turn, in place; return the violation."""
    gram = fixed.T @ fixed
    violation = 0.0
    for i in range(len(factor)):
        for t in range(factor.shape[1]):
            if gram[t, t] <= 1e-20 * gram.diagonal().max():
                factor[i, t] = 0.0
                continue
            gradient = gram[t] @ factor[i] - target[i] @ fixed[:, t]
            new = max(factor[i, t] - gradient / gram[t, t], 0.0)
            violation += abs(new - factor[i, t]) * gram[t, t]
            factor[i, t] = new
    return violation


def factorise(matrix, k, seed=0, level=0, tol=1e-3, max_sweeps=1000):
    """Return ``(W, H^T, residual after every sweep)`` of ``max(matrix, 0)``."""
    matrix = np.maximum(matrix, 0)
    n = len(matrix)
    scale = math.sqrt(matrix.mean() / k)
    w = start(n, k, scale, seed, level, 0)
    h = start(n, k, scale, seed, level, k)
    residuals = [np.linalg.norm(matrix - w @ h.T)]
    first = None
    for _ in range(max_sweeps):
        violation = sweep(matrix, h, w) + sweep(matrix.T, w, h)
        residuals.append(np.linalg.norm(matrix - w @ h.T))
        first = violation if first is None else first
        if violation <= tol * first:
            break
    return w, h, residuals


def soft_clusters(matrix, k, seed=0, level=0, tol=1e-3, max_sweeps=1000):
    """Return ``S`` ``[n, k]``, with ``H`` scaled to mean square 1 per component."""
    n = len(matrix)
    out = np.zeros((n, k))
    if n <= k:
        out[:, :n] = np.eye(n)
        return out
    if k == 1:
        return np.ones((n, 1))
    if np.maximum(matrix, 0).sum() == 0:
        return np.full((n, k), 1 / k)
    _, h, _ = factorise(matrix, k, seed, level, tol, max_sweeps)
    norm = np.sqrt((h**2).mean(0))
    h = h / np.where(norm > 0, norm, 1)
    e = np.exp(h - h.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def coarse(matrix, soft, *, remove_self_loops=True, degree_norm=True, edge_weight_norm=False, eps=1e-8):
    """Return the dense ``S^T A S`` after post-processing."""
    out = soft.T @ matrix @ soft
    out[np.abs(out) <= eps] = 0
    if remove_self_loops:
        np.fill_diagonal(out, 0)
    if degree_norm:
        degree = out.sum(1)
        factor = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
        out = out * factor[:, None] * factor
    if edge_weight_norm and np.abs(out).max(initial=0) > 0:
        out = out / np.abs(out).max()
    return out
