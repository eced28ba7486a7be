"""Quality figures of a level, computed in one pass over the edges of every graph."""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import kernel, uf_find, uf_union
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, PtrArray

__all__ = ["cluster_flows", "graph_shape"]


@kernel
def graph_shape(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, node_ptr: PtrArray
) -> tuple[IndexArray, IndexArray, BoolArray, FloatArray]:
    """Count components and isolated nodes, test symmetry, and sum the weights of each graph.

    Args:
        indptr: ``[N + 1]``.
        indices: ``[nnz]``, sorted in each row.
        weight: ``[nnz]``, or an empty array if ``weighted`` is false.
        weighted: Use the weights.
        node_ptr: ``[B + 1]``, offsets of the graphs.

    Returns:
        Number of weakly connected components, number of nodes without an edge to another node, mask of symmetric
        graphs, and total weight, ``[B]`` each.
    """
    graphs = node_ptr.shape[0] - 1
    components = np.zeros(graphs, np.int32)
    isolated = np.zeros(graphs, np.int32)
    symmetric = np.ones(graphs, np.bool_)
    total = np.zeros(graphs, np.float64)
    nodes = indptr.shape[0] - 1
    parent = np.arange(nodes)
    # Rows are visited in ascending order. The mirror images of the entries of row c to the right of the diagonal are
    # therefore visited in the same order as these entries; cursor[c] is the position of the next one.
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


@kernel
def count_isolated_nodes(
    indptr: PtrArray, indices: IndexArray, parent: PtrArray, first: int, last: int, joined: int
) -> tuple[int, int]:
    """Return the number of joins of components and of isolated nodes of a graph that is not symmetric.

    Joins the sets in ``parent`` over all edges of the nodes ``first..last``. ``joined`` is the number of joins so far.
    """
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


@kernel
def _largest_range(ptr: PtrArray) -> int:
    """Return the largest difference of consecutive offsets."""
    most = 0
    for g in range(ptr.shape[0] - 1):
        most = max(most, ptr[g + 1] - ptr[g])
    return most


_SMALL = 128
"""Integers below this value, such as degrees and volumes of small graphs, have their ``x log2 x`` in a table."""


@kernel
def _log_tables() -> tuple[FloatArray, FloatArray]:
    """Return tables of ``x log2 x`` and ``log2 x`` for small integers, with the same bits as the functions."""
    product, plain = np.zeros(_SMALL), np.zeros(_SMALL)
    for x in range(1, _SMALL):
        plain[x] = math.log2(float(x))
        product[x] = x * plain[x]
    return product, plain


@kernel(inline="always")
def _xlog2x(x: float, product: FloatArray) -> float:
    if x <= 0.0:
        return 0.0
    if x < _SMALL:
        whole = np.uint64(x)
        if whole == x:
            known: float = product[whole]
            return known
    return x * math.log2(x)


@kernel(inline="always")
def _log2(x: float, plain: FloatArray) -> float:
    if x < _SMALL:
        whole = np.uint64(x)
        if whole == x:
            known: float = plain[whole]
            return known
    return math.log2(x)


@kernel
def cluster_flows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, node_ptr: PtrArray,
    cluster: IndexArray, super_ptr: PtrArray, symmetric: BoolArray,
) -> tuple[IndexArray, FloatArray]:  # fmt: skip
    """Compute how clusters divide the weight of each graph.

    Args:
        indptr, indices, weight, weighted, node_ptr: See :func:`graph_shape`.
        cluster: ``[N]``, supernode of each node, -1 if removed.
        super_ptr: ``[B + 1]``, offsets of the supernodes.
        symmetric: ``[B]``. The incoming weights of a symmetric graph are its outgoing weights.

    Returns:
        Counts ``[4, B]``: removed nodes, singleton clusters, empty clusters, size of the largest cluster. Flows
        ``[4, B]``: weight inside clusters, its expected value (the sum of out * in), entropy without clusters, entropy
        with clusters.
    """
    graphs = node_ptr.shape[0] - 1
    counts = np.zeros((4, graphs), np.int32)
    flows = np.zeros((4, graphs), np.float64)
    most = _largest_range(super_ptr)
    members = np.empty(most, np.int32)
    out, into, own = np.empty(most), np.empty(most), np.empty(most)
    product, plain = _log_tables()
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
            leaves += _xlog2x(degree, product)
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
            volumes += _xlog2x(out[c], product)
            if out[c] > 0.0 and out[c] > own[c]:
                inner += (out[c] - own[c]) * (scale - _log2(out[c], plain))
        counts[0, g], counts[1, g], counts[2, g], counts[3, g] = dropped, single, empty, largest
        flows[0, g] = within
        flows[1, g] = expected
        flows[2, g] = scale - leaves / total if total > 0.0 else 0.0
        flows[3, g] = (volumes + roots * scale - leaves + inner) / total if total > 0.0 else 0.0
    return counts, flows
