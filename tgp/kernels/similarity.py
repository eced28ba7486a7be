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
