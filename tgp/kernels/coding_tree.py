"""Structural-entropy coding trees: greedy merging of a graph into a binary tree.

The input is a block of simple undirected connected graphs (see :mod:`tgp.kernels.undirected`). There is no
matrix and no heap over all pairs. Each cluster keeps a list of the clusters that were adjacent when it was created;
ids in old lists are resolved by union-find. One heap holds the best pair of each cluster (the later one of the pair).

- The candidates of a short list form a heap inside the list.
- A long list is kept in place when its cluster grows. Each entry has a lower bound of its entropy change, and only
  entries whose bound does not exceed the best value are evaluated again. Otherwise each merge of a hub would take
  as many logarithms as the hub has neighbours.

Tree ids: items are ``0..n-1``, followed by merged nodes in the order of creation. The pair ``(i, j)`` with ``i < j``
is packed as ``i << 32 | j``, so that ties are resolved in favour of smaller ids.

Arrays of the lists: entry ``e`` of a list has the neighbour ``nbr[e]``, the edge weight ``between[e]`` and the entropy
change ``gain[e]``. The list of cluster ``j`` starts at ``start[j]``, has ``size[j]`` entries and space for ``room[j]``.
``live[j]`` is the size of its heap, or ``LONG``.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import heap_push, heap_remove_min, heap_sink_entry, kernel, uf_find
from tgp.kernels.array_types import BoolArray, Float32Array, FloatArray, IndexArray, PtrArray

__all__ = ["merge_trees"]

LONG = -1  # value of ``live`` for a long list


@kernel
def _entropy_terms(
    vol: FloatArray, cut: FloatArray, i: int, j: int, between: float, total: float
) -> tuple[float, float, float]:
    """Return three terms of the entropy change of merging two clusters: (first + second - third) / ``total``."""
    both, inside_i, inside_j = vol[i] + vol[j], vol[i] - cut[i], vol[j] - cut[j]
    # The term of a node without inner edges is exactly 0, so its logarithm is not needed.
    first = inside_i * math.log2(both / vol[i]) if inside_i != 0.0 else 0.0
    second = inside_j * math.log2(both / vol[j]) if inside_j != 0.0 else 0.0
    return first, second, 2.0 * between * math.log2(total / both)


@kernel
def _build_list_heap(
    gain: FloatArray, nbr: IndexArray, between: FloatArray, lo: int, size: int,
    vol: FloatArray, cut: FloatArray, j: int, total: float,
) -> None:  # fmt: skip
    """Write the entropy change of merging ``j`` with each of its candidates and order the list as a heap."""
    for e in range(lo, lo + size):
        i = nbr[e]
        first, second, third = _entropy_terms(vol, cut, i, j, between[e], total)
        gain[e] = (first + second - third) / total
    for at in range(size // 2 - 1, -1, -1):
        heap_sink_entry(gain, nbr, between, lo, size, at)


@kernel
def _skip_merged(
    gain: FloatArray, nbr: IndexArray, between: FloatArray, lo: int, live: int, link: IndexArray
) -> int:
    """Move merged clusters from the top of the heap of a list to its end and return the new size of the heap."""
    while live > 0 and link[nbr[lo]] != nbr[lo]:
        live -= 1
        e = lo + live
        gain[lo], gain[e] = gain[e], gain[lo]
        nbr[lo], nbr[e] = nbr[e], nbr[lo]
        between[lo], between[e] = between[e], between[lo]
        heap_sink_entry(gain, nbr, between, lo, live, 0)
    return live


@kernel
def _find_in_long(
    gain: FloatArray, slope: Float32Array, nbr: IndexArray, between: FloatArray, lo: int, size: int,
    vol: FloatArray, cut: FloatArray, link: IndexArray, j: int, drift: float, total: float,
) -> tuple[bool, float]:  # fmt: skip
    """Move the best candidate of a long list to its front; return ``(found, entropy change)``.

    ``gain`` minus ``slope`` times the drift of ``j`` is a lower bound of the entropy change of an entry.
    """
    best, at = np.inf, np.int64(-1)
    seen_vol, seen_cut, seen_between, exact, size_of_terms = -1.0, 0.0, 0.0, 0.0, 0.0
    for e in range(lo, lo + size):
        bound = gain[e] - slope[e] * drift
        if bound > best:
            continue
        i = nbr[e]
        if link[i] != i:
            continue
        # Equal neighbours often follow each other: reuse the last value.
        if vol[i] != seen_vol or cut[i] != seen_cut or between[e] != seen_between:
            seen_vol, seen_cut, seen_between = vol[i], cut[i], between[e]
            first, second, third = _entropy_terms(vol, cut, i, j, between[e], total)
            exact = (first + second - third) / total
            size_of_terms = (first + second + abs(third)) / total
        # Rounded up, so that rounding to float32 and in later sums never makes a bound too high.
        slope[e] = vol[i] / (vol[i] + vol[j]) * 1.000001
        rise = slope[e] * drift
        gain[e] = exact + rise - 1e-12 * (size_of_terms + rise)
        if exact < best or (exact == best and i < nbr[at]):
            best, at = exact, e
    if at < 0:
        return False, best
    gain[lo], gain[at] = gain[at], gain[lo]
    slope[lo], slope[at] = slope[at], slope[lo]
    nbr[lo], nbr[at] = nbr[at], nbr[lo]
    between[lo], between[at] = between[at], between[lo]
    return True, best


@kernel
def _pack_lists(
    gain: FloatArray, slope: Float32Array, nbr: IndexArray, between: FloatArray,
    start: PtrArray, size: PtrArray, room: PtrArray, link: IndexArray, new: int,
) -> int:  # fmt: skip
    """Close the gaps that the lists of merged clusters have left; return the first free position."""
    free: int = 0
    for j in range(new):
        if link[j] == j:
            lo = start[j]
            for e in range(size[j]):
                gain[free + e], slope[free + e] = gain[lo + e], slope[lo + e]
                nbr[free + e], between[free + e] = nbr[lo + e], between[lo + e]
            start[j] = free
            room[j] = size[j]
            free += size[j]
    return free


@kernel
def _append_entries(
    nbr: IndexArray, between: FloatArray, first: int, last: int, link: IndexArray, slot: IndexArray, new: int,
    out: IndexArray, out_between: FloatArray, count: int,
) -> int:  # fmt: skip
    """Append entries ``first..last``, with current ids and merged weights, to ``out``; return its new length."""
    for e in range(first, last):
        r = uf_find(link, nbr[e])
        if r == new:
            continue
        if slot[r] < 0:
            slot[r] = count
            out[count] = r
            out_between[count] = between[e]
            count += 1
        else:
            out_between[slot[r]] += between[e]
    return count


@kernel
def _extend_long(
    gain: FloatArray, slope: Float32Array, nbr: IndexArray, between: FloatArray, lo: int, size: int,
    link: IndexArray, slot: IndexArray, new: int, out: IndexArray, out_between: FloatArray, count: int,
) -> int:  # fmt: skip
    """Add ``count`` entries of ``out`` to the long list at ``lo``, which must have room; return its new size.

    Entries of merged clusters get the current id. The bound of a changed entry becomes minus infinity.
    """
    e = lo
    while e < lo + size:
        if link[nbr[e]] == nbr[e]:
            e += 1
            continue
        count = _append_entries(nbr, between, e, e + 1, link, slot, new, out, out_between, count)
        size -= 1
        end = lo + size
        gain[e], slope[e], nbr[e], between[e] = gain[end], slope[end], nbr[end], between[end]
    for e in range(lo, lo + size):
        at = slot[nbr[e]]
        if at >= 0:
            between[e] += out_between[at]
            gain[e] = -np.inf
            slot[nbr[e]] = -1
            out[at] = -1
    for at in range(count):
        if out[at] >= 0:
            slot[out[at]] = -1
            end = lo + size
            gain[end], slope[end], nbr[end], between[end] = -np.inf, 0.0, out[at], out_between[at]
            size += 1
    return size


@kernel
def _hide_twins(
    n: int, vol: FloatArray, cut: FloatArray, start: PtrArray, size: PtrArray, hidden: PtrArray,
    twin: IndexArray, nbr: IndexArray, between: FloatArray,
) -> None:  # fmt: skip
    """Keep only the first of several equal pendant nodes in the list of their neighbour.

    Pendant nodes of one neighbour with equal volume, boundary and edge weight are merged in the order of their ids.
    Without this step a merge in a star would take time proportional to its size. Shortens the lists; writes ``hidden``
    and ``twin`` (the next equal node, or -1).
    """
    twin[:n] = -1
    hidden[:n] = 0
    for j in range(n):
        if size[j] < 2:
            continue
        lo, kept, last, weight = start[j], start[j], -1, 0.0
        for e in range(lo, lo + size[j]):
            i = nbr[e]
            if size[i] == 1:
                if i > last >= 0 and vol[i] == vol[last] and cut[i] == cut[last] and between[e] == weight:
                    twin[last] = i
                    hidden[i] = 1
                    last = i
                    continue
                last, weight = i, between[e]
            nbr[kept], between[kept] = i, between[e]
            kept += 1
        size[j] = kept - lo


@kernel
def _init_heaps(
    n: int, total: float, vol: FloatArray, cut: FloatArray, link: IndexArray, start: PtrArray, size: PtrArray,
    live: PtrArray, room: PtrArray, twin: IndexArray, nbr: IndexArray, between: FloatArray, gain: FloatArray,
    keys: FloatArray, pairs: PtrArray,
) -> int:  # fmt: skip
    """Order the list of each item as a heap over its pairs with smaller ids; return the size of the heap of pairs."""
    _hide_twins(n, vol, cut, start, size, live, twin, nbr, between)
    heap = 0
    for j in range(n):
        link[j] = j
        lo = start[j]
        room[j] = size[j]
        owned = np.int64(0)
        if live[j] == 0:
            for e in range(lo, lo + size[j]):
                if nbr[e] < j:
                    nbr[e], nbr[lo + owned] = nbr[lo + owned], nbr[e]
                    between[e], between[lo + owned] = between[lo + owned], between[e]
                    owned += 1
        live[j] = owned
        if owned > 0:
            _build_list_heap(gain, nbr, between, lo, owned, vol, cut, j, total)
            heap = heap_push(keys, pairs, heap, gain[lo], np.int64(nbr[lo]) << 32 | j)
    return heap


@kernel
def _merge_lists(
    gain: FloatArray, slope: Float32Array, nbr: IndexArray, between: FloatArray, start: PtrArray, size: PtrArray,
    live: PtrArray, room: PtrArray, link: IndexArray, slot: IndexArray, drift: FloatArray, big: int, small: int,
    new: int, out: IndexArray, out_between: FloatArray, count: int, free: int, long_from: int,
) -> int:  # fmt: skip
    """Write the list of ``new``: entries of ``big``, ``small`` and ``out``. Return the first free position."""
    long_list = size[big] >= long_from
    for old in (small, big):
        if old == small or not long_list:
            first, last = start[old], start[old] + size[old]
            count = _append_entries(nbr, between, first, last, link, slot, new, out, out_between, count)
    if not long_list:
        start[new], size[new], room[new], drift[new] = free, count, count, 0.0
        for e in range(count):
            slot[out[e]] = -1
            nbr[free], between[free], gain[free], slope[free] = out[e], out_between[e], -np.inf, 0.0
            free += 1
        return free
    lo = start[big]
    if live[big] != LONG:
        drift[big] = 0.0
        for e in range(lo, lo + size[big]):
            gain[e], slope[e] = -np.inf, 0.0
    if size[big] + count > room[big]:
        for e in range(size[big]):
            gain[free + e], slope[free + e] = gain[lo + e], slope[lo + e]
            nbr[free + e], between[free + e] = nbr[lo + e], between[lo + e]
        lo = free
        room[big] = (size[big] + count) * 3 // 2
        free += room[big]
    start[new], room[new] = lo, room[big]
    size[new] = _extend_long(
        gain, slope, nbr, between, lo, size[big], link, slot, new, out, out_between, count
    )
    return free


@kernel
def _merge_items(
    n: int, total: float, vol: FloatArray, cut: FloatArray, inner: FloatArray, parent: IndexArray, link: IndexArray,
    start: PtrArray, size: PtrArray, live: PtrArray, room: PtrArray, slot: IndexArray, twin: IndexArray,
    drift: FloatArray, nbr: IndexArray, between: FloatArray, gain: FloatArray, slope: Float32Array, out: IndexArray,
    out_between: FloatArray, keys: FloatArray, pairs: PtrArray, long_from: int,
) -> None:  # fmt: skip
    """Merge pairs of clusters, smallest entropy change first, until only the root is left.

    ``nbr`` and ``between`` contain the lists of the items. Writes ``parent``, ``vol``, ``cut`` and ``inner``.
    """
    heap = _init_heaps(
        n, total, vol, cut, link, start, size, live, room, twin, nbr, between, gain, keys, pairs
    )
    free = start[n - 1] + size[n - 1]
    new = n
    while new < 2 * n - 1:
        assert heap > 0  # the items are connected
        i, j = pairs[0] >> 32, pairs[0] & 0xFFFFFFFF
        heap = heap_remove_min(keys, pairs, heap)
        if link[j] != j:
            continue
        if link[i] == i:
            weight = between[start[j]]
            vol[new] = vol[i] + vol[j]
            cut[new] = cut[i] + cut[j] - 2.0 * weight
            inner[new] = weight
            parent[i] = parent[j] = new
            if free + (size[i] + size[j] + 1) * 3 // 2 > nbr.shape[0]:
                free = _pack_lists(gain, slope, nbr, between, start, size, room, link, new)
            link[i] = link[j] = link[new] = new
            count = np.int64(0)
            for k in (i, j):
                if k < n and twin[k] >= 0:
                    out[count], out_between[count] = twin[k], weight
                    slot[twin[k]] = count
                    count += 1
            big, small = (i, j) if size[i] > size[j] else (j, i)
            free = _merge_lists(
                gain, slope, nbr, between, start, size, live, room, link, slot, drift, big, small, new, out,
                out_between, count, free, long_from,
            )  # fmt: skip
            if size[big] >= long_from:
                inside = max(vol[big] - cut[big], 0.0)
                drift[new] = drift[big] + inside * math.log2(vol[new] / vol[big]) / total
            if size[new] >= long_from:
                live[new] = LONG
            else:
                live[new] = size[new]
                _build_list_heap(gain, nbr, between, start[new], size[new], vol, cut, new, total)
            j = new
            new += 1
        lo = start[j]
        if live[j] == LONG:
            found, key = _find_in_long(
                gain, slope, nbr, between, lo, size[j], vol, cut, link, j, drift[j], total
            )
        else:
            live[j] = _skip_merged(gain, nbr, between, lo, live[j], link)
            found, key = live[j] > 0, gain[lo]
        if found:
            heap = heap_push(keys, pairs, heap, key, np.int64(nbr[start[j]]) << 32 | j)


@kernel
def merge_trees(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, part_ptr: PtrArray, active: BoolArray,
    vol: FloatArray, cut: FloatArray, total: FloatArray, long_from: int, first: int, last: int,
    tree_parent: IndexArray, tree_vol: FloatArray, tree_cut: FloatArray, tree_inner: FloatArray,
) -> None:  # fmt: skip
    """Build the binary merge trees of the parts ``first..last``, smallest structural entropy first.

    Args:
        indptr, indices, weight: Rows of simple undirected graphs with positive weights.
        part_ptr: ``[P + 1]``. Part ``p`` consists of the nodes ``part_ptr[p]:part_ptr[p + 1]``. It is connected and
            has no edge to another part.
        active: ``[P]``, parts to process. The output for other parts is not changed.
        vol, cut: ``[N]``, volume and boundary weight of each node.
        total: ``[P]``, volume of the graph that contains each part.
        long_from: Smallest size of a long list; affects only the speed.
        first, last: Range of parts, so that ranges can run on several threads.
        tree_parent, tree_vol, tree_cut: ``[2 N]`` output from ``2 * part_ptr[p]`` on: parent, volume, boundary weight.
        tree_inner: ``[2 N]`` output, same positions: weight between the two children of merged nodes.
    """
    most, entries = np.int64(0), np.int64(0)
    for p in range(first, last):
        if active[p]:
            most = max(most, part_ptr[p + 1] - part_ptr[p])
            entries = max(entries, indptr[part_ptr[p + 1]] - indptr[part_ptr[p]])
    ids = 2 * most
    link, slot = np.empty(ids, np.int32), np.empty(ids, np.int32)
    start, size, room = np.empty(ids, np.int64), np.empty(ids, np.int64), np.empty(ids, np.int64)
    live, pairs = np.empty(ids, np.int64), np.empty(ids, np.int64)
    keys, drift = np.empty(ids), np.empty(ids)
    twin, out, out_between = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most)
    slot[:] = -1
    # The total length of the lists in use never grows. A list that is moved gets room for half as many entries more.
    pool = 5 * entries // 2 + 8
    nbr, between = np.empty(pool, np.int32), np.empty(pool)
    gain, slope = np.empty(pool), np.empty(pool, np.float32)
    for p in range(first, last):
        if not active[p]:
            continue
        lo, n = part_ptr[p], part_ptr[p + 1] - part_ptr[p]
        shift = indptr[lo]
        for i in range(n):
            tree_vol[2 * lo + i] = vol[lo + i]
            tree_cut[2 * lo + i] = cut[lo + i]
            start[i] = indptr[lo + i] - shift
            size[i] = indptr[lo + i + 1] - indptr[lo + i]
        for e in range(indptr[lo + n] - shift):
            nbr[e] = indices[shift + e] - lo
            between[e] = weight[shift + e]
        a, b = 2 * lo, 2 * (lo + n)
        _merge_items(
            n, total[p], tree_vol[a:b], tree_cut[a:b], tree_inner[a:b], tree_parent[a:b], link, start, size,
            live, room, slot, twin, drift, nbr, between, gain, slope, out, out_between, keys, pairs, long_from,
        )  # fmt: skip
