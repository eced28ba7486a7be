"""Lowest eigenvectors of many small graph Laplacians, dense and canonical.

The solver (Householder tridiagonalization followed by implicit QL) does not call LAPACK, and its sums have a fixed
order. A graph therefore gets the same bits in any block, on any thread and with any BLAS.
:func:`canonical_rows` makes the eigenvectors unique.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import Float32MatrixArray, FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["canonical_rows", "cluster_modes", "eigh_rows", "embed_graphs"]

EPS = 2.220446049250313e-16

SAME = 1e-8
"""Eigenvalues whose difference, relative to the largest magnitude, is at most this value share an eigenspace."""

NOISE = 1e-12
"""Entries of unit vectors up to this magnitude are rounding errors and are written as 0."""

TIE = 1e-6
"""Squared entries with a smaller relative difference are equal, and the smaller index is used."""


@kernel
def _tridiagonalize(a: FloatArray, d: FloatArray, e: FloatArray, q: FloatArray) -> None:
    """Reduce symmetric ``a`` ``[n, n]`` to tridiagonal form ``q^T a q``.

    Writes the diagonal ``d``, the off-diagonal ``e`` and the orthogonal matrix ``q``; overwrites ``a``.
    """
    n = a.shape[0]
    beta = np.zeros(n)
    p = np.empty(n)
    for j in range(n - 2):
        d[j] = a[j, j]
        alpha = a[j, j + 1]
        tail = 0.0
        for i in range(j + 2, n):
            tail += a[j, i] * a[j, i]
        if tail == 0.0:
            e[j] = alpha
            continue
        length = math.sqrt(alpha * alpha + tail)
        e[j] = -length if alpha > 0.0 else length
        a[j, j + 1] = alpha - e[j]
        b = 2.0 / (a[j, j + 1] * a[j, j + 1] + tail)
        beta[j] = b
        for i in range(j + 1, n):
            p[i] = 0.0
        for i in range(j + 1, n):
            value = a[j, i]
            for c in range(j + 1, n):
                p[c] += value * a[i, c]
        dot = 0.0
        for i in range(j + 1, n):
            p[i] *= b
            dot += a[j, i] * p[i]
        dot *= 0.5 * b
        for i in range(j + 1, n):
            p[i] -= dot * a[j, i]
        for i in range(j + 1, n):
            value, step = a[j, i], p[i]
            for c in range(j + 1, n):
                a[i, c] -= value * p[c] + step * a[j, c]
    for j in range(max(n - 2, 0), n):
        d[j] = a[j, j]
    if n > 1:
        e[n - 2] = a[n - 2, n - 1]
    q[:] = 0.0
    for i in range(n):
        q[i, i] = 1.0
    for j in range(n - 3, -1, -1):
        if beta[j] == 0.0:
            continue
        for i in range(j + 1, n):
            p[i] = 0.0
        for i in range(j + 1, n):
            value = a[j, i]
            for c in range(j + 1, n):
                p[c] += value * q[i, c]
        for i in range(j + 1, n):
            value = beta[j] * a[j, i]
            for c in range(j + 1, n):
                q[i, c] -= value * p[c]


@kernel
def _diagonalize(d: FloatArray, e: FloatArray, z: FloatArray) -> None:
    """Write the eigenvalues of a tridiagonal matrix to ``d`` by implicit QL.

    ``d`` and ``e`` contain the matrix on entry; ``e`` is overwritten. The rotations are applied to the rows of ``z``.
    """
    n = d.shape[0]
    scale = 0.0
    for i in range(n):
        scale = max(scale, abs(d[i]) + (abs(e[i]) if i < n - 1 else 0.0))
    small = EPS * scale
    for low in range(n):
        for _ in range(60):
            m = low
            while m < n - 1 and abs(e[m]) > small:
                m += 1
            if m == low:
                break
            g = (d[low + 1] - d[low]) / (2.0 * e[low])
            r = math.hypot(g, 1.0)
            g = d[m] - d[low] + e[low] / (g + (r if g >= 0.0 else -r))
            s, c, p = 1.0, 1.0, 0.0
            i = m - 1
            while i >= low:
                f, b = s * e[i], c * e[i]
                r = math.sqrt(f * f + g * g)
                e[i + 1] = r
                if r == 0.0:
                    d[i + 1] -= p
                    e[m] = 0.0
                    break
                s, c = f / r, g / r
                g = d[i + 1] - p
                r = (d[i] - g) * s + 2.0 * c * b
                p = s * r
                d[i + 1] = g + p
                g = c * r - b
                for t in range(n):
                    upper, lower = z[i, t], z[i + 1, t]
                    z[i + 1, t] = s * upper + c * lower
                    z[i, t] = c * upper - s * lower
                i -= 1
            if i >= low:
                continue
            d[low] -= p
            e[low] = g
            e[m] = 0.0


@kernel
def eigh_rows(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ascending eigenvalues and eigenvectors (as rows) of symmetric ``a``, which is overwritten."""
    n = a.shape[0]
    d = np.empty(n)
    e = np.zeros(n)
    q = np.empty((n, n))
    _tridiagonalize(a, d, e, q)
    z = np.ascontiguousarray(q.T)
    _diagonalize(d, e, z)
    order = np.argsort(d, kind="mergesort")
    rows = np.empty((n, n))
    values = np.empty(n)
    for i in range(n):
        values[i] = d[order[i]]
        for t in range(n):
            rows[i, t] = z[order[i], t]
    return values, rows


