"""Structural-entropy coding trees of large graphs: the merging of :mod:`tgp.kernels.coding_tree` with hubs.

A merge changes the keys of all pairs of the merged cluster. A cluster with a long list (a *hub*) would therefore take time
proportional to its number of neighbours in each merge. A hub instead keeps its neighbours in place, in a kinetic tournament:
a tree over the entries in which each node holds the better of the winners of its two children, and the volume of the
hub up to which that is certain. A query visits only the nodes whose certificates have expired.

The neighbours of a hub are stored as :mod:`tgp.kernels.coding_tree_regions` describes. A pair is packed as ``i << 33 | j << 1 | owner``. ``owner`` is 1 if the list of ``i`` produced it.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import heap_push, heap_remove_min, heap_sink_entry, kernel
from tgp.kernels.array_types import (
    BoolArray,
    FloatArray,
    IndexArray,
    IndexMatrixArray,
    MatrixArray,
    PtrArray,
    PtrMatrixArray,
)
from tgp.kernels.coding_tree import append_entries, build_list_heap, entropy_change, load_part, skip_merged
from tgp.kernels.coding_tree_regions import HUB, add_weight, expire, find_entry, move_hub, pack

__all__ = ["merge_large_trees"]


@kernel(inner=True)
def _certified_volume(
    i: int, k: int, weight_i: float, weight_k: float, lead: float, mass: MatrixArray, h: int, bits: float
) -> float:
    """Return the volume of hub ``h`` up to which its neighbour ``i`` is certainly better than ``k``.

    With the volume V and the inner weight a of the hub, and the volume u, the inner weight c and the edge weight w of a
    neighbour, the entropy change is (c + 2 w + a) log(V + u) - a log(V) + constant. If V grows by x, a grows by at most 2 x.
    The lead of ``i`` can therefore fall by at most (slow + 2 fast x) x, as long as x <= V.
    """
    v: float = mass[h, 0]
    u: float = mass[i, 0]
    other: float = mass[k, 0]
    # Less the rounding errors, now and up to the double volume. ``bits`` is a bound of the logarithms.
    margin = (lead - 1e-14 * bits * (u + other)) * 0.6931
    if margin <= 0.0:
        return v
    terms = u - mass[i, 1] + 2.0 * weight_i
    other_terms = other - mass[k, 1] + 2.0 * weight_k
    both = (v + u) * (v + other)
    slow, fast = 0.0, 0.0
    if terms > other_terms:
        slow += (terms - other_terms) / (v + max(u, other))
    if terms * other > other_terms * u:
        slow += (terms * other - other_terms * u) / both
    if u > other:
        slow += 2.0 * (u - other) / (v + other)
    else:
        fast = (other - u) / both
        slow += fast * (v - mass[h, 1])
    # Solution of slow x + 2 fast x^2 = margin.
    ahead = 2.0 * margin / (slow + math.sqrt(slow * slow + 8.0 * fast * margin) + 1e-300)
    return v + min(ahead, v) * 0.999999


@kernel(inner=True)
def _best_leaf(
    h: int, total: float, mass: MatrixArray, cl: PtrMatrixArray, node: IndexMatrixArray, nbr: IndexArray,
    between: FloatArray, gain: FloatArray, win: IndexArray, stack: PtrArray, state: PtrArray,
) -> int:  # fmt: skip
    """Return the position of the best neighbour of hub ``h`` that is not a hub, or -1."""
    lo, room, size, v = cl[0, h], cl[2, h], cl[1, h], mass[h, 0]
    bits = 64.0 + math.log2(total / v)
    known, known_key = -1, 0.0  # the last value that was computed; it is often needed again
    while True:
        top = 0
        if gain[lo + 1] < v:
            stack[0], top = 1, 1
        while top > 0:
            t = stack[top - 1]
            left, right = 2 * t, 2 * t + 1
            if left < room and gain[lo + left] < v:
                stack[top] = left
                top += 1
                continue
            if right < room and gain[lo + right] < v:
                stack[top] = right
                top += 1
                continue
            top -= 1
            state[2] += 1
            expiry, winner = np.inf, -1
            for child in range(left, right + 1):
                position = child - room
                if child < room:
                    position = win[lo + child]
                    expiry = min(expiry, gain[lo + child])
                elif position >= size or nbr[lo + position] < 0:
                    position = -1
                if winner < 0 or position < 0:
                    winner = max(winner, position)
                    continue
                i, k, w, z = (
                    nbr[lo + winner],
                    nbr[lo + position],
                    between[lo + winner],
                    between[lo + position],
                )
                if mass[i, 0] == mass[k, 0] and mass[i, 1] == mass[k, 1] and w == z:
                    if k < i:
                        winner = position
                    continue
                key = known_key if known == winner else entropy_change(mass, i, h, w, total)
                other = known_key if known == position else entropy_change(mass, k, h, z, total)
                if key < other or (key == other and i < k):
                    until = _certified_volume(i, k, w, z, (other - key) * total, mass, h, bits)
                    known, known_key = winner, key
                else:
                    until = _certified_volume(k, i, z, w, (key - other) * total, mass, h, bits)
                    winner = position
                    known, known_key = position, other
                expiry = min(expiry, until)
            win[lo + t], gain[lo + t] = winner, expiry
        position = np.int64(win[lo + 1])
        if position < 0 or node[nbr[lo + position], 0] == nbr[lo + position]:
            return int(position)
        nbr[lo + position] = -1
        expire(gain, lo, room, position)


@kernel(inner=True)
def _best_of_hub(
    h: int, total: float, mass: MatrixArray, lg: FloatArray, cl: PtrMatrixArray, node: IndexMatrixArray,
    who: IndexArray, nbr: IndexArray, between: FloatArray, gain: FloatArray, win: IndexArray, stack: PtrArray,
    state: PtrArray,
) -> tuple[int, float]:  # fmt: skip
    """Return the best neighbour of hub ``h`` (-1 if there is none) and the entropy change of merging the two."""
    best, found = np.inf, np.int64(-1)
    position = _best_leaf(h, total, mass, cl, node, nbr, between, gain, win, stack, state)
    if position >= 0:
        found = np.int64(nbr[cl[0, h] + position])
        best = entropy_change(mass, found, h, between[cl[0, h] + position], total)
    end = cl[0, h] + cl[2, h]
    state[2] += cl[4, h]
    for e in range(end - cl[4, h], end):
        i = np.int64(who[nbr[e]])
        if i < 0 or node[i, 0] != i:
            continue
        large, tiny = (i, h) if mass[i, 0] > mass[h, 0] else (h, i)
        x = mass[tiny, 0] / mass[large, 0]
        a, c, w = mass[tiny, 0] - mass[tiny, 1], mass[large, 0] - mass[large, 1], 2.0 * between[e]
        # log2(1 + x) >= x + 0.2785 x (1 - x) for x in [0, 1].
        plus = (a + c + w) * (x + 0.2785 * x * (1.0 - x)) + a * (lg[tiny] - lg[large])
        if plus - w * lg[large] - 1e-9 * (plus + w * lg[large]) > best * total:
            continue
        key = entropy_change(mass, i, h, between[e], total)
        if key < best or (key == best and i < found):
            best, found = key, i
    return found, best


@kernel(inner=True)
def _collect(
    old: int, new: int, cl: PtrMatrixArray, node: IndexMatrixArray, who: IndexArray, nbr: IndexArray,
    between: FloatArray, out: IndexArray, out_between: FloatArray, count: int, state: PtrArray,
) -> int:  # fmt: skip
    """Append the current neighbours of a merged cluster to ``out``; return its new length."""
    lo, size = cl[0, old], cl[1, old]
    state[2] += size + cl[4, old]
    if cl[3, old] != HUB:
        return append_entries(nbr, between, lo, lo + size, node, new, out, out_between, count)
    for position in range(cl[2, old]):
        e = lo + position
        if size <= position < cl[2, old] - cl[4, old] or nbr[e] < 0:
            continue
        r = nbr[e] if who[nbr[e]] < 0 else who[nbr[e]]
        if node[r, 0] != r:
            continue
        if node[r, 1] < 0:
            node[r, 1] = count
            out[count], out_between[count] = r, between[e]
            count += 1
        else:
            out_between[node[r, 1]] += between[e]
    return count


@kernel(inner=True)
def _merge_lists(
    i: int, j: int, new: int, count: int, long_from: int, mass: MatrixArray, lg: FloatArray,
    total: float, cl: PtrMatrixArray, node: IndexMatrixArray, name: IndexArray, who: IndexArray, nbr: IndexArray,
    between: FloatArray, gain: FloatArray, table: IndexArray, region: PtrMatrixArray, out: IndexArray,
    out_between: FloatArray, state: PtrArray,
) -> None:  # fmt: skip
    """Write the neighbours of the cluster ``new``: those of ``i`` and ``j``, and the first ``count`` entries of ``out``."""
    big, small = (i, j) if cl[1, i] + cl[4, i] > cl[1, j] + cl[4, j] else (j, i)
    grows = cl[3, big] == HUB
    count = _collect(small, new, cl, node, who, nbr, between, out, out_between, count, state)
    if cl[3, small] == HUB:
        who[name[small]] = -1
    if not grows:
        count = _collect(big, new, cl, node, who, nbr, between, out, out_between, count, state)
    for at in range(count):
        node[out[at], 1] = -1
    who[new], cl[4, new] = -1, 0
    if grows:
        for row in range(5):
            cl[row, new] = cl[row, big]
        name[new] = name[big]
    else:
        cl[0, new], cl[1, new], cl[2, new], cl[3, new] = -1, 0, count, count
        if state[0] + count + 2 > nbr.shape[0] or state[1] == region.shape[1]:
            pack(cl, node, who, nbr, between, gain, table, region, state)
        lo = state[0]
        cl[0, new] = region[0, state[1]] = lo
        region[1, state[1]] = new
        state[1] += 1
        state[0] += count
        if count < long_from:
            cl[1, new] = count
            for at in range(count):
                nbr[lo + at], between[lo + at] = out[at], out_between[at]
            build_list_heap(gain, nbr, between, lo, count, mass, new, total)
        else:
            # Sorted by the current keys: neighbours that will be merged one after the other share a path.
            kept, room = 0, max(count, 2)
            state[0] = lo + room
            for at in range(count):
                y = out[at]
                if cl[3, y] == HUB:
                    cl[4, new] += 1
                    nbr[lo + room - cl[4, new]], between[lo + room - cl[4, new]] = name[y], out_between[at]
                else:
                    nbr[lo + kept], between[lo + kept] = y, out_between[at]
                    kept += 1
            build_list_heap(gain, nbr, between, lo, kept, mass, new, total)
            for at in range(kept - 1, 0, -1):
                e = lo + at
                gain[lo], gain[e] = gain[e], gain[lo]
                nbr[lo], nbr[e] = nbr[e], nbr[lo]
                between[lo], between[e] = between[e], between[lo]
                heap_sink_entry(gain, nbr, between, lo, at, np.int64(0))
            cl[1, new], cl[2, new], cl[3, new], name[new] = kept, room, HUB, new
            move_hub(new, lo, False, cl, node, who, nbr, between, gain, table)
    is_hub = cl[3, new] == HUB
    if is_hub:
        who[name[new]] = new
        lg[new] = math.log2(total / mass[new, 0])
    for at in range(count):
        y, weight = np.int64(out[at]), out_between[at]
        y_is_hub = cl[3, y] == HUB
        if grows:
            key = np.int64(name[y]) if y_is_hub else y
            add_weight(new, key, weight, y_is_hub, cl, node, who, nbr, between, gain, table, region, state)
        if y_is_hub:
            key = np.int64(name[new]) if is_hub else new
            add_weight(y, key, weight, is_hub, cl, node, who, nbr, between, gain, table, region, state)


@kernel
def merge_large_trees(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, part_ptr: PtrArray, active: BoolArray,
    node_vol: FloatArray, node_cut: FloatArray, total: FloatArray, long_from: int, first: int, last: int,
    tree_parent: IndexArray, tree_vol: FloatArray, tree_cut: FloatArray, tree_inner: FloatArray, node: IndexMatrixArray,
    twin: IndexArray, out: IndexArray, name: IndexArray, who: IndexArray, cl: PtrMatrixArray,
    region: PtrMatrixArray, pairs: PtrArray, mass: MatrixArray, keys: FloatArray, out_between: FloatArray,
    lg: FloatArray, nbr: IndexArray, win: IndexArray, table: IndexArray, between: FloatArray, gain: FloatArray,
    stack: PtrArray, state: PtrArray,
) -> None:  # fmt: skip
    """Build the same trees as :func:`~tgp.kernels.coding_tree.merge_trees`, in near-linear time for each graph.

    Args:
        indptr, ..., tree_inner: See :func:`~tgp.kernels.coding_tree.merge_trees`.
        long_from: Smallest number of neighbours of a hub.
        node, ..., lg: Scratch with room for two entries per node of the largest active part; The second column of
            ``node`` contains -1 and is restored. Rows of ``cl``: start, size, room, live, hubs. ``region`` has two rows and one more entry per node.
        nbr, win, between, gain: Scratch for the lists: at least ``5 / 2`` of the entries of a part and 64 more.
        table: Scratch, twice as long.
        stack: Scratch with 64 entries.
        state: ``[3]``: first free position of the lists, number of regions, and the number of visited entries and
            tournament nodes, which is increased.
    """
    start, size, live = cl[0], cl[1], cl[3]
    for p in range(first, last):
        if not active[p]:
            continue
        lo, n = part_ptr[p], part_ptr[p + 1] - part_ptr[p]
        heap = load_part(
            indptr, indices, weight, lo, n, total[p], node_vol, node_cut, mass, node, start, size, live, twin,
            nbr, between, gain, keys, pairs, 33,
        )  # fmt: skip
        state[0], state[1] = indptr[lo + n] - indptr[lo], n
        for j in range(n):
            region[0, j], region[1, j] = start[j], j
            who[j] = -1
            cl[4, j] = 0
        new = n
        while new < 2 * n - 1:
            i, j, owner = pairs[0] >> 33, (pairs[0] >> 1) & 0xFFFFFFFF, pairs[0] & 1
            heap = heap_remove_min(keys, pairs, heap)
            state[2] += 1
            mine = i if owner else j
            if node[mine, 0] != mine:
                continue
            if node[i, 0] == i and node[j, 0] == j:
                if live[j] == HUB or live[i] == HUB:
                    h, y = (j, i) if live[j] == HUB else (i, j)
                    key = np.int64(name[y]) if live[y] == HUB else y
                    joint = between[start[h] + find_entry(table, nbr, start[h], cl[2, h], key)]
                else:
                    joint = between[start[j]]
                mass[new, 0] = mass[i, 0] + mass[j, 0]
                mass[new, 1] = mass[i, 1] + mass[j, 1] - 2.0 * joint
                tree_inner[2 * lo + new] = joint
                tree_parent[2 * lo + i] = tree_parent[2 * lo + j] = new
                node[i, 0] = node[j, 0] = node[new, 0] = new
                count = np.int64(0)
                for k in range(2):
                    old = j if k else i
                    if old < n and twin[old] >= 0:
                        out[count], out_between[count] = twin[old], joint
                        node[twin[old], 1] = count
                        count += 1
                _merge_lists(
                    i, j, new, count, long_from, mass, lg, total[p], cl, node, name, who, nbr, between, gain,
                    table, region, out, out_between, state,
                )  # fmt: skip
                mine = new
                new += 1
            if live[mine] == HUB:
                found, best = _best_of_hub(
                    mine, total[p], mass, lg, cl, node, who, nbr, between, gain, win, stack, state
                )
                if found >= 0:
                    pair = (found << 33 | mine << 1) if found < mine else (mine << 33 | found << 1 | 1)
                    heap = heap_push(keys, pairs, heap, best, pair)
                continue
            live[mine] = skip_merged(gain, nbr, between, start[mine], live[mine], node)
            if live[mine] > 0:
                heap = heap_push(keys, pairs, heap, gain[start[mine]], nbr[start[mine]] << 33 | mine << 1)
        for x in range(2 * n - 1):
            tree_vol[2 * lo + x], tree_cut[2 * lo + x] = mass[x, 0], mass[x, 1]
