"""Reference of k-hop maximal independent sets: dense matrices and rounds of messages."""

from __future__ import annotations

import math

import numpy as np


def both_ways(edges, weights=None):
    """Return the edges and the mirror images of edges that have none."""
    present = {(int(u), int(v)) for u, v in edges}
    more = [k for k, (u, v) in enumerate(edges) if (int(v), int(u)) not in present]
    out = [(int(u), int(v)) for u, v in edges] + [(int(edges[k][1]), int(edges[k][0])) for k in more]
    return out, None if weights is None else list(weights) + [weights[k] for k in more]


def max_both_ways(edges, weights=None):
    """Return one edge for each direction, with the larger weight of the two directions."""
    best = {}
    for k, (u, v) in enumerate(edges):
        w = 1.0 if weights is None else weights[k]
        for pair in ((int(u), int(v)), (int(v), int(u))):
            best[pair] = max(best.get(pair, -math.inf), w)
    return list(best), None if weights is None else list(best.values())


def counts(num_nodes, edges):
    """Return the matrix of the numbers of edges from u to v."""
    a = np.zeros((num_nodes, num_nodes))
    for u, v in edges:
        a[u, v] += 1
    return a


def in_degree(num_nodes, edges, weights=None):
    """Return the sum of the weights of the incoming edges of each node."""
    out = np.zeros(num_nodes)
    for k, (_, v) in enumerate(edges):
        out[v] += 1.0 if weights is None else weights[k]
    return out


def ranking(score, num_nodes, edges, k=1, heuristic="greedy"):
    """Return the nodes by descending score after the heuristic; NaN is first, ties by index."""
    score = np.asarray(score, dtype=float)
    t = score.copy()
    if heuristic is not None:
        spread = counts(num_nodes, edges).T + np.eye(num_nodes)
        reach = np.ones(num_nodes) if heuristic == "greedy" else score.copy()
        for _ in range(k):
            reach = spread @ reach
        with np.errstate(divide="ignore", invalid="ignore"):
            t = score / reach
    return sorted(
        range(num_nodes), key=lambda i: (not math.isnan(t[i]), 0.0 if math.isnan(t[i]) else -t[i], i)
    )


def rounds(order, num_nodes, edges, k=1):
    """Return members and clusters, computed by rounds of messages along edges."""
    rank = np.empty(num_nodes, int)
    rank[order] = np.arange(num_nodes)

    def spread(values, best):
        for _ in range(k):
            new = values.copy()
            for u, v in edges:
                new[v] = best(new[v], values[u])
            values = new
        return values

    member = np.zeros(num_nodes, bool)
    covered = np.zeros(num_nodes, bool)
    while not covered.all():
        seen = spread(np.where(covered, num_nodes, rank), min)
        member |= (rank == seen) & ~covered
        covered = spread(member.copy(), max)
    reached = spread(np.where(member, rank, num_nodes), min)
    members = np.flatnonzero(member)
    number = {int(rank[m]): c for c, m in enumerate(members)}
    return members, np.array([number[int(r)] for r in reached], dtype=int)
