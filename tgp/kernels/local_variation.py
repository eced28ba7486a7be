"""Costs of edges and neighbourhoods in local variation coarsening, and the basis of modes from which they follow.

``indptr``, ``indices`` and ``weight`` are symmetric rows with positive weights, without self loops. ``degree`` ``[N]`` is the sum
of each row. ``basis`` ``[N, K]`` has one row for each node. ``members`` ``[N]`` are the nodes of each component, and ``member_ptr``
``[C + 1]`` the offsets of the components in it. The result of a component does not depend on the other components.

The neighbourhood of a node is the set of the node, its centre, and its neighbours. ``once_ptr``, ``once`` and ``once_weight`` are rows
that contain each edge once. A set of nodes ``C`` has the cost ``|X^T L_C X|_F / (|C| - 1)``: ``X`` is the basis of the set minus its
mean, and ``L_C`` is the Laplacian of the edges of the set in which edges that leave the set count twice.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import heap_remove_min, heap_sink, kernel
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["edge_costs", "merge_neighborhoods", "orthonormalize", "score_neighborhoods"]

RANK = 1e-10
"""Squared length, relative to the column, below which a column depends linearly on the others."""

NOISE = 1e-9
"""Cost below which differences are rounding errors of the eigenvectors."""

COARSE = 8589934593.0
"""``2**33 + 1``: the factor that rounds a float64 number to 20 significant bits."""


STEPS, MOST_STEPS = 16, (1 << 20) - 1
"""Resolution and upper limit of mean numbers of members."""


@kernel(inline="always")
def _round_cost(cost: float) -> float:
    """Round a cost to 20 bits. Equal costs of a symmetric graph are equal again after rounding errors."""
    scaled = (cost + NOISE) * COARSE
    return scaled - (scaled - (cost + NOISE))


@kernel
def orthonormalize(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, members: PtrArray, member_ptr: PtrArray, first: int,
    last: int, smallest: float, basis: MatrixArray,
) -> None:  # fmt: skip
    """Replace the basis of components ``first .. last - 1`` by one with ``B^T L B = I``, in place.

    This is a Gram-Schmidt process with pivoting in the inner product of the Laplacian ``L``. Columns that depend on the others, and
    columns whose variation ``b^T L b`` is at most ``smallest``, are left out. The remaining columns are zero.
    """
    k = basis.shape[1]
    gram, low = np.empty((k, k)), np.empty((k, k))
    rest, scale, row = np.empty(k), np.empty(k), np.empty(k)
    pivot = np.empty(k, np.int64)
    for c in range(first, last):
        for a in range(k):
            for b in range(k):
                gram[a, b] = 0.0
        for m in range(member_ptr[c], member_ptr[c + 1]):
            i = members[m]
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if j < i:
                    continue
                for a in range(k):
                    row[a] = basis[i, a] - basis[j, a]
                for a in range(k):
                    value = weight[e] * row[a]
                    for b in range(a + 1):
                        gram[a, b] += value * row[b]
        for a in range(k):
            keep = gram[a, a] > smallest
            scale[a] = 1.0 / math.sqrt(gram[a, a]) if keep else 0.0
            rest[a] = 1.0 if keep else 0.0
        rank = 0
        while rank < k:
            p = 0
            for a in range(1, k):
                if rest[a] > rest[p]:
                    p = a
            if rest[p] <= RANK:
                break
            pivot[rank] = p
            low[p, rank] = math.sqrt(rest[p])
            rest[p] = -1.0
            for a in range(k):
                if rest[a] > 0.0:
                    value = (gram[a, p] if a > p else gram[p, a]) * scale[a] * scale[p]
                    for b in range(rank):
                        value -= low[a, b] * low[p, b]
                    low[a, rank] = value / low[p, rank]
                    rest[a] -= low[a, rank] * low[a, rank]
            rank += 1
        for m in range(member_ptr[c], member_ptr[c + 1]):
            i = members[m]
            for a in range(rank):
                p = pivot[a]
                value = basis[i, p] * scale[p]
                for b in range(a):
                    value -= low[p, b] * row[b]
                row[a] = value / low[p, a]
            for a in range(k):
                basis[i, a] = row[a] if a < rank else 0.0


@kernel
def edge_costs(
    indptr: PtrArray, indices: IndexArray, degree: FloatArray, basis: MatrixArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Write the cost of contracting each edge of rows ``first .. last - 1``.

    The cost of ``(i, j)`` is ``(degree_i + degree_j) / 2 * |basis_i - basis_j|^2``, rounded to 20 bits.
    """
    k = basis.shape[1]
    for i in range(first, last):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            total = 0.0
            for a in range(k):
                step = basis[i, a] - basis[j, a]
                total += step * step
            out[e] = _round_cost(0.5 * (degree[i] + degree[j]) * total)


