"""Structural-entropy coding trees: from a binary merge tree to a tree of height 2, and its groups."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tgp.kernels._prims import heap_drop, heap_sink, uf_find

__all__ = ["cut_trees"]


@njit(cache=True, nogil=True)
def _compress(n, vol, inner, parent, link, inner_children, keys, nodes):
    """Delete tree nodes, least entropy increase first, until all that are left hang under the root.

    A node may stay if its parent is the root and its children are items. A deletion only ever raises
    the keys of others (a larger parent, more weight between children), so an outdated key on top of the
    heap is a lower bound: it is corrected and sinks. ``link`` leads from a deleted node to the one that
    took its children.
    """
    root = 2 * n - 2
    for x in range(n, root + 1):
        link[x] = x
        inner_children[x] = 0
    heap = max(root - n, 0)
    for x in range(n, root):
        p = parent[x]
        inner_children[p] += 1
        keys[x - n] = inner[x] * math.log(vol[p] / vol[x])
        nodes[x - n] = x
    for at in range(heap // 2 - 1, -1, -1):
        heap_sink(keys, nodes, heap, at)
    while heap > 0:
        x = nodes[0]
        p = uf_find(link, parent[x])
        if p == root and inner_children[x] == 0:
            heap = heap_drop(keys, nodes, heap)
            continue
        key = inner[x] * math.log(vol[p] / vol[x])
        if key > keys[0]:
            keys[0] = key
            heap_sink(keys, nodes, heap, 0)
            continue
        heap = heap_drop(keys, nodes, heap)
        link[x] = p
        inner[p] += inner[x]
        inner_children[p] += inner_children[x] - 1


@njit(cache=True, nogil=True)
def cut_trees(
    part_ptr,
    active,
    tree_parent,
    tree_vol,
    tree_cut,
    tree_inner,
    first,
    last,
    label,
    groups,
    group_vol,
    group_cut,
):
    """The groups of the parts ``first..last``: the children of the root in a tree of height 2.

    Groups are numbered by creation; a node directly under the root is a group of its own, and these
    come last.

    Args:
        part_ptr: ``[P + 1]`` int64, the nodes of each part.
        active: ``[P]`` bool: parts to work on; the others are left alone.
        tree_parent, tree_vol, tree_cut, tree_inner: ``[2 N]``, what ``merge_trees`` made. ``tree_inner``
            is used up.
        first, last: range of parts, so that ranges can run on several threads.
        label: ``[N]`` int32, filled with the group of each node inside its part.
        groups: ``[P]`` int64, filled with the number of groups.
        group_vol, group_cut: ``[N]`` float64, filled at ``part_ptr[p] + group``.
    """
    most = np.int64(0)
    for p in range(first, last):
        if active[p]:
            most = max(most, part_ptr[p + 1] - part_ptr[p])
    link, inner_children = np.empty(2 * most, np.int32), np.empty(2 * most, np.int32)
    keys, nodes = np.empty(most), np.empty(most, np.int32)
    for p in range(first, last):
        if not active[p]:
            continue
        lo, n = part_ptr[p], part_ptr[p + 1] - part_ptr[p]
        parent = tree_parent[2 * lo : 2 * (lo + n)]
        vol = tree_vol[2 * lo : 2 * (lo + n)]
        _compress(n, vol, tree_inner[2 * lo : 2 * (lo + n)], parent, link, inner_children, keys, nodes)
        root = 2 * n - 2
        group = inner_children
        found = 0
        for x in range(n, root):
            if link[x] == x:
                group_vol[lo + found], group_cut[lo + found] = vol[x], tree_cut[2 * lo + x]
                group[x] = found
                found += 1
        for i in range(n):
            top = root if n == 1 else uf_find(link, parent[i])
            if top != root:
                label[lo + i] = group[top]
                continue
            group_vol[lo + found], group_cut[lo + found] = vol[i], tree_cut[2 * lo + i]
            label[lo + i] = found
            found += 1
        groups[p] = found
