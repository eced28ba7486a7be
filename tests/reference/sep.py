"""Reference of structural-entropy coding trees: dense matrices, sets and ``heapq``."""

from __future__ import annotations

import heapq
import math
from itertools import pairwise

import numpy as np


def adjacency(num_nodes, edges, weights=None):
    """Return a dense symmetric matrix without self loops: ones if unweighted, ``w_ij + w_ji`` if weighted."""
    a = np.zeros((num_nodes, num_nodes))
    for k, (i, j) in enumerate(edges):
        if weights is None:
            a[i, j] = 1.0
        else:
            a[i, j] += weights[k]
    a = np.maximum(a, a.T) if weights is None else a + a.T
    np.fill_diagonal(a, 0.0)
    return a


def components(a):
    """Return the connected components as ascending lists, ordered by smallest member."""
    seen, found = set(), []
    for start in range(len(a)):
        if start in seen:
            continue
        stack, members = [start], {start}
        while stack:
            i = stack.pop()
            for j in np.flatnonzero(a[i]):
                if int(j) not in members:
                    members.add(int(j))
                    stack.append(int(j))
        seen |= members
        found.append(sorted(members))
    return found


class Node:
    """Node of the coding tree."""

    def __init__(self, leaves, vol, g, children=(), child_cut=0.0, height=0):
        self.leaves = leaves
        self.vol, self.g = vol, g
        self.children = set(children)
        self.child_cut = child_cut
        self.height = height
        self.parent = None


def merge_delta(total, p, q, cut):
    """Return the change of entropy if two nodes get a common parent."""
    v = p.vol + q.vol
    first = (p.vol - p.g) * math.log2(v / p.vol)
    second = (q.vol - q.g) * math.log2(v / q.vol)
    return (first + second - 2 * cut * math.log2(total / v)) / total


def _merge(total, vol, g, cuts):
    n = len(vol)
    tree = {i: Node([i], vol[i], g[i]) for i in range(n)}
    open_nodes = set(range(n))

    def cut(p, q):
        return cuts[np.ix_(tree[p].leaves, tree[q].leaves)].sum()

    heap = []
    for i in range(n):
        for j in range(i + 1, n):
            if cuts[i, j] > 0:
                heap.append((merge_delta(total, tree[i], tree[j], cuts[i, j]), i, j))
    heapq.heapify(heap)
    new = n
    while len(open_nodes) > 1 and heap:
        _, i, j = heapq.heappop(heap)
        if i not in open_nodes or j not in open_nodes:
            continue
        c = cut(i, j)
        p, q = tree[i], tree[j]
        tree[new] = Node(
            p.leaves + q.leaves, p.vol + q.vol, p.g + q.g - 2 * c, (i, j), c, max(p.height, q.height) + 1
        )
        p.parent = q.parent = new
        open_nodes -= {i, j}
        for other in sorted(open_nodes):
            between = cut(other, new)
            if between > 0:
                heapq.heappush(heap, (merge_delta(total, tree[other], tree[new], between), other, new))
        open_nodes.add(new)
        new += 1
    if len(open_nodes) > 1:
        rest = sorted(open_nodes)
        tree[new] = Node(
            [leaf for i in rest for leaf in tree[i].leaves],
            sum(tree[i].vol for i in rest),
            0.0,
            rest,
            0.0,
            max(tree[i].height for i in rest) + 1,
        )
        for i in rest:
            tree[i].parent = new
        new += 1
    return tree, new - 1


def _ancestors(tree, node):
    count = 0
    while tree[node].parent is not None:
        node = tree[node].parent
        count += 1
    return count


def _compress(tree, root):
    def key(node):
        parent = tree[tree[node].parent]
        return tree[node].child_cut * math.log(parent.vol / tree[node].vol)

    heap = [(key(i), i) for i in tree if tree[i].children and i != root]
    heapq.heapify(heap)
    while tree[root].height > 2:
        _, node = heapq.heappop(heap)
        if _ancestors(tree, node) + tree[node].height <= 2:
            continue
        gone = tree.pop(node)
        parent = tree[gone.parent]
        parent.children = (parent.children - {node}) | gone.children
        parent.child_cut += gone.child_cut
        for child in gone.children:
            tree[child].parent = gone.parent
        above = gone.parent
        while above is not None:
            tree[above].height = max(tree[c].height for c in tree[above].children) + 1
            above = tree[above].parent
        for k, (_, i) in enumerate(heap):
            moved = i == gone.parent or i in gone.children
            if moved and _ancestors(tree, i) + tree[i].height > 2:
                heap[k] = (key(i), i)
        heapq.heapify(heap)


