r"""Collapse of neighbourhoods: dominated nodes are merged into their dominators, then the pairs that come closest to it.

From `"Strong Homotopy Types, Nerves and Collapses" <https://arxiv.org/abs/0907.2954>`_ (Discrete Comput. Geom. 2012), used for graph
reduction by STPGC (`arXiv 2601.22943 <https://arxiv.org/abs/2601.22943>`_, ICML 2026), here without labels. Let :math:`N[u]` be a node with
its neighbours. The node :math:`u` is dominated by a neighbour :math:`v` if :math:`N[u] \subseteq N[v]`. Merging it into :math:`v`
changes nothing in the rest of the graph. Other neighbours are compared by

.. math::
    s_{uv} = \frac{|N[u] \cap N[v]|}{\min(|N[u]|, |N[v]|)} ,

the share of the smaller neighbourhood in the larger one, which is 1 if one of the nodes is dominated. All dominated nodes are merged
until none is left. Then pairs of nodes are matched in the order of :math:`s_{uv}`, and by a hash of the edge where
this is equal. To reach a ratio, both steps are repeated on the coarse graph. The last step merges only as many nodes as needed. Without
a ratio, a level merges the nodes that are dominated in the graph, and matches those that had no part in it.

Good for:
    Coarse graphs that keep the cycles of a graph and lose its leaves, trees, twins and cliques: citation graphs, social
    networks, molecules. Any ratio or number of supernodes, exactly: ``collapse:ratio=0.3``.

Avoid when:
    Supernodes should have similar sizes: a tree becomes one supernode. Weights matter: only the pattern of edges counts. The
    graph has hubs that share many neighbours: time grows with the number of triangles.

Complexity:
    ``O(E^1.5)`` time in the worst case, ``O(d E)`` for degrees up to ``d``, and ``O(N + E)`` memory. Neighbours of merged
    nodes are compared again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tgp.engine.block_algebra import row_sums
from tgp.engine.contraction import contract
from tgp.engine.large_ranking import first_members, number_clusters
from tgp.engine.level_method import GraphSizes, LevelBound, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.pair_matching import draw_codes, match_free, match_to_sizes
from tgp.engine.target_size import SizeParams, has_ratios
from tgp.engine.threads import run_over_ranges
from tgp.engine.undirected import make_undirected
from tgp.kernels.array_types import LongArray, WordArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = ["METHOD", "CollapseParams"]


@dataclass(frozen=True)
class CollapseParams(SizeParams):
    """Parameters of the collapse: sizes and the coarse graph, see :class:`~tgp.engine.target_size.SizeParams`."""


def assign(block: BlockCSR, params: CollapseParams, key: RandomKey) -> Assignment:
    """Merge nodes by their neighbourhoods, once or until the size is reached.

    Edges count in both directions. Weights and self loops have no effect. Of nodes with the same closed neighbourhood, the one with the
    largest random number stays. A node with several dominators is merged into the one whose edge has the largest hash. With ``ratios``
    the result is the first level.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.
    """
    if params.has_size:
        return assign_levels(block, params, key, 1)[0]
    graphs = make_undirected(block)
    share, code = _share_neighbours(graphs, None), draw_codes(graphs, key, 0)
    nodes = np.arange(graphs.num_nodes, dtype=np.int32)
    merged = _collapse(graphs, share, code, (nodes, graphs.node_ptr), np.diff(graphs.node_ptr), 1)
    if merged is None:
        return match_free(graphs, share, key, 0, None, two_hop=False)
    free = np.bincount(merged, minlength=len(merged))[merged] == 1
    pairs = match_free(graphs, share, key, 0, free, two_hop=False)
    assert pairs.cluster is not None
    smallest = first_members(pairs.cluster, pairs.num_supernodes)
    return number_clusters(np.where(free, smallest[pairs.cluster], merged), graphs.node_ptr)


def assign_levels(
    block: BlockCSR, params: CollapseParams, key: RandomKey, num_levels: int
) -> list[Assignment]:
    """Return the nested levels of the ratios.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.
        num_levels: number of levels.
    """
    return match_to_sizes(
        block, params, key, _share_neighbours, num_levels, two_hop=False, merge_first=_merge_dominated
    )


def _count_neighbours(graphs: BlockCSR) -> PtrArray:
    """Return the size of the closed neighbourhood of each node."""
    return 1 + row_sums(graphs.indptr, graphs.indices, None, False).astype(np.int64)


def _share_neighbours(graphs: BlockCSR, cluster: IndexArray | None) -> FloatArray:
    """Return the scores of the edges."""
    from tgp.kernels import domination as kernels

    size, score = _count_neighbours(graphs), np.empty(graphs.num_edges)

    def write(first: int, last: int) -> None:
        kernels.share_neighbours(graphs.indptr, graphs.indices, size, first, last, score)

    run_over_ranges(write, graphs.indptr)
    return score


def _merge_dominated(
    graphs: BlockCSR, share: FloatArray, label: IndexArray, excess: LongArray, code: WordArray
) -> Assignment | None:
    """Merge dominated nodes until none is left or the components have their sizes, see :data:`MergeFirst`."""
    code[excess[label] == 0] = 0
    members = np.argsort(label, kind="stable").astype(np.int32)
    parts = members, offsets(np.bincount(label, minlength=len(excess)))
    merged = _collapse(graphs, share, code, parts, excess, graphs.num_nodes)
    return None if merged is None else number_clusters(merged, graphs.node_ptr)


def _collapse(
    graphs: BlockCSR, share: FloatArray, code: WordArray, parts: tuple[IndexArray, PtrArray], excess: LongArray, sweeps: int
) -> IndexArray | None:  # fmt: skip
    """Merge dominated nodes; return the node into which each node is merged, or ``None`` if no node is dominated.

    Args:
        graphs: undirected graphs.
        share: scores of the edges.
        code: random numbers of the nodes; 0 for nodes that must not be merged.
        parts: nodes of each part that has no edges to the others, and the offsets of the parts.
        excess: largest number of nodes that each part loses.
        sweeps: largest number of sweeps.
    """
    from tgp.kernels import domination as kernels

    indptr, indices, nodes = graphs.indptr, graphs.indices, graphs.num_nodes
    size, target, counts = _count_neighbours(graphs), np.empty(nodes, np.int32), list[int]()

    def find(first: int, last: int) -> None:
        counts.append(kernels.find_dominators(indptr, indices, share, size, code, first, last, target))

    run_over_ranges(find, indptr)
    members, member_ptr = parts
    near, row_end = indices.copy(), indptr[1:].copy()
    found, queue, stamp = np.empty_like(target), np.empty_like(target), np.zeros_like(target)

    def merge(first: int, last: int) -> None:
        kernels.collapse_parts(
            indptr, near, row_end, code, members, member_ptr, excess, sweeps, first, last, size, found, queue, stamp,
            target,
        )  # fmt: skip

    run_over_ranges(merge, offsets(np.diff(indptr)[members])[member_ptr] + member_ptr)
    return target if sum(counts) else None


def cost(nodes: LongArray, edges: LongArray, params: CollapseParams) -> FloatArray:
    """Estimate the work for lists of about ten neighbours."""
    return np.asarray(10.0 * (nodes + edges), np.float64)


def bound(sizes: GraphSizes, params: CollapseParams) -> LevelBound:
    """Bound time and memory. The smaller of two lists of neighbours has at most ``sqrt(E)`` entries, on average over the edges."""
    nodes, edges = sizes.nodes.astype(np.float64), sizes.edges.astype(np.float64)
    shorter = np.minimum(sizes.degree, np.sqrt(edges))
    work = (nodes + edges * (1.0 + 0.1 * shorter)) * (3.0 if params.has_size else 1.0)
    return LevelBound(1e-7 * work, 60.0 * (nodes + edges), sizes.nodes, sizes.edges)


METHOD = LevelMethod(
    "collapse",
    CollapseParams,
    assign,
    contract,
    assign_levels,
    cost=cost,
    builds_levels=has_ratios,
    estimate=LevelEstimate(0.5, 0.5),
    bound=bound,
    contracts=True,
    revision=3,
)
