"""Lowest eigenvectors of many small graph Laplacians, dense and canonical.

The solver (Householder tridiagonalization followed by implicit QL) does not call LAPACK, and its sums have a fixed
order. A graph therefore gets the same bits in any block, on any thread and with any BLAS.
:func:`canonical_rows` makes the eigenvectors unique.
"""

from __future__ import annotations

import math

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import FloatArray, IndexArray, MatrixArray, PtrArray

__all__ = ["canonical_rows", "cluster_modes", "eigh_rows", "embed_graphs"]

EPS = 2.220446049250313e-16

SAME = 1e-8
"""Eigenvalues whose difference, relative to the largest magnitude, is at most this value share an eigenspace."""

NOISE = 1e-12
"""Entries of unit vectors up to this magnitude are rounding errors and are written as 0."""

TIE = 1e-6
"""Squared entries with a smaller relative difference are equal, and the smaller index is used."""

GRAPHS = 0
NORMALIZED_CLUSTERS = 1
PLAIN_CLUSTERS = 2
MATRIX = 3
"""Kinds of matrices in :func:`_solve_parts`. A ``MATRIX`` is given; the others are Laplacians."""


@kernel(inner=True)
def _tridiagonalize(
    a: MatrixArray, n: int, d: FloatArray, e: FloatArray, q: MatrixArray, beta: FloatArray, p: FloatArray
) -> None:
    """Reduce symmetric ``a[:n, :n]`` to tridiagonal form ``q^T a q``.

    Writes the diagonal ``d``, the off-diagonal ``e`` and the orthogonal matrix ``q``; overwrites ``a``. ``beta`` and ``p``
    are scratch.
    """
    for j in range(n - 2):
        beta[j] = 0.0
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
    d[n - 1] = a[n - 1, n - 1]
    if n > 1:
        d[n - 2] = a[n - 2, n - 2]
        e[n - 2] = a[n - 2, n - 1]
    for i in range(n):
        for c in range(n):
            q[i, c] = 0.0
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


@kernel(inner=True)
def _diagonalize(n: int, d: FloatArray, e: FloatArray, z: MatrixArray) -> None:
    """Write the eigenvalues of a tridiagonal matrix to ``d`` by implicit QL.

    ``d`` and ``e`` contain the matrix on entry; ``e`` is overwritten. The rotations are applied to the rows of ``z``.
    """
    scale = 0.0
    for i in range(n):
        size = abs(d[i]) + (abs(e[i]) if i < n - 1 else 0.0)
        if size > scale:
            scale = size
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


def eigh_rows(a: MatrixArray) -> tuple[FloatArray, MatrixArray]:
    """Return ascending eigenvalues and eigenvectors (as rows) of symmetric ``a``, which is overwritten."""
    n = len(a)
    ids, floats, empty = np.empty(0, np.int64), np.empty(0), np.empty((0, 0))
    names = np.empty(0, np.int32)
    values, rows = np.empty((7, n)), np.empty((n, n))
    scratch = values, rows, np.empty((n, n)), np.empty(n, np.int64)
    part = np.zeros(1 if n > 0 else 0, np.int64)
    _solve_parts(ids, names, floats, ids, np.array([0, n]), names, ids, part, MATRIX, a, *scratch, empty)
    return values[0], rows


@kernel(inner=True)
def _make_canonical(
    values: MatrixArray, rows: MatrixArray, count: int, n: int, take: int, tie: float, size: FloatArray
) -> None:
    """Make the first ``take`` of ``count`` eigenvectors unique, see :func:`canonical_rows`. ``size`` is scratch."""
    scale = abs(values[0, count - 1])
    if abs(values[0, 0]) > scale:
        scale = abs(values[0, 0])
    tol = SAME * scale
    first = 0
    if take > count:
        take = count
    while first < take:
        end = first + 1
        while end < count and values[0, end] - values[0, end - 1] <= tol:
            end += 1
        for row in range(first, end if end < take else take):
            for i in range(n):
                size[i] = 0.0
            for r in range(row, end):
                for i in range(n):
                    size[i] += rows[r, i] * rows[r, i]
            top = 0.0
            for i in range(n):
                if size[i] > top:
                    top = size[i]
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


def canonical_rows(values: FloatArray, rows: MatrixArray, take: int, tie: float) -> None:
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
    _make_canonical(values.reshape(1, -1), rows, count, n, take, tie, np.empty(n))


