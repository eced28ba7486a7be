"""Ranks and clusters of the nodes of one large graph, by ranges.

Nodes are sorted by a key and, if keys are equal, by index. No two nodes are equal in this order, so it can be cut anywhere: the owner of
a part reads the keys of all nodes, takes the nodes of its part and sorts them.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray, WordArray
from tgp.kernels.mis import sort_by_keys, write_rank_keys

__all__ = ["count_members", "name_clusters", "name_members", "rank_keys", "sort_part", "take_part"]


@kernel
def rank_keys(
    score: FloatArray,
    divisor: FloatArray,
    divide: bool,
    first: int,
    last: int,
    key: FloatArray,
    bits: WordArray,
) -> None:
    """Write the keys of the nodes ``first..last``. Ascending keys rank NaN first, then the largest ``score / divisor``.

    Args:
        score, divisor: ``[N]`` scores and their divisors.
        divide: Use the divisors.
        first, last: Range of nodes.
        key: ``[N]`` scratch.
        bits: ``[N]`` output, a uint64 view of ``key``.
    """
    write_rank_keys(score, divisor, first, last - first, divide, key[first:last], bits[first:last])


@kernel
def take_part(
    bits: WordArray, least: np.uint64, least_node: int, most: np.uint64, most_node: int, keys: WordArray,
    nodes: IndexArray,
) -> int:  # fmt: skip
    """Write the nodes of one part and their keys, by ascending index; return their number.

    Args:
        bits: ``[N]`` keys.
        least, least_node: Key and index of the first node of the part.
        most, most_node: Key and index of the first node after the part.
        keys, nodes: Output, long enough for the part.
    """
    count = np.uint64(0)
    for i in range(bits.shape[0]):
        key = bits[i]
        after = key > least or (key == least and i >= least_node)
        before = key < most or (key == most and i < most_node)
        if after and before:
            keys[count] = key
            nodes[count] = i
            count += np.uint64(1)
    size: int = np.int64(count)
    return size


@kernel
def sort_part(
    keys: WordArray, nodes: IndexArray, other_keys: WordArray, other_nodes: IndexArray, counts: PtrArray
) -> bool:
    """Sort ``nodes`` by ``keys``, stable; return True if the result is in the other two arrays.

    Args:
        keys, nodes: ``[n]`` keys and nodes, overwritten.
        other_keys, other_nodes: ``[n]`` scratch.
        counts: ``[8 * 256]`` scratch.
    """
    return sort_by_keys(keys, nodes, keys.shape[0], other_keys, other_nodes, counts)


@kernel
def count_members(owner: IndexArray, first: int, last: int) -> int:
    """Return the number of nodes ``first..last`` that own themselves."""
    count = 0
    for i in range(first, last):
        count += np.int64(owner[i]) == i
    return count


@kernel
def name_members(
    owner: IndexArray, first: int, last: int, count: int, name: IndexArray, members: IndexArray
) -> None:
    """Number the nodes of ``first..last`` that own themselves.

    Args:
        owner: ``[N]`` owner of each node.
        first, last: Range of nodes.
        count: Number of such nodes before the range.
        name: ``[N]`` output, the number of each such node. Other places are overwritten with any number.
        members: ``[K]`` output, the nodes in ascending order.
    """
    at = np.uint64(count)
    for i in range(first, last):
        name[i] = at
        if owner[i] == i:
            members[at] = i
            at += np.uint64(1)


@kernel
def name_clusters(owner: IndexArray, name: IndexArray, first: int, last: int, cluster: IndexArray) -> None:
    """Write ``cluster[i] = name[owner[i]]`` for the nodes ``first..last``."""
    for i in range(first, last):
        cluster[i] = name[np.uint32(owner[i])]
