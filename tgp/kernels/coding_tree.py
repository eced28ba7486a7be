"""Structural-entropy coding trees: greedy merging of a graph into a binary tree.

Works on simple undirected connected graphs (see :mod:`tgp.kernels.coding_tree_graph`), many behind
one another. No matrix, and no heap over all pairs: a cluster keeps the list of the clusters it touched
when it was made, names in old lists are resolved by union-find, and the heap over the whole graph holds
only the best pair of each cluster. A pair belongs to the younger of the two.

- The candidates of a short list are a heap inside the list.
- A long list is kept in place when its cluster grows. Each entry has a lower bound of its entropy
  change, and only entries whose bound is not above the best one are evaluated again. Otherwise the hubs of
  scale-free graphs would cost their degree in logarithms at every merge.

Tree ids: items ``0..n-1``, then merged nodes by creation. The pair ``(i, j)``, ``i < j``, is packed as
``i << 32 | j``, so that ties fall to smaller ids.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tgp.kernels._prims import heap_drop, heap_push, uf_find

__all__ = ["merge_trees"]

LONG = -1
"""Mark of a long list in ``live``, which counts the entries of the heap in a short one."""


@njit(cache=True, nogil=True)
def _sink_in_list(gain, nbr, between, lo, size, at):
    """Restore the heap over (gain, neighbour) of the list at ``lo``, below position ``at``."""
    key, who, weight = gain[lo + at], nbr[lo + at], between[lo + at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        c = lo + child
        if child + 1 < size and (gain[c + 1] < gain[c] or (gain[c + 1] == gain[c] and nbr[c + 1] < nbr[c])):
            child += 1
            c += 1
        if gain[c] > key or (gain[c] == key and nbr[c] >= who):
            break
        gain[lo + at], nbr[lo + at], between[lo + at] = gain[c], nbr[c], between[c]
        at = child
    gain[lo + at], nbr[lo + at], between[lo + at] = key, who, weight


@njit(cache=True, nogil=True)
def _terms(v1, inside1, v2, inside2, between, total):
    """The three terms of the entropy change of a merge: first + second - third, over ``total``."""
    v12 = v1 + v2
    # A node without inner edges adds exactly nothing: the logarithm need not be taken.
    first = inside1 * math.log2(v12 / v1) if inside1 != 0.0 else 0.0
    second = inside2 * math.log2(v12 / v2) if inside2 != 0.0 else 0.0
    return first, second, 2.0 * between * math.log2(total / v12)


@njit(cache=True, nogil=True)
def _rank(gain, nbr, between, lo, size, vol, cut, j, total):
    """Entropy change of merging ``j`` with each candidate of its list, as a heap."""
    for e in range(lo, lo + size):
        i = nbr[e]
        first, second, third = _terms(vol[i], vol[i] - cut[i], vol[j], vol[j] - cut[j], between[e], total)
        gain[e] = (first + second - third) / total
    for at in range(size // 2 - 1, -1, -1):
        _sink_in_list(gain, nbr, between, lo, size, at)


@njit(cache=True, nogil=True)
def _skip_merged(gain, nbr, between, lo, live, link):
    """Move merged clusters from the top of the heap of a list behind it; returns its new size."""
    while live > 0 and link[nbr[lo]] != nbr[lo]:
        live -= 1
        e = lo + live
        gain[lo], gain[e] = gain[e], gain[lo]
        nbr[lo], nbr[e] = nbr[e], nbr[lo]
        between[lo], between[e] = between[e], between[lo]
        _sink_in_list(gain, nbr, between, lo, live, np.int64(0))
    return live


@njit(cache=True, nogil=True)
def _best_of_long(gain, slope, nbr, between, lo, size, vol, cut, link, j, drift, total):
    """Best candidate of a long list: moved to its front; returns whether there is one.

    ``gain`` is a lower bound here: exact when last evaluated, falling by ``slope`` times the drift
    of ``j`` since. Only entries whose bound is not above the best so far are evaluated again.
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
        # Twins come in crowds: what was just evaluated need not be again.
        if vol[i] != seen_vol or cut[i] != seen_cut or between[e] != seen_between:
            seen_vol, seen_cut, seen_between = vol[i], cut[i], between[e]
            first, second, third = _terms(vol[i], vol[i] - cut[i], vol[j], vol[j] - cut[j], between[e], total)
            exact = (first + second - third) / total
            size_of_terms = (first + second + abs(third)) / total
        # Rounded up, so that float32 and later sums never make a bound too high.
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


@njit(cache=True, nogil=True)
def _pack_lists(gain, slope, nbr, between, start, size, room, link, new):
    """Close the gaps that the lists of merged clusters left; returns the end of the pool."""
    free = np.int64(0)
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


@njit(cache=True, nogil=True)
def _gather(nbr, between, first, last, link, slot, new, out, out_between, count):
    """Append entries ``first..last`` by present names to ``out``, adding up; returns its new length."""
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


@njit(cache=True, nogil=True)
def _extend_long(gain, slope, nbr, between, lo, size, link, slot, new, out, out_between, count):
    """Add what was gathered to the long list at ``lo``, renaming its merged entries; returns its new size.

    A changed entry gets no bound (minus infinity). There is room for the gathered entries behind the list.
    """
    e = lo
    while e < lo + size:
        if link[nbr[e]] == nbr[e]:
            e += 1
            continue
        count = _gather(nbr, between, e, e + 1, link, slot, new, out, out_between, count)
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


