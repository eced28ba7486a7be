"""Growth of coding trees by layers: a finer layer below the lowest one, or a coarser layer above the highest one.

The nodes of each connected component are contiguous; ``ptr`` contains the offsets of the components. A layer is a
label per node, counted from 0 in each component, and the number of labels per component. Candidate layers are written
in place and only for active components, so that a candidate that was not used remains valid.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import kernel, offsets_from_counts
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, PtrArray

__all__ = [
    "add_better_layer",
    "coarser_layer",
    "finer_layer",
    "group_by_label",
    "number_level",
    "quotient",
    "row_sums",
    "split_layer",
]


@kernel
def split_layer(
    ptr: PtrArray, label: IndexArray, num: PtrArray, active: BoolArray
) -> tuple[IndexArray, PtrArray, BoolArray]:
    """Number the clusters of a layer through all components and return them as parts.

    Returns:
        Part of each node ``[N]``, component of each part ``[P]``, and a mask of parts in active components ``[P]``.
    """
    start = offsets_from_counts(num)
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


@kernel
def _leaf_gain(
    lo: int, hi: int, order: IndexArray, degree: FloatArray, label: IndexArray, groups: int, group_vol: FloatArray,
    group_cut: FloatArray, whole: float, vol: FloatArray,
) -> float:  # fmt: skip
    """Return the entropy reduction from inserting a layer of groups into the part ``lo..hi``; ``vol`` is scratch."""
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
        # The weight inside a group is the same in its part and in the whole graph.
        boundary = vol[c] - (group_vol[c] - group_cut[c])
        new -= boundary / whole * math.log2(vol[c] / part_vol)
    return old - new


@kernel
def finer_layer(
    ptr: PtrArray, order: IndexArray, part_ptr: PtrArray, part_component: PtrArray, active: BoolArray,
    degree: FloatArray, total: FloatArray, label: IndexArray, groups: PtrArray, group_vol: FloatArray,
    group_cut: FloatArray, up_label: IndexArray, up_num: PtrArray, up_gain: FloatArray,
) -> None:  # fmt: skip
    """Write the groups of the parts of a layer as a finer layer, for active components.

    Args:
        ptr: ``[C + 1]``, offsets of the components.
        order, part_ptr: Nodes of each part.
        part_component: ``[P]``, component of each part, ascending.
        active: ``[C]``, components to process.
        degree: ``[N]``, volume of each node.
        total: ``[C]``, volume of each component.
        label, groups, group_vol, group_cut: Output of :func:`~tgp.kernels.coding_tree_cut.cut_trees` for the parts.
        up_label, up_num: ``[N]`` and ``[C]`` output: the layer.
        up_gain: ``[C]`` output: entropy reduction per node.
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


