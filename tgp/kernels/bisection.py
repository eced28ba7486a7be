"""Bisection of graphs: greedy growing of one side, and Fiduccia-Mattheyses refinement.

Rows are undirected, without parallel edges; self loops have no effect. The weights of a graph are multiples of a power of two
whose sums are exact in float64. The cut and all gains are therefore exact, and do not depend on the order of additions. The gain
of a node is the decrease of the cut if the node changes its side. Every graph is computed alone.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import hash_u64, kernel
from tgp.kernels.array_types import ByteArray, FloatArray, IndexArray, PtrArray

__all__ = ["cut_weights", "grow_sides", "measure_gains", "refine_sides"]

_U = np.uint64
_FREE, _DONE = np.int32(-1), np.int32(-2)
"""Values of ``place`` for nodes that are not in a heap: not yet considered, and moved or dropped in this pass."""

_MAX_PASSES = 10
"""Largest number of passes of a refinement."""

_MIN_STALL, _MAX_STALL = 25, 150
"""Bounds of the number of moves without a better cut after which a pass ends. Between them it is 1 % of the nodes."""


@kernel(inner=True)
def _rise(
    heap: IndexArray, place: IndexArray, gain: FloatArray, stamp: PtrArray, start: int, step: int, at: int
) -> None:
    """Move the node at position ``at`` of a heap up to its place. Position ``i`` is stored at ``start + step * i``.

    The largest gain comes first, and among equal gains the node that changed last. Stamps are unique.
    """
    v = heap[start + step * at]
    while at > 0:
        up = (at - 1) >> 1
        u = heap[start + step * up]
        if gain[u] > gain[v] or (gain[u] == gain[v] and stamp[u] > stamp[v]):
            break
        heap[start + step * at] = u
        place[u] = at
        at = up
    heap[start + step * at] = v
    place[v] = at


@kernel(inner=True)
def _sink(
    heap: IndexArray, place: IndexArray, gain: FloatArray, stamp: PtrArray, start: int, step: int, count: int, at: int
) -> None:  # fmt: skip
    """Move the node at position ``at`` of a heap of ``count`` nodes down to its place."""
    v = heap[start + step * at]
    while True:
        c = 2 * at + 1
        if c >= count:
            break
        u = heap[start + step * c]
        if c + 1 < count:
            w = heap[start + step * (c + 1)]
            if gain[w] > gain[u] or (gain[w] == gain[u] and stamp[w] > stamp[u]):
                c += 1
                u = w
        if gain[v] > gain[u] or (gain[v] == gain[u] and stamp[v] > stamp[u]):
            break
        heap[start + step * at] = u
        place[u] = at
        at = c
    heap[start + step * at] = v
    place[v] = at


@kernel(inner=True)
def _push(
    heap: IndexArray, place: IndexArray, gain: FloatArray, stamp: PtrArray, start: int, step: int, count: int, v: int
) -> int:  # fmt: skip
    """Add a node to a heap and return the new number of nodes."""
    heap[start + step * count] = v
    _rise(heap, place, gain, stamp, start, step, count)
    return count + 1


@kernel(inner=True)
def _remove_top(
    heap: IndexArray, place: IndexArray, gain: FloatArray, stamp: PtrArray, start: int, step: int, count: int
) -> int:
    """Remove the first node of a heap and return the new number of nodes."""
    place[heap[start]] = _DONE
    count -= 1
    if count > 0:
        heap[start] = heap[start + step * count]
        _sink(heap, place, gain, stamp, start, step, count, 0)
    return count


@kernel
def measure_gains(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, first: int, last: int, side: ByteArray,
    gain: FloatArray, foreign: IndexArray,
) -> float:  # fmt: skip
    """Write the gain and the number of neighbours on the other side of the nodes ``first..last``.

    Args:
        indptr, indices, weight: Rows.
        first, last: Range of nodes.
        side: ``[N]`` side of each node, 0 or 1.
        gain: Output ``[N]``.
        foreign: Output ``[N]``, number of neighbours on the other side.

    Returns:
        The sum of the weights of all entries of the range whose ends have different sides: twice the cut of a graph.
    """
    cut = 0.0
    for v in range(first, last):
        total, count = 0.0, np.int32(0)
        own = side[v]
        for e in range(_U(indptr[v]), _U(indptr[v + 1])):
            u = np.uint32(indices[e])
            if side[u] != own:
                total += weight[e]
                cut += weight[e]
                count += np.int32(1)
            elif u != v:
                total -= weight[e]
        gain[v] = total
        foreign[v] = count
    return cut


@kernel
def cut_weights(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, first: int, last: int,
    side: ByteArray, cut: FloatArray,
) -> None:  # fmt: skip
    """Write twice the cut of the graphs ``first..last`` to ``cut`` ``[graphs]``."""
    for g in range(first, last):
        total = 0.0
        for v in range(node_ptr[g], node_ptr[g + 1]):
            for e in range(_U(indptr[v]), _U(indptr[v + 1])):
                if side[np.uint32(indices[e])] != side[v]:
                    total += weight[e]
        cut[g] = total


@kernel(inner=True)
def _move(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, v: int, side: ByteArray, gain: FloatArray,
    foreign: IndexArray, heap: IndexArray, place: IndexArray, stamp: PtrArray, lo: int, hi: int, clock: int,
    count0: int, count1: int, insert: bool,
) -> tuple[int, int, int]:  # fmt: skip
    """Move a node to the other side and update its neighbours. Return the sizes of both heaps and the clock.

    Neighbours that are in a heap get their new position. If ``insert`` is true, neighbours at the boundary that are in no heap
    are added.
    """
    side[v] = np.int8(1) - side[v]
    own = side[v]
    gain[v] = -gain[v]
    others = np.int32(0)
    for e in range(_U(indptr[v]), _U(indptr[v + 1])):
        u = np.int64(indices[e])
        if u == v:
            continue
        if side[u] == own:
            gain[u] -= 2.0 * weight[e]
            foreign[u] -= np.int32(1)
        else:
            gain[u] += 2.0 * weight[e]
            foreign[u] += np.int32(1)
            others += np.int32(1)
        start, step = (lo, 1) if side[u] == 0 else (hi - 1, -1)
        clock += 1
        if place[u] >= 0:
            stamp[u] = clock
            _rise(heap, place, gain, stamp, start, step, place[u])
            _sink(heap, place, gain, stamp, start, step, count0 if side[u] == 0 else count1, place[u])
        elif insert and place[u] == _FREE and foreign[u] > 0:
            stamp[u] = clock
            if side[u] == 0:
                count0 = _push(heap, place, gain, stamp, start, step, count0, u)
            else:
                count1 = _push(heap, place, gain, stamp, start, step, count1, u)
    foreign[v] = others
    return count0, count1, clock


@kernel(inner=True)
def _refine_graph(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, lo: int, hi: int, size: PtrArray, target: int,
    limit0: int, limit1: int, side: ByteArray, gain: FloatArray, foreign: IndexArray, heap: IndexArray,
    place: IndexArray, stamp: PtrArray, moved: IndexArray, cut: float,
) -> tuple[int, float, int]:  # fmt: skip
    """Refine the sides of the nodes ``lo..hi``; see :func:`refine_sides`. Gains are valid on entry and on return.

    Returns:
        The violation of the limits, the cut and the distance of side 0 from its target size.
    """
    size0, size1, slack = np.int64(0), np.int64(0), np.int64(0)
    for v in range(lo, hi):
        if side[v] == 0:
            size0 += size[v]
        else:
            size1 += size[v]
        slack = max(slack, size[v])
    # Single nodes of a coarse graph can be larger than the room that the limits leave.
    soft0, soft1 = limit0 + slack - 1, limit1 + slack - 1
    stall = min(max((hi - lo) // 100, _MIN_STALL), _MAX_STALL)
    over = max(size0 - soft0, size1 - soft1, 0)
    best_over, best_cut, best_off = over, cut, abs(size0 - target)
    for _ in range(_MAX_PASSES):
        before_over, before_cut = best_over, best_cut
        count0, count1, clock = 0, 0, np.int64(0)
        for v in range(lo, hi):
            place[v] = _FREE
            stamp[v] = v - hi
        for v in range(lo, hi):
            if foreign[v] > 0:
                if side[v] == 0:
                    count0 = _push(heap, place, gain, stamp, lo, 1, count0, v)
                else:
                    count1 = _push(heap, place, gain, stamp, hi - 1, -1, count1, v)
        count, best_count = 0, 0
        while count - best_count < stall or best_over > 0:
            over0, over1 = size0 - soft0, size1 - soft1
            if over0 > 0 or over1 > 0:
                origin = 0 if over0 > over1 else 1
                if (count0 if origin == 0 else count1) == 0:
                    # The nodes at the boundary do not suffice: add all others of this side.
                    for v in range(lo, hi):
                        if place[v] == _FREE and side[v] == origin:
                            if origin == 0:
                                count0 = _push(heap, place, gain, stamp, lo, 1, count0, v)
                            else:
                                count1 = _push(heap, place, gain, stamp, hi - 1, -1, count1, v)
            else:
                fits0 = count0 > 0 and size[heap[lo]] + size1 <= soft1 + slack
                fits1 = count1 > 0 and size[heap[hi - 1]] + size0 <= soft0 + slack
                if fits0 and fits1:
                    gain0, gain1 = gain[heap[lo]], gain[heap[hi - 1]]
                    origin = 0 if gain0 > gain1 or (gain0 == gain1 and size0 >= target) else 1
                elif fits0 or fits1:
                    origin = 0 if fits0 else 1
                elif count0 > 0:
                    count0 = _remove_top(heap, place, gain, stamp, lo, 1, count0)
                    continue
                else:
                    origin = 1
            if (count0 if origin == 0 else count1) == 0:
                break
            if origin == 0:
                v = heap[lo]
                count0 = _remove_top(heap, place, gain, stamp, lo, 1, count0)
            else:
                v = heap[hi - 1]
                count1 = _remove_top(heap, place, gain, stamp, hi - 1, -1, count1)
            if (size1 if origin == 0 else size0) + size[v] > (soft1 if origin == 0 else soft0) + slack:
                continue
            moved_size = size[v] if origin == 0 else -size[v]
            size0 -= moved_size
            size1 += moved_size
            cut -= gain[v]
            count0, count1, clock = _move(
                indptr, indices, weight, v, side, gain, foreign, heap, place, stamp, lo, hi, clock, count0, count1, True
            )  # fmt: skip
            moved[lo + count] = v
            count += 1
            over, off = max(size0 - soft0, size1 - soft1, 0), abs(size0 - target)
            if over < best_over or (
                over == best_over and (cut < best_cut or (cut == best_cut and off < best_off))
            ):
                best_over, best_cut, best_off, best_count = over, cut, off, count
        for v in range(lo, hi):
            place[v] = _DONE
        while count > best_count:
            count -= 1
            v = moved[lo + count]
            moved_size = size[v] if side[v] == 0 else -size[v]
            size0 -= moved_size
            size1 += moved_size
            cut -= gain[v]
            _move(
                indptr, indices, weight, v, side, gain, foreign, heap, place, stamp, lo, hi, 0, 0, 0, False
            )  # fmt: skip
        if best_over == before_over and best_cut == before_cut:
            break
    return best_over, best_cut, best_off


@kernel
def refine_sides(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, first: int, last: int,
    size: PtrArray, target: PtrArray, limit0: PtrArray, limit1: PtrArray, side: ByteArray, gain: FloatArray,
    foreign: IndexArray, heap: IndexArray, place: IndexArray, stamp: PtrArray, moved: IndexArray,
) -> None:  # fmt: skip
    """Improve bisections by passes of Fiduccia and Mattheyses.

    A pass moves the node of the largest gain, each node at most once, also if the cut grows. It ends after a number of moves
    without a better result, and the moves after the best one are undone. A result is better if it exceeds the limits less; if this
    is equal, if its cut is smaller; if this is equal, if side 0 is closer to its target size. If all nodes have the size 1 and the
    limits can be met, they are met.

    Args:
        indptr, indices, weight: Undirected rows without parallel edges.
        node_ptr: ``[graphs + 1]`` offsets of the graphs.
        first, last: Range of graphs.
        size: ``[N]`` number of input nodes of each node, at least 1.
        target: ``[graphs]`` best size of side 0.
        limit0, limit1: ``[graphs]`` largest sizes of both sides. A graph whose nodes are larger than 1 may exceed them by
            the size of its largest node, minus 1.
        side: ``[N]`` side of each node, 0 or 1; changed.
        gain, foreign, heap, place, stamp, moved: Scratch ``[N]``.
    """
    for g in range(first, last):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        cut = 0.5 * measure_gains(indptr, indices, weight, lo, hi, side, gain, foreign)
        _refine_graph(
            indptr, indices, weight, lo, hi, size, target[g], limit0[g], limit1[g], side, gain, foreign, heap, place,
            stamp, moved, cut,
        )  # fmt: skip


@kernel(inner=True)
def _grow_side(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, lo: int, hi: int, size: PtrArray, target: int,
    start: int, side: ByteArray, gain: FloatArray, foreign: IndexArray, heap: IndexArray, place: IndexArray,
    stamp: PtrArray,
) -> None:  # fmt: skip
    """Grow side 0 from the node ``start`` by the nodes of the largest gains, until it is closest to its target size."""
    for v in range(lo, hi):
        side[v] = 1
        place[v] = _FREE
        stamp[v] = v - hi
    measure_gains(indptr, indices, weight, lo, hi, side, gain, foreign)
    size0, count, clock, seed = np.int64(0), 0, np.int64(0), start
    while size0 < target:
        if count == 0:
            # The side has no neighbours: go on with the next node of another component.
            checked = 0
            while place[seed] != _FREE and checked < hi - lo:
                seed = seed + 1 if seed + 1 < hi else lo
                checked += 1
            if place[seed] != _FREE:
                break
            count = _push(heap, place, gain, stamp, hi - 1, -1, count, seed)
        v = heap[hi - 1]
        count = _remove_top(heap, place, gain, stamp, hi - 1, -1, count)
        if size0 + size[v] - target > target - size0:
            continue
        size0 += size[v]
        _, count, clock = _move(
            indptr, indices, weight, v, side, gain, foreign, heap, place, stamp, lo, hi, clock, 0, count, True
        )  # fmt: skip


@kernel
def grow_sides(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, first: int, last: int,
    size: PtrArray, target: PtrArray, limit0: PtrArray, limit1: PtrArray, seed: int, level: int, draw: int,
    trials: int, best: ByteArray, side: ByteArray, gain: FloatArray, foreign: IndexArray, heap: IndexArray,
    place: IndexArray, stamp: PtrArray, moved: IndexArray,
) -> None:  # fmt: skip
    """Find bisections by growing side 0 from several nodes, each refined as in :func:`refine_sides`.

    The start nodes follow from hashes of ``seed``, ``level`` and ``draw + trial``. The first of equally good results is kept.

    Args:
        indptr, indices, weight, node_ptr, first, last, size, target, limit0, limit1: See :func:`refine_sides`.
        seed, level, draw: Key of the hashes.
        trials: Largest number of start nodes. It is at most half of the nodes.
        best: Output ``[N]``, side of each node.
        side, gain, foreign, heap, place, stamp, moved: Scratch ``[N]``.
    """
    for g in range(first, last):
        lo, hi = node_ptr[g], node_ptr[g + 1]
        nodes = hi - lo
        best_over, best_cut, best_off = np.int64(-1), 0.0, np.int64(0)
        for trial in range(min(trials, (nodes + 1) // 2)):
            start = lo + np.int64(hash_u64(seed, level, 0, draw + trial) % _U(nodes))
            _grow_side(
                indptr, indices, weight, lo, hi, size, target[g], start, side, gain, foreign, heap, place, stamp
            )  # fmt: skip
            cut = 0.5 * measure_gains(indptr, indices, weight, lo, hi, side, gain, foreign)
            over, cut, off = _refine_graph(
                indptr, indices, weight, lo, hi, size, target[g], limit0[g], limit1[g], side, gain, foreign, heap,
                place, stamp, moved, cut,
            )  # fmt: skip
            better = over < best_over or (
                over == best_over and (cut < best_cut or (cut == best_cut and off < best_off))
            )
            if trial == 0 or better:
                best_over, best_cut, best_off = over, cut, off
                for v in range(lo, hi):
                    best[v] = side[v]
