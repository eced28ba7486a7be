"""Reference of ``tgp.engine.contraction``, with edges in a dictionary."""

import math

from tests.reference.csr import entries, merged

EPS = 1e-8


def contracted(block, cluster, options):
    """Return ``({(c, d): weight}, weighted)`` of the coarse block after post-processing."""
    triples = [
        (int(cluster[u]), int(cluster[v]), w)
        for u, v, w in entries(block)
        if cluster[u] >= 0 and cluster[v] >= 0
    ]
    weighted = block.weight is not None or options.count_edges
    edges = merged(triples, options.reduce_op)
    if not weighted:
        edges = dict.fromkeys(edges, 1.0)
    return normalised(edges, weighted, options)


def normalised(edges, weighted, options):
    """Remove self loops, remove negligible weights and normalize by degrees, in this order."""
    if options.remove_self_loops:
        edges = {(c, d): w for (c, d), w in edges.items() if c != d}
    if weighted:
        edges = {key: w for key, w in edges.items() if abs(w) > EPS}
    if options.degree_norm:
        degree = {}
        for (c, _), w in edges.items():
            degree[c] = degree.get(c, 0.0) + w
        factor = {c: 1 / math.sqrt(total) if total > 0 else 0.0 for c, total in degree.items()}
        edges = {(c, d): w * factor.get(c, 0.0) * factor.get(d, 0.0) for (c, d), w in edges.items()}
        weighted = True
    return edges, weighted


def max_normalised(edges, graph_of):
    """Divide weights by the largest one of their graph; ``graph_of`` maps a supernode to its graph."""
    largest = {}
    for (c, _), w in edges.items():
        largest[graph_of[c]] = max(largest.get(graph_of[c], 0.0), abs(w))
    return {(c, d): w / (largest[graph_of[c]] or 1.0) for (c, d), w in edges.items()}