@kernel(inner=True)
def _gather_free(
    indptr: PtrArray, indices: IndexArray, free: BoolArray, needs_centre: bool, u: int, nodes: IndexArray
) -> int:
    """Write the free nodes of the neighbourhood of ``u``, the centre first, and return their number."""
    count = 0
    if free[u]:
        nodes[0] = u
        count = 1
    elif needs_centre:
        return 0
    for e in range(indptr[u], indptr[u + 1]):
        v = indices[e]
        if free[v] and v != u:
            nodes[count] = v
            count += 1
    return count


@kernel(inner=True)
def _score_set(
    once_ptr: PtrArray, once: IndexArray, once_weight: FloatArray, degree: FloatArray, basis: MatrixArray,
    members: FloatArray, nodes: IndexArray, count: int, place: IndexArray, x: MatrixArray, y: MatrixArray,
    gram: MatrixArray,
) -> float:  # fmt: skip
    """Return the cost of the set ``nodes[:count]``, rounded to 20 bits, or its key if ``members`` is not empty."""
    k = basis.shape[1]
    mean = y[count]
    for a in range(k):
        mean[a] = 0.0
        for b in range(k):
            gram[a, b] = 0.0
    for p in range(count):
        for a in range(k):
            mean[a] += basis[nodes[p], a]
    for a in range(k):
        mean[a] /= count
    for p in range(count):
        i = nodes[p]
        place[i] = p + 1
        for a in range(k):
            x[p, a] = basis[i, a] - mean[a]
            y[p, a] = 2.0 * degree[i] * x[p, a]
    # y = L_C x: an edge of the set was counted twice by each degree, and it counts w * (x_p - x_q).
    for p in range(count):
        i = nodes[p]
        for e in range(once_ptr[i], once_ptr[i + 1]):
            q = place[once[e]] - 1
            if q >= 0:
                for a in range(k):
                    step = once_weight[e] * (x[p, a] + x[q, a])
                    y[p, a] -= step
                    y[q, a] -= step
    total = 0.0
    for p in range(count):
        for a in range(k):
            value = x[p, a]
            for b in range(k):
                gram[a, b] += value * y[p, b]
    for a in range(k):
        for b in range(k):
            total += gram[a, b] * gram[a, b]
    size = 0.0
    for p in range(count):
        place[nodes[p]] = 0
        if members.shape[0] > 0:
            size += members[nodes[p]]
    cost = _round_cost(math.sqrt(total) / (count - 1))
    if members.shape[0] == 0:
        return cost
    return min(math.floor(STEPS * size / count + 0.5), MOST_STEPS) + cost / (1.0 + cost)


@kernel
def score_neighborhoods(
    indptr: PtrArray, indices: IndexArray, once_ptr: PtrArray, once: IndexArray, once_weight: FloatArray,
    degree: FloatArray, basis: MatrixArray, members: FloatArray, free: BoolArray, needs_centre: bool, first: int,
    last: int, count: PtrArray, key: FloatArray,
) -> None:  # fmt: skip
    """Write the number of free nodes in the neighbourhoods of the nodes ``first .. last - 1``, and the keys of those with at least two.

    Args:
        indptr, indices: Rows.
        once_ptr, once, once_weight: Rows with each edge once.
        degree: ``[N]`` sums of the rows.
        basis: ``[N, K]`` basis.
        members: ``[N]`` number of input nodes of each node, or an empty array. The key of a set is its cost if the array is empty. Otherwise
            sets whose nodes have the fewest members on average come first, and equal ones are ordered by cost.
        free: ``[N]`` nodes that can be merged.
        needs_centre: a set whose centre is not free has no nodes.
        first, last: Range of nodes.
        count: ``[N]`` output.
        key: ``[N]`` output.
    """
    most, k = 0, basis.shape[1]
    for u in range(first, last):
        most = max(most, indptr[u + 1] - indptr[u])
    nodes, place = np.empty(most + 1, np.int32), np.zeros(free.shape[0], np.int32)
    x, y, gram = np.empty((most + 1, k)), np.empty((most + 2, k)), np.empty((k, k))
    for u in range(first, last):
        count[u] = _gather_free(indptr, indices, free, needs_centre, u, nodes)
        if count[u] > 1:
            key[u] = _score_set(
                once_ptr, once, once_weight, degree, basis, members, nodes, count[u], place, x, y, gram
            )


