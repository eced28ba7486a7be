"""Reference of local variation coarsening of one graph: dense matrices, the eigensolver of numpy, loops in Python."""

import numpy as np

from tests.reference.eigen import components, lowest

RANK = 1e-10
NOISE = 1e-9
LOST = 1e-9


def rounded(cost):
    """Return ``cost + NOISE`` with 20 significant bits."""
    fraction, exponent = np.frexp(cost + NOISE)
    return float(np.ldexp(np.round(np.ldexp(fraction, 20)), exponent - 20))


def laplacian(matrix):
    return np.diag(matrix.sum(1)) - matrix


def first_basis(matrix, modes):
    """Return the eigenvectors of each component after the constant one, ``[n, modes - 1]``."""
    basis = np.zeros((len(matrix), modes - 1))
    for part in components(matrix):
        nodes = sorted(part)
        found = lowest(laplacian(matrix[np.ix_(nodes, nodes)]), modes)[:, 1:]
        basis[nodes, : found.shape[1]] = found
    return basis


def orthonormal(matrix, basis, smallest):
    """Return ``A`` with the span of the basis and ``A^T L A = I`` on each component, up to a rotation of the columns."""
    out = np.zeros_like(basis)
    for part in components(matrix):
        nodes = sorted(part)
        mine = basis[nodes]
        gram = mine.T @ laplacian(matrix[np.ix_(nodes, nodes)]) @ mine
        length = gram.diagonal()
        scale = np.where(length > smallest, 1 / np.sqrt(np.where(length > smallest, length, 1)), 0)
        values, turn = np.linalg.eigh(gram * np.outer(scale, scale))
        keep = values > RANK
        columns = (mine * scale) @ (turn[:, keep] / np.sqrt(values[keep]))
        out[nodes, : columns.shape[1]] = columns
    return out


def pair_cost(matrix, basis, i, j):
    """Return the cost of contracting two nodes, from the norm of ``X^T L_C X``.

    ``X`` is the basis of the pair minus its mean. In the local Laplacian ``L_C``, edges that leave the pair count twice.
    """
    nodes = [i, j]
    inner = matrix[np.ix_(nodes, nodes)]
    local = np.diag(2 * matrix[nodes].sum(1) - inner.sum(1)) - inner
    x = basis[nodes] - basis[nodes].mean(0)
    return rounded(np.linalg.norm(x.T @ local @ x))


class Scores:
    """Scores of the edges of one graph in each round, as :mod:`tests.reference.hem` uses them."""

    def __init__(self, modes):
        self.modes, self.basis = modes, None

    def __call__(self, near, owner=None):
        """Return ``{node: {neighbour: score}}``; ``owner`` is the node of ``near`` of each node of the round before."""
        matrix = np.zeros((len(near), len(near)))
        for u in near:
            for v, w in near[u].items():
                matrix[u, v] = w
        if owner is None:
            basis, smallest = first_basis(matrix, self.modes), 0.0
        else:
            groups = [[u for u in sorted(owner) if owner[u] == c] for c in range(len(near))]
            basis, smallest = np.array([self.basis[group].mean(0) for group in groups]), LOST
        self.basis = orthonormal(matrix, basis, smallest)
        return {
            u: {v: -pair_cost(matrix, self.basis, u, v) if near[u][v] > 0 else -np.inf for v in near[u]}
            for u in near
        }
