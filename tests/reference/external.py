"""Reference of ``tgp.kernels.external_rows`` and ``tgp.kernels.edge_input``: lists, dictionaries and Python integers."""

import re

MASK = 2**64 - 1
MIX = 0x9E3779B97F4A7C15
SIGNATURE = 0xBF58476D1CE4E5B9
UNKNOWN, NO_PARTNER = -2, -1


def score_of(kind, weight, mine, other):
    """Return the score of an edge; ``mine`` and ``other`` are the degrees of its ends."""
    if kind == "equal":
        return 0.0
    if kind == "weight":
        return weight
    most = max(mine, other)
    return max(weight / most, 0.0) if most > 0 else 0.0


def is_stale(u, code, old):
    """Return True if a node is free and its pointer is not known, or leads to a node that is not free."""
    return code[u] != 0 and old[u] != NO_PARTNER and (old[u] == UNKNOWN or code[old[u]] == 0)


def pointers(rows, degree, kind, code, old):
    """Return the best free neighbour of each node. ``rows[u]`` is a list of (neighbour, weight), ascending."""
    found = list(old)
    for u, row in enumerate(rows):
        if not is_stale(u, code, old):
            continue
        keys = {
            v: (score_of(kind, w, degree[u], degree[v]), ((code[u] ^ code[v]) * MIX) & MASK)
            for v, w in row
            if v != u and code[v] != 0
        }
        found[u] = max(keys, key=lambda v: (keys[v], -v)) if keys else NO_PARTNER
    return found


def mutual(pointer, code):
    """Return the codes after a round, the number of matched nodes, and the nodes that can still find a partner."""
    free = [u for u in range(len(code)) if code[u] != 0 and pointer[u] >= 0]
    matched = [u for u in free if pointer[pointer[u]] == u]
    return (
        [0 if u in matched else c for u, c in enumerate(code)],
        len(matched),
        [u for u in free if u not in matched],
    )


def anchors(rows, degree, kind, code, nodes):
    """Return the strongest neighbour of some nodes (or -1), and the sum of the hashes of all neighbours."""
    found, signatures = [], []
    for u in nodes:
        others = {v: (score_of(kind, w, degree[u], degree[v]), code[v]) for v, w in rows[u] if v != u}
        found.append(max(others, key=lambda v: (others[v], -v)) if others else -1)
        signatures.append(sum(code[v] * SIGNATURE for v in others) & MASK)
    return found, signatures


def entries_between(rows, low, high):
    """Return the entries ``(row, column, weight)`` with numbers ``low..high``."""
    return [(u, v, w) for u, row in enumerate(rows) for v, w in row][low:high]


def contracted(rows, cluster, drop_loops, low, high):
    """Return ``(coarse row, coarse column, weight)`` of some entries."""
    triples = [(cluster[u], cluster[v], w) for u, v, w in entries_between(rows, low, high)]
    return [triple for triple in triples if triple[0] != triple[1] or not drop_loops]


def mirrored(rows, factor, low, high):
    """Return some entries in both directions with ``factor`` times their weight."""
    return [
        triple
        for u, v, w in entries_between(rows, low, high)
        for triple in ((u, v, factor * w), (v, u, factor * w))
    ]


def with_missing(entries):
    """Return entries, each followed by its reverse if that is not one of them."""
    stored = {(u, v) for u, v, _ in entries}
    return [
        triple
        for u, v, w in entries
        for triple in ([(u, v, w)] if (v, u) in stored else [(u, v, w), (v, u, w)])
    ]


def covered(rows, order):
    """Return the selected node that covers each node, if nodes are selected in an order and cover their neighbours."""
    owner = [-1] * len(rows)
    for u in order:
        if owner[u] < 0:
            for v in [u, *(v for v, _ in rows[u])]:
                owner[v] = u if owner[v] < 0 else owner[v]
    return owner


def bucket_of(bounds, key):
    """Return the bucket of a key. Empty ranges have no keys."""
    return next(b for b in range(len(bounds) - 1) if bounds[b] <= key < bounds[b + 1])


def grouped(triples, first, num_rows):
    """Return ``(column, weight)`` of each row, in their order."""
    return [[(v, w) for u, v, w in triples if u == first + r] for r in range(num_rows)]


_SPACE = r"[ \t\r,;]"
_NO_EDGE = re.compile(r"[ \t\r]*(?:[#%cp].*)?", re.S)
_EDGE = re.compile(
    rf"[ \t\r]*(?:[ae] {_SPACE}*)?([0-9]+){_SPACE}+([0-9]+)(?:{_SPACE}*|{_SPACE}+(([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]{{1,3}}))?){_SPACE}*)"
)


def edges_of_text(text):
    """Return the pairs of ids and the weights of lines, or ``None`` if a line or a number has another form."""
    pairs, weights = [], []
    for line in text.split("\n"):
        if _NO_EDGE.fullmatch(line):
            continue
        found = _EDGE.fullmatch(line)
        if found is None or max(int(found[1]), int(found[2])) >= 10**18:
            return None
        pairs.append((int(found[1]), int(found[2])))
        if found[3] is None:
            continue
        digits, power = found[4] + found[5], int(found[6] or 0) - len(found[5])
        if not digits or int(digits) > 2**53 or abs(power) > 22:
            return None
        weights.append(float(found[3]))
    return pairs, weights


def both_directions(edges, weights, mirror=True):
    """Return the entries of edges, those of undirected edges in both directions and a self loop once."""
    return [
        triple
        for (u, v), w in zip(edges, weights, strict=True)
        for triple in ([(u, v, w)] if u == v or not mirror else [(u, v, w), (v, u, w)])
    ]
