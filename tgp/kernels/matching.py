"""Greedy heavy-edge matching (each node, in turn, joins its heaviest free neighbour) and random parts."""

from __future__ import annotations

import numpy as np
from numba import njit

from tgp.kernels._prims import hash_u64

__all__ = ["BY_DEGREE", "BY_INDEX", "RANDOM", "match", "random_partition", "visiting_order"]

RANDOM, BY_DEGREE, BY_INDEX = 0, 1, 2
"""Codes of the visiting orders."""

_S32 = np.uint64(32)


@njit(cache=True, nogil=True)
def _draw(seed, level, index, draw, bound):
    """A number in ``[0, bound)``: 32 random bits scaled by ``bound < 2**32``."""
    bits = hash_u64(seed, level, index, draw) >> _S32
    return np.int64((bits * np.uint64(bound)) >> _S32)


@njit(cache=True, nogil=True)
def _shuffle(visit, node_ptr, seed, level):
    """Fisher-Yates per graph, in place; draws hash (seed, level, position in the graph)."""
    for g in range(node_ptr.shape[0] - 1):
        lo = node_ptr[g]
        for i in range(node_ptr[g + 1] - lo - 1, 0, -1):
            j = _draw(seed, level, i, 0, i + 1)
            visit[lo + i], visit[lo + j] = visit[lo + j], visit[lo + i]


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
def visiting_order(indptr, indices, node_ptr, order, seed, level):
    """``[N]`` int32: the nodes of each graph in the order they are visited."""
    visit = np.arange(indptr.shape[0] - 1).astype(np.int32)
    if order == RANDOM:
        _shuffle(visit, node_ptr, seed, level)
    elif order == BY_DEGREE:
        _sort_by_degree(visit, indptr, indices, node_ptr)
    return visit


@njit(cache=True, nogil=True)
def _partner(indptr, indices, weight, weighted, mate, u, lo, pick, seed, level):
    """The heaviest free neighbour of ``u``, or -1. Negative weights never match."""
    best = 0.0
    partner = -1
    ties = 0
    for e in range(indptr[u], indptr[u + 1]):
        v = indices[e]
        if v == u or mate[v] >= 0:
            continue
        if weighted:
            w = weight[e]
            if w < best:
                continue
            if w > best:
                best = w
                ties = 0
        ties += 1
        if ties == 1:
            partner = v
    if ties < 2 or not pick:
        return partner
    skip = _draw(seed, level, u - lo, 1, ties)
    for e in range(indptr[u], indptr[u + 1]):
        v = indices[e]
        if v == u or mate[v] >= 0 or (weighted and weight[e] != best):
            continue
        if skip == 0:
            return v
        skip -= 1
    return partner


@njit(cache=True, nogil=True)
def match(indptr, indices, weight, weighted, node_ptr, order, seed, level):
    """``(cluster [N] int32, super_ptr [B + 1])`` of the greedy matching.

    Supernodes are numbered by smallest member. Among equally heavy free neighbours the choice is a
    hash of (seed, level, visited node) for the random order, the smallest index for the others.
    """
    num_nodes = indptr.shape[0] - 1
    visit = visiting_order(indptr, indices, node_ptr, order, seed, level)
    mate = np.full(num_nodes, -1, np.int32)
    cluster = np.empty(num_nodes, np.int32)
    super_ptr = np.empty(node_ptr.shape[0], np.int64)
    super_ptr[0] = 0
    count = np.int64(0)
    for g in range(node_ptr.shape[0] - 1):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        for i in range(lo, hi):
            u = visit[i]
            if mate[u] >= 0:
                continue
            v = _partner(indptr, indices, weight, weighted, mate, u, lo, order == RANDOM, seed, level)
            if v < 0:
                mate[u] = u
            else:
                mate[u] = v
                mate[v] = u
        for u in range(lo, hi):
            if mate[u] >= u:
                cluster[u] = count
                count += 1
            else:
                cluster[u] = cluster[mate[u]]
        super_ptr[g + 1] = count
    return cluster, super_ptr


@njit(cache=True, nogil=True)
def random_partition(node_ptr, super_ptr, seed, level):
    """``cluster [N]`` int32: each graph in as many non-empty random parts as ``super_ptr`` says.

    The first nodes of a shuffle get one part each, the others a part by hash. Parts are numbered
    by smallest member.
    """
    num_nodes = node_ptr[-1]
    visit = np.arange(num_nodes).astype(np.int32)
    _shuffle(visit, node_ptr, seed, level)
    cluster = np.empty(num_nodes, np.int32)
    name = np.full(super_ptr[-1], -1, np.int32)
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
    return cluster
