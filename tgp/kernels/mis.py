"""k-hop maximal independent sets: scores, ranks, and a scan by rank.

On a symmetric graph the parallel rounds of greedy independent-set algorithms end in the same set as a
scan: go through the nodes by rank, take a node that nothing covers yet, cover its k-hop ball. The scan
does it in one pass.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tgp.kernels._prims import hash_uniform

__all__ = [
    "ASYMMETRIC",
    "BALANCED",
    "CANONICAL",
    "CONSTANT",
    "DEGREE",
    "GIVEN",
    "GREEDY",
    "NO_HEURISTIC",
    "RANDOM",
    "UNBALANCED",
    "WEIGHTED_GREEDY",
    "add_mirrors",
    "check_symmetry",
    "cover_by_order",
    "cover_by_score",
    "number_clusters",
]

GIVEN, RANDOM, CONSTANT, CANONICAL, DEGREE = 0, 1, 2, 3, 4
"""Codes of the scores."""

NO_HEURISTIC, GREEDY, WEIGHTED_GREEDY = 0, 1, 2
"""Codes of what scores are divided by before ranking."""

BALANCED, UNBALANCED, ASYMMETRIC = 0, 1, 2
"""Findings of :func:`check_symmetry`: every edge has its mirror image with the same multiplicity, with
another multiplicity, or some edge has none."""

_FEW = 64
_SIGN = np.uint64(1 << 63)
_BYTE = np.uint64(255)


@njit(cache=True, nogil=True)
def check_symmetry(indptr, indices, node_ptr, finding):
    """Fill ``finding [B]``.

    Rows come in ascending order, so the mirror image of an edge to a larger node must be the next
    entry of that node's row, and a row whose turn it is must have no smaller node left.
    """
    cursor = indptr[:-1].copy()
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


@njit(cache=True, nogil=True)
def add_mirrors(indptr, indices, weight, back_ptr, back, back_weight, weighted):
    """Rows and, for edges without a mirror image, their mirror images: ``(indptr, indices, weight)``.

    ``back*`` are the transposed rows. Edges that run both ways are left as they are.
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


@njit(cache=True, nogil=True)
def _add_incoming(indptr, indices, lo, hi, balanced, values, out):
    """``out[v] = values[v] + sum of values[u] over edges u -> v``; local ids."""
    if balanced:
        for i in range(lo, hi):
            total = values[i - lo]
            for e in range(indptr[i], indptr[i + 1]):
                total += values[indices[e] - lo]
            out[i - lo] = total
        return
    for i in range(hi - lo):
        out[i] = values[i]
    for i in range(lo, hi):
        for e in range(indptr[i], indptr[i + 1]):
            out[indices[e] - lo] += values[i - lo]


@njit(cache=True, nogil=True)
def _score(indptr, indices, weight, weighted, lo, hi, balanced, scorer, seed, level, score):
    """Raw scores of the nodes of one graph."""
    if scorer == RANDOM:
        for i in range(lo, hi):
            score[i] = hash_uniform(seed, level, i - lo, 0)
    elif scorer == CONSTANT:
        for i in range(lo, hi):
            score[i] = 1.0
    elif scorer == CANONICAL:
        for i in range(lo, hi):
            score[i] = lo - i
    elif scorer == DEGREE:
        if balanced and not weighted:
            for i in range(lo, hi):
                score[i] = indptr[i + 1] - indptr[i]
            return
        for i in range(lo, hi):
            score[i] = 0.0
        for e in range(indptr[lo], indptr[hi]):
            score[indices[e]] += weight[e] if weighted else 1.0


@njit(cache=True, nogil=True)
def _sort(keys, order, n, other_keys, other_order):
    """Stable ascending sort of ``order`` by ``keys``; returns whether the result is in the other pair.

    Insertion for a few, else byte by byte from the least: bytes that all keys share cost nothing.
    """
    if n <= _FEW:
        for a in range(1, n):
            key, item = keys[a], order[a]
            b = a
            while b > 0 and keys[b - 1] > key:
                keys[b], order[b] = keys[b - 1], order[b - 1]
                b -= 1
            keys[b], order[b] = key, item
        return False
    counts = np.zeros((8, 256), np.int64)
    for a in range(n):
        key = keys[a]
        for digit in range(8):
            counts[digit, key & _BYTE] += 1
            key >>= np.uint64(8)
    swapped = False
    for digit in range(8):
        shift = np.uint64(8 * digit)
        row = counts[digit]
        if row[(keys[0] >> shift) & _BYTE] == n:
            continue
        total = 0
        for b in range(256):
            total, row[b] = total + row[b], total
        for a in range(n):
            b = (keys[a] >> shift) & _BYTE
            other_keys[row[b]], other_order[row[b]] = keys[a], order[a]
            row[b] += 1
        keys, other_keys = other_keys, keys
        order, other_order = other_order, order
        swapped = not swapped
    return swapped


