"""Conversion between ids of a block and ids local to each graph, with checks.

Stores contain local ids. Both directions take one pass per graph and need no array with the graph of each entry.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import ByteArray, IndexArray, IntArray, PtrArray, ShortArray

__all__ = ["join_rows", "local_edges", "local_ids"]


def local_edges(indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, out: IntArray) -> bool:
    """Write the local row and column of every entry; return True if all columns belong to the graph of their row.

    Args:
        indptr, indices, node_ptr: Rows of the block and offsets of its graphs.
        out: ``[2, nnz]`` output, of an integer type of 1, 2 or 4 bytes that can represent the ids of the largest graph.
    """
    size = out.dtype.itemsize
    good: bool = _fill_local_edges(indptr, indices, node_ptr, size, *_split_by_size(out.reshape(-1)))
    return good


@kernel
def _fill_local_edges(
    indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, size: int,
    out1: ByteArray, out2: ShortArray, out4: IndexArray,
) -> bool:  # fmt: skip
    """Write rows and columns, one after the other, to the array of integers of ``size`` bytes.

    One kernel for all types is compiled once. The compiler moves the choice out of the loops.
    """
    good = True
    nnz = np.uint64(indices.shape[0])
    for g in range(node_ptr.shape[0] - 1):
        first, last = node_ptr[g], node_ptr[g + 1]
        start, num_nodes = np.int32(first), np.uint32(last - first)
        for e in range(np.uint64(indptr[first]), np.uint64(indptr[last])):
            col = np.uint32(indices[e] - start)
            good &= col < num_nodes
            if size == 1:
                out1[nnz + e] = col
            elif size == 2:
                out2[nnz + e] = col
            else:
                out4[nnz + e] = col
        for row in range(first, last):
            for e in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                if size == 1:
                    out1[e] = row - first
                elif size == 2:
                    out2[e] = row - first
                else:
                    out4[e] = row - first
    return good


def local_ids(ids: IndexArray, ptr: PtrArray, target_ptr: PtrArray, low: int, out: IntArray) -> bool:
    """Write ids local to their graphs; return True if all ids are valid.

    Args:
        ids: ``[M]`` block ids.
        ptr: ``[B + 1]``, offsets of the ids of each graph.
        target_ptr: ``[B + 1]``, offsets of the nodes that the ids of each graph refer to.
        low: Smallest valid id: -1 if a negative id means "none" and becomes -1, else 0.
        out: ``[M]`` output, of an integer type of 1, 2 or 4 bytes that can represent the ids of the largest graph.
    """
    good: bool = _fill_local_ids(ids, ptr, target_ptr, low, out.dtype.itemsize, *_split_by_size(out))
    return good


@kernel
def _fill_local_ids(
    ids: IndexArray, ptr: PtrArray, target_ptr: PtrArray, low: int, size: int,
    out1: ByteArray, out2: ShortArray, out4: IndexArray,
) -> bool:  # fmt: skip
    """Write the ids to the array of integers of ``size`` bytes."""
    good = True
    for g in range(ptr.shape[0] - 1):
        start, num_nodes = np.int32(target_ptr[g]), np.uint32(target_ptr[g + 1] - target_ptr[g])
        for i in range(np.uint64(ptr[g]), np.uint64(ptr[g + 1])):
            local = np.int32(-1) if ids[i] < 0 else np.int32(ids[i] - start)
            good &= (np.uint32(local) < num_nodes) | ((ids[i] < 0) & (low < 0))
            if size == 1:
                out1[i] = local
            elif size == 2:
                out2[i] = local
            else:
                out4[i] = local
    return good


def _split_by_size(out: IntArray) -> tuple[ByteArray, ShortArray, IndexArray]:
    """Return an array of integers as the first, second or third item, by its size; the others are empty."""
    size = out.dtype.itemsize
    return (
        out.view(np.int8) if size == 1 else _NO_BYTES,
        out.view(np.int16) if size == 2 else _NO_SHORTS,
        out.view(np.int32) if size == 4 else _NO_IDS,
    )


_NO_BYTES, _NO_SHORTS, _NO_IDS = np.empty(0, np.int8), np.empty(0, np.int16), np.empty(0, np.int32)


@kernel
def join_rows(
    rows: IndexArray,
    cols: IndexArray,
    edge_ptr: PtrArray,
    node_ptr: PtrArray,
    indptr: PtrArray,
    indices: IndexArray,
    words: int,
) -> bool:
    """Write the rows of a block from local edges; return True if the edges were sorted and their ids valid.

    Args:
        rows, cols: ``[words * E]`` ids local to their graph. 64-bit ids are two words of 32 bits, the lower one first: one
            kernel for both types is compiled once, and ids are not copied.
        edge_ptr: ``[B + 1]``, offsets of the edges of each graph.
        node_ptr: ``[B + 1]``, offsets of the nodes of each graph.
        indptr: ``[N + 1]`` output.
        indices: ``[E]`` output.
        words: Number of words of an id, 1 or 2.
    """
    node, upper = 0, np.uint64(words - 1)
    for g in range(node_ptr.shape[0] - 1):
        first, last = node_ptr[g], node_ptr[g + 1]
        row, col = first, first
        for e in range(np.uint64(edge_ptr[g]), np.uint64(edge_ptr[g + 1])):
            at = e << upper
            r, c = first + rows[at], first + cols[at]
            if (c < first) | (c >= last) | (r >= last) | (r < row) | ((r == row) & (c < col)):
                return False
            if upper and rows[at + upper] | cols[at + upper]:
                return False
            row, col = r, c
            indices[e] = c
            while node <= r:
                indptr[np.uint64(node)] = e
                node += 1
    for i in range(node, indptr.shape[0]):
        indptr[i] = indices.shape[0]
    return True
