"""Cuts from eigenvectors: which nodes of every component are kept.

The sign of a node's entry is its side. Further rules decide which of the two sides is kept, the side of nodes whose
entry is zero or below the accuracy of the solver, and the treatment of a cut that is too small. These rules do not
depend on rounding, on other graphs or on threads.
"""

from __future__ import annotations

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import BoolArray, ByteArray, FloatArray, IndexArray, PtrArray

__all__ = ["cut_sides"]

_ZERO = 1e-9
"""An entry up to this value, relative to the largest one, is zero by symmetry, and its sign is a rounding error."""
_TIE = 1e-9
"""Degrees with a smaller relative difference are equal (their sums may have a different order)."""
_BALANCED = 1e-12
"""A node has no preference for a side if the difference of weights, relative to its degree, is at most this value."""
_MAX_SWEEPS = 100
_NONE = 2**62
"""Number that is larger than any node id."""


@kernel(inner=True)
def _orient(order: IndexArray, lo: int, hi: int, degree: FloatArray, side: ByteArray) -> bool:
    """Flip the signs in place if needed, so that the hub is kept: the decided node of largest degree.

    If both sides have such a node, the side with fewer nodes is kept. If the sides are equally large, the side of the
    hub with the smallest id is kept. Returns True if the signs were flipped.
    """
    top = 0.0
    surplus = 0
    for k in range(lo, hi):
        i = order[k]
        surplus += side[i]
        if side[i] != 0 and degree[i] > top:
            top = degree[i]
    plus, minus = _NONE, _NONE
    for k in range(lo, hi):
        i = order[k]
        if degree[i] >= top * (1.0 - _TIE):
            if side[i] > 0 and i < plus:
                plus = i
            elif side[i] < 0 and i < minus:
                minus = i
    if minus == _NONE or (plus != _NONE and (surplus < 0 or (surplus == 0 and plus < minus))):
        return False
    for k in range(lo, hi):
        side[order[k]] = -side[order[k]]
    return True


@kernel(inner=True)
def _flip_nodes(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, order: IndexArray, lo: int, hi: int,
    degree: FloatArray, side: ByteArray, free: BoolArray, all_free: bool,
) -> None:  # fmt: skip
    """Flip free nodes in order, and repeat while a flip increases the weight of the cut. Updates ``side`` in place."""
    for _ in range(_MAX_SWEEPS):
        flips = 0
        for k in range(lo, hi):
            if all_free or free[k]:
                i = order[k]
                # Positive if the cut has more weight with node i on the negative side.
                pull = 0.0
                for e in range(indptr[i], indptr[i + 1]):
                    pull += weight[e] * side[indices[e]]
                if pull * side[i] > _BALANCED * degree[i]:
                    side[i] = -side[i]
                    flips += 1
        if flips == 0:
            break


@kernel(inner=True)
def _fill_zeros(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, order: IndexArray, lo: int, hi: int,
    degree: FloatArray, side: ByteArray, queued: BoolArray, queue: IndexArray,
) -> None:  # fmt: skip
    """Assign each node of side 0 to the side that cuts more weight, breadth first from the decided nodes.

    Updates ``side`` in place. ``queued`` marks the nodes that were assigned.
    """
    tail = lo
    for k in range(lo, hi):
        i = order[k]
        if side[i] == 0:
            for e in range(indptr[i], indptr[i + 1]):
                if side[indices[e]] != 0:
                    queue[tail] = i
                    queued[i] = True
                    tail += 1
                    break
    head = lo
    while head < tail:
        i = queue[head]
        head += 1
        pull = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            pull += weight[e] * side[indices[e]]
        # A balanced node is kept, because the sign rule v_i >= 0 keeps an entry of zero.
        side[i] = -1 if pull > _BALANCED * degree[i] else 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if side[j] == 0 and not queued[j]:
                queue[tail] = j
                queued[j] = True
                tail += 1


@kernel
def cut_sides(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, first: int, last: int,
    order: IndexArray, extent: PtrArray, entry: FloatArray, residual: FloatArray, flip_all: bool, side: ByteArray,
    degree: FloatArray, queued: BoolArray, free: BoolArray, queue: IndexArray,
) -> None:  # fmt: skip
    """Write the side of every node of the graphs ``first`` to ``last - 1``: 1 is kept, -1 is dropped.

    An isolated node is kept. Any other component has nodes on both sides.

    1. An entry that is larger than the residual and not zero is decided; its sign is the side.
    2. The side of the node of largest degree is kept (see :func:`_orient`).
    3. Nodes that are not decided start from their sign (if zero: from the side that cuts more weight). They are flipped
       one by one while this increases the weight of the cut.
    4. If the cut has less than half of the weight, all nodes may flip. The result has at least half of the weight.

    Args:
        indptr, indices, weight: Simple undirected graphs.
        node_ptr, first, last: Offsets of the graphs, and the range of graphs.
        order, extent, entry, residual: Output of :func:`~tgp.kernels.spectral_vector.component_vectors`.
        flip_all: All nodes may flip in any case.
        side: ``[N]`` output.
        degree, queued, free, queue: ``[N]`` scratch; ``degree`` and ``queued`` are zeros.
    """
    at = node_ptr[first]
    while at < node_ptr[last]:
        lo = at
        at += extent[lo]
        if at - lo == 1:
            side[order[lo]] = 1
            continue
        top = 0.0
        for k in range(lo, at):
            i = order[k]
            for e in range(indptr[i], indptr[i + 1]):
                degree[i] += abs(weight[e])
            if abs(entry[k]) > top:
                top = abs(entry[k])
        noise = residual[lo] if residual[lo] < 0.1 * top else 0.1 * top
        if noise < _ZERO * top:
            noise = _ZERO * top
        for k in range(lo, at):
            free[k] = abs(entry[k]) <= noise
            side[order[k]] = 0 if free[k] else (1 if entry[k] > 0.0 else -1)
        turn = -1 if _orient(order, lo, at, degree, side) else 1
        for k in range(lo, at):
            if free[k] and abs(entry[k]) > _ZERO * top:
                side[order[k]] = turn if entry[k] > 0.0 else -turn
        _fill_zeros(indptr, indices, weight, order, lo, at, degree, side, queued, queue)
        all_free = flip_all
        for _ in range(2):
            _flip_nodes(indptr, indices, weight, order, lo, at, degree, side, free, all_free)
            if all_free:
                _orient(order, lo, at, degree, side)
                break
            # Share of the weight in positive edges that are cut and negative edges that are not.
            good, total = 0.0, 0.0
            for k in range(lo, at):
                i = order[k]
                for e in range(indptr[i], indptr[i + 1]):
                    total += abs(weight[e])
                    if (weight[e] > 0.0) != (side[i] == side[indices[e]]):
                        good += abs(weight[e])
            if good / total >= 0.5:
                break
            all_free = True
        # Only negative weights lead to a side without nodes. Drop one node, since a level that drops none makes no progress.
        least = order[lo]
        empty = True
        for k in range(lo, at):
            i = order[k]
            if side[i] < 0:
                empty = False
                break
            if degree[i] < degree[least] or (degree[i] == degree[least] and i > least):
                least = i
        if empty:
            side[least] = -1
