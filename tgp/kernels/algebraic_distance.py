"""Algebraic distances: test vectors that are relaxed on a graph, and the differences of their values along edges.

``indptr``, ``indices`` and ``weight`` are symmetric rows with weights of at least 0. Self loops have no effect. ``vectors``
``[N, K]`` has one row for each node. The values of a component do not depend on the other components.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import hash_uniform, kernel
from tgp.kernels.array_types import FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["edge_distances", "random_vectors", "relax"]

FIRST_DRAW = 1 << 32
"""Number of the first random draw of the vectors. The draws of the matching are smaller."""

_U = np.uint64


@kernel
def random_vectors(
    node_ptr: PtrArray, seed: int, level: int, first: int, last: int, vectors: MatrixArray
) -> None:
    """Write random numbers in [-0.5, 0.5) to the vectors of graphs ``first .. last - 1``."""
    for g in range(first, last):
        for i in range(node_ptr[g], node_ptr[g + 1]):
            for k in range(vectors.shape[1]):
                vectors[i, k] = hash_uniform(seed, level, i - node_ptr[g], FIRST_DRAW + k) - 0.5


@kernel
def relax(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, vectors: MatrixArray, first: int, last: int,
    out: MatrixArray,
) -> None:  # fmt: skip
    """Write half of the value of each node and half of the mean of its neighbours, for rows ``first .. last - 1``.

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
    """Write the squared distance of the rows of ``vectors`` for each edge of rows ``first .. last - 1``."""
    size = _U(vectors.shape[1])
    for i in range(first, last):
        row = _U(i)
        for e in range(_U(indptr[row]), _U(indptr[row + _U(1)])):
            other, total = _U(indices[e]), 0.0
            for k in range(size):
                step = vectors[row, k] - vectors[other, k]
                total += step * step
            out[e] = total
