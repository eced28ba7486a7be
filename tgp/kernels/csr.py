"""Conversion of edge lists to compressed rows, and operations on rows: transpose, merge, mirror, components.

Rows are given as ``indptr`` ``[N + 1]``, ``indices`` ``[nnz]`` and ``weight`` ``[nnz]``, which is an empty array if
``weighted`` is false. Rows are sorted by column on input and on output. An edge list is given as ``rows`` and ``cols``
``[nnz]`` and need not be sorted. ``node_ptr`` ``[B + 1]`` contains the offsets of the graphs.

All functions are linear in the number of nodes and entries. Large arrays are allocated by numpy, which requests huge
pages, and passed to the kernels.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import (
    MAX,
    MEAN,
    MIN,
    MUL,
    SUM,
    fill_transpose,
    kernel,
    merge_weights,
)
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray

__all__ = [
    "BAD_COL",
    "BAD_ROW",
    "CROSSING",
    "MAX",
    "MEAN",
    "MIN",
    "MUL",
    "SUM",
    "build_rows",
    "check_edges",
    "coalesce",
    "components",
    "is_symmetric",
    "row_ids",
    "symmetrise",
    "take_graphs",
    "transpose",
]

BAD_ROW, BAD_COL, CROSSING = 1, 2, 3
"""Error codes of :func:`check_edges`."""

_U = np.uint64
_ONE = np.uint64(1)


@kernel(inner=True)
def _graph_of(node_ptr: PtrArray, node: int) -> int:
    """Return the graph that contains ``node``, found by bisection."""
    low, high = 0, node_ptr.shape[0] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if node_ptr[middle] <= node:
            low = middle
        else:
            high = middle
    return low


@kernel
def check_edges(rows: PtrArray, cols: PtrArray, node_ptr: PtrArray) -> tuple[int, int]:
    """Check that each edge connects two nodes of one graph.

    Returns:
        Error code and position of the first invalid edge, or ``(0, -1)``. ``BAD_ROW`` and ``BAD_COL`` mean an id
        outside the block; ``CROSSING`` means an edge between two graphs.
    """
    num_nodes = node_ptr[-1]
    many = node_ptr.shape[0] > 2
    graph = 0
    for e in range(rows.shape[0]):
        r = rows[e]
        c = cols[e]
        if r < 0 or r >= num_nodes:
            return BAD_ROW, e
        if c < 0 or c >= num_nodes:
            return BAD_COL, e
        if many:
            if r < node_ptr[graph] or r >= node_ptr[graph + 1]:
                # Edges are usually ordered by graph: try the next graph before searching.
                graph += 1
                if graph + 1 >= node_ptr.shape[0] or r < node_ptr[graph] or r >= node_ptr[graph + 1]:
                    graph = _graph_of(node_ptr, r)
            if c < node_ptr[graph] or c >= node_ptr[graph + 1]:
                return CROSSING, e
    return 0, -1


def build_rows(
    rows: PtrArray, cols: PtrArray, weight: FloatArray, weighted: bool, num_nodes: int
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return ``(indptr, indices, weight)`` of an edge list with valid ids; parallel edges keep their order."""
    size = len(rows)
    indptr = np.zeros(num_nodes + 1, np.int64)
    if _fill_indptr_if_sorted(rows, cols, indptr):
        return indptr, cols.astype(np.int32), weight.copy()
    # Sort by column. The transpose of the result is sorted by row, then by column.
    by_col = np.empty(size, np.int32)
    values = np.empty(size if weighted else 0)
    _group_by_keys(cols, rows, weight, weighted, indptr, by_col, values)
    return transpose(indptr, by_col, values, weighted)


@kernel
def _fill_indptr_if_sorted(rows: PtrArray, cols: PtrArray, indptr: PtrArray) -> bool:
    """Return True if entries are sorted by row, then by column. In this case, write ``indptr``."""
    size = rows.shape[0]
    for e in range(1, size):
        if rows[e] < rows[e - 1] or (rows[e] == rows[e - 1] and cols[e] < cols[e - 1]):
            return False
    row = np.int64(0)
    for e in range(size):
        while row <= rows[e]:
            indptr[row] = e
            row += 1
    for i in range(row, indptr.shape[0]):
        indptr[i] = size
    return True


