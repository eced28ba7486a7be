"""Clusters of points in space: cells of a grid, and farthest-point sampling with a tree of boxes.

Points are rows of ``[N, D]`` matrices, graph by graph as ``node_ptr`` says. Ids in the results count inside each graph, and the
result of a graph does not depend on the other graphs.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray, IndexArray, MatrixArray, PtrArray, PtrMatrixArray

__all__ = ["number_cells", "sample_farthest"]

LEAF = 16
"""Largest number of points of a leaf of the tree of boxes."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(29)
_ONE = np.uint64(1)


@kernel
def number_cells(
    cells: PtrMatrixArray, node_ptr: PtrArray, first: int, last: int, cluster: IndexArray, counts: PtrArray
) -> None:
    """Number the cells of graphs ``first .. last - 1`` in the order of their first nodes.

    Args:
        cells: ``[N, D]`` coordinates of the cell of each node, as any 64 bits.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        first: first graph.
        last: end of the range.
        cluster: ``[N]`` overwritten with the number of the cell, which counts inside the graph.
        counts: ``[B]`` overwritten with the number of cells.
    """
    largest = 0
    for g in range(first, last):
        largest = max(largest, node_ptr[g + 1] - node_ptr[g])
    capacity = 4
    while capacity < 2 * largest:
        capacity *= 2
    table = np.empty(capacity, np.int64)
    for g in range(first, last):
        low, high = node_ptr[g], node_ptr[g + 1]
        size = 4
        while size < 2 * (high - low):
            size *= 2
        table[:size] = -1
        mask, found = np.uint64(size - 1), 0
        for i in range(low, high):
            code = np.uint64(0)
            for d in range(cells.shape[1]):
                code = (code ^ np.uint64(cells[i, d])) * _MIX
                code ^= code >> _HALF
            slot = code & mask
            while True:
                other = table[slot]
                if other < 0:
                    table[slot] = i
                    cluster[i] = found
                    found += 1
                    break
                same = True
                for d in range(cells.shape[1]):
                    if cells[i, d] != cells[other, d]:
                        same = False
                        break
                if same:
                    cluster[i] = cluster[other]
                    break
                slot = (slot + _ONE) & mask
        counts[g] = found


