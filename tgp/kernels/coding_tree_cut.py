"""Structural-entropy coding trees: reduce a binary merge tree to height 2 and return its groups."""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import heap_remove_min, heap_sink, kernel, uf_find
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, PtrArray

__all__ = ["cut_trees"]


@kernel
def _compress(
    n: int, vol: FloatArray, inner: FloatArray, parent: IndexArray, link: IndexArray, inner_children: IndexArray,
    keys: FloatArray, nodes: IndexArray,
) -> None:  # fmt: skip
    """Delete tree nodes, smallest entropy increase first, until all remaining ones are children of the root.

    A node may stay if its parent is the root and its children are items. A deletion only increases the keys of other
    nodes (their parent becomes larger, or the weight between their children grows). An outdated key at the top of the
    heap is therefore a lower bound; it is corrected and moved down.

    Args:
        n: Number of items. Merged nodes are ``n..2 n - 2``; the last one is the root.
        vol: ``[2 n]``, volume of each tree node.
        inner: ``[2 n]``, weight between the children of a node. Deleted nodes add theirs to their parent, in place.
        parent: ``[2 n]``, parent of each tree node.
        link: ``[2 n]`` output: points from a deleted node to the node that received its children.
        inner_children: ``[2 n]`` output: number of children that are merged nodes.
        keys, nodes: ``[n]`` scratch for the heap.
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
            heap = heap_remove_min(keys, nodes, heap)
            continue
        key = inner[x] * math.log(vol[p] / vol[x])
        if key > keys[0]:
            keys[0] = key
            heap_sink(keys, nodes, heap, 0)
            continue
        heap = heap_remove_min(keys, nodes, heap)
        link[x] = p
        inner[p] += inner[x]
        inner_children[p] += inner_children[x] - 1


@kernel
def cut_trees(
    part_ptr: PtrArray, active: BoolArray, tree_parent: IndexArray, tree_vol: FloatArray, tree_cut: FloatArray,
    tree_inner: FloatArray, first: int, last: int, label: IndexArray, groups: PtrArray, group_vol: FloatArray,
    group_cut: FloatArray,
) -> None:  # fmt: skip
    """Compute the groups of the parts ``first..last``: the children of the root in a tree of height 2.

    Groups are numbered in the order of their creation. A node directly below the root is a group of its own; these
    groups have the largest numbers.

    Args:
        part_ptr: ``[P + 1]``, offsets of the nodes of each part.
        active: ``[P]``, parts to process. The output for other parts is not changed.
        tree_parent, tree_vol, tree_cut, tree_inner: ``[2 N]``, output of
            :func:`~tgp.kernels.coding_tree.merge_trees`. ``tree_inner`` is overwritten.
        first, last: Range of parts, so that ranges can run on several threads.
        label: ``[N]`` output: group of each node, counted from 0 in each part.
        groups: ``[P]`` output: number of groups.
        group_vol, group_cut: ``[N]`` output at ``part_ptr[p] + group``: volume and boundary weight.
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
