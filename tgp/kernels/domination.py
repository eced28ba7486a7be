"""Neighbourhoods inside neighbourhoods: shares of common neighbours, and the collapse of dominated nodes.

The closed neighbourhood ``N[u]`` is a node with its neighbours. A node is dominated if its closed neighbourhood is part of that of a
neighbour. Of nodes with the same closed neighbourhood, the one with the largest code dominates the others.

``indptr`` and ``indices`` are the rows of undirected graphs without parallel edges, sorted by column. Self loops have no effect.
``code`` ``[N]`` contains a random number for each node, from which the hashes of edges are made.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel, uf_find
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray, WordArray

__all__ = ["collapse_parts", "find_dominators", "share_neighbours"]

_U = np.uint64
_MIX = np.uint64(0x9E3779B97F4A7C15)

_MUCH_LONGER = 8
"""A list that is this many times as long as the other one is searched instead of read."""


@kernel(inner=True)
def _lower_bound(indices: IndexArray, low: int, high: int, value: int) -> int:
    """Return the first position in ``[low, high)`` whose index is at least ``value``, or ``high``."""
    while low < high:
        half = (low + high) >> 1
        if indices[half] < value:
            low = half + 1
        else:
            high = half
    return low


@kernel(inner=True)
def _count_common(indptr: PtrArray, indices: IndexArray, u: int, v: int) -> int:
    """Return the number of common neighbours of two nodes, without the two nodes."""
    a, a_end = indptr[u], indptr[u + 1]
    b, b_end = indptr[v], indptr[v + 1]
    if b_end - b < a_end - a:
        a, a_end, b, b_end = b, b_end, a, a_end
    count = 0
    if (a_end - a) * _MUCH_LONGER < b_end - b:
        for e in range(a, a_end):
            x = indices[e]
            b = _lower_bound(indices, b, b_end, x)
            if b < b_end and indices[b] == x and x != u and x != v:
                count += 1
        return count
    while a < a_end and b < b_end:
        x, y = indices[_U(a)], indices[_U(b)]
        count += (x == y) & (x != u) & (x != v)
        a += x <= y
        b += y <= x
    return count


@kernel
def share_neighbours(
    indptr: PtrArray, indices: IndexArray, size: PtrArray, first: int, last: int, score: FloatArray
) -> None:
    """Write the larger of the two shares ``|N[u] & N[v]| / |N[u]|`` and ``|N[u] & N[v]| / |N[v]|`` of each edge.

    It is 1 exactly if one of the nodes dominates the other. Both entries of the edges are written whose smaller node is in
    ``first..last``.

    Args:
        size: ``[N]`` size of the closed neighbourhoods.
        first, last: Range of rows.
        score: ``[nnz]`` output, 0 for self loops.
    """
    for u in range(first, last):
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            if v > u:
                common = 2 + _count_common(indptr, indices, u, v)
                share = common / min(size[u], size[v])
                score[e] = share
                score[_lower_bound(indices, indptr[v], indptr[v + 1], u)] = share
            elif v == u:
                score[e] = 0.0


@kernel(inline="always")
def _may_dominate(size: PtrArray, code: WordArray, u: int, v: int) -> bool:
    """Return True if ``v`` dominates ``u`` where one of the two neighbourhoods contains the other."""
    if size[u] != size[v]:
        return bool(size[u] < size[v])
    return bool(code[u] < code[v] or (code[u] == code[v] and v < u))


@kernel
def find_dominators(
    indptr: PtrArray, indices: IndexArray, score: FloatArray, size: PtrArray, code: WordArray, first: int, last: int,
    target: IndexArray,
) -> int:  # fmt: skip
    """Write the dominator of the nodes ``first..last`` whose edge has the largest hash.

    Args:
        score: ``[nnz]`` result of :func:`share_neighbours`.
        size: ``[N]`` size of the closed neighbourhoods.
        code: ``[N]`` codes; 0 for nodes that must not be merged.
        first, last: Range of nodes.
        target: ``[N]`` output, the dominator, or the node itself.

    Returns:
        Number of dominated nodes.
    """
    count = 0
    for u in range(first, last):
        found, best = np.int32(u), _U(0)
        if code[u] != 0:
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                if score[e] == 1.0 and v != u and _may_dominate(size, code, u, v):
                    hashed = (code[u] ^ code[v]) * _MIX
                    if found == u or hashed > best:
                        found, best = v, hashed
        target[u] = found
        count += found != u
    return count


@kernel(inner=True)
def _find_dominator(
    indptr: PtrArray, near: IndexArray, row_end: PtrArray, size: PtrArray, code: WordArray, u: int
) -> int:
    """Return the dominator of ``u`` whose edge has the largest hash, or ``u``. Merged nodes are removed from the row of ``u``."""
    begin, end, rarest = indptr[u], indptr[u], np.int32(u)
    for e in range(begin, row_end[u]):
        v = near[e]
        if v != u and size[v] > 0:
            near[end] = v
            end += 1
            if rarest == u or size[v] < size[rarest]:
                rarest = v
    row_end[u] = end
    found, best = u, _U(0)
    for e in range(begin, end):
        v = near[e]
        hashed = (code[u] ^ code[v]) * _MIX
        if (found != u and hashed <= best) or not _may_dominate(size, code, u, v):
            continue
        # Most nodes are not neighbours of the neighbour with the fewest neighbours, so it is compared first.
        low, high = indptr[v], row_end[v]
        if rarest != v:
            at = _lower_bound(near, low, high, rarest)
            if at == high or near[at] != rarest:
                continue
        inside = True
        for f in range(begin, end):
            x = near[f]
            if x != v:
                low = _lower_bound(near, low, high, x)
                if low == high or near[low] != x:
                    inside = False
                    break
        if inside:
            found, best = v, hashed
    return found


@kernel(inner=True)
def _choose_best(
    nodes: IndexArray, begin: int, count: int, wanted: int, target: IndexArray, code: WordArray
) -> None:
    """Move the ``wanted`` nodes whose edges have the largest hashes to the front; the others lose their targets."""
    part = nodes[begin : begin + count]
    part.sort()
    order = np.argsort(~((code[part] ^ code[target[part]]) * _MIX), kind="mergesort")
    part[:] = part[order]
    for i in range(wanted, count):
        target[part[i]] = part[i]


@kernel(inner=True)
def _check_neighbours(
    indptr: PtrArray, near: IndexArray, row_end: PtrArray, code: WordArray, begin: int, count: int, sweep: int,
    size: PtrArray, found: IndexArray, queue: IndexArray, stamp: IndexArray, target: IndexArray,
) -> int:  # fmt: skip
    """Replace the merged nodes ``found[begin : begin + count]`` by the neighbours of theirs that are dominated now; return their number."""
    touched = begin
    for i in range(begin, begin + count):
        u = found[i]
        for e in range(indptr[u], row_end[u]):
            v = near[e]
            if size[v] > 0:
                size[v] -= 1
                if stamp[v] != sweep:
                    stamp[v] = sweep
                    queue[touched] = v
                    touched += 1
    end = begin
    for i in range(begin, touched):
        u = queue[i]
        target[u] = _find_dominator(indptr, near, row_end, size, code, u)
        if target[u] != u:
            found[end] = u
            end += 1
    return end - begin


@kernel
def collapse_parts(
    indptr: PtrArray, near: IndexArray, row_end: PtrArray, code: WordArray, members: IndexArray, member_ptr: PtrArray,
    excess: PtrArray, most_sweeps: int, first: int, last: int, size: PtrArray, found: IndexArray, queue: IndexArray,
    stamp: IndexArray, target: IndexArray,
) -> None:  # fmt: skip
    """Merge dominated nodes of the parts ``first..last`` until none is left.

    A sweep merges all nodes that are dominated. Only neighbours of merged nodes can be dominated in the next sweep. If a part must not
    lose all of them, those are merged whose edges to their dominators have the largest hashes.

    Args:
        indptr: Offsets of the rows.
        near: ``[nnz]`` columns of the rows; overwritten.
        row_end: ``[N]`` ends of the rows, ``indptr[1:]``; overwritten.
        code: ``[N]`` codes.
        members: ``[N]`` nodes of the parts. No edge joins two parts.
        member_ptr: ``[parts + 1]`` offsets of the parts.
        excess: ``[parts]`` largest number of nodes to merge.
        most_sweeps: Largest number of sweeps.
        first, last: Range of parts.
        size: ``[N]`` size of the closed neighbourhoods; overwritten, 0 for merged nodes.
        found, queue: Scratch ``[N]``.
        stamp: Scratch ``[N]``, 0 on entry.
        target: ``[N]`` dominators of the first sweep, see :func:`find_dominators`; overwritten by the node that remains.
    """
    for part in range(first, last):
        begin, end, left = member_ptr[part], member_ptr[part + 1], excess[part]
        count = 0
        for i in range(begin, end):
            u = members[i]
            if target[u] != u:
                found[begin + count] = u
                count += 1
        sweep = 0
        while count > 0:
            wanted = min(count, left)
            if wanted < count:
                _choose_best(found, begin, count, wanted, target, code)
            for i in range(begin, begin + wanted):
                size[found[i]] = 0
            left -= wanted
            sweep += 1
            count = 0
            if left > 0 and sweep < most_sweeps:
                count = _check_neighbours(
                    indptr, near, row_end, code, begin, wanted, sweep, size, found, queue, stamp, target
                )
        for i in range(begin, end):
            target[members[i]] = uf_find(target, members[i])
