"""Scores by which edges are matched: an array, or a rule that computes them from weights and degrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.kernels.array_types import WordArray
from tgp.ragged import BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray

__all__ = ["EdgeScores", "Share", "prepare_scores"]


@dataclass(frozen=True)
class Share:
    """Scores ``w_ij / max(d_i, d_j)`` that are computed from degrees when they are needed; 0 if that is not positive.

    Args:
        degree: ``[N]`` degree of each node.
    """

    degree: FloatArray


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

    def select(self, rows: IndexArray, cols: IndexArray, entries: npt.NDArray[np.int64]) -> FloatArray | None:
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
