r"""Kron reduction of blocks, used by the NDP method and by the torch connector.

The reduced graph of the kept nodes :math:`P` has the Laplacian

.. math::
    \mathbf{L}' = \mathbf{L}_{PP} - \mathbf{L}_{PQ} \mathbf{L}_{QQ}^{-1} \mathbf{L}_{QP} ,

where :math:`Q` are the dropped nodes. As an electrical network it has the same resistances between kept nodes as the graph.
Small entries are removed at the end.
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
    "kron_reduce",
    "kron_reduce_simple",
    "simple_graph",
]

EXACT_WORK = 300_000_000
"""Largest work per graph (sum of squared row lengths) of the exact elimination, about a second. A graph of up to 1,000
nodes never exceeds it. Larger graphs are reduced by absorbed walks, for which the following constants are used."""

WALK_TOLERANCE = 0.02
"""A walk ends when it can change an entry by less than this share of the threshold."""

_FIRST_WORK = 2
"""Elimination work per stored entry before walks are used."""

_WALK_WORK = 1000
"""Entries per stored entry that walks may read before they end earlier."""

_LEAST_THRESHOLD = 1e-3
"""Threshold of the walks if the threshold of the result is smaller."""


def check_threshold(value: float) -> float:
    """Return ``value`` if it is a valid ``sparse_threshold``.

    Args:
        value: threshold of the entries.

    Raises:
        ParameterError: if it is not a finite number >= 0.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ParameterError(
            f"sparse_threshold is out of range: expected a finite number >= 0, got {value!r}",
            field="sparse_threshold",
        )
    return value


def simple_graph(block: BlockCSR) -> BlockCSR:
    """Return the simple undirected graphs of a block, weighted.

    Self loops and zero weights are removed. Parallel edges are merged: weights are added up, unweighted edges count
    once. Both directions of an edge get the larger of their weights.

    Args:
        block: the graphs.
    """
    from tgp.kernels.undirected import undirected

    indptr, indices, weight = undirected(*block.arrays())
    return BlockCSR(indptr, indices, weight, block.node_ptr)


def kept_nodes(assignment: Assignment) -> IndexArray:
    """Return the node that stands for each supernode, ``[K]``.

    This is its representative (the independent set of k-MIS) or, without representatives, its only node.

    Args:
        assignment: an assignment of the nodes.

    Raises:
        InputError: if there are no representatives and a supernode does not have exactly one node.
    """
    if assignment.representative is not None:
        return np.ascontiguousarray(assignment.representative, dtype=np.int32)
    if assignment.cluster is None:
        raise InputError(
            "the assignment has no kept nodes: expected a hard assignment, got a soft one", field="assignment"
        )
    nodes = np.flatnonzero(assignment.cluster >= 0)
    members = np.bincount(assignment.cluster[nodes], minlength=assignment.num_supernodes)
    if (members != 1).any():
        wrong = int(np.flatnonzero(members != 1)[0])
        raise InputError(
            f"Inconsistent number of clusters and node indices: expected one node per supernode, "
            f"got {members[wrong]} nodes in supernode {wrong} and no representative",
            field="assignment",
            hint="use NDP, a top-k selection or k-MIS before a Kron reduction",
        )
    out = np.empty(assignment.num_supernodes, np.int32)
    out[assignment.cluster[nodes]] = nodes
    return out


def kron_reduce(block: BlockCSR, assignment: Assignment, threshold: float = 1e-2) -> BlockCSR:
    """Return the Kron reduction of every graph to the kept nodes of an assignment.

    The result is exact in float64 and exactly symmetric. The exception are graphs whose elimination would exceed
    :data:`EXACT_WORK`: their weights are lower bounds. Components without a kept node disappear.

    Args:
        block: the graphs, of which the simple undirected graphs are reduced (see :func:`simple_graph`).
        assignment: assignment with one kept node per supernode (see :func:`kept_nodes`).
        threshold: entries ``|a| <= threshold`` are removed.

    Returns:
        The coarse graphs, always weighted, without self loops.

    Raises:
        InputError: if the assignment has no kept nodes, or belongs to another block.

    Examples:
        >>> from tgp.testing.graphs import path
        >>> ends = Assignment("hard", np.array([0, 2]), np.array([0, -1, 1], np.int32))
        >>> kron_reduce(path(3), ends).weight.tolist()
        [0.5, 0.5]
    """
    nodes = kept_nodes(assignment)
    if len(nodes) and (nodes.min() < 0 or nodes.max() >= block.num_nodes):
        raise InputError(
            f"a kept node does not exist: expected nodes in [0, {block.num_nodes}), "
            f"got {nodes.min()} to {nodes.max()}",
            field="assignment",
        )
    return kron_reduce_simple(simple_graph(block), nodes, assignment.super_ptr, threshold)


def kron_reduce_simple(graph: BlockCSR, nodes: IndexArray, super_ptr: PtrArray, threshold: float) -> BlockCSR:
    """Return the Kron reduction of simple undirected graphs.

    Args:
        graph: a block as returned by :func:`simple_graph`.
        nodes: ``[K]`` kept nodes; node ``nodes[i]`` becomes node ``i``.
        super_ptr: ``[B + 1]`` offsets of the graphs in ``nodes``.
        threshold: entries ``|a| <= threshold`` are removed.
    """
    from tgp.kernels import kron_walk
    from tgp.kernels.csr import transpose
    from tgp.kernels.kron import eliminate
    from tgp.kernels.kron_rows import assemble_rows
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
    ends = kron_walk.walk_end_probabilities(start, ptr, cols, vals, left, kept, tolerance, budget)
    walked = (*kron_walk.kept_columns(ptr, cols, vals, kept), *ends)
    ptr, cols, vals = assemble_rows(
        graph.indptr, graph.indices, weight, cluster, nodes, eliminated, walked, float(threshold)
    )
    # The rows are not sorted yet. The matrix is symmetric, so transposing it sorts them.
    indptr, cols, vals = transpose(ptr, cols, vals, True)
    if left.any():
        # Walks give lower bounds for both directions of an edge. The larger one is closer to the true weight.
        indptr, cols, vals = undirected(indptr, cols, vals, True)
    return BlockCSR(indptr, cols, vals, super_ptr)