@kernel(inner=True)
def _keep_cheapest(
    degree: FloatArray, basis: MatrixArray, order: IndexArray, rank: IndexArray, u: int, kept: int,
    nodes: IndexArray, count: int, mean: FloatArray, price: FloatArray, items: IndexArray,
) -> None:  # fmt: skip
    """Move the ``kept`` nodes that are closest to the centre ``u`` to the front of ``nodes``, or to the mean if ``u`` is not in the set."""
    k = basis.shape[1]
    inside = nodes[0] == u
    for a in range(k):
        mean[a] = basis[u, a] if inside else 0.0
    if not inside:
        for p in range(count):
            for a in range(k):
                mean[a] += basis[nodes[p], a] / count
    for p in range(count):
        i, total = nodes[p], 0.0
        for a in range(k):
            step = basis[i, a] - mean[a]
            total += step * step
        price[p] = -1.0 if i == u else _round_cost(degree[i] * total)
        items[p] = rank[i]
    for p in range(count // 2 - 1, -1, -1):
        heap_sink(price, items, count, p)
    for p in range(kept):
        nodes[p] = order[items[0]]
        count = heap_remove_min(price, items, count)


@kernel
def merge_neighborhoods(
    indptr: PtrArray, indices: IndexArray, once_ptr: PtrArray, once: IndexArray, once_weight: FloatArray,
    degree: FloatArray, basis: MatrixArray, members: FloatArray, order: IndexArray, order_ptr: PtrArray,
    rank: IndexArray, excess: PtrArray, needs_centre: bool, most_cuts: int, most: int, first: int, last: int,
    free: BoolArray, count: PtrArray, key: FloatArray, target: IndexArray,
) -> None:  # fmt: skip
    """Merge disjoint sets of the parts ``first .. last - 1`` in the order of their keys.

    The set with the smallest key is merged. A set that has lost nodes to other sets, or has more nodes than may be merged, is cut to
    the nodes that remain and gets a new key instead.

    Args:
        indptr, indices, once_ptr, once, once_weight, degree, basis, members: See :func:`score_neighborhoods`.
        order: ``[N]`` nodes of the parts, in the order in which sets with equal keys are merged. No edge joins two parts.
        order_ptr: ``[parts + 1]`` offsets of the parts.
        rank: ``[N]`` position of each node in ``order``.
        excess: ``[parts]`` number of nodes by which each part may shrink.
        needs_centre: See :func:`score_neighborhoods`.
        most_cuts: Number of new keys after which a set is left out. It bounds the time of sets that lose one node at a time.
        most: Largest number of nodes of a set.
        first, last: Range of parts.
        free: ``[N]`` nodes that can be merged; overwritten.
        count, key: ``[N]`` result of :func:`score_neighborhoods`; overwritten.
        target: ``[N]`` output, a node of the set into which each node is merged.
    """
    k = basis.shape[1]
    nodes, place = np.empty(most, np.int32), np.zeros(free.shape[0], np.int32)
    x, y, gram = np.empty((most, k)), np.empty((most + 1, k)), np.empty((k, k))
    price, items = np.empty(most), np.empty(most, np.int32)
    for part in range(first, last):
        begin, size, left = order_ptr[part], 0, excess[part]
        length = order_ptr[part + 1] - begin
        keys, queue = np.empty(length), np.empty(length, np.int32)
        kept, cuts = np.empty(length, np.int64), np.zeros(length, np.int32)
        for i in range(begin, order_ptr[part + 1]):
            u = order[i]
            target[u] = u
            kept[i - begin] = count[u]
            if count[u] > 1:
                keys[size], queue[size] = key[u], i
                size += 1
        for i in range(size // 2 - 1, -1, -1):
            heap_sink(keys, queue, size, i)
        while size > 0 and left > 0:
            at = queue[0] - begin
            u = order[begin + at]
            found = _gather_free(indptr, indices, free, needs_centre, u, nodes)
            wanted = min(found, left + 1)
            is_new = found == count[u] and wanted == kept[at]
            if found < 2 or (not is_new and cuts[at] == most_cuts):
                size = heap_remove_min(keys, queue, size)
                continue
            if wanted < found:
                _keep_cheapest(degree, basis, order, rank, u, wanted, nodes, found, y[0], price, items)
            if not is_new:
                count[u], kept[at] = found, wanted
                cuts[at] += 1
                keys[0] = _score_set(
                    once_ptr, once, once_weight, degree, basis, members, nodes, wanted, place, x, y, gram
                )
                heap_sink(keys, queue, size, 0)
                continue
            for p in range(wanted):
                free[nodes[p]] = False
                target[nodes[p]] = nodes[0]
            left -= wanted - 1
            size = heap_remove_min(keys, queue, size)
