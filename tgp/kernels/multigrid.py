"""Parts of a multigrid eigensolver for large graph Laplacians: aggregation, smoothing, block algebra.

Blocks of vectors are row-major ``[n, m]``, so that one memory access reads all vectors at a neighbour. Sums have a
fixed order and do not use BLAS. Results do not depend on threads or on the linear algebra library: a kernel writes a range of rows,
or a range of vectors if the rows depend on each other. :mod:`tgp.engine.block_algebra` runs the ranges on several threads.

``indptr``, ``indices`` and ``weight`` are the symmetric rows ``A`` of a graph with ``n`` nodes, ``degree`` ``[n]`` is the
diagonal of ``D``, and ``aggregate`` ``[n]`` is the coarse node of each node.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import hash_normal, kernel
from tgp.kernels.array_types import FloatArray, IndexArray, PtrArray

__all__ = [
    "aggregate_pairs",
    "apply_laplacian",
    "combine",
    "gram",
    "random_block",
    "smooth_down",
    "smooth_up",
]


@kernel
def aggregate_pairs(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, degree: FloatArray
) -> tuple[IndexArray, int]:
    """Aggregate nodes in pairs; return the aggregate of each node ``[n]`` and the number of aggregates.

    Each node joins the free neighbour with the largest share ``w / degree``, ties by index. A node without a free
    neighbour pairs with another such node that has the same strongest neighbour, or joins that neighbour. Aggregates
    are numbered by smallest member.
    """
    n = indptr.shape[0] - 1
    root = np.full(n, -1, np.int64)
    lean = np.full(n, -1, np.int64)
    for i in range(n):
        if root[i] >= 0:
            continue
        best, mate, top, anchor = 0.0, -1, 0.0, -1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            share = weight[e] / degree[j]
            if j != i and share > top:
                top, anchor = share, j
            if j != i and root[j] < 0 and share > best:
                best, mate = share, j
        if mate >= 0:
            root[i] = i
            root[mate] = i
        lean[i] = anchor
    waiting = np.full(n, -1, np.int64)
    for i in range(n):
        if root[i] < 0 and lean[i] >= 0:
            other = waiting[lean[i]]
            if other < 0:
                waiting[lean[i]] = i
            else:
                root[other] = other
                root[i] = other
                waiting[lean[i]] = -1
    for i in range(n):
        if root[i] < 0:
            root[i] = root[lean[i]] if lean[i] >= 0 else i
    out = np.full(n, -1, np.int32)
    name = np.full(n, -1, np.int32)
    count = 0
    for i in range(n):
        if name[root[i]] < 0:
            name[root[i]] = count
            count += 1
        out[i] = name[root[i]]
    return out, count


@kernel
def apply_laplacian(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, degree: FloatArray, x: FloatArray, first: int,
    last: int, out: FloatArray,
) -> None:  # fmt: skip
    """Write the rows ``first..last`` of ``(D - A) x`` to ``out``; ``x`` and ``out`` are ``[n, m]``."""
    m = x.shape[1]
    for i in range(first, last):
        for t in range(m):
            out[i, t] = degree[i] * x[i, t]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            value = weight[e]
            for t in range(m):
                out[i, t] -= value * x[j, t]


@kernel
def smooth_down(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, degree: FloatArray, b: FloatArray,
    aggregate: IndexArray, first: int, last: int, x: FloatArray, coarse: FloatArray,
) -> None:  # fmt: skip
    """Run one forward Gauss-Seidel sweep on ``(D - A) x = b`` from zero, for the vectors ``first..last``.

    Writes ``x`` ``[n, m]`` and adds the residual, summed over aggregates, to ``coarse`` ``[num_coarse, m]``.
    """
    n = b.shape[0]
    for i in range(n):
        for t in range(first, last):
            x[i, t] = b[i, t]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j < i:
                value = weight[e]
                for t in range(first, last):
                    x[i, t] += value * x[j, t]
        inverse = 1.0 / degree[i] if degree[i] > 0.0 else 0.0  # a component in one aggregate
        for t in range(first, last):
            x[i, t] *= inverse
    # After a forward sweep, only neighbours with larger indices contribute to the residual.
    for i in range(n):
        c = aggregate[i]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j > i:
                value = weight[e]
                for t in range(first, last):
                    coarse[c, t] += value * x[j, t]


@kernel
def smooth_up(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, degree: FloatArray, b: FloatArray,
    aggregate: IndexArray, coarse: FloatArray, gain: float, first: int, last: int, x: FloatArray,
) -> None:  # fmt: skip
    """Add ``gain`` times the coarse correction to ``x`` and run one backward Gauss-Seidel sweep, for the vectors ``first..last``."""
    n, m = b.shape
    for i in range(n):
        c = aggregate[i]
        for t in range(first, last):
            x[i, t] += gain * coarse[c, t]
    row = np.empty(m)
    for i in range(n - 1, -1, -1):
        for t in range(first, last):
            row[t] = b[i, t]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            value = weight[e]
            for t in range(first, last):
                row[t] += value * x[j, t]
        inverse = 1.0 / degree[i] if degree[i] > 0.0 else 0.0  # a component in one aggregate
        for t in range(first, last):
            x[i, t] = row[t] * inverse


@kernel
def gram(x: FloatArray, y: FloatArray, mass: FloatArray, first: int, last: int, out: FloatArray) -> None:
    """Write ``x^T diag(mass) y`` to ``out`` for the vectors ``first..last`` of ``x``. Nodes are added in order, four at a time."""
    n, q = x.shape[0], y.shape[1]
    out[first:last] = 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        for a in range(first, last):
            v0, v1 = x[i, a] * mass[i], x[i + 1, a] * mass[i + 1]
            v2, v3 = x[i + 2, a] * mass[i + 2], x[i + 3, a] * mass[i + 3]
            for b in range(q):
                out[a, b] = (((out[a, b] + v0 * y[i, b]) + v1 * y[i + 1, b]) + v2 * y[i + 2, b]) + v3 * y[
                    i + 3, b
                ]
    for i in range(whole, n):
        for a in range(first, last):
            value = x[i, a] * mass[i]
            for b in range(q):
                out[a, b] += value * y[i, b]


@kernel
def combine(x: FloatArray, c: FloatArray, first: int, last: int, out: FloatArray) -> None:
    """Write the rows ``first..last`` of ``x c`` to ``out``, for a tall ``x`` and a small ``c``.

    Two rows and four columns of ``x`` are multiplied at a time. The sums of a row do not depend on the other one.
    """
    p, q = c.shape
    out[first:last] = 0.0
    for start in range(first, last, 2):
        i = start
        j = min(start + 1, last - 1)  # the last row of an odd number of rows is computed alone
        for a in range(0, p - 3, 4):
            x0, x1, x2, x3 = x[i, a], x[i, a + 1], x[i, a + 2], x[i, a + 3]
            y0, y1, y2, y3 = x[j, a], x[j, a + 1], x[j, a + 2], x[j, a + 3]
            if i == j:
                for b in range(q):
                    out[i, b] += (x0 * c[a, b] + x1 * c[a + 1, b]) + (x2 * c[a + 2, b] + x3 * c[a + 3, b])
                continue
            for b in range(q):
                c0, c1, c2, c3 = c[a, b], c[a + 1, b], c[a + 2, b], c[a + 3, b]
                out[i, b] += (x0 * c0 + x1 * c1) + (x2 * c2 + x3 * c3)
                out[j, b] += (y0 * c0 + y1 * c1) + (y2 * c2 + y3 * c3)
        for row in range(i, j + 1):
            for a in range(p - p % 4, p):
                x0 = x[row, a]
                for b in range(q):
                    out[row, b] += x0 * c[a, b]


@kernel
def random_block(n: int, m: int, stream: int) -> FloatArray:
    """Return ``[n, m]`` standard normal numbers that depend only on the stream, the row and the column."""
    out = np.empty((n, m))
    for i in range(n):
        for t in range(m):
            out[i, t] = hash_normal(stream, 0, i, t)
    return out
