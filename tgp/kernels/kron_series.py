"""Power series of a Kron reduction: the part of large graphs for which elimination is too expensive.

The ends ``X`` of random walks from the dropped nodes satisfy ``X = P_QP + P_QQ X`` with the step probabilities
``P``. Iterating this equation adds one step to all walks. The iteration starts with an approximation of complete walks:
after a few steps a walk that has not ended is distributed as the dominant eigenvector ``h`` of ``P_QQ``, so all further
steps are added up at once. The columns of ``X`` are computed in tiles, of which each one is independent of the others.

Tiles have float32 numbers, which are more accurate than the end of the series. The order of the operations on each entry is fixed, so the result has the same bits on any processor and for any number of
threads.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import Float32Array, FloatArray, IndexArray, PtrArray

__all__ = ["MAX_STEPS", "WIDTH", "dominant_vector", "series_tile"]

WIDTH = 128
"""Number of columns of a tile."""
MAX_STEPS = 8
"""Largest number of iterations."""

_POWER_STEPS = 12
"""Number of products that approximate the dominant eigenvector."""
_LARGEST_VALUE = 0.999
"""Largest dominant eigenvalue whose eigenvector is used. It is 1 if walks from some nodes cannot end."""
_U = np.uint64
_COLUMNS = np.uint64(WIDTH)


@kernel(inner=True)
def _multiply(
    count: int,
    ptr: PtrArray,
    inner: PtrArray,
    to: IndexArray,
    prob: FloatArray,
    x: FloatArray,
    out: FloatArray,
) -> None:
    """Write ``P_QQ x`` to ``out``."""
    for r in range(count):
        total = 0.0
        for e in range(inner[r], ptr[r + 1]):
            total += prob[e] * x[to[e]]
        out[r] = total


@kernel
def dominant_vector(
    count: int, ptr: PtrArray, inner: PtrArray, to: IndexArray, prob: FloatArray, degree: FloatArray, signed: bool,
    tolerance: float, vector: FloatArray, rest: FloatArray, work: FloatArray, state: FloatArray,
) -> int:  # fmt: skip
    """Approximate the dominant eigenvector of ``P_QQ`` and choose the number of iterations.

    Args:
        count: Number of rows.
        ptr, inner, to, prob, degree: Output of :func:`tgp.kernels.kron_core.step_probabilities`.
        signed: True if a weight of the graph is negative.
        tolerance: Probability that the walks may lose on average, weighted by the weights of their starts.
        vector: ``[count]`` output: the eigenvector.
        rest, work: ``[count]`` scratch.
        state: ``[1]`` output: factor of ``h h^T A_QP`` in the start of the iteration.

    Returns:
        Number of iterations, from 1 to :data:`MAX_STEPS`.
    """
    for r in range(count):
        vector[r] = 1.0
    for _ in range(_POWER_STEPS):
        _multiply(count, ptr, inner, to, prob, vector, work)
        top = 0.0
        for r in range(count):
            top = max(top, abs(work[r]))
        if top == 0.0:
            break
        for r in range(count):
            vector[r] = work[r] / top
    _multiply(count, ptr, inner, to, prob, vector, work)
    above, below = 0.0, 0.0
    for r in range(count):
        above += degree[r] * vector[r] * work[r]
        below += degree[r] * vector[r] * vector[r]
    value = above / below if below > 0.0 else 0.0
    state[0] = value / ((1.0 - value) * below) if 0.0 < value <= _LARGEST_VALUE else 0.0
    # The lost probability of each row takes the same iteration. A signed graph has no such sum, so its bound is used.
    start, share = 0.0, 0.0
    for r in range(count):
        ended = 0.0
        for e in range(ptr[r], inner[r]):
            ended += abs(prob[e])
        work[r] = ended
        start += degree[r] * ended
        share += degree[r] * ended * vector[r]
    for r in range(count):
        rest[r] = 1.0 - work[r]
        if not signed:
            rest[r] -= state[0] * share * vector[r]
    steps = 0
    lost = 1.0
    while steps < MAX_STEPS and (steps == 0 or lost > tolerance * start):
        lost = 0.0
        for r in range(count):
            total, ended = 0.0, 0.0
            for e in range(ptr[r], inner[r]):
                ended += abs(prob[e])
            for e in range(inner[r], ptr[r + 1]):
                total += abs(prob[e]) * rest[to[e]]
            work[r] = total
            lost += degree[r] * ended * abs(total)
        for r in range(count):
            rest[r] = work[r]
        steps += 1
    return steps


@kernel(inner=True)
def _add_products(
    out: Float32Array, row: int, x: Float32Array, cols: IndexArray, vals: Float32Array, lo: int, hi: int
) -> None:
    """Add ``vals[e]`` times row ``cols[e]`` of ``x`` to a row of ``out``, for the entries ``lo`` to ``hi - 1``."""
    at = _U(row) * _COLUMNS
    e = lo
    while e + 8 <= hi:
        v0, v1, v2, v3 = vals[e], vals[e + 1], vals[e + 2], vals[e + 3]
        v4, v5, v6, v7 = vals[e + 4], vals[e + 5], vals[e + 6], vals[e + 7]
        c0, c1 = _U(cols[e]) * _COLUMNS, _U(cols[e + 1]) * _COLUMNS
        c2, c3 = _U(cols[e + 2]) * _COLUMNS, _U(cols[e + 3]) * _COLUMNS
        c4, c5 = _U(cols[e + 4]) * _COLUMNS, _U(cols[e + 5]) * _COLUMNS
        c6, c7 = _U(cols[e + 6]) * _COLUMNS, _U(cols[e + 7]) * _COLUMNS
        for j in range(_COLUMNS):  # unsigned, so that the loop becomes vector instructions
            out[at + j] += (
                ((v0 * x[c0 + j] + v1 * x[c1 + j]) + (v2 * x[c2 + j] + v3 * x[c3 + j]))
                + ((v4 * x[c4 + j] + v5 * x[c5 + j]) + (v6 * x[c6 + j] + v7 * x[c7 + j]))
            )  # fmt: skip
        e += 8
    for k in range(e, hi):
        v, c = vals[k], _U(cols[k]) * _COLUMNS
        for j in range(_COLUMNS):
            out[at + j] += v * x[c + j]


@kernel
def series_tile(
    first: int, last: int, shift: int, steps: int, factor: float, indptr: PtrArray, indices: IndexArray,
    weight: FloatArray, cluster: IndexArray, nodes: IndexArray, count: int, ptr: PtrArray, inner: PtrArray,
    to: IndexArray, prob: Float32Array, vector: FloatArray, start_ptr: PtrArray, start_row: IndexArray,
    start_prob: Float32Array, start_val: Float32Array, scale: float, threshold: float, x: Float32Array, y: Float32Array,
    out: Float32Array, line: FloatArray, row_length: PtrArray, out_cols: IndexArray, out_vals: FloatArray,
) -> int:  # fmt: skip
    """Write the rows of the supernodes ``first`` to ``last - 1`` of a reduced graph, as far as their columns are smaller.

    Args:
        first, last: Range of at most :data:`WIDTH` supernodes, counted from the first one of the graph.
        shift: First supernode of the graph.
        steps, factor: Number of iterations, and factor of the start, see :func:`dominant_vector`.
        indptr, indices, weight, cluster, nodes: Simple undirected graphs, supernode of each node, kept node of each supernode.
        count, ptr, inner, to, prob: Step probabilities of the dropped nodes.
        vector: ``[count]``, dominant eigenvector.
        start_ptr, start_row, start_prob, start_val: Probabilities and weights of their edges to kept nodes, by supernode.
        scale: Unit of ``start_val``.
        threshold: Entries ``|a| <= threshold`` are removed.
        x, y: ``[count * WIDTH]`` scratch.
        out, line: ``[K * WIDTH]`` and ``[K]`` scratch, for ``K`` supernodes of the graph; ``line`` is zero on entry and on return.
        row_length: Output: number of entries of each row, by supernode of the block.
        out_cols, out_vals: Output: columns and values, with space for all entries.

    Returns:
        Number of entries.
    """
    for step in range(steps + 1):
        for k in range(count * WIDTH):
            y[k] = 0.0
        for j in range(first, last):
            total = 0.0
            for t in range(start_ptr[j], start_ptr[j + 1]):
                y[start_row[t] * WIDTH + j - first] = start_prob[t]
                total += vector[start_row[t]] * start_val[t]
            out[j - first] = (factor * scale) * total
        if step == 0 and factor != 0.0:
            for r in range(count):
                for k in range(last - first):
                    y[r * WIDTH + k] += out[k] * vector[r]
        if step > 0:
            for r in range(count):
                _add_products(y, r, x, to, prob, inner[r], ptr[r + 1])
        x, y = y, x
    for k in range(last * WIDTH):
        out[k] = 0.0
    for r in range(last):
        _add_products(out, r, x, start_row, start_val, start_ptr[r], start_ptr[r + 1])
    size = 0
    for j in range(first, last):
        node, before = nodes[shift + j], size
        for e in range(indptr[node], indptr[node + 1]):
            if cluster[indices[e]] >= 0:
                line[cluster[indices[e]] - shift] = weight[e]
        for r in range(j):
            value = line[r] + scale * out[r * WIDTH + j - first]
            if abs(value) > threshold:
                out_cols[size] = r + shift
                out_vals[size] = value
                size += 1
        for e in range(indptr[node], indptr[node + 1]):
            if cluster[indices[e]] >= 0:
                line[cluster[indices[e]] - shift] = 0.0
        row_length[shift + j] = size - before
    return size
