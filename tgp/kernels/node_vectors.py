"""Features and random vectors of nodes: smoothing and projection, and differences of neighbours.

``indptr`` and ``indices`` are symmetric rows without parallel edges, ``weight`` ``[nnz]`` their weights (empty if ``weighted`` is
false). Self loops have no effect. Each kernel writes only the rows ``first .. last - 1`` of its result. The order of sums is fixed.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import hash_uniform, kernel
from tgp.kernels.array_types import Float32MatrixArray, FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = [
    "edge_cosines",
    "edge_distances",
    "list_costs",
    "mix_neighbours",
    "project_rows",
    "random_direction",
    "random_vectors",
    "relax",
    "row_norms",
    "smooth_rows",
]

_FIRST_DRAW = 1 << 32
"""Number of the first random draw of the vectors. The draws of the matching are smaller."""

_U = np.uint64


@kernel
def smooth_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, scale: FloatArray, values: MatrixArray,
    first: int, last: int, out: MatrixArray,
) -> None:  # fmt: skip
    """Write ``D^-1/2 (A + I) D^-1/2 values`` of some rows. ``scale`` ``[N]`` is ``1 / sqrt(1 + degree)``."""
    width = values.shape[1]
    for i in range(first, last):
        own = scale[i] * scale[i]
        for c in range(width):
            out[i, c] = own * values[i, c]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j == i:
                continue
            factor = scale[i] * scale[j]
            if weighted:
                factor *= weight[e]
            for c in range(width):
                out[i, c] += factor * values[j, c]


@kernel
def row_norms(rows: Float32MatrixArray, first: int, last: int, out: FloatArray) -> None:
    """Write the Euclidean length of some rows."""
    for i in range(first, last):
        total = 0.0
        for c in range(rows.shape[1]):
            value = float(rows[i, c])
            total += value * value
        out[i] = math.sqrt(total)


@kernel
def _write_cosine(product: float, length: float, entry: int, stop: int, out: FloatArray) -> None:
    if entry < stop:
        out[entry] = product / length if length > 0.0 else 0.0


@kernel
def edge_cosines(
    indptr: PtrArray, indices: IndexArray, rows: Float32MatrixArray, norm: FloatArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Write the cosine of the rows at both ends of each edge; 0 if one of them is zero. It is the same in both directions.

    Four edges of a row are computed at a time. Their sums do not wait for each other, and every sum has the same order as
    alone.
    """
    width = rows.shape[1]
    for i in range(first, last):
        stop = indptr[i + 1]
        for e in range(indptr[i], stop, 4):
            a = indices[e]
            b, c, d = (
                indices[min(e + 1, stop - 1)],
                indices[min(e + 2, stop - 1)],
                indices[min(e + 3, stop - 1)],
            )
            to_a, to_b, to_c, to_d = 0.0, 0.0, 0.0, 0.0
            for column in range(width):
                own = float(rows[i, column])
                to_a += own * float(rows[a, column])
                to_b += own * float(rows[b, column])
                to_c += own * float(rows[c, column])
                to_d += own * float(rows[d, column])
            _write_cosine(to_a, norm[i] * norm[a], e, stop, out)
            _write_cosine(to_b, norm[i] * norm[b], e + 1, stop, out)
            _write_cosine(to_c, norm[i] * norm[c], e + 2, stop, out)
            _write_cosine(to_d, norm[i] * norm[d], e + 3, stop, out)


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

    The mean is weighted by the edges. Edges of weight 0 have no effect.
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


@kernel
def random_vectors(
    node_ptr: PtrArray, seed: int, level: int, first: int, last: int, vectors: MatrixArray
) -> None:
    """Write random numbers in [-0.5, 0.5) to the vectors of graphs ``first .. last - 1``."""
    for g in range(first, last):
        for i in range(node_ptr[g], node_ptr[g + 1]):
            for k in range(vectors.shape[1]):
                vectors[i, k] = hash_uniform(seed, level, i - node_ptr[g], _FIRST_DRAW + k) - 0.5


@kernel
def relax(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, vectors: MatrixArray, first: int, last: int,
    out: MatrixArray,
) -> None:  # fmt: skip
    """Write half of the value of each node and half of the mean of its neighbours.

    This is one step of the Jacobi iteration for ``L x = 0`` with damping 1/2. A node without weight keeps its values.
    """
    size = _U(vectors.shape[1])
    for i in range(first, last):
        row, degree = _U(i), 0.0
        for k in range(size):
            out[row, k] = 0.0
        for e in range(_U(indptr[row]), _U(indptr[row + _U(1)])):
            other = _U(indices[e])
            if other != row:
                w = weight[e] if weighted else 1.0
                degree += w
                for k in range(size):
                    out[row, k] += w * vectors[other, k]
        factor = 0.5 / degree if degree > 0.0 else 0.0
        share = 0.5 if degree > 0.0 else 1.0
        for k in range(size):
            out[row, k] = share * vectors[row, k] + factor * out[row, k]


@kernel
def edge_distances(
    indptr: PtrArray, indices: IndexArray, vectors: MatrixArray, first: int, last: int, out: FloatArray
) -> None:
    """Write the squared distance of the rows of ``vectors`` for each edge."""
    size = _U(vectors.shape[1])
    for i in range(first, last):
        row = _U(i)
        for e in range(_U(indptr[row]), _U(indptr[row + _U(1)])):
            other, total = _U(indices[e]), 0.0
            for k in range(size):
                step = vectors[row, k] - vectors[other, k]
                total += step * step
            out[e] = total
