"""Structural-entropy coding trees of one small graph: all levels in one call.

The calls of two dozen kernels from Python take longer than the computation of a small graph. :func:`build_levels` calls one
kernel. It calls the kernels that :mod:`tgp.engine.methods.sep` calls for other graphs, in the same order, and uses rows of a
few matrices as scratch.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import fill_transpose, kernel
from tgp.kernels.array_types import (
    BoolArray,
    FloatArray,
    IndexArray,
    IndexMatrixArray,
    MatrixArray,
    PtrArray,
    PtrMatrixArray,
)
from tgp.kernels.coding_tree import merge_trees
from tgp.kernels.coding_tree_cut import cut_trees
from tgp.kernels.coding_tree_layers import (
    _keep_inner_edges,
    _number_level,
    _quotient,
    _row_sums,
    _sort_by_label,
    add_better_layer,
    coarser_layer,
    finer_layer,
)
from tgp.kernels.csr import _label_components
from tgp.kernels.undirected import _fill_undirected

__all__ = ["build_levels", "is_compiled_or_worthwhile"]

_WORTHWHILE = 500
"""Number of small graphs after which this process compiles the kernel."""

_calls = 0
"""Number of small graphs so far."""


def is_compiled_or_worthwhile() -> bool:
    """Return True if the kernel is compiled, in the cache on disk, or if enough small graphs were counted to compile it.

    It takes 3 s to compile and saves 0.3 ms for each graph. Call this function once for each small graph.
    """
    global _calls
    _calls += 1
    if _calls == 1:
        from tgp.kernels.ahead import is_ready

        if is_ready("coding_tree_single._grow_single"):
            _calls = _WORTHWHILE
    return _calls >= _WORTHWHILE


def build_levels(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, num_levels: int
) -> tuple[IndexMatrixArray, PtrArray] | None:
    """Return the levels of one small graph, cut by the rule of the paper.

    Args:
        indptr, indices: Rows of the graph.
        weight: ``[nnz]``, or an empty array if ``weighted`` is false.
        weighted: Use the weights.
        num_levels: Number of levels of the tree.

    Returns:
        ``cluster`` ``[num_levels, N]`` and ``sizes`` ``[num_levels + 1]``. Row ``l`` contains the supernodes of the
        ``sizes[l]`` nodes of level ``l``. ``None`` if a weight is negative or the sum of the weights overflows.
    """
    n, m = len(indptr) - 1, len(indices)
    pool = 2 * m + n * n // 2 + 1
    rows = 2 * num_levels - 1
    cluster, sizes = np.empty((num_levels, n), np.int32), np.empty(num_levels + 1, np.int64)
    done = _grow_single(
        indptr, indices, weight, weighted, np.empty((14, 2 * n + 2), np.int32), np.empty((19, 2 * n + 2), np.int64),
        np.empty((14, 2 * n + 2)), np.empty((4, pool), np.int32), np.empty((5, pool)), np.empty(4 * n, np.bool_),
        np.empty((2 * n, 2), np.int32), np.empty((2 * n, 2)), np.empty((rows, n), np.int32),
        np.empty((rows, n), np.int64), cluster, sizes,
    )  # fmt: skip
    return (cluster, sizes) if done else None


@kernel(inner=True)
def _number_levels(
    ptr: PtrArray, order: IndexArray, labels: IndexMatrixArray, nums: PtrMatrixArray, low: PtrArray, start: PtrArray,
    below: IndexArray, seen: IndexArray, above: IndexArray, cluster: IndexMatrixArray, sizes: PtrArray,
) -> None:  # fmt: skip
    """Write the supernodes of all levels. A single level keeps the order in which the tree created its groups."""
    sizes[0] = order.shape[0]
    for i in range(order.shape[0]):
        below[i] = i
    for level in range(cluster.shape[0]):
        found = 0
        for c in range(ptr.shape[0] - 1):
            start[c] = found
            found += nums[low[c] + level, c]
        sizes[level + 1] = found
        if cluster.shape[0] == 1:
            for c in range(ptr.shape[0] - 1):
                for i in range(ptr[c], ptr[c + 1]):
                    cluster[0, order[i]] = start[c] + labels[0, i]
            return
        for k in range(found):
            seen[k] = 0
        _number_level(ptr, order, labels, low, level, start, below, seen, above, cluster[level])
        for i in range(order.shape[0]):
            below[i] = above[i]


@kernel
def _grow_single(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, ids: IndexMatrixArray,
    counts: PtrMatrixArray, reals: MatrixArray, lists: IndexMatrixArray, list_reals: MatrixArray, marks: BoolArray,
    node: IndexMatrixArray, mass: MatrixArray, labels: IndexMatrixArray, nums: PtrMatrixArray, cluster: IndexMatrixArray,
    sizes: PtrArray,
) -> bool:  # fmt: skip
    """Write the levels of one graph to ``cluster`` and ``sizes``, see :func:`build_levels`. Other arrays are scratch.

    Returns:
        False if a weight is negative or the sum of the weights is not finite.
    """
    n, levels = indptr.shape[0] - 1, cluster.shape[0]
    # The simple undirected graph, component by component.
    back_ptr, sums_ptr, row_ptr = counts[5][: n + 1], counts[6][: n + 1], counts[7][: n + 1]
    fill_transpose(indptr, indices, weight, weighted, back_ptr, lists[1], list_reals[2])
    sums_ptr[0], add = 0, n >= 0  # numba compiles another version for a constant
    size = _fill_undirected(
        indptr, indices, weight, back_ptr, lists[1], list_reals[2], weighted, add, sums_ptr, lists[2], list_reals[3]
    )  # fmt: skip
    for e in range(size):
        if list_reals[3, e] < 0.0:
            return False
    component, order, parent, ends = ids[4][:n], ids[5][:n], counts[8][:n], counts[9][:2]
    for i in range(n):
        parent[i] = i
        node[i, 1] = node[n + i, 1] = -1
    ends[0], ends[1] = 0, n
    _label_components(sums_ptr, lists[2], ends, parent, component, counts[10][:2])
    parts = counts[10, 1]
    ptr = counts[11][: parts + 1]
    for c in range(parts + 1):
        ptr[c] = 0
    _sort_by_label(component, ptr, order)
    rows, values = lists[3], list_reals[4]
    _keep_inner_edges(sums_ptr, lists[2], list_reals[3], component, order, ids[6][:n], row_ptr, rows, values)
    degree, total = reals[7][:n], reals[8][:parts]
    _row_sums(row_ptr, values, ptr, degree, total)
    every, new_finer, new_coarser, active = marks[:n], marks[n : 2 * n], marks[2 * n : 3 * n], marks[3 * n :]
    bottom, top, finer, coarser = ids[7][:n], ids[8][:n], ids[9][:n], ids[10][:n]
    bottom_num, top_num, finer_num, coarser_num = counts[12], counts[13], counts[14], counts[15]
    finer_gain, coarser_gain, low, high = reals[9], reals[10], counts[16][:parts], counts[17]
    for c in range(parts):
        if total[c] - total[c] != 0.0:
            return False
        every[c] = new_finer[c] = True
        low[c] = high[c] = levels - 1
        coarser_gain[c], coarser_num[c] = 0.0, 1
    label, groups, item, members = ids[0], counts[0], ids[11][:n], ids[12][:n]
    item_ptr, part_ptr, vol, cut = counts[18][: parts + 1], counts[9], reals[11][:n], reals[12][:n]
    # The first step computes the first layer. Each further level takes two: candidates below and above.
    for step in range(2 * levels - 1):
        raised = step > 0 and step % 2 == 0
        new, num, given = (new_coarser, top_num, top) if raised else (new_finer, bottom_num, bottom)
        in_ptr, in_rows, in_values, found, needed = row_ptr, rows, values, np.int64(0), step == 0
        for c in range(parts if step else 0):
            needed = needed or new[c]
            item_ptr[c] = found
            for i in range(ptr[c], ptr[c + 1]):
                item[i] = found + given[i]
            for k in range(found, found + num[c]):
                parent[k] = c
                active[k] = new[c]
            found += num[c]
        if step and needed:
            in_ptr, in_rows, in_values, item_ptr[parts] = back_ptr, lists[1], list_reals[2], found
            for k in range(found + 1):
                part_ptr[k] = 0
            _sort_by_label(item, part_ptr[: found + 1], members)
            if raised:
                for k in range(found):
                    counts[10, k] = -1
                    vol[k] = cut[k] = 0.0
                _quotient(
                    row_ptr, rows, values, degree, item, part_ptr, members, counts[10], in_ptr, in_rows, in_values,
                    vol[:found], cut,
                )  # fmt: skip
            else:
                place, inner = ids[6][:n], reals[13][:found]
                _keep_inner_edges(row_ptr, rows, values, item, members, place, in_ptr, in_rows, in_values)
                _row_sums(in_ptr, in_values, part_ptr[: found + 1], vol, inner)
        if needed:
            tree_ptr, chosen, tree_vol, tree_cut, whole = ptr, every, degree, degree, total
            if raised:
                tree_ptr, chosen, tree_vol, tree_cut = item_ptr, new, vol, cut
            elif step:
                tree_ptr, chosen, whole = part_ptr[: found + 1], active, reals[13][:found]
                tree_vol = tree_cut = vol
            size = tree_ptr.shape[0] - 1
            merge_trees(
                in_ptr, in_rows, in_values, tree_ptr, chosen, tree_vol, tree_cut, whole, np.int64(0), size, ids[1], reals[2],
                reals[3], reals[4], node, ids[2], ids[3], counts[1], counts[2], counts[3], counts[4], mass, reals[5],
                reals[6], lists[0], list_reals[0], list_reals[1],
            )  # fmt: skip
            cut_trees(
                tree_ptr, chosen, np.int64(0), size, ids[1], reals[2], reals[3], reals[4], ids[2], ids[3], counts[1],
                reals[5], label, groups, reals[0], reals[1],
            )  # fmt: skip
        if step == 0:
            for c in range(parts):
                nums[levels - 1, c] = bottom_num[c] = top_num[c] = groups[c]
                new_coarser[c] = groups[c] >= 3
            for i in range(n):
                labels[levels - 1, i] = bottom[i] = top[i] = label[i]
        elif raised:
            if needed:
                coarser_layer(
                    ptr, item, item_ptr, new, vol, cut, total, label, groups, reals[0], reals[1], coarser,
                    coarser_num, coarser_gain,
                )  # fmt: skip
            add_better_layer(
                ptr, finer, finer_num, finer_gain, coarser, coarser_num, coarser_gain, bottom, bottom_num, top, top_num,
                low, high, labels, nums, new_finer, new_coarser,
            )  # fmt: skip
        elif needed:
            finer_layer(
                ptr, members, part_ptr, parent[:found], new, degree, total, label, groups, reals[0], reals[1], cut,
                finer, finer_num, finer_gain,
            )  # fmt: skip
    _number_levels(ptr, order, labels, nums, low, part_ptr, item, ids[13], members, cluster, sizes)
    return True
