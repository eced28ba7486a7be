r"""Kron reduction of blocks, used by the NDP method and by the torch connector.

The reduced graph of the kept nodes :math:`P` has the Laplacian

.. math::
    \mathbf{L}' = \mathbf{L}_{PP} - \mathbf{L}_{PQ} \mathbf{L}_{QQ}^{-1} \mathbf{L}_{QP} ,

where :math:`Q` are the dropped nodes. As an electrical network it has the same resistances between kept nodes as the graph.
Small entries are removed at the end.
"""

from __future__ import annotations

import math
from typing import Literal, cast

import numpy as np

from tgp.engine.contraction import largest_weights
from tgp.engine.kron_blocks import BlockReduction
from tgp.engine.parameter_checks import check_choice
from tgp.engine.threads import run_over_ranges
from tgp.errors import InputError, ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = [
    "LargeRule",
    "ThresholdRule",
    "check_rule",
    "check_threshold",
    "graph_units",
    "kept_nodes",
    "kron_reduce",
    "kron_reduce_simple",
    "simple_graph",
]

ThresholdRule = Literal["auto", "absolute", "relative"]
"""Rules of the threshold, see :func:`graph_units`."""

LargeRule = Literal["series", "walks"]
"""Methods for graphs whose exact elimination takes too long."""

_ORDINARY = (0.1, 1000.0)
"""Range of the largest weight of a graph whose weights have an ordinary size."""

_KEPT, _MOST_KEPT = "_simple_graph", 1 << 16
"""Name under which a block keeps its simple graphs, and number of entries from which it does not."""


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


def check_rule(value: str) -> ThresholdRule:
    """Return ``value`` if it is a rule of the threshold.

    Args:
        value: name of the rule.

    Raises:
        ParameterError: if there is no such rule.
    """
    check_choice("threshold", value, ThresholdRule)
    return cast("ThresholdRule", value)


def graph_units(graph: BlockCSR, rule: ThresholdRule = "auto") -> FloatArray:
    """Return the unit in which the threshold of each graph is measured, ``[B]``.

    With the rule ``absolute`` this is 1, with ``relative`` the largest ``|w|`` of the graph. The rule ``auto`` uses 1 if
    the largest ``|w|`` has an ordinary size, from 0.1 to 1,000, and the largest ``|w|`` otherwise. An unweighted graph
    has the unit 1.

    Args:
        graph: the graphs.
        rule: rule of the threshold.
    """
    unit = np.ones(graph.num_graphs)
    if rule == "absolute" or graph.weight is None:
        return unit
    largest = largest_weights(graph)
    if len(largest) == 1 and rule == "auto" and _ORDINARY[0] <= largest[0] <= _ORDINARY[1]:
        return unit
    ordinary = (largest == 0.0) | ((rule == "auto") & (largest >= _ORDINARY[0]) & (largest <= _ORDINARY[1]))
    return np.where(ordinary, unit, largest)


def simple_graph(block: BlockCSR, *, keep: bool = False) -> BlockCSR:
    """Return the simple undirected graphs of a block, weighted.

    Self loops and zero weights are removed. Parallel edges are merged: weights are added up, unweighted edges count
    once. Both directions of an edge get the larger of their weights.

    Args:
        block: the graphs.
        keep: keep the result for the next call with this block, if it is small. A method that selects nodes of the simple graphs
            and then reduces them computes them once. The next call without ``keep`` releases them.
    """
    state = vars(block)
    graph: BlockCSR | None = state.get(_KEPT) if keep else state.pop(_KEPT, None)
    if graph is not None:
        return graph
    from tgp.kernels.undirected import undirected

    indptr, indices, weight = undirected(*block.arrays())
    graph = BlockCSR(indptr, indices, weight, block.node_ptr)
    if keep and block.num_edges < _MOST_KEPT:
        state[_KEPT] = graph
    return graph


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


def kron_reduce(
    block: BlockCSR,
    assignment: Assignment,
    threshold: float = 1e-2,
    rule: ThresholdRule = "auto",
    large: LargeRule = "series",
) -> BlockCSR:
    """Return the Kron reduction of every graph to the kept nodes of an assignment.

    The result is exactly symmetric, and exact in float64 for all graphs whose elimination does not exceed
    :data:`EXACT_WORK`. Other graphs are estimated. Components without a kept node disappear.

    Args:
        block: the graphs, of which the simple undirected graphs are reduced (see :func:`simple_graph`).
        assignment: assignment with one kept node per supernode (see :func:`kept_nodes`).
        threshold: entries ``|a| <= threshold`` are removed, in the unit of each graph.
        rule: rule of this unit, see :func:`graph_units`.
        large: method for large graphs. ``series``: about 99.5 % of the weight or more; very large graphs use walks.
            ``walks``: walks up to a limit of work, whose weights are lower bounds if no weight is negative.

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
    # As unsigned numbers, negative ids are larger than any node.
    if len(nodes) and int(nodes.view(np.uint32).max()) >= block.num_nodes:
        raise InputError(
            f"a kept node does not exist: expected nodes in [0, {block.num_nodes}), "
            f"got {nodes.min()} to {nodes.max()}",
            field="assignment",
        )
    return kron_reduce_simple(simple_graph(block), nodes, assignment.super_ptr, threshold, rule, large)


def kron_reduce_simple(
    graph: BlockCSR,
    nodes: IndexArray,
    super_ptr: PtrArray,
    threshold: float,
    rule: ThresholdRule = "auto",
    large: LargeRule = "series",
) -> BlockCSR:
    """Return the Kron reduction of simple undirected graphs.

    Args:
        graph: a block as returned by :func:`simple_graph`.
        nodes: ``[K]`` kept nodes; node ``nodes[i]`` becomes node ``i``.
        super_ptr: ``[B + 1]`` offsets of the graphs in ``nodes``.
        threshold: entries ``|a| <= threshold`` are removed; in the unit of each graph, see :func:`graph_units`.
        rule: rule of the threshold.
        large: method for large graphs, see :func:`kron_reduce`.
    """
    from tgp.kernels.csr import transpose
    from tgp.kernels.undirected import undirected

    unit = graph_units(graph, rule)
    reduction = BlockReduction(graph, nodes, super_ptr, threshold * unit, unit, series=large == "series")
    run_over_ranges(reduction.reduce_range, graph.node_ptr + graph.edge_ptr)
    # The rows are not sorted yet. The matrix is symmetric, so transposing it sorts them.
    indptr, cols, vals = transpose(*reduction.joined(), True)
    if reduction.estimated:
        # Walks give lower bounds for both directions of an edge. The larger one is closer to the true weight. A series has
        # one direction only.
        indptr, cols, vals = undirected(indptr, cols, vals, True)
    return BlockCSR(indptr, cols, vals, super_ptr)
