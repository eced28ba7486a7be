"""From eigenvectors to cuts: which nodes of every component are kept.

The sign of a node's entry is its side. What signs leave open is settled by rules that do not depend on rounding,
on other graphs or on threads: which of the two sides is kept, where nodes go whose entry is zero or below the
resolution of the solver, and what is done with a cut that is too small.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["cut_sides"]

_ZERO = 1e-9
"""An entry below this share of the largest one is zero by symmetry, its sign is rounding."""
_TIE = 1e-9
"""Degrees that differ by less than this share are equal (sums in different order)."""
_BALANCED = 1e-12
"""A node with less than this share of its weight in favour of one side has no preference."""
_MAX_SWEEPS = 100


@njit(cache=True, nogil=True)
def _pull(indptr, indices, weight, side, i):
    """``sum_j w_ij side_j``: positive if more weight is cut with ``i`` on the negative side."""
    total = 0.0
    for e in range(indptr[i], indptr[i + 1]):
        total += weight[e] * side[indices[e]]
    return total


@njit(cache=True, nogil=True)
def _orient(nodes, degree, side):
    """Turn the signs so that the hub is kept: the decided node of largest degree.

    If both sides have such a node, the side with fewer nodes is kept; if they are as many, the
    side of the hub with the smallest id. Returns whether the signs were turned.
    """
    top = 0.0
    surplus = 0
    for i in nodes:
        surplus += side[i]
        if side[i] != 0:
            top = max(top, degree[i])
    none = np.int64(2**62)
    plus, minus = none, none
    for i in nodes:
        if degree[i] >= top * (1.0 - _TIE):
            if side[i] > 0:
                plus = min(plus, i)
            elif side[i] < 0:
                minus = min(minus, i)
    if minus == none or (plus != none and (surplus < 0 or (surplus == 0 and plus < minus))):
        return False
    for i in nodes:
        side[i] = -side[i]
    return True


@njit(cache=True, nogil=True)
def _fill_zeros(indptr, indices, weight, nodes, degree, side, queued):
    """Give every node of side 0 the side that cuts more weight, outwards from the decided ones."""
    queue = np.empty(nodes.shape[0], np.int32)
    tail = 0
    for i in nodes:
        if side[i] == 0:
            for e in range(indptr[i], indptr[i + 1]):
                if side[indices[e]] != 0:
                    queue[tail] = i
                    queued[i] = True
                    tail += 1
                    break
    head = 0
    while head < tail:
        i = queue[head]
        head += 1
        pull = _pull(indptr, indices, weight, side, i)
        # A balanced node is kept, as the sign rule v_i >= 0 keeps an entry of zero.
        side[i] = -1 if pull > _BALANCED * degree[i] else 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if side[j] == 0 and not queued[j]:
                queue[tail] = j
                queued[j] = True
                tail += 1


@njit(cache=True, nogil=True)
def _improve(indptr, indices, weight, nodes, degree, side, free):
    """Flip free nodes, in order, while a flip cuts more weight."""
    for _ in range(_MAX_SWEEPS):
        flips = 0
        for k in range(nodes.shape[0]):
            i = nodes[k]
            if free[k]:
                pull = _pull(indptr, indices, weight, side, i)
                if pull * side[i] > _BALANCED * degree[i]:
                    side[i] = -side[i]
                    flips += 1
        if flips == 0:
            break


@njit(cache=True, nogil=True)
def _share(indptr, indices, weight, nodes, side):
    """Share of the weight that the cut treats well: positive edges cut, negative ones not."""
    good = 0.0
    total = 0.0
    for i in nodes:
        for e in range(indptr[i], indptr[i + 1]):
            total += abs(weight[e])
            if (weight[e] > 0.0) != (side[i] == side[indices[e]]):
                good += abs(weight[e])
    return good / total


@njit(cache=True, nogil=True)
def _cut(indptr, indices, weight, nodes, entry, residual, degree, side, queued):
    """Write the sides of one component of two or more nodes."""
    top = 0.0
    for v in entry:
        top = max(top, abs(v))
    noise = max(_ZERO * top, min(residual, 0.1 * top))
    free = np.zeros(nodes.shape[0], np.bool_)
    for k in range(nodes.shape[0]):
        free[k] = abs(entry[k]) <= noise
        side[nodes[k]] = 0 if free[k] else (1 if entry[k] > 0.0 else -1)
    turn = -1 if _orient(nodes, degree, side) else 1
    for k in range(nodes.shape[0]):
        if free[k] and abs(entry[k]) > _ZERO * top:
            side[nodes[k]] = turn if entry[k] > 0.0 else -turn
    _fill_zeros(indptr, indices, weight, nodes, degree, side, queued)
    _improve(indptr, indices, weight, nodes, degree, side, free)
    if _share(indptr, indices, weight, nodes, side) < 0.5:
        for k in range(nodes.shape[0]):
            free[k] = True
        _improve(indptr, indices, weight, nodes, degree, side, free)
        _orient(nodes, degree, side)
    for i in nodes:
        if side[i] < 0:
            return
    # Only negative weights ask to keep everything; a level that drops nothing would stall.
    least = nodes[0]
    for i in nodes:
        if degree[i] < degree[least] or (degree[i] == degree[least] and i > least):
            least = i
    side[least] = -1


@njit(cache=True, nogil=True)
def cut_sides(indptr, indices, weight, order, ptr, entry, residual):
    """The side of every node: 1 kept, -1 dropped. An isolated node is kept; any other component has both.

    1. An entry decides if it is above the residual and not zero; its sign is the side.
    2. The side of the node of largest degree is kept (see ``_orient``).
    3. Nodes that are not decided start from their sign (zero: the side that cuts more), then flip
       one by one while that cuts more weight.
    4. If the cut has less than half of the weight, all nodes may flip: the result has at least half.

    Args:
        indptr, indices, weight: simple undirected graphs.
        order, ptr, entry, residual: components as :func:`~tgp.kernels.spectral_vector.component_vectors` returns
            them.

    Returns:
        ``[N]`` int8.
    """
    count = order.shape[0]
    side = np.zeros(count, np.int8)
    degree = np.zeros(count)
    for i in range(count):
        for e in range(indptr[i], indptr[i + 1]):
            degree[i] += abs(weight[e])
    queued = np.zeros(count, np.bool_)
    for c in range(ptr.shape[0] - 1):
        lo, hi = ptr[c], ptr[c + 1]
        if hi - lo == 1:
            side[order[lo]] = 1
        else:
            nodes = order[lo:hi]
            _cut(indptr, indices, weight, nodes, entry[lo:hi], residual[c], degree, side, queued)
    return side
