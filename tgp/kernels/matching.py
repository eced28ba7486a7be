"""Greedy heavy-edge matching (each node, in turn, joins its heaviest free neighbour), and random partitions."""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import hash_u64, kernel
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, PtrArray

__all__ = [
    "BY_DEGREE",
    "BY_INDEX",
    "RANDOM",
    "WINDOW",
    "join_pairs",
    "match",
    "match_rows",
    "number_pairs",
    "pair_waiting",
    "random_partition",
    "sort_by_degree",
]

RANDOM, BY_DEGREE, BY_INDEX = 0, 1, 2
"""Codes of the visiting orders."""

WINDOW = 4096
"""Number of consecutive nodes that a random order shuffles together. Smaller graphs are shuffled as a whole. In larger
graphs, the rows of a window stay in the processor cache."""

_S32 = np.uint64(32)
_U = np.uint64


@kernel(inline="always")
def _draw_below(seed: int, level: int, index: int, draw: int, bound: int) -> int:
    """Return a random number in ``[0, bound)``: 32 random bits scaled by ``bound < 2**32``."""
    # numba would compile the hash again for each constant ``draw``.
    bits = hash_u64(seed, level, index, np.int64(draw)) >> _S32
    number: int = np.int64((bits * np.uint64(bound)) >> _S32)
    return number


@kernel(inline="always")
def _shuffle_window(visit: IndexArray, at: int, size: int, index: int, seed: int, level: int) -> None:
    """Shuffle ``visit[at:at + size]`` in place (Fisher-Yates). ``index`` is the index of the first position in its graph."""
    for i in range(size - 1, 0, -1):
        j = _draw_below(seed, level, index + i, 0, i + 1)
        visit[at + i], visit[at + j] = visit[at + j], visit[at + i]


@kernel(inline="always")
def _shuffle(visit: IndexArray, start: int, size: int, seed: int, level: int) -> None:
    """Shuffle each window of a graph in place. The nodes of the graph are at ``start`` in ``visit``.

    Random numbers depend on the seed, the level and the position in the graph.
    """
    for low in range(0, size, WINDOW):
        window = size - low if size - low < WINDOW else WINDOW
        _shuffle_window(visit, start + low, window, low, seed, level)


@kernel
def sort_by_degree(visit: IndexArray, indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray) -> None:
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


@kernel(inline="always")
def _match_nodes(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, pick: bool, start: int, seed: int,
    level: int, visit: IndexArray, low: int, high: int, free: BoolArray, heaviest: IndexArray, mate: IndexArray,
) -> None:  # fmt: skip
    """Match the nodes ``visit[low:high]`` of the graph that begins at node ``start``. See :func:`match`."""
    for i in range(low, high):
        u = visit[i]
        if not free[u]:
            continue
        free[u] = False
        # Whether a neighbour is free is hard to predict, so the loop has no branches.
        best = 0.0
        ties = _U(0)
        for e in range(_U(indptr[u]), _U(indptr[u + 1])):
            v = indices[e]
            if weighted:
                w = weight[e] if free[np.uint32(v)] else -1.0
                ties = _U(0) if w > best else ties
                best = w if w > best else best
                heaviest[ties] = v
                ties += _U(w == best)
            else:
                heaviest[ties] = v
                ties += _U(free[np.uint32(v)])
        if ties > 0:
            v = heaviest[_draw_below(seed, level, u - start, 1, np.int64(ties)) if pick and ties > 1 else 0]
            free[v] = False
            mate[u] = v
            mate[v] = u


@kernel
def match(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, node_ptr: PtrArray, order: int,
    seed: int, level: int, first: int, last: int, visit: IndexArray, free: BoolArray, heaviest: IndexArray,
    mate: IndexArray,
) -> None:  # fmt: skip
    """Match the nodes of the graphs ``first..last`` with their heaviest free neighbours.

    Edges of negative weight are not matched. Among free neighbours of equal weight, the random order chooses by a hash of the
    seed, the level and the visited node; the other orders choose the smallest index.

    Args:
        indptr, indices: Rows of the block.
        weight: ``[nnz]``, or an empty array if ``weighted`` is false.
        weighted: Use the weights.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        order: Code of the visiting order.
        seed, level: Key of the random numbers.
        first, last: Range of graphs, so that ranges can run on several threads.
        visit: ``[N]`` nodes in the order in which they are visited. The random order shuffles them first.
        free: ``[N]`` scratch, true on entry.
        heaviest: Scratch of this call for the neighbours of equal weight, as long as the longest row.
        mate: ``[N]`` output, the partner of each node. It contains the node itself on entry.
    """
    pick = order == RANDOM
    for g in range(first, last):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        if pick:
            _shuffle(visit, lo, hi - lo, seed, level)
        _match_nodes(
            indptr, indices, weight, weighted, pick, lo, seed, level, visit, lo, hi, free, heaviest, mate
        )


