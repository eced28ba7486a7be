"""Scores of edges that prefer nodes with few members, for supernodes of similar size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tgp.engine.edge_scores import prepare_scores
from tgp.engine.pair_matching import Score
from tgp.engine.threads import run_over_ranges
from tgp.ragged import BlockCSR
from tgp.ragged.block import FloatArray, IndexArray

__all__ = ["BalancedScore", "sortable_bits"]

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
        self.members: npt.NDArray[np.int64] = np.zeros(0, np.int64)

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
