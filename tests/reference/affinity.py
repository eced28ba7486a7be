"""Reference of algebraic distances of one graph: lists of numbers and loops in Python."""

from math import inf

from tests.reference.graclus import hash_u64

FIRST_DRAW = 1 << 32


def start(size, vectors, seed, level):
    """Return random numbers in [-0.5, 0.5), one list for each node."""
    return [
        [(hash_u64(seed, level, u, FIRST_DRAW + k) >> 11) * 2.0**-53 - 0.5 for k in range(vectors)]
        for u in range(size)
    ]


def step(near, values):
    """Return half of each value and half of the weighted mean of the neighbours."""
    out = []
    for u in range(len(near)):
        degree = sum(near[u].values())
        if degree <= 0:
            out.append(values[u])
            continue
        sums = [0.0] * len(values[u])
        for v in sorted(near[u]):
            sums = [total + near[u][v] * x for total, x in zip(sums, values[v], strict=True)]
        out.append([0.5 * x + (0.5 / degree) * total for x, total in zip(values[u], sums, strict=True)])
    return out


class Scores:
    """Scores of the edges of one graph in each round, as :mod:`tests.reference.hem` uses them."""

    def __init__(self, vectors, steps, seed, level):
        self.vectors, self.steps, self.seed, self.level = vectors, steps, seed, level

    def __call__(self, near, owner=None):
        """Return ``{node: {neighbour: score}}``."""
        values = start(len(near), self.vectors, self.seed, self.level)
        for _ in range(self.steps):
            values = step(near, values)

        def score(u, v):
            total = 0.0
            for x, y in zip(values[u], values[v], strict=True):
                total += (x - y) * (x - y)
            return -total if near[u][v] > 0 else -inf

        return {u: {v: score(u, v) for v in near[u]} for u in near}
