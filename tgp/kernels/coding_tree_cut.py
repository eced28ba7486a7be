"""Structural-entropy coding trees: reduce a binary merge tree to height 2 and return its groups."""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import heap_remove_min, heap_sink, kernel, uf_find
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, PtrArray

__all__ = ["cut_trees", "cut_trees_optimally"]


@kernel(inner=True)
def _write_groups(
    lo: int, n: int, tree_vol: FloatArray, tree_cut: FloatArray, top: IndexArray, group: IndexArray, label: IndexArray,
    group_vol: FloatArray, group_cut: FloatArray,
) -> int:  # fmt: skip
    """Number the groups of a part and return their number.

    ``top[i]`` is the merged node that is the group of item ``i``, or the root if the item is a group of its own. ``top`` of
    a merged node that is a group is the node itself.
    """
    root = 2 * n - 2
    found = 0
    for x in range(n, root):
        if top[x] == x:
            group_vol[lo + found], group_cut[lo + found] = tree_vol[2 * lo + x], tree_cut[2 * lo + x]
            group[x] = found
            found += 1
    for i in range(n):
        if n > 1 and top[i] != root:
            label[lo + i] = group[top[i]]
            continue
        group_vol[lo + found], group_cut[lo + found] = tree_vol[2 * lo + i], tree_cut[2 * lo + i]
        label[lo + i] = found
        found += 1
    return found


@kernel
def cut_trees(
    part_ptr: PtrArray, active: BoolArray, first: int, last: int, tree_parent: IndexArray, tree_vol: FloatArray,
    tree_cut: FloatArray, tree_inner: FloatArray, link: IndexArray, inner_children: IndexArray, nodes: PtrArray,
    keys: FloatArray, label: IndexArray, groups: PtrArray, group_vol: FloatArray, group_cut: FloatArray,
) -> None:  # fmt: skip
    """Compute the groups of the parts ``first..last``: the children of the root in a tree of height 2.

    Tree nodes are deleted, smallest entropy increase first, until all remaining ones are children of the root. A node may
    stay if its parent is the root and its children are items. A deletion only increases the keys of other nodes (their
    parent becomes larger, or the weight between their children grows). An outdated key at the top of the heap is
    therefore a lower bound; it is corrected and moved down.

    Groups are numbered in the order of their creation. A node directly below the root is a group of its own; these
    groups have the largest numbers.

    Args:
        part_ptr: ``[P + 1]``, offsets of the nodes of each part.
        active: ``[P]``, parts to process. The output for other parts is not changed.
        first, last: Range of parts, so that ranges can run on several threads.
        tree_parent, tree_vol, tree_cut, tree_inner: ``[2 N]``, output of
            :func:`~tgp.kernels.coding_tree.merge_trees`. ``tree_inner`` is overwritten: deleted nodes add theirs to their
            parent.
        link, inner_children, nodes, keys: Scratch, two entries per node of the largest active part. ``link`` points from
            a deleted node to the node that received its children.
        label: ``[N]`` output: group of each node, counted from 0 in each part.
        groups: ``[P]`` output: number of groups.
        group_vol, group_cut: ``[N]`` output at ``part_ptr[p] + group``: volume and boundary weight.
    """
    for p in range(first, last):
        if not active[p]:
            continue
        lo, n = part_ptr[p], part_ptr[p + 1] - part_ptr[p]
        base, root = 2 * lo, 2 * n - 2
        for x in range(n, root + 1):
            link[x] = x
            inner_children[x] = 0
        heap = np.int64(0)
        for x in range(n, root):
            up = tree_parent[base + x]
            inner_children[up] += 1
            keys[heap] = tree_inner[base + x] * math.log(tree_vol[base + up] / tree_vol[base + x])
            nodes[heap] = x
            heap += 1
        for at in range((heap >> 1) - 1, -1, -1):
            heap_sink(keys, nodes, heap, at)
        while heap > 0:
            x = nodes[0]
            up = uf_find(link, tree_parent[base + x])
            if up == root and inner_children[x] == 0:
                heap = heap_remove_min(keys, nodes, heap)
                continue
            key = tree_inner[base + x] * math.log(tree_vol[base + up] / tree_vol[base + x])
            if key > keys[0]:
                keys[0] = key
                heap_sink(keys, nodes, heap, np.int64(0))
                continue
            heap = heap_remove_min(keys, nodes, heap)
            link[x] = up
            tree_inner[base + up] += tree_inner[base + x]
            inner_children[up] += inner_children[x] - 1
        if n > 1:
            for i in range(n):
                link[i] = uf_find(link, tree_parent[base + i])
        groups[p] = _write_groups(
            lo, n, tree_vol, tree_cut, link, inner_children, label, group_vol, group_cut
        )


@kernel
def cut_trees_optimally(
    part_ptr: PtrArray, active: BoolArray, first: int, last: int, tree_parent: IndexArray, tree_vol: FloatArray,
    tree_cut: FloatArray, total: FloatArray, top: IndexArray, group: IndexArray, weights: FloatArray, logs: FloatArray,
    best: FloatArray, label: IndexArray, groups: PtrArray, group_vol: FloatArray, group_cut: FloatArray,
) -> None:  # fmt: skip
    """Compute the groups of the parts ``first..last`` with the smallest structural entropy.

    The groups are the subtrees below some nodes of the merge tree that contain each item once, but not the root. With
    the boundary weight g and the volume V of a group, and those of its items, the entropy of a group is::

        (g log(total / V) + sum over its items of g_i log(V / V_i)) / total

    A tree node is a group if its entropy is not larger than the best entropy of its two subtrees. Groups are numbered as
    in :func:`cut_trees`. The work is proportional to the number of nodes.

    Args:
        part_ptr, active, first, last, tree_parent, tree_vol, tree_cut: See :func:`cut_trees`.
        total: ``[P]``, volume of the graph that contains each part.
        top, group, weights, logs, best: Scratch, two entries per node of the largest active part.
        label, groups, group_vol, group_cut: Output, see :func:`cut_trees`.
    """
    for p in range(first, last):
        if not active[p]:
            continue
        lo, n = part_ptr[p], part_ptr[p + 1] - part_ptr[p]
        base, root = 2 * lo, 2 * n - 2
        for x in range(n, root + 1):
            weights[x] = logs[x] = best[x] = 0.0
        # Children have smaller ids than their parents.
        for x in range(root):
            g, height = tree_cut[base + x], math.log(tree_vol[base + x] / total[p])
            if x < n:
                weights[x], logs[x] = g, g * height
            entropy = (weights[x] - g) * height - logs[x]
            top[x] = x
            if x < n or entropy <= best[x]:
                best[x] = entropy
            else:
                top[x] = -1
            up = tree_parent[base + x]
            weights[up] += weights[x]
            logs[up] += logs[x]
            best[up] += best[x]
        top[root] = -1
        for x in range(root - 1, -1, -1):
            up = tree_parent[base + x]
            if top[up] >= 0:
                top[x] = top[up]
            elif x < n:
                top[x] = root
        groups[p] = _write_groups(lo, n, tree_vol, tree_cut, top, group, label, group_vol, group_cut)
