"""Kron reduction of the core that sparse elimination leaves, in two ways: a full matrix, or random walks.

The full matrix is a blocked Schur complement. The order of the operations on each entry is fixed, so the result has the same bits on
any processor and for any number of threads, unlike that of a BLAS library.

A Kron reduction connects kept nodes ``p`` and ``j`` by ``sum_c w_pc P(a walk from c reaches j before any other kept
node)``. In graphs with hubs, elimination leaves a core of dropped nodes that would become completely connected. Walks
leave this core quickly, because each step has a high probability of ending at a kept node. Walks are therefore followed
until they end or until their probability is too small to reach the threshold of the result.

A step along a negative edge has the probability of its ``|w|`` and changes the sign of the walk. The result is then the
difference of the probabilities of both signs, as in the Kron reduction of the signed Laplacian.

Eight walks are followed at a time. They pass through the same hubs, so each row that is read serves all of them.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import kernel
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, PtrArray

__all__ = ["LANES", "eliminate_dense", "step_probabilities", "walk_ends"]

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
_THREE = np.uint64(3)

LANES = 8
"""Number of walks that are followed at a time."""

SIZE, WORK, SLACK, COARSER = 0, 1, 2, 3
"""Positions in the state of :func:`walk_ends`."""


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


@kernel
def step_probabilities(
    count: int, ptr: PtrArray, nodes: IndexArray, cols: IndexArray, vals: FloatArray, signed: bool,
    diagonal: FloatArray, cluster: IndexArray, row_of: IndexArray, inner: PtrArray, to: IndexArray, prob: FloatArray,
    degree: FloatArray, top: FloatArray,
) -> None:  # fmt: skip
    """Convert rows to step probabilities, with kept columns first in each row.

    Args:
        count: Number of rows.
        ptr, nodes, cols, vals: Rows and their nodes. The columns are nodes of other rows or kept nodes.
        signed: True if a weight of the graph is negative.
        diagonal: ``[N]``, diagonal entries of the nodes of a signed graph.
        cluster: ``[N]``, supernode of each kept node, -1 for other nodes.
        row_of: ``[N]``, row of each node.
        inner: Output: position of the first column that is not kept.
        to: Output: the supernode of a kept column, the row of another one.
        prob: Output: probabilities, negative for a negative weight.
        degree: Output: diagonal entry of each row.
        top: Output: largest ``|w|`` to a kept node of each row.
    """
    for r in range(count):
        front, back = ptr[r], ptr[r + 1]
        top[r] = 0.0
        total, least = 0.0, 0.0
        for e in range(ptr[r], ptr[r + 1]):
            total += vals[e]
            least += abs(vals[e])
        if signed:
            total = max(diagonal[nodes[r]], least)
        degree[r] = total
        for e in range(ptr[r], ptr[r + 1]):
            j = cluster[cols[e]]
            if j >= 0:
                to[front] = j
                prob[front] = vals[e] / total
                if abs(vals[e]) > top[r]:
                    top[r] = abs(vals[e])
                front += 1
            else:
                back -= 1
                to[back] = row_of[cols[e]]
                prob[back] = vals[e] / total
        inner[r] = front


@kernel(inline="always")
def _add_lanes(
    out: FloatArray, row: int, share: float, m0: float, m1: float, m2: float, m3: float, m4: float, m5: float,
    m6: float, m7: float,
) -> None:  # fmt: skip
    """Add ``share`` times eight numbers to row ``row`` of ``out``."""
    at = _U(row) << _THREE  # unsigned, so that the eight additions become vector instructions
    out[at] += share * m0
    out[at + _U(1)] += share * m1
    out[at + _U(2)] += share * m2
    out[at + _U(3)] += share * m3
    out[at + _U(4)] += share * m4
    out[at + _U(5)] += share * m5
    out[at + _U(6)] += share * m6
    out[at + _U(7)] += share * m7


@kernel
def walk_ends(
    first: int, count: int, ptr: PtrArray, inner: PtrArray, to: IndexArray, prob: FloatArray, top: FloatArray,
    shift: int, tolerance: float, budget: float, ahead: FloatArray, ends: FloatArray, seen: BoolArray,
    ended: BoolArray, visited: IndexArray, touched: IndexArray, front: IndexArray, least: FloatArray,
    b_ptr: PtrArray, b_cols: IndexArray, b_vals: FloatArray, state: FloatArray,
) -> int:  # fmt: skip
    """Write the probabilities that a walk from each row ends at each kept node, from row ``first`` on.

    A walk from ``c`` with probability ``m`` is stopped if ``m max_p w_cp`` is smaller than ``tolerance``, and smaller
    probabilities are removed from the result. For positive weights every value is a lower bound. The work is
    distributed evenly over the rows: whenever it exceeds its share by an eighth of the budget, the tolerance doubles.

    Args:
        first: First row, a multiple of :data:`LANES`.
        count: Number of rows.
        ptr, inner, to, prob, top: Output of :func:`step_probabilities`.
        shift: First supernode of the graph.
        tolerance: Weight below which an entry is negligible.
        budget: Approximate number of entries to read.
        ahead: ``[count * LANES]`` scratch, zeros.
        ends: ``[K * LANES]`` scratch, zeros, for ``K`` supernodes of the graph.
        seen, visited, front: ``[count]`` scratch; ``seen`` is False.
        ended, touched: ``[K]`` scratch; ``ended`` is False.
        least: ``[LANES]`` scratch.
        b_ptr, b_cols, b_vals: Output: offsets, supernodes, probabilities. The row of a node without kept neighbours is
            empty, because it is not used.
        state: ``[4]``: number of entries of the output, work, allowed excess of work, and factor of the tolerance.

    Returns:
        The first row for which ``b_cols`` may be too short, or ``count``.
    """
    for c in range(first, count, LANES):
        stop = min(c + LANES, count)
        if state[SIZE] + LANES * ended.shape[0] > b_cols.shape[0]:
            return c
        for r in range(c, stop):
            if state[WORK] > budget * (r / count) + state[SLACK]:
                state[COARSER] *= 2.0
                state[SLACK] += budget / 8.0
        visits, ahead_count, kept_count = 0, 0, 0
        for r in range(c, stop):
            if top[r] > 0.0:
                ahead[r * LANES + r - c] = 1.0
                least[r - c] = tolerance * state[COARSER] / top[r]
                seen[r] = True
                visited[visits] = r
                front[visits] = r
                visits += 1
        ahead_count = visits
        while ahead_count > 0:
            for f in range(ahead_count):
                u = front[f]
                state[WORK] += ptr[u + 1] - ptr[u]
                at = u * LANES
                m0, m1, m2, m3 = ahead[at], ahead[at + 1], ahead[at + 2], ahead[at + 3]
                m4, m5, m6, m7 = ahead[at + 4], ahead[at + 5], ahead[at + 6], ahead[at + 7]
                for lane in range(LANES):
                    ahead[at + lane] = 0.0
                for e in range(ptr[u], inner[u]):
                    j = to[e] - shift
                    if not ended[j]:
                        ended[j] = True
                        touched[kept_count] = j
                        kept_count += 1
                    _add_lanes(ends, j, prob[e], m0, m1, m2, m3, m4, m5, m6, m7)
                for e in range(inner[u], ptr[u + 1]):
                    v = to[e]
                    if not seen[v]:
                        seen[v] = True
                        visited[visits] = v
                        visits += 1
                    _add_lanes(ahead, v, prob[e], m0, m1, m2, m3, m4, m5, m6, m7)
            ahead_count = 0
            for k in range(visits):
                v = visited[k]
                for lane in range(stop - c):
                    if abs(ahead[v * LANES + lane]) > least[lane]:
                        front[ahead_count] = v
                        ahead_count += 1
                        break
        size = int(state[SIZE])
        for r in range(c, stop):
            for k in range(kept_count):
                j = touched[k]
                if top[r] > 0.0 and abs(ends[j * LANES + r - c]) > least[r - c]:
                    b_cols[size] = j + shift
                    b_vals[size] = ends[j * LANES + r - c]
                    size += 1
            b_ptr[r + 1] = size
        for k in range(kept_count):
            ended[touched[k]] = False
            for lane in range(LANES):
                ends[touched[k] * LANES + lane] = 0.0
        for k in range(visits):
            seen[visited[k]] = False
            for lane in range(LANES):
                ahead[visited[k] * LANES + lane] = 0.0
        state[SIZE] = size
    return count
