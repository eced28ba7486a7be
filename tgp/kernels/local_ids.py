"""Ids of a block turned into ids of its graphs, checked on the way; and back.

A block of graphs is written and read in ids that are local to each graph. Both ways are one pass per graph, without
an array that tells each entry its graph.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["join_rows", "local_edges", "local_ids"]


@njit(cache=True, nogil=True)
def local_edges(indptr, indices, node_ptr, rows, cols):
    """Fill the local ``rows`` and ``cols`` of every entry; returns whether all columns are of their graph.

    Args:
        indptr, indices, node_ptr: the block.
        rows, cols: ``[nnz]`` of one unsigned type that holds the ids of the largest graph.
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


@njit(cache=True, nogil=True)
def local_ids(ids, ptr, target_ptr, low, out):
    """Fill ``out`` with ids local to their graphs; returns whether all are.

    Args:
        ids: ``[M]`` int32 block ids.
        ptr: ``[B + 1]`` int64, the ids of each graph.
        target_ptr: ``[B + 1]`` int64, what each graph's ids may name.
        low: -1 where a negative id means nothing and stays -1, else 0.
        out: ``[M]`` of a signed type that holds the ids of the largest graph.
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


@njit(cache=True, nogil=True)
def join_rows(rows, cols, edge_ptr, node_ptr, indptr, indices):
    """Fill the rows of a block from local edges; returns whether they were in order and of their graphs.

    Args:
        rows, cols: ``[E]`` ids local to their graph.
        edge_ptr: ``[B + 1]`` int64, the edges of each graph.
        node_ptr: ``[B + 1]`` int64, the nodes of each graph.
        indptr: ``[N + 1]`` int64, filled.
        indices: ``[E]`` int32, filled.
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
