"""Greedy heavy-edge matching (each node, in turn, joins its heaviest free neighbour) and random partitions."""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import hash_u64, kernel
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, PtrArray

__all__ = ["BY_DEGREE", "BY_INDEX", "RANDOM", "match", "random_partition"]

RANDOM, BY_DEGREE, BY_INDEX = 0, 1, 2
"""Codes of the visiting orders."""

_WINDOW = 4096
"""Number of consecutive nodes that a random order shuffles together. Smaller graphs are shuffled as a whole. In larger
graphs, the rows of a window stay in the processor cache."""

_S32 = np.uint64(32)
_U = np.uint64


@kernel
def _draw_below(seed: int, level: int, index: int, draw: int, bound: int) -> int:
    """Return a random number in ``[0, bound)``: 32 random bits scaled by ``bound < 2**32``."""
    bits = hash_u64(seed, level, index, draw) >> _S32
    number: int = np.int64((bits * np.uint64(bound)) >> _S32)
    return number


@kernel
def _shuffle(visit: IndexArray, node_ptr: PtrArray, seed: int, level: int) -> None:
    """Shuffle each window of each graph in place (Fisher-Yates).

    Random numbers depend on the seed, the level and the position in the graph.
    """
    for g in range(node_ptr.shape[0] - 1):
        size = node_ptr[g + 1] - node_ptr[g]
        for low in range(0, size, _WINDOW):
            base = node_ptr[g] + low
            for i in range(min(_WINDOW, size - low) - 1, 0, -1):
                j = _draw_below(seed, level, low + i, 0, i + 1)
                visit[base + i], visit[base + j] = visit[base + j], visit[base + i]


@kernel
def _sort_by_degree(visit: IndexArray, indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray) -> None:
    """Write the nodes of each graph to ``visit``, sorted by degree without self loops, then by index."""
    num_nodes = indptr.shape[0] - 1
    degree = np.zeros(num_nodes, np.int64)
    largest = 0
    for i in range(num_nodes):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] != i:
                degree[i] += 1
        largest = max(largest, degree[i])
    slots = np.zeros(largest + 2, np.int64)
    for g in range(node_ptr.shape[0] - 1):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        top = 0
        for i in range(lo, hi):
            slots[degree[i] + 1] += 1
            top = max(top, degree[i])
        for d in range(top + 1):
            slots[d + 1] += slots[d]
        for i in range(lo, hi):
            visit[lo + slots[degree[i]]] = i
            slots[degree[i]] += 1
        slots[: top + 2] = 0


@kernel
def _find_partner(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, free: BoolArray, u: int, index: int,
    pick: bool, seed: int, level: int, heaviest: IndexArray,
) -> int:  # fmt: skip
    """Return the heaviest free neighbour of ``u``, or -1 if there is none. Edges of negative weight are not matched.

    Whether a neighbour is free is hard to predict, so the loop has no branches. ``heaviest`` is scratch for the
    neighbours of equal weight, as long as the longest row. ``u`` itself must not be free.
    """
    best = 0.0
    ties = _U(0)
    for e in range(_U(indptr[u]), _U(indptr[u + 1])):
        v = indices[e]
        if weighted:
            w = weight[e] if free[np.uint32(v)] else -1.0
            ties = _U(0) if w > best else ties
            best = max(w, best)
            heaviest[ties] = v
            ties += _U(w == best)
        else:
            heaviest[ties] = v
            ties += _U(free[np.uint32(v)])
    partner: int = np.int32(-1)
    if ties > 0:
        partner = heaviest[_draw_below(seed, level, index, 1, ties) if pick and ties > 1 else 0]
    return partner


