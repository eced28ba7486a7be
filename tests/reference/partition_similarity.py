"""Reference of the similarity of two partitions, by counting pairs and by the definition of mutual information."""

from itertools import combinations
from math import log


def rand_index(x, y):
    """Return the adjusted Rand index, computed from all pairs of nodes."""
    pairs = list(combinations(range(len(x)), 2))
    if not pairs:
        return None
    together = sum(x[i] == x[j] and y[i] == y[j] for i, j in pairs)
    left = sum(x[i] == x[j] for i, j in pairs)
    right = sum(y[i] == y[j] for i, j in pairs)
    expected = left * right / len(pairs)
    highest = (left + right) / 2
    return 1.0 if highest == expected else (together - expected) / (highest - expected)


def nmi(x, y):
    """Return the mutual information divided by the mean of the entropies, or 1 if both entropies are zero."""
    n = len(x)

    def entropy(labels):
        return -sum(labels.count(c) / n * log(labels.count(c) / n) for c in set(labels))

    both = list(zip(x, y, strict=True))
    shared = sum(
        both.count((a, b)) / n * log(n * both.count((a, b)) / (x.count(a) * y.count(b))) for a, b in set(both)
    )
    mean = (entropy(list(x)) + entropy(list(y))) / 2
    return 1.0 if mean == 0 else shared / mean
