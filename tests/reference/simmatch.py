"""Reference of the similarity of smoothed features of one graph, in plain Python."""

import math

import numpy as np


def cosine_scores(x, hops, members=None):
    """Return a score function for :mod:`tests.reference.hem`: cosines of smoothed features, -inf without weight.

    Args:
        x: features as lists.
        hops: number of times that they are smoothed.
        members: number of input nodes of each node.
    """
    state = {}

    def score(near, owner=None):
        if owner is None:
            state["rows"] = smooth(near, x, hops)
            if members is not None:
                state["rows"] = [
                    [np.float32(value * np.float32(count)) for value in row]
                    for row, count in zip(state["rows"], members, strict=True)
                ]
        else:
            old, width = state["rows"], len(x[0]) if x else 0
            total = {c: [0.0] * width for c in near}
            for node in sorted(owner):
                for column in range(width):
                    total[owner[node]][column] += float(old[node][column])
            state["rows"] = [[np.float32(value) for value in total[c]] for c in sorted(total)]
        rows = state["rows"]
        return {
            u: {v: cosine(rows[u], rows[v]) if w > 0.0 else -math.inf for v, w in near[u].items()}
            for u in near
        }

    return score


def smooth(near, x, hops):
    """Return ``(D^-1/2 (A + I) D^-1/2)^hops x`` as float32, for ``x`` divided by a power of two of at least its largest entry."""
    largest = max((abs(float(value)) for row in x for value in row), default=0.0)
    unit = math.ldexp(1.0, -math.frexp(largest)[1]) if largest else 1.0
    values = [[float(value) * unit for value in row] for row in x]
    scale = [1.0 / math.sqrt(1.0 + sum(near[u][v] for v in sorted(near[u]))) for u in sorted(near)]
    for _ in range(hops):
        smoothed = []
        for u in sorted(near):
            row = [scale[u] * scale[u] * value for value in values[u]]
            for v in sorted(near[u]):
                factor = scale[u] * scale[v] * near[u][v]
                row = [old + factor * new for old, new in zip(row, values[v], strict=True)]
            smoothed.append(row)
        values = smoothed
    return [[np.float32(value) for value in row] for row in values]


def cosine(a, b):
    """Return the cosine of two rows, or 0 if one of them is zero."""

    def norm(row):
        return math.sqrt(sum(float(value) * float(value) for value in row))

    length = norm(a) * norm(b)
    return sum(float(p) * float(q) for p, q in zip(a, b, strict=True)) / length if length > 0.0 else 0.0
