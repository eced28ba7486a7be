"""Quality figures of a level, computed in one pass over the edges of every graph."""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import count_bits, kernel, lowest_bit
from tgp.kernels.array_types import (
    BoolArray,
    FloatArray,
    IndexArray,
    IndexMatrixArray,
    MatrixArray,
    PtrArray,
    WordArray,
)

__all__ = ["SMALL", "WORD", "count_components", "graph_figures", "incoming_flows", "small_figures"]

SMALL = 128
"""Length of the tables of logarithms. Degrees and volumes of small graphs are integers below this value."""

WORD = 63
"""Largest number of nodes of a graph whose neighbours are a word of bits. The last bit of the word is never a node."""


@kernel(inline="always")
def _count_small_components(masks: WordArray, nodes: int) -> int:
    """Return the number of connected components of a symmetric graph with at most :data:`WORD` nodes.

    Args:
        masks: Neighbours of each node as bits, at least ``WORD + 1`` words. The last word is overwritten.
        nodes: Number of nodes.
    """
    # Each round removes two nodes from the frontier and adds their neighbours. The last word belongs to no node.
    one, top = np.uint64(1), np.uint64(WORD)
    found, unseen = 0, (one << np.uint64(nodes)) - one
    masks[top] = 0
    while unseen != 0:
        found += 1
        frontier = unseen & (~unseen + one)
        unseen ^= frontier
        while frontier != 0:
            rest = frontier & (frontier - one)
            reached = (masks[lowest_bit(frontier)] | masks[lowest_bit(rest | one << top)]) & unseen
            unseen ^= reached
            frontier = rest & (rest - one) | reached
    return found


@kernel
def small_figures(
    indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, cluster: IndexArray, super_ptr: PtrArray, logs: MatrixArray,
    first: int, last: int, masks: WordArray, mirror: WordArray, members: WordArray, volumes: WordArray,
    counts: IndexMatrixArray, flows: MatrixArray, symmetric: BoolArray,
) -> bool:  # fmt: skip
    """Compute the figures of those graphs among ``first:last`` that are small, symmetric and without parallel edges.

    Rows and clusters of such a graph are words of bits. There are no weights.

    Args:
        indptr, indices, node_ptr, cluster, super_ptr, logs, first, last, counts, flows: See :func:`graph_figures`.
        masks, mirror, members, volumes: Scratch, at least ``WORD + 1`` words each.
        symmetric: ``[B]`` output: True for graphs whose figures were computed.

    Returns:
        True if the figures of all graphs were computed.
    """
    one, top, half, complete = np.uint64(1), np.uint64(WORD), np.uint64(32), True
    for g in range(first, last):
        base, low = np.uint64(node_ptr[g]), super_ptr[g]
        nodes, clusters = np.uint64(node_ptr[g + 1]) - base, super_ptr[g + 1] - low
        symmetric[g] = False
        if nodes > top or clusters > WORD:
            complete = False
            continue
        for c in range(clusters):
            members[c] = volumes[c] = 0
        for node in range(nodes):
            mirror[node] = 0
        leaves, roots, dropped, lonely, same = 0.0, np.int64(0), 0, 0, True
        stop, reached = np.uint64(indptr[base]), one
        for node in range(nodes):
            start, stop = stop, np.uint64(indptr[base + node + one])
            mask, bit, degree = np.uint64(0), one << node, stop - start
            if degree > 0:
                # Most rows have at most four entries. Reading the last one again is cheaper than a wrong guess of the end.
                for k in range(np.uint64(4)):
                    e = start + k
                    if e >= stop:
                        e = stop - one
                    at = np.uint64(indices[e]) - base
                    mask |= one << at
                    mirror[at] |= bit
                for e in range(start + np.uint64(4), stop):
                    at = np.uint64(indices[e]) - base
                    mask |= one << at
                    mirror[at] |= bit
            masks[node] = mask
            if mask & reached:
                reached |= mask | bit
            same &= count_bits(mask) == degree
            lonely += mask & ~bit == 0
            leaves += logs[0, degree & np.uint64(SMALL - 1)]
            mine = cluster[base + node]
            if mine >= 0:
                # Edges inside a cluster are counted at their larger end. The upper half of the word is their number.
                at = np.uint64(mine - low)
                inside = (count_bits(mask & members[at]) << one) + (mask >> node & one)
                volumes[at] += degree + (inside << half)
                members[at] |= bit
            else:
                dropped += 1
                roots += np.int64(degree)
        for node in range(nodes):
            same &= masks[node] == mirror[node]
        if not same:
            complete = False
            continue
        symmetric[g] = True
        found = np.int64(nodes > 0)
        if reached != (one << nodes) - one:
            found = _count_small_components(masks, nodes)
        total = np.int64(stop) - indptr[base]
        within, expected, single, empty, largest = np.int64(0), np.int64(0), 0, 0, np.int64(0)
        inner, entropy, scale = 0.0, 0.0, math.log2(float(total)) if total > 0 else 0.0
        for c in range(clusters):
            size = np.int64(count_bits(members[c]))
            out, own = np.int64(volumes[c] & np.uint64(0xFFFFFFFF)), np.int64(volumes[c] >> half)
            single += size == 1
            empty += size == 0
            if size > largest:
                largest = size
            within += own
            expected += out * out
            log = logs[1, out & (SMALL - 1)]
            product = logs[0, out & (SMALL - 1)]
            if out >= SMALL:
                log = math.log2(float(out))
                product = float(out) * log
            entropy += product
            inner += float(out - own) * (scale - log)
        counts[0, g], counts[1, g], counts[2, g] = found, lonely, dropped
        counts[3, g], counts[4, g], counts[5, g] = single, empty, largest
        flows[0, g], flows[1, g], flows[2, g] = total, within, expected
        if total > 0:
            flows[3, g] = scale - leaves / total
            flows[4, g] = (entropy + roots * scale - leaves + inner) / total
    return complete