@kernel
def canonical_rows(values: FloatArray, rows: FloatArray, take: int, tie: float) -> None:
    """Make the first ``take`` eigenvectors unique, in place.

    The first vector of an eigenspace becomes the projection of the unit vector of a node: the node with the longest
    projection, ties by index. The next vector is computed in the same way from the rest of the space. The vectors form
    an orthonormal basis that depends only on the space. In a one-dimensional space, the entry of largest magnitude
    becomes positive. Squared lengths with a relative difference of less than ``tie`` are equal.

    Args:
        values: ``[count]`` ascending eigenvalues.
        rows: ``[count, n]`` orthonormal eigenvectors, updated in place.
        take: Number of eigenvectors to make unique.
        tie: Relative tolerance.
    """
    count, n = rows.shape
    tol = SAME * max(abs(values[-1]), abs(values[0]))
    size = np.empty(n)
    first = 0
    while first < min(take, count):
        end = first + 1
        while end < count and values[end] - values[end - 1] <= tol:
            end += 1
        for row in range(first, min(end, take)):
            for i in range(n):
                size[i] = 0.0
            for r in range(row, end):
                for i in range(n):
                    size[i] += rows[r, i] * rows[r, i]
            top = 0.0
            for i in range(n):
                top = max(top, size[i])
            pivot = 0
            while size[pivot] < top * (1.0 - tie):
                pivot += 1
            if end - row == 1:
                if rows[row, pivot] < 0.0:
                    for i in range(n):
                        rows[row, i] = -rows[row, i]
                continue
            # Rotate the remaining basis so that its first vector is the projection of the pivot.
            for r in range(row + 1, end):
                x, y = rows[row, pivot], rows[r, pivot]
                length = math.sqrt(x * x + y * y)
                if length == 0.0:
                    continue
                c, s = x / length, y / length
                for i in range(n):
                    a, b = rows[row, i], rows[r, i]
                    rows[row, i] = c * a + s * b
                    rows[r, i] = c * b - s * a
        first = end


@kernel
def embed_graphs(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, graphs: PtrArray, take: int,
    out: MatrixArray,
) -> None:  # fmt: skip
    """Write spectral coordinates of the nodes of ``graphs`` to ``out[:, :take]``.

    The coordinates are the ``take`` lowest eigenvectors of the symmetric normalized Laplacian without self loops, each
    divided by the square root of the degree and scaled so that the first one of a connected graph is all ones. A node
    without neighbours counts as a component.

    Args:
        indptr, indices, weight: A symmetric block with non-negative weights.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        graphs: ``[G]`` ids; each graph has at least ``take`` nodes.
        take: Number of eigenvectors.
        out: ``[N, >= take]`` output.
    """
    for g in graphs:
        lo = node_ptr[g]
        n = node_ptr[g + 1] - lo
        a = np.zeros((n, n))
        factor = np.empty(n)
        total = 0.0
        for i in range(n):
            degree = 0.0
            for e in range(indptr[lo + i], indptr[lo + i + 1]):
                j = indices[e] - lo
                if j != i:
                    degree += weight[e]
                    a[i, j] = -weight[e]
            total += degree
            factor[i] = 1.0 / math.sqrt(degree) if degree > 0.0 else 1.0
            a[i, i] = 1.0 if degree > 0.0 else 0.0
        for i in range(n):
            for j in range(n):
                if i != j:
                    a[i, j] *= factor[i] * factor[j]
        values, rows = eigh_rows(a)
        canonical_rows(values, rows, take, TIE)
        scale = math.sqrt(total) if total > 0.0 else 1.0
        for i in range(n):
            for t in range(take):
                out[lo + i, t] = rows[t, i] * (factor[i] * scale)


@kernel
def cluster_modes(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, members: PtrArray, member_ptr: PtrArray,
    cluster: IndexArray, place: PtrArray, clusters: PtrArray, normalized: bool, theta: Float32MatrixArray,
) -> None:  # fmt: skip
    """Write the first eigenvectors of the Laplacian of each cluster to ``theta[:, h]``.

    Args:
        indptr, indices, weight: A symmetric block with non-negative weights.
        members: ``[N]`` nodes ordered by cluster, ascending in each cluster.
        member_ptr: ``[K + 1]``, offsets of the clusters in ``members``.
        cluster: ``[N]``, cluster of each node.
        place: ``[N]``, position of each node in its cluster.
        clusters: ``[C]`` ids of the clusters to process.
        normalized: Use ``I - D^-1/2 A D^-1/2`` instead of ``D - A``. Self loops count in ``A`` and ``D``.
        theta: ``[N, H]`` output. Modes beyond the size of a cluster are not changed.
    """
    num_modes = theta.shape[1]
    for k in clusters:
        lo = member_ptr[k]
        n = member_ptr[k + 1] - lo
        a = np.zeros((n, n))
        degree = np.zeros(n)
        for i in range(n):
            node = members[lo + i]
            for e in range(indptr[node], indptr[node + 1]):
                other = indices[e]
                if cluster[other] == k:
                    a[i, place[other]] = -weight[e]
                    degree[i] += weight[e]
        if normalized:
            for i in range(n):
                degree[i] = 1.0 / math.sqrt(degree[i]) if degree[i] > 0.0 else 0.0
            for i in range(n):
                for j in range(n):
                    a[i, j] *= degree[i] * degree[j]
                a[i, i] += 1.0
        else:
            for i in range(n):
                a[i, i] += degree[i]
        take = min(n, num_modes)
        values, rows = eigh_rows(a)
        canonical_rows(values, rows, take, TIE)
        for i in range(n):
            for h in range(take):
                theta[members[lo + i], h] = rows[h, i] if abs(rows[h, i]) > NOISE else 0.0
