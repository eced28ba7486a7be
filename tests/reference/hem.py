"""Reference of heavy-edge matching of one graph, in plain Python: edges in sorted order, dictionaries, fractions."""

from fractions import Fraction
from math import ceil, inf

from numpy import float32

from tests.reference.graclus import MASK, hash_u64

MIX = 0x9E3779B97F4A7C15
SIGNATURE = 0xBF58476D1CE4E5B9
DRAWS_PER_LEVEL = 1 << 16


def undirected(rows):
    """Return ``{node: {neighbour: weight}}`` of ``rows[u]``, a list of (neighbour, weight)."""
    near = {u: {} for u in range(len(rows))}
    for u, row in enumerate(rows):
        for v, w in row:
            if u != v:
                near[u][v] = near[u].get(v, 0.0) + 0.5 * w
                near[v][u] = near[v].get(u, 0.0) + 0.5 * w
    return {u: {v: max(w, 0.0) for v, w in near[u].items()} for u in near}


def scores(near, by):
    """Return ``{node: {neighbour: score}}``."""
    degree = {u: sum(near[u].values()) for u in near}

    def share(u, v):
        most = max(degree[u], degree[v])
        return near[u][v] / most if most > 0 else 0.0

    return near if by == "weight" else {u: {v: share(u, v) for v in near[u]} for u in near}


class Balanced:
    """Scores ``(-members of both nodes, score in single precision)``, which are compared one after the other."""

    def __init__(self, by):
        self.by = by

    def __call__(self, near, owner=None):
        inner = self.by(near, owner) if callable(self.by) else scores(near, self.by)
        if owner is None:
            self.members = dict.fromkeys(near, 1)
        else:
            old, self.members = self.members, dict.fromkeys(near, 0)
            for u, c in owner.items():
                self.members[c] += old[u]

        def key(u, v):
            if inner[u][v] == -inf:
                return -inf
            return -float(self.members[u] + self.members[v]) * 2**40 + rank[float32(inner[u][v])]

        values = sorted({float32(inner[u][v]) for u in near for v in near[u]})
        rank = {value: position for position, value in enumerate(values)}
        return {u: {v: key(u, v) for v in near[u]} for u in near}


def priority(score, code, u, v):
    """Return the sort key of an edge: the largest score, then the largest hash, then the smallest nodes."""
    return (-score, -(((code[u] ^ code[v]) * MIX) & MASK), min(u, v), max(u, v))


def greedy(score, code, free):
    """Return the pairs of the greedy matching, in the order in which they are found."""
    edges = [(u, v) for u in score for v in score[u] if u < v and u in free and v in free]
    free, pairs = set(free), []
    for u, v in sorted(edges, key=lambda edge: priority(score[edge[0]][edge[1]], code, *edge)):
        if u in free and v in free:
            free -= {u, v}
            pairs.append((u, v))
    return pairs


def relatives(score, code, alone):
    """Return pairs of nodes with the same strongest neighbour, those with the same neighbours first."""
    groups = {}
    for u in alone:
        if score[u]:
            anchor = max(score[u], key=lambda v: (score[u][v], code[v], -v))
            signature = sum(code[v] * SIGNATURE for v in score[u]) & MASK
            groups.setdefault(anchor, {}).setdefault(signature, []).append(u)
    pairs = []
    for _, twins in sorted(groups.items()):
        waiting = []
        for _, members in sorted(twins.items()):
            members.sort()
            while len(members) > 1:
                pairs.append((members.pop(0), members.pop(0)))
            waiting += members
        pairs += [tuple(sorted(waiting[i : i + 2])) for i in range(0, len(waiting) - 1, 2)]
    return pairs


def codes(size, seed, level, draw):
    """Return the random number of each node."""
    return [hash_u64(seed, level, u, draw) | 1 for u in range(size)]


def contract(near, owner):
    """Return the coarse graph. Weights are added."""
    out = {c: {} for c in owner.values()}
    for u in near:
        for v, w in near[u].items():
            if owner[u] != owner[v]:
                row = out[owner[u]]
                row[owner[v]] = row.get(owner[v], 0.0) + w
    return out


def number(size, pairs):
    """Return the supernode of each node, numbered by smallest member. The pairs form trees."""
    near = {u: set() for u in range(size)}
    for u, v in pairs:
        near[u].add(v)
        near[v].add(u)
    cluster = {u: c for c, part in enumerate(components(near)) for u in part}
    return {u: cluster[u] for u in range(size)}


def match_once(rows, seed, level, by="share", two_hop=True):
    """Return the clusters of one matching."""
    size = len(rows)
    near = undirected(rows)
    score, code = by(near) if callable(by) else scores(near, by), codes(size, seed, level, 0)
    pairs = greedy(score, code, range(size))
    if two_hop and len(pairs) < 0.3 * size:
        pairs += relatives(score, code, _alone(range(size), pairs))
    return list(number(size, pairs).values())


def _alone(nodes, pairs):
    return sorted(set(nodes) - {u for pair in pairs for u in pair})


def components(near):
    """Return the sets of connected nodes, by smallest member."""
    left, found = set(near), []
    while left:
        stack = [min(left)]
        part = set(stack)
        while stack:
            new = set(near[stack.pop()]) - part
            part |= new
            stack += new
        left -= part
        found.append(part)
    return found


def kept(size, ratio):
    """Return ``ceil(ratio * size)`` for the decimal number that ``ratio`` is written as."""
    return ceil(Fraction(repr(ratio)) * size)


def match_to_ratios(rows, seed, level, ratios, by="share", few=0.3, merge_first=None, match_merged=True):
    """Return the clusters of each level: ``ceil(ratio * n)`` supernodes for each component of ``n`` nodes.

    ``merge_first(near, code, part, excess)`` returns pairs of a component that are merged before each matching. With
    ``match_merged=False`` a component is matched only if there are none.
    """
    near = undirected(rows)
    score_edges = by if callable(by) else lambda graph, owner=None: scores(graph, by)
    score = score_edges(near)
    parts = components(near)

    def match(near, code, part, excess):
        chosen = greedy(score, code, part)
        if len(chosen) < excess and len(chosen) < few * len(part):
            more = relatives(score, code, _alone(part, chosen))
            chosen += sorted(more, key=lambda pair: priority(0.0, code, *pair))
        return chosen[:excess]

    first_sizes = [len(part) for part in parts]
    levels = []
    for step, ratio in enumerate(ratios):
        cluster = {u: u for u in near}
        draw = step * DRAWS_PER_LEVEL
        targets = [kept(size, ratio) for size in first_sizes]
        while any(len(part) > target for part, target in zip(parts, targets, strict=True)):
            code = codes(len(near), seed, level, draw)
            done = [False] * len(parts)
            for merge in (merge_first, match) if merge_first else (match,):
                pairs = []
                for number_of_part, (part, target) in enumerate(zip(parts, targets, strict=True)):
                    if len(part) > target and not done[number_of_part]:
                        found = merge(near, code, part, len(part) - target)
                        done[number_of_part] = bool(found) and not match_merged
                        pairs += found
                owner = number(len(near), pairs)
                near = contract(near, owner)
                score = score_edges(near, owner)
                parts = [{owner[u] for u in part} for part in parts]
                cluster = {u: owner[c] for u, c in cluster.items()}
                code = codes(len(near), seed, level, draw)
            draw += 1
        levels.append([cluster[u] for u in sorted(cluster)])
    return levels
