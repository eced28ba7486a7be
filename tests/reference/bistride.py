"""Reference of bi-stride levels of one graph: sets, dictionaries, and searches front by front."""

from tests.reference.hem import undirected


def neighbours(rows):
    """Return ``{node: set of neighbours}`` of rows of (neighbour, weight), in both directions, without self loops."""
    near = {u: set() for u in range(len(rows))}
    for u, row in enumerate(rows):
        for v, _ in row:
            if u != v:
                near[u].add(v)
                near[v].add(u)
    return near


def fronts(near, seed):
    """Return the sets of nodes at distance 0, 1, 2, ... from the seed."""
    found, seen = [{seed}], {seed}
    while True:
        front = {v for u in found[-1] for v in near[u]} - seen
        if not front:
            return found
        seen |= front
        found.append(front)


def kept_nodes(rows):
    """Return the kept nodes in ascending order."""
    near, kept, seen = neighbours(rows), set(), set()
    for start in near:
        if start in seen:
            continue
        seed = min(fronts(near, start)[-1])
        found = fronts(near, seed)
        even, odd = set().union(*found[::2]), set().union(*found[1::2])
        kept |= even if not odd or len(even) <= len(odd) else odd
        seen |= even | odd
    return sorted(kept)


def links(rows, kept, keep_edges=False, span=32):
    """Return the linked pairs of kept nodes, as a set of pairs of positions in ``kept``, in both directions."""
    near, number = neighbours(rows), {node: i for i, node in enumerate(kept)}
    pairs = set()
    for middle in near:
        ring = sorted(near[middle] & set(kept))
        for a in range(len(ring)):
            for b in range(len(ring)):
                apart = min((a - b) % len(ring), (b - a) % len(ring))
                if a != b and apart <= span:
                    pairs.add((number[ring[a]], number[ring[b]]))
    if keep_edges:
        pairs |= {(number[u], number[v]) for u in kept for v in near[u] if v in number}
    return pairs


def link_weights(rows, kept, pairs, keep_edges=False, span=32):
    """Return ``{pair: weight}`` of the linked pairs: sums of ``a * b / d`` over the nodes between them."""
    near, number = undirected(rows), {node: i for i, node in enumerate(kept)}
    out = dict.fromkeys(pairs, 0.0)
    for middle in near:
        degree, ring = sum(near[middle].values()), sorted(set(near[middle]) & set(kept))
        for a in range(len(ring)):
            for b in range(len(ring)):
                apart = min((a - b) % len(ring), (b - a) % len(ring))
                if a != b and apart <= span and degree > 0:
                    product = near[middle][ring[a]] * near[middle][ring[b]]
                    out[number[ring[a]], number[ring[b]]] += product / degree
    if keep_edges:
        for u, v in pairs:
            out[u, v] += near[kept[u]].get(kept[v], 0.0)
    return out
