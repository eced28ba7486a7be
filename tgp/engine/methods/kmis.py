"""k-MIS: the nodes of a k-hop maximal independent set, and the clusters around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tgp.engine.contraction import ContractOptions, ReduceOp, contract
from tgp.engine.protocol import LevelEstimate, LevelMethod, RandomKey
from tgp.engine.threads import over_ranges
from tgp.errors import InputError, ParameterError
from tgp.ragged import Assignment, BlockCSR

__all__ = ["METHOD", "KMISParams", "assign_by_order", "assign_by_score", "both_ways"]

Scorer = Literal["random", "constant", "canonical", "degree"]
Heuristic = Literal["greedy", "w-greedy"]

_SCORERS = {name: code for code, name in enumerate(get_args(Scorer), start=1)}
_HEURISTICS = {None: 0, "greedy": 1, "w-greedy": 2}
_OF_FEATURES = ("linear", "first", "last")
_GIVEN = 0


@dataclass(frozen=True)
class KMISParams:
    """Parameters of the independent set and of the coarse graph.

    Args:
        order_k: members are more than ``k`` hops apart, and every node has one within ``k`` hops.
        scorer: who goes first: ``degree`` (weighted in-degree), ``random`` (seeded, per graph),
            ``constant`` or ``canonical`` (minus the index inside the graph). The scores are also the
            values of the assignment matrix. Scores that read features (``linear``, ``first``, ``last``, functions)
            exist in :class:`~tgp.poolers.KMISPooling` only.
        score_heuristic: divide scores before ranking by the size of the k-hop neighbourhood (``greedy``) or by
            the sum of its scores (``w-greedy``), paths counted with multiplicity; ``None`` does not.
        force_undirected: for the selection, let the larger weight of two directions count for both.
        connect_red_op: how parallel coarse edges merge.
        remove_self_loops: leave out edges inside a supernode.
        degree_norm: symmetric degree normalisation of the coarse graph.
        edge_weight_norm: divide coarse weights by the largest of their graph.
        count_edges: let the coarse weights of an unweighted graph count edges.
    """

    order_k: int = 1
    scorer: Scorer = "degree"
    score_heuristic: Heuristic | None = "greedy"
    force_undirected: bool = False
    connect_red_op: ReduceOp = "sum"
    remove_self_loops: bool = True
    degree_norm: bool = False
    edge_weight_norm: bool = False
    count_edges: bool = False

    def __post_init__(self) -> None:
        _check_order(self.order_k)
        _check_heuristic(self.score_heuristic)
        if self.scorer not in _SCORERS:
            reads = (
                f"; {self.scorer} reads features, which a hierarchy must not"
                if self.scorer in _OF_FEATURES
                else ""
            )
            raise ParameterError(
                f"scorer must be one of {', '.join(_SCORERS)}, got {self.scorer!r}{reads}",
                field="scorer",
            )
        self.options()

    def options(self) -> ContractOptions:
        """The part of the coarse graph, as the contraction takes it."""
        return ContractOptions(
            self.connect_red_op,
            self.remove_self_loops,
            self.degree_norm,
            self.edge_weight_norm,
            self.count_edges,
        )


def assign(block: BlockCSR, params: KMISParams, draw: RandomKey) -> Assignment:
    """Scan the nodes by score, take what no member covers yet; each node joins its best-ranked member.

    From "Generalizing Downsampling from Regular Data to Graphs" (AAAI 2023). Edges count both ways. Ties fall
    to the smaller index; a score that is not a number ranks first. A cluster is the best-ranked member within
    ``k`` hops, not the nearest. Supernodes are the members in ascending order.
    """
    return _assign(block, params, _SCORERS[params.scorer], np.empty(block.num_nodes), draw)


def assign_by_score(block: BlockCSR, score: npt.ArrayLike, params: KMISParams) -> Assignment:
    """:func:`assign` with given scores ``[N]`` in place of ``params.scorer``.

    Raises:
        InputError: if there is not one score per node.
    """
    values = np.array(score, dtype=np.float64)
    if values.shape != (block.num_nodes,):
        raise InputError(
            f"score must hold {block.num_nodes} values, got shape {list(values.shape)}", field="score"
        )
    return _assign(block, params, _GIVEN, values, RandomKey())


def assign_by_order(block: BlockCSR, order: npt.ArrayLike | None = None, order_k: int = 1) -> Assignment:
    """Scan all nodes of a block in a given order; ascending if ``None``. All weights are 1.

    Raises:
        InputError: if ``order`` is not a permutation of the nodes.
    """
    from tgp.kernels import mis

    _check_order(order_k)
    size = block.num_nodes
    nodes = np.arange(size) if order is None else np.array(order, dtype=np.int64)
    if nodes.shape != (size,) or not np.array_equal(np.sort(nodes), np.arange(size)):
        raise InputError(f"order must hold each of the nodes 0..{size - 1} once", field="perm")
    block, _ = both_ways(block)
    owner = mis.cover_by_order(block.indptr, block.indices, nodes, order_k)
    cluster, super_ptr, members = mis.number_clusters(owner, block.node_ptr)
    return Assignment("hard", super_ptr, cluster, representative=members)


def connect(block: BlockCSR, assignment: Assignment, params: KMISParams) -> BlockCSR:
    """Contract the clusters; scores play no part. Edges count both ways, as in the selection."""
    return contract(both_ways(block)[0], assignment, params.options())


def both_ways(block: BlockCSR) -> tuple[BlockCSR, npt.NDArray[np.int8]]:
    """The block with a mirror image for every edge that has none, and what is known of each graph's symmetry.

    A graph whose edges all run both ways, with whatever weights, is left as it is.
    """
    from tgp.kernels import csr, mis

    finding = block.symmetry
    if not (finding == mis.ASYMMETRIC).any():
        return block, finding
    indptr, indices, weight, weighted = block.arrays()
    back = csr.transpose(indptr, indices, weight, weighted)
    indptr, indices, weight = mis.add_mirrors(indptr, indices, weight, *back, weighted)
    mended = np.where(finding == mis.ASYMMETRIC, np.int8(mis.UNBALANCED), finding)
    return BlockCSR(indptr, indices, weight if weighted else None, block.node_ptr), mended


def _assign(
    block: BlockCSR, params: KMISParams, scorer: int, score: npt.NDArray[np.float64], draw: RandomKey
) -> Assignment:
    from tgp.kernels import csr, mis

    if params.force_undirected:
        indptr, indices, weight = csr.symmetrise(*block.arrays(), csr.MAX)
        block = BlockCSR(indptr, indices, None if block.weight is None else weight, block.node_ptr)
    block, finding = both_ways(block)
    owner = np.empty(block.num_nodes, np.int32)
    heuristic = _HEURISTICS[params.score_heuristic]

    def run(first: int, last: int) -> None:
        mis.cover_by_score(
            *block.arrays(),
            block.node_ptr,
            finding,
            scorer,
            heuristic,
            params.order_k,
            draw.seed,
            draw.level,
            first,
            last,
            score,
            owner,
        )

    over_ranges(run, block.node_ptr + block.edge_ptr)
    cluster, super_ptr, members = mis.number_clusters(owner, block.node_ptr)
    return Assignment("hard", super_ptr, cluster, weight=score.astype(np.float32), representative=members)


def _check_order(order_k: object) -> None:
    if isinstance(order_k, bool) or not isinstance(order_k, (int, np.integer)) or order_k < 1:
        raise ParameterError(
            f"order_k must be a whole number of at least 1, got {order_k!r}", field="order_k"
        )


def _check_heuristic(heuristic: object) -> None:
    if heuristic not in _HEURISTICS:
        raise ParameterError(
            f"score_heuristic must be greedy, w-greedy or None, got {heuristic!r}", field="score_heuristic"
        )


METHOD = LevelMethod(
    "kmis", KMISParams, assign, connect, expected=LevelEstimate(0.4, 0.4), representative="mis"
)
