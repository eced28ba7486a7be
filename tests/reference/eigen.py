"""Reference of spectral clusters and cluster modes of one graph, with the dense eigensolver of numpy."""

import numpy as np

from tests.reference.kmeans import by_smallest_member, kmeans
from tests.reference.nmf import adjacency

SAME = 1e-8
TIE = 1e-6


def affinity(block):
    """Return ``max((A + A^T) / 2, 0)``."""
    matrix = adjacency(block)
    return np.maximum((matrix + matrix.T) / 2, 0)


def canonical(values, vectors, take, tie=TIE):
    """Return unique eigenvectors (columns): projections of unit vectors to each eigenspace, longest first."""
    tol = SAME * max(abs(values[-1]), abs(values[0]))
    out = []
    start = 0
    while start < len(values) and len(out) < take:
        end = start + 1
        while end < len(values) and values[end] - values[end - 1] <= tol:
            end += 1
        projector = vectors[:, start:end] @ vectors[:, start:end].T
        for _ in range(end - start):
            size = projector.diagonal()
            pivot = int(np.argmax(size >= size.max() * (1 - tie)))
            vector = projector[:, pivot] / np.sqrt(size[pivot])
            projector = projector - np.outer(vector, vector)
            out.append(vector)
        start = end
    return np.array(out[:take]).T


def lowest(matrix, take, tie=TIE):
    values, vectors = np.linalg.eigh(matrix)
    return canonical(values, vectors, take, tie)


def embedding(matrix, k):
    """Return the lowest eigenvectors of the normalized Laplacian, divided by the square root of the degree."""
    matrix = matrix - np.diag(matrix.diagonal())
    degree = matrix.sum(1)
    factor = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    laplacian = np.diag((degree > 0).astype(float)) - factor[:, None] * matrix * factor
    scale = np.sqrt(degree.sum()) if degree.sum() > 0 else 1.0
    return lowest(laplacian, k) * (factor * scale)[:, None]


def components(matrix):
    """Return the lists of nodes of the components, by smallest node."""
    free, found = set(range(len(matrix))), []
    while free:
        part, new = set(), {min(free)}
        while new:
            part |= new
            new = {int(j) for i in new for j in np.flatnonzero(matrix[i])} - part
        free -= part
        found.append(sorted(part))
    return found


def labels(block, k, seed=0, level=0, restarts=10, split=True):
    return matrix_labels(affinity(block), k, seed, level, restarts, split)


def matrix_labels(matrix, k, seed, level, restarts, split):
    n = len(matrix)
    if k == 1:
        return np.zeros(n, int)
    if n <= k:
        return np.arange(n)
    parts = components(matrix)
    if not split or len(parts) <= k:
        return kmeans(embedding(matrix, k), k, seed, level, restarts)
    big = [part for part in parts if len(part) * k >= n]
    small = [part for part in parts if len(part) * k < n]
    seats, rest = [1] * len(big), 1
    while sum(seats) + rest < k:
        claims = [
            len(part) / (2 * s + 1) if s < len(part) else -1 for part, s in zip(big, seats, strict=True)
        ]
        claim = sum(map(len, small)) / (2 * rest + 1) if rest < len(small) else -1
        if claims and max(claims) >= claim:
            seats[claims.index(max(claims))] += 1
        else:
            rest += 1
    bins = [[] for _ in range(rest)]
    for part in sorted(small, key=len, reverse=True):
        min(bins, key=len).extend(part)
    out = np.zeros(n, int)
    for c, nodes in enumerate(bins):
        out[nodes] = c
    for part, s in zip(big, seats, strict=True):
        out[part] = rest + matrix_labels(matrix[np.ix_(part, part)], s, seed, level, restarts, False)
        rest += s
    return by_smallest_member(out)


def cluster_laplacian(matrix, normalized):
    degree = matrix.sum(0)
    if not normalized:
        return np.diag(degree) - matrix
    root = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    return np.eye(len(matrix)) - root[:, None] * matrix * root


def theta(block, label, num_modes, normalized=True, tie=TIE):
    """Return ``[n, H]``: modes of each node inside its cluster, padded with zeros."""
    matrix = affinity(block)
    out = np.zeros((block.num_nodes, num_modes))
    for c in np.unique(label):
        nodes = np.flatnonzero(label == c)
        modes = lowest(
            cluster_laplacian(matrix[np.ix_(nodes, nodes)], normalized), min(num_modes, len(nodes))
        )
        out[nodes, : modes.shape[1]] = modes
    return out


def coarse(block, label, k):
    """Return ``S^T A S`` without the entries inside clusters."""
    matrix = adjacency(block)
    one_hot = np.eye(k)[label]
    return one_hot.T @ np.where(label[:, None] == label, 0, matrix) @ one_hot
