"""Smoothed features of nodes and their similarity along edges.

``indptr`` and ``indices`` are symmetric rows without parallel edges, ``weight`` ``[nnz]`` their weights (empty if ``weighted`` is
false). ``scale`` ``[N]`` is ``1 / sqrt(1 + degree)``. Each kernel writes only the rows ``first .. last - 1`` of its result.
"""

from __future__ import annotations

import math

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import Float32MatrixArray, FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["edge_cosines", "row_norms", "smooth_rows"]


@kernel
def smooth_rows(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, weighted: bool, scale: FloatArray, values: MatrixArray,
    first: int, last: int, out: MatrixArray,
) -> None:  # fmt: skip
    """Write ``D^-1/2 (A + I) D^-1/2 values`` of some rows. Self loops of the graph have no effect."""
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
def edge_cosines(
    indptr: PtrArray, indices: IndexArray, rows: Float32MatrixArray, norm: FloatArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Write the cosine of the rows at both ends of each edge; 0 if one of them is zero. It is the same in both directions."""
    for i in range(first, last):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            length = norm[i] * norm[j]
            total = 0.0
            if length > 0.0:
                for c in range(rows.shape[1]):
                    total += float(rows[i, c]) * float(rows[j, c])
                total /= length
            out[e] = total
