"""Distances between all nodes of small graphs."""

from __future__ import annotations

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import IndexArray, PtrArray, ShortArray

__all__ = ["hop_distances"]


@kernel
def hop_distances(
    indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, out_ptr: PtrArray, limit: int, queue: IndexArray,
    out: ShortArray,
) -> None:  # fmt: skip
    """Write the number of edges of the shortest path between all pairs of nodes of each graph.

    Args:
        indptr, indices: Rows of the block. Paths follow the direction of the edges.
        node_ptr: ``[B + 1]`` first node of each graph.
        out_ptr: ``[B + 1]`` first entry of each graph in ``out``.
        limit: Longest distance. Larger ones are written as ``limit``.
        queue: Scratch, one entry for each node of the largest graph.
        out: Matrix of each graph, row by row. It is filled with ``limit + 1`` on entry, which remains for pairs without
            a path.
    """
    for g in range(node_ptr.shape[0] - 1):
        first = node_ptr[g]
        size = node_ptr[g + 1] - first
        for start in range(size):
            row = out_ptr[g] + start * size
            out[row + start] = 0
            queue[0] = start
            head, tail = 0, 1
            while head < tail:
                u = queue[head]
                head += 1
                step = min(out[row + u] + 1, limit)
                for e in range(indptr[first + u], indptr[first + u + 1]):
                    v = indices[e] - first
                    if out[row + v] > limit:
                        out[row + v] = step
                        queue[tail] = v
                        tail += 1
