"""SEP: clusters from structural-entropy coding trees, one tree for a run of levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tgp.engine.contraction import ContractOptions, ReduceOp, contract
from tgp.engine.protocol import LevelEstimate, LevelMethod, RandomKey
from tgp.engine.threads import over_ranges
from tgp.errors import GraphError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = ["METHOD", "SEPParams"]

BoolArray = npt.NDArray[np.bool_]

_LONG_FROM = 256
"""Neighbours from which on a cluster's list is searched by bounds; speed hardly differs from 32 to 512."""


@dataclass(frozen=True)
class SEPParams:
    """Parameters of the coarse graph; the tree itself has none.

    Args:
        connect_red_op: how parallel coarse edges merge.
        remove_self_loops: leave out edges inside a supernode.
        degree_norm: symmetric degree normalisation of the coarse graph.
        edge_weight_norm: divide coarse weights by the largest of their graph.
        count_edges: let the coarse weights of an unweighted graph count edges.
    """

    connect_red_op: ReduceOp = "sum"
    remove_self_loops: bool = True
    degree_norm: bool = True
    edge_weight_norm: bool = False
    count_edges: bool = False

    def __post_init__(self) -> None:
        self.options()

    def options(self) -> ContractOptions:
        """The same, as the contraction takes it."""
        return ContractOptions(
            self.connect_red_op,
            self.remove_self_loops,
            self.degree_norm,
            self.edge_weight_norm,
            self.count_edges,
        )


class _Rows(NamedTuple):
    """Simple undirected rows."""

    indptr: PtrArray
    indices: IndexArray
    weight: FloatArray


class _Groups(NamedTuple):
    """What ``cut_trees`` finds: group of each node inside its part, and the groups of each part.

    ``vol`` and ``cut`` of group ``c`` of part ``p`` stand at ``part_ptr[p] + c``.
    """

    label: IndexArray
    num: PtrArray
    vol: FloatArray
    cut: FloatArray


class _Forest(NamedTuple):
    """Connected components side by side: position ``i`` is node ``order[i]`` of the block."""

    rows: _Rows
    ptr: PtrArray
    order: IndexArray
    graph_ptr: PtrArray
    degree: FloatArray
    total: FloatArray


class _Candidate(NamedTuple):
    """A layer that may come next: label inside the component, labels per component, entropy gained."""

    label: IndexArray
    num: PtrArray
    gain: FloatArray


def assign(block: BlockCSR, params: SEPParams, draw: RandomKey) -> Assignment:
    """One level: the groups of a coding tree of height 2.

    From "Structural Entropy Guided Graph Hierarchical Pooling" (ICML 2022). Each connected component has
    a tree of its own; a component of two nodes or more never has fewer than two clusters, so two
    connected nodes are never pooled. Supernodes are numbered by component (smallest node), then by
    creation in the tree.
    """
    forest = _forest(block)
    groups = _first_layer(forest)
    start = _offsets(groups.num)
    cluster = np.empty(block.num_nodes, np.int32)
    cluster[forest.order] = groups.label + np.repeat(start[:-1], np.diff(forest.ptr))
    return Assignment("hard", start[forest.graph_ptr], cluster)


def assign_levels(block: BlockCSR, params: SEPParams, draw: RandomKey, num_levels: int) -> list[Assignment]:
    """Several levels from one tree of height ``num_levels + 1``; level l is the ancestor l above the leaves.

    The groups of the height-2 tree stay one of the layers; the others refine below them or coarsen
    above, whichever gains more entropy per node or item, ties to the leaves. In small graphs layers without effect
    come first. Supernodes are numbered in the order their first node occurs.
    """
    from tgp.kernels import coding_tree_layers as kernels

    if num_levels == 1:
        return [assign(block, params, draw)]
    forest = _forest(block)
    labels, nums, low = _grow(forest, num_levels)
    below = np.arange(block.num_nodes, dtype=np.int32)
    size = block.num_nodes
    levels: list[Assignment] = []
    for level in range(num_levels):
        below, cluster, super_ptr = kernels.number_level(
            forest.ptr, forest.order, forest.graph_ptr, labels, nums, low, level, below, size
        )
        levels.append(Assignment("hard", super_ptr, cluster))
        size = int(super_ptr[-1])
    return levels


def connect(block: BlockCSR, assignment: Assignment, params: SEPParams) -> BlockCSR:
    """Contract the clusters. Coarse weights feed the next contraction, never the tree."""
    return contract(block, assignment, params.options())


def _forest(block: BlockCSR) -> _Forest:
    """The simple undirected graph behind the block, component by component."""
    from tgp.kernels import coding_tree_graph as kernels
    from tgp.kernels import csr

    weighted = block.weight is not None
    given = (block.indptr, block.indices, np.empty(0) if block.weight is None else block.weight)
    *rows, bad = kernels.simple_rows(*given, *csr.transpose(*given, weighted), weighted)
    if bad >= 0:
        graph = int(np.searchsorted(block.node_ptr, bad, side="right")) - 1
        raise GraphError(
            f"sep: weights between two nodes must not be negative, got some at node {bad - block.node_ptr[graph]}",
            graph=graph,
            hint="use absolute or shifted weights",
        )
    component, graph_ptr = csr.components(rows[0], rows[1], block.node_ptr)
    if (np.diff(component) >= 0).all():
        ptr = _offsets(np.bincount(component, minlength=int(graph_ptr[-1])))
        order = np.arange(block.num_nodes, dtype=np.int32)
    else:
        order, ptr, *rows = kernels.reorder(rows[0], rows[1], rows[2], component, int(graph_ptr[-1]))
    degree, total = kernels.row_sums(rows[0], rows[2], ptr)
    if not np.isfinite(total).all():
        graph = int(np.searchsorted(graph_ptr, int(np.argmin(np.isfinite(total))), side="right")) - 1
        raise GraphError(
            "sep: the sum of weights must be finite, got an overflow",
            graph=graph,
            hint="scale the edge weights of this graph down",
        )
    return _Forest(_Rows(*rows), ptr, order, graph_ptr, degree, total)


