"""Cuts from eigenvectors: which nodes of every component are kept.

The sign of a node's entry is its side. Further rules decide which of the two sides is kept, the side of nodes whose
entry is zero or below the accuracy of the solver, and the treatment of a cut that is too small. These rules do not
depend on rounding, on other graphs or on threads.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, IntArray, PtrArray

__all__ = ["cut_sides"]

_ZERO = 1e-9
"""An entry up to this value, relative to the largest one, is zero by symmetry, and its sign is a rounding error."""
_TIE = 1e-9
"""Degrees with a smaller relative difference are equal (their sums may have a different order)."""
_BALANCED = 1e-12
"""A node has no preference for a side if the difference of weights, relative to its degree, is at most this value."""
_MAX_SWEEPS = 100


@kernel
def _signed_neighbour_weight(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, side: IntArray, i: int
) -> float:
    """Return ``sum_j w_ij side_j``: positive if the cut has more weight with ``i`` on the negative side."""
    total = 0.0
    for e in range(indptr[i], indptr[i + 1]):
        total += weight[e] * side[indices[e]]
    return total


@kernel
def _orient(nodes: IndexArray, degree: FloatArray, side: IntArray) -> bool:
    """Flip the signs in place if needed, so that the hub is kept: the decided node of largest degree.

    If both sides have such a node, the side with fewer nodes is kept. If the sides are equally large, the side of the
    hub with the smallest id is kept. Returns True if the signs were flipped.
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


@kernel
def _fill_zeros(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, nodes: IndexArray, degree: FloatArray, side: IntArray,
    queued: BoolArray,
) -> None:  # fmt: skip
    """Assign each node of side 0 to the side that cuts more weight, breadth first from the decided nodes.

    Updates ``side`` in place. ``queued`` marks the nodes that were assigned.
    """
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
        pull = _signed_neighbour_weight(indptr, indices, weight, side, i)
        # A balanced node is kept, because the sign rule v_i >= 0 keeps an entry of zero.
        side[i] = -1 if pull > _BALANCED * degree[i] else 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if side[j] == 0 and not queued[j]:
                queue[tail] = j
                queued[j] = True
                tail += 1


@kernel
def _flip_nodes(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, nodes: IndexArray, degree: FloatArray, side: IntArray,
    free: BoolArray,
) -> None:  # fmt: skip
    """Flip free nodes in order, and repeat while a flip increases the weight of the cut. Updates ``side`` in place."""
    for _ in range(_MAX_SWEEPS):
        flips = 0
        for k in range(nodes.shape[0]):
            i = nodes[k]
            if free[k]:
                pull = _signed_neighbour_weight(indptr, indices, weight, side, i)
                if pull * side[i] > _BALANCED * degree[i]:
                    side[i] = -side[i]
                    flips += 1
        if flips == 0:
            break


@kernel
def _cut_share(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, nodes: IndexArray, side: IntArray
) -> float:
    """Return the share of the total weight in positive edges that are cut and negative edges that are not."""
    good = 0.0
    total = 0.0
    for i in nodes:
        for e in range(indptr[i], indptr[i + 1]):
            total += abs(weight[e])
            if (weight[e] > 0.0) != (side[i] == side[indices[e]]):
                good += abs(weight[e])
    return good / total


@kernel
def _cut_component(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, nodes: IndexArray, entry: FloatArray, residual: float,
    degree: FloatArray, side: IntArray, queued: BoolArray,
) -> None:  # fmt: skip
    """Write the sides of one component of two or more nodes to ``side``."""
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
    _flip_nodes(indptr, indices, weight, nodes, degree, side, free)
    if _cut_share(indptr, indices, weight, nodes, side) < 0.5:
        for k in range(nodes.shape[0]):
            free[k] = True
        _flip_nodes(indptr, indices, weight, nodes, degree, side, free)
        _orient(nodes, degree, side)
    for i in nodes:
        if side[i] < 0:
            return
    # Only negative weights lead to a side without nodes. Drop one node, since a level that drops none makes no progress.
    least = nodes[0]
    for i in nodes:
        if degree[i] < degree[least] or (degree[i] == degree[least] and i > least):
            least = i
    side[least] = -1


@kernel
def cut_sides(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, order: IndexArray, ptr: PtrArray, entry: FloatArray,
    residual: FloatArray,
) -> IntArray:  # fmt: skip
    """Return the side of every node: 1 is kept, -1 is dropped.

    An isolated node is kept. Any other component has nodes on both sides.

    1. An entry that is larger than the residual and not zero is decided; its sign is the side.
    2. The side of the node of largest degree is kept (see :func:`_orient`).
    3. Nodes that are not decided start from their sign (if zero: from the side that cuts more weight). They are flipped
       one by one while this increases the weight of the cut.
    4. If the cut has less than half of the weight, all nodes may flip. The result has at least half of the weight.

    Args:
        indptr, indices, weight: Simple undirected graphs.
        order, ptr, entry, residual: Output of :func:`~tgp.kernels.spectral_vector.component_vectors`.

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
            _cut_component(indptr, indices, weight, nodes, entry[lo:hi], residual[c], degree, side, queued)
    return side
