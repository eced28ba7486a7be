"""Growth of coding trees by layers: a finer layer below the lowest one, or a coarser layer above the highest one.

The nodes of each connected component are contiguous; ``ptr`` contains the offsets of the components. A layer is a
label per node, counted from 0 in each component, and the number of labels per component. Candidate layers are written
in place and only for active components, so that a candidate that was not used remains valid.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import (
    BoolArray,
    FloatArray,
    IndexArray,
    IndexMatrixArray,
    PtrArray,
    PtrMatrixArray,
)

__all__ = [
    "add_better_layer",
    "coarser_layer",
    "finer_layer",
    "group_by_label",
    "number_level",
    "quotient",
    "row_sums",
]


@kernel(inner=True)
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
    group_cut: FloatArray, vol: FloatArray, up_label: IndexArray, up_num: PtrArray, up_gain: FloatArray,
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
        vol: ``[N]`` scratch.
        up_label, up_num: ``[N]`` and ``[C]`` output: the layer.
        up_gain: ``[C]`` output: entropy reduction per node.
    """
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


def quotient(
    indptr: PtrArray,
    indices: IndexArray,
    weight: FloatArray,
    degree: FloatArray,
    item: IndexArray,
    num_items: int,
) -> tuple[PtrArray, IndexArray, FloatArray, FloatArray, FloatArray]:
    """Return the quotient graph whose nodes are the items; weights between two items are added.

    Args:
        indptr, indices, weight: Simple undirected graphs.
        degree: ``[N]``, volume of each node.
        item: ``[N]``, item of each node.
        num_items: Number of items.

    Returns:
        ``indptr``, ``indices`` (not sorted inside a row), ``weight``, and volume and boundary weight of the items.
    """
    out_ptr, out, value = np.empty(num_items + 1, np.int64), np.empty_like(indices), np.empty_like(weight)
    ptr, order, slot = np.zeros(num_items + 1, np.int64), np.empty_like(item), np.full(num_items, -1)
    vol, cut = np.zeros((2, num_items))
    _sort_by_label(item, ptr, order)
    _quotient(indptr, indices, weight, degree, item, ptr, order, slot, out_ptr, out, value, vol, cut)
    return out_ptr, out[: out_ptr[-1]], value[: out_ptr[-1]], vol, cut


@kernel
def _sort_by_label(label: IndexArray, ptr: PtrArray, order: IndexArray) -> None:
    """Write the nodes of each label to ``order``, ascending, and their offsets to ``ptr``, which contains zeros."""
    labels = ptr.shape[0] - 1
    for i in range(label.shape[0]):
        ptr[label[i] + 1] += 1
    for c in range(labels):
        ptr[c + 1] += ptr[c]
    # ptr[c] serves as the write position of label c and ends as the start of label c + 1.
    for i in range(label.shape[0]):
        order[ptr[label[i]]] = i
        ptr[label[i]] += 1
    for c in range(labels, 0, -1):
        ptr[c] = ptr[c - 1]
    ptr[0] = 0


@kernel
def _quotient(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, degree: FloatArray, item: IndexArray, ptr: PtrArray,
    order: IndexArray, slot: PtrArray, out_ptr: PtrArray, out: IndexArray, value: FloatArray, vol: FloatArray,
    cut: FloatArray,
) -> None:  # fmt: skip
    """Write the quotient graph. ``slot`` contains -1, ``vol`` and ``cut`` contain zeros."""
    size = np.int64(0)
    for c in range(vol.shape[0]):
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
    out_ptr[vol.shape[0]] = size


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
    top_num: PtrArray, low: PtrArray, high: PtrArray, labels: IndexMatrixArray, nums: PtrMatrixArray, new_up: BoolArray,
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


def number_level(
    ptr: PtrArray, order: IndexArray, graph_ptr: PtrArray, labels: IndexMatrixArray, nums: PtrMatrixArray, row: PtrArray,
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
    start = np.zeros(len(ptr), np.int64)
    np.cumsum(nums[row + offset, np.arange(len(row))], out=start[1:])
    above, cluster = np.empty(len(order), np.int32), np.empty(num_below, np.int32)
    _number_level(
        ptr, order, labels, row, offset, start, below, np.zeros(start[-1], np.int32), above, cluster
    )
    return above, cluster, start[graph_ptr]


@kernel
def _number_level(
    ptr: PtrArray, order: IndexArray, labels: IndexMatrixArray, row: PtrArray, offset: int, start: PtrArray,
    below: IndexArray, seen: IndexArray, above: IndexArray, cluster: IndexArray,
) -> None:  # fmt: skip
    """Write ``above`` and ``cluster``. ``seen`` contains a zero per supernode."""
    for c in range(ptr.shape[0] - 1):
        for i in range(ptr[c], ptr[c + 1]):
            above[order[i]] = start[c] + labels[row[c] + offset, i]
    count = 0
    for i in range(above.shape[0]):
        if seen[above[i]] == 0:
            count += 1
            seen[above[i]] = count
        above[i] = seen[above[i]] - 1
        cluster[below[i]] = above[i]


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
    label_ptr, order, place = np.zeros(num_labels + 1, np.int64), np.empty_like(label), np.empty_like(label)
    out_ptr, out, value = np.empty_like(indptr), np.empty_like(indices), np.empty_like(weight)
    _sort_by_label(label, label_ptr, order)
    _keep_inner_edges(indptr, indices, weight, label, order, place, out_ptr, out, value)
    return order, label_ptr, out_ptr, out[: out_ptr[-1]], value[: out_ptr[-1]]


@kernel
def _keep_inner_edges(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, label: IndexArray, order: IndexArray, place: IndexArray,
    out_ptr: PtrArray, out: IndexArray, value: FloatArray,
) -> None:  # fmt: skip
    """Write the rows of the nodes in the given order, without edges between different labels; ``place`` is scratch."""
    for at in range(order.shape[0]):
        place[order[at]] = at
    size = np.int64(0)
    for at in range(order.shape[0]):
        out_ptr[at] = size
        i = order[at]
        for e in range(indptr[i], indptr[i + 1]):
            if label[indices[e]] == label[i]:
                out[size] = place[indices[e]]
                value[size] = weight[e]
                size += 1
    out_ptr[order.shape[0]] = size


def row_sums(indptr: PtrArray, weight: FloatArray, ptr: PtrArray) -> tuple[FloatArray, FloatArray]:
    """Return the row sums ``[N]`` and their sums over the ranges of ``ptr``."""
    degree, total = np.empty(len(indptr) - 1), np.empty(len(ptr) - 1)
    _row_sums(indptr, weight, ptr, degree, total)
    return degree, total


@kernel
def _row_sums(
    indptr: PtrArray, weight: FloatArray, ptr: PtrArray, degree: FloatArray, total: FloatArray
) -> None:
    for p in range(ptr.shape[0] - 1):
        all_ = 0.0
        for i in range(ptr[p], ptr[p + 1]):
            d = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                d += weight[e]
            degree[i] = d
            all_ += d
        total[p] = all_
