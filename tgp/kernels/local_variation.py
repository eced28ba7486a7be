"""Costs of edges in local variation coarsening, and the basis of modes from which they follow.

``indptr``, ``indices`` and ``weight`` are symmetric rows with positive weights, without self loops. ``degree`` ``[N]`` is the sum
of each row. ``basis`` ``[N, K]`` has one row for each node. ``members`` ``[N]`` are the nodes of each component, and ``member_ptr``
``[C + 1]`` the offsets of the components in it. The result of a component does not depend on the other components.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["edge_costs", "orthonormalize"]

RANK = 1e-10
"""Squared length, relative to the column, below which a column depends linearly on the others."""

NOISE = 1e-9
"""Cost below which differences are rounding errors of the eigenvectors."""

COARSE = 8589934593.0
"""``2**33 + 1``: the factor that rounds a float64 number to 20 significant bits."""


@kernel(inline="always")
def _round_cost(cost: float) -> float:
    """Round a cost to 20 bits. Equal costs of a symmetric graph are equal again after rounding errors."""
    scaled = (cost + NOISE) * COARSE
    return scaled - (scaled - (cost + NOISE))


@kernel
def orthonormalize(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, members: PtrArray, member_ptr: PtrArray, first: int,
    last: int, smallest: float, basis: MatrixArray,
) -> None:  # fmt: skip
    """Replace the basis of components ``first .. last - 1`` by one with ``B^T L B = I``, in place.

    This is a Gram-Schmidt process with pivoting in the inner product of the Laplacian ``L``. Columns that depend on the others, and
    columns whose variation ``b^T L b`` is at most ``smallest``, are left out. The remaining columns are zero.
    """
    k = basis.shape[1]
    gram, low = np.empty((k, k)), np.empty((k, k))
    rest, scale, row = np.empty(k), np.empty(k), np.empty(k)
    pivot = np.empty(k, np.int64)
    for c in range(first, last):
        for a in range(k):
            for b in range(k):
                gram[a, b] = 0.0
        for m in range(member_ptr[c], member_ptr[c + 1]):
            i = members[m]
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if j < i:
                    continue
                for a in range(k):
                    row[a] = basis[i, a] - basis[j, a]
                for a in range(k):
                    value = weight[e] * row[a]
                    for b in range(a + 1):
                        gram[a, b] += value * row[b]
        for a in range(k):
            keep = gram[a, a] > smallest
            scale[a] = 1.0 / math.sqrt(gram[a, a]) if keep else 0.0
            rest[a] = 1.0 if keep else 0.0
        rank = 0
        while rank < k:
            p = 0
            for a in range(1, k):
                if rest[a] > rest[p]:
                    p = a
            if rest[p] <= RANK:
                break
            pivot[rank] = p
            low[p, rank] = math.sqrt(rest[p])
            rest[p] = -1.0
            for a in range(k):
                if rest[a] > 0.0:
                    value = (gram[a, p] if a > p else gram[p, a]) * scale[a] * scale[p]
                    for b in range(rank):
                        value -= low[a, b] * low[p, b]
                    low[a, rank] = value / low[p, rank]
                    rest[a] -= low[a, rank] * low[a, rank]
            rank += 1
        for m in range(member_ptr[c], member_ptr[c + 1]):
            i = members[m]
            for a in range(rank):
                p = pivot[a]
                value = basis[i, p] * scale[p]
                for b in range(a):
                    value -= low[p, b] * row[b]
                row[a] = value / low[p, a]
            for a in range(k):
                basis[i, a] = row[a] if a < rank else 0.0


@kernel
def edge_costs(
    indptr: PtrArray, indices: IndexArray, degree: FloatArray, basis: MatrixArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Write the cost of contracting each edge of rows ``first .. last - 1``.

    The cost of ``(i, j)`` is ``(degree_i + degree_j) / 2 * |basis_i - basis_j|^2``, rounded to 20 bits.
    """
    k = basis.shape[1]
    for i in range(first, last):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            total = 0.0
            for a in range(k):
                step = basis[i, a] - basis[j, a]
                total += step * step
            out[e] = _round_cost(0.5 * (degree[i] + degree[j]) * total)
