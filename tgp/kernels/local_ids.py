"""Conversion between ids of a block and ids local to each graph, with checks.

Stores contain local ids. Both directions take one pass per graph and need no array with the graph of each entry.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import IndexArray, IntArray, PtrArray

__all__ = ["join_rows", "local_edges", "local_ids"]


@kernel
def local_edges(
    indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, rows: IntArray, cols: IntArray
) -> bool:
    """Write the local row and column of every entry; return True if all columns belong to the graph of their row.

    Args:
        indptr, indices, node_ptr: Rows of the block and offsets of its graphs.
        rows, cols: ``[nnz]`` output, of an unsigned type that can represent the ids of the largest graph.
    """
    good = True
    for g in range(node_ptr.shape[0] - 1):
        first, last = node_ptr[g], node_ptr[g + 1]
        start, size = np.int32(first), np.uint32(last - first)
        for e in range(np.uint64(indptr[first]), np.uint64(indptr[last])):
            col = np.uint32(indices[e] - start)
            good &= col < size
            cols[e] = col
        for row in range(first, last):
            for e in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                rows[e] = row - first
    return good


@kernel
def local_ids(ids: IndexArray, ptr: PtrArray, target_ptr: PtrArray, low: int, out: IntArray) -> bool:
    """Write ids local to their graphs; return True if all ids are valid.

    Args:
        ids: ``[M]`` block ids.
        ptr: ``[B + 1]``, offsets of the ids of each graph.
        target_ptr: ``[B + 1]``, offsets of the nodes that the ids of each graph refer to.
        low: Smallest valid id: -1 if a negative id means "none" and becomes -1, else 0.
        out: ``[M]`` output, of a signed type that can represent the ids of the largest graph.
    """
    good = True
    for g in range(ptr.shape[0] - 1):
        first, size = target_ptr[g], target_ptr[g + 1] - target_ptr[g]
        for i in range(np.uint64(ptr[g]), np.uint64(ptr[g + 1])):
            if ids[i] < 0:
                good &= low < 0
                out[i] = -1
            else:
                local = ids[i] - first
                good &= (local >= 0) & (local < size)
                out[i] = local
    return good


@kernel
def join_rows(
    rows: IntArray,
    cols: IntArray,
    edge_ptr: PtrArray,
    node_ptr: PtrArray,
    indptr: PtrArray,
    indices: IndexArray,
) -> bool:
    """Write the rows of a block from local edges; return True if the edges were sorted and their ids valid.

    Args:
        rows, cols: ``[E]`` ids local to their graph.
        edge_ptr: ``[B + 1]``, offsets of the edges of each graph.
        node_ptr: ``[B + 1]``, offsets of the nodes of each graph.
        indptr: ``[N + 1]`` output.
        indices: ``[E]`` output.
    """
    node = np.int64(0)
    for g in range(node_ptr.shape[0] - 1):
        first, size = node_ptr[g], node_ptr[g + 1] - node_ptr[g]
        row, col = np.int64(0), np.int64(0)
        good = True
        for e in range(np.uint64(edge_ptr[g]), np.uint64(edge_ptr[g + 1])):
            r, c = np.int64(rows[e]), np.int64(cols[e])
            good &= (c >= 0) & (c < size) & (r < size) & ((r > row) | (r == row) & (c >= col))
            row, col = r, c
            indices[e] = first + c
            if not good:
                return False
            while node <= first + r:
                indptr[np.uint64(node)] = e
                node += 1
    indptr[node:] = edge_ptr[-1]
    return True
