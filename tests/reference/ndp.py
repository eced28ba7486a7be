"""Reference of NDP on dense matrices, with eigenvectors from numpy."""

import numpy as np


def dense_graph(block, g=0):
    """Return the simple undirected graph of graph ``g`` as a dense matrix."""
    lo, hi = int(block.node_ptr[g]), int(block.node_ptr[g + 1])
    n = hi - lo
    total = np.zeros((n, n))
    there = np.zeros((n, n), dtype=bool)
    for i in range(lo, hi):
        for e in range(block.indptr[i], block.indptr[i + 1]):
            j = block.indices[e]
            total[i - lo, j - lo] += 1.0 if block.weight is None else block.weight[e]
            there[i - lo, j - lo] = True
    if block.weight is None:
        total = there.astype(float)
    out = np.where(there & there.T, np.maximum(total, total.T), np.where(there, total, total.T))
    np.fill_diagonal(out, 0.0)
    return out


def components(graph):
    """Return the components as ascending lists of nodes, in the order of their smallest members."""
    n = len(graph)
    label = list(range(n))
    for _ in range(n):
        for i in range(n):
            for j in range(n):
                if graph[i, j] != 0.0:
                    label[i] = label[j] = min(label[i], label[j])
    return [[i for i in range(n) if label[i] == c] for c in sorted(set(label))]


def top_pair(part):
    """Return the largest eigenvalue of the normalized Laplacian, its gap to the next one, and its eigenvector."""
    scale = np.abs(part).sum(axis=1) ** -0.5
    values, vectors = np.linalg.eigh(np.eye(len(part)) - scale[:, None] * part * scale)
    return values[-1], values[-1] - values[-2], vectors[:, -1]


def share(part, side):
    """Return the share of the weight that is cut (positive weights) or not cut (negative weights)."""
    crossing = side[:, None] != side
    return (
        np.where(part > 0, crossing, ~crossing)[part != 0].dot(np.abs(part[part != 0])) / np.abs(part).sum()
    )


def hub_side(part, side, nodes):
    """Return True if the positive side is kept."""
    degree = np.abs(part).sum(axis=1)
    hubs = np.flatnonzero(degree >= degree.max() * (1 - 1e-9))
    plus, minus = hubs[side[hubs] > 0], hubs[side[hubs] < 0]
    if len(minus) == 0 or len(plus) == 0:
        return len(minus) == 0
    if (side > 0).sum() != (side < 0).sum():
        return (side > 0).sum() < (side < 0).sum()
    return min(nodes[i] for i in plus) < min(nodes[i] for i in minus)


def certain_sides(graph):
    """Return ``{node: kept}`` for components whose cut is unique except for the sign of the eigenvector.

    Components are skipped if the eigenvalue is not clearly simple, an entry is near zero, the cut has less than half of
    the weight, or all nodes are on one side.
    """
    out = {}
    for nodes in components(graph):
        part = graph[np.ix_(nodes, nodes)]
        if len(nodes) == 1:
            out[nodes[0]] = True
            continue
        _, gap, vector = top_pair(part)
        if gap < 1e-6 or np.abs(vector).min() < 1e-6:
            continue
        side = np.sign(vector)
        if share(part, side) < 0.5 - 1e-9 or abs(side.sum()) == len(side):
            continue
        kept = side > 0 if hub_side(part, side, nodes) else side < 0
        out.update(zip(nodes, kept.tolist(), strict=True))
    return out
