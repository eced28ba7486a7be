"""Where walks from dropped nodes end: the part of a Kron reduction that elimination cannot afford.

A Kron reduction joins kept nodes ``p`` and ``j`` by ``sum_c w_pc P(a walk from c meets j before any other
kept node)``. In graphs with hubs a cut leaves a core of dropped nodes whose elimination would fill in
completely, yet walks leave it quickly: each step has a good chance to end. So walks are
followed until they end or are too unlikely to reach the threshold of the result.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["absorb", "kept_columns"]


@njit(cache=True, nogil=True)
def _longer(array, need):
    """A copy of ``array`` with room for ``need`` entries, at least twice as long."""
    out = np.empty(max(need, 2 * array.shape[0]), array.dtype)
    for i in range(array.shape[0]):
        out[i] = array[i]
    return out


@njit(cache=True, nogil=True)
def kept_columns(ptr, cols, vals, kept):
    """The entries whose column is kept: offsets, columns, values."""
    out_ptr = np.zeros_like(ptr)
    out = np.empty_like(cols)
    out_vals = np.empty_like(vals)
    size = 0
    for r in range(ptr.shape[0] - 1):
        for e in range(ptr[r], ptr[r + 1]):
            if kept[cols[e]]:
                out[size] = cols[e]
                out_vals[size] = vals[e]
                size += 1
        out_ptr[r + 1] = size
    return out_ptr, out[:size], out_vals[:size]


@njit(cache=True, nogil=True)
def _steps(nodes, ptr, cols, vals, kept):
    """Rows as step probabilities, kept columns first.

    Returns where the other columns start, columns (node of a kept one, row of another), probabilities, and the largest
    weight to a kept node.
    """
    row_of = np.full(kept.shape[0], -1, np.int32)
    for r in range(nodes.shape[0]):
        row_of[nodes[r]] = r
    inner = np.empty(nodes.shape[0], np.int64)
    to = np.empty_like(cols)
    prob = np.empty_like(vals)
    top = np.zeros(nodes.shape[0])
    for r in range(nodes.shape[0]):
        total = 0.0
        for e in range(ptr[r], ptr[r + 1]):
            total += vals[e]
        front, back = ptr[r], ptr[r + 1]
        for e in range(ptr[r], ptr[r + 1]):
            if kept[cols[e]]:
                to[front] = cols[e]
                prob[front] = vals[e] / total
                top[r] = max(top[r], vals[e])
                front += 1
            else:
                back -= 1
                to[back] = row_of[cols[e]]
                prob[back] = vals[e] / total
        inner[r] = front
    return inner, to, prob, top


@njit(cache=True, nogil=True)
def absorb(nodes, ptr, cols, vals, left, kept, tolerance, budget):
    """Probabilities that a walk from each of ``nodes`` ends at each kept node.

    A walk of probability ``m`` from ``c`` is given up when ``m max_p w_cp`` falls below ``tolerance``, and
    ends below that are left out, so every number is a lower bound. The work of a graph is shared
    out evenly: whenever it runs an eighth of the budget ahead, the tolerance doubles.

    Args:
        nodes: ``[C]`` the start nodes, graph after graph.
        ptr, cols, vals: their rows, positive weights, columns among ``nodes`` and kept nodes.
        left: ``[B]`` number of start nodes of each graph.
        kept: ``[N]`` bool.
        tolerance: weight that is too small to matter.
        budget: ``[B]`` entries to read for each graph, about.

    Returns:
        Offsets, kept columns, probabilities. A node without kept neighbours has none:
        nobody asks for its row.
    """
    rows = nodes.shape[0]
    inner, to, prob, top = _steps(nodes, ptr, cols, vals, kept)
    b_ptr = np.zeros(rows + 1, np.int64)
    b_cols = np.empty(4 * rows, np.int32)
    b_vals = np.empty(4 * rows)
    ahead = np.zeros(rows)
    queued = np.zeros(rows, np.bool_)
    queue = np.empty(rows + 1, np.int32)
    visited = np.empty(rows, np.int32)
    seen = np.zeros(rows, np.bool_)
    ends = np.zeros(kept.shape[0])
    touched = np.empty(kept.shape[0], np.int32)
    size = 0
    graph = -1
    first, last = 0, 0
    work, slack, coarser = 0.0, 0.0, 1.0
    for c in range(rows):
        while c == last:
            graph += 1
            first, last = last, last + left[graph]
            work, slack, coarser = 0.0, budget[graph] / 8.0, 1.0
        if work > budget[graph] * ((c - first) / (last - first)) + slack:
            coarser *= 2.0
            slack += budget[graph] / 8.0
        count = 0
        if top[c] > 0.0:
            least = tolerance * coarser / top[c]
            ahead[c] = 1.0
            queue[0] = c
            head, waiting = 0, 1
            visited[0] = c
            seen[c] = True
            visits = 1
            while waiting > 0:
                u = queue[head]
                head = head + 1 if head < rows else 0
                waiting -= 1
                queued[u] = False
                mass = ahead[u]
                ahead[u] = 0.0
                work += ptr[u + 1] - ptr[u]
                for e in range(ptr[u], inner[u]):
                    j = to[e]
                    if ends[j] == 0.0:
                        touched[count] = j
                        count += 1
                    ends[j] += mass * prob[e]
                for e in range(inner[u], ptr[u + 1]):
                    v = to[e]
                    ahead[v] += mass * prob[e]
                    if not seen[v]:
                        seen[v] = True
                        visited[visits] = v
                        visits += 1
                    if ahead[v] > least and not queued[v]:
                        queued[v] = True
                        tail = head + waiting
                        queue[tail if tail <= rows else tail - rows - 1] = v
                        waiting += 1
            for k in range(visits):
                ahead[visited[k]] = 0.0
                seen[visited[k]] = False
            if size + count > b_cols.shape[0]:
                b_cols = _longer(b_cols, size + count)
                b_vals = _longer(b_vals, size + count)
            for k in range(count):
                j = touched[k]
                if ends[j] > least:
                    b_cols[size] = j
                    b_vals[size] = ends[j]
                    size += 1
                ends[j] = 0.0
        b_ptr[c + 1] = size
    return b_ptr, b_cols[:size], b_vals[:size]