@njit(cache=True, nogil=True)
def _hide_twins(n, vol, cut, start, size, hidden, twin, nbr, between):
    """Leave only the first of equal pendants of a node in its list; ``twin`` leads to the next.

    Pendants of a node that do not differ in volume, boundary and edge weight are equally good forever,
    so the smallest id goes first. Without this a star would cost its size at every merge.
    """
    for j in range(n):
        twin[j] = -1
        hidden[j] = 0
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


@njit(cache=True, nogil=True)
def _start_merging(n, total, vol, cut, link, start, size, live, room, twin, nbr, between, gain, keys, pairs):
    """Lists of the items as heaps over the pairs they own (with smaller ids); returns the heap's size."""
    _hide_twins(n, vol, cut, start, size, live, twin, nbr, between)
    heap = np.int64(0)
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
            _rank(gain, nbr, between, lo, owned, vol, cut, j, total)
            heap = heap_push(keys, pairs, heap, gain[lo], np.int64(nbr[lo]) << 32 | j)
    return heap


@njit(cache=True, nogil=True)
def _next_best(gain, slope, nbr, between, start, size, live, vol, cut, link, drift, j, total):
    """Bring the best standing candidate of ``j`` to the front of its list: ``(found, entropy change)``."""
    lo = start[j]
    if live[j] == LONG:
        return _best_of_long(gain, slope, nbr, between, lo, size[j], vol, cut, link, j, drift[j], total)
    live[j] = _skip_merged(gain, nbr, between, lo, live[j], link)
    return live[j] > 0, gain[lo]


@njit(cache=True, nogil=True)
def _join(
    gain, slope, nbr, between, start, size, live, room, link, slot, drift, big, small, new, out, out_between,
    count, free, long_from,
):  # fmt: skip
    """The list of ``new`` = those of ``big`` and ``small`` and ``count`` gathered ones; returns the pool's end."""
    long_list = size[big] >= long_from
    for old in (small, big):
        if old == small or not long_list:
            first, last = start[old], start[old] + size[old]
            count = _gather(nbr, between, first, last, link, slot, new, out, out_between, count)
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


@njit(cache=True, nogil=True)
def _merge(
    n, total, vol, cut, inner, parent, link, start, size, live, room, slot, twin, drift,
    nbr, between, gain, slope, out, out_between, keys, pairs, long_from,
):  # fmt: skip
    """Merge the items pair by pair, least entropy change first, until one is left: the root.

    ``nbr``/``between`` hold the lists of the items on entry. Fills ``parent``, and ``vol``, ``cut``
    and ``inner`` (weight between the two children) of the merged nodes.
    """
    heap = _start_merging(
        n, total, vol, cut, link, start, size, live, room, twin, nbr, between, gain, keys, pairs
    )
    free = start[n - 1] + size[n - 1]
    new = n
    while new < 2 * n - 1:
        assert heap > 0  # the items are connected
        i, j = pairs[0] >> 32, pairs[0] & 0xFFFFFFFF
        heap = heap_drop(keys, pairs, heap)
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
            free = _join(
                gain, slope, nbr, between, start, size, live, room, link, slot, drift, big, small, new, out,
                out_between, count, free, long_from,
            )  # fmt: skip
            if size[big] >= long_from:
                drift[new] = (
                    drift[big] + max(vol[big] - cut[big], 0.0) * math.log2(vol[new] / vol[big]) / total
                )
            if size[new] >= long_from:
                live[new] = LONG
            else:
                live[new] = size[new]
                _rank(gain, nbr, between, start[new], size[new], vol, cut, new, total)
            j = new
            new += 1
        found, key = _next_best(gain, slope, nbr, between, start, size, live, vol, cut, link, drift, j, total)
        if found:
            heap = heap_push(keys, pairs, heap, key, np.int64(nbr[start[j]]) << 32 | j)


@njit(cache=True, nogil=True)
def merge_trees(
    indptr, indices, weight, part_ptr, active, vol, cut, total, long_from, first, last,
    tree_parent, tree_vol, tree_cut, tree_inner,
):  # fmt: skip
    """Binary merge trees of the parts ``first..last``, least structural entropy first.

    Args:
        indptr, indices, weight: simple undirected rows, weights > 0.
        part_ptr: ``[P + 1]`` int64: part ``p`` owns nodes ``part_ptr[p]:part_ptr[p + 1]``, is connected
            and has no edge to another part.
        active: ``[P]`` bool: parts to work on; the others are left alone.
        vol, cut: ``[N]`` float64 volume and boundary weight of each node.
        total: ``[P]`` float64 volume of the graph that each part is seen in.
        long_from: number of neighbours that make a list long; a matter of speed alone.
        first, last: range of parts, so that ranges can run on several threads.
        tree_parent: ``[2 N]`` int32, filled from ``2 * part_ptr[p]`` on: parent of each tree node.
        tree_vol, tree_cut: ``[2 N]`` float64, filled likewise: volume and boundary weight.
        tree_inner: ``[2 N]`` float64, filled likewise for merged nodes: weight between the children.
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
    for i in range(ids):
        slot[i] = -1
    # The lists in use never grow in sum. One that is moved takes its length and half as much again.
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
        _merge(
            n, total[p], tree_vol[a:b], tree_cut[a:b], tree_inner[a:b], tree_parent[a:b], link, start, size,
            live, room, slot, twin, drift, nbr, between, gain, slope, out, out_between, keys, pairs, long_from,
        )  # fmt: skip