@kernel
def graph_figures(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, cluster: IndexArray,
    super_ptr: PtrArray, logs: MatrixArray, first: int, last: int, cursor: PtrArray, masks: WordArray, sums: MatrixArray,
    counts: IndexMatrixArray, flows: MatrixArray, symmetric: BoolArray,
) -> bool:  # fmt: skip
    """Compute the figures of the graphs ``first:last`` that are left, as if all of them were small and symmetric.

    Args:
        indptr: ``[N + 1]``.
        indices: ``[nnz]``, sorted in each row.
        weight: ``[nnz]``, or an empty array if there are no weights.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        cluster: ``[N]``, supernode of each node, -1 if removed.
        super_ptr: ``[B + 1]``, offsets of the supernodes.
        logs: ``[2, SMALL]``, ``x log2 x`` and ``log2 x`` of integers.
        first, last: Range of graphs.
        cursor: Scratch, as long as the largest number of nodes of a graph.
        masks: Scratch of the same length, at least ``WORD + 1``.
        sums: Scratch ``[largest number of supernodes of a graph, 3]``.
        counts: ``[6, B]`` output: connected components, nodes without an edge to another node, removed nodes, singleton
            clusters, empty clusters, size of the largest cluster.
        flows: ``[5, B]`` output: total weight, weight inside clusters, its expected value (the sum of out * in), entropy
            without clusters, entropy with clusters.
        symmetric: ``[B]`` mask of the graphs that :func:`small_figures` has computed, then of all symmetric graphs.

    Returns:
        True if all these graphs are symmetric and have at most :data:`WORD` nodes. Otherwise some values are wrong until
        :func:`count_components` and :func:`incoming_flows` replace them.
    """
    end, usual, weighted = np.int64(indices.shape[0] - 1), True, weight.shape[0] > 0
    one, top = np.uint64(1), np.uint64(WORD)
    for g in range(first, last):
        base, stop_row, low = node_ptr[g], node_ptr[g + 1], super_ptr[g]
        clusters = super_ptr[g + 1] - low
        if symmetric[g]:
            continue
        for c in range(clusters):
            sums[c, 0] = sums[c, 1] = sums[c, 2] = 0.0
        for row in range(base, stop_row):
            cursor[row - base] = indptr[row]
        amount, total, leaves, roots = 0.0, 0.0, 0.0, 0.0
        lonely, dropped, same = 0, 0, True
        for row in range(base, stop_row):
            start, stop, mine = indptr[row], indptr[row + 1], cluster[row]
            degree, home, inside, mask = 0.0, 0.0, 0, np.uint64(0)
            # Rows are visited in ascending order. The mirror images of the entries of row c are therefore visited in the
            # order of these entries; cursor[c] is the position of the next one.
            for e in range(np.uint64(start), np.uint64(stop)):
                column = np.uint64(indices[e])
                at = column - np.uint64(base)
                mask |= one << (at & top)
                mirror = cursor[at]
                cursor[at] = mirror + 1
                if mirror > end:
                    mirror = end
                same &= indices[np.uint64(mirror)] == row
                inside += cluster[column] == mine
                if weighted:
                    same &= weight[np.uint64(mirror)] == weight[e]
            if weighted:
                for e in range(start, stop):
                    degree += weight[e]
                    amount += weight[e]
                    home += weight[e] if cluster[indices[e]] == mine else 0.0
            masks[row - base] = mask
            lonely += mask & ~(one << (np.uint64(row - base) & top)) == 0
            if not weighted:
                degree, home = float(stop - start), float(inside)
            if degree > 0.0:
                if degree < SMALL and np.int64(degree) == degree:
                    leaves += logs[0, np.int64(degree)]
                else:
                    leaves += degree * math.log2(degree)
            total += degree
            if mine >= 0:
                at = np.uint64(mine - low)
                sums[at, 0] += 1
                sums[at, 1] += degree
                sums[at, 2] += home
            else:
                dropped += 1
                roots += degree
        for node in range(stop_row - base):
            same &= cursor[node] == indptr[base + node + 1]
        usual &= same and stop_row - base <= WORD
        symmetric[g] = same
        found = _count_small_components(masks, stop_row - base) if stop_row - base <= WORD else 0
        within, expected, inner, volumes = 0.0, 0.0, 0.0, 0.0
        single, empty, largest = 0, 0, 0.0
        scale = math.log2(total) if total > 0.0 else 0.0
        for c in range(clusters):
            size, out, own = sums[c, 0], sums[c, 1], sums[c, 2]
            single += size == 1
            empty += size == 0
            if size > largest:
                largest = size
            within += own
            expected += out * out
            if out > 0.0:
                if out < SMALL and np.int64(out) == out:
                    volumes += logs[0, np.int64(out)]
                    log = logs[1, np.int64(out)]
                else:
                    log = math.log2(out)
                    volumes += out * log
                if out > own:
                    inner += (out - own) * (scale - log)
        counts[0, g], counts[1, g], counts[2, g] = found, lonely, dropped
        counts[3, g], counts[4, g], counts[5, g] = single, empty, np.int64(largest)
        flows[0, g], flows[1, g], flows[2, g] = amount, within, expected
        if not weighted:
            flows[0, g] = indptr[stop_row] - indptr[base]
        if total > 0.0:
            flows[3, g] = scale - leaves / total
            flows[4, g] = (volumes + roots * scale - leaves + inner) / total
    return usual