@kernel
def _group_by_keys(
    keys: PtrArray, payload: PtrArray, weight: FloatArray, weighted: bool,
    ptr: PtrArray, out: IndexArray, values: FloatArray,
) -> None:  # fmt: skip
    """Sort ``payload`` and weights by ``keys`` with a stable counting sort.

    Writes ``out`` and ``values`` ``[nnz]``, and the offsets of the keys ``ptr``, which are zero on entry.
    """
    for e in range(keys.shape[0]):
        ptr[_U(keys[e] + 1)] += 1
    for k in range(ptr.shape[0] - 1):
        ptr[k + 1] += ptr[k]
    # ptr[k] serves as the write position of key k and ends as the start of key k + 1.
    for e in range(keys.shape[0]):
        slot = _U(ptr[_U(keys[e])])
        out[slot] = payload[e]
        if weighted:
            values[slot] = weight[e]
        ptr[_U(keys[e])] = slot + _ONE
    for k in range(ptr.shape[0] - 1, 0, -1):
        ptr[k] = ptr[k - 1]
    ptr[0] = 0


@kernel
def row_ids(indptr: PtrArray) -> IndexArray:
    """Return the row of each entry ``[nnz]``."""
    out = np.empty(indptr[-1], np.int32)
    for i in range(indptr.shape[0] - 1):
        for e in range(indptr[i], indptr[i + 1]):
            out[e] = i
    return out


@kernel
def take_graphs(
    indptr: PtrArray,
    indices: IndexArray,
    weight: FloatArray,
    weighted: bool,
    node_ptr: PtrArray,
    ids: PtrArray,
) -> tuple[PtrArray, IndexArray, FloatArray, PtrArray]:
    """Return ``(indptr, indices, weight, node_ptr)`` of the graphs ``ids``, in this order."""
    new_ptr = np.empty(ids.shape[0] + 1, np.int64)
    new_ptr[0] = 0
    entries = np.int64(0)
    for i in range(ids.shape[0]):
        lo, hi = node_ptr[ids[i]], node_ptr[ids[i] + 1]
        new_ptr[i + 1] = new_ptr[i] + hi - lo
        entries += indptr[hi] - indptr[lo]
    new_indptr = np.empty(new_ptr[-1] + 1, np.int64)
    new_indptr[0] = 0
    new_indices = np.empty(entries, np.int32)
    values = np.empty(entries if weighted else 0, np.float64)
    row = np.int64(0)
    pos = np.int64(0)
    for i in range(ids.shape[0]):
        lo, hi = node_ptr[ids[i]], node_ptr[ids[i] + 1]
        shift = new_ptr[i] - lo
        start = indptr[lo]
        for u in range(lo, hi):
            row += 1
            new_indptr[row] = pos + indptr[u + 1] - start
        stop = indptr[hi]
        for e in range(start, stop):
            new_indices[pos + e - start] = indices[e] + shift
        if weighted:
            for e in range(start, stop):
                values[pos + e - start] = weight[e]
        pos += stop - start
    return new_indptr, new_indices, values, new_ptr


