"""What coding trees are built on: simple undirected graphs, their parts side by side."""

from __future__ import annotations

import numpy as np
from numba import njit

from tgp.kernels._prims import scan

__all__ = ["reorder", "row_sums", "simple_rows"]


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
