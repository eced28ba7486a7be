"""Growth of coding trees by layers: a finer layer below the lowest, or a coarser one above the highest.

Components stand side by side: ``ptr`` is where the nodes of each start. A layer is a label per node, counted
inside its component, and the number of labels per component. Candidate layers are written in place, for
active components only, so that a candidate that was not taken stays valid.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tgp.kernels._prims import scan

__all__ = ["coarser_layer", "finer_layer", "number_level", "quotient", "split_layer", "take_steps"]


@njit(cache=True, nogil=True)
def split_layer(ptr, label, num, active):
    """The clusters of a layer as parts: ``(part [N] int32, part_component [P], part_active [P])``."""
    start = scan(num)
    part = np.empty(label.shape[0], np.int32)
    component = np.empty(start[-1], np.int64)
    chosen = np.empty(start[-1], np.bool_)
    for c in range(num.shape[0]):
        for i in range(ptr[c], ptr[c + 1]):
            part[i] = start[c] + label[i]
        for p in range(start[c], start[c + 1]):
            component[p] = c
            chosen[p] = active[c]
    return part, component, chosen


@njit(cache=True, nogil=True)
def _leaf_gain(lo, hi, order, degree, label, groups, group_vol, group_cut, whole, vol):
    """Entropy gained in the part ``lo..hi`` by a layer of its groups; ``vol`` is scratch."""
    part_vol = 0.0
    for c in range(lo, lo + groups):
        vol[c] = 0.0
    for i in range(lo, hi):
        part_vol += degree[order[i]]
        vol[lo + label[i]] += degree[order[i]]
    old, new = 0.0, 0.0
    for i in range(lo, hi):
        d = degree[order[i]]
        old -= d / whole * math.log2(d / part_vol)
        new -= d / whole * math.log2(d / vol[lo + label[i]])
    for c in range(lo, lo + groups):
        # What a group shares with itself is the same in its part and in the whole graph.
        boundary = vol[c] - (group_vol[c] - group_cut[c])
        new -= boundary / whole * math.log2(vol[c] / part_vol)
    return old - new


@njit(cache=True, nogil=True)
def finer_layer(
    ptr, order, part_ptr, part_component, active, degree, total, label, groups, group_vol, group_cut,
    up_label, up_num, up_gain,
):  # fmt: skip
    """The groups of the parts of a layer as a finer layer, in active components.

    Args:
        ptr, degree, total: ``[C + 1]``, ``[N]``, ``[C]``: nodes, their volumes, volume of the components.
        order, part_ptr: nodes of each part.
        part_component: ``[P]``, ascending.
        active: ``[C]`` bool.
        label, groups, group_vol, group_cut: what ``cut_trees`` made of the parts.
        up_label, up_num, up_gain: filled: the layer, and the entropy it gains per node.
    """
    vol = np.empty(degree.shape[0])
    for c in range(ptr.shape[0] - 1):
        if active[c]:
            up_num[c] = 0
            up_gain[c] = 0.0
    for p in range(part_component.shape[0]):
        c = part_component[p]
        if not active[c]:
            continue
        lo, hi = part_ptr[p], part_ptr[p + 1]
        for i in range(lo, hi):
            up_label[order[i]] = up_num[c] + label[i]
        up_num[c] += groups[p]
        if hi - lo > 2:
            up_gain[c] += _leaf_gain(
                lo, hi, order, degree, label, groups[p], group_vol, group_cut, total[c], vol
            )
    for c in range(ptr.shape[0] - 1):
        if active[c]:
            up_gain[c] /= ptr[c + 1] - ptr[c]


@njit(cache=True, nogil=True)
def quotient(indptr, indices, weight, degree, item, num_items):
    """The graph whose nodes are the items: ``(indptr, indices, weight, vol, cut)``.

    Weights between items add up; rows are not sorted.
    """
    num_nodes = indptr.shape[0] - 1
    counts = np.zeros(num_items, np.int64)
    for i in range(num_nodes):
        counts[item[i]] += 1
    ptr = scan(counts)
    slot = np.empty(num_items, np.int64)
    for c in range(num_items):
        counts[c] = ptr[c]
        slot[c] = -1
    order = np.empty(num_nodes, np.int32)
    for i in range(num_nodes):
        order[counts[item[i]]] = i
        counts[item[i]] += 1
    out_ptr = np.empty(num_items + 1, np.int64)
    out = np.empty(indices.shape[0], np.int32)
    value = np.empty(indices.shape[0])
    vol, cut = np.zeros(num_items), np.zeros(num_items)
    size = np.int64(0)
    for c in range(num_items):
        out_ptr[c] = size
        for at in range(ptr[c], ptr[c + 1]):
            i = order[at]
            vol[c] += degree[i]
            for e in range(indptr[i], indptr[i + 1]):
                d = item[indices[e]]
                if d == c:
                    continue
                cut[c] += weight[e]
                if slot[d] < out_ptr[c]:
                    slot[d] = size
                    out[size] = d
                    value[size] = weight[e]
                    size += 1
                else:
                    value[slot[d]] += weight[e]
    out_ptr[num_items] = size
    return out_ptr, out[:size], value[:size], vol, cut


@njit(cache=True, nogil=True)
def coarser_layer(
    ptr, item, item_ptr, active, vol, cut, total, label, groups, group_vol, group_cut,
    down_label, down_num, down_gain,
):  # fmt: skip
    """The groups of the items (clusters under the root) as a coarser layer, in active components.

    Args:
        ptr, total: nodes and volume of the components.
        item, item_ptr: ``[N]`` item of each node; items of each component.
        active: ``[C]`` bool.
        vol, cut: of the items.
        label, groups, group_vol, group_cut: what ``cut_trees`` made of the items.
        down_label, down_num, down_gain: filled: the layer, and the entropy it gains per item.
    """
    for c in range(ptr.shape[0] - 1):
        if not active[c]:
            continue
        lo, hi = item_ptr[c], item_ptr[c + 1]
        old, new = 0.0, 0.0
        for i in range(lo, hi):
            old -= cut[i] / total[c] * math.log2(vol[i] / total[c])
            new -= cut[i] / total[c] * math.log2(vol[i] / group_vol[lo + label[i]])
        for k in range(lo, lo + groups[c]):
            new -= group_cut[k] / total[c] * math.log2(group_vol[k] / total[c])
        down_gain[c] = (old - new) / (hi - lo)
        down_num[c] = groups[c]
        for i in range(ptr[c], ptr[c + 1]):
            down_label[i] = label[item[i]]


@njit(cache=True, nogil=True)
def take_steps(
    ptr, up_label, up_num, up_gain, down_label, down_num, down_gain, bottom_label, bottom_num, top_label, top_num,
    low, high, labels, nums, new_up, new_down,
):  # fmt: skip
    """Every component takes the better candidate, ties to the finer one; only that side is active next.

    ``labels[low[c]:high[c] + 1]`` and ``nums`` hold the layers of component ``c`` so far. A component with fewer than
    three clusters under the root has no coarser candidate.
    """
    for c in range(ptr.shape[0] - 1):
        raised = top_num[c] >= 3 and up_gain[c] < down_gain[c]
        if raised:
            high[c] += 1
            row, nums[high[c], c] = high[c], down_num[c]
            top_num[c] = down_num[c]
        else:
            low[c] -= 1
            row, nums[low[c], c] = low[c], up_num[c]
            bottom_num[c] = up_num[c]
        for i in range(ptr[c], ptr[c + 1]):
            if raised:
                labels[row, i] = top_label[i] = down_label[i]
            else:
                labels[row, i] = bottom_label[i] = up_label[i]
        new_up[c] = not raised
        new_down[c] = raised and top_num[c] >= 3


@njit(cache=True, nogil=True)
def number_level(ptr, order, graph_ptr, labels, nums, row, offset, below, num_below):
    """Supernodes of one layer in the order their first node occurs.

    Args:
        ptr, order: components; node (block id) at each position.
        graph_ptr: ``[B + 1]``, components of each graph.
        labels, nums: layers; that of component ``c`` is ``row[c] + offset``.
        below: ``[N]`` int32 supernode of each node on the level below (the node itself below all).
        num_below: number of those.

    Returns:
        ``above`` ``[N]`` int32, the same for this level; ``cluster`` ``[num_below]`` int32; ``super_ptr``.
    """
    num_nodes = order.shape[0]
    counts = np.empty(ptr.shape[0] - 1, np.int64)
    for c in range(ptr.shape[0] - 1):
        counts[c] = nums[row[c] + offset, c]
    start = scan(counts)
    above = np.empty(num_nodes, np.int32)
    for c in range(ptr.shape[0] - 1):
        for i in range(ptr[c], ptr[c + 1]):
            above[order[i]] = start[c] + labels[row[c] + offset, i]
    super_ptr = np.empty(graph_ptr.shape[0], np.int64)
    for g in range(graph_ptr.shape[0]):
        super_ptr[g] = start[graph_ptr[g]]
    seen = np.zeros(start[-1], np.int32)
    cluster = np.empty(num_below, np.int32)
    count = 0
    for i in range(num_nodes):
        if seen[above[i]] == 0:
            count += 1
            seen[above[i]] = count
        above[i] = seen[above[i]] - 1
        cluster[below[i]] = above[i]
    return above, cluster, super_ptr
