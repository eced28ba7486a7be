"""Kron reduction of a dense graph: a blocked Schur complement of a full matrix.

The order of the operations on each entry is fixed, so the result has the same bits on any processor and for any number
of threads, unlike that of a BLAS library.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray

__all__ = ["eliminate_dense"]

_PANEL = 64
"""Number of rows that are eliminated before the rest of the matrix is updated."""
_GROUP = 8
"""Number of rows that are subtracted in one pass over a row."""
_ROWS = 32
"""Number of rows that are updated at a time."""
_TILE = 512
"""Number of columns that are updated at a time. The rows of a panel have to fit into the second level cache."""
_U = np.uint64
_ONE = np.uint64(1)


@kernel(inner=True)
def _update_rows(
    a: FloatArray, factor: FloatArray, panel: FloatArray, t: int, first: int, last: int, lo: int, hi: int
) -> None:
    """Add the products with the rows ``t`` to ``t + 7`` of a panel to a tile of the upper triangle of ``a``."""
    # Unsigned positions have no negative values to consider, so that the loop over columns becomes vector instructions.
    p0, p4 = _U(t), _U(t + 4)
    p1, p2, p3, p5, p6, p7 = p0 + _ONE, _U(t + 2), _U(t + 3), p4 + _ONE, _U(t + 6), _U(t + 7)
    for i in range(_U(first), _U(last)):
        f0, f1, f2, f3 = factor[p0, i], factor[p1, i], factor[p2, i], factor[p3, i]
        f4, f5, f6, f7 = factor[p4, i], factor[p5, i], factor[p6, i], factor[p7, i]
        for j in range(max(_U(lo), i + _ONE), _U(hi)):
            a[i, j] += (
                ((f0 * panel[p0, j] + f1 * panel[p1, j]) + (f2 * panel[p2, j] + f3 * panel[p3, j]))
                + ((f4 * panel[p4, j] + f5 * panel[p5, j]) + (f6 * panel[p6, j] + f7 * panel[p7, j]))
            )  # fmt: skip


@kernel
def eliminate_dense(
    a: FloatArray, count: int, signed: bool, diagonal: FloatArray, factor: FloatArray, panel: FloatArray
) -> None:
    """Eliminate the first ``count`` nodes of a graph.

    Args:
        a: ``[n, n]`` weights, of which the part above the diagonal is used. The part of the remaining nodes is updated in place.
        count: Number of eliminated nodes, a multiple of 8. A node without edges is ignored.
        signed: True if a weight is negative.
        diagonal: ``[n]``, sums of ``|w|``. Used and updated if ``signed`` is true.
        factor, panel: ``[64, n]`` scratch.
    """
    n = a.shape[0]
    for base in range(0, count, _PANEL):
        width = min(_PANEL, count - base)
        for t in range(width):
            k = base + t
            group = t - t % _GROUP
            if t == group and t > 0:
                # The previous group is complete: update the other rows of the panel.
                for lo in range(base, n, _TILE):
                    _update_rows(a, factor, panel, t - _GROUP, k, base + width, lo, min(lo + _TILE, n))
            for p in range(group, t):
                f = factor[p, k]
                for j in range(k + 1, n):
                    a[k, j] += f * panel[p, j]
            total, least = 0.0, 0.0
            for j in range(k + 1, n):
                total += a[k, j]
                least += abs(a[k, j])
            if signed:
                total = max(diagonal[k], least)
            inv = 1.0 / total if total > 0.0 else 0.0
            for j in range(k + 1, n):
                panel[t, j] = a[k, j]
                factor[t, j] = a[k, j] * inv
                if signed:
                    diagonal[j] -= a[k, j] * factor[t, j]
        first = base + width
        for lo in range(first, n, _TILE):
            hi = min(lo + _TILE, n)
            for i in range(first, hi, _ROWS):
                for t in range(0, width, _GROUP):
                    _update_rows(a, factor, panel, t, i, min(i + _ROWS, hi), lo, hi)
