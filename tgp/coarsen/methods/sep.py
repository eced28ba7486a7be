"""SEP: clusters from structural-entropy coding trees, one tree for a run of levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tgp.coarsen.connect import ContractOptions, ReduceOp, contract
from tgp.coarsen.protocol import Draw, LevelMethod
from tgp.coarsen.threads import over_ranges
from tgp.errors import GraphError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = ["METHOD", "SEPParams"]

BoolArray = npt.NDArray[np.bool_]

_LONG_FROM = 256
"""Number of neighbours from which on a cluster's list is searched by bounds. Speed is flat between 128 and 1024."""


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


class _Layer(NamedTuple):
    """A partition of every component, and the entropy it gained per node or item.

    ``label`` counts inside a component, ``num`` is the number of labels of each component.
    """

    label: IndexArray
    num: PtrArray
    gain: FloatArray


class _Forest(NamedTuple):
    """Connected components side by side: position ``i`` is node ``order[i]`` of the block."""

    rows: _Rows
    ptr: PtrArray
    order: IndexArray
    graph_ptr: PtrArray
    degree: FloatArray
    total: FloatArray

    @property
    def sizes(self) -> PtrArray:
        """Number of nodes of each component."""
        return np.diff(self.ptr)

    def blockwise(self, layer: _Layer) -> tuple[IndexArray, PtrArray]:
        """Labels that count through all components, and where those of each component start."""
        ptr = _offsets(layer.num)
        return (layer.label + np.repeat(ptr[:-1], self.sizes)).astype(np.int32), ptr


def assign(block: BlockCSR, params: SEPParams, draw: Draw) -> Assignment:
    """One level: the groups of a coding tree of height 2.

    From "Structural Entropy Guided Graph Hierarchical Pooling" (ICML 2022). Each connected component has
    a tree of its own; a component of two nodes or more never has fewer than two clusters, so two
    connected nodes are never pooled. Supernodes are numbered by component (smallest node), then by
    creation in the tree.
    """
    forest = _forest(block)
    label, ptr = forest.blockwise(_first_layer(forest))
    cluster = np.empty(block.num_nodes, np.int32)
    cluster[forest.order] = label
    return Assignment("hard", ptr[forest.graph_ptr], cluster)


def assign_levels(block: BlockCSR, params: SEPParams, draw: Draw, num_levels: int) -> list[Assignment]:
    """Several levels from one tree of height ``num_levels + 1``; level l is the ancestor l above the leaves.

    The groups of the height-2 tree stay one of the layers; the others refine below them or coarsen
    above, whichever gains more entropy per node. In small graphs layers without effect come first.
    Supernodes are numbered in the order their first node occurs.
    """
    from tgp.kernels import coding_tree_graph as kernels

    if num_levels == 1:
        return [assign(block, params, draw)]
    forest = _forest(block)
    levels: list[Assignment] = []
    below = np.arange(block.num_nodes, dtype=np.int32)
    size = block.num_nodes
    for layer in _grow(forest, num_levels):
        label, ptr = forest.blockwise(layer)
        by_node = np.empty(block.num_nodes, np.int32)
        by_node[forest.order] = label
        above = kernels.first_seen(by_node, int(ptr[-1]))
        cluster = np.empty(size, np.int32)
        cluster[below] = above
        levels.append(Assignment("hard", ptr[forest.graph_ptr], cluster))
        below, size = above, int(ptr[-1])
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
            f"sep: weights between two nodes must not be negative, got some at node {bad - block.node_ptr[graph]} "
            f"of graph {graph}",
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
            f"sep: the sum of weights must be finite, got an overflow in graph {graph}",
            graph=graph,
            hint="scale the edge weights of this graph down",
        )
    return _Forest(_Rows(*rows), ptr, order, graph_ptr, degree, total)


def _offsets(counts: npt.NDArray[np.int64]) -> PtrArray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


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


def _first_layer(forest: _Forest) -> _Layer:
    every = np.ones(len(forest.total), np.bool_)
    degree = forest.degree
    groups = _trees(forest.rows, forest.ptr, every, degree, degree, forest.total)
    return _Layer(groups.label, groups.num, np.zeros(len(forest.total)))