@kernel
def count_components(
    indptr: PtrArray, indices: IndexArray, node_ptr: PtrArray, symmetric: BoolArray, first: int, last: int,
    parent: PtrArray, linked: WordArray, counts: IndexMatrixArray,
) -> None:  # fmt: skip
    """Count the components and the isolated nodes of graphs that are large or not symmetric.

    Args:
        indptr, indices, node_ptr, symmetric, first, last: See :func:`graph_figures`.
        parent, linked: Scratch, as long as the largest number of nodes of a graph.
        counts: Output of :func:`graph_figures`, whose first two rows are replaced.
    """
    for g in range(first, last):
        base, stop_row = node_ptr[g], node_ptr[g + 1]
        if symmetric[g] and stop_row - base <= WORD:
            continue
        joined, lonely = 0, 0
        for node in range(stop_row - base):
            parent[node], linked[node] = node, 0
        for row in range(base, stop_row):
            root = row - base
            for e in range(indptr[row], indptr[row + 1]):
                other = indices[e] - base
                if other == row - base:
                    continue
                linked[row - base] = linked[other] = 1
                if symmetric[g] and other > row - base:
                    break
                while parent[root] != root:
                    root = parent[root]
                while parent[other] != other:
                    parent[other] = parent[parent[other]]
                    other = parent[other]
                if other < root:
                    parent[root] = other
                    root = other
                    joined += 1
                elif root < other:
                    parent[other] = root
                    joined += 1
        for node in range(stop_row - base):
            lonely += linked[node] == 0
        counts[0, g], counts[1, g] = stop_row - base - joined, lonely


@kernel
def incoming_flows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, cluster: IndexArray,
    super_ptr: PtrArray, symmetric: BoolArray, first: int, last: int, sums: MatrixArray, flows: MatrixArray,
) -> None:  # fmt: skip
    """Compute the expected weight inside the clusters of graphs that are not symmetric.

    Args:
        indptr, indices, weight, node_ptr, cluster, super_ptr, symmetric, first, last: See
            :func:`graph_figures`.
        sums: Scratch ``[2, largest number of supernodes of a graph]``.
        flows: Output of :func:`graph_figures`, whose third row is replaced.
    """
    for g in range(first, last):
        if symmetric[g]:
            continue
        low, clusters = super_ptr[g], super_ptr[g + 1] - super_ptr[g]
        for c in range(clusters):
            sums[0, c] = sums[1, c] = 0.0
        for row in range(node_ptr[g], node_ptr[g + 1]):
            degree = 0.0
            for e in range(indptr[row], indptr[row + 1]):
                amount = 1.0
                if weight.shape[0] > 0:
                    amount = weight[e]
                degree += amount
                if cluster[indices[e]] >= 0:
                    sums[1, cluster[indices[e]] - low] += amount
            if cluster[row] >= 0:
                sums[0, cluster[row] - low] += degree
        expected = 0.0
        for c in range(clusters):
            expected += sums[0, c] * sums[1, c]
        flows[2, g] = expected
