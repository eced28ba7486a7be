"""Kron reduction on blocks: the array function that NDP and the torch connector share.

The reduced graph on kept nodes ``P`` has the Laplacian ``L_PP - L_PQ L_QQ^{-1} L_QP``: seen from the kept nodes it is
the same electrical network. Small entries are left out at the end.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.errors import InputError, ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import IndexArray, PtrArray

__all__ = [
    "EXACT_WORK",
    "WALK_TOLERANCE",
    "check_threshold",
    "kept_nodes",
    "kron",
    "reduce_simple",
    "simple_graph",
]

EXACT_WORK = 300_000_000
"""Elimination is exact up to this work per graph (sum of squared row lengths): a second or so. A
graph of up to 1,000 nodes never exceeds it."""
WALK_TOLERANCE = 0.02
"""Beyond: a walk is given up when what it can add to an entry is below this share of the threshold."""
_FIRST_WORK = 2
"""Beyond: elimination work per stored entry before walks take over."""
_WALK_WORK = 1000
"""Beyond: entries that walks may read, per stored entry, before they are given up earlier."""
_LEAST_THRESHOLD = 1e-3
"""Walks need a threshold; they use this one if the threshold of the result is smaller."""


def check_threshold(value: float) -> float:
    """Return a valid ``sparse_threshold``; :class:`~tgp.errors.ParameterError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ParameterError(
            f"sparse_threshold must be a number >= 0, got {value!r}", field="sparse_threshold"
        )
    return value


def simple_graph(block: BlockCSR) -> BlockCSR:
    """The simple undirected graphs of a block, weighted.

    Self loops and zero weights go; parallel edges merge (weights add up, unweighted ones count
    once); of the two directions of an edge the larger weight counts.
    """
    from tgp.kernels.undirected import undirected

    indptr, indices, weight = undirected(*block.arrays())
    return BlockCSR(indptr, indices, weight, block.node_ptr)


def kept_nodes(assignment: Assignment) -> IndexArray:
    """``[K]`` the node that stands for each supernode.

    That is its representative (the independent set of k-MIS) or, where there is none, its only member.

    Raises:
        InputError: if a supernode has several members or none, and no representative.
    """
    if assignment.representative is not None:
        return np.ascontiguousarray(assignment.representative, dtype=np.int32)
    if assignment.cluster is None:
        raise InputError("Kron reduction needs a hard assignment, got a soft one", field="assignment")
    nodes = np.flatnonzero(assignment.cluster >= 0)
    members = np.bincount(assignment.cluster[nodes], minlength=assignment.num_supernodes)
    if (members != 1).any():
        wrong = int(np.flatnonzero(members != 1)[0])
        raise InputError(
            f"Inconsistent number of clusters and node indices: Kron reduction keeps one node per "
            f"supernode, got {members[wrong]} nodes in supernode {wrong} and no representative",
            field="assignment",
            hint="use NDP, a top-k selection or k-MIS before a Kron reduction",
        )
    out = np.empty(assignment.num_supernodes, np.int32)
    out[assignment.cluster[nodes]] = nodes
    return out


def kron(block: BlockCSR, assignment: Assignment, threshold: float = 1e-2) -> BlockCSR:
    """The Kron reduction of every graph to the kept nodes of an assignment.

    Exact in float64 and symmetric bit for bit, except for a graph whose elimination would exceed
    :data:`EXACT_WORK`: its weights are lower bounds. Components without a kept node vanish.

    Args:
        block: the graphs; the simple undirected graph of each counts, see :func:`simple_graph`.
        assignment: says which node stands for each supernode, see :func:`kept_nodes`.
        threshold: entries ``|a| <= threshold`` are left out.

    Returns:
        The coarse graphs, always weighted, without self loops.
    """
    nodes = kept_nodes(assignment)
    if len(nodes) and (nodes.min() < 0 or nodes.max() >= block.num_nodes):
        raise InputError(
            f"kept nodes must lie in [0, {block.num_nodes}), got {nodes.min()}..{nodes.max()}",
            field="assignment",
        )
    return reduce_simple(simple_graph(block), nodes, assignment.super_ptr, threshold)


def reduce_simple(graph: BlockCSR, nodes: IndexArray, super_ptr: PtrArray, threshold: float) -> BlockCSR:
    """:func:`kron` of simple undirected graphs to ``nodes``."""
    from tgp.kernels import kron_walk
    from tgp.kernels.csr import transpose
    from tgp.kernels.kron import eliminate
    from tgp.kernels.kron_rows import assemble
    from tgp.kernels.undirected import undirected

    weight = graph.weights_or_ones()
    cluster = np.full(graph.num_nodes, -1, np.int32)
    cluster[nodes] = np.arange(len(nodes), dtype=np.int32)
    kept = cluster >= 0
    eliminated, rest, left = eliminate(
        graph.indptr, graph.indices, weight, graph.node_ptr, kept, EXACT_WORK, _FIRST_WORK
    )
    start, ptr, cols, vals = rest
    tolerance = WALK_TOLERANCE * max(threshold, _LEAST_THRESHOLD)
    budget = _WALK_WORK * np.diff(graph.edge_ptr)
    ends = kron_walk.absorb(start, ptr, cols, vals, left, kept, tolerance, budget)
    walked = (*kron_walk.kept_columns(ptr, cols, vals, kept), *ends)
    ptr, cols, vals = assemble(
        graph.indptr, graph.indices, weight, cluster, nodes, eliminated, walked, float(threshold)
    )
    # Rows come out unsorted. The matrix is symmetric, so transposing it sorts them.
    indptr, cols, vals = transpose(ptr, cols, vals, True)
    if left.any():
        # Where walks were followed, both numbers of a pair are lower bounds: the larger is nearer.
        indptr, cols, vals = undirected(indptr, cols, vals, True)
    return BlockCSR(indptr, cols, vals, super_ptr)
