"""Scores by which edges are matched: an array, a rule that computes them from weights and degrees, or an order by the number of members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.engine.threads import run_over_ranges
from tgp.kernels.array_types import LongArray, WordArray
from tgp.ragged import BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = [
    "BalancedScore",
    "EdgeScores",
    "Score",
    "Share",
    "prepare_scores",
    "sort_by_score",
    "sortable_bits",
]


@dataclass(frozen=True)
class Share:
    """Scores ``w_ij / max(d_i, d_j)`` that are computed from degrees when they are needed; 0 if that is not positive.

    Args:
        degree: ``[N]`` degree of each node.
    """

    degree: FloatArray


Score = Callable[[BlockCSR, IndexArray | None], FloatArray | Share | None]
"""Function ``(graphs, cluster) -> score`` that scores the edges before each round of matching.

``graphs`` are undirected, see :func:`~tgp.engine.undirected.make_undirected`. ``cluster`` is the node of ``graphs`` to which each node of the graphs of the
round before belongs, and ``None`` in the first round. A method with node values carries them along by it. The result has one
number per stored entry, the same for both directions of an edge, or is ``None`` if all edges are equal. Scores that are the weights
divided by degrees need no array: see :class:`Share`. The largest score is matched first. Numbers must not be NaN.
"""


@dataclass(frozen=True)
class EdgeScores:
    """Scores of edges as arguments of kernels, see :func:`tgp.kernels.local_matching.point`.

    Args:
        values: ``[nnz]`` scores or weights, or empty.
        degree: ``[N]`` degrees, or empty.
        kind: kind of the scores, see :data:`tgp.kernels.local_matching.EQUAL`.
    """

    values: FloatArray
    degree: FloatArray
    kind: int

    def point(
        self,
        indptr: PtrArray,
        indices: IndexArray,
        code: WordArray,
        active: IndexArray,
        first: int,
        last: int,
        pointer: IndexArray,
        top: FloatArray,
    ) -> None:
        """Write the best free neighbour of the nodes ``active[first:last]``.

        Args:
            indptr, indices, code, active, first, last, pointer, top: see :func:`tgp.kernels.local_matching.point`.
        """
        from tgp.kernels import local_matching as kernels

        rest = code, active, first, last, pointer, top
        if self.kind in (kernels.EQUAL, kernels.GIVEN):
            kernels.point(indptr, indices, self.values, self.kind == kernels.GIVEN, *rest)
        else:
            weighted = self.kind == kernels.SHARE
            kernels.point_by_share(indptr, indices, self.values, weighted, self.degree, *rest)

    def select(self, rows: IndexArray, cols: IndexArray, entries: LongArray) -> FloatArray | None:
        """Return the scores of some entries, or ``None`` if all edges are equal.

        Args:
            rows, cols: ``[P]`` nodes of the entries.
            entries: ``[P]`` positions of the entries.
        """
        from tgp.kernels import local_matching as kernels

        if self.kind == kernels.EQUAL:
            return None
        if self.kind == kernels.GIVEN:
            return self.values[entries]
        most = np.maximum(self.degree[rows], self.degree[cols])
        amount = self.values[entries] if self.kind == kernels.SHARE else 1.0
        return np.maximum(np.divide(amount, most, out=np.zeros(len(most)), where=most > 0.0), 0.0)


def prepare_scores(graphs: BlockCSR, score: FloatArray | Share | None) -> EdgeScores:
    """Return the arguments of kernels for the result of a score function.

    Args:
        graphs: undirected graphs.
        score: scores of the entries, degrees, or ``None`` if all edges are equal.
    """
    from tgp.kernels import local_matching as kernels

    none = np.empty(0)
    if score is None:
        return EdgeScores(none, none, kernels.EQUAL)
    if not isinstance(score, Share):
        return EdgeScores(score, none, kernels.GIVEN)
    if graphs.weight is None:
        return EdgeScores(none, score.degree, kernels.UNIT_SHARE)
    return EdgeScores(graphs.weight, score.degree, kernels.SHARE)


MAX_MEMBERS = (1 << 20) - 1
"""Number of members of two nodes that counts at most, so that a score is a whole number below 2^53."""


class BalancedScore:
    """Order of edges: first by the number of members of both nodes, fewest first, then by another score.

    The members are nodes of the graphs of the first round. The other score counts in single precision. An edge whose other
    score is -inf keeps it.

    Args:
        score: the other score, see :data:`~tgp.engine.pair_matching.Score`.
    """

    def __init__(self, score: Score) -> None:
        self.score = score
        self.members: LongArray = np.zeros(0, np.int64)

    def __call__(self, graphs: BlockCSR, cluster: IndexArray | None) -> FloatArray:
        """Return the scores of the edges.

        Args:
            graphs: undirected graphs.
            cluster: node of ``graphs`` to which each node of the round before belongs; ``None`` in the first round.
        """
        if cluster is None:
            self.members = np.ones(graphs.num_nodes, np.int64)
        else:
            count = np.zeros(graphs.num_nodes, np.int64)
            np.add.at(count, cluster, self.members)
            self.members = count
        scores = prepare_scores(graphs, self.score(graphs, cluster))
        out = np.empty(graphs.num_edges)

        def write(first: int, last: int) -> None:
            entries = slice(graphs.indptr[first], graphs.indptr[last])
            rows = np.repeat(np.arange(first, last, dtype=np.int32), np.diff(graphs.indptr[first : last + 1]))
            cols = graphs.indices[entries]
            both = np.minimum(self.members[rows] + self.members[cols], MAX_MEMBERS)
            out[entries] = -(both << 32)
            values = scores.select(rows, cols, np.arange(entries.start, entries.stop))
            if values is not None:
                out[entries] += sortable_bits(values)
                out[entries][values == -np.inf] = -np.inf

        run_over_ranges(write, graphs.indptr)
        return out


def sortable_bits(values: FloatArray) -> npt.NDArray[np.uint32]:
    """Return whole numbers below 2^32 in the order of the values in single precision. Both zeros are equal.

    Args:
        values: numbers without NaN.

    Examples:
        >>> sortable_bits(np.array([-1.0, -0.0, 0.0, 1.0])).tolist()
        [1082130431, 2147483648, 2147483648, 3212836864]
    """
    with np.errstate(over="ignore", under="ignore"):
        single = values.astype(np.float32) + np.float32(0.0)  # -0.0 becomes 0.0
    bits = single.view(np.uint32)
    sortable: npt.NDArray[np.uint32] = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))
    return sortable


def sort_by_score(
    code: WordArray, rows: IndexArray, cols: IndexArray, score: FloatArray | None
) -> npt.NDArray[np.intp]:
    """Return the order in which the greedy matching takes edges: by score, then by hash, then by nodes.

    Args:
        code: ``[N]`` random numbers of the nodes.
        rows: ``[E]`` one node of each edge.
        cols: ``[E]`` the other one.
        score: ``[E]`` scores; ``None`` if all edges are equal.
    """
    from tgp.kernels import local_matching as kernels

    keys = (cols, rows, ~kernels.edge_hash(code, rows, cols))
    return np.lexsort(keys if score is None else (*keys, -score))
