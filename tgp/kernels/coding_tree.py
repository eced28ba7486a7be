"""Structural-entropy coding trees: greedy merging of a graph into a binary tree.

The input is a block of simple undirected connected graphs (see :mod:`tgp.kernels.undirected`). There is no
matrix and no heap over all pairs. Each cluster keeps a list of the clusters that were adjacent when it was created;
ids in old lists are resolved by union-find. The candidates of a list form a heap inside the list. One heap holds the
best pair of each cluster (the later one of the pair).

Tree ids: items are ``0..n-1``, followed by merged nodes in the order of creation. The pair ``(i, j)`` with ``i < j``
is packed as ``i << 32 | j``, so that ties are resolved in favour of smaller ids.

Arrays of the lists: entry ``e`` of a list has the neighbour ``nbr[e]``, the edge weight ``between[e]`` and the entropy
change ``gain[e]``. The list of cluster ``j`` starts at ``start[j]`` and has ``size[j]`` entries. The first ``live[j]``
of them form its heap.

Arrays of the clusters, with two numbers in a row, because both are read together: ``mass`` contains the volume and the
boundary weight, ``node`` the parent in the union-find structure and the position in ``out`` (-1 outside of a merge).

:func:`merge_trees` writes the whole list again in each merge. It is meant for graphs with few nodes.
:mod:`tgp.kernels.coding_tree_hubs` merges the others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tgp.kernels._prims import heap_push, heap_remove_min, heap_sink_entry, kernel
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, IndexMatrixArray, MatrixArray, PtrArray

__all__ = [
    "append_entries",
    "build_list_heap",
    "entropy_change",
    "load_part",
    "merge_parts",
    "merge_trees",
    "skip_merged",
]


_SMALL_PART = 256
"""Largest number of nodes of a part that is merged without hubs."""

_LONG_LIST = 512
"""Number of neighbours from which on a cluster is a hub. Neighbours of other clusters are evaluated in each merge."""


@kernel(inner=True)
def entropy_change(mass: MatrixArray, i: int, j: int, between: float, total: float) -> float:
    """Return the change of the structural entropy if two clusters are merged."""
    both, inside_i, inside_j = mass[i, 0] + mass[j, 0], mass[i, 0] - mass[i, 1], mass[j, 0] - mass[j, 1]
    # The term of a node without inner edges is exactly 0, so its logarithm is not needed.
    first = inside_i * math.log2(both / mass[i, 0]) if inside_i != 0.0 else 0.0
    second = inside_j * math.log2(both / mass[j, 0]) if inside_j != 0.0 else 0.0
    return (first + second - 2.0 * between * math.log2(total / both)) / total


@kernel(inner=True)
def build_list_heap(
    gain: FloatArray, nbr: IndexArray, between: FloatArray, lo: int, size: int,
    mass: MatrixArray, j: int, total: float,
) -> None:  # fmt: skip
    """Write the entropy change of merging ``j`` with each of its candidates and order the list as a heap."""
    seen_vol, seen_cut, seen_between, change = -1.0, 0.0, 0.0, 0.0
    for e in range(lo, lo + size):
        i = nbr[e]
        # Equal neighbours often follow each other: reuse the last value.
        if mass[i, 0] != seen_vol or mass[i, 1] != seen_cut or between[e] != seen_between:
            seen_vol, seen_cut, seen_between = mass[i, 0], mass[i, 1], between[e]
            change = entropy_change(mass, i, j, between[e], total)
        gain[e] = change
    for at in range((size >> 1) - 1, -1, -1):
        heap_sink_entry(gain, nbr, between, lo, size, at)


@kernel(inner=True)
def skip_merged(
    gain: FloatArray, nbr: IndexArray, between: FloatArray, lo: int, live: int, node: IndexMatrixArray
) -> int:
    """Move merged clusters from the top of the heap of a list to its end and return the new size of the heap."""
    while live > 0 and node[nbr[lo], 0] != nbr[lo]:
        live -= 1
        e = lo + live
        gain[lo], gain[e] = gain[e], gain[lo]
        nbr[lo], nbr[e] = nbr[e], nbr[lo]
        between[lo], between[e] = between[e], between[lo]
        heap_sink_entry(gain, nbr, between, lo, live, np.int64(0))
    return live


@kernel(inner=True)
def append_entries(
    nbr: IndexArray, between: FloatArray, first: int, last: int, node: IndexMatrixArray, new: int,
    out: IndexArray, out_between: FloatArray, count: int,
) -> int:  # fmt: skip
    """Append entries ``first..last``, with current ids and merged weights, to ``out``; return its new length."""
    for e in range(first, last):
        r = nbr[e]
        while node[r, 0] != r:
            node[r, 0] = node[node[r, 0], 0]
            r = node[r, 0]
        if r == new:
            continue
        if node[r, 1] < 0:
            node[r, 1] = count
            out[count] = r
            out_between[count] = between[e]
            count += 1
        else:
            out_between[node[r, 1]] += between[e]
    return count


@kernel(inner=True)
def load_part(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, lo: int, n: int, total: float, node_vol: FloatArray,
    node_cut: FloatArray, mass: MatrixArray, node: IndexMatrixArray, start: PtrArray, size: PtrArray,
    live: PtrArray, twin: IndexArray, nbr: IndexArray, between: FloatArray, gain: FloatArray, keys: FloatArray,
    pairs: PtrArray, shift: int,
) -> int:  # fmt: skip
    """Write the lists of the items of a part and the heap of their best pairs; return the size of the heap.

    Only the first of several equal pendant nodes is in the list of their neighbour. Pendant nodes of one neighbour with
    equal volume, boundary and edge weight are merged in the order of their ids; without this step a merge in a star
    would take time proportional to its size. The next equal node is ``twin`` (or -1).

    The list of an item is a heap over its pairs with smaller ids. A pair is packed with shifts of ``shift`` and
    ``shift - 32`` bits.
    """
    base = indptr[lo]
    for i in range(n):
        mass[i, 0], mass[i, 1] = node_vol[lo + i], node_cut[lo + i]
        start[i] = indptr[lo + i] - base
        size[i] = indptr[lo + i + 1] - indptr[lo + i]
        node[i, 0] = i
        twin[i] = -1
        live[i] = 0
    for e in range(indptr[lo + n] - base):
        nbr[e] = indices[base + e] - lo
        between[e] = weight[base + e]
    for j in range(n):
        if size[j] < 2:
            continue
        kept, last, same = start[j], -1, 0.0
        for e in range(kept, kept + size[j]):
            i = nbr[e]
            if size[i] == 1:
                if (
                    i > last >= 0
                    and mass[i, 0] == mass[last, 0]
                    and mass[i, 1] == mass[last, 1]
                    and between[e] == same
                ):
                    twin[last] = i
                    live[i] = -1
                    last = i
                    continue
                last, same = i, between[e]
            nbr[kept], between[kept] = i, between[e]
            kept += 1
        size[j] = kept - start[j]
    heap = np.int64(0)
    for j in range(n):
        first = start[j]
        owned = np.int64(0)
        if live[j] == 0:
            for e in range(first, first + size[j]):
                if nbr[e] < j:
                    nbr[e], nbr[first + owned] = nbr[first + owned], nbr[e]
                    between[e], between[first + owned] = between[first + owned], between[e]
                    owned += 1
        live[j] = owned
        if owned > 0:
            build_list_heap(gain, nbr, between, first, owned, mass, j, total)
            heap = heap_push(keys, pairs, heap, gain[first], nbr[first] << shift | j << (shift - 32))
    return int(heap)


@kernel
def merge_trees(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, part_ptr: PtrArray, active: BoolArray,
    node_vol: FloatArray, node_cut: FloatArray, total: FloatArray, first: int, last: int, tree_parent: IndexArray,
    tree_vol: FloatArray, tree_cut: FloatArray, tree_inner: FloatArray, node: IndexMatrixArray,
    twin: IndexArray, out: IndexArray, start: PtrArray, size: PtrArray, live: PtrArray, pairs: PtrArray,
    mass: MatrixArray, keys: FloatArray, out_between: FloatArray, nbr: IndexArray,
    between: FloatArray, gain: FloatArray,
) -> None:  # fmt: skip
    """Build the binary merge trees of the parts ``first..last``, smallest structural entropy first.

    Args:
        indptr, indices, weight: Rows of simple undirected graphs with positive weights.
        part_ptr: ``[P + 1]``. Part ``p`` consists of the nodes ``part_ptr[p]:part_ptr[p + 1]``. It is connected and
            has no edge to another part.
        active: ``[P]``, parts to process. The output for other parts is not changed.
        node_vol, node_cut: ``[N]``, volume and boundary weight of each node.
        total: ``[P]``, volume of the graph that contains each part.
        first, last: Range of parts, so that ranges can run on several threads.
        tree_parent, tree_vol, tree_cut: ``[2 N]`` output from ``2 * part_ptr[p]`` on: parent, volume, boundary weight.
        tree_inner: ``[2 N]`` output, same positions: weight between the two children of merged nodes.
        node, ..., out_between: Scratch with room for two entries per node of the largest active part. The second
            column of ``node`` contains -1 and is restored.
        nbr, between, gain: Scratch for the lists: the entries of the part and one per pair of its nodes.
    """
    for p in range(first, last):
        if not active[p]:
            continue
        lo, n = part_ptr[p], part_ptr[p + 1] - part_ptr[p]
        heap = load_part(
            indptr, indices, weight, lo, n, total[p], node_vol, node_cut, mass, node, start, size, live, twin,
            nbr, between, gain, keys, pairs, 32,
        )  # fmt: skip
        free = indptr[lo + n] - indptr[lo]
        new = n
        while new < 2 * n - 1:
            i, j = pairs[0] >> 32, pairs[0] & 0xFFFFFFFF
            heap = heap_remove_min(keys, pairs, heap)
            if node[j, 0] != j:
                continue
            if node[i, 0] == i:
                joint = between[start[j]]
                mass[new, 0] = mass[i, 0] + mass[j, 0]
                mass[new, 1] = mass[i, 1] + mass[j, 1] - 2.0 * joint
                tree_inner[2 * lo + new] = joint
                tree_parent[2 * lo + i] = tree_parent[2 * lo + j] = new
                node[i, 0] = node[j, 0] = node[new, 0] = new
                big, small = (i, j) if size[i] > size[j] else (j, i)
                count = np.int64(0)
                for k in range(2):
                    old = j if k else i
                    if old < n and twin[old] >= 0:
                        out[count], out_between[count] = twin[old], joint
                        node[twin[old], 1] = count
                        count += 1
                for k in range(2):
                    old = big if k else small
                    count = append_entries(
                        nbr, between, start[old], start[old] + size[old], node, new, out, out_between, count
                    )
                start[new], size[new], live[new] = free, count, count
                for e in range(count):
                    node[out[e], 1] = -1
                    nbr[free], between[free] = out[e], out_between[e]
                    free += 1
                build_list_heap(gain, nbr, between, start[new], count, mass, new, total[p])
                j = new
                new += 1
            live[j] = skip_merged(gain, nbr, between, start[j], live[j], node)
            if live[j] > 0:
                heap = heap_push(keys, pairs, heap, gain[start[j]], nbr[start[j]] << 32 | j)
        for x in range(2 * n - 1):
            tree_vol[2 * lo + x], tree_cut[2 * lo + x] = mass[x, 0], mass[x, 1]


def merge_parts(
    rows: tuple[Any, ...], ptr: PtrArray, active: BoolArray, vol: FloatArray, cut: FloatArray, total: FloatArray,
    first: int, last: int, tree: tuple[Any, ...], long_from: int = _LONG_LIST,
) -> int:  # fmt: skip
    """Write the merge trees of the active parts ``first..last`` and return the number of entries that were visited.

    Only large parts are counted. Parts of up to 256 nodes have a kernel of their own, which is compiled sooner.
    """
    limit = min(_SMALL_PART, long_from)
    most, chosen = int(ptr[last] - ptr[first]), active
    entries = int(rows[0][ptr[last]] - rows[0][ptr[first]])
    if most > limit:
        starts = ptr[first : last + 1]
        sizes, counts = np.diff(starts), np.diff(rows[0][starts])
        large = sizes > limit
        most, entries = int(np.where(large, 1, sizes).max()), int(np.where(large, 0, counts).max())
        if large.any():
            chosen = active.copy()
            chosen[first:last] &= ~large
    pool_small = entries + most * most // 2 + 1
    if chosen is active or chosen[first:last].any():
        scratch: tuple[Any, ...] = (
            np.full((2 * most, 2), -1, np.int32), *np.empty((2, 2 * most), np.int32),
            *np.empty((4, 2 * most), np.int64), np.empty((2 * most, 2)), *np.empty((2, 2 * most)),
            np.empty(pool_small, np.int32), *np.empty((2, pool_small)),
        )  # fmt: skip
        arguments = (*rows, ptr, chosen, vol, cut, total, first, last, *tree, *scratch)
        merge_trees(*arguments)
    if chosen is active:
        return 0
    from tgp.kernels import coding_tree_hubs

    chosen[first:last] = active[first:last] & large
    ids, pool = 2 * int(sizes.max()), 5 * int(counts.max()) // 2 + 2 * int(sizes.max()) + 64
    state, wide = np.zeros(3, np.int64), np.empty((6, ids), np.int64)
    scratch = (
        np.full((ids, 2), -1, np.int32), *np.empty((4, ids), np.int32), wide[:5], np.empty((2, 2 * ids), np.int64),
        wide[5], np.empty((ids, 2)), *np.empty((3, ids)), *np.empty((2, pool), np.int32), np.empty(2 * pool, np.int32),
        *np.empty((2, pool)), np.empty(64, np.int64), state,
    )  # fmt: skip
    arguments = (*rows, ptr, chosen, vol, cut, total, long_from, first, last, *tree, *scratch)
    coding_tree_hubs.merge_large_trees(*arguments)
    return int(state[2])
