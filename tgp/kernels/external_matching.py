"""Matching of graphs whose edges are memory-mapped files.

The kernels read the rows of a range front to back and keep no array with an entry per edge: scores are computed when they are
needed, by the formulas of :mod:`tgp.kernels.local_matching`. The pairs are the same as those of the kernels for graphs in memory.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray, WordArray
from tgp.kernels.local_matching import _MIX, SHARE, _score_edge

__all__ = ["NO_PARTNER", "UNKNOWN", "find_stale", "list_rows", "point_rows", "take_mutual_rows"]

UNKNOWN, NO_PARTNER = -2, -1
"""Pointers of a node that was not visited yet, and of a node without a free neighbour."""

_U = np.uint64


@kernel
def find_stale(
    pointer: IndexArray, code: WordArray, nodes: IndexArray, slot: IndexArray, choices: IndexArray, width: int,
    out: IndexArray,
) -> int:  # fmt: skip
    """Write the free nodes whose best free neighbour is not known; return their number.

    If a pointer leads to a node that is not free any more, the next free one of the choices of the node replaces it.

    Args:
        pointer: ``[N]`` best free neighbours, :data:`UNKNOWN` or :data:`NO_PARTNER`; changed in place.
        code: ``[N]`` random numbers of free nodes, 0 for other nodes.
        nodes: Nodes, ascending.
        slot: ``[N]`` position of the choices of each node, -1 if it has none; empty if no node has any.
        choices: ``[S * width]`` results of :func:`list_rows`.
        width: Number of choices of a node.
        out: Output with room for all nodes.
    """
    count = 0
    for a in range(nodes.shape[0]):
        u = nodes[a]
        v = pointer[np.uint32(u)]
        if code[np.uint32(u)] == 0 or v == NO_PARTNER or (v >= 0 and code[np.uint32(v)] != 0):
            continue
        is_known = False
        if slot.shape[0] and slot[np.uint32(u)] >= 0:
            start = np.int64(slot[np.uint32(u)]) * width
            for e in range(start, start + width):
                v = choices[e]
                if v == NO_PARTNER or code[np.uint32(v)] != 0:
                    pointer[np.uint32(u)] = v
                    is_known = True
                    break
        if not is_known:
            out[count] = u
            count += 1
    return count


@kernel
def point_rows(
    indptr: PtrArray, indices: IndexArray, score: FloatArray, degree: FloatArray, kind: int, code: WordArray,
    nodes: IndexArray, first: int, last: int, found: IndexArray,
) -> None:  # fmt: skip
    """Write the best free neighbour of the free nodes ``nodes[first:last]``.

    Args:
        indptr, indices: Rows of an undirected graph without parallel edges.
        score: ``[nnz]`` weights, or an empty array if ``kind`` does not need them.
        degree: ``[N]`` weighted degrees, or an empty array if ``kind`` does not need them.
        kind: Kind of the scores, see :data:`tgp.kernels.local_matching.EQUAL`.
        code: ``[N]`` random numbers of free nodes, 0 for other nodes.
        nodes: Nodes, ascending.
        first, last: Range of ``nodes``.
        found: Output, the best free neighbour of each of ``nodes``, or :data:`NO_PARTNER`.
    """
    for a in range(first, last):
        i = np.uint32(nodes[a])
        mine = code[i]
        volume = degree[i] if kind >= SHARE else 0.0
        best, best_hash, partner = -np.inf, _U(0), np.int32(NO_PARTNER)
        for e in range(_U(indptr[i]), _U(indptr[i + 1])):
            v = indices[e]
            other = code[np.uint32(v)]
            if other == 0 or v == i:
                continue
            value = _score_edge(score, degree, kind, e, volume, np.uint32(v))
            if value < best:
                continue
            hashed = (mine ^ other) * _MIX
            if value > best or hashed > best_hash:
                best, best_hash, partner = value, hashed, v
        found[a] = partner


@kernel
def list_rows(
    indptr: PtrArray, indices: IndexArray, score: FloatArray, degree: FloatArray, kind: int, code: WordArray,
    nodes: IndexArray, first: int, last: int, width: int, found: IndexArray,
) -> None:  # fmt: skip
    """Write the ``width`` best free neighbours of the free nodes ``nodes[first:last]``, the best one first.

    The first of them is that of :func:`point_rows`, which also describes the other arguments.

    Args:
        indptr, indices, score, degree, kind, code, nodes, first, last: Graph and nodes.
        width: Number of neighbours of a node.
        found: Output ``[len(nodes) * width]``. If a node has fewer free neighbours, the rest is :data:`NO_PARTNER`.
    """
    values, hashes = np.empty(width), np.empty(width, np.uint64)
    for a in range(first, last):
        i = np.uint32(nodes[a])
        mine = code[i]
        volume = degree[i] if kind >= SHARE else 0.0
        start, count = np.int64(a) * width, 0
        least, least_hash = -np.inf, _U(0)
        for e in range(_U(indptr[i]), _U(indptr[i + 1])):
            v = indices[e]
            other = code[np.uint32(v)]
            if other == 0 or v == i:
                continue
            value = _score_edge(score, degree, kind, e, volume, np.uint32(v))
            if value < least:
                continue
            hashed = (mine ^ other) * _MIX
            if count == width:
                if value == least and hashed <= least_hash:
                    continue
            else:
                count += 1
            p = count - 1
            while p > 0 and (value > values[p - 1] or (value == values[p - 1] and hashed > hashes[p - 1])):
                values[p], hashes[p], found[start + p] = values[p - 1], hashes[p - 1], found[start + p - 1]
                p -= 1
            values[p], hashes[p], found[start + p] = value, hashed, v
            if count == width:
                least, least_hash = values[width - 1], hashes[width - 1]
        for p in range(count, width):
            found[start + p] = NO_PARTNER


@kernel
def take_mutual_rows(pointer: IndexArray, code: WordArray, nodes: IndexArray, count: int) -> tuple[int, int]:
    """Match the free nodes among ``nodes[:count]`` that point to each other; their code becomes 0.

    Args:
        pointer: ``[N]`` best free neighbours.
        code: ``[N]`` random numbers of free nodes, 0 for other nodes.
        nodes: Nodes, ascending. Those that can still find a partner are moved to the front.
        count: Number of nodes.

    Returns:
        Number of nodes that were matched, and of free nodes that can still find a partner.
    """
    matched, remaining = 0, 0
    for a in range(count):
        u = nodes[a]
        v = pointer[np.uint32(u)]
        if code[np.uint32(u)] == 0 or v < 0:
            continue
        if pointer[np.uint32(v)] == u:
            code[np.uint32(u)] = 0
            matched += 1
        else:
            nodes[remaining] = u
            remaining += 1
    return matched, remaining