@kernel
def _solve_parts(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, members: PtrArray, part_ptr: PtrArray,
    cluster: IndexArray, place: PtrArray, parts: PtrArray, kind: int, a: MatrixArray, values: MatrixArray,
    rows: MatrixArray, q: MatrixArray, order: PtrArray, out: MatrixArray,
) -> None:  # fmt: skip
    """Write the first eigenvectors of the Laplacian of each part (a graph or a cluster), see the functions below.

    ``members``, ``cluster`` and ``place`` are used for clusters only. ``a`` and the arrays after it are scratch. Ascending
    eigenvalues and eigenvectors of the last part are in ``values[0]`` and ``rows``.
    """
    for part in range(parts.shape[0]):
        k = parts[part]
        lo = part_ptr[k]
        n = part_ptr[k + 1] - lo
        factor = values[5]
        total = 0.0
        for i in range(n if kind != MATRIX else 0):
            for j in range(n):
                a[i, j] = 0.0
            node = lo + i
            if kind != GRAPHS:
                node = members[lo + i]
            degree = 0.0
            for e in range(indptr[node], indptr[node + 1]):
                other = np.int64(indices[e])
                if kind == GRAPHS:
                    if other != node:
                        degree += weight[e]
                        a[i, other - lo] = -weight[e]
                elif cluster[other] == k:
                    degree += weight[e]
                    a[i, place[other]] = -weight[e]
            total += degree
            factor[i] = degree
        if kind == PLAIN_CLUSTERS:
            for i in range(n):
                a[i, i] += factor[i]
        elif kind != MATRIX:
            for i in range(n):
                diagonal = 1.0
                if factor[i] > 0.0:
                    factor[i] = 1.0 / math.sqrt(factor[i])
                elif kind == GRAPHS:
                    factor[i] = 1.0
                    diagonal = 0.0
                values[6, i] = diagonal
            for i in range(n):
                for j in range(n):
                    a[i, j] *= factor[i] * factor[j]
                a[i, i] += values[6, i]
        d = values[1]
        _tridiagonalize(a, n, d, values[2], q, values[3], values[4])
        for i in range(n):
            for c in range(i):
                swap = q[i, c]
                q[i, c] = q[c, i]
                q[c, i] = swap
        _diagonalize(n, d, values[2], q)
        for i in range(n):  # a stable sort
            at = i
            while at > 0 and d[order[at - 1]] > d[i]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = i
        for i in range(n):
            values[0, i] = d[order[i]]
            for j in range(n):
                rows[i, j] = q[order[i], j]
        if kind == MATRIX:
            continue
        take = out.shape[1]
        if n < take:
            take = n
        _make_canonical(values, rows, n, n, take, TIE, values[1])
        scale = math.sqrt(total) if total > 0.0 else 1.0
        for i in range(n):
            for t in range(take):
                if kind == GRAPHS:
                    out[lo + i, t] = rows[t, i] * (factor[i] * scale)
                else:
                    out[members[lo + i], t] = rows[t, i] if abs(rows[t, i]) > NOISE else 0.0


def _call_solver(
    rows: tuple[PtrArray, IndexArray, FloatArray], clusters: tuple[PtrArray, PtrArray, IndexArray, PtrArray],
    parts: PtrArray, kind: int, out: MatrixArray,
) -> None:  # fmt: skip
    """Call :func:`_solve_parts` with scratch for the largest part. ``clusters`` are its arguments after ``weight``."""
    indptr, indices, weight = rows
    members, part_ptr, cluster, place = clusters
    n = int((part_ptr[parts + 1] - part_ptr[parts]).max(initial=1))
    _solve_parts(
        indptr, indices, weight, members, part_ptr, cluster, place, parts, kind, np.empty((n, n)), np.empty((7, n)),
        np.empty((n, n)), np.empty((n, n)), np.empty(n, np.int64), out,
    )  # fmt: skip


def embed_graphs(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, node_ptr: PtrArray, graphs: PtrArray, out: MatrixArray,
) -> None:  # fmt: skip
    """Write spectral coordinates of the nodes of ``graphs`` to ``out``.

    The coordinates are the lowest eigenvectors of the symmetric normalized Laplacian without self loops, each
    divided by the square root of the degree and scaled so that the first one of a connected graph is all ones. A node
    without neighbours counts as a component.

    Args:
        indptr, indices, weight: A symmetric block with non-negative weights.
        node_ptr: ``[B + 1]``, offsets of the graphs.
        graphs: ``[G]`` ids; each graph has at least ``k`` nodes.
        out: ``[N, k]`` output.
    """
    empty = np.empty(0, np.int64)
    _call_solver(
        (indptr, indices, weight), (empty, node_ptr, np.empty(0, np.int32), empty), graphs, GRAPHS, out
    )


def cluster_modes(
    indptr: PtrArray, indices: IndexArray, weight: FloatArray, members: PtrArray, member_ptr: PtrArray,
    cluster: IndexArray, place: PtrArray, clusters: PtrArray, normalized: bool, theta: MatrixArray,
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
    kind = NORMALIZED_CLUSTERS if normalized else PLAIN_CLUSTERS
    _call_solver((indptr, indices, weight), (members, member_ptr, cluster, place), clusters, kind, theta)
