r"""SEP: clusters from coding trees of low structural entropy, one tree for a run of levels.

From `"Structural Entropy Guided Graph Hierarchical Pooling" <https://arxiv.org/abs/2206.13510>`_ (ICML 2022). A coding
tree :math:`T` of a component has its nodes as leaves. Its structural entropy is

.. math::
    H^T = - \sum_{v \in T, \, v \ne \text{root}} \frac{g_v}{\mathrm{vol}} \log_2 \frac{V_v}{V_{v^-}} ,

where :math:`V_v` is the sum of the degrees of the leaves below tree node :math:`v`, :math:`g_v` the weight of the edges
that leave them, :math:`v^-` the parent of :math:`v` and :math:`\mathrm{vol}` the sum of all degrees. The trees are built
greedily by merging pairs; a layer of the tree is a level of the hierarchy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from tgp.engine.contraction import ConnectParams, contract
from tgp.engine.level_method import (
    ADDED,
    GraphSizes,
    LevelBound,
    LevelEstimate,
    LevelMethod,
    RandomKey,
)
from tgp.engine.parameter_checks import check_choice
from tgp.engine.threads import run_over_ranges
from tgp.errors import GraphError
from tgp.kernels.array_types import BoolArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import find_run, offsets

__all__ = ["METHOD", "SEPParams"]

Cut = Literal["greedy", "optimal"]


@dataclass(frozen=True, kw_only=True)
class SEPParams(ConnectParams):
    """Parameters of the tree and the coarse graph.

    Args:
        cut: rule that makes groups from the binary merge tree. ``greedy`` is the rule of the paper: it deletes tree nodes,
            smallest entropy increase first, until the height is 2. ``optimal`` chooses the subtrees with the smallest
            structural entropy. On large graphs it makes more and smaller groups of lower entropy, in less time.
        degree_norm: normalise the coarse graph symmetrically by its degrees. This is the default, as in the paper.
    """

    cut: Cut = field(default="greedy", metadata=ADDED)
    degree_norm: bool = True

    def __post_init__(self) -> None:
        check_choice("cut", self.cut, Cut)
        super().__post_init__()


_SINGLE_NODES = 256
"""Largest number of nodes of a single graph that is computed in one call."""


class _Rows(NamedTuple):
    """Compressed rows of simple undirected graphs."""

    indptr: PtrArray
    indices: IndexArray
    weight: FloatArray


class _Groups(NamedTuple):
    """Result of ``cut_trees``: the groups of each part.

    Args:
        label: group of each node inside its part.
        num: number of groups of each part.
        vol: sum of the degrees in group ``c`` of part ``p``, at position ``part_ptr[p] + c``.
        cut: weight of the edges that leave the group, at the same position.
    """

    label: IndexArray
    num: PtrArray
    vol: FloatArray
    cut: FloatArray


class _Forest(NamedTuple):
    """The connected components of a block, one after the other.

    Args:
        rows: rows of the reordered nodes; position ``i`` is node ``order[i]`` of the block.
        ptr: offsets of the components in ``order``.
        order: node of the block at each position.
        graph_ptr: offsets of the graphs in the list of components.
        degree: degree of each position.
        total: sum of the degrees of each component.
    """

    rows: _Rows
    ptr: PtrArray
    order: IndexArray
    graph_ptr: PtrArray
    degree: FloatArray
    total: FloatArray


class _Candidate(NamedTuple):
    """A layer that could be added to the tree.

    Args:
        label: label of each node inside its component.
        num: number of labels of each component.
        gain: decrease of the structural entropy of each component.
    """

    label: IndexArray
    num: PtrArray
    gain: FloatArray


def assign(block: BlockCSR, params: SEPParams, key: RandomKey) -> Assignment:
    """Assign the nodes to the groups of a coding tree of height 2.

    Each connected component has its own tree. A component of two or more nodes has at least two groups, so a component
    of two nodes is not pooled.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: not used: the trees are not random.

    Returns:
        A hard assignment. Supernodes are numbered by component (in the order of the smallest node), then in the order
        in which the tree created them.

    Raises:
        GraphError: if a weight between two nodes is negative, or the sum of the weights overflows.
    """
    if single := _single_graph_levels(block, params, 1):
        return single[0]
    forest = _split_components(block)
    groups = _first_layer(forest, params.cut)
    start = offsets(groups.num)
    cluster = np.empty(block.num_nodes, np.int32)
    cluster[forest.order] = groups.label + np.repeat(start[:-1], np.diff(forest.ptr))
    return Assignment("hard", start[forest.graph_ptr], cluster)


def assign_levels(block: BlockCSR, params: SEPParams, key: RandomKey, num_levels: int) -> list[Assignment]:
    """Return several levels from one tree of height ``num_levels + 1``.

    Level ``l`` assigns each node to its ancestor ``l`` steps above the leaves. The groups of the tree of height 2 are
    one of the layers. Each further layer is added below or above them, where it decreases the entropy more per node or
    group; ties go to the layer below. Each layer comes from a merge tree of its own (of the nodes of each group, or of the
    groups), which is cut by the same rule, so ``cut="optimal"`` also gives nested levels. If a small graph has too few layers, its first levels change nothing.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: not used: the trees are not random.
        num_levels: number of levels.

    Returns:
        One hard assignment per level. Supernodes are numbered in the order of their first node.

    Raises:
        GraphError: if a weight between two nodes is negative, or the sum of the weights overflows.
    """
    from tgp.kernels import coding_tree_layers as kernels

    if num_levels == 1:
        return [assign(block, params, key)]
    if single := _single_graph_levels(block, params, num_levels):
        return single
    forest = _split_components(block)
    labels, nums, low = _build_layers(forest, num_levels, params.cut)
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


def _single_graph_levels(block: BlockCSR, params: SEPParams, num_levels: int) -> list[Assignment]:
    """Return the levels of one small graph. The list is empty for other blocks, and if the weights are an error."""
    if block.num_graphs != 1 or block.num_nodes > _SINGLE_NODES or params.cut != "greedy":
        return []
    from tgp.kernels import coding_tree_single

    if not coding_tree_single.is_compiled_or_worthwhile():
        return []
    found = coding_tree_single.build_levels(*block.arrays(), num_levels)
    if found is None:
        return []
    cluster, sizes = found
    counts = sizes.tolist()
    return [
        Assignment("hard", np.array([0, after]), row[:before])
        for row, before, after in zip(cluster, counts, counts[1:], strict=False)
    ]


def _split_components(block: BlockCSR) -> _Forest:
    """Return the simple undirected graphs of a block, component by component."""
    from tgp.kernels import coding_tree_layers as kernels
    from tgp.kernels import csr
    from tgp.kernels.undirected import undirected_sum

    weighted = block.weight is not None
    given = (block.indptr, block.indices, np.empty(0) if block.weight is None else block.weight)
    indptr, indices, weight, bad = undirected_sum(*given, *csr.transpose(*given, weighted), weighted)
    if bad >= 0:
        graph = find_run(block.node_ptr, bad)
        raise GraphError(
            f"sep: an edge weight is negative: expected weights >= 0 between two nodes, got one below 0 at node "
            f"{bad - block.node_ptr[graph]}",
            graph=graph,
            hint="use absolute or shifted weights",
        )
    component, graph_ptr = csr.components(indptr, indices, block.node_ptr)
    if len(graph_ptr) == 2 and graph_ptr[1] == 1:
        ptr, order = np.array([0, block.num_nodes]), np.arange(block.num_nodes, dtype=np.int32)
    elif (np.diff(component) >= 0).all():
        ptr = offsets(np.bincount(component, minlength=int(graph_ptr[-1])))
        order = np.arange(block.num_nodes, dtype=np.int32)
    else:
        order, ptr, indptr, indices, weight = kernels.group_by_label(
            indptr, indices, weight, component, int(graph_ptr[-1])
        )
    degree, total = kernels.row_sums(indptr, weight, ptr)
    if not np.isfinite(total).all():
        graph = find_run(graph_ptr, int(np.argmin(np.isfinite(total))))
        raise GraphError(
            "sep: the sum of the edge weights overflows: expected a finite float64 number",
            graph=graph,
            hint="scale the edge weights of this graph down",
        )
    return _Forest(_Rows(indptr, indices, weight), ptr, order, graph_ptr, degree, total)


def _build_trees(
    rows: _Rows,
    ptr: PtrArray,
    active: BoolArray,
    vol: FloatArray,
    cut: FloatArray,
    total: FloatArray,
    rule: Cut,
) -> _Groups:
    """Return the groups of the trees of height 2 of the active parts."""
    from tgp.kernels import coding_tree, coding_tree_cut

    nodes, parts = len(vol), len(total)
    out = _Groups(np.zeros(nodes, np.int32), np.ones(parts, np.int64), np.empty(nodes), np.empty(nodes))
    tree: tuple[Any, ...] = (np.empty(2 * nodes, np.int32), *np.empty((3, 2 * nodes)))

    def run(first: int, last: int) -> None:
        coding_tree.merge_parts(rows, ptr, active, vol, cut, total, first, last, tree)
        ids = 2 * (nodes if parts == 1 else int((ptr[first + 1 : last + 1] - ptr[first:last]).max()))
        arguments: tuple[Any, ...] = (ptr, active, first, last, *tree)
        if rule == "optimal":
            arguments = (*arguments[:-1], total, *np.empty((2, ids), np.int32), *np.empty((3, ids)), *out)
            coding_tree_cut.cut_trees_optimally(*arguments)
        else:
            scratch = (*np.empty((2, ids), np.int32), np.empty(ids, np.int64), np.empty(ids))
            arguments = (*arguments, *scratch, *out)
            coding_tree_cut.cut_trees(*arguments)

    if parts:
        run_over_ranges(run, ptr + rows.indptr[ptr])
    return out


def _first_layer(forest: _Forest, rule: Cut) -> _Groups:
    every = np.ones(len(forest.total), np.bool_)
    return _build_trees(forest.rows, forest.ptr, every, forest.degree, forest.degree, forest.total, rule)


def _number_clusters(forest: _Forest, label: IndexArray, num: PtrArray) -> IndexArray:
    """Return the cluster of each node of a layer, numbered through all components."""
    return label + np.repeat(offsets(num)[:-1].astype(np.int32), np.diff(forest.ptr))


def _fill_finer_layer(
    forest: _Forest, label: IndexArray, num: PtrArray, active: BoolArray, finer: _Candidate, rule: Cut
) -> None:
    """Compute a layer below the given one for the active components and write it to ``finer``."""
    from tgp.kernels import coding_tree_layers

    part, component = _number_clusters(forest, label, num), np.repeat(np.arange(len(num)), num)
    order, ptr, indptr, indices, weight = coding_tree_layers.group_by_label(
        *forest.rows, part, len(component)
    )
    degree, total = coding_tree_layers.row_sums(indptr, weight, ptr)
    groups = _build_trees(_Rows(indptr, indices, weight), ptr, active[component], degree, degree, total, rule)
    coding_tree_layers.finer_layer(
        forest.ptr,
        order,
        ptr,
        component,
        active,
        forest.degree,
        forest.total,
        *groups,
        np.empty_like(degree),
        *finer,
    )


def _fill_coarser_layer(
    forest: _Forest, label: IndexArray, num: PtrArray, active: BoolArray, coarser: _Candidate, rule: Cut
) -> None:
    """Compute a layer above the given one for the active components and write it to ``coarser``."""
    from tgp.kernels import coding_tree_layers as kernels

    item = _number_clusters(forest, label, num)
    ptr = offsets(num)
    indptr, indices, weight, vol, cut = kernels.quotient(*forest.rows, forest.degree, item, int(ptr[-1]))
    groups = _build_trees(_Rows(indptr, indices, weight), ptr, active, vol, cut, forest.total, rule)
    kernels.coarser_layer(forest.ptr, item, ptr, active, vol, cut, forest.total, *groups, *coarser)


def _build_layers(forest: _Forest, num_levels: int, rule: Cut) -> tuple[IndexArray, PtrArray, PtrArray]:
    """Return the layers of the trees of height ``num_levels + 1``.

    Returns:
        ``labels[row, node]``, ``nums[row, component]`` and ``low``. The layers of component ``c`` are in the rows
        ``low[c], ..., low[c] + num_levels - 1``, the lowest layer first.
    """
    from tgp.kernels import coding_tree_layers as kernels

    nodes, parts = len(forest.degree), len(forest.total)
    first = _first_layer(forest, rule)
    # The first layer is in the middle row. Layers below and above it are added on both sides.
    labels = np.zeros((2 * num_levels - 1, nodes), np.int32)
    nums = np.ones((2 * num_levels - 1, parts), np.int64)
    labels[num_levels - 1], nums[num_levels - 1] = first.label, first.num
    low = np.full(parts, num_levels - 1, np.int64)
    high = low.copy()
    bottom, top = (first.label, first.num), (first.label.copy(), first.num.copy())
    finer, coarser = (
        _Candidate(np.zeros(nodes, np.int32), np.ones(parts, np.int64), np.zeros(parts)) for _ in range(2)
    )
    # Components whose candidate below or above must be computed again, because the layer next to it changed.
    new_finer, new_coarser = np.ones(parts, np.bool_), first.num >= 3
    for _ in range(num_levels - 1):
        if new_finer.any():
            _fill_finer_layer(forest, *bottom, new_finer, finer, rule)
        if new_coarser.any():
            _fill_coarser_layer(forest, *top, new_coarser, coarser, rule)
        kernels.add_better_layer(
            forest.ptr, *finer, *coarser, *bottom, *top, low, high, labels, nums, new_finer, new_coarser
        )
    return labels, nums, low


def cost(nodes: LongArray, edges: LongArray, params: SEPParams) -> FloatArray:
    """Estimate the work: each node and edge takes part in about log(n) merges."""
    return np.asarray((nodes + edges) * (4.0 + 2.0 * np.log2(nodes + 1.0)), np.float64)


def bound(sizes: GraphSizes, params: SEPParams) -> LevelBound:
    """Bound time and memory. A star with distinct weights takes longest; each further level needs up to two more trees."""
    work = (sizes.nodes + sizes.edges) * np.log2(sizes.nodes + 2.0)
    return LevelBound(8e-7 * work, 420.0 * sizes.nodes + 140.0 * sizes.edges, sizes.nodes, 2 * sizes.edges)


METHOD = LevelMethod(
    "sep",
    SEPParams,
    assign,
    contract,
    assign_levels,
    cost,
    LevelEstimate(0.3, 0.3, weighted=True, scratch=450.0),
    bound=bound,
    contracts=True,
    one_core="the coding tree",
)