@kernel
def match_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, order: int, seed: int, level: int,
    first: int, last: int, free: BoolArray, heaviest: IndexArray, mate: IndexArray,
) -> None:  # fmt: skip
    """Match the nodes ``first..last`` of one graph. Calls for all ranges, in ascending order, give the result of :func:`match`.

    Args:
        indptr, indices, weight, weighted, seed, level, free, heaviest, mate: See :func:`match`.
        order: Code of the visiting order, but not :data:`BY_DEGREE`.
        first, last: Range of nodes. ``first`` is a multiple of :data:`WINDOW`, and ``last`` is one or the number of nodes.
    """
    visit = np.empty(WINDOW, np.int32)
    for low in range(first, last, WINDOW):
        size = last - low if last - low < WINDOW else WINDOW
        for i in range(size):
            visit[i] = low + i
        if order == RANDOM:
            _shuffle_window(visit, 0, size, low, seed, level)
        _match_nodes(
            indptr, indices, weight, weighted, order == RANDOM, 0, seed, level, visit, 0, size, free, heaviest, mate
        )  # fmt: skip


@kernel
def pair_waiting(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, first: int, last: int, waiting: IndexArray,
    mate: IndexArray,
) -> None:  # fmt: skip
    """Match the nodes that :func:`match` left alone with each other if they have a common neighbour.

    The nodes are visited by index. A node looks at its neighbours where another node waits, and joins that of the neighbour with
    the largest ratio of weight to number of edges, ties by index. If no node waits, it waits itself at all of its neighbours.
    Afterwards no two nodes that are alone have a common neighbour. Edges of negative weight do not count.

    Args:
        indptr, indices, weight, weighted: Rows of the block.
        first, last: Range of nodes: whole graphs, or ascending ranges of one graph.
        waiting: ``[N]`` scratch, -1 on entry.
        mate: ``[N]`` partner of each node, changed in place.
    """
    for u in range(first, last):
        if mate[u] != u:
            continue
        best, partner = -1.0, np.int32(-1)
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            other = waiting[v]
            if v == u or other < 0 or mate[other] != other or other == u:
                continue
            share = (weight[e] if weighted else 1.0) / float(indptr[v + 1] - indptr[v] + 1)
            if share > best and share >= 0.0:
                best, partner = share, other
        if partner >= 0:
            mate[u] = partner
            mate[partner] = u
            continue
        for e in range(indptr[u], indptr[u + 1]):
            if indices[e] != u and not (weighted and weight[e] < 0.0):
                waiting[indices[e]] = u


@kernel
def join_pairs(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, first: int, last: int, mate: IndexArray
) -> None:  # fmt: skip
    """Let each node that is still alone after :func:`pair_waiting` join the cluster of a neighbour.

    It is the neighbour with the largest ratio of weight to number of edges, ties by index. A pair gets at most one such node from each
    of its two nodes, so that a cluster has at most four nodes.

    Args:
        indptr, indices, weight, weighted: Rows of the block.
        first, last: Range of nodes: whole graphs, or ascending ranges of one graph, after :func:`pair_waiting` of all ranges.
        mate: ``[N]`` partner of each node, changed in place. A node that is not the smallest of its cluster gets a smaller member of it.
    """
    for u in range(first, last):
        if mate[u] != u:
            continue
        best, anchor = -1.0, np.int32(-1)
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            share = (weight[e] if weighted else 1.0) / float(indptr[v + 1] - indptr[v] + 1)
            if v != u and share > best and share >= 0.0:
                best, anchor = share, v
        if anchor < 0:
            continue
        while mate[anchor] < anchor:
            anchor = mate[anchor]
        mate[u] = anchor
        if u < anchor:
            mate[anchor] = u


@kernel
def number_pairs(mate: IndexArray, node_ptr: PtrArray, cluster: IndexArray, super_ptr: PtrArray) -> None:
    """Write the supernode of each node, numbered by smallest member, and the offsets of the supernodes.

    A node whose ``mate`` is smaller belongs to the supernode of this node. Any other node is the smallest of its supernode.
    """
    count = np.int32(0)
    super_ptr[0] = 0
    for g in range(node_ptr.shape[0] - 1):
        for u in range(node_ptr[g], node_ptr[g + 1]):
            # The smaller node of a pair already has its number. For the smaller node itself, the value that is read
            # from ``cluster`` is not used; reading it avoids a branch.
            other = mate[u]
            leads = other >= u
            cluster[u] = count if leads else cluster[np.uint32(other)]
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
    for g in range(node_ptr.shape[0] - 1):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        _shuffle(visit, lo, hi - lo, seed, level)
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
