r"""Graclus: greedy matching of heavy edges.

From `"Weighted Graph Cuts without Eigenvectors: A Multilevel Approach" <https://ieeexplore.ieee.org/document/4302760>`_
(TPAMI 2007), the coarsening phase. Nodes are visited in some order. A free node :math:`i` is merged with the free
neighbour :math:`j` of the largest weight,

.. math::
    j = \mathrm{argmax}_{k \,\text{free}} \, \mathbf{A}_{ik} ,

and stays alone if it has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from tgp.engine.contraction import ConnectParams, ContractOptions, contract
from tgp.engine.level_method import ADDED, GraphSizes, LevelBound, LevelMethod, RandomKey, linear_bound
from tgp.engine.parameter_checks import check_choice
from tgp.engine.threads import run_over_ranges
from tgp.ragged import Assignment, BlockCSR

__all__ = ["METHOD", "GraclusParams"]

Order = Literal["random", "degree", "index"]
MatchOn = Literal["weights", "counts"]
_ORDERS = {name: code for code, name in enumerate(get_args(Order))}

_SHORT_SCRATCH = 1 << 12
"""Number of entries of a block up to which the scratch array for the neighbours of a node has this length."""


@dataclass(frozen=True)
class GraclusParams(ConnectParams):
    """Parameters of the matching. The coarse graph has those of :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        order: order in which nodes are visited: ``random`` (by a hash of the seed), ``degree`` (fewest neighbours
            first, ties by index) or ``index``. ``degree`` and ``index`` do not depend on the seed.
        two_hop: match the nodes that found no free neighbour with each other, if they have a common neighbour. Without it,
            levels of graphs with hubs hardly shrink. Such a pair is not connected by an edge.
        match_on: what makes an edge heavy: its ``weights``, or ``counts``, the number of edges of the first graph between its
            two supernodes. Counts are passed through consecutive levels with equal parameters and are not stored. The
            coarse graphs of an unweighted graph stay unweighted. Weights have no effect on the matching then.
    """

    order: Order = "random"
    two_hop: bool = field(default=False, metadata=ADDED)
    match_on: MatchOn = field(default="weights", metadata=ADDED)

    def __post_init__(self) -> None:
        check_choice("order", self.order, Order)
        check_choice("match_on", self.match_on, MatchOn)
        super().__post_init__()


def assign(block: BlockCSR, params: GraclusParams, key: RandomKey) -> Assignment:
    """Merge each node with its heaviest free out-neighbour.

    Self loops are ignored. Edges of negative weight never match, edges of weight 0 can. An unweighted graph is treated
    as one whose weights are all 1. Among equally heavy neighbours, ``order="random"`` chooses one by a hash (each entry
    is equally likely) and the other orders choose the smallest index. In a directed graph only the out-edges of the
    visited node count.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.
    """
    if params.match_on == "counts":
        return assign_levels(block, params, key, 1)[0]
    return _match(block, params, key)


def assign_levels(
    block: BlockCSR, params: GraclusParams, key: RandomKey, num_levels: int
) -> list[Assignment]:
    """Return several levels that are matched on the number of edges of ``block`` between two supernodes.

    The numbers are passed from level to level here. The coarse graphs of an unweighted block stay unweighted.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random numbers of the first level.
        num_levels: number of levels.
    """
    counted = BlockCSR(block.indptr, block.indices, np.ones(block.num_edges), block.node_ptr)
    options = ContractOptions(remove_self_loops=params.remove_self_loops)
    levels: list[Assignment] = []
    for level in range(key.level, key.level + num_levels):
        assignment = _match(counted, params, RandomKey(key.seed, level))
        counted = contract(counted, assignment, options)
        levels.append(_CountedPairs("hard", assignment.super_ptr, assignment.cluster, counts=counted))
    return levels


@dataclass(frozen=True, eq=False)
class _CountedPairs(Assignment):
    """An assignment together with the coarse graphs, whose weights are numbers of edges."""

    counts: BlockCSR | None = None


def _match(block: BlockCSR, params: GraclusParams, key: RandomKey) -> Assignment:
    from tgp.kernels import matching

    order = _ORDERS[params.order]
    indptr, indices, weight, weighted = block.arrays()
    node_ptr = block.node_ptr
    visit, mate = (np.arange(block.num_nodes, dtype=np.int32) for _ in range(2))
    if order == matching.BY_DEGREE:
        matching.sort_by_degree(visit, indptr, indices, node_ptr)
    free = np.ones(block.num_nodes, np.bool_)
    # For small graphs, an upper bound is found faster than the length of the longest row.
    longest = len(indices)
    if longest > _SHORT_SCRATCH:
        longest = int(np.diff(indptr).max(initial=0))

    def match(first: int, last: int) -> None:
        heaviest = np.empty(longest + 1, np.int32)
        matching.match(
            indptr, indices, weight, weighted, node_ptr, order, key.seed, key.level, first, last, visit, free,
            heaviest, mate,
        )  # fmt: skip
        if params.two_hop:
            rows = int(node_ptr[first]), int(node_ptr[last])
            matching.pair_waiting(indptr, indices, weight, weighted, *rows, waiting, mate)
            matching.join_pairs(indptr, indices, weight, weighted, *rows, mate)

    waiting = np.full(block.num_nodes if params.two_hop else 0, -1, np.int32)
    run_over_ranges(match, node_ptr + block.edge_ptr)
    super_ptr = np.empty(len(node_ptr), np.int64)
    cluster = visit  # no longer needed: reuse the memory
    matching.number_pairs(mate, node_ptr, cluster, super_ptr)
    return Assignment("hard", super_ptr, cluster)


def connect(block: BlockCSR, assignment: Assignment, params: GraclusParams) -> BlockCSR:
    """Return the graphs with matched pairs contracted."""
    weighted = block.weight is not None or params.count_edges or params.degree_norm or params.edge_weight_norm
    counts = assignment.counts if isinstance(assignment, _CountedPairs) else None
    if counts is not None and not weighted:
        return BlockCSR(counts.indptr, counts.indices, None, counts.node_ptr)
    return contract(block, assignment, params)


def bound(sizes: GraphSizes, params: GraclusParams) -> LevelBound:
    """Bound time and memory. A star keeps all nodes but one, so the number of nodes has no better bound."""
    return linear_bound(sizes, 100.0, 40.0)


def _matches_on_counts(params: GraclusParams) -> bool:
    return params.match_on == "counts"


METHOD = LevelMethod(
    "graclus",
    GraclusParams,
    assign,
    connect,
    assign_levels,
    builds_levels=_matches_on_counts,
    bound=bound,
    contracts=True,
    one_core="the matching",
    external="tgp.engine.external.greedy_matching:METHOD",
)
