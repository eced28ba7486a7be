"""Greedy heavy-edge matching (each node, in turn, joins its heaviest free neighbour) and random parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from tgp.kernels._prims import hash_u64

__all__ = ["BY_DEGREE", "BY_INDEX", "RANDOM", "match", "random_partition"]

Array = npt.NDArray[Any]

RANDOM, BY_DEGREE, BY_INDEX = 0, 1, 2
"""Codes of the visiting orders."""

_WINDOW = 4096
"""A random order shuffles windows of this many consecutive nodes, one window after the other. Up to
this size that is a shuffle of the whole graph; beyond, rows are still read from the cache."""

_S32 = np.uint64(32)
_U = np.uint64


@njit(cache=True, nogil=True)
def _draw(seed, level, index, draw, bound):
    """A number in ``[0, bound)``: 32 random bits scaled by ``bound < 2**32``."""
    bits = hash_u64(seed, level, index, draw) >> _S32
    return np.int64((bits * np.uint64(bound)) >> _S32)


@njit(cache=True, nogil=True)
def _shuffle(visit, node_ptr, seed, level):
    """Fisher-Yates per graph and window, in place; draws hash (seed, level, position in the graph)."""
    for g in range(node_ptr.shape[0] - 1):
        size = node_ptr[g + 1] - node_ptr[g]
        for low in range(0, size, _WINDOW):
            base = node_ptr[g] + low
            for i in range(min(_WINDOW, size - low) - 1, 0, -1):
                j = _draw(seed, level, low + i, 0, i + 1)
                visit[base + i], visit[base + j] = visit[base + j], visit[base + i]


@njit(cache=True, nogil=True)
def _sort_by_degree(visit, indptr, indices, node_ptr):
    """Few neighbours first (self loops do not count), ties by index; counting sort, in place."""
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


@njit(cache=True, nogil=True)
def _partner(indptr, indices, weight, weighted, free, u, index, pick, seed, level, heaviest):
    """The heaviest free neighbour of ``u`` (not free itself), or -1. Negative weights never match.

    The loop has no branch to guess: whether a neighbour is free is as good as random. Those that tie are kept in
    ``heaviest``, which is as long as the longest row.
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
    if ties == 0:
        return np.int32(-1)
    return heaviest[_draw(seed, level, index, 1, ties) if pick and ties > 1 else 0]


def match(
    indptr: Array,
    indices: Array,
    weight: Array,
    weighted: bool,
    node_ptr: Array,
    order: int,
    seed: int,
    level: int,
) -> tuple[Array, Array]:
    """``(cluster [N] int32, super_ptr [B + 1])`` of the greedy matching.

    Supernodes are numbered by smallest member. Among equally heavy free neighbours the choice is a
    hash of (seed, level, visited node) for the random order, the smallest index for the others.
    """
    num_nodes = len(indptr) - 1
    visit = np.arange(num_nodes, dtype=np.int32)
    mate = np.arange(num_nodes, dtype=np.int32)
    free = np.ones(num_nodes, np.bool_)
    super_ptr = np.empty(len(node_ptr), np.int64)
    if order == BY_DEGREE:
        _sort_by_degree(visit, indptr, indices, node_ptr)
    _match(indptr, indices, weight, weighted, node_ptr, order, seed, level, visit, free, mate)
    cluster = visit  # has done its duty
    _number(mate, node_ptr, cluster, super_ptr)
    return cluster, super_ptr


@njit(cache=True, nogil=True)
def _match(indptr, indices, weight, weighted, node_ptr, order, seed, level, visit, free, mate):
    """Visit and match. ``mate`` comes in as the identity and goes out as an involution."""
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
            v = _partner(
                indptr, indices, weight, weighted, free, u, u - lo, order == RANDOM, seed, level, heaviest
            )
            if v >= 0:
                free[v] = False
                mate[u] = v
                mate[v] = u


@njit(cache=True, nogil=True)
def _number(mate, node_ptr, cluster, super_ptr):
    """The supernode of each node, numbered by smallest member."""
    count = np.int32(0)
    super_ptr[0] = 0
    for g in range(node_ptr.shape[0] - 1):
        for u in range(node_ptr[g], node_ptr[g + 1]):
            # The smaller of two mates was named before. No branch to guess: what is read of itself is not used.
            smaller = min(mate[u], np.int32(u))
            leads = smaller == u
            cluster[u] = count if leads else cluster[np.uint32(smaller)]
            count += np.int32(leads)
        super_ptr[g + 1] = count


def random_partition(node_ptr: Array, super_ptr: Array, seed: int, level: int) -> Array:
    """``cluster [N]`` int32: each graph in as many non-empty random parts as ``super_ptr`` says.

    The first nodes of a shuffle get one part each, the others a part by hash. Parts are numbered
    by smallest member.
    """
    visit = np.arange(node_ptr[-1], dtype=np.int32)
    cluster = np.empty(len(visit), np.int32)
    name = np.full(super_ptr[-1], -1, np.int32)
    _random_partition(node_ptr, super_ptr, seed, level, visit, name, cluster)
    return cluster


@njit(cache=True, nogil=True)
def _random_partition(node_ptr, super_ptr, seed, level, visit, name, cluster):
    _shuffle(visit, node_ptr, seed, level)
    for g in range(node_ptr.shape[0] - 1):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        first = super_ptr[g]
        parts = super_ptr[g + 1] - first
        for i in range(hi - lo):
            part = i if i < parts else _draw(seed, level, i, 1, parts)
            cluster[visit[lo + i]] = first + part
        count = first
        for u in range(lo, hi):
            part = cluster[u]
            if name[part] < 0:
                name[part] = count
                count += 1
            cluster[u] = name[part]
