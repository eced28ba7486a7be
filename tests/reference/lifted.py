"""Reference of the errors of the literature on graph reduction: one graph, dense matrices, literal formulas."""

import networkx as nx
import numpy as np


def laplacian(edges, weight, num_nodes):
    """Return ``D - A`` of the undirected graph ``max((A + A^T) / 2, 0)``."""
    adjacency = np.zeros((num_nodes, num_nodes))
    np.add.at(adjacency, (edges[0], edges[1]), np.ones(edges.shape[1]) if weight is None else weight)
    adjacency = np.maximum((adjacency + adjacency.T) / 2, 0.0)
    np.fill_diagonal(adjacency, 0.0)
    return np.diag(adjacency.sum(1)) - adjacency


def scaled_indicator(cluster, count):
    """Return ``C``: one column per cluster, with norm 1."""
    members = np.zeros((len(cluster), count))
    members[np.arange(len(cluster)), cluster] = 1.0
    return members / np.sqrt(np.maximum(members.sum(0), 1.0))


def num_components(matrix):
    """Return the number of connected components of a Laplacian."""
    return nx.number_connected_components(nx.from_numpy_array(-matrix + np.diag(np.diag(matrix))))


def lowest(matrix, components, modes):
    """Return the number of components and the lowest eigenvalues after one zero per component."""
    return components, np.linalg.eigvalsh(matrix)[components : components + modes]


def highest_error(fine, coarse, modes, components):
    """Return the mean relative error of the highest positive eigenvalues; ``components`` are the numbers of zeros."""
    old = np.linalg.eigvalsh(fine)[components[0] :][::-1][:modes]
    new = np.linalg.eigvalsh(coarse)[components[1] :][::-1][:modes]
    count = min(len(old), len(new))
    return float(np.mean(np.abs(new[:count] - old[:count]) / old[:count])) if count else np.nan


def lifted(matrix, cluster, count):
    """Return ``C L_c C^T`` with ``L_c = C^T L C``."""
    c = scaled_indicator(cluster, count)
    return c @ (c.T @ matrix @ c) @ c.T


def reconstruction(matrix, cluster, count):
    """Return the squared Frobenius norm of ``L - C L_c C^T``."""
    return float(np.linalg.norm(matrix - lifted(matrix, cluster, count)) ** 2)


def hyperbolic(matrix, cluster, count, x):
    """Return the hyperbolic error, NaN if a trace is 0."""
    other = lifted(matrix, cluster, count)
    traces = np.trace(x.T @ matrix @ x), np.trace(x.T @ other @ x)
    if min(traces) <= 1e-12 * np.trace(x.T @ np.diag(np.diag(matrix)) @ x):
        return np.nan
    below = 2 * traces[0] * traces[1]
    above = np.linalg.norm((matrix - other) @ x) ** 2 * np.linalg.norm(x) ** 2
    return float(np.arccosh(1 + above / below))


def approximation(matrix, cluster, count, modes):
    """Return the largest ``|x - Px|_L / |x|_L`` of the lowest eigenvectors, by the root of the matrix."""
    components = num_components(matrix)
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[components:], vectors[:, components:]
    if not len(values):
        return np.nan
    used = values <= values[min(modes, len(values)) - 1] * (1 + 1e-8)
    basis = vectors[:, used] / np.sqrt(values[used])
    everything, axes = np.linalg.eigh(matrix)
    root = axes * np.sqrt(np.maximum(everything, 0)) @ axes.T
    c = scaled_indicator(cluster, count)
    return float(np.linalg.norm(root @ (basis - c @ (c.T @ basis)), 2))
