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
    parent = np.arange(indptr.shape[0] - 1)
    linked = np.zeros(indptr.shape[0] - 1, np.bool_)
    # Rows are visited in ascending order, so the entries of row c that point back are met in their own
    # order: cursor[c] is the next of them.
    cursor = indptr[:-1].copy()
    for g in range(graphs):
        first, last = node_ptr[g], node_ptr[g + 1]
        joined = 0
        amount = 0.0
        same = True
        for row in range(first, last):
            for entry in range(indptr[row], indptr[row + 1]):
                column = np.int64(indices[entry])
                back = cursor[column]
                cursor[column] = back + 1
                if weighted:
                    amount += weight[entry]
                    same &= (
                        back < indptr[column + 1] and indices[back] == row and weight[back] == weight[entry]
                    )
                else:
                    same &= back < indptr[column + 1] and indices[back] == row
                if column != row:
                    linked[row] = True
                    linked[column] = True
                if column < row:
                    joined += _join(parent, row, column)
        if not same:
            for row in range(first, last):
                for entry in range(indptr[row], indptr[row + 1]):
                    joined += _join(parent, row, np.int64(indices[entry]))
        lonely = 0
        for node in range(first, last):
            lonely += not linked[node]
        components[g], isolated[g], symmetric[g] = last - first - joined, lonely, same
        total[g] = amount if weighted else indptr[last] - indptr[first]
    return components, isolated, symmetric, total


@njit(cache=True, nogil=True)
def _join(parent, one, other):
    """Unite two nodes: 1 if they were apart."""
    if uf_find(parent, one) == uf_find(parent, other):
        return 0
    uf_union(parent, one, other)
    return 1


@njit(cache=True, nogil=True, inline="always")
def _xlog(x):
    return x * math.log2(x) if x > 0.0 else 0.0


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
    clusters = super_ptr[graphs]
    members = np.zeros(clusters, np.int32)
    out, into, own = np.zeros(clusters), np.zeros(clusters), np.zeros(clusters)
    for g in range(graphs):
        total, within, leaves, roots = 0.0, 0.0, 0.0, 0.0
        same = symmetric[g]
        for row in range(node_ptr[g], node_ptr[g + 1]):
            mine = cluster[row]
            degree, home = 0.0, 0.0
            for entry in range(indptr[row], indptr[row + 1]):
                value = weight[entry] if weighted else 1.0
                other = cluster[indices[entry]]
                degree += value
                if other == mine:
                    home += value
                if not same and other >= 0:
                    into[other] += value
            total += degree
            leaves += _xlog(degree)
            if mine >= 0:
                members[mine] += 1
                out[mine] += degree
                own[mine] += home
            else:
                counts[0, g] += 1
                roots += degree
        expected, inner, volumes = 0.0, 0.0, 0.0
        scale = math.log2(total) if total > 0.0 else 0.0
        for c in range(super_ptr[g], super_ptr[g + 1]):
            counts[1, g] += members[c] == 1
            counts[2, g] += members[c] == 0
            counts[3, g] = max(counts[3, g], members[c])
            within += own[c]
            expected += out[c] * (out[c] if same else into[c])
            volumes += _xlog(out[c])
            if out[c] > 0.0 and out[c] > own[c]:
                inner += (out[c] - own[c]) * (scale - math.log2(out[c]))
        flows[0, g] = within
        flows[1, g] = expected
        flows[2, g] = scale - leaves / total if total > 0.0 else 0.0
        flows[3, g] = (volumes + roots * scale - leaves + inner) / total if total > 0.0 else 0.0
    return counts, flows
