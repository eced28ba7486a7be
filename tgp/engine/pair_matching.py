"""Merge pairs of nodes by the scores of their edges, once or until every component has a given size.

The matching is the greedy one in the order of the scores, see :mod:`tgp.kernels.local_matching`. Nodes that it leaves alone can be
merged in pairs through a common neighbour. The result of a component does not depend on threads or on other components.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from tgp.engine.edge_scores import EdgeScores, Score, Share, prepare_scores, sort_by_score
from tgp.engine.large_ranking import is_large, number_pairs
from tgp.engine.level_method import RandomKey
from tgp.engine.range_contraction import contract_rows
from tgp.engine.target_size import SizeParams, component_targets
from tgp.engine.threads import run_over_items, run_over_ranges
from tgp.engine.undirected import make_undirected
from tgp.errors import GraphError, ParameterError
from tgp.kernels.array_types import BoolArray, LongArray, WordArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray
from tgp.ragged.fields import take_ragged
from tgp.ragged.offsets import find_run

__all__ = ["FEW_PAIRS", "MergeFirst", "draw_codes", "match_free", "match_once", "match_to_sizes"]

MergeFirst = Callable[[BlockCSR, FloatArray, IndexArray, LongArray, WordArray], Assignment | None]
"""Function ``(graphs, scores, label, excess, code) -> assignment`` that merges nodes before each matching, or returns ``None``.

