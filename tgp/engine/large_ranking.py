"""Steps on one large graph, on several threads: symmetry and ranks of nodes; and assignments of clusters and pairs.

The results are those of the kernels for blocks of graphs (:mod:`tgp.kernels.mis`, :mod:`tgp.kernels.matching`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tgp.engine import threads
from tgp.engine.threads import run_over_items, run_over_ranges, run_ranges
from tgp.kernels.array_types import WordArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = [
    "find_symmetry",
    "first_members",
    "is_large",
    "number_clusters",
    "number_members",
    "number_pairs",
    "rank_by_first",
    "rank_nodes",
]

_MIN_NODES = 1 << 17
"""Number of nodes from which the nodes of one graph are ranked on several threads."""

_MIN_ENTRIES = 1 << 20
"""Number of stored entries from which hashes are compared before entries."""

_SAMPLE = 1 << 10
"""Number of keys per thread from which the parts of a sort are chosen."""


def is_large(block: BlockCSR) -> bool:
    """Return True if the block is one graph whose nodes should be ranked on several threads.

    Args:
        block: the graphs.
    """
    return block.num_graphs == 1 and block.num_nodes >= _MIN_NODES and threads.num_threads() > 1


def find_symmetry(block: BlockCSR) -> npt.NDArray[np.int8]:
    """Return :attr:`BlockCSR.symmetry <tgp.ragged.BlockCSR.symmetry>`, by a sum of hashes if the block is one large graph.

    Hashes are read front to back. Comparing the two directions of each edge takes 20 times as long if nodes are numbered at random.
    If the hashes differ, or edges are stored more than once, the edges are compared.

    Args:
        block: the graphs.
    """
    if "symmetry" in vars(block) or block.num_graphs != 1 or block.num_edges < _MIN_ENTRIES:
        return block.symmetry
    from tgp.kernels import local_matching, mis

    none, sums = np.empty(0, np.uint64), list[int]()

    def add(first: int, last: int) -> None:
        sums.append(int(local_matching.fingerprint(block.indptr, block.indices, none, False, first, last)))

    run_over_ranges(add, block.indptr)
    if sum(sums) % 2**64 == 0:
        vars(block)["symmetry"] = np.array([mis.BALANCED], np.int8)
    return block.symmetry


def rank_nodes(score: FloatArray, divisor: FloatArray, divides: bool) -> IndexArray:
    """Return the nodes of one graph by descending ``score / divisor``; equal ones by index, NaN first.

    Args:
        score: ``[N]`` scores.
        divisor: ``[N]`` divisors.
        divides: use the divisors.
    """
    from tgp.kernels import rank_ranges as kernels

    size, count = len(score), threads.num_threads()
    key = np.empty(size)
    bits = key.view(np.uint64)

    def write(first: int, last: int) -> None:
        kernels.rank_keys(score, divisor, divides, first, last, key, bits)

    run_over_items(write, size)
    bounds = _choose_bounds(bits, count)
    parts: dict[int, tuple[WordArray, IndexArray]] = {}

    def take(first: int, last: int) -> None:
        # Pages that are not written take no memory.
        keys, nodes = np.empty(size, np.uint64), np.empty(size, np.int32)
        taken = kernels.take_part(bits, *bounds[first], *bounds[last], keys, nodes)
        parts[first] = keys[:taken], nodes[:taken]

    run_ranges(take, np.arange(len(bounds)), count)
    starts = offsets([len(parts[first][1]) for first in range(len(parts))])
    order = np.empty(size, np.int32)

    def sort(first: int, last: int) -> None:
        keys, nodes = parts[first]
        others, scratch = np.empty(len(nodes), np.int32), np.empty(8 * 256, np.int64)
        swapped = kernels.sort_part(keys, nodes, np.empty(len(nodes), np.uint64), others, scratch)
        order[starts[first] : starts[last]] = others if swapped else nodes

    run_ranges(sort, np.arange(len(bounds)), count)
    return order


def _choose_bounds(bits: WordArray, parts: int) -> list[tuple[np.uint64, int]]:
    """Return ``parts + 1`` pairs of key and node that divide the nodes into about equal parts. The result does not depend on them."""
    step = max(len(bits) // (parts * _SAMPLE), 1)
    nodes = np.arange(0, len(bits), step)
    nodes = nodes[np.argsort(bits[nodes], kind="stable")]
    inner = nodes[np.linspace(0, len(nodes), parts + 1).astype(np.int64)[1:-1]]
    between = [(bits[node], int(node)) for node in inner]
    return [(np.uint64(0), 0), *between, (np.uint64(2**64 - 1), len(bits))]


def number_members(owner: IndexArray) -> tuple[IndexArray, PtrArray, IndexArray]:
    """Return the cluster of each node, the offsets of the clusters, and the selected node of each cluster.

    Args:
        owner: ``[N]`` selected node of each node of one graph.
    """
    from tgp.kernels import rank_ranges as kernels

    size, counts = len(owner), dict[int, int]()

    def count(first: int, last: int) -> None:
        counts[first] = kernels.count_members(owner, first, last)

    run_over_items(count, size)
    firsts = sorted(counts)
    before = dict(zip(firsts, offsets([counts[first] for first in firsts]).tolist(), strict=False))
    members = np.empty(sum(counts.values()), np.int32)
    name, cluster = np.empty(size, np.int32), np.empty(size, np.int32)

    def number(first: int, last: int) -> None:
        kernels.name_members(owner, first, last, before[first], name, members)

    run_over_items(number, size)

    def write(first: int, last: int) -> None:
        kernels.name_clusters(owner, name, first, last, cluster)

    run_over_items(write, size)
    return cluster, np.array([0, len(members)], np.int64), members


def number_pairs(mate: IndexArray, graphs: BlockCSR) -> Assignment:
    """Return the assignment of a matching. Supernodes are numbered by their smallest node.

    Args:
        mate: ``[N]`` partner of each node, or the node itself.
        graphs: the graphs.
    """
    from tgp.kernels import matching

    size, node_ptr = len(mate), graphs.node_ptr
    if not is_large(graphs):
        cluster, super_ptr = np.empty(size, np.int32), np.empty(len(node_ptr), np.int64)
        matching.number_pairs(mate, node_ptr, cluster, super_ptr)
        return Assignment("hard", super_ptr, cluster)
    owner = np.empty(size, np.int32)

    def write(first: int, last: int) -> None:
        np.minimum(mate[first:last], np.arange(first, last, dtype=np.int32), out=owner[first:last])

    run_over_items(write, size)
    return Assignment("hard", *reversed(number_members(owner)[:2]))


def number_clusters(label: IndexArray, node_ptr: PtrArray) -> Assignment:
    """Return an assignment whose supernodes are numbered by their first node.

    Args:
        label: ``[N]`` label of each node, in ``[0, N)``. Graphs have no label in common.
        node_ptr: ``[B + 1]`` offsets of the graphs.
    """
    from tgp.kernels import communities as kernels

    cluster, super_ptr = np.empty(len(label), np.int32), np.empty(len(node_ptr), np.int64)
    kernels.number_labels(label, node_ptr, np.full(len(label), -1, np.int32), cluster, super_ptr)
    return Assignment("hard", super_ptr, cluster)


def first_members(cluster: npt.NDArray[np.integer], num_clusters: int) -> IndexArray:
    """Return the first node of each cluster, and ``N`` for a cluster without nodes.

    Args:
        cluster: ``[N]`` cluster of each node.
        num_clusters: number of clusters.

    Examples:
        >>> first_members(np.array([1, 0, 1, 0]), 2).tolist()
        [1, 0]
    """
    first = np.full(num_clusters, len(cluster), np.int32)
    first[cluster[::-1]] = np.arange(len(cluster), dtype=np.int32)[::-1]
    return first


def rank_by_first(cluster: npt.NDArray[np.integer], num_clusters: int) -> IndexArray:
    """Return the rank of each cluster in the order of the first nodes.

    Args:
        cluster: ``[N]`` cluster of each node.
        num_clusters: number of clusters.

    Examples:
        >>> rank_by_first(np.array([2, 0, 1, 0]), 3).tolist()
        [1, 2, 0]
    """
    rank = np.empty(num_clusters, np.int32)
    rank[np.argsort(first_members(cluster, num_clusters), kind="stable")] = np.arange(
        num_clusters, dtype=np.int32
    )
    return rank