def transpose(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return ``(indptr, indices, weight)`` of the transposed matrix; parallel entries keep their order."""
    out_ptr = np.empty(len(indptr), np.int64)
    out = np.empty(len(indices), np.int32)
    values = np.empty(len(indices) if weighted else 0)
    fill_transpose(indptr, indices, weight, weighted, out_ptr, out, values)
    return out_ptr, out, values


def coalesce(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, op: int
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return ``(indptr, indices, weight)`` with parallel entries merged by ``op`` in their stored order."""
    out_ptr = np.empty(len(indptr), np.int64)
    out = np.empty(len(indices), np.int32)
    values = np.empty(len(indices) if weighted else 0)
    total = _coalesce(indptr, indices, weight, weighted, op, out_ptr, out, values)
    out.resize(total, refcheck=False)
    values.resize(total if weighted else 0, refcheck=False)
    return out_ptr, out, values


@kernel
def _coalesce(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, op: int,
    out_ptr: PtrArray, out: IndexArray, values: FloatArray,
) -> int:  # fmt: skip
    """Write the merged rows to ``out_ptr``, ``out`` and ``values``; return the number of entries."""
    slot = np.int64(-1)
    out_ptr[0] = 0
    for i in range(indptr.shape[0] - 1):
        copies = 1
        for e in range(indptr[i], indptr[i + 1]):
            if e > indptr[i] and indices[e] == indices[e - 1]:
                copies += 1
                if weighted:
                    values[slot] = merge_weights(values[slot], weight[e], op)
                continue
            if weighted and op == MEAN and copies > 1:
                values[slot] /= copies
            copies = 1
            slot += 1
            out[slot] = indices[e]
            if weighted:
                values[slot] = weight[e]
        if weighted and op == MEAN and copies > 1:
            values[slot] /= copies
        out_ptr[i + 1] = slot + 1
    size: int = slot + 1
    return size


def symmetrise(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, op: int
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return ``(indptr, indices, weight)`` of the edges and their mirror images, merged by ``op``.

    ``op`` is ``MAX`` or ``SUM``. It merges parallel edges and opposite edges alike. A self loop is its own mirror image
    and counts once.
    """
    back_ptr, back, back_weight = transpose(indptr, indices, weight, weighted)
    out_ptr = np.empty(len(indptr), np.int64)
    out = np.empty(2 * len(indices), np.int32)
    values = np.empty(2 * len(indices) if weighted else 0)
    total = _merge_with_transpose(
        indptr, indices, weight, back_ptr, back, back_weight, weighted, op, out_ptr, out, values
    )
    out.resize(total, refcheck=False)
    values.resize(total if weighted else 0, refcheck=False)
    return out_ptr, out, values


@kernel
def _merge_with_transpose(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, back_ptr: PtrArray, back: IndexArray,
    back_weight: FloatArray, weighted: bool, op: int, out_ptr: PtrArray, out: IndexArray, values: FloatArray,
) -> int:  # fmt: skip
    """Write the union of rows and transposed rows to ``out_ptr``, ``out``, ``values``; return its size."""
    slot = np.int64(-1)
    out_ptr[0] = 0
    for i in range(indptr.shape[0] - 1):
        a, a_end = indptr[i], indptr[i + 1]
        b, b_end = back_ptr[i], back_ptr[i + 1]
        first = slot + 1
        while a < a_end or b < b_end:
            if b >= b_end or (a < a_end and indices[a] <= back[b]):
                col = indices[a]
                w = weight[a] if weighted else 1.0
                a += 1
            else:
                col = back[b]
                w = back_weight[b] if weighted else 1.0
                b += 1
                if col == i:
                    continue
            if slot < first or out[slot] != col:
                slot += 1
                out[slot] = col
                if weighted:
                    values[slot] = w
            elif weighted:
                values[slot] = merge_weights(values[slot], w, op)
        out_ptr[i + 1] = slot + 1
    size: int = slot + 1
    return size


@kernel
def is_symmetric(indptr: PtrArray, indices: IndexArray) -> bool:
    """Return True if every edge has a mirror image with the same multiplicity. Weights are not compared."""
    num_nodes = indptr.shape[0] - 1
    cursor = indptr[:-1].copy()
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            # Rows are visited in ascending order, so the mirror image must be the next entry of row j.
            if cursor[j] >= indptr[j + 1] or indices[cursor[j]] != i:
                return False
            cursor[j] += 1
    return True


def components(indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray) -> tuple[IndexArray, PtrArray]:
    """Return the weakly connected components: ``(component [N], component_ptr [B + 1])``.

    Components are numbered through the block, graph by graph, in the order of their smallest nodes.
    """
    num_nodes = len(indptr) - 1
    label, ptr = np.empty(num_nodes, np.int32), np.zeros(len(node_ptr), np.int64)
    _label_components(indptr, indices, node_ptr, np.arange(num_nodes), label, ptr)
    return label, ptr


@kernel
def _label_components(
    indptr: PtrArray,
    indices: IndexArray,
    node_ptr: PtrArray,
    parent: PtrArray,
    label: IndexArray,
    ptr: PtrArray,
) -> None:
    """Write the component of each node to ``label``, and offsets to ``ptr``; ``parent`` is ``0 .. N - 1`` on entry."""
    for i in range(parent.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            # uf_union, without a call.
            a = i
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            b = np.int64(indices[e])
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a < b:
                parent[b] = a
            elif b < a:
                parent[a] = b
    count = 0
    for g in range(node_ptr.shape[0] - 1):
        for i in range(node_ptr[g], node_ptr[g + 1]):
            if parent[i] == i:
                label[i] = count
                count += 1
            else:
                label[i] = label[parent[i]]  # the parent is smaller and in the same component
        ptr[g + 1] = count
