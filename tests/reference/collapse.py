"""Reference of the collapse of dominated nodes of one graph, in plain Python: sets of neighbours, compared in full in every sweep."""

from fractions import Fraction

from tests.reference import hem


def shares(near, owner=None):
    """Return the larger share of the common neighbourhood of each edge, as a fraction."""
    closed = {u: {u, *near[u]} for u in near}
    return {
        u: {v: Fraction(len(closed[u] & closed[v]), min(len(closed[u]), len(closed[v]))) for v in near[u]}
        for u in near
    }


def dominators(near, code, part):
    """Return ``{node: dominator}`` of the graph that ``part`` induces."""
    closed = {u: {u, *near[u]} & part for u in part}

    def dominates(v, u):
        return closed[u] < closed[v] or (closed[u] == closed[v] and (code[v], -v) > (code[u], -u))

    found = {u: [v for v in closed[u] - {u} if dominates(v, u)] for u in part}
    return {u: min(v, key=lambda w, u=u: hem.priority(0, code, u, w)) for u, v in found.items() if v}


def collapse(near, code, part, excess, sweeps=None):
    """Return the pairs (node, dominator) that are merged, in the order of the sweeps."""
    left, pairs = set(part), []
    while left and len(pairs) < excess and sweeps != 0:
        found = sorted(
            dominators(near, code, left).items(), key=lambda p: (hem.priority(0, code, *p)[1], p[0])
        )
        found = found[: excess - len(pairs)]
        if not found:
            break
        pairs += found
        left -= {u for u, _ in found}
        sweeps = None if sweeps is None else sweeps - 1
    return pairs


def merge_once(rows, seed, level):
    """Return the clusters of one sweep and of a matching of the nodes that had no part in it."""
    near = hem.undirected(rows)
    code = hem.codes(len(near), seed, level, 0)
    pairs = collapse(near, code, set(near), len(near), 1)
    free = set(near) - {u for pair in pairs for u in pair}
    return list(hem.number(len(near), pairs + hem.greedy(shares(near), code, free)).values())


def merge_to_ratios(rows, seed, level, ratios):
    """Return the clusters of nested levels."""
    return hem.match_to_ratios(rows, seed, level, ratios, shares, few=0.05, merge_first=collapse)