def match(
    indptr: PtrArray,
    indices: IndexArray,
    weight: FloatArray,
    weighted: bool,
    node_ptr: PtrArray,
    order: int,
    seed: int,
    level: int,
) -> tuple[IndexArray, PtrArray]:
    """Return ``(cluster [N], super_ptr [B + 1])`` of the greedy matching.

    Supernodes are numbered by smallest member. Among free neighbours of equal weight, the random order chooses by a
    hash of the seed, the level and the visited node; the other orders choose the smallest index.

    Args:
        indptr, indices: Rows of the block.
        weight: ``[nnz]``, or an empty array if ``weighted`` is false.
        weighted: Use the weights.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        order: Code of the visiting order.
        seed, level: Key of the random numbers.
    """
    num_nodes = len(indptr) - 1
    visit = np.arange(num_nodes, dtype=np.int32)
    mate = np.arange(num_nodes, dtype=np.int32)
    free = np.ones(num_nodes, np.bool_)
    super_ptr = np.empty(len(node_ptr), np.int64)
    if order == BY_DEGREE:
        _sort_by_degree(visit, indptr, indices, node_ptr)
    _match(indptr, indices, weight, weighted, node_ptr, order, seed, level, visit, free, mate)
    cluster = visit  # no longer needed: reuse the memory
    _number_pairs(mate, node_ptr, cluster, super_ptr)
    return cluster, super_ptr


@kernel
def _match(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, node_ptr: PtrArray, order: int,
    seed: int, level: int, visit: IndexArray, free: BoolArray, mate: IndexArray,
) -> None:  # fmt: skip
    """Match the nodes in the order ``visit``, which is shuffled first if ``order`` is ``RANDOM``.

    Writes ``mate`` ``[N]``, which contains the node itself on entry. ``free`` ``[N]`` is scratch, true on entry.
    """
    if order == RANDOM:
        _shuffle(visit, node_ptr, seed, level)
    longest = np.int64(0)
    for u in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[u + 1] - indptr[u])
    heaviest = np.empty(longest, np.int32)
    for g in range(node_ptr.shape[0] - 1):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        for i in range(lo, hi):
            u = visit[i]
            if not free[u]:
                continue
            free[u] = False
            v = _find_partner(
                indptr, indices, weight, weighted, free, u, u - lo, order == RANDOM, seed, level, heaviest
            )
            if v >= 0:
                free[v] = False
                mate[u] = v
                mate[v] = u


@kernel
def _number_pairs(mate: IndexArray, node_ptr: PtrArray, cluster: IndexArray, super_ptr: PtrArray) -> None:
    """Write the supernode of each node, numbered by smallest member, and the offsets of the supernodes."""
    count = np.int32(0)
    super_ptr[0] = 0
    for g in range(node_ptr.shape[0] - 1):
        for u in range(node_ptr[g], node_ptr[g + 1]):
            # The smaller node of a pair already has its number. For the smaller node itself, the value that is read
            # from ``cluster`` is not used; reading it avoids a branch.
            smaller = min(mate[u], np.int32(u))
            leads = smaller == u
            cluster[u] = count if leads else cluster[np.uint32(smaller)]
            count += np.int32(leads)
        super_ptr[g + 1] = count


def random_partition(node_ptr: PtrArray, super_ptr: PtrArray, seed: int, level: int) -> IndexArray:
    """Partition each graph into random non-empty parts and return the part of each node ``[N]``.

    The first nodes of a shuffled order get one part each, and the other nodes get a random part. Parts are numbered by
    smallest member. ``super_ptr`` ``[B + 1]`` contains the offsets of the parts of each graph.
    """
    visit = np.arange(node_ptr[-1], dtype=np.int32)
    cluster = np.empty(len(visit), np.int32)
    name = np.full(super_ptr[-1], -1, np.int32)
    _random_partition(node_ptr, super_ptr, seed, level, visit, name, cluster)
    return cluster


@kernel
def _random_partition(
    node_ptr: PtrArray, super_ptr: PtrArray, seed: int, level: int, visit: IndexArray, name: IndexArray,
    cluster: IndexArray,
) -> None:  # fmt: skip
    """Write ``cluster`` ``[N]``. ``visit`` ``[N]`` is shuffled; ``name`` ``[K]`` is scratch, -1 on entry."""
    _shuffle(visit, node_ptr, seed, level)
    for g in range(node_ptr.shape[0] - 1):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        first = super_ptr[g]
        parts = super_ptr[g + 1] - first
        for i in range(hi - lo):
            part = i if i < parts else _draw_below(seed, level, i, 1, parts)
            cluster[visit[lo + i]] = first + part
        count = first
        for u in range(lo, hi):
            part = cluster[u]
            if name[part] < 0:
                name[part] = count
                count += 1
            cluster[u] = name[part]
