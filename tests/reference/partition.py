"""Reference of the bisection of one graph, in plain Python: cuts and gains by definition, moves by search.

A graph is a list of rows ``{neighbour: weight}`` without self loops.
"""

from fractions import Fraction
from itertools import combinations

from tests.reference.graclus import hash_u64

MAX_PASSES = 10


def cut(rows, side):
    """Return the sum of the weights between nodes of different sides or clusters."""
    return sum(w for v, row in enumerate(rows) for u, w in row.items() if u < v and side[u] != side[v])


def gain(rows, side, v):
    """Return the decrease of the cut if one node changes its side, from two complete sums."""
    other = list(side)
    other[v] = 1 - other[v]
    return cut(rows, side) - cut(rows, other)


def smallest_cut(rows, size0):
    """Return the smallest cut of all bisections with ``size0`` nodes on side 0."""
    nodes = range(len(rows))
    return min(cut(rows, [v not in chosen for v in nodes]) for chosen in combinations(nodes, size0))


def limits(nodes, k, imbalance):
    """Return the smallest and largest number of nodes of a cluster."""
    mean, share = Fraction(nodes, k), Fraction(str(imbalance))
    least = min(nodes // k, -(-((1 - share) * mean) // 1))
    most = max(-(-nodes // k), (1 + share) * mean // 1)
    return max(least, 1), most


class Sides:
    """Sides of a graph with the state of a pass of moves."""

    def __init__(self, rows, size, side):
        self.rows, self.size, self.side = rows, size, side
        self.start_pass()

    def start_pass(self):
        self.clock = 0
        self.stamp = [v - len(self.rows) for v in range(len(self.rows))]
        self.done, self.known = set(), set()

    def weight(self, number):
        return sum(s for s, side in zip(self.size, self.side, strict=True) if side == number)

    def at_boundary(self, v):
        return any(self.side[u] != self.side[v] for u in self.rows[v])

    def best(self, number):
        """Return the node of the largest gain of a side among those that are considered, or None."""
        nodes = [v for v in self.known - self.done if self.side[v] == number]
        return max(nodes, key=lambda v: (gain(self.rows, self.side, v), self.stamp[v]), default=None)

    def move(self, v):
        self.side[v] = 1 - self.side[v]
        self.done.add(v)
        for u in self.rows[v]:
            self.clock += 1
            if u in self.done:
                continue
            if u in self.known or self.at_boundary(u):
                self.known.add(u)
                self.stamp[u] = self.clock


def refine(rows, size, target, limit, side):
    """Improve a bisection; return ``(violation, cut, distance from the target)``. ``side`` is changed."""
    state, slack = Sides(rows, size, side), max(size)
    soft = [limit[0] + slack - 1, limit[1] + slack - 1]
    stall = min(max(len(rows) // 100, 25), 150)

    def quality():
        weights = state.weight(0), state.weight(1)
        over = max(weights[0] - soft[0], weights[1] - soft[1], 0)
        return over, cut(rows, side), abs(weights[0] - target)

    best = quality()
    for _ in range(MAX_PASSES):
        before, kept, moved = best, list(side), 0
        since = 0
        state.start_pass()
        state.known = {v for v in range(len(rows)) if state.at_boundary(v)}
        while since < stall or best[0] > 0:
            v = _choose(state, soft, slack, target)
            if v is None:
                break
            other = 1 - side[v]
            if state.weight(other) + size[v] > soft[other] + slack:
                state.done.add(v)
                continue
            state.move(v)
            moved += 1
            since += 1
            if quality() < best:
                best, kept, since = quality(), list(side), 0
        side[:] = kept
        if best[:2] == before[:2]:
            break
    return best


def _choose(state, soft, slack, target):
    """Return the next node to move, or None. It may turn out not to fit."""
    weights = state.weight(0), state.weight(1)
    over = weights[0] - soft[0], weights[1] - soft[1]
    if max(over) > 0:
        origin = 0 if over[0] > over[1] else 1
        if state.best(origin) is None:
            state.known |= {v for v in range(len(state.rows)) if state.side[v] == origin}
        return state.best(origin)
    tops = state.best(0), state.best(1)
    fits = [
        v is not None and state.size[v] + weights[1 - s] <= soft[1 - s] + slack for s, v in enumerate(tops)
    ]
    if all(fits):
        gains = [gain(state.rows, state.side, v) for v in tops]
        return tops[0] if gains[0] > gains[1] or (gains[0] == gains[1] and weights[0] >= target) else tops[1]
    if any(fits):
        return tops[fits.index(True)]
    return tops[0] if tops[0] is not None else tops[1]


def grow(rows, size, target, start):
    """Return sides where side 0 was grown from a node."""
    nodes, side = len(rows), [1] * len(rows)
    state, weight, seed = Sides(rows, size, side), 0, start
    while weight < target:
        if state.best(1) is None:
            free = [
                (seed + i) % nodes for i in range(nodes) if (seed + i) % nodes not in state.known | state.done
            ]
            if not free:
                break
            seed = free[0]
            state.known.add(seed)
        v = state.best(1)
        if weight + size[v] - target > target - weight:
            state.done.add(v)
            continue
        weight += size[v]
        state.move(v)
    return side


def bisect(rows, size, target, limit, seed, level, draw, trials):
    """Return the best of some bisections."""
    found = []
    for trial in range(min(trials, (len(rows) + 1) // 2)):
        side = grow(rows, size, target, hash_u64(seed, level, 0, draw + trial) % len(rows))
        found.append((refine(rows, size, target, limit, side), trial, side))
    return min(found)[2]


def move_between(rows, cluster, least, most, passes):
    """Move nodes to other clusters while the cut becomes smaller. ``cluster`` is changed."""
    for _ in range(passes):
        moves = 0
        for v, row in enumerate(rows):
            own = cluster[v]
            size = {c: cluster.count(c) for c in cluster}
            if size[own] <= least:
                continue
            links = {}
            for u, w in row.items():
                links[cluster[u]] = links.get(cluster[u], 0.0) + w
            best, target, room = links.pop(own, 0.0), own, size[own]
            for c, w in links.items():
                if size[c] < most and (w > best or (w == best and size[c] + 1 < room)):
                    best, target, room = w, c, size[c] + 1
            if target != own:
                cluster[v] = target
                moves += 1
        if not moves:
            return
