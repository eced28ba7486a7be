"""Reference of local variation coarsening of one graph: dense matrices, the eigensolver of numpy, loops in Python."""

import numpy as np

from tests.reference import hem
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


def set_cost(matrix, basis, nodes):
    """Return the cost of contracting some nodes, from the norm of ``X^T L_C X``.

    ``X`` is the basis of the set minus its mean. In the local Laplacian ``L_C``, edges that leave the set count twice.
    """
    inner = matrix[np.ix_(nodes, nodes)]
    local = np.diag(2 * matrix[nodes].sum(1) - inner.sum(1)) - inner
    x = basis[nodes] - basis[nodes].mean(0)
    return rounded(np.linalg.norm(x.T @ local @ x) / (len(nodes) - 1))


def pair_cost(matrix, basis, i, j):
    """Return the cost of contracting two nodes."""
    return set_cost(matrix, basis, [i, j])


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
        self.matrix, self.basis = matrix, orthonormal(matrix, basis, smallest)
        return {
            u: {v: -pair_cost(matrix, self.basis, u, v) if near[u][v] > 0 else -np.inf for v in near[u]}
            for u in near
        }


class Neighborhoods:
    """Scores of edges, and the sets that are merged before each matching, as :mod:`tests.reference.hem` uses them."""

    def __init__(self, modes, two_hop, balanced, most_cuts):
        self.scores = Scores(modes)
        self.by = hem.Balanced(self.scores) if balanced else self.scores
        self.two_hop, self.balanced, self.most_cuts = two_hop, balanced, most_cuts

    def __call__(self, near, owner=None):
        return self.by(near, owner)

    def key(self, nodes):
        """Return the sort key of a set."""
        cost = set_cost(self.scores.matrix, self.scores.basis, nodes)
        if not self.balanced:
            return cost
        return np.floor(16 * np.mean([self.by.members[u] for u in nodes]) + 0.5) + cost / (1 + cost)

    def cheapest(self, centre, nodes, count, code):
        """Return the nodes that are closest to the centre, or to the mean if the centre is not one of them."""
        basis = self.scores.basis
        middle = basis[centre] if centre in nodes else basis[nodes].mean(0)

        def price(u):
            cost = self.scores.matrix[u].sum() * np.sum((basis[u] - middle) ** 2)
            return (u != centre, rounded(cost), code[u], u)

        return sorted(nodes, key=price)[:count]

    def merge(self, near, code, part, excess):
        """Return pairs of nodes that are merged in one round."""
        matrix = self.scores.matrix
        free, left, pairs, waiting = set(part), excess, [], {}

        def find(u):
            inside = {u, *np.flatnonzero(matrix[u]).tolist()} & free
            return sorted(inside) if self.two_hop or u in inside else []

        for u in part:
            if len(find(u)) > 1:
                waiting[u] = [find(u), find(u), self.key(find(u)), 0]
        while waiting and left > 0:
            u = min(waiting, key=lambda v: (waiting[v][2], code[v], v))
            nodes, chosen, _, cuts = waiting[u]
            found = find(u)
            wanted = min(len(found), left + 1)
            if found == nodes and wanted == len(chosen):
                pairs += [(chosen[0], v) for v in chosen[1:]]
                free -= set(chosen)
                left -= wanted - 1
                del waiting[u]
            elif len(found) < 2 or cuts == self.most_cuts:
                del waiting[u]
            else:
                chosen = self.cheapest(u, found, wanted, code) if wanted < len(found) else found
                waiting[u] = [found, chosen, self.key(chosen), cuts + 1]
        return pairs

    def merge_once(self, rows, seed, level):
        """Return the clusters of one round."""
        near = hem.undirected(rows)
        self(near)
        pairs = self.merge(near, hem.codes(len(near), seed, level, 0), set(near), len(near))
        return list(hem.number(len(near), pairs).values())

    def merge_to_ratios(self, rows, seed, level, ratios):
        """Return the clusters of nested levels. Pairs are only matched where no neighbourhood is left."""
        return hem.match_to_ratios(rows, seed, level, ratios, self, 0.3, self.merge, match_merged=False)
