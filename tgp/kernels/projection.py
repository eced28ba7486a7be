"""Projection of node features on one random direction, and the cost of merging neighbours in a sorted list.

Each kernel writes only the rows ``first .. last - 1`` of its result. The order of sums is fixed.
"""

from __future__ import annotations

from tgp.kernels._prims import hash_uniform, kernel
from tgp.kernels.array_types import FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["list_costs", "mix_neighbours", "project_rows", "random_direction"]


@kernel
def random_direction(seed: int, level: int, out: FloatArray) -> None:
    """Write random numbers in [-1, 1), one per feature."""
    for c in range(len(out)):
        out[c] = 2.0 * hash_uniform(seed, level, c, 0) - 1.0


@kernel
def project_rows(
    values: MatrixArray, scale: FloatArray, direction: FloatArray, first: int, last: int, out: FloatArray
) -> None:
    """Write the product of some rows and a direction. Each row is multiplied by its scale."""
    for i in range(first, last):
        total = 0.0
        for c in range(values.shape[1]):
            total += values[i, c] * scale[i] * direction[c]
        out[i] = total


@kernel
def mix_neighbours(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, values: FloatArray, share: float,
    first: int, last: int, out: FloatArray,
) -> None:  # fmt: skip
    """Write ``(1 - share) * value + share * mean of the neighbours``. A node without neighbours keeps its value.

    The mean is weighted by the edges. Self loops and edges of weight 0 have no effect.
    """
    for i in range(first, last):
        total, sum_of_weights = 0.0, 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j == i:
                continue
            w = weight[e] if weighted else 1.0
            total += w * values[j]
            sum_of_weights += w
        mean = total / sum_of_weights if sum_of_weights > 0.0 else values[i]
        out[i] = (1.0 - share) * values[i] + share * mean


@kernel
def list_costs(
    indptr: PtrArray, indices: IndexArray, mean: FloatArray, members: FloatArray, first: int, last: int, out: FloatArray
) -> None:  # fmt: skip
    """Write, for each stored edge, minus the sum of squares that merging its two nodes adds. It is the same in both directions."""
    for i in range(first, last):
        for e in range(indptr[i], indptr[i + 1]):
            low, high = min(i, indices[e]), max(i, indices[e])
            gap = mean[high] - mean[low]
            out[e] = -(members[low] * members[high] / (members[low] + members[high]) * gap * gap)