``label`` ``[N]`` is the component of each node, ``excess`` ``[C]`` the largest number of nodes by which each component may shrink, and
``code`` the result of :func:`draw_codes`.
"""

FEW_PAIRS = 0.3
"""Number of pairs per node. If a matching has fewer pairs, nodes that are alone are merged through common neighbours."""

_HARDLY_ANY_PAIRS = 0.05
"""The same limit if such pairs are not wanted, so that a star does not need as many rounds as it has nodes."""

_MAX_ROUNDS = 256
"""Largest number of rounds of a matching. The edges that remain are sorted, which gives the same pairs."""

_MIN_ROUNDS, _MIN_SHARE = 24, 0.005
"""Number of rounds after which each round must match or remove this share of the nodes. Otherwise edges are sorted."""

_DRAWS_PER_LEVEL = 1 << 16
"""Distance of the random draws of two levels of one run. A level has fewer rounds, because each removes a node."""


@dataclass(frozen=True)
class _Pairs:
    """Partner of each node (or the node itself), and the scores and codes from which the order of the pairs follows.

    Args:
        mate: ``[N]`` partner of each node.
        top: ``[N]`` score of the edge to the partner; empty if all edges are equal.
        code: ``[N]`` random numbers of the nodes.
        is_distant: ``[N]`` True for nodes whose partner is not a neighbour.
    """

    mate: IndexArray
    top: FloatArray
    code: WordArray
    is_distant: BoolArray


def match_once(block: BlockCSR, key: RandomKey, score: Score, *, two_hop: bool) -> Assignment:
    """Merge the pairs of one maximal matching.

    Args:
        block: the graphs.
        key: key of the random numbers.
        score: function that scores the edges.
        two_hop: merge nodes that are alone through common neighbours in graphs where the matching removes less than 30 % of the
            nodes.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.
    """
    graphs = make_undirected(block)
    return match_free(graphs, score(graphs, None), key, 0, None, two_hop=two_hop)


def match_free(
    graphs: BlockCSR, values: FloatArray | Share | None, key: RandomKey, draw: int, free: BoolArray | None,
    *, two_hop: bool,
) -> Assignment:  # fmt: skip
    """Merge the pairs of a maximal matching of some nodes.

    Args:
        graphs: undirected graphs, see :func:`~tgp.engine.undirected.make_undirected`.
        values: scores of the edges, see :data:`Score`.
        key: key of the random numbers.
        draw: number of the draw of random numbers.
        free: ``[N]`` nodes that may be merged; ``None`` for all nodes.
        two_hop: see :func:`match_once`.

    Returns:
        A hard assignment. Supernodes are numbered by their smallest node.
    """
    pairs = _match(graphs, values, key, draw, free)
    found = number_pairs(pairs.mate, graphs)
    if two_hop:
        nodes = np.diff(graphs.node_ptr)
        few = nodes - np.diff(found.super_ptr) < FEW_PAIRS * nodes
        if few.any() or not is_large(graphs):  # small graphs always, so that a first run compiles all kernels
            chosen = np.repeat(few, nodes)
            _pair_alone(graphs, values, pairs, chosen if free is None else chosen & free)
            found = number_pairs(pairs.mate, graphs)
    return found


def match_to_sizes(
    block: BlockCSR,
    params: SizeParams,
    key: RandomKey,
    score: Score,
    num_levels: int = 1,
    *,
    two_hop: bool = True,
    merge_first: MergeFirst | None = None,
    match_merged: bool = True,
) -> list[Assignment]:
    """Merge pairs round by round, until every connected component has exactly the size that is asked for.

    A round matches the graphs that the rounds before left, whose weights are sums. Nodes that are alone are merged through common
    neighbours where a matching removes few nodes. The last round of a component merges only as many pairs
    as needed, those of the highest scores.

    Args:
        block: the graphs.
        params: the sizes. With ``ratios`` the levels are nested.
        key: key of the random numbers.
        score: function that scores the edges.
        num_levels: number of levels, at most that of ``params.ratios`` and otherwise 1.
        two_hop: merge nodes that are alone in components where a matching removes less than 30 % of the nodes; if false, less
            than 5 %.
        merge_first: function that merges nodes before each matching.
        match_merged: match all components, not only those in which ``merge_first`` has merged no nodes.

    Returns:
        Hard assignments, one per level. Supernodes are numbered by their smallest node.

    Raises:
        ParameterError: if ``params.ratios`` has fewer values than there are levels.
        GraphError: if scores are not symmetric or not numbers, so that no pair can be found.
    """
    from tgp.kernels import csr

    if num_levels > max(len(params.ratios), 1):
        raise ParameterError(
            f"ratios has too few values: expected {num_levels}, one for each level, got {len(params.ratios)}",
            field="ratios",
        )
    graphs = make_undirected(block)
    label, component_ptr = csr.components(graphs.indptr, graphs.indices, graphs.node_ptr)
    sizes = np.bincount(label, minlength=component_ptr[-1])
    state = _Run(graphs, label, score, FEW_PAIRS if two_hop else _HARDLY_ANY_PAIRS, merge_first, match_merged)
    for level in range(num_levels):
        targets = component_targets(sizes, component_ptr, params, level)
        state.reach(targets, key, level * _DRAWS_PER_LEVEL)
    return state.levels


class _Run:
    """State of :func:`match_to_sizes`: the current graphs and the component of each of their nodes."""

    def __init__(
        self,
        graphs: BlockCSR,
        label: IndexArray,
        score: Score,
        few_pairs: float,
        merge_first: MergeFirst | None,
        match_merged: bool,
    ) -> None:
        self.graphs, self.label, self.score, self.few_pairs = graphs, label, score, few_pairs
        self.merge_first, self.match_merged = merge_first, match_merged
        self.values = score(graphs, None)
        self.unscored: IndexArray | None = None
        self.levels: list[Assignment] = []

    def reach(self, targets: LongArray, key: RandomKey, draw: int) -> None:
        """Merge pairs until the components have the target sizes, and append the assignment."""
        maps = [np.arange(self.graphs.num_nodes, dtype=np.int32)]
        while (excess := self._count_excess(targets)).any():
            if self.merge_first is not None:
                values, code = self._score_edges(), draw_codes(self.graphs, key, draw)
                assert isinstance(values, np.ndarray)
                found = self.merge_first(self.graphs, values, self.label, excess, code)
                if found is not None:
                    maps.append(self._contract(found))
                    left = self._count_excess(targets)
                    excess = left if self.match_merged else np.where(left < excess, 0, left)
            if excess.any():
                pairs = _match(self.graphs, self._score_edges(), key, draw, excess[self.label] > 0)
                maps.append(self._contract(number_pairs(self._choose(pairs, excess, targets), self.graphs)))
            draw += 1
        # From the last map to the first: all but one step gather from few nodes.
        cluster = reduce(lambda last, earlier: last[earlier], reversed(maps))
        self.levels.append(Assignment("hard", self.graphs.node_ptr, cluster))

    def _count_excess(self, targets: LongArray) -> LongArray:
        return np.bincount(self.label, minlength=len(targets)) - targets

    def _score_edges(self) -> FloatArray | Share | None:
        """Return the scores of the current graphs. They are computed when they are first needed."""
        if self.unscored is not None:
            self.values, self.unscored = self.score(self.graphs, self.unscored), None
        return self.values

    def _choose(self, pairs: _Pairs, excess: LongArray, targets: LongArray) -> IndexArray:
        """Return the partners after pairs of nodes that are alone were added, and pairs that are too many removed."""
        label, mate = self.label, pairs.mate
        found = _count_pairs(mate, label, len(excess))
        if ((found == 0) & (excess > 0)).any():
            component = int(np.argmax((found == 0) & (excess > 0)))
            node = int(np.argmax(label == component))
            raise GraphError(
                "a component cannot be merged further: expected a score for every edge that is a number and the same for "
                "both directions, got others",
                graph=find_run(self.graphs.node_ptr, node),
            )
        few = (found < excess) & (found < self.few_pairs * (excess + targets))
        if few.any():
            _pair_alone(self.graphs, self._score_edges(), pairs, few[label])
            found = _count_pairs(mate, label, len(excess))
        if (found > excess).any():
            _remove_excess(pairs, label, excess, found > excess)
        return mate

    def _contract(self, found: Assignment) -> IndexArray:
        """Contract the graphs and return the supernode of each node."""
        from tgp.kernels._prims import SUM

        graphs, cluster, super_ptr = self.graphs, found.cluster, found.super_ptr
        assert cluster is not None
        # Edges of weight 0 stay, so that components stay connected.
        indptr, indices, weight = contract_rows(
            graphs.indptr, graphs.indices, graphs.weights_or_ones(), True, cluster, int(super_ptr[-1]),
            SUM, True, -1.0,
        )  # fmt: skip
        self.graphs = BlockCSR(indptr, indices, weight, super_ptr)
        label = np.empty(int(super_ptr[-1]), self.label.dtype)
        label[cluster] = self.label
        self.label, self.values = label, None
        self.unscored = cluster if self.unscored is None else cluster[self.unscored]
        return cluster


def _count_pairs(mate: IndexArray, label: npt.NDArray[np.integer], parts: int) -> LongArray:
    """Return the number of pairs of each component or graph."""
    return np.bincount(label[mate > np.arange(len(mate))], minlength=parts)


def draw_codes(graphs: BlockCSR, key: RandomKey, draw: int) -> WordArray:
    """Return the random numbers of the nodes from which the hashes of edges are made, see :mod:`tgp.kernels.local_matching`.

    Args:
        graphs: the graphs.
        key: key of the random numbers.
        draw: number of the draw.
    """
    from tgp.kernels import local_matching as kernels

    code = np.empty(graphs.num_nodes, np.uint64)

    def fill_codes(first: int, last: int) -> None:
        kernels.fill_codes(graphs.node_ptr, key.seed, key.level, draw, first, last, code)

    run_over_items(fill_codes, graphs.num_nodes)
    return code


def _match(
    graphs: BlockCSR, score: FloatArray | Share | None, key: RandomKey, draw: int, free: BoolArray | None
) -> _Pairs:
    """Return the greedy matching of the nodes that are free."""
    indptr, indices, size = graphs.indptr, graphs.indices, graphs.num_nodes
    scores = prepare_scores(graphs, score)
    code, active = draw_codes(graphs, key, draw), np.arange(size, dtype=np.int32)
    (mate, pointer), codes = np.empty((2, size), np.int32), np.empty(size, np.uint64)

    def prepare(first: int, last: int) -> None:
        mate[first:last], pointer[first:last], codes[first:last] = active[first:last], -1, code[first:last]

    run_over_items(prepare, size)
    pairs = _Pairs(mate, np.empty(0 if score is None else size), codes, np.zeros(size, np.bool_))
    if free is not None and not free.all():
        code[~free] = 0
        active = active[free]
    for number in range(_MAX_ROUNDS):
        if not len(active):
            return pairs

        def point(first: int, last: int, nodes: IndexArray = active) -> None:
            scores.point(indptr, indices, code, nodes, first, last, pointer, pairs.top)

        before = len(active)
        run_over_ranges(point, indptr) if before == size else run_over_items(point, before)
        active = _take_mutual(active, pointer, mate, code)
        if number >= _MIN_ROUNDS and before - len(active) < _MIN_SHARE * before:
            break
    _match_sorted(graphs, scores, active, code, pairs)
    return pairs


def _take_mutual(active: IndexArray, pointer: IndexArray, mate: IndexArray, code: WordArray) -> IndexArray:
    """Match nodes that point to each other; return the nodes that can still find a partner."""
    from tgp.kernels import local_matching as kernels

    remaining = np.empty(len(active), np.int32)
    counts: list[tuple[int, int]] = []

    def take(first: int, last: int) -> None:
        counts.append((first, kernels.take_mutual(active, first, last, pointer, mate, code, remaining)))

    run_over_items(take, len(active))
    return np.concatenate([remaining[first : first + count] for first, count in sorted(counts)])


def _match_sorted(
    graphs: BlockCSR, scores: EdgeScores, active: IndexArray, code: WordArray, pairs: _Pairs
) -> None:
    """Match the active nodes by sorting the edges between them. This gives the same pairs as further rounds.

    A path whose weights ascend has one pair per round.
    """
    from tgp.kernels import local_matching as kernels

    row_ptr, entry = take_ragged(graphs.indptr, active.astype(np.int64))
    rows, cols = np.repeat(active, np.diff(row_ptr)), graphs.indices[entry]
    between = (rows < cols) & (code[cols] != 0)
    rows, cols, entry = rows[between], cols[between], entry[between]
    score = scores.select(rows, cols, entry)
    order = sort_by_score(code, rows, cols, score)
    rows, cols = rows[order], cols[order]
    kernels.match_in_order(rows, cols, pairs.mate, code)
    if score is not None:
        taken = pairs.mate[rows] == cols
        pairs.top[rows[taken]] = score[order][taken]


def _pair_alone(graphs: BlockCSR, score: FloatArray | Share | None, pairs: _Pairs, chosen: BoolArray) -> None:
    """Match the chosen nodes that are alone and have the same strongest neighbour, nodes of equal neighbours first."""
    from tgp.kernels import local_matching as kernels

    nodes = np.arange(graphs.num_nodes, dtype=np.int32)
    alone = nodes[chosen & (pairs.mate == nodes)]
    anchor, signature = np.empty(len(alone), np.int32), np.empty(len(alone), np.uint64)
    scores = prepare_scores(graphs, score)

    def find(first: int, last: int) -> None:
        kernels.find_anchors(
            graphs.indptr, graphs.indices, scores.values, scores.degree, scores.kind, pairs.code, alone, first, last,
            anchor, signature,
        )  # fmt: skip

    run_over_items(find, len(alone))

    def pair(first: int, last: int) -> None:
        """Match the nodes whose anchors are in a range. Nodes of different anchors have no effect on each other."""
        order = np.flatnonzero((anchor >= first) & (anchor < last))
        order = order[np.lexsort((signature[order], anchor[order]))]
        kernels.pair_relatives(alone[order], anchor[order], signature[order], pairs.mate)

    run_over_items(pair, graphs.num_nodes)
    pairs.is_distant[alone] = pairs.mate[alone] != alone


def _remove_excess(pairs: _Pairs, label: IndexArray, excess: LongArray, too_many: BoolArray) -> None:
    """Separate the pairs of the lowest scores in components that have too many, those of distant nodes first."""
    from tgp.kernels import local_matching as kernels

    mate = pairs.mate
    nodes = np.flatnonzero((mate > np.arange(len(mate))) & too_many[label]).astype(np.int32)
    hashes, part = ~kernels.edge_hash(pairs.code, nodes, mate[nodes]), label[nodes]
    distant = pairs.is_distant[nodes]
    score = np.where(distant, 0.0, -pairs.top[nodes]) if len(pairs.top) else np.zeros(len(nodes))
    order = np.lexsort((nodes, hashes, score, distant, part))
    part, nodes = part[order], nodes[order]
    rank = np.arange(len(nodes)) - np.searchsorted(part, part)
    wrong = nodes[rank >= excess[part]]
    others = mate[wrong]
    mate[wrong], mate[others] = wrong, others
