"""Reference of the Kron reduction: a dense Schur complement."""

import numpy as np

from tests.reference.ndp import components


def laplacian(graph):
    """Return the signed Laplacian, which is the Laplacian if no weight is negative."""
    return np.diag(np.abs(graph).sum(axis=1)) - graph


def kron_dense(graph, kept):
    """Return the adjacency matrix of the reduced graph with a zero diagonal and without a threshold."""
    kept = np.asarray(kept, dtype=int)
    reached = {i for nodes in components(graph) if set(nodes) & set(kept.tolist()) for i in nodes}
    dropped = np.array(sorted(reached - set(kept.tolist())), dtype=int)
    full = laplacian(graph)
    inner = full[np.ix_(dropped, dropped)]
    out = full[np.ix_(kept, kept)] - full[np.ix_(kept, dropped)] @ np.linalg.solve(
        inner, full[np.ix_(dropped, kept)]
    )
    np.fill_diagonal(out, 0.0)
    return -out


def resistance(graph):
    """Return the effective resistances between all pairs of nodes of a connected graph."""
    inverse = np.linalg.pinv(laplacian(graph))
    diagonal = np.diag(inverse)
    return diagonal[:, None] + diagonal - 2 * inverse


def kron_series(graph, kept, steps):
    """Return the power series of a Kron reduction, with an approximate dominant eigenvector (twelve products)."""
    graph = np.asarray(graph, dtype=float)
    kept = np.asarray(kept)
    dropped = np.setdiff1d(np.arange(len(graph)), kept)
    degree = np.abs(graph[dropped]).sum(1) if (graph < 0).any() else graph[dropped].sum(1)
    inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    to_kept, inside = graph[np.ix_(dropped, kept)], graph[np.ix_(dropped, dropped)]
    step = inverse[:, None] * inside
    vector = np.ones(len(dropped))
    for _ in range(12):
        product = step @ vector
        if not np.abs(product).max(initial=0.0) > 0:
            break
        vector = product / np.abs(product).max()
    norm = (degree * vector * vector).sum()
    value = (vector @ inside @ vector) / norm if norm > 0 else 0.0
    first = inverse[:, None] * to_kept
    ends = first.copy()
    if 0.0 < value <= 0.999:
        ends += value / (1.0 - value) / norm * np.outer(vector, vector @ to_kept)
    for _ in range(steps):
        ends = first + step @ ends
    out = graph[np.ix_(kept, kept)] + to_kept.T @ ends
    out = np.triu(out, 1)
    return out + out.T
