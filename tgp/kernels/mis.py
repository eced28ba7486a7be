"""k-hop maximal independent sets: scores, ranks, and a scan by rank.

On a symmetric graph, the parallel rounds of greedy independent-set algorithms produce the same set as a scan: visit
the nodes by rank, select each node that is not covered yet, and cover its k-hop neighbourhood. The scan needs one
pass.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import hash_uniform, kernel
from tgp.kernels._vectors import prefetch
from tgp.kernels.array_types import ByteArray, FloatArray, IndexArray, PtrArray, WordArray

__all__ = [
    "ASYMMETRIC",
    "BALANCED",
    "UNBALANCED",
    "add_incoming",
    "add_mirrors",
    "check_symmetry",
    "cover_by_order",
    "cover_by_score",
    "number_clusters",
    "random_scores",
    "sort_by_keys",
    "write_rank_keys",
]

BALANCED, UNBALANCED, ASYMMETRIC = 0, 1, 2
"""Results of :func:`check_symmetry`: every edge has a mirror image with the same multiplicity; every edge has a mirror
image, but some have another multiplicity; some edge has no mirror image."""

_INSERTION_LENGTH = 64
"""Largest number of keys that are sorted by insertion."""
_LARGE, _AHEAD = 1 << 16, 12
"""Number of nodes from which rows are requested in advance, and number of nodes by which."""
_SIGN = np.uint64(1 << 63)
_BYTE = np.uint64(255)


@kernel
def check_symmetry(
    indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, cursor: PtrArray, finding: ByteArray
) -> None:
    """Write the symmetry of each graph to ``finding`` ``[B]``. ``cursor`` is scratch, a copy of ``indptr`` on entry.

    Rows are visited in ascending order. The mirror image of an edge to a larger node must therefore be the next entry
    of that node's row, and when a row is visited, its entries to smaller nodes must all have been matched.
    """
    for g in range(node_ptr.shape[0] - 1):
        finding[g] = BALANCED
        for i in range(node_ptr[g], node_ptr[g + 1]):
            e = cursor[i]
            end = indptr[i + 1]
            if e < end and indices[e] < i:
                finding[g] = ASYMMETRIC
                break
            while e < end:
                j = indices[e]
                here = e
                e += 1
                while e < end and indices[e] == j:
                    e += 1
                if j == i:
                    continue
                back = cursor[j]
                at = back
                while at < indptr[j + 1] and indices[at] == i:
                    at += 1
                cursor[j] = at
                if at == back:
                    finding[g] = ASYMMETRIC
                    break
                if at - back != e - here:
                    finding[g] = UNBALANCED
            if finding[g] == ASYMMETRIC:
                break


@kernel
def add_mirrors(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, back_ptr: PtrArray, back: IndexArray,
    back_weight: FloatArray, weighted: bool,
) -> tuple[PtrArray, IndexArray, FloatArray]:  # fmt: skip
    """Add the mirror images of edges that have none; return ``(indptr, indices, weight)``.

    ``back_ptr``, ``back`` and ``back_weight`` are the transposed rows. Edges in both directions are not changed. Weight
    arrays are empty if ``weighted`` is false.
    """
    num_nodes = indptr.shape[0] - 1
    out_ptr = np.empty(num_nodes + 1, np.int64)
    out = np.empty(2 * indices.shape[0], np.int32)
    value = np.empty(2 * indices.shape[0] if weighted else 0)
    size = np.int64(0)
    for i in range(num_nodes):
        out_ptr[i] = size
        a, a_end = indptr[i], indptr[i + 1]
        b, b_end = back_ptr[i], back_ptr[i + 1]
        while a < a_end or b < b_end:
            if b >= b_end or (a < a_end and indices[a] <= back[b]):
                col = indices[a]
                while b < b_end and back[b] == col:
                    b += 1
                out[size] = col
                if weighted:
                    value[size] = weight[a]
                a += 1
            else:
                out[size] = back[b]
                if weighted:
                    value[size] = back_weight[b]
                b += 1
            size += 1
    out_ptr[num_nodes] = size
    return out_ptr, out[:size].copy(), value[: size if weighted else 0].copy()


@kernel
def add_incoming(
    indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, finding: ByteArray, only_unbalanced: bool, first: int,
    last: int, values: FloatArray, out: FloatArray,
) -> None:  # fmt: skip
    """Write ``out[v] = values[v] + sum of values[u] over edges u -> v`` for the nodes of the graphs ``first..last``.

    Args:
        indptr, indices, node_ptr, finding: See :func:`cover_by_score` and :func:`check_symmetry`.
        only_unbalanced: Copy the values of balanced graphs.
        first, last: Range of graphs.
        values: ``[N]`` values.
        out: ``[N]`` output.
    """
    for g in range(first, last):
        balanced = finding[g] == BALANCED
        for i in range(node_ptr[g], node_ptr[g + 1]):
            total = values[i]
            if balanced and not only_unbalanced:
                for e in range(indptr[i], indptr[i + 1]):
                    total += values[indices[e]]
            out[i] = total
        if not balanced:
            for i in range(node_ptr[g], node_ptr[g + 1]):
                for e in range(indptr[i], indptr[i + 1]):
                    out[indices[e]] += values[i]


@kernel
def random_scores(node_ptr: PtrArray, seed: int, level: int, score: FloatArray) -> None:
    """Write random scores in [0, 1) that depend on the seed, the level and the index of a node inside its graph."""
    for g in range(node_ptr.shape[0] - 1):
        for i in range(node_ptr[g], node_ptr[g + 1]):
            score[i] = hash_uniform(seed, level, i - node_ptr[g], 0)


@kernel(inner=True)
def sort_by_keys(
    keys: WordArray,
    order: IndexArray,
    n: int,
    other_keys: WordArray,
    other_order: IndexArray,
    counts: PtrArray,
) -> bool:
    """Sort ``order`` by ``keys``, ascending and stable; return True if the result is in the other two arrays.

    Uses insertion for few keys, otherwise a radix sort by bytes that skips bytes with equal values in all keys. ``counts``
    ``[8 * 256]`` is scratch.
    """
    if n <= _INSERTION_LENGTH:
        for a in range(1, n):
            key, item = keys[a], order[a]
            b = a
            while b > 0 and keys[b - 1] > key:
                keys[b], order[b] = keys[b - 1], order[b - 1]
                b -= 1
            keys[b], order[b] = key, item
        return False
    for b in range(2048):
        counts[b] = 0
    for a in range(n):
        key = keys[a]
        for digit in range(8):
            counts[np.uint64(256 * digit) + (key & _BYTE)] += 1
            key >>= np.uint64(8)
    swapped = False
    for digit in range(8):
        shift, start = np.uint64(8 * digit), np.uint64(256 * digit)
        if counts[start + ((keys[0] >> shift) & _BYTE)] == n:
            continue
        total = 0
        for at in range(256 * digit, 256 * digit + 256):
            size = counts[at]
            counts[at] = total
            total += size
        for a in range(n):
            b = start + ((keys[a] >> shift) & _BYTE)
            to = np.uint64(counts[b])
            other_keys[to], other_order[to] = keys[a], order[a]
            counts[b] += 1
        keys, other_keys = other_keys, keys
        order, other_order = other_order, order
        swapped = not swapped
    return swapped


@kernel(inner=True, error_model="numpy")
def write_rank_keys(
    score: FloatArray, divisor: FloatArray, lo: int, n: int, divide: bool, key: FloatArray, bits: WordArray
) -> None:
    """Write one integer per node to ``bits``. Sorted ascending, they rank NaN first, then the largest ``score / divisor``.

    ``bits`` is the output and a uint64 view of ``key``.
    """
    for i in range(n):
        # Adding 0 changes -0 to 0, so that both are equal.
        key[i] = (score[lo + i] / divisor[lo + i] if divide else score[lo + i]) + 0.0
        if key[i] != key[i]:
            bits[i] = np.uint64(0)
        elif bits[i] & _SIGN == 0:
            bits[i] = ~(bits[i] ^ _SIGN)


@kernel(inner=True)
def _cover(
    indptr: PtrArray, indices: IndexArray, lo: int, hi: int, shift: int, order: IndexArray, k: int, owner: IndexArray,
    budget: IndexArray, queue: IndexArray,
) -> None:  # fmt: skip
    """Write to ``owner`` the best-ranked selected node within k hops of each node.

    The selected nodes are visited from the best rank to the worst. Each starts a breadth-first search of k hops.
    ``budget[i]`` is the largest number of hops that a search had left when it reached node ``i``. A later search stops
    at a node where it has no more hops left than an earlier one. Each entry is therefore read at most k times.
    ``queue`` is scratch.
    """
    for i in range(lo, hi):
        owner[i] = -1
        budget[i - lo] = -1
    # Nodes of a large graph are visited at random. Their rows are requested from memory in advance.
    reach = hi - lo - 2 * _AHEAD if hi - lo >= _LARGE else 0
    for at in range(hi - lo):
        v = order[at] + shift
        if at < reach:
            later = np.uint64(order[at + 2 * _AHEAD] + shift)
            prefetch(owner, later)
            prefetch(indptr, later)
            later = np.uint64(order[at + _AHEAD] + shift)
            if owner[later] < 0:
                prefetch(indices, np.uint64(indptr[later]))
        if owner[v] >= 0:
            continue
        owner[v] = v
        if k == 1:
            for e in range(np.uint64(indptr[v]), np.uint64(indptr[v + 1])):
                # Write in any case. This avoids a branch that is often mispredicted.
                w = np.uint32(indices[e])
                owner[w] = v if owner[w] < 0 else owner[w]
            continue
        budget[v - lo] = k
        queue[0] = v
        head, tail = 0, 1
        while head < tail:
            u = queue[head]
            head += 1
            left = budget[u - lo] - 1
            for e in range(indptr[u], indptr[u + 1]):
                w = indices[e]
                if budget[w - lo] < left:
                    budget[w - lo] = left
                    if owner[w] < 0:
                        owner[w] = v
                    if left > 0:
                        queue[tail] = w
                        tail += 1


@kernel
def cover_by_score(
    indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, k: int, first: int, last: int, score: FloatArray,
    divisor: FloatArray, divide: bool, key: FloatArray, bits: WordArray, other_bits: WordArray, order: IndexArray,
    other_order: IndexArray, counts: PtrArray, budget: IndexArray, queue: IndexArray, owner: IndexArray,
) -> None:  # fmt: skip
    """Compute independent sets of the graphs ``first..last`` by descending score, ties by index.

    Args:
        indptr, indices: Symmetric rows. Call :func:`add_mirrors` first if an edge has no mirror image.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        k: Number of hops, at least 1.
        first, last: Range of graphs, so that ranges can run on several threads.
        score: ``[N]`` scores.
        divisor: ``[N]`` divisors of the scores, read if ``divide`` is true.
        divide: Rank the nodes by ``score / divisor``.
        key, bits, other_bits, order, other_order, budget, queue: Scratch of this call, as long as the largest graph of the
            range. ``bits`` is a uint64 view of ``key``. ``queue`` can have one element if ``k`` is 1.
        counts: ``[8 * 256]`` scratch of this call.
        owner: ``[N]`` output: the selected node (block id) whose cluster each node joins.
    """
    for g in range(first, last):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        write_rank_keys(score, divisor, lo, hi - lo, divide, key, bits)
        for i in range(hi - lo):
            order[i] = i
        result = order
        if sort_by_keys(bits, order, hi - lo, other_bits, other_order, counts):
            result = other_order
        _cover(indptr, indices, lo, hi, lo, result, k, owner, budget, queue)


@kernel
def cover_by_order(
    indptr: PtrArray, indices: IndexArray, order: IndexArray, k: int, budget: IndexArray, queue: IndexArray,
    owner: IndexArray,
) -> None:  # fmt: skip
    """Write the ``owner`` of each node of one graph whose nodes are ranked by ``order``. See :func:`cover_by_score`."""
    _cover(indptr, indices, 0, indptr.shape[0] - 1, 0, order, k, owner, budget, queue)


@kernel
def number_clusters(owner: IndexArray, node_ptr: PtrArray, cluster: IndexArray, super_ptr: PtrArray) -> None:
    """Number the clusters in ascending order of their selected nodes.

    Args:
        owner: ``[N]`` selected node of each node.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        cluster: ``[N]`` output, the cluster of each node.
        super_ptr: ``[B + 1]`` output, offsets of the clusters.
    """
    count = np.int64(0)
    super_ptr[0] = 0
    for g in range(node_ptr.shape[0] - 1):
        for i in range(node_ptr[g], node_ptr[g + 1]):
            if owner[i] == i:
                cluster[i] = count
                count += 1
        super_ptr[g + 1] = count
    for i in range(owner.shape[0]):
        cluster[i] = cluster[owner[i]]
