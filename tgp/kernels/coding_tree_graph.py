"""What coding trees are built on: simple graphs, their parts, their quotients, and entropy gains."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tgp.kernels._prims import scan

__all__ = ["first_seen", "leaf_gain", "quotient_rows", "reorder", "root_gain", "row_sums", "simple_rows"]


@njit(cache=True, nogil=True)
def simple_rows(indptr, indices, weight, back_ptr, back, back_weight, weighted):
    """Simple undirected rows from rows and transposed rows.

    Self loops go. Unweighted: the union of both directions, weight 1. Weighted: all that is stored
    between two nodes, in either direction, adds up; sum 0 means no edge.

    Returns:
        ``indptr``, ``indices``, ``weight``, and the first node with a weight below 0 (or -1).
    """
    num_nodes = indptr.shape[0] - 1
    out_ptr = np.empty(num_nodes + 1, np.int64)
    # The bound is twice the input; pages that are never written cost nothing.
    out = np.empty(2 * indices.shape[0], np.int32)
    value = np.empty(2 * indices.shape[0])
    bad = -1
    size = np.int64(0)
    for i in range(num_nodes):
        out_ptr[i] = size
        a, a_end = indptr[i], indptr[i + 1]
        b, b_end = back_ptr[i], back_ptr[i + 1]
        while a < a_end or b < b_end:
            if b >= b_end or (a < a_end and indices[a] < back[b]):
                col = indices[a]
            else:
                col = back[b]
            forward, backward = 0.0, 0.0
            while a < a_end and indices[a] == col:
                forward += weight[a] if weighted else 1.0
                a += 1
            while b < b_end and back[b] == col:
                backward += back_weight[b] if weighted else 1.0
                b += 1
            w = forward + backward
            if col != i and w != 0.0:
                out[size] = col
                value[size] = w if weighted else 1.0
                size += 1
                if w < 0.0 and bad < 0:
                    bad = i
    out_ptr[num_nodes] = size
    return out_ptr, out[:size], value[:size], bad


@njit(cache=True, nogil=True)
def reorder(indptr, indices, weight, label, num_labels):
    """Put the nodes of each label side by side: ``(order, label_ptr, indptr, indices, weight)``.

    Nodes of a label stay in order. Edges between labels go, so each label is a part of its own.
    """
    num_nodes = indptr.shape[0] - 1
    counts = np.zeros(num_labels, np.int64)
    for i in range(num_nodes):
        counts[label[i]] += 1
    label_ptr = scan(counts)
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


@njit(cache=True, nogil=True)
def row_sums(indptr, weight, ptr):
    """Row sums, and their sums over the ranges of ``ptr``."""
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


@njit(cache=True, nogil=True)
def quotient_rows(indptr, indices, weight, degree, label, num_labels):
    """The graph whose nodes are the labels: ``(indptr, indices, weight, vol, cut)``.

    Weights between labels add up; rows are not sorted.
    """
    num_nodes = indptr.shape[0] - 1
    counts = np.zeros(num_labels, np.int64)
    for i in range(num_nodes):
        counts[label[i]] += 1
    ptr = scan(counts)
    for c in range(num_labels):
        counts[c] = ptr[c]
    order = np.empty(num_nodes, np.int32)
    for i in range(num_nodes):
        order[counts[label[i]]] = i
        counts[label[i]] += 1
    slot = np.empty(num_labels, np.int64)
    out_ptr = np.empty(num_labels + 1, np.int64)
    out = np.empty(indices.shape[0], np.int32)
    value = np.empty(indices.shape[0])
    vol = np.zeros(num_labels)
    cut = np.zeros(num_labels)
    for c in range(num_labels):
        slot[c] = -1
    size = np.int64(0)
    for c in range(num_labels):
        out_ptr[c] = size
        for at in range(ptr[c], ptr[c + 1]):
            i = order[at]
            vol[c] += degree[i]
            for e in range(indptr[i], indptr[i + 1]):
                d = label[indices[e]]
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
    out_ptr[num_labels] = size
    return out_ptr, out[:size], value[:size], vol, cut


@njit(cache=True, nogil=True)
def leaf_gain(part_ptr, part_comp, active, degree, label, groups, group_vol, group_cut, total, num_nodes):
    """Entropy gained by a layer of groups between the nodes and their parts, per component and node.

    Args:
        part_ptr, part_comp: nodes of each part, component of each part (ascending).
        active: ``[P]`` bool.
        degree: ``[N]`` volume of each node, in the order of parts.
        label, groups, group_vol, group_cut: what ``cut_trees`` made of the parts alone.
        total, num_nodes: ``[C]`` volume and number of nodes of the components.
    """
    gain = np.zeros(total.shape[0])
    vol = np.empty(degree.shape[0])
    for p in range(part_comp.shape[0]):
        lo, hi = part_ptr[p], part_ptr[p + 1]
        if not active[p] or hi - lo <= 2:
            continue
        whole = total[part_comp[p]]
        part_vol = 0.0
        for c in range(lo, lo + groups[p]):
            vol[c] = 0.0
        for i in range(lo, hi):
            part_vol += degree[i]
            vol[lo + label[i]] += degree[i]
        old, new = 0.0, 0.0
        for i in range(lo, hi):
            old -= degree[i] / whole * math.log2(degree[i] / part_vol)
            new -= degree[i] / whole * math.log2(degree[i] / vol[lo + label[i]])
        for c in range(lo, lo + groups[p]):
            # What a group shares with itself is the same in its part and in the whole graph.
            boundary = vol[c] - (group_vol[c] - group_cut[c])
            new -= boundary / whole * math.log2(vol[c] / part_vol)
        gain[part_comp[p]] += old - new
    for c in range(gain.shape[0]):
        gain[c] /= num_nodes[c]
    return gain


@njit(cache=True, nogil=True)
def root_gain(item_ptr, active, vol, cut, label, groups, group_vol, group_cut, total):
    """Entropy gained by a layer of groups under the root, per component and item (0 where not active)."""
    gain = np.zeros(total.shape[0])
    for c in range(total.shape[0]):
        if not active[c]:
            continue
        lo, hi = item_ptr[c], item_ptr[c + 1]
        old, new = 0.0, 0.0
        for i in range(lo, hi):
            old -= cut[i] / total[c] * math.log2(vol[i] / total[c])
            new -= cut[i] / total[c] * math.log2(vol[i] / group_vol[lo + label[i]])
        for k in range(lo, lo + groups[c]):
            new -= group_cut[k] / total[c] * math.log2(group_vol[k] / total[c])
        gain[c] = (old - new) / (hi - lo)
    return gain


@njit(cache=True, nogil=True)
def first_seen(label, num_labels):
    """Number labels in the order they first occur."""
    seen = np.zeros(num_labels, np.int32)
    out = np.empty(label.shape[0], np.int32)
    count = 0
    for i in range(label.shape[0]):
        if seen[label[i]] == 0:
            count += 1
            seen[label[i]] = count
        out[i] = seen[label[i]] - 1
    return out