@kernel
def quotient(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, degree: FloatArray, item: IndexArray, num_items: int
) -> tuple[PtrArray, IndexArray, FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Return the quotient graph whose nodes are the items; weights between two items are added.

    Args:
        indptr, indices, weight: Simple undirected graphs.
        degree: ``[N]``, volume of each node.
        item: ``[N]``, item of each node.
        num_items: Number of items.

    Returns:
        ``indptr``, ``indices`` (not sorted inside a row), ``weight``, and volume and boundary weight of the items.
    """
    num_nodes = indptr.shape[0] - 1
    counts = np.zeros(num_items, np.int64)
    for i in range(num_nodes):
        counts[item[i]] += 1
    ptr = offsets_from_counts(counts)
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


@kernel
def coarser_layer(
    ptr: PtrArray, item: IndexArray, item_ptr: PtrArray, active: BoolArray, vol: FloatArray, cut: FloatArray,
    total: FloatArray, label: IndexArray, groups: PtrArray, group_vol: FloatArray, group_cut: FloatArray,
    down_label: IndexArray, down_num: PtrArray, down_gain: FloatArray,
) -> None:  # fmt: skip
    """Write the groups of the items (the clusters below the root) as a coarser layer, for active components.

    Args:
        ptr: ``[C + 1]``, offsets of the components.
        item: ``[N]``, item of each node.
        item_ptr: ``[C + 1]``, offsets of the items of each component.
        active: ``[C]``, components to process.
        vol, cut: Volume and boundary weight of the items.
        total: ``[C]``, volume of each component.
        label, groups, group_vol, group_cut: Output of :func:`~tgp.kernels.coding_tree_cut.cut_trees` for the items.
        down_label, down_num: ``[N]`` and ``[C]`` output: the layer.
        down_gain: ``[C]`` output: entropy reduction per item.
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


@kernel
def add_better_layer(
    ptr: PtrArray, up_label: IndexArray, up_num: PtrArray, up_gain: FloatArray, down_label: IndexArray,
    down_num: PtrArray, down_gain: FloatArray, bottom_label: IndexArray, bottom_num: PtrArray, top_label: IndexArray,
    top_num: PtrArray, low: PtrArray, high: PtrArray, labels: IndexArray, nums: PtrArray, new_up: BoolArray,
    new_down: BoolArray,
) -> None:  # fmt: skip
    """Add the better of the two candidate layers to each component; the finer one wins a tie.

    A component with fewer than three clusters below the root has no coarser candidate.

    Args:
        ptr: ``[C + 1]``, offsets of the components.
        up_label, up_num, up_gain: Finer candidates, see :func:`finer_layer`.
        down_label, down_num, down_gain: Coarser candidates, see :func:`coarser_layer`.
        bottom_label, bottom_num, top_label, top_num: Lowest and highest layer, updated in place.
        low, high: ``[C]``, rows of the lowest and the highest layer in ``labels``, updated in place.
        labels, nums: ``[rows, N]`` and ``[rows, C]``. The row of the new layer is written.
        new_up, new_down: ``[C]`` output: components that need a new finer or a new coarser candidate.
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


@kernel
def number_level(
    ptr: PtrArray, order: IndexArray, graph_ptr: PtrArray, labels: IndexArray, nums: PtrArray, row: PtrArray,
    offset: int, below: IndexArray, num_below: int,
) -> tuple[IndexArray, IndexArray, PtrArray]:  # fmt: skip
    """Number the supernodes of one layer in the order of their first nodes.

    Args:
        ptr: ``[C + 1]``, offsets of the components.
        order: ``[N]``, node (block id) at each position.
        graph_ptr: ``[B + 1]``, offsets of the components of each graph.
        labels, nums: Layers. The layer of component ``c`` is in row ``row[c] + offset``.
        row: ``[C]``, row of the lowest layer of each component.
        offset: Number of the layer, counted from the lowest.
        below: ``[N]``, supernode of each node on the level below; the node itself on the lowest level.
        num_below: Number of supernodes of the level below.

    Returns:
        ``above`` ``[N]`` (supernode of each node on this level), ``cluster`` ``[num_below]`` (supernode of each
        supernode of the level below), and ``super_ptr`` ``[B + 1]``.
    """
    num_nodes = order.shape[0]
    counts = np.empty(ptr.shape[0] - 1, np.int64)
    for c in range(ptr.shape[0] - 1):
        counts[c] = nums[row[c] + offset, c]
    start = offsets_from_counts(counts)
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


@kernel
def group_by_label(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, label: IndexArray, num_labels: int
) -> tuple[IndexArray, PtrArray, PtrArray, IndexArray, FloatArray]:
    """Renumber the nodes so that the nodes of each label are contiguous.

    The order of nodes with the same label does not change. Edges between different labels are removed, so that each
    label becomes a separate part.

    Args:
        indptr, indices, weight: Simple undirected graphs.
        label: ``[N]``, label of each node.
        num_labels: Number of labels.

    Returns:
        ``order`` (old id of each node), ``label_ptr`` (offsets of the labels), ``indptr``, ``indices``, ``weight``.
    """
    num_nodes = indptr.shape[0] - 1
    counts = np.zeros(num_labels, np.int64)
    for i in range(num_nodes):
        counts[label[i]] += 1
    label_ptr = offsets_from_counts(counts)
    for c in range(num_labels):
        counts[c] = label_ptr[c]
    order = np.empty(num_nodes, np.int32)
    place = np.empty(num_nodes, np.int32)
    for i in range(num_nodes):
        at = counts[label[i]]
        counts[label[i]] += 1
        order[at] = i
        place[i] = at
    out_ptr = np.empty(num_nodes + 1, np.int64)
    out = np.empty(indices.shape[0], np.int32)
    value = np.empty(indices.shape[0])
    size = np.int64(0)
    for at in range(num_nodes):
        out_ptr[at] = size
        i = order[at]
        for e in range(indptr[i], indptr[i + 1]):
            if label[indices[e]] == label[i]:
                out[size] = place[indices[e]]
                value[size] = weight[e]
                size += 1
    out_ptr[num_nodes] = size
    return order, label_ptr, out_ptr, out[:size], value[:size]


@kernel
def row_sums(indptr: PtrArray, weight: FloatArray, ptr: PtrArray) -> tuple[FloatArray, FloatArray]:
    """Return the row sums ``[N]`` and their sums over the ranges of ``ptr``."""
    degree = np.empty(indptr.shape[0] - 1)
    total = np.empty(ptr.shape[0] - 1)
    for p in range(ptr.shape[0] - 1):
        all_ = 0.0
        for i in range(ptr[p], ptr[p + 1]):
            d = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                d += weight[e]
            degree[i] = d
            all_ += d
        total[p] = all_
    return degree, total
