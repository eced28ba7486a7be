"""Reference of the greedy matching and of random partitions of one graph, in plain Python with its own hash."""

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
WINDOW = 4096


def _mix_bits(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def hash_u64(*counters):
    """Return 64 random bits for (seed, level, node, draw)."""
    z = 0
    for value in counters:
        z = _mix_bits(z ^ ((value + GOLDEN) & MASK))
    return z


def draw(seed, level, index, number, bound):
    """Return a random number in ``[0, bound)``."""
    return ((hash_u64(seed, level, index, number) >> 32) * bound) >> 32


def shuffled(size, seed, level):
    """Return the nodes after a Fisher-Yates shuffle of each window of consecutive nodes."""
    order = list(range(size))
    for low in range(0, size, WINDOW):
        for i in range(min(WINDOW, size - low) - 1, 0, -1):
            j = draw(seed, level, low + i, 0, i + 1)
            order[low + i], order[low + j] = order[low + j], order[low + i]
    return order


def graclus(rows, order, seed, level, two_hop=False):
    """Return the clusters of one graph. ``rows[u]`` lists ``(neighbour, weight)``, sorted by neighbour."""
    size = len(rows)
    if order == "random":
        visit = shuffled(size, seed, level)
    elif order == "degree":
        visit = sorted(range(size), key=lambda u: sum(v != u for v, _ in rows[u]))
    else:
        visit = list(range(size))
    mate = {}
    for u in visit:
        if u in mate:
            continue
        free = [(v, w) for v, w in rows[u] if v != u and v not in mate and w >= 0]
        if not free:
            mate[u] = u
            continue
        best = max(w for _, w in free)
        equal = [v for v, w in free if w == best]
        pick = draw(seed, level, u, 1, len(equal)) if order == "random" else 0
        mate[u] = equal[pick]
        mate[equal[pick]] = u
    clusters = {frozenset((u, mate[u])) for u in range(size)}
    if two_hop:
        clusters = _merge_alone(rows, clusters)
    heads = sorted(min(cluster) for cluster in clusters)
    owner = {u: min(cluster) for cluster in clusters for u in cluster}
    return [heads.index(owner[u]) for u in range(size)]


def _merge_alone(rows, clusters):
    """Pair nodes that are alone and have a common neighbour; then add nodes that are still alone to a neighbour."""

    def share(u, v):
        return max(w for other, w in rows[u] if other == v) / (len(rows[v]) + 1)

    near = [sorted({v for v, w in row if v != u and w >= 0}) for u, row in enumerate(rows)]
    alone = [u for u in range(len(rows)) if frozenset((u,)) in clusters]
    for u in alone:
        if frozenset((u,)) not in clusters:
            continue
        waiting = {
            v: w for w in alone if w < u and frozenset((w,)) in clusters for v in near[w] if v in near[u]
        }
        if waiting:
            # The first of the neighbours with the largest share.
            v = max(sorted(waiting), key=lambda v: share(u, v))
            clusters = (clusters - {frozenset((u,)), frozenset((waiting[v],))}) | {frozenset((u, waiting[v]))}
    for u in alone:
        if frozenset((u,)) in clusters and near[u]:
            v = max(near[u], key=lambda v: share(u, v))
            [home] = [cluster for cluster in clusters if v in cluster]
            clusters = (clusters - {frozenset((u,)), home}) | {home | {u}}
    return clusters


def random_parts(size, parts, seed, level):
    """Return the random parts of one graph, which are non-empty and numbered by smallest member."""
    part = {}
    for i, u in enumerate(shuffled(size, seed, level)):
        part[u] = i if i < parts else draw(seed, level, i, 1, parts)
    names = {}
    for u in range(size):
        names.setdefault(part[u], len(names))
    return [names[part[u]] for u in range(size)]