def build_height_2(total, vol, g, cuts):
    """Return the groups of a tree of height 2 over items as ``[(members, vol, g), ...]``, in the order of creation."""
    tree, root = _merge(total, vol, g, cuts)
    if tree[root].height > 2:
        _compress(tree, root)
    last = max(tree)
    for child in sorted(tree[root].children):
        if tree[child].height == 0:
            last += 1
            alone = Node([child], tree[child].vol, tree[child].g, (child,), 0.0, 1)
            alone.parent = root
            tree[last] = alone
            tree[root].children = (tree[root].children - {child}) | {last}
    return [(sorted(tree[i].leaves), tree[i].vol, tree[i].g) for i in sorted(tree[root].children)]


def _entropy_term(g, total, vol, parent_vol):
    return -(g / total) * math.log2(vol / parent_vol)


class Component:
    """Layers of one connected component, lowest first; a layer is a list of (leaves, vol, g)."""

    def __init__(self, a):
        self.a = a
        self.n = len(a)
        self.d = [sum(row) for row in a.tolist()]
        self.total = sum(self.d)
        self.layers = [build_height_2(self.total, self.d, self.d, a)]

    def finer_layer(self):
        gain, layer = 0.0, []
        for members, vol, g in self.layers[0]:
            if len(members) <= 2:
                layer += [([i], self.d[i], self.d[i]) for i in members]
                continue
            sub = self.a[np.ix_(members, members)]
            inner = [sum(row) for row in sub.tolist()]
            groups = []
            for local, _, _ in build_height_2(vol - g, inner, inner, sub):
                leaves = [members[i] for i in local]
                out = [j for j in range(self.n) if j not in leaves]
                groups.append((leaves, sum(self.d[i] for i in leaves), self.a[np.ix_(leaves, out)].sum()))
            old = sum(_entropy_term(self.d[i], self.total, self.d[i], vol) for i in members)
            new = 0.0
            for leaves, gvol, gg in groups:
                new += _entropy_term(gg, self.total, gvol, vol)
                new += sum(_entropy_term(self.d[i], self.total, self.d[i], gvol) for i in leaves)
            gain += old - new
            layer += groups
        return gain / self.n, layer

    def coarser_layer(self):
        items = self.layers[-1]
        if len(items) < 3:
            return 0.0, None
        cuts = np.array(
            [[self.a[np.ix_(p[0], q[0])].sum() if p is not q else 0.0 for q in items] for p in items]
        )
        groups = build_height_2(self.total, [p[1] for p in items], [p[2] for p in items], cuts)
        old = sum(_entropy_term(g, self.total, vol, self.total) for _, vol, g in items)
        new = 0.0
        for local, vol, g in groups:
            new += _entropy_term(g, self.total, vol, self.total)
            new += sum(_entropy_term(items[i][2], self.total, items[i][1], vol) for i in local)
        layer = [(sorted(leaf for i in local for leaf in items[i][0]), vol, g) for local, vol, g in groups]
        return (old - new) / len(items), layer

    def grow(self, levels):
        up = down = None
        while len(self.layers) < levels:
            up = up or self.finer_layer()
            down = down or self.coarser_layer()
            if down[1] is not None and up[0] < down[0]:
                self.layers.append(down[1])
                down = None
            else:
                self.layers.insert(0, up[1])
                up = None
        return self.layers


def partitions(num_nodes, edges, weights=None, levels=1):
    """Return the list of node sets of each level; for ``levels=1`` in the order of creation."""
    a = adjacency(num_nodes, edges, weights)
    out = [[] for _ in range(levels)]
    for members in components(a):
        if len(members) == 1:
            layers = [[([0], 0.0, 0.0)]] * levels
        else:
            layers = Component(a[np.ix_(members, members)]).grow(levels)
        for level, layer in zip(out, layers, strict=True):
            level += [[members[i] for i in leaves] for leaves, _, _ in layer]
    return out


def labels(num_nodes, edges, weights=None, levels=1):
    """Return the cluster of each node at each level, numbered as in the pooler."""
    out = []
    for level in partitions(num_nodes, edges, weights, levels):
        lab = np.full(num_nodes, -1)
        for c, members in enumerate(level):
            lab[members] = c
        if levels > 1:
            first = {}
            lab = np.array([first.setdefault(c, len(first)) for c in lab.tolist()], dtype=int)
        out.append(lab)
    return out


def entropy(num_nodes, edges, weights, layers):
    """Return the structural entropy of the tree with the given layers of labels, lowest first.

    Nodes of volume 0 do not contribute. The root is the whole graph.
    """
    a = adjacency(num_nodes, edges, weights)
    d = a.sum(1)
    total = d.sum()
    levels = [np.arange(num_nodes), *layers, np.zeros(num_nodes, int)]
    h = 0.0
    for below, above in pairwise(levels):
        for c in np.unique(below):
            inside = below == c
            vol = d[inside].sum()
            g = a[np.ix_(inside, ~inside)].sum()
            if vol > 0 and g > 0:
                parent = above == above[np.flatnonzero(inside)[0]]
                h -= g / total * math.log2(vol / d[parent].sum())
    return h