@kernel(inner=True)
def _select(order: PtrArray, values: MatrixArray, axis: int, low: int, high: int, middle: int) -> None:
    """Reorder ``order[low:high]`` so that the points before position ``middle`` are not above those after it, by quickselect."""
    left, right = low, high - 1
    while left < right:
        pivot = values[order[(left + right) // 2], axis]
        i, j = left, right
        while i <= j:
            while values[order[i], axis] < pivot:
                i += 1
            while values[order[j], axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@kernel(inner=True)
def _fill_box(order: PtrArray, values: MatrixArray, low: int, high: int, box: FloatArray) -> int:
    """Write the smallest and largest coordinates of some points, one after the other, and return the widest axis."""
    width, widest, axis = values.shape[1], -1.0, 0
    for d in range(width):
        smallest, largest = math.inf, -math.inf
        for at in range(low, high):
            value = values[order[at], d]
            smallest, largest = min(smallest, value), max(largest, value)
        box[d], box[width + d] = smallest, largest
        if largest - smallest > widest:
            widest, axis = largest - smallest, d
    return axis


@kernel(inner=True)
def _grow_tree(
    values: MatrixArray, first: int, size: int, depth: int, order: PtrArray, place: PtrArray, box: MatrixArray
) -> None:
    """Sort points into a balanced tree. Node ``j`` of level ``l`` has positions ``size * j >> l`` to ``size * (j + 1) >> l``."""
    for i in range(size):
        order[i] = first + i
    for level in range(depth + 1):
        for j in range(1 << level):
            low, high = (size * j) >> level, (size * (j + 1)) >> level
            axis = _fill_box(order, values, low, high, box[(1 << level) + j])
            if level < depth:
                _select(order, values, axis, low, high, (size * (2 * j + 1)) >> (level + 1))
    for at in range(size):
        place[order[at] - first] = at


@kernel(inner=True)
def _update_tree(
    values: MatrixArray, first: int, center: int, number: int, size: int, depth: int, order: PtrArray, place: PtrArray,
    box: MatrixArray, best: FloatArray, farthest: PtrArray, distance: FloatArray, owner: IndexArray, stack: PtrArray,
) -> None:  # fmt: skip
    """Give points to a new center if it is closer than their own, and update the farthest point of each node of the tree.

    A node is left out if no point of its box can be closer to the new center than its farthest point is to its own. A negative
    number on the stack is a node whose children are done.
    """
    width = values.shape[1]
    at = place[center - first]
    stack[0] = 1
    top = 1
    while top > 0:
        top -= 1
        t = stack[top]
        if t < 0:
            a, b = -2 * t, -2 * t + 1
            is_left = best[a] > best[b] or (best[a] == best[b] and farthest[a] < farthest[b])
            best[-t], farthest[-t] = (best[a], farthest[a]) if is_left else (best[b], farthest[b])
            continue
        level = 0
        while (t >> (level + 1)) > 0:
            level += 1
        j = t - (1 << level)
        low, high = (size * j) >> level, (size * (j + 1)) >> level
        if not low <= at < high:
            gap = 0.0
            for d in range(width):
                value = values[center, d]
                step = max(box[t, d] - value, value - box[t, width + d], 0.0)
                gap += step * step
            if gap >= best[t]:
                continue
        if level < depth:
            stack[top], stack[top + 1], stack[top + 2] = -t, 2 * t + 1, 2 * t
            top += 3
            continue
        best[t], farthest[t] = -2.0, first + size
        for p in range(low, high):
            i = order[p]
            if distance[i] >= 0.0:  # not a center
                total = 0.0
                for d in range(width):
                    step = values[i, d] - values[center, d]
                    total += step * step
                if total < distance[i]:
                    distance[i], owner[i] = total, number
            if distance[i] > best[t] or (distance[i] == best[t] and i < farthest[t]):
                best[t], farthest[t] = distance[i], i


@kernel
def sample_farthest(
    values: MatrixArray, node_ptr: PtrArray, center_ptr: PtrArray, first: int, last: int, distance: FloatArray,
    owner: IndexArray, center: PtrArray,
) -> None:  # fmt: skip
    """Choose the centers of graphs ``first .. last - 1``, and the nearest center of every node.

    The first center is the point that is farthest from the mean of all points of its graph. Each further one is the point that is
    farthest from all earlier ones. Among equal distances the smallest node is taken, and the earliest center.

    Args:
        values: ``[N, D]`` coordinates, at most about 1.
        node_ptr: ``[B + 1]`` offsets of the graphs.
        center_ptr: ``[B + 1]`` offsets of the centers, at least one for each graph with nodes and at most one for each node.
        first: first graph.
        last: end of the range.
        distance: ``[N]`` buffer.
        owner: ``[N]`` overwritten with the nearest center, which counts inside the graph.
        center: ``[K]`` overwritten with the nodes that are centers, in the order in which they are chosen.
    """
    width, largest = values.shape[1], 0
    for g in range(first, last):
        largest = max(largest, node_ptr[g + 1] - node_ptr[g])
    depth = 0
    while (LEAF << depth) < largest:
        depth += 1
    nodes = 2 << depth
    order, place = np.empty(largest, np.int64), np.empty(largest, np.int64)
    box, mean = np.empty((nodes, 2 * width)), np.empty(width)
    best, farthest = np.empty(nodes), np.empty(nodes, np.int64)
    stack = np.empty(4 * depth + 8, np.int64)
    for g in range(first, last):
        low, size = node_ptr[g], node_ptr[g + 1] - node_ptr[g]
        if size == 0:
            continue
        depth = 0
        while (LEAF << depth) < size:
            depth += 1
        for d in range(width):
            total = 0.0
            for i in range(low, low + size):
                total += values[i, d]
            mean[d] = total / size
        chosen, most = low, -1.0
        for i in range(low, low + size):
            total = 0.0
            for d in range(width):
                step = values[i, d] - mean[d]
                total += step * step
            if total > most:
                chosen, most = i, total
            distance[i], owner[i] = math.inf, 0
        _grow_tree(values, low, size, depth, order, place, box)
        best[: 2 << depth] = math.inf
        for number in range(center_ptr[g + 1] - center_ptr[g]):
            center[center_ptr[g] + number] = chosen
            distance[chosen], owner[chosen] = -1.0, number
            _update_tree(
                values, low, chosen, number, size, depth, order, place, box, best, farthest, distance, owner, stack
            )  # fmt: skip
            chosen = farthest[1]
