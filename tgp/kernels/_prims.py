"""Primitives that kernels of every file share. Rarely edited: numba does not notice edits across files.

Random numbers are hashes of counters, never a stream: the value for (seed, level, node) is the same
on any thread, in any batch and in any order of graphs.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = [
    "hash_u64",
    "hash_uniform",
    "hash_normal",
    "heap_drop",
    "heap_push",
    "heap_sink",
    "lowest_bit",
    "scan",
    "uf_find",
    "uf_union",
]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S11 = np.uint64(11)


@njit(cache=True, nogil=True, inline="always")
def _mix(z):
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@njit(cache=True, nogil=True)
def hash_u64(seed, level, node, draw):
    """64 random bits for (seed, level, node index inside its graph, number of the draw)."""
    z = _mix(np.uint64(seed) + _GOLDEN)
    z = _mix(z ^ (np.uint64(level) + _GOLDEN))
    z = _mix(z ^ (np.uint64(node) + _GOLDEN))
    return _mix(z ^ (np.uint64(draw) + _GOLDEN))


@njit(cache=True, nogil=True)
def hash_uniform(seed, level, node, draw):
    """A float64 in [0, 1) from :func:`hash_u64`."""
    return float(hash_u64(seed, level, node, draw) >> _S11) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def hash_normal(seed, level, node, draw):
    """A standard normal float64 (Box-Muller on draws ``2*draw`` and ``2*draw + 1``)."""
    u = hash_uniform(seed, level, node, 2 * draw)
    v = hash_uniform(seed, level, node, 2 * draw + 1)
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)


@intrinsic
def lowest_bit(typingctx, word):
    """Position of the lowest bit that is set in a uint64 other than 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@njit(cache=True, nogil=True)
def scan(counts):
    """Exclusive prefix sum with the total at the end: ``[n] -> [n + 1]`` int64."""
    out = np.empty(counts.shape[0] + 1, np.int64)
    total = np.int64(0)
    for i in range(counts.shape[0]):
        out[i] = total
        total += counts[i]
    out[counts.shape[0]] = total
    return out


@njit(cache=True, nogil=True)
def uf_find(parent, node):
    """Root of ``node`` with path halving."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit(cache=True, nogil=True)
def uf_union(parent, a, b):
    """Join two sets; the smaller root id wins, so roots are smallest members."""
    a = uf_find(parent, a)
    b = uf_find(parent, b)
    if a < b:
        parent[b] = a
    elif b < a:
        parent[a] = b


@njit(cache=True, nogil=True)
def heap_sink(keys, items, size, at):
    """Restore a binary min-heap over (key, item) below position ``at``."""
    key, item = keys[at], items[at]
    while True:
        c = 2 * at + 1
        if c >= size:
            break
        if c + 1 < size and (keys[c + 1] < keys[c] or (keys[c + 1] == keys[c] and items[c + 1] < items[c])):
            c += 1
        if keys[c] > key or (keys[c] == key and items[c] >= item):
            break
        keys[at], items[at] = keys[c], items[c]
        at = c
    keys[at], items[at] = key, item


@njit(cache=True, nogil=True)
def heap_push(keys, items, size, key, item):
    """Add an entry to such a heap; returns the new size."""
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if keys[up] < key or (keys[up] == key and items[up] < item):
            break
        keys[at], items[at] = keys[up], items[up]
        at = up
    keys[at], items[at] = key, item
    return size + 1


@njit(cache=True, nogil=True)
def heap_drop(keys, items, size):
    """Remove the least entry of such a heap; returns the new size."""
    size -= 1
    keys[0], items[0] = keys[size], items[size]
    if size > 1:
        heap_sink(keys, items, size, 0)
    return size
