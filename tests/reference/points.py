"""References of clusters of points of one graph, in plain Python."""

import math


def voxels(pos, size):
    """Return the cell of each point, numbered by its first point."""
    names = {}
    return [names.setdefault(tuple(math.floor(v / size) for v in point), len(names)) for point in pos]


def farthest_points(pos, count):
    """Return the centers in the order in which they are chosen, and the position of the nearest one for each point.

    All distances are computed. Among equal ones the smallest point and the earliest center are taken.
    """
    if not pos:
        return [], []

    def distance(a, b):
        return sum(((p - q) * (p - q) for p, q in zip(a, b, strict=True)), 0.0)

    mean = [sum(column) / len(pos) for column in zip(*pos, strict=True)]
    centers = [max(range(len(pos)), key=lambda i: (distance(pos[i], mean), -i))]
    while len(centers) < count:
        free = [i for i in range(len(pos)) if i not in centers]
        centers.append(max(free, key=lambda i: (min(distance(pos[i], pos[c]) for c in centers), -i)))
    owner = []
    for i in range(len(pos)):
        nearest = min(range(count), key=lambda m: (distance(pos[i], pos[centers[m]]), m))
        owner.append(centers.index(i) if i in centers else nearest)
    return centers, owner


def number_by_first(owner):
    """Return the clusters numbered by their first point."""
    names = {}
    return [names.setdefault(c, len(names)) for c in owner]
