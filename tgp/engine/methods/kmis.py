r"""k-MIS: clusters around the nodes of a maximal k-hop independent set.

From `"Generalizing Downsampling from Regular Data to Graphs" <https://arxiv.org/abs/2208.03523>`_ (AAAI 2023). Nodes are
ranked by a score. A node joins the independent set :math:`I` if no better ranked member is within :math:`k`
hops. Node :math:`i` belongs to the best ranked member within :math:`k` hops,

.. math::
    c(i) = \mathrm{argmax}_{j \in I, \, d(i, j) \le k} \, \mathrm{rank}(j) .
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tgp.engine.contraction import ConnectParams, contract
from tgp.engine.large_ranking import find_symmetry, is_large, number_members, rank_nodes
from tgp.engine.level_method import ADDED, GraphSizes, LevelBound, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.parameter_checks import check_choice, check_whole
from tgp.engine.threads import run_over_items, run_over_ranges
from tgp.errors import InputError
from tgp.kernels.array_types import IndexArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = ["METHOD", "KMISParams", "assign_by_order", "assign_by_score", "with_reverse_edges"]

Scorer = Literal["random", "constant", "canonical", "degree"]
Heuristic = Literal["greedy", "w-greedy"]

_FEATURE_SCORERS = ("linear", "first", "last")
_MANY_HOPS, _MOST_PASSES = 16, 1100
"""Number of hops from which the sums over paths may be infinite, and from which those of connected nodes are: they double with each
hop, up to 2^1024."""


@dataclass(frozen=True)
class KMISParams(ConnectParams):
    """Parameters of the independent set. The coarse graph has those of :class:`~tgp.engine.contraction.ConnectParams`.

    Args:
        order_k: number of hops ``k``. Members are more than ``k`` hops apart, and every node has a member within ``k`` hops.
        scorer: score by which nodes are ranked: ``degree`` (weighted in-degree), ``random`` (by a hash of the seed),
            ``constant`` or ``canonical`` (minus the index inside the graph). The scores are also the values of the
            assignment matrix. Scores that read features (``linear``, ``first``, ``last``, functions) exist in
            :class:`~tgp.poolers.KMISPooling` only.
        score_heuristic: divide scores before ranking by the size of the k-hop neighbourhood (``greedy``) or by the sum
            of its scores (``w-greedy``). Paths are counted with multiplicity. ``None`` ranks by the scores themselves.
        force_undirected: give both directions of an edge the larger of their weights before nodes are selected.
        max_size: largest number of nodes of a cluster. A larger cluster is divided into parts of nearly equal size, by the
            index of its nodes. Each part is a supernode, represented by the member or by the smallest node of the part. It
            prevents that a hub takes most of the graph. ``None`` divides no cluster.
    """

    order_k: int = 1
    scorer: Scorer = "degree"
    score_heuristic: Heuristic | None = "greedy"
    force_undirected: bool = False
    max_size: int | None = field(default=None, metadata=ADDED)

    def __post_init__(self) -> None:
        check_whole("order_k", self.order_k)
        check_choice("score_heuristic", self.score_heuristic, (*get_args(Heuristic), None))
        check_whole("max_size", self.max_size, 2, optional=True)
        hint = "compute the scores with KMISPooling: a hierarchy must not depend on features"
        check_choice("scorer", self.scorer, Scorer, hint=hint if self.scorer in _FEATURE_SCORERS else None)
        super().__post_init__()


def assign(block: BlockCSR, params: KMISParams, key: RandomKey) -> Assignment:
    """Assign each node to the best ranked member of a maximal k-hop independent set within ``k`` hops.

    The nodes are scanned by descending score. A node becomes a member if no member is within ``k`` hops. Equal scores
    are ranked by the smaller index, and a score that is not a number ranks first. Every edge is used in both
    directions. A node may join a member that is not the nearest one. With ``max_size``, large clusters are divided.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of random scores.

    Returns:
        A hard assignment whose values are the scores. Supernodes are the members in ascending order, which are also
        its representatives.
    """
    return _assign(block, params, None, key)


def assign_by_score(block: BlockCSR, score: npt.ArrayLike, params: KMISParams) -> Assignment:
    """Return the assignment of :func:`assign` for given scores instead of ``params.scorer``.

    Args:
        block: the graphs.
        score: ``[N]`` score of each node.
        params: parameters of the method; ``scorer`` is ignored.

    Raises:
        InputError: if there is not one score per node.
    """
    values = np.array(score, dtype=np.float64)
    if values.shape != (block.num_nodes,):
        raise InputError(
            f"score has the wrong shape: expected [{block.num_nodes}], got {list(values.shape)}",
            field="score",
        )
    return _assign(block, params, values, RandomKey())


def assign_by_order(block: BlockCSR, order: npt.ArrayLike | None = None, order_k: int = 1) -> Assignment:
    """Return the assignment that scans the nodes in a given order.

    Args:
        block: the graphs.
        order: ``[N]`` permutation of the nodes; ascending order if ``None``.
        order_k: ``k``, the number of hops.

    Returns:
        A hard assignment whose values are 1.

    Raises:
        InputError: if ``order`` is not a permutation of the nodes.
    """
    from tgp.kernels import mis

    check_whole("order_k", order_k)
    size = block.num_nodes
    nodes = np.arange(size) if order is None else np.array(order, dtype=np.int64)
    if nodes.shape != (size,) or not np.array_equal(np.sort(nodes), np.arange(size)):
        raise InputError(
            f"order is not a permutation: expected each of the nodes 0 to {size - 1} once, "
            f"got {len(np.unique(nodes))} distinct nodes in shape {list(nodes.shape)}",
            field="perm",
        )
    block, _ = with_reverse_edges(block)
    owner, budget, queue = (np.empty(max(size, 1), np.int32) for _ in range(3))
    mis.cover_by_order(
        block.indptr, block.indices, nodes.astype(np.int32), min(order_k, size), budget, queue, owner
    )
    cluster, super_ptr, members = _number_clusters(owner[:size], block)
    return Assignment("hard", super_ptr, cluster, representative=members)


def connect(block: BlockCSR, assignment: Assignment, params: KMISParams) -> BlockCSR:
    """Return the graphs with the clusters contracted. The scores have no effect; edges are used in both directions."""
    return contract(with_reverse_edges(block)[0], assignment, params)


def with_reverse_edges(block: BlockCSR) -> tuple[BlockCSR, npt.NDArray[np.int8]]:
    """Add the reverse of every edge that has none.

    Args:
        block: the graphs.

    Returns:
        The block and the symmetry code of each graph (see :attr:`BlockCSR.symmetry`). A graph whose edges all have a
        reverse edge is not changed, even if the weights of the two directions differ.
    """
    from tgp.kernels import mis

    symmetry = find_symmetry(block)
    if mis.ASYMMETRIC not in symmetry.tobytes():
        return block, symmetry
    from tgp.kernels import csr

    indptr, indices, weight, weighted = block.arrays()
    transposed = csr.transpose(indptr, indices, weight, weighted)
    indptr, indices, weight = mis.add_mirrors(indptr, indices, weight, *transposed, weighted)
    completed = np.where(symmetry == mis.ASYMMETRIC, np.int8(mis.UNBALANCED), symmetry)
    return BlockCSR(indptr, indices, weight if weighted else None, block.node_ptr), completed


def _assign(block: BlockCSR, params: KMISParams, score: FloatArray | None, key: RandomKey) -> Assignment:
    from tgp.kernels import csr

    if params.force_undirected:
        indptr, indices, weight = csr.symmetrise(*block.arrays(), csr.MAX)
        block = BlockCSR(indptr, indices, None if block.weight is None else weight, block.node_ptr)
    block, symmetry = with_reverse_edges(block)
    ranks_by_degree = score is None and _ranks_by_degree(block, params, symmetry)
    if score is None:
        score = _compute_scores(block, params.scorer, symmetry, key)
    divides = params.score_heuristic is not None and not ranks_by_degree
    divisor = _compute_divisors(block, params, symmetry, score) if divides else score
    owner = _cover(block, min(params.order_k, len(score)), score, divisor, divides)
    cluster, super_ptr, members = _number_clusters(owner, block)
    if params.max_size is not None:
        cluster, super_ptr, members = _divide_clusters(cluster, members, block.node_ptr, params.max_size)
    # Numbers of edges are not too large for the type.
    if ranks_by_degree and not is_large(block):
        return Assignment("hard", super_ptr, cluster, weight=score.astype(np.float32), representative=members)
    values = np.empty(len(score), np.float32)

    def convert(first: int, last: int) -> None:
        with np.errstate(over="ignore"):
            values[first:last] = score[first:last]

    run_over_items(convert, len(score))
    return Assignment("hard", super_ptr, cluster, weight=values, representative=members)


def _ranks_by_degree(block: BlockCSR, params: KMISParams, symmetry: npt.NDArray[np.int8]) -> bool:
    """Return True if the nodes are ranked by ``d / (d + 1)``. The degrees ``d`` themselves give the same order and are sorted faster."""
    is_degree = params.scorer == "degree" and params.score_heuristic == "greedy" and params.order_k == 1
    # From 2^26 on, two fractions can be the same number.
    return is_degree and block.weight is None and block.num_edges < 1 << 26 and _are_balanced(symmetry)


def _are_balanced(symmetry: npt.NDArray[np.int8]) -> bool:
    """Return True if all graphs are balanced. For one graph, bytes are compared faster than arrays."""
    from tgp.kernels import mis

    return symmetry.tobytes().count(mis.BALANCED) == len(symmetry)


def _cover(block: BlockCSR, k: int, score: FloatArray, divisor: FloatArray, divides: bool) -> IndexArray:
    """Return the member whose cluster each node joins."""
    from tgp.kernels import mis

    node_ptr, owner = block.node_ptr, np.empty(block.num_nodes, np.int32)
    if is_large(block):
        order = rank_nodes(score, divisor, divides)
        budget, queue = (np.empty(size, np.int32) for size in (len(order), len(order) if k > 1 else 1))
        mis.cover_by_order(block.indptr, block.indices, order, k, budget, queue, owner)
        return owner

    def run(first: int, last: int) -> None:
        starts = node_ptr[first : last + 1]
        most = int((starts[1:] - starts[:-1]).max(initial=0))
        ranks, other = np.empty(most), np.empty(most, np.uint64)
        order, other_order, budget = (np.empty(most, np.int32) for _ in range(3))
        queue, counts = np.empty(most if k > 1 else 1, np.int32), np.empty(8 * 256, np.int64)
        mis.cover_by_score(
            block.indptr, block.indices, node_ptr, k, first, last, score, divisor, divides, ranks,
            ranks.view(np.uint64), other, order, other_order, counts, budget, queue, owner,
        )  # fmt: skip

    run_over_ranges(run, node_ptr + block.edge_ptr)
    return owner


def _compute_scores(
    block: BlockCSR, scorer: Scorer, symmetry: npt.NDArray[np.int8], key: RandomKey
) -> FloatArray:
    """Return the scores of all nodes."""
    from tgp.kernels import mis

    if scorer == "degree":
        if block.weight is None and _are_balanced(symmetry):
            return _count_entries(block)
        in_degree = np.bincount(block.indices, block.weight, minlength=block.num_nodes)
        return in_degree.astype(np.float64)
    score = np.ones(block.num_nodes)
    if scorer == "random":
        mis.random_scores(block.node_ptr, key.seed, key.level, score)
    elif scorer == "canonical":
        start = np.repeat(block.node_ptr[:-1], np.diff(block.node_ptr))
        score[:] = start - np.arange(block.num_nodes)
    return score


def _count_entries(block: BlockCSR) -> FloatArray:
    """Return the number of entries of each row."""
    indptr, counts = block.indptr, np.empty(block.num_nodes)

    def count(first: int, last: int) -> None:
        np.subtract(indptr[first + 1 : last + 1], indptr[first:last], out=counts[first:last])

    run_over_items(count, block.num_nodes)
    return counts


def _compute_divisors(
    block: BlockCSR, params: KMISParams, symmetry: npt.NDArray[np.int8], score: FloatArray
) -> FloatArray:
    """Return the divisor of each score: the number or the scores of the nodes within ``order_k`` hops, over all paths."""
    from tgp.kernels import mis

    rounds = params.order_k
    if params.score_heuristic == "w-greedy":
        divisor = score
    else:
        # In a balanced graph, the first sum of ones is the length of a row.
        rounds -= 1
        divisor = np.diff(block.indptr) + 1.0
        if (symmetry != mis.BALANCED).any():
            unbalanced = np.repeat(symmetry != mis.BALANCED, np.diff(block.node_ptr))
            divisor = _add_incoming(block, symmetry, np.where(unbalanced, 1.0, divisor), True)
    for number in range(rounds):
        before, divisor = divisor, _add_incoming(block, symmetry, divisor, False)
        # The sums over all paths of many hops are infinite, and do not change any more.
        if number >= _MANY_HOPS and np.array_equal(before, divisor):
            break
    return divisor


def _add_incoming(
    block: BlockCSR, symmetry: npt.NDArray[np.int8], values: FloatArray, only_unbalanced: bool
) -> FloatArray:
    from tgp.kernels import mis

    out = np.empty(block.num_nodes)

    def run(first: int, last: int) -> None:
        mis.add_incoming(
            block.indptr, block.indices, block.node_ptr, symmetry, only_unbalanced, first, last, values, out
        )

    run_over_ranges(run, block.node_ptr + block.edge_ptr)
    return out


def _number_clusters(owner: IndexArray, block: BlockCSR) -> tuple[IndexArray, PtrArray, IndexArray]:
    """Return the cluster of each node, the offsets of the clusters, and the selected node of each cluster."""
    from tgp.kernels import mis

    node_ptr = block.node_ptr
    if is_large(block):
        return number_members(owner)
    cluster, super_ptr = np.empty(len(owner), np.int32), np.empty(len(node_ptr), np.int64)
    mis.number_clusters(owner, node_ptr, cluster, super_ptr)
    nodes = np.arange(len(owner), dtype=np.int32)
    return cluster, super_ptr, nodes[owner == nodes]


def _divide_clusters(
    cluster: IndexArray, members: IndexArray, node_ptr: PtrArray, max_size: int
) -> tuple[IndexArray, PtrArray, IndexArray]:
    """Divide clusters with more than ``max_size`` nodes; return clusters, offsets and the representatives.

    The nodes of a cluster are divided by their index. Parts are numbered by their representatives, as clusters are.
    """
    sizes = np.bincount(cluster, minlength=len(members))
    parts = -(-sizes // max_size)
    by_cluster = np.argsort(cluster, kind="stable")
    of_sorted = cluster[by_cluster]
    position = np.arange(len(cluster)) - offsets(sizes)[of_sorted]
    part = np.empty(len(cluster), np.int64)
    part[by_cluster] = offsets(parts)[of_sorted] + position * parts[of_sorted] // sizes[of_sorted]
    # The first node of each part, then the member where it is.
    found = np.unique(part, return_index=True)[1]
    found[part[members]] = members
    order = np.argsort(found)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    chosen = found[order].astype(np.int32)
    return number[part], np.searchsorted(chosen, node_ptr).astype(np.int64), chosen


def bound(sizes: GraphSizes, params: KMISParams) -> LevelBound:
    """Bound time and memory. Every hop is one pass, and directed edges get their reverse edges."""
    work = sizes.nodes + 2.0 * sizes.edges
    edges = np.minimum(2 * sizes.edges, sizes.nodes**2)
    return LevelBound(
        1e-9 * (60.0 + 60.0 * min(params.order_k, _MOST_PASSES)) * work, 50.0 * work, sizes.nodes, edges
    )


METHOD = LevelMethod(
    "kmis",
    KMISParams,
    assign,
    connect,
    estimate=LevelEstimate(0.4, 0.4),
    representative="mis",
    bound=bound,
    contracts=True,
    external="tgp.engine.external.independent_set:METHOD",
)