def _offsets(counts: npt.NDArray[np.int64]) -> PtrArray:
    out = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=out[1:])
    return out


def _trees(
    rows: _Rows, ptr: PtrArray, active: BoolArray, vol: FloatArray, cut: FloatArray, total: FloatArray
) -> _Groups:
    """Groups of the height-2 trees of the active parts."""
    from tgp.kernels import coding_tree, coding_tree_cut

    nodes, parts = len(vol), len(total)
    tree = (np.empty(2 * nodes, np.int32), np.empty(2 * nodes), np.empty(2 * nodes), np.empty(2 * nodes))
    out = _Groups(np.zeros(nodes, np.int32), np.ones(parts, np.int64), np.empty(nodes), np.empty(nodes))

    def run(first: int, last: int) -> None:
        coding_tree.merge_trees(*rows, ptr, active, vol, cut, total, _LONG_FROM, first, last, *tree)
        coding_tree_cut.cut_trees(ptr, active, *tree, first, last, *out)

    over_ranges(run, ptr + rows.indptr[ptr])
    return out


def _first_layer(forest: _Forest) -> _Groups:
    every = np.ones(len(forest.total), np.bool_)
    return _trees(forest.rows, forest.ptr, every, forest.degree, forest.degree, forest.total)


def _leaf_up(forest: _Forest, label: IndexArray, num: PtrArray, active: BoolArray, up: _Candidate) -> None:
    """Fill ``up`` with a finer layer below the given one, in the active components."""
    from tgp.kernels import coding_tree_graph, coding_tree_layers

    part, component, chosen = coding_tree_layers.split_layer(forest.ptr, label, num, active)
    order, ptr, *inner = coding_tree_graph.reorder(*forest.rows, part, len(component))
    degree, total = coding_tree_graph.row_sums(inner[0], inner[2], ptr)
    groups = _trees(_Rows(*inner), ptr, chosen, degree, degree, total)
    coding_tree_layers.finer_layer(
        forest.ptr, order, ptr, component, active, forest.degree, forest.total, *groups, *up
    )


def _root_down(
    forest: _Forest, label: IndexArray, num: PtrArray, active: BoolArray, down: _Candidate
) -> None:
    """Fill ``down`` with a coarser layer above the given one, in the active components."""
    from tgp.kernels import coding_tree_layers as kernels

    item, _, _ = kernels.split_layer(forest.ptr, label, num, active)
    ptr = _offsets(num)
    *rows, vol, cut = kernels.quotient(*forest.rows, forest.degree, item, int(ptr[-1]))
    groups = _trees(_Rows(*rows), ptr, active, vol, cut, forest.total)
    kernels.coarser_layer(forest.ptr, item, ptr, active, vol, cut, forest.total, *groups, *down)


def _grow(forest: _Forest, num_levels: int) -> tuple[IndexArray, PtrArray, PtrArray]:
    """Layers of the trees of height ``num_levels + 1``, as ``labels[row, node]`` and ``nums[row, component]``.

    Those of component ``c`` stand in the rows ``low[c], ..., low[c] + num_levels - 1``, bottom first.
    """
    from tgp.kernels import coding_tree_layers as kernels

    nodes, parts = len(forest.degree), len(forest.total)
    first = _first_layer(forest)
    # The first layer stands in the middle row; each component grows down and up from there.
    labels = np.zeros((2 * num_levels - 1, nodes), np.int32)
    nums = np.ones((2 * num_levels - 1, parts), np.int64)
    labels[num_levels - 1], nums[num_levels - 1] = first.label, first.num
    low = np.full(parts, num_levels - 1, np.int64)
    high = low.copy()
    bottom, top = (first.label, first.num), (first.label.copy(), first.num.copy())
    up, down = (
        _Candidate(np.zeros(nodes, np.int32), np.ones(parts, np.int64), np.zeros(parts)) for _ in range(2)
    )
    new_up, new_down = np.ones(parts, np.bool_), first.num >= 3
    for _ in range(num_levels - 1):
        if new_up.any():
            _leaf_up(forest, *bottom, new_up, up)
        if new_down.any():
            _root_down(forest, *top, new_down, down)
        kernels.take_steps(forest.ptr, *up, *down, *bottom, *top, low, high, labels, nums, new_up, new_down)
    return labels, nums, low


def _cost(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], params: SEPParams
) -> npt.NDArray[np.float64]:
    """Each node and edge takes part in about log(n) merges."""
    cost: npt.NDArray[np.float64] = (nodes + edges) * (4.0 + 2.0 * np.log2(nodes + 1.0))
    return cost


METHOD = LevelMethod(
    "sep",
    SEPParams,
    assign,
    connect,
    assign_levels,
    _cost,
    LevelEstimate(0.3, 0.3, weighted=True, scratch=450.0),
)
