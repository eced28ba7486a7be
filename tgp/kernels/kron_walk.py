"""End points of random walks from dropped nodes: the part of a Kron reduction for which elimination is too expensive.

A Kron reduction connects kept nodes ``p`` and ``j`` by ``sum_c w_pc P(a walk from c reaches j before any other kept
node)``. In graphs with hubs, elimination leaves a core of dropped nodes that would become completely connected. Walks
leave this core quickly, because each step has a high probability of ending at a kept node. Walks are therefore followed
until they end or until their probability is too small to reach the threshold of the result.
"""

from __future__ import annotations

import numpy as np

from tgp.kernels._prims import grow_buffers, kernel
from tgp.kernels.array_types import BoolArray, FloatArray, IndexArray, PtrArray

__all__ = ["kept_columns", "walk_end_probabilities"]


@kernel
def kept_columns(
    ptr: PtrArray, cols: IndexArray, vals: FloatArray, kept: BoolArray
) -> tuple[PtrArray, IndexArray, FloatArray]:
    """Return the entries whose column is kept: offsets, columns, values."""
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


@kernel
def _step_probabilities(
    nodes: IndexArray, ptr: PtrArray, cols: IndexArray, vals: FloatArray, kept: BoolArray
) -> tuple[PtrArray, IndexArray, FloatArray, FloatArray]:
    """Convert rows to step probabilities, with kept columns first in each row.

    Returns:
        Position of the first column that is not kept, columns (the node of a kept column, the row of another one),
        probabilities, and the largest weight to a kept node of each row.
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


@kernel
def walk_end_probabilities(
    nodes: IndexArray, ptr: PtrArray, cols: IndexArray, vals: FloatArray, left: PtrArray, kept: BoolArray,
    tolerance: float, budget: PtrArray,
) -> tuple[PtrArray, IndexArray, FloatArray]:  # fmt: skip
    """Return the probabilities that a walk from each of ``nodes`` ends at each kept node.

    A walk from ``c`` with probability ``m`` is stopped if ``m max_p w_cp`` is smaller than ``tolerance``, and smaller
    probabilities are removed from the result. Every value is therefore a lower bound. The work of a graph is
    distributed evenly over its nodes: whenever it exceeds its share by an eighth of the budget, the tolerance doubles.

    Args:
        nodes: ``[C]`` start nodes, graph by graph.
        ptr, cols, vals: Rows of the start nodes, with positive weights. Columns are start nodes or kept nodes.
        left: ``[B]``, number of start nodes of each graph.
        kept: ``[N]``.
        tolerance: Weight below which an entry is negligible.
        budget: ``[B]``, approximate number of entries to read for each graph.

    Returns:
        Offsets, kept columns, probabilities. The row of a node without kept neighbours is empty, because it is not
        used.
    """
    rows = nodes.shape[0]
    inner, to, prob, top = _step_probabilities(nodes, ptr, cols, vals, kept)
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
                b_cols, b_vals = grow_buffers(b_cols, b_vals, size + count)
            for k in range(count):
                j = touched[k]
                if ends[j] > least:
                    b_cols[size] = j
                    b_vals[size] = ends[j]
                    size += 1
                ends[j] = 0.0
        b_ptr[c + 1] = size
    return b_ptr, b_cols[:size], b_vals[:size]
