"""Bi-stride levels: every second front of a breadth-first search, and the links of nodes two hops apart.

``indptr`` and ``indices`` are symmetric rows, sorted by column. Self loops and parallel entries have no effect.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import ByteArray, FloatArray, IndexArray, PtrArray

__all__ = ["EVEN", "ODD", "collect_links", "count_links", "keep_fronts", "list_kept_neighbours"]

EVEN, ODD = 2, 3
"""Marks of nodes after the second search: the parity of the distance from the seed."""

_NEW, _REACHED = 0, 1
_U = np.uint64


@kernel(inner=True)
def _search(
    indptr: PtrArray, indices: IndexArray, seed: int, before: int, even: int, odd: int, mark: ByteArray, queue: IndexArray,
) -> tuple[int, int, int]:  # fmt: skip
    """Search from ``seed`` over nodes with the mark ``before``; mark them by the parity of their distance.

    Returns:
        Number of nodes reached, position of the last front in ``queue``, and number of nodes of even distance.
    """
    queue[0] = seed
    mark[seed] = even
    head, tail, front, evens = _U(0), _U(1), _U(0), 1
    even_next = False
    while True:
        end = tail
        value = even if even_next else odd
        while head < end:
            node = _U(queue[head])
            head += _U(1)
            for e in range(_U(indptr[node]), _U(indptr[node + _U(1)])):
                other = _U(indices[e])
                if mark[other] == before:
                    mark[other] = value
                    queue[tail] = other
                    tail += _U(1)
        if tail == end:
            return np.int64(tail), np.int64(front), evens
        front = end
        if even_next:
            evens += np.int64(tail - end)
        even_next = not even_next


@kernel
def keep_fronts(
    indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, first: int, last: int, mark: ByteArray, queue: IndexArray,
    kept: ByteArray,
) -> None:  # fmt: skip
    """Write 1 to ``kept`` ``[N]`` for the nodes of every second front, for graphs ``first .. last - 1``.

    The seed of a component is the node of the smallest index among those farthest from its first node. The fronts whose distance
    from the seed has the parity with fewer nodes are kept, and those of even distance if both have the same number. A node
    without neighbours is kept.

    Args:
        mark: ``[N]`` zeros, overwritten by ``EVEN`` and ``ODD``.
        queue: Scratch for the nodes of the largest component.
    """
    for start in range(node_ptr[first], node_ptr[last]):
        if mark[start] != _NEW:
            continue
        size, front, evens = _search(indptr, indices, start, _NEW, _REACHED, _REACHED, mark, queue)
        seed = queue[front]
        for i in range(front + 1, size):
            if queue[i] < seed:
                seed = queue[i]
        size, front, evens = _search(indptr, indices, seed, _REACHED, EVEN, ODD, mark, queue)
        choice = EVEN if 2 * evens <= size or evens == size else ODD
        for i in range(size):
            node = queue[i]
            kept[node] = mark[node] == choice


@kernel
def list_kept_neighbours(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, cluster: IndexArray, first: int, last: int,
    near: IndexArray, near_weight: FloatArray, count: IndexArray,
) -> None:  # fmt: skip
    """List the supernodes of the kept neighbours of nodes ``first .. last - 1``, in ascending order of the neighbours.

    Args:
        cluster: ``[N]`` supernode of each kept node, -1 for the others.
        near: ``[nnz]`` output; the list of node ``i`` starts at ``indptr[i]``.
        near_weight: ``[nnz]`` output, weights of the edges; not accessed if ``weighted`` is false.
        count: ``[N]`` output, lengths of the lists.
    """
    for i in range(first, last):
        begin = _U(indptr[i])
        slot, previous = begin, np.int32(-1)
        for e in range(begin, _U(indptr[i + 1])):
            other = indices[e]
            found = cluster[_U(other)]
            near[slot] = found
            if weighted:
                near_weight[slot] = weight[e]
            slot += _U((found >= 0) & (other != previous) & (other != i))
            previous = other
        count[i] = slot - begin


@kernel
def count_links(
    indptr: PtrArray, indices: IndexArray, nodes: IndexArray, count: IndexArray, span: int, direct: bool, first: int,
    last: int, links: PtrArray,
) -> None:  # fmt: skip
    """Write an upper bound of the entries that :func:`collect_links` finds for supernodes ``first .. last - 1``."""
    most = 2 * span + 1
    for c in range(first, last):
        node = nodes[c]
        total = np.int64(count[node]) if direct else 0
        for e in range(_U(indptr[node]), _U(indptr[node + 1])):
            total += min(np.int64(count[_U(indices[e])]), most)
        links[c] = total


@kernel(inline="always")
def _walk_weight(a: float, b: float, degree: float) -> float:
    """Return ``a * b / degree``, and 0 if the degree is 0. No step overflows, because no weight is above the degree."""
    low, high = (a, b) if a < b else (b, a)
    return low * (high / degree) if degree > 0.0 else 0.0


@kernel
def collect_links(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, nodes: IndexArray, near: IndexArray,
    near_weight: FloatArray, count: IndexArray, degree: FloatArray, span: int, direct: bool, first: int, last: int,
    start: PtrArray, stop: PtrArray, cols: IndexArray, values: FloatArray,
) -> None:  # fmt: skip
    """Write the supernodes that are linked with supernodes ``first .. last - 1``, unsorted and with repetitions.

    Two kept neighbours of a node are linked if they are at most ``span`` positions apart in its list, which is closed to a ring.

    Args:
        nodes: ``[K]``, the kept nodes.
        near, near_weight, count: Result of :func:`list_kept_neighbours`.
        degree: ``[N]``, sum of the weights of each node.
        direct: Link kept nodes that are neighbours, too.
        start, stop: ``[last - first]`` output: ranges of the rows in ``cols``.
        cols: Output, at least as long as the sum of :func:`count_links`.
        values: Output, weights ``a b / d`` of walks over a node of degree ``d``. ``weight``, ``near_weight``, ``degree`` and
            ``values`` are not accessed if ``weighted`` is false.
    """
    slot = _U(0)
    for c in range(first, last):
        node, own = nodes[c], np.int32(c)
        start[c - first] = slot
        if direct:
            for i in range(_U(indptr[node]), _U(indptr[node] + count[node])):
                cols[slot] = near[i]
                if weighted:
                    values[slot] = near_weight[i]
                slot += _U(1)
        previous = np.int32(-1)
        for e in range(_U(indptr[node]), _U(indptr[node + 1])):
            middle = indices[e]
            if middle in (previous, node):
                continue
            previous = middle
            begin, size = indptr[_U(middle)], np.int64(count[_U(middle)])
            if size <= 2 * span + 1:
                for i in range(_U(begin), _U(begin + size)):
                    cols[slot] = near[i]
                    if weighted:
                        values[slot] = _walk_weight(weight[e], near_weight[i], degree[_U(middle)])
                    slot += _U(near[i] != own)
                continue
            low, high = begin, begin + size
            while high - low > 1:
                half = (low + high) >> 1
                if near[half] <= own:
                    low = half
                else:
                    high = half
            for step in range(-span, span + 1):
                if step != 0:
                    at = low - begin + step
                    if at < 0:
                        at += size
                    elif at >= size:
                        at -= size
                    cols[slot] = near[begin + at]
                    if weighted:
                        values[slot] = _walk_weight(weight[e], near_weight[begin + at], degree[_U(middle)])
                    slot += _U(1)
        stop[c - first] = slot
