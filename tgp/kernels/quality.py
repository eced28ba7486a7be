"""Figures that tell how good a level is, in one pass over the edges of every graph."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tgp.kernels._prims import uf_find, uf_union

__all__ = ["cluster_flows", "graph_shape"]


@njit(cache=True, nogil=True)
def graph_shape(indptr, indices, weight, weighted, node_ptr):
    """Components (directions ignored), nodes without an edge to another node, symmetry, and total weight.

    Args:
        indptr: ``[N + 1]`` int64.
        indices: ``[nnz]`` int32, sorted in each row.
        weight: ``[nnz]`` float64, empty if not ``weighted``.
        weighted: whether weights count.
        node_ptr: ``[B + 1]`` int64.

    Returns:
        components ``[B]`` int32, isolated ``[B]`` int32, symmetric ``[B]`` bool, total ``[B]`` float64.
    """
    graphs = node_ptr.shape[0] - 1
    components = np.zeros(graphs, np.int32)
    isolated = np.zeros(graphs, np.int32)
    symmetric = np.ones(graphs, np.bool_)
    total = np.zeros(graphs, np.float64)
    nodes = indptr.shape[0] - 1
    parent = np.arange(nodes)
    # Rows are visited in ascending order, so the entries of row c that point to later rows are met from there in
    # their own order: cursor[c] is the next of them. Every entry below the diagonal must find its partner.
    cursor = np.empty(nodes, np.uint64)
    for g in range(graphs):
        first, last = node_ptr[g], node_ptr[g + 1]
        joined, lonely, below, above = 0, 0, 0, 0
        amount = 0.0
        same = True
        for row in range(first, last):
            root = row
            start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
            entry = start
            while entry < stop and indices[entry] < row:
                column = np.uint64(indices[entry])
                back = cursor[column]
                cursor[column] = back + np.uint64(1)
                same &= back < np.uint64(indptr[column + np.uint64(1)]) and indices[back] == row
                if weighted:
                    same &= same and weight[back] == weight[entry]
                other = uf_find(parent, np.int64(column))
                if other < root:
                    parent[root] = other
                    root = other
                    joined += 1
                elif root < other:
                    parent[other] = root
                    joined += 1
                entry += np.uint64(1)
            below += np.int64(entry - start)
            lonely += entry == start
            while entry < stop and indices[entry] == row:
                entry += np.uint64(1)
            cursor[row] = entry
            above += np.int64(stop - entry)
            lonely -= entry < stop and indices[start] >= row
            if weighted:
                for at in range(start, stop):
                    amount += weight[at]
        same &= below == above
        if not same:
            joined, lonely = count_isolated_nodes(indptr, indices, parent, first, last, joined)
        components[g], isolated[g], symmetric[g] = last - first - joined, lonely, same
        total[g] = amount if weighted else indptr[last] - indptr[first]
    return components, isolated, symmetric, total


@njit(cache=True, nogil=True)
def count_isolated_nodes(indptr, indices, parent, first, last, joined):
    """Join over all edges of a graph that is not symmetric; count nodes without an edge to or from another node."""
    linked = np.zeros(last - first, np.bool_)
    for row in range(first, last):
        for entry in range(indptr[row], indptr[row + 1]):
            column = np.int64(indices[entry])
            if column != row:
                linked[row - first] = True
                linked[column - first] = True
                if uf_find(parent, row) != uf_find(parent, column):
                    uf_union(parent, row, column)
                    joined += 1
    return joined, last - first - linked.sum()


@njit(cache=True, nogil=True)
def _largest(ptr):
    most = np.int64(0)
    for g in range(ptr.shape[0] - 1):
        most = max(most, ptr[g + 1] - ptr[g])
    return most


_SMALL = 128
"""Whole numbers below this have their ``x log2 x`` in a table: degrees and volumes of small graphs."""


@njit(cache=True, nogil=True)
def _tables():
    """``x log2 x`` and ``log2 x`` of small whole numbers, as the functions give them."""
    product, plain = np.zeros(_SMALL), np.zeros(_SMALL)
    for x in range(1, _SMALL):
        plain[x] = math.log2(float(x))
        product[x] = x * plain[x]
    return product, plain


@njit(cache=True, nogil=True, inline="always")
def _xlog(x, product):
    if x <= 0.0:
        return 0.0
    if x < _SMALL:
        whole = np.uint64(x)
        if whole == x:
            return product[whole]
    return x * math.log2(x)


@njit(cache=True, nogil=True, inline="always")
def _log(x, plain):
    if x < _SMALL:
        whole = np.uint64(x)
        if whole == x:
            return plain[whole]
    return math.log2(x)


@njit(cache=True, nogil=True)
def cluster_flows(indptr, indices, weight, weighted, node_ptr, cluster, super_ptr, symmetric):
    """How clusters cut the weight of each graph.

    Args:
        indptr, indices, weight, weighted, node_ptr: as in :func:`graph_shape`.
        cluster: ``[N]`` int32 supernode of each node, -1 if dropped.
        super_ptr: ``[B + 1]`` int64.
        symmetric: ``[B]`` bool; the in-flows of a symmetric graph are its out-flows.

    Returns:
        counts ``[4, B]`` int32: dropped, singletons, empty, largest;
        flows ``[4, B]`` float64: weight within clusters, expected share of it (the sum of out * in),
        entropy without clusters, entropy with clusters.
    """
    graphs = node_ptr.shape[0] - 1
    counts = np.zeros((4, graphs), np.int32)
    flows = np.zeros((4, graphs), np.float64)
    most = _largest(super_ptr)
    members = np.empty(most, np.int32)
    out, into, own = np.empty(most), np.empty(most), np.empty(most)
    product, plain = _tables()
    for g in range(graphs):
        low, clusters = super_ptr[g], super_ptr[g + 1] - super_ptr[g]
        for c in range(clusters):
            members[c] = 0
            out[c] = into[c] = own[c] = 0.0
        total, within, leaves, roots = 0.0, 0.0, 0.0, 0.0
        dropped = 0
        same = symmetric[g]
        for row in range(node_ptr[g], node_ptr[g + 1]):
            mine = cluster[row]
            start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
            degree, home = 0.0, 0.0
            if weighted:
                for entry in range(start, stop):
                    degree += weight[entry]
                    home += weight[entry] if cluster[np.uint32(indices[entry])] == mine else 0.0
            else:
                inside = 0
                for entry in range(start, stop):
                    inside += cluster[np.uint32(indices[entry])] == mine
                degree, home = float(stop - start), float(inside)
            if not same:
                for entry in range(start, stop):
                    other = cluster[np.uint32(indices[entry])]
                    if other >= 0:
                        into[other - low] += weight[entry] if weighted else 1.0
            total += degree
            leaves += _xlog(degree, product)
            if mine >= 0:
                at = np.uint64(mine - low)
                members[at] += 1
                out[at] += degree
                own[at] += home
            else:
                dropped += 1
                roots += degree
        expected, inner, volumes = 0.0, 0.0, 0.0
        single, empty, largest = 0, 0, np.int32(0)
        scale = math.log2(total) if total > 0.0 else 0.0
        for c in range(clusters):
            single += members[c] == 1
            empty += members[c] == 0
            largest = max(largest, members[c])
            within += own[c]
            expected += out[c] * (out[c] if same else into[c])
            volumes += _xlog(out[c], product)
            if out[c] > 0.0 and out[c] > own[c]:
                inner += (out[c] - own[c]) * (scale - _log(out[c], plain))
        counts[0, g], counts[1, g], counts[2, g], counts[3, g] = dropped, single, empty, largest
        flows[0, g] = within
        flows[1, g] = expected
        flows[2, g] = scale - leaves / total if total > 0.0 else 0.0
        flows[3, g] = (volumes + roots * scale - leaves + inner) / total if total > 0.0 else 0.0
    return counts, flows