@njit(cache=True, nogil=True, error_model="numpy")
def _rank_keys(score, divisor, lo, n, divide, key, bits):
    """Integers whose ascending order is: NaN, then descending ``score / divisor``."""
    for i in range(n):
        # Adding 0 turns -0 into 0, so that they tie.
        key[i] = (score[lo + i] / divisor[i] if divide else score[lo + i]) + 0.0
        if key[i] != key[i]:
            bits[i] = np.uint64(0)
        elif bits[i] & _SIGN == 0:
            bits[i] = ~(bits[i] ^ _SIGN)


@njit(cache=True, nogil=True)
def _cover(indptr, indices, lo, hi, shift, order, k, owner, budget, queue):
    """Scan by rank; ``owner`` of each node becomes the best-ranked member within k hops.

    ``budget`` is how far a node has passed on the word of some member. A later, worse member that
    reaches it with no more budget left has nothing new to say beyond it, so each entry is read at most k times.
    """
    for i in range(lo, hi):
        owner[i] = -1
        budget[i - lo] = -1
    for at in range(hi - lo):
        v = order[at] + shift
        if owner[v] >= 0:
            continue
        owner[v] = v
        if k == 1:
            for e in range(indptr[v], indptr[v + 1]):
                if owner[indices[e]] < 0:
                    owner[indices[e]] = v
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


@njit(cache=True, nogil=True)
def cover_by_score(
    indptr, indices, weight, weighted, node_ptr, finding, scorer, heuristic, k, seed, level, first, last, score, owner
):  # fmt: skip
    """Independent sets of the graphs ``first..last`` by descending score, ties by index.

    Args:
        indptr, indices: symmetric rows (of each graph whose edges do not have mirror images, symmetrise first).
        weight, weighted: ``[nnz]`` float64 or an empty array.
        node_ptr: ``[B + 1]`` int64.
        finding: ``[B]`` int8 from :func:`check_symmetry`.
        scorer, heuristic: codes.
        k: hops, at least 1.
        seed, level: of random scores.
        first, last: range of graphs, so that ranges can run on several threads.
        score: ``[N]`` float64: read if ``scorer`` is ``GIVEN``, filled otherwise.
        owner: ``[N]`` int32, filled: the member (block id) whose cluster each node joins.
    """
    most = np.int64(0)
    for g in range(first, last):
        most = max(most, node_ptr[g + 1] - node_ptr[g])
    key, total, more = np.empty(most), np.empty(most), np.empty(most)
    bits, other_bits = key.view(np.uint64), total.view(np.uint64)
    order, other_order = np.empty(most, np.int32), np.empty(most, np.int32)
    budget, queue = np.empty(most, np.int32), np.empty(most if k > 1 else 1, np.int32)
    for g in range(first, last):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        balanced = finding[g] == BALANCED
        _score(indptr, indices, weight, weighted, lo, hi, balanced, scorer, seed, level, score)
        if heuristic != NO_HEURISTIC:
            # The first sum of ones over a balanced graph is the length of a row.
            counted = heuristic == GREEDY and balanced
            for i in range(hi - lo):
                if counted:
                    total[i] = 1 + indptr[lo + i + 1] - indptr[lo + i]
                else:
                    total[i] = 1.0 if heuristic == GREEDY else score[lo + i]
            for _ in range(k - 1 if counted else k):
                _add_incoming(indptr, indices, lo, hi, balanced, total, more)
                total, more = more, total
        _rank_keys(score, total, lo, hi - lo, heuristic != NO_HEURISTIC, key, bits)
        for i in range(hi - lo):
            order[i] = i
        if _sort(bits, order, hi - lo, other_bits, other_order):
            _cover(indptr, indices, lo, hi, lo, other_order, k, owner, budget, queue)
        else:
            _cover(indptr, indices, lo, hi, lo, order, k, owner, budget, queue)


@njit(cache=True, nogil=True)
def cover_by_order(indptr, indices, order, k):
    """``owner`` of each node for one graph whose nodes are ranked by ``order`` (int64)."""
    n = indptr.shape[0] - 1
    owner = np.empty(n, np.int32)
    _cover(indptr, indices, 0, n, 0, order, k, owner, np.empty(n, np.int32), np.empty(max(n, 1), np.int32))
    return owner


@njit(cache=True, nogil=True)
def number_clusters(owner, node_ptr):
    """``(cluster [N] int32, super_ptr [B + 1], representative [K] int32)``: members in ascending order."""
    super_ptr = np.empty(node_ptr.shape[0], np.int64)
    super_ptr[0] = 0
    cluster = np.empty(owner.shape[0], np.int32)
    count = np.int64(0)
    for g in range(node_ptr.shape[0] - 1):
        for i in range(node_ptr[g], node_ptr[g + 1]):
            if owner[i] == i:
                cluster[i] = count
                count += 1
        super_ptr[g + 1] = count
    representative = np.empty(count, np.int32)
    for i in range(owner.shape[0]):
        cluster[i] = cluster[owner[i]]
        if owner[i] == i:
            representative[cluster[i]] = i
    return cluster, super_ptr, representative
