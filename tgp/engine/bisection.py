"""Partition of graphs into balanced clusters by recursive multilevel bisection.

A graph that should have ``k`` clusters is divided into two parts that should have ``ceil(k / 2)`` and ``floor(k / 2)`` of them, then
the parts are divided in the same way. All parts of all graphs are divided at the same time: they are the graphs of a block. A
bisection merges pairs of nodes until few nodes remain, divides the small graph, and improves the sides on each of the larger
graphs. The result of a graph does not depend on threads or on the other graphs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tgp.engine.level_method import RandomKey
from tgp.engine.pair_matching import match_free
from tgp.engine.threads import run_over_ranges
from tgp.engine.undirected import make_undirected
from tgp.kernels.array_types import Array, BoolArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray
from tgp.ragged.offsets import offsets, run_maxima

__all__ = ["SizeLimits", "prepare_graphs", "split_recursively"]

Sides = npt.NDArray[np.int8]

_COARSE_NODES = 100
"""Number of nodes below which a graph is not coarsened further."""

_TRIALS = 8
"""Number of bisections of the coarsest graph, of which the best one is used."""

_SLOW = 0.95
"""Share of the nodes above which a round of merging ends the coarsening of a graph."""

_DRAWS = 64
"""Number of random draws of one bisection. It has at most as many rounds of merging, and half of them are starts of trials."""

_EXACT_BITS = 51
"""Number of bits of the sum of all weights of a graph. Sums of float64 numbers of 53 bits are exact."""

_LARGEST_EXPONENT = 500
"""Largest exponent of two of the sum of all weights whose squares neither overflow nor vanish."""


class SizeLimits(NamedTuple):
    """Smallest and largest number of nodes of the clusters of each graph, ``[B]``."""

    least: LongArray
    most: LongArray

    @staticmethod
    def of(nodes: LongArray, k: LongArray, imbalance: float) -> SizeLimits:
        """Return the limits ``min(floor(n / k), ceil((1 - imbalance) n / k))`` and ``max(ceil(n / k), floor((1 + imbalance) n / k))``.

        Args:
            nodes: ``[B]`` number of nodes of each graph.
            k: ``[B]`` number of clusters of each graph, at least 1.
            imbalance: share of the average size by which a cluster may be larger or smaller.
        """
        mean = nodes / k
        least = np.minimum(nodes // k, np.ceil((1.0 - imbalance) * mean).astype(np.int64))
        most = np.maximum(-(-nodes // k), np.floor((1.0 + imbalance) * mean).astype(np.int64))
        return SizeLimits(np.maximum(least, np.minimum(nodes, 1)), most)


def prepare_graphs(block: BlockCSR) -> BlockCSR:
    """Return undirected graphs whose weights have exact sums.

    The weights of a graph are rounded to multiples of a power of two, such that their sum has 51 bits. Whole numbers
    do not change if their sum is below ``2^51``. Sums beyond ``2^-500 .. 2^500`` are multiplied by a power of two.

    Args:
        block: the graphs.
    """
    graphs = make_undirected(block)
    if graphs.weight is None or not graphs.num_edges:
        return BlockCSR(graphs.indptr, graphs.indices, np.ones(graphs.num_edges), graphs.node_ptr)
    ptr = graphs.edge_ptr
    largest = run_maxima(graphs.weight, ptr)
    # The number of entries times the largest weight bounds the sum. frexp is exact.
    bits = np.frexp(largest)[1] + np.frexp(np.diff(ptr).astype(np.float64))[1]
    shift = _EXACT_BITS - bits
    back = np.where(np.abs(bits) > _LARGEST_EXPONENT, 0, -shift)
    with np.errstate(under="ignore"):
        whole = np.rint(np.ldexp(graphs.weight, np.repeat(shift, np.diff(ptr))))
        weight = np.ldexp(whole, np.repeat(back, np.diff(ptr)))
    return BlockCSR(graphs.indptr, graphs.indices, weight, graphs.node_ptr)


def split_recursively(
    graphs: BlockCSR, k: LongArray, limits: SizeLimits, key: RandomKey, repeats: int = 1
) -> IndexArray:
    """Divide each graph into exactly ``k`` clusters.

    Args:
        graphs: graphs of :func:`prepare_graphs`.
        k: ``[B]`` number of clusters of each graph, at least 1 and at most its number of nodes.
        limits: limits of the numbers of nodes, see :meth:`SizeLimits.of`.
        key: key of the random numbers.
        repeats: number of bisections of each part with different random numbers; the one of the smallest cut is used.

    Returns:
        ``[N]`` label of each node: the first node of its cluster. All clusters are within the limits.
    """
    label = np.empty(graphs.num_nodes, np.int32)
    parts = _Parts(graphs, np.arange(graphs.num_nodes, dtype=np.int32), k, limits)
    depth = 0
    while True:
        parts = _finish(parts, label)
        if not len(parts.k):
            return label
        parts = _divide(parts, _bisect_best(parts, key, depth * repeats, repeats))
        depth += 1


class _Parts(NamedTuple):
    """Parts of the graphs that are still to be divided.

    Args:
        graphs: the parts, as graphs of a block.
        origin: ``[N]`` node of the input for each node of the parts.
        k: ``[P]`` number of clusters of each part.
        limits: limits of the clusters of each part.
    """

    graphs: BlockCSR
    origin: IndexArray
    k: LongArray
    limits: SizeLimits


def _finish(parts: _Parts, label: IndexArray) -> _Parts:
    """Write the labels of parts that are clusters, and return the other parts."""
    graphs, nodes = parts.graphs, np.diff(parts.graphs.node_ptr)
    done = parts.k <= 1
    if not done.any():
        return parts
    of_node = np.repeat(done, nodes)
    first = np.repeat(graphs.node_ptr[:-1], nodes)
    label[parts.origin[of_node]] = parts.origin[first[of_node]]
    rest = np.flatnonzero(~done)
    limits = SizeLimits(parts.limits.least[rest], parts.limits.most[rest])
    return _Parts(graphs.take(rest), parts.origin[~of_node], parts.k[rest], limits)


class _Sizes(NamedTuple):
    """Sizes of both sides of a bisection: target of side 0, and limits, ``[P]`` each."""

    target: LongArray
    limit0: LongArray
    limit1: LongArray


def _side_sizes(parts: _Parts) -> _Sizes:
    """Return sizes of both sides from which clusters within their limits can always be made.

    The upper bisections use only a share of the room that the limits leave, so that the lower ones have some.
    """
    total, k = np.diff(parts.graphs.node_ptr), parts.k
    k0 = (k + 1) // 2
    k1 = k - k0
    least, most = parts.limits
    depth = np.frexp((k - 1).astype(np.float64))[1]  # ceil(log2(k))
    factor = 1.0 + np.maximum(most * k / total - 1.0, 0.0) / depth
    target = (total * k0 + k // 2) // k

    def limit(mine: LongArray, other: LongArray) -> LongArray:
        wanted = np.maximum(np.floor(factor * total * mine / k).astype(np.int64), -(-total * mine // k))
        possible: LongArray = np.minimum(mine * most, total - other * least)
        allowed: LongArray = np.minimum(wanted, possible)
        return allowed

    return _Sizes(target, limit(k0, k1), limit(k1, k0))


def _bisect_best(parts: _Parts, key: RandomKey, number: int, repeats: int) -> Sides:
    """Return the best of some bisections of each part, the first one of equal cuts."""
    side = _bisect(parts, key, 2 * _DRAWS * number)
    if repeats == 1:
        return side
    cut, nodes = _cut_weights(parts.graphs, side), np.diff(parts.graphs.node_ptr)
    for repeat in range(1, repeats):
        other = _bisect(parts, key, 2 * _DRAWS * (number + repeat))
        other_cut = _cut_weights(parts.graphs, other)
        better = other_cut < cut
        side = np.where(np.repeat(better, nodes), other, side)
        cut = np.where(better, other_cut, cut)
    return side


def _cut_weights(graphs: BlockCSR, side: Sides) -> FloatArray:
    """Return twice the cut of each graph."""
    from tgp.kernels import bisection as kernels

    assert graphs.weight is not None
    arrays, cut = (graphs.indptr, graphs.indices, graphs.weight, graphs.node_ptr), np.empty(graphs.num_graphs)
    run_over_ranges(lambda first, last: kernels.cut_weights(*arrays, first, last, side, cut), graphs.edge_ptr)
    return cut


def _bisect(parts: _Parts, key: RandomKey, draw: int) -> Sides:
    """Return the side of each node."""
    sizes = _side_sizes(parts)
    graphs = parts.graphs
    size = np.ones(graphs.num_nodes, np.int64)
    levels: list[tuple[BlockCSR, LongArray, IndexArray]] = []
    active = np.diff(graphs.node_ptr) > _COARSE_NODES
    largest = 3 * np.diff(graphs.node_ptr) // (2 * _COARSE_NODES)
    while active.any() and len(levels) < _DRAWS:
        nodes = np.diff(graphs.node_ptr)
        found = _merge(graphs, size, active, largest, key, draw + len(levels))
        assert found.cluster is not None
        levels.append((graphs, size, found.cluster))
        graphs, size = _contract(graphs, size, found)
        merged = np.diff(graphs.node_ptr)
        active &= (merged > _COARSE_NODES) & (merged < _SLOW * nodes)
    scratch = _make_scratch(parts.graphs.num_nodes)
    side = _grow(graphs, size, sizes, key, draw + _DRAWS, scratch)
    while levels:
        graphs, size, cluster = levels.pop()
        side = side[cluster]
        _refine(graphs, size, sizes, side, scratch)
    return side


def _merge(
    graphs: BlockCSR,
    size: LongArray,
    active: BoolArray,
    largest: LongArray,
    key: RandomKey,
    draw: int,
) -> Assignment:
    """Return pairs of nodes of the active graphs. Nodes larger than ``largest`` are not merged."""
    from tgp.kernels import partition as kernels

    score = np.empty(graphs.num_edges)
    assert graphs.weight is not None
    indptr, indices, weight = graphs.indptr, graphs.indices, graphs.weight
    run_over_ranges(
        lambda first, last: kernels.rate_edges(indptr, indices, weight, size, first, last, score), indptr
    )
    nodes = np.diff(graphs.node_ptr)
    free = np.repeat(active, nodes) & (size <= np.repeat(largest, nodes))
    return match_free(graphs, score, key, draw, free, two_hop=True)


def _contract(graphs: BlockCSR, size: LongArray, found: Assignment) -> tuple[BlockCSR, LongArray]:
    """Return the graphs with merged nodes, and the number of input nodes of each node."""
    from tgp.kernels import contract as kernels
    from tgp.kernels._prims import SUM

    cluster, count = found.cluster, found.num_supernodes
    assert cluster is not None and graphs.weight is not None
    rows = kernels.contract(
        graphs.indptr, graphs.indices, graphs.weight, True, cluster, count, SUM, True, -1.0
    )
    # Sums of whole numbers below 2^53 are exact.
    return BlockCSR(*rows, found.super_ptr), np.bincount(cluster, size, count).astype(np.int64)


_Scratch = tuple[Array, ...]
"""Arrays ``gain``, ``foreign``, ``heap``, ``place``, ``stamp`` and ``moved`` of the kernels of bisections."""


def _make_scratch(nodes: int) -> _Scratch:
    foreign, heap, place, moved = (np.empty(nodes, np.int32) for _ in range(4))
    return np.empty(nodes), foreign, heap, place, np.empty(nodes, np.int64), moved


def _grow(
    graphs: BlockCSR, size: LongArray, sizes: _Sizes, key: RandomKey, draw: int, scratch: _Scratch
) -> Sides:
    from tgp.kernels import bisection as kernels

    assert graphs.weight is not None
    arrays = graphs.indptr, graphs.indices, graphs.weight, graphs.node_ptr
    side, trial = np.empty(graphs.num_nodes, np.int8), np.empty(graphs.num_nodes, np.int8)

    def grow(first: int, last: int) -> None:
        kernels.grow_sides(
            *arrays,
            first,
            last,
            size,
            sizes.target,
            sizes.limit0,
            sizes.limit1,
            key.seed,
            key.level,
            draw,
            _TRIALS,
            side,
            trial,
            *scratch,
        )

    run_over_ranges(grow, _TRIALS * (graphs.node_ptr + graphs.edge_ptr))
    return side


def _refine(graphs: BlockCSR, size: LongArray, sizes: _Sizes, side: Sides, scratch: _Scratch) -> None:
    from tgp.kernels import bisection as kernels

    assert graphs.weight is not None
    arrays = graphs.indptr, graphs.indices, graphs.weight, graphs.node_ptr

    def refine(first: int, last: int) -> None:
        kernels.refine_sides(
            *arrays, first, last, size, sizes.target, sizes.limit0, sizes.limit1, side, *scratch
        )

    run_over_ranges(refine, graphs.node_ptr + graphs.edge_ptr)


def _divide(parts: _Parts, side: Sides) -> _Parts:
    """Return the two sides of each part as parts."""
    from tgp.kernels import partition as kernels

    graphs, count = parts.graphs, len(parts.k)
    assert graphs.weight is not None
    label = (2 * graphs.graph_of_node() + side).astype(np.int32)
    order = np.argsort(label, kind="stable")
    position = np.empty(len(label), np.int32)
    position[order] = np.arange(len(label), dtype=np.int32)
    indptr, indices, weight = graphs.indptr, graphs.indices, graphs.weight
    counts = np.empty(len(label), np.int64)
    run_over_ranges(
        lambda first, last: kernels.count_inside(indptr, indices, label, position, first, last, counts),
        indptr,
    )
    out_ptr = offsets(counts)
    out, values = np.empty(out_ptr[-1], np.int32), np.empty(out_ptr[-1])
    run_over_ranges(
        lambda first, last: kernels.fill_inside(
            indptr, indices, weight, label, position, first, last, out_ptr, out, values
        ),
        indptr,
    )
    node_ptr = offsets(np.bincount(label, minlength=2 * count))
    k = np.stack([(parts.k + 1) // 2, parts.k // 2], axis=1).ravel()
    limits = SizeLimits(*(np.repeat(values_, 2) for values_ in parts.limits))
    return _Parts(BlockCSR(out_ptr, out, values, node_ptr), parts.origin[order], k, limits)
