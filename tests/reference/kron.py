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
