"""Reference of the merging of neighbours in a list of projected features of one graph, in plain Python."""

import math

from tests.reference import hem
from tests.reference.graclus import hash_u64


def project(rows, x, seed, level, heterophily):
    """Return the projection of each node: ``(1 - heterophily)`` of its own and ``heterophily`` of the mean of its neighbours."""
    near = hem.undirected(rows)
    largest = max((abs(float(value)) for row in x for value in row), default=0.0)
    unit = math.ldexp(1.0, -math.frexp(largest)[1]) if largest else 1.0
    width = len(x[0]) if x else 0
    direction = [2.0 * ((hash_u64(seed, level, c, 0) >> 11) / 2**53) - 1.0 for c in range(width)]
    own = []
    for row in x:
        total = 0.0
        for value, part in zip(row, direction, strict=True):
            total += float(value) * unit * part
        own.append(total)
    if heterophily == 0.0:
        return own
    mixed = []
    for u, value in enumerate(own):
        weight = sum(near[u][v] for v in sorted(near[u]))
        total = sum(near[u][v] * own[v] for v in sorted(near[u]))
        mean = total / weight if weight > 0.0 else value
        mixed.append((1.0 - heterophily) * value + heterophily * mean)
    return mixed


def list_scores(values, members=None):
    """Return a score function for :mod:`tests.reference.hem`: minus the sum of squares that merging two nodes adds."""
    state = {"mean": list(values), "members": list(members or [1.0] * len(values))}

    def score(near, owner=None):
        if owner is not None:
            total, count = [0.0] * len(near), [0.0] * len(near)
            for node in sorted(owner):
                total[owner[node]] += state["members"][node] * state["mean"][node]
                count[owner[node]] += state["members"][node]
            state.update(mean=[a / b for a, b in zip(total, count, strict=True)], members=count)
        mean, size = state["mean"], state["members"]

        def cost(a, b):
            gap = mean[b] - mean[a]
            return -(size[a] * size[b] / (size[a] + size[b]) * gap * gap)

        return {u: {v: cost(min(u, v), max(u, v)) for v in near[u]} for u in near}

    return score


def _sorted_list(rows, x, seed, level, heterophily, members):
    values = project(rows, x, seed, level, heterophily)
    order = sorted(range(len(values)), key=lambda node: (values[node], node))
    chain = [[(v, 1.0) for v in (u - 1, u + 1) if 0 <= v < len(order)] for u in range(len(order))]
    counts = None if members is None else [members[node] for node in order]
    return order, chain, list_scores([values[node] for node in order], counts)


def _by_node(order, cluster):
    """Return the supernode of each node, numbered by smallest member, and the supernodes in the order of the list."""
    place = {node: position for position, node in enumerate(order)}
    names = {}
    for node in range(len(order)):
        names.setdefault(cluster[place[node]], len(names))
    return [names[cluster[place[node]]] for node in range(len(order))], [names[c] for c in sorted(names)]


def merge_once(rows, x, seed, level, heterophily=0.5, members=None):
    """Return the clusters of one round."""
    order, chain, score = _sorted_list(rows, x, seed, level, heterophily, members)
    return _by_node(order, hem.match_once(chain, seed, level, score, two_hop=False))[0]


def merge_to_ratios(rows, x, seed, level, ratios, heterophily=0.5, members=None):
    """Return the clusters of nested levels."""
    order, chain, score = _sorted_list(rows, x, seed, level, heterophily, members)
    levels = []
    for cluster in hem.match_to_ratios(chain, seed, level, ratios, score, few=0.05):
        found, order = _by_node(order, cluster)
        levels.append(found)
    return levels
