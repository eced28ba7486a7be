"""Structural-entropy coding trees: storage of the neighbours of hubs.

Region of a hub in the arrays of the lists, from ``start[h]``, with ``room[h]`` entries:

- Neighbours that are not hubs are at the lower end, ``size[h]`` of them. They are the leaves of the tournament. Node ``t`` of
  the tournament has the children ``2 t`` and ``2 t + 1``; the leaves follow at ``room[h] + position``. ``win`` is the
  position of the winner, ``gain`` the volume at which the first certificate below the node expires.
- Neighbours that are hubs are at the upper end, ``hubs[h]`` of them. Both sides of such a pair change often, so these
  entries are searched one by one, by a bound that needs no logarithm.
- ``table`` (two places per entry) is a hash table from the key of a neighbour to its position.

The key of a neighbour is its id, or the ``name`` of a hub: the id that the cluster had when it became a hub. ``who[name]`` is
the current id of the hub, or -1. Entries of merged clusters stay until they win, or until the region is moved.

Rows of ``cl``, per cluster: start, size, room, live, hubs. ``state`` contains the first free position of the lists, the number
of regions, and the number of visited entries. ``region`` lists the positions and clusters of all lists in the order of
their positions.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray, IndexArray, IndexMatrixArray, PtrArray, PtrMatrixArray

__all__ = ["HUB", "add_weight", "expire", "find_entry", "move_hub", "pack"]

HUB = -1  # value of ``live`` for a hub


@kernel(inner=True)
def find_entry(table: IndexArray, nbr: IndexArray, lo: int, room: int, key: int) -> int:
    """Return the position of a neighbour in the region of a hub, or ``-1 - place`` of the free place in its table."""
    at = ((key * 2654435761) & 0xFFFFFFFF) * (2 * room) >> 32
    while table[2 * lo + at] >= 0:
        position = table[2 * lo + at]
        if nbr[lo + position] == key:
            return int(position)
        at += 1
        if at == 2 * room:
            at = 0
    return -1 - at


@kernel(inner=True)
def expire(gain: FloatArray, lo: int, room: int, position: int) -> None:
    """Let the certificates above a leaf expire."""
    t = (room + position) >> 1
    while t > 0 and gain[lo + t] != -np.inf:
        gain[lo + t] = -np.inf
        t >>= 1


@kernel(inner=True)
def move_hub(
    h: int, to: int, spare: bool, cl: PtrMatrixArray, node: IndexMatrixArray, who: IndexArray, nbr: IndexArray,
    between: FloatArray, gain: FloatArray, table: IndexArray,
) -> int:  # fmt: skip
    """Move the region of hub ``h`` without entries of merged clusters; return the first position after it.

    A region that is moved down may overlap the old one, and gets no spare room.
    """
    lo, room, size, hubs = cl[0, h], cl[2, h], cl[1, h], cl[4, h]
    kept, kept_hubs = 0, 0
    for e in range(lo, lo + size):
        if nbr[e] >= 0 and node[nbr[e], 0] == nbr[e]:
            kept += 1
    for e in range(lo + room - hubs, lo + room):
        if who[nbr[e]] >= 0 and node[who[nbr[e]], 0] == who[nbr[e]]:
            kept_hubs += 1
    new_room = kept + kept_hubs
    if spare:
        new_room += (new_room >> 1) + 8
    if new_room < 2:
        new_room = 2
    at = to
    for e in range(lo, lo + size):
        if nbr[e] >= 0 and node[nbr[e], 0] == nbr[e]:
            nbr[at], between[at] = nbr[e], between[e]
            at += 1
    at = to + new_room - kept_hubs
    for e in range(lo + room - hubs, lo + room):
        if who[nbr[e]] >= 0 and node[who[nbr[e]], 0] == who[nbr[e]]:
            nbr[at], between[at] = nbr[e], between[e]
            at += 1
    cl[0, h], cl[1, h], cl[2, h], cl[4, h] = to, kept, new_room, kept_hubs
    for e in range(2 * to, 2 * (to + new_room)):
        table[e] = -1
    for position in range(new_room):
        gain[to + position] = -np.inf
        if position < kept or position >= new_room - kept_hubs:
            at = find_entry(table, nbr, to, new_room, np.int64(nbr[to + position]))
            table[2 * to - 1 - at] = position
    return to + new_room


@kernel(inner=True)
def pack(
    cl: PtrMatrixArray, node: IndexMatrixArray, who: IndexArray, nbr: IndexArray, between: FloatArray, gain: FloatArray,
    table: IndexArray, region: PtrMatrixArray, state: PtrArray,
) -> None:  # fmt: skip
    """Close the gaps that the lists of merged clusters have left. Regions are listed in the order of their positions."""
    free, kept = 0, 0
    for k in range(state[1]):
        j = region[1, k]
        while node[j, 0] != j:
            j = np.int64(node[j, 0])
        lo = cl[0, j]
        if lo != region[0, k]:
            continue
        region[0, kept], region[1, kept] = free, j
        kept += 1
        if cl[3, j] == HUB:
            free = move_hub(j, free, False, cl, node, who, nbr, between, gain, table)
            continue
        for e in range(cl[1, j]):
            nbr[free + e], between[free + e], gain[free + e] = nbr[lo + e], between[lo + e], gain[lo + e]
        cl[0, j] = free
        free += cl[1, j]
    state[0], state[1] = free, kept


@kernel(inner=True)
def add_weight(
    h: int, key: int, weight: float, is_hub: bool, cl: PtrMatrixArray, node: IndexMatrixArray, who: IndexArray, nbr: IndexArray,
    between: FloatArray, gain: FloatArray, table: IndexArray, region: PtrMatrixArray, state: PtrArray,
) -> None:  # fmt: skip
    """Add a weight to the entry of a neighbour of hub ``h``; create the entry if there is none."""
    state[2] += 1
    at = find_entry(table, nbr, cl[0, h], cl[2, h], key)
    if at >= 0:
        between[cl[0, h] + at] += weight
        if not is_hub:
            expire(gain, cl[0, h], cl[2, h], at)
        return
    if cl[1, h] + cl[4, h] == cl[2, h]:
        if state[0] + (cl[2, h] >> 1) + cl[2, h] + 8 > nbr.shape[0] or state[1] == region.shape[1]:
            pack(cl, node, who, nbr, between, gain, table, region, state)
        region[0, state[1]], region[1, state[1]] = state[0], h
        state[1] += 1
        state[2] += cl[2, h]
        state[0] = move_hub(h, state[0], True, cl, node, who, nbr, between, gain, table)
        at = find_entry(table, nbr, cl[0, h], cl[2, h], key)
    lo, room = cl[0, h], cl[2, h]
    if is_hub:
        cl[4, h] += 1
        position = room - cl[4, h]
    else:
        position = cl[1, h]
        cl[1, h] += 1
        expire(gain, lo, room, position)
    nbr[lo + position], between[lo + position] = key, weight
    table[2 * lo - 1 - at] = position
