"""Coarse graphs of a hard assignment: ``A' = S^T A S``, row after row.

The entries of a supernode are those of its members, one after the other, with end points replaced
by their supernode. A marker per supernode says where in the current row a column already stands,
so each entry is touched once. Sums are taken in a fixed order (members ascending, entries as
stored), in float64: the result of a graph does not depend on what else is in the block.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tgp.kernels._prims import scan

__all__ = ["contract", "degree_norm", "filter_entries", "max_norm", "members_of"]

# Codes of tgp.kernels.csr, repeated because numba does not notice edits across files.
_MEAN, _MIN, _MAX, _MUL = 1, 2, 3, 4


@njit(cache=True, nogil=True)
def members_of(cluster, num_supernodes):
    """``(member_ptr [K + 1], members)``: the nodes of each supernode, ascending; dropped ones nowhere."""
    counts = np.zeros(num_supernodes, np.int64)
    for i in range(cluster.shape[0]):
        if cluster[i] >= 0:
            counts[cluster[i]] += 1
    ptr = scan(counts)
    members = np.empty(ptr[-1], np.int32)
    for c in range(num_supernodes):
        counts[c] = ptr[c]
    for i in range(cluster.shape[0]):
        c = cluster[i]
        if c >= 0:
            members[counts[c]] = i
            counts[c] += 1
    return ptr, members


@njit(cache=True, nogil=True)
def _sort_row(cols, values, weighted, lo, hi):
    """Sort ``cols[lo:hi]`` (all different), values alike: Shell's sort, plain insertion for short rows."""
    gap = 1
    if hi - lo > 24:
        while gap < (hi - lo) // 9:
            gap = 3 * gap + 1
    while gap > 0:
        for i in range(lo + gap, hi):
            col = cols[i]
            j = i
            if weighted:
                w = values[i]
                while j - gap >= lo and cols[j - gap] > col:
                    cols[j] = cols[j - gap]
                    values[j] = values[j - gap]
                    j -= gap
                values[j] = w
            else:
                while j - gap >= lo and cols[j - gap] > col:
                    cols[j] = cols[j - gap]
                    j -= gap
            cols[j] = col
        gap //= 3


@njit(cache=True, nogil=True)
def contract(indptr, indices, weight, weighted, cluster, num_supernodes, op, drop_loops, tiny):
    """``(indptr, indices, weight)`` of the coarse block.

    Args:
        cluster: ``[N]`` int32 supernode of each node, ``-1`` drops a node and its edges.
        op: how parallel edges merge, a code of :mod:`tgp.kernels.csr`.
        drop_loops: leave out edges inside a supernode.
        tiny: leave out entries with ``|w| <= tiny``; negative keeps all.
    """
    member_ptr, members = members_of(cluster, num_supernodes)
    marker = np.full(num_supernodes, -1, np.int64)
    size = indices.shape[0]
    cols = np.empty(size, np.int32)
    values = np.empty(size if weighted else 0, np.float64)
    copies = np.empty(size if weighted and op == _MEAN else 0, np.int32)
    out_ptr = np.empty(num_supernodes + 1, np.int64)
    out_ptr[0] = 0
    slot = np.int64(0)
    for c in range(num_supernodes):
        first = slot
        for m in range(member_ptr[c], member_ptr[c + 1]):
            u = members[m]
            for e in range(indptr[u], indptr[u + 1]):
                d = cluster[indices[e]]
                if d < 0 or (drop_loops and d == c):
                    continue
                at = marker[d]
                # Rows are filled one behind the other: an older mark lies before this row.
                if at < first:
                    marker[d] = slot
                    cols[slot] = d
                    if weighted:
                        values[slot] = weight[e]
                        if op == _MEAN:
                            copies[slot] = 1
                    slot += 1
                elif weighted:
                    if op == _MIN:
                        values[at] = min(values[at], weight[e])
                    elif op == _MAX:
                        values[at] = max(values[at], weight[e])
                    elif op == _MUL:
                        values[at] *= weight[e]
                    else:
                        values[at] += weight[e]
                        if op == _MEAN:
                            copies[at] += 1
        if weighted:
            if op == _MEAN:
                for i in range(first, slot):
                    values[i] /= copies[i]
            if tiny >= 0.0:
                kept = first
                for i in range(first, slot):
                    if abs(values[i]) > tiny:
                        cols[kept] = cols[i]
                        values[kept] = values[i]
                        kept += 1
                # Marks at or behind the new end would look like marks of the next row.
                for i in range(kept, slot):
                    marker[cols[i]] = -1
                slot = kept
        _sort_row(cols, values, weighted, first, slot)
        out_ptr[c + 1] = slot
    return out_ptr, cols[:slot].copy(), values[: slot if weighted else 0].copy()


@njit(cache=True, nogil=True)
def filter_entries(indptr, indices, weight, weighted, drop_loops, tiny):
    """The block without self loops (if ``drop_loops``) and without ``|w| <= tiny`` (if ``tiny >= 0``)."""
    num_nodes = indptr.shape[0] - 1
    out_ptr = np.empty(num_nodes + 1, np.int64)
    out_ptr[0] = 0
    cols = np.empty(indices.shape[0], np.int32)
    values = np.empty(indices.shape[0] if weighted else 0, np.float64)
    slot = np.int64(0)
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            if drop_loops and indices[e] == i:
                continue
            if weighted:
                if abs(weight[e]) <= tiny:
                    continue
                values[slot] = weight[e]
            cols[slot] = indices[e]
            slot += 1
        out_ptr[i + 1] = slot
    return out_ptr, cols[:slot].copy(), values[: slot if weighted else 0].copy()


@njit(cache=True, nogil=True)
def degree_norm(indptr, indices, weight):
    """``w_ij / sqrt(d_i d_j)`` with ``d`` the row sums; a node with ``d <= 0`` has factor 0."""
    num_nodes = indptr.shape[0] - 1
    factor = np.zeros(num_nodes, np.float64)
    for i in range(num_nodes):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += weight[e]
        if total > 0.0:
            factor[i] = 1.0 / np.sqrt(total)
    out = np.empty(weight.shape[0], np.float64)
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            out[e] = weight[e] * factor[i] * factor[indices[e]]
    return out


@njit(cache=True, nogil=True)
def max_norm(edge_ptr, weight):
    """Weights divided by the largest ``|w|`` of their graph; an all-zero graph stays."""
    out = np.empty(weight.shape[0], np.float64)
    for g in range(edge_ptr.shape[0] - 1):
        largest = 0.0
        for e in range(edge_ptr[g], edge_ptr[g + 1]):
            largest = max(largest, abs(weight[e]))
        if largest == 0.0:
            largest = 1.0
        for e in range(edge_ptr[g], edge_ptr[g + 1]):
            out[e] = weight[e] / largest
    return out
