"""Reference of algebraic multigrid on one graph: dense matrices and loops over nodes."""

import numpy as np


def adjacency(block):
    """Return the weights of the simple undirected graph: half of the sum of both directions, none below 0, no diagonal."""
    size = block.num_nodes
    stored, exists = np.zeros((size, size)), np.zeros((size, size), bool)
    for u, v, w in zip(*block.edge_index().tolist(), block.weights_or_ones().tolist(), strict=True):
        stored[u, v] += w
        exists[u, v] = exists[v, u] = True
    stored = stored + stored.T
    found = np.where(exists, np.maximum(0.5 * stored, 0.0), 0.0)
    np.fill_diagonal(found, 0.0)
    return found


def laplacian(weights):
    """Return ``D - A``."""
    return np.diag(weights.sum(axis=1)) - weights


def strong_edges(weights, strength):
    """Return True where the edge to the column is strong for the row."""
    return (weights > 0) & (weights >= strength * weights.max(axis=1, initial=0.0, keepdims=True))


def limit(matrix, entries):
    """Keep the largest entries of each row, those of smaller columns first, and divide by the sum."""
    found = np.zeros_like(matrix)
    for i, row in enumerate(matrix):
        kept = sorted(np.flatnonzero(row).tolist(), key=lambda c, row=row: (-row[c], c))[:entries]
        found[i, kept] = row[kept]
    sums = found.sum(axis=1, keepdims=True)
    return np.divide(found, sums, out=np.zeros_like(found), where=sums > 0)


def direct(weights, strong, centers):
    """Return the weights of the strong edges to centers."""
    found = np.zeros((len(weights), len(centers)))
    for i in range(len(weights)):
        for c, center in enumerate(centers):
            if i == center:
                found[i, c] = 1.0
            elif i not in centers and strong[i, center]:
                found[i, c] = weights[i, center]
    return found


def classical(weights, strong, centers):
    """Return the modified classical interpolation: strong edges between other nodes are passed on to common centers."""
    matrix, found = laplacian(weights), direct(weights, strong, centers)
    for i in set(range(len(weights))) - set(centers):
        mine = [c for c in centers if strong[i, c]]
        passed = [
            k
            for k in range(len(weights))
            if strong[i, k] and k not in centers and any(strong[k, c] for c in mine)
        ]
        rest = [k for k in range(len(weights)) if k != i and k not in mine and k not in passed]
        scale = matrix[i, i] + matrix[i, rest].sum()
        for c, center in enumerate(centers):
            if center in mine:
                other = sum(matrix[i, k] * matrix[k, center] / matrix[k, mine].sum() for k in passed)
                found[i, c] = -(matrix[i, center] + other) / scale
    return found


def smoothed(weights, strong, cluster):
    """Return ``(I - D^-1 L / 3) S`` for the edges that are strong for one of their ends."""
    edges = np.where(strong | strong.T, weights, 0.0)
    degree = edges.sum(axis=1)
    step = np.eye(len(weights))
    for i in np.flatnonzero(degree):
        step[i] -= laplacian(edges)[i] / degree[i] / 3
    return step @ np.eye(max(cluster, default=-1) + 1)[cluster]


def aggregate(strong):
    """Return the root of the aggregate of each node, by the three passes of standard aggregation.

    A node whose neighbours are all free makes an aggregate with them. A free node then joins the aggregate of its first
    neighbour in one. The nodes that remain make aggregates with their free neighbours.
    """
    near = [np.flatnonzero(row).tolist() for row in strong | strong.T]
    root = [-1] * len(near)
    for i, row in enumerate(near):
        if row and all(root[j] < 0 for j in [i, *row]):
            for j in [i, *row]:
                root[j] = i
    first = list(root)
    for i, row in enumerate(near):
        joined = [first[j] for j in row if first[j] >= 0]
        if root[i] < 0 and joined:
            root[i] = joined[0]
    for i, row in enumerate(near):
        if root[i] < 0:
            root[i] = i
            for j in row:
                if root[j] < 0:
                    root[j] = i
    return root
