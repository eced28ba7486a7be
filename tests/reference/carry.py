"""Reference of ``tgp.engine.carry_fields``: loops over nodes and edges, with shares in dictionaries."""

import math
from collections import Counter

import numpy as np


def shares(hierarchy):
    """Return, for each level, the share of each input node in each supernode, whether it is soft, and representatives."""
    found = []
    rows = [{node: 1.0} for node in range(int(hierarchy.node_ptr[-1]))]
    stand = list(range(len(rows)))
    soft = False
    for level in hierarchy.levels:
        given = level.assignment
        graph_of = np.repeat(np.arange(level.num_graphs), np.diff(level.node_ptr))
        new = []
        for row in rows:
            mixed = {}
            for node, share in sorted(row.items()):
                if given.soft is None:
                    entries = [(int(given.cluster[node]), 1.0)] if given.cluster[node] >= 0 else []
                else:
                    start = int(given.super_ptr[graph_of[node]])
                    entries = [(start + k, float(s)) for k, s in enumerate(given.soft[node])]
                for target, value in entries:
                    mixed[target] = mixed.get(target, 0.0) + share * value
            new.append({target: value for target, value in mixed.items() if value != 0.0})
        soft = soft or given.soft is not None
        rows = new
        best = [max(sorted(row), key=lambda k, row=row: row[k]) if row else -1 for row in rows]
        first = [next((i for i, k in enumerate(best) if k == s), -1) for s in range(given.num_supernodes)]
        if given.representative is not None and not soft:
            chosen = [stand[node] for node in given.representative]
            first = [c if c >= 0 else f for c, f in zip(chosen, first, strict=True)]
        stand = first
        found.append((rows, best, soft, stand))
    return found


def edge_members(level, best, edges):
    """Return the input edges of each coarse edge, in the order of the table."""
    ends = [(best[u], best[v]) for u, v in edges]
    coarse = level.edge_index.T.tolist()
    return [[e for e, pair in enumerate(ends) if pair == tuple(edge) and min(pair) >= 0] for edge in coarse]


def members(best, size):
    """Return the rows of each supernode."""
    return [[row for row, k in enumerate(best) if k == s] for s in range(size)]


def reduced(column, groups, weights, reduction, first=None):
    """Return the reduction of one column of an attribute over groups of rows.

    ``weights`` is a list of ``(row, weight)`` per group for soft assignments, or ``None``.
    """
    column = np.asarray(column)
    is_float = column.dtype.kind == "f"
    mean_type = column.dtype if is_float else np.float32
    heavy = [[(row, 1.0) for row in rows] for rows in groups] if weights is None else weights
    if reduction == "sum" and not is_float and weights is None:
        return np.array([sum(int(column[row]) for row in rows) for rows in groups], np.int64)
    if reduction == "sum":
        return np.array([_total(column, rows) for rows in heavy]).astype(mean_type)
    if reduction == "mean":
        return np.array([_mean(column, rows) for rows in heavy]).astype(mean_type)
    if reduction == "std":
        return np.array([_deviation(column, rows) for rows in heavy]).astype(mean_type)
    if reduction in ("max", "min"):
        choose = max if reduction == "max" else min
        return np.array([choose(column[rows]) if rows else 0 for rows in groups], column.dtype)
    if reduction in ("any", "all"):
        choose = any if reduction == "any" else all
        return np.array([bool(rows) and choose(column[row] != 0 for row in rows) for rows in groups], bool)
    if reduction == "first":
        chosen = [rows[0] if rows else -1 for rows in groups] if first is None else first
        return np.array([column[row] if row >= 0 else 0 for row in chosen], column.dtype)
    votes = [winner(column, rows) for rows in groups]
    if reduction == "purity":
        return np.array(
            [n / max(len(rows), 1) for (_, n), rows in zip(votes, groups, strict=True)], np.float32
        )
    if reduction == "mixed":
        return np.array([n < len(rows) for (_, n), rows in zip(votes, groups, strict=True)], bool)
    empty = -1 if column.dtype.kind == "i" else 0
    return np.array([empty if value is None else value for value, _ in votes], column.dtype)


def winner(column, rows):
    """Return the most frequent value, the smallest of equally frequent ones, and its number."""
    if not rows:
        return None, 0
    counts = Counter(column[row].item() for row in rows)
    value = min(counts, key=lambda value: (-counts[value], value))
    return value, counts[value]


def _total(column, rows):
    total = 0.0
    for row, weight in rows:
        total += weight * float(column[row])
    return total


def _size(rows):
    total = 0.0
    for _, weight in rows:
        total += weight
    return total or 1.0


def _mean(column, rows):
    return _total(column, rows) / _size(rows)


def _deviation(column, rows):
    mean, total = _mean(column, rows), 0.0
    for row, weight in rows:
        distance = float(column[row]) - mean
        total += weight * (distance * distance)
    return math.sqrt(total / _size(rows))
