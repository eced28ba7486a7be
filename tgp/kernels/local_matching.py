"""Greedy matching by local maxima: the same pairs for any number of threads.

The edges of a graph are ordered by score, then by a hash of their two ends, then by index. Taking edges in this order, each
if both ends are free, gives one definite matching. It is computed in rounds: every free node points to the end of its best
edge to a free node, and two nodes that point to each other are a pair. A round only reads what the round before wrote, so ranges
of nodes can run on several threads.

``indptr`` and ``indices`` are the rows of undirected graphs without parallel edges, sorted by column. ``code`` ``[N]`` contains a
random number for each free node and 0 for other nodes. The hash of an edge is made of the codes of its ends.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import hash_u64, kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray, WordArray

__all__ = [
    "EQUAL",
    "GIVEN",
    "SHARE",
    "UNIT_SHARE",
    "divide_by_degree",
    "edge_hash",
    "fill_codes",
    "find_anchors",
    "fingerprint",
    "match_in_order",
    "pair_relatives",
    "point",
    "point_by_share",
    "take_mutual",
    "weighted_degree",
]

_U = np.uint64
_ONE = np.uint64(1)
_S29, _S32, _S63 = np.uint64(29), np.uint64(32), np.uint64(63)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX2 = np.uint64(0xBF58476D1CE4E5B9)


EQUAL, GIVEN, SHARE, UNIT_SHARE = 0, 1, 2, 3
"""Kinds of scores of edges. All edges are equal; the score of each entry is given; the score is the weight of the entry, or 1, divided by
the larger degree of its two nodes. The last two are computed where they are needed, without an array of scores."""


def edge_hash(code: WordArray, nodes: IndexArray, others: IndexArray) -> WordArray:
    """Return the hash by which :func:`point` orders edges of equal score. The larger one is better.

    Args:
        code: ``[N]`` codes of the nodes.
        nodes, others: ``[P]`` ends of the edges, in any order.
    """
    hashes: WordArray = (code[nodes] ^ code[others]) * _MIX
    return hashes


@kernel
def fingerprint(
    indptr: PtrArray, indices: IndexArray, bits: WordArray, weighted: bool, first: int, last: int
) -> int:
    """Return a sum of hashes over the entries of the rows ``first..last``.

    The sum over all rows is 0 if every edge is stored once in each direction, with the same weight, and no weight is negative: an
    entry and its mirror image cancel out. For any other graph it is 0 with a probability of 2^-63. Self loops do not count.

    Args:
        indptr, indices: Rows.
        bits: ``[nnz]`` bits of the weights, or an empty array if ``weighted`` is false.
        weighted: Use the weights.
        first, last: Range of rows.
    """
    total = _U(0)
    for i in range(first, last):
        before = np.int64(-1)
        for e in range(_U(indptr[i]), _U(indptr[i + 1])):
            j = np.int64(indices[e])
            low, high = (i, j) if i < j else (j, i)
            z = (_U(low) << _S32) | _U(high)
            adds = i < j
            if weighted:
                z ^= bits[e] * _MIX
                adds |= (bits[e] >> _S63) != 0
            z = (z ^ (z >> _S29)) * _MIX2
            z = (z ^ (z >> _S32)) * _MIX
            z ^= z >> _S29
            if i != j:
                if j == before:  # twice, so that two parallel entries of one direction do not cancel out
                    total += z + z
                else:
                    total += z if adds else _U(0) - z
            before = j
    result: int = total
    return result


@kernel
def weighted_degree(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, first: int, last: int,
    degree: FloatArray,
) -> None:  # fmt: skip
    """Write the sum of the weights of each row ``first..last`` to ``degree`` ``[N]``, without self loops."""
    for i in range(first, last):
        low, high = _U(indptr[i]), _U(indptr[i + 1])
        if weighted:
            total = 0.0
            for e in range(low, high):
                if indices[e] != i:
                    total += weight[e]
            degree[i] = total
        else:
            loops = 0
            for e in range(low, high):
                loops += np.int64(indices[e]) == i
            degree[i] = np.int64(high - low) - loops


@kernel
def divide_by_degree(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, degree: FloatArray, first: int,
    last: int, score: FloatArray,
) -> None:  # fmt: skip
    """Write ``w_ij / max(d_i, d_j)`` to ``score`` ``[nnz]`` for the rows ``first..last``; 0 if that is not a number."""
    for i in range(first, last):
        mine = degree[i]
        for e in range(_U(indptr[i]), _U(indptr[i + 1])):
            other = degree[np.uint32(indices[e])]
            most = mine if mine > other else other
            share = (weight[e] if weighted else 1.0) / most if most > 0.0 else 0.0
            score[e] = share if share > 0.0 else 0.0


@kernel(inline="always")
def _score_edge(
    score: FloatArray, degree: FloatArray, kind: int, e: int, mine: float, other: np.uint32
) -> float:
    """Return the score of entry ``e`` between a node of degree ``mine`` and the node ``other``."""
    if kind == EQUAL:
        return 0.0
    value = 1.0 if kind == UNIT_SHARE else score[e]
    if kind != GIVEN:
        most = max(mine, degree[other])
        value = value / most if most > 0.0 else 0.0
        value = value if value > 0.0 else 0.0
    result: float = value
    return result


@kernel
def fill_codes(
    node_ptr: PtrArray, seed: int, level: int, draw: int, first: int, last: int, code: WordArray
) -> None:
    """Write a random odd number for each node ``first..last`` to ``code`` ``[N]``.

    It depends on the seed, the level, the draw and the index of the node inside its graph.
    """
    for g in range(node_ptr.shape[0] - 1):
        start = node_ptr[g]
        for u in range(max(first, start), min(last, node_ptr[g + 1])):
            code[u] = hash_u64(seed, level, u - start, draw) | _ONE


@kernel
def point(
    indptr: PtrArray, indices: IndexArray, score: FloatArray, scored: bool, code: WordArray, active: IndexArray,
    first: int, last: int, pointer: IndexArray, top: FloatArray,
) -> None:  # fmt: skip
    """Write the best free neighbour of the nodes ``active[first:last]``.

    A node that points to a free node keeps its pointer: its other choices have not become better.

    Args:
        indptr, indices: Rows.
        score: ``[nnz]`` symmetric scores, no NaN, or an empty array if ``scored`` is false.
        scored: Use the scores. If false, all edges are equal.
        code: ``[N]`` codes of free nodes, 0 for other nodes.
        active: Free nodes.
        first, last: Range of ``active``.
        pointer: ``[N]`` output, -1 if a node has no free neighbour. It is -1 on entry of the first round.
        top: ``[N]`` output, the score of the edge; not accessed if ``scored`` is false.
    """
    for a in range(first, last):
        u = np.uint32(active[a])
        old = pointer[u]
        if old >= 0 and code[np.uint32(old)] != 0:
            continue
        mine = code[u]
        best, best_hash, found = -np.inf, _U(0), np.int32(-1)
        for e in range(_U(indptr[u]), _U(indptr[u + _ONE])):
            v = indices[e]
            other = code[np.uint32(v)]
            if other == 0 or v == u:
                continue
            value = score[e] if scored else 0.0
            if value < best:
                continue
            hashed = (mine ^ other) * _MIX
            if value > best or hashed > best_hash:
                best, best_hash, found = value, hashed, v
        pointer[u] = found
        if scored:
            top[u] = best


@kernel
def point_by_share(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, degree: FloatArray, code: WordArray,
    active: IndexArray, first: int, last: int, pointer: IndexArray, top: FloatArray,
) -> None:  # fmt: skip
    """Do the same as :func:`point` for the scores of :func:`divide_by_degree`, without an array of scores.

    Args:
        indptr, indices, code, active, first, last, pointer, top: See :func:`point`.
        weight: ``[nnz]`` symmetric weights, or an empty array if ``weighted`` is false.
        weighted: Use the weights. If false, every edge has weight 1.
        degree: ``[N]`` degrees.
    """
    for a in range(first, last):
        u = np.uint32(active[a])
        old = pointer[u]
        if old >= 0 and code[np.uint32(old)] != 0:
            continue
        mine, volume = code[u], degree[u]
        best, best_hash, found = -np.inf, _U(0), np.int32(-1)
        for e in range(_U(indptr[u]), _U(indptr[u + _ONE])):
            v = indices[e]
            other = code[np.uint32(v)]
            if other == 0 or v == u:
                continue
            most = max(volume, degree[np.uint32(v)])
            value = (weight[e] if weighted else 1.0) / most if most > 0.0 else 0.0
            value = value if value > 0.0 else 0.0
            if value < best:
                continue
            hashed = (mine ^ other) * _MIX
            if value > best or hashed > best_hash:
                best, best_hash, found = value, hashed, v
        pointer[u] = found
        top[u] = best


@kernel
def take_mutual(
    active: IndexArray, first: int, last: int, pointer: IndexArray, mate: IndexArray, code: WordArray,
    remaining: IndexArray,
) -> int:  # fmt: skip
    """Match the nodes of ``active[first:last]`` that point to each other; return the number of nodes that remain.

    Args:
        active: Free nodes.
        first, last: Range of ``active``.
        pointer: ``[N]`` best free neighbours.
        mate: ``[N]`` partner of each node, changed in place.
        code: ``[N]`` codes; those of matched nodes become 0.
        remaining: Output from position ``first`` on: nodes that are free and have a free neighbour.
    """
    count = 0
    for a in range(first, last):
        u = active[a]
        v = pointer[np.uint32(u)]
        if v < 0:
            continue
        if pointer[np.uint32(v)] == u:
            mate[np.uint32(u)] = v
            code[np.uint32(u)] = 0
        else:
            remaining[first + count] = u
            count += 1
    return count


@kernel
def match_in_order(nodes: IndexArray, others: IndexArray, mate: IndexArray, code: WordArray) -> None:
    """Match the edges ``nodes[i]``, ``others[i]`` in the given order, each if both ends are free (``code`` is not 0)."""
    for i in range(nodes.shape[0]):
        u, v = nodes[i], others[i]
        if code[u] != 0 and code[v] != 0:
            mate[u], mate[v] = v, u
            code[u], code[v] = 0, 0


@kernel
def find_anchors(
    indptr: PtrArray, indices: IndexArray, score: FloatArray, degree: FloatArray, kind: int, code: WordArray,
    nodes: IndexArray, first: int, last: int, anchor: IndexArray, signature: WordArray,
) -> None:  # fmt: skip
    """Write the strongest neighbour of ``nodes[first:last]`` and a hash of all neighbours.

    Nodes with the same neighbours and scores have the same anchor: ties are resolved by the code of the neighbour.

    Args:
        indptr, indices: Rows.
        score: ``[nnz]`` symmetric scores or weights, or an empty array if ``kind`` does not need it.
        degree: ``[N]`` degrees, or an empty array if ``kind`` does not need it.
        kind: Kind of the scores, see :data:`EQUAL`.
        code: ``[N]`` codes of all nodes, free or not.
        nodes: Nodes.
        first, last: Range of ``nodes``.
        anchor: Output, the strongest neighbour of each of the nodes, or -1.
        signature: Output, a number that is the same for nodes with the same neighbours.
    """
    for a in range(first, last):
        u = np.uint32(nodes[a])
        volume = degree[u] if kind >= SHARE else 0.0
        best, best_code, found, total = -np.inf, _U(0), np.int32(-1), _U(0)
        for e in range(_U(indptr[u]), _U(indptr[u + _ONE])):
            v = indices[e]
            if v == u:
                continue
            value = _score_edge(score, degree, kind, e, volume, np.uint32(v))
            other = code[np.uint32(v)]
            total += other * _MIX2
            if value > best or (value == best and other > best_code):
                best, best_code, found = value, other, v
        anchor[a] = found
        signature[a] = total


@kernel
def pair_relatives(nodes: IndexArray, anchor: IndexArray, signature: WordArray, mate: IndexArray) -> None:
    """Match nodes of the same anchor with each other, nodes of the same neighbours first.

    Args:
        nodes: Nodes, sorted by anchor, signature and index.
        anchor, signature: Values of the nodes, see :func:`find_anchors`. A node without an anchor (-1) stays alone.
        mate: ``[N]`` partner of each node, changed in place.
    """
    waiting = -1
    a = 0
    while a < nodes.shape[0]:
        u = nodes[a]
        other = -1
        if anchor[a] >= 0:
            if a + 1 < nodes.shape[0] and anchor[a + 1] == anchor[a] and signature[a + 1] == signature[a]:
                a += 1
                other = a
            elif waiting >= 0 and anchor[waiting] == anchor[a]:
                other, waiting = waiting, -1
            else:
                waiting = a
        if other >= 0:
            v = nodes[other]
            mate[u], mate[v] = v, u
        a += 1