def _leaf_up(forest: _Forest, bottom: _Layer, active: BoolArray) -> _Layer:
    """A finer layer below ``bottom``, in the active components."""
    from tgp.kernels import coding_tree_graph as kernels

    label, ptr = forest.blockwise(bottom)
    order, part_ptr, *inner = kernels.reorder(*forest.rows, label, int(ptr[-1]))
    component = np.repeat(np.arange(len(forest.total)), bottom.num)
    chosen = active[component]
    degree, total = kernels.row_sums(inner[0], inner[2], part_ptr)
    groups = _trees(_Rows(*inner), part_ptr, chosen, degree, degree, total)
    gain = kernels.leaf_gain(
        part_ptr, component, chosen, forest.degree[order], *groups, forest.total, forest.sizes
    )
    start = _offsets(groups.num)
    finer = np.empty(len(order), np.int64)
    finer[order] = groups.label + np.repeat(start[:-1], np.diff(part_ptr))
    finer -= np.repeat(start[ptr[:-1]], forest.sizes)
    return _Layer(finer.astype(np.int32), np.diff(start[ptr]), gain)


def _root_down(forest: _Forest, top: _Layer, active: BoolArray) -> _Layer:
    """A coarser layer above ``top``, in the active components."""
    from tgp.kernels import coding_tree_graph as kernels

    item, ptr = forest.blockwise(top)
    *rows, vol, cut = kernels.quotient_rows(*forest.rows, forest.degree, item, int(ptr[-1]))
    groups = _trees(_Rows(*rows), ptr, active, vol, cut, forest.total)
    gain = kernels.root_gain(ptr, active, vol, cut, *groups, forest.total)
    return _Layer(groups.label[item], groups.num, gain)


def _grow(forest: _Forest, num_levels: int) -> list[_Layer]:
    """Layers of the trees of height ``num_levels + 1``, bottom first.

    Every component takes the better of two steps at a time, ties to the leaves; the step it did not
    take stays valid.
    """
    num = len(forest.total)
    owner = np.repeat(np.arange(num), forest.sizes)

    def pick(condition: BoolArray, yes: _Layer, no: _Layer) -> _Layer:
        """``yes`` in the components where the condition holds, ``no`` in the others."""
        return _Layer(
            np.where(condition[owner], yes.label, no.label),
            np.where(condition, yes.num, no.num),
            np.where(condition, yes.gain, no.gain),
        )

    bottom = top = up = down = _first_layer(forest)
    place, component = np.arange(len(owner)), np.arange(num)
    # The first layer stands in the middle row; each component grows down and up from there.
    labels = np.tile(bottom.label, (2 * num_levels - 1, 1))
    counts = np.tile(bottom.num, (2 * num_levels - 1, 1))
    low = np.full(num, num_levels - 1)
    high = low.copy()
    new_up = new_down = np.ones(num, np.bool_)
    for _ in range(num_levels - 1):
        raisable = top.num >= 3
        if new_up.any():
            up = pick(new_up, _leaf_up(forest, bottom, new_up), up)
        if new_down.any():
            down = pick(new_down, _root_down(forest, top, new_down & raisable), down)
        raised = raisable & (up.gain < down.gain)
        bottom, top = pick(raised, bottom, up), pick(raised, down, top)
        low, high = low - ~raised, high + raised
        step, row = pick(raised, down, up), np.where(raised, high, low)
        labels[row[owner], place] = step.label
        counts[row, component] = step.num
        new_up, new_down = ~raised, raised
    return [
        _Layer(labels[(low + l)[owner], place], counts[low + l, component], up.gain)
        for l in range(num_levels)
    ]


def _cost(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], params: SEPParams
) -> npt.NDArray[np.float64]:
    """Each node and edge takes part in about log(n) merges."""
    cost: npt.NDArray[np.float64] = (nodes + edges) * (4.0 + 2.0 * np.log2(nodes + 1.0))
    return cost


METHOD = LevelMethod("sep", SEPParams, assign, connect, assign_levels, _cost)
