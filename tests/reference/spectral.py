"""Reference of eigenvalues of normalized Laplacians and their errors, graph by graph with dense matrices."""

import networkx as nx
import numpy as np


def modes(edges, weight, num_nodes, count):
    """Return the number of connected components and the lowest eigenvalues after one zero per component."""
    adjacency = np.zeros((num_nodes, num_nodes))
    np.add.at(adjacency, (edges[0], edges[1]), np.ones(edges.shape[1]) if weight is None else weight)
    adjacency = np.maximum((adjacency + adjacency.T) / 2, 0.0)
    components = nx.number_connected_components(nx.from_numpy_array(adjacency)) if num_nodes else 0
    degree = adjacency.sum(1)
    root = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0.0)
    laplacian = np.diag((degree > 0).astype(float)) - root[:, None] * adjacency * root
    values = np.linalg.eigvalsh(laplacian) if num_nodes else np.zeros(0)
    return components, values[components : components + count]


def error(fine, coarse, factor=1.0):
    """Return the mean relative error of the common modes; additional components of the coarse graph count as zeros."""
    (zeros, old), (zeros2, new) = fine, coarse
    new = np.concatenate([np.zeros(max(zeros2 - zeros, 0)), new])
    count = min(len(old), len(new))
    if not count:
        return np.nan
    return float(np.mean(np.abs(factor * new[:count] - old[:count]) / old[:count]))


def scaled_error(fine, coarse):
    """Return the smallest error over all factors. The best factor makes one of the modes exact."""
    (zeros, old), (zeros2, new) = fine, coarse
    padded = np.concatenate([np.zeros(max(zeros2 - zeros, 0)), new])
    count = min(len(old), len(padded))
    if count < 2:
        return np.nan
    factors = [o / n for o, n in zip(old[:count], padded[:count], strict=True) if n > 0]
    return min([error(fine, coarse, f) for f in factors], default=1.0)
