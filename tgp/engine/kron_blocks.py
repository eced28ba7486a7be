"""Kron reduction of the graphs of a block: scratch arrays, ranges of graphs, and the methods for large graphs.

Small graphs are eliminated exactly, see :mod:`tgp.kernels.kron`. A large graph with a considerable share of all possible
edges is reduced by a full matrix (:mod:`tgp.kernels.kron_core`). Another graph that exceeds the limit of work is
estimated: by a series (:mod:`tgp.kernels.kron_series`), or by walks (:mod:`tgp.kernels.kron_core`) if the series takes
too long. The kernels of large graphs are compiled when the first such graph occurs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.engine.kron_tiles import ENTRY_WORK, Rows, Steps, dense_work, series_rows
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged import BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets, run_lengths

__all__ = ["EXACT_WORK", "WALK_TOLERANCE", "BlockReduction"]

EXACT_WORK = 300_000_000
"""Largest work per graph (sum of squared row lengths) of the exact elimination, about a second. A graph of up to 1,000
nodes does not exceed it if half of its nodes are kept."""

WALK_TOLERANCE = 0.02
"""A walk ends when it can change an entry by less than this share of the threshold."""

_MAX_ENTRIES = 4_000_000
"""Limit of entries that the elimination stores, in addition to four times those of the graph. Sufficient for any graph
of 1,000 nodes."""

_FIRST_WORK = 2
"""Elimination work per stored entry before a series or walks are used."""

_WALK_WORK = 250
"""Entries per stored entry that walks may read before they end earlier. Each of them serves eight walks."""

_LEAST_THRESHOLD = 1e-3
"""Threshold of the walks, relative to the unit of the weights, if the threshold of the result is smaller."""

_DENSE_NODES = 1000
"""Largest number of nodes of a graph that is never reduced by a full matrix."""

_DENSE_SPACE = 16
"""Largest ratio of the entries of a full matrix to the stored entries."""

_DENSE_WORK = 20_000_000_000
"""Work of a full matrix (operations) that is always accepted, about two seconds."""


class BlockReduction:
    """Kron reduction of simple undirected graphs, range by range. Several threads may reduce different ranges.

    Args:
        graph: the graphs.
        nodes: ``[K]`` kept nodes.
        super_ptr: ``[B + 1]`` offsets of the graphs in ``nodes``.
        threshold: ``[B]`` threshold of each graph.
        unit: ``[B]`` unit of the weights of each graph.
        series: estimate large graphs by a series if this does not take too long, otherwise always by walks.
    """

    def __init__(
        self, graph: BlockCSR, nodes: IndexArray, super_ptr: PtrArray, threshold: FloatArray, unit: FloatArray,
        *, series: bool = True,
    ) -> None:  # fmt: skip
        size = graph.num_nodes
        self.series = series
        self.graph, self.nodes, self.super_ptr = graph, nodes, super_ptr
        self.weight = graph.weights_or_ones()
        self.cluster = np.full(size, -1, np.int32)
        self.cluster[nodes] = np.arange(len(nodes), dtype=np.int32)
        self.threshold, self.unit = threshold, unit
        self.row_threshold = np.repeat(threshold, run_lengths(super_ptr))
        self.edge_ptr = graph.edge_ptr
        self.signed = _signed_graphs(self.edge_ptr, self.weight)
        self.max_entries = _MAX_ENTRIES + 4 * run_lengths(self.edge_ptr)
        self.mark = np.zeros(size, np.int8)
        self.start, self.length, self.room = (np.zeros(size, np.int64) for _ in range(3))
        self.slot = np.full(size, -1, np.int64)
        self.diagonal = np.zeros(size)
        self.acc, self.seen = np.zeros(len(nodes)), np.zeros(len(nodes), np.bool_)
        self.touched = np.empty(len(nodes), np.int32)
        self.row_length = np.zeros(len(nodes), np.int64)
        self.large = self._large_graphs()
        self.pieces: dict[int, tuple[IndexArray, FloatArray]] = {}
        self.estimated = False

    def reduce_range(self, first: int, last: int) -> None:
        """Reduce the graphs ``first`` to ``last - 1``."""
        at = first
        while at < last:
            ahead = self.large[np.searchsorted(self.large, at) :] if len(self.large) else self.large
            stop = min(int(ahead[0]), last) if len(ahead) else last
            rows, end, _ = self._eliminate(at, stop, EXACT_WORK)
            self._assemble(at, end, rows, rows)
            if end < last:
                self._reduce_large(end)
            at = end + 1

    def joined(self) -> tuple[PtrArray, IndexArray, FloatArray]:
        """Return the rows of all graphs: offsets, columns, values. Columns are not sorted."""
        pieces = [self.pieces[low] for low in sorted(self.pieces)]
        if not pieces:
            return np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)
        if len(pieces) == 1:
            return offsets(self.row_length), *pieces[0]
        cols, vals = (np.concatenate(part) for part in zip(*pieces, strict=True))
        return offsets(self.row_length), cols, vals

    def _large_graphs(self) -> LongArray:
        """Return the graphs that are not eliminated exactly, as far as this is known in advance."""
        if self.graph.num_nodes <= _DENSE_NODES:
            return np.empty(0, np.int64)
        sizes = run_lengths(self.graph.node_ptr)
        return np.array(
            [
                g
                for g in np.flatnonzero(sizes > _DENSE_NODES).tolist()
                if self._is_dense(g) or self._exceeds_limit(g)
            ],
            np.int64,
        )

    def _is_dense(self, g: int) -> bool:
        """Return True if a graph is reduced by a full matrix."""
        size = int(self.graph.node_ptr[g + 1] - self.graph.node_ptr[g])
        kept = int(self.super_ptr[g + 1] - self.super_ptr[g])
        entries = int(self.graph.edge_ptr[g + 1] - self.graph.edge_ptr[g])
        return (
            size > _DENSE_NODES
            and size * size <= _DENSE_SPACE * entries
            and dense_work(size - kept, kept) <= max(_DENSE_WORK, ENTRY_WORK * entries)
        )

    def _exceeds_limit(self, g: int) -> bool:
        """Return True if an exact elimination certainly exceeds :data:`EXACT_WORK`.

        An eliminated row contains at least the kept neighbours of its node.
        """
        lo, hi = self.graph.node_ptr[g : g + 2]
        indptr = self.graph.indptr[lo : hi + 1]
        if int(np.diff(indptr).max()) * int(indptr[-1] - indptr[0]) <= EXACT_WORK:
            return False
        is_kept = self.cluster[self.graph.indices[indptr[0] : indptr[-1]]] >= 0
        found = np.diff(offsets(is_kept)[indptr - indptr[0]])[self.cluster[lo:hi] < 0]
        return int((found * found).sum()) > EXACT_WORK

    def _eliminate(
        self, first: int, last: int, budget: int, *, keep: bool = False
    ) -> tuple[Rows, int, tuple[IndexArray, FloatArray]]:
        """Eliminate the dropped nodes of a range of graphs, up to a graph that exceeds the budget.

        Args:
            first, last: range of graphs.
            budget: limit of work per graph.
            keep: include the rows of the graph that exceeded the budget.

        Returns:
            The eliminated rows, the graph that exceeded the budget (or ``last``), and the entries of its other rows.
        """
        from tgp.kernels import kron

        graph = self.graph
        nodes, entries = graph.node_ptr[first : last + 1], self.edge_ptr[first : last + 1]
        most, top = int(run_lengths(entries).max(initial=0)), int(run_lengths(nodes).max(initial=0))
        count = int(nodes[-1] - nodes[0])
        heap, (cols, vals) = np.empty(top + 4 * most, np.int64), _entries(8 * (most + top) + 64)
        f_ptr, f_inv = np.zeros(count + 1, np.int64), np.empty(count)
        f_cols, f_vals = _entries(int(entries[-1] - entries[0]) + 2 * most)
        state = np.zeros(kron.STATE_SIZE, np.int64)
        at = first
        while True:
            at = kron.eliminate(
                graph.indptr, graph.indices, self.weight, self.cluster, graph.node_ptr, at, last, budget,
                self.max_entries, self.signed, self.mark, self.start, self.length, self.room, self.slot,
                self.diagonal, heap, cols, vals, f_ptr, f_inv, f_cols, f_vals, state,
            )  # fmt: skip
            if state[kron.CODE] == kron.DONE or (keep and state[kron.CODE] == kron.OVER_BUDGET):
                break
            state[: kron.CODE] = state[kron.GRAPH_ROWS : kron.WORK]
            if state[kron.CODE] == kron.OVER_BUDGET:
                break
            heap, cols, vals, f_cols, f_vals = (_longer(a) for a in (heap, cols, vals, f_cols, f_vals))
        rows, size = int(state[kron.ROWS]), int(state[kron.SIZE])
        return Rows(f_ptr[: rows + 1], f_cols[:size], f_vals[:size], f_inv[:rows]), at, (cols, vals)

    def _assemble(self, first: int, last: int, left: Rows, right: Rows) -> None:
        """Add up the rows of the coarse graphs ``first`` to ``last - 1``."""
        from tgp.kernels._prims import fill_transpose
        from tgp.kernels.kron import assemble_rows

        graph = self.graph
        low, high = int(self.super_ptr[first]), int(self.super_ptr[last])
        if low == high:
            return
        by_super = (
            np.empty(high - low + 1, np.int64),
            np.empty(len(left.cols), np.int32),
            np.empty(len(left.cols)),
        )
        fill_transpose(left.ptr, left.cols - np.int32(low), left.vals, True, *by_super)
        cols, vals = _entries(2 * len(left.cols) + 4 * (high - low) + 64)
        state = np.zeros(1, np.int64)
        at = low
        while at < high:
            at = assemble_rows(
                graph.indptr, graph.indices, self.weight, self.cluster, self.nodes, at, high, *by_super, low,
                right.ptr, right.cols, right.vals, right.inv, self.row_threshold, self.acc, self.seen, self.touched, self.row_length, cols, vals, state,
            )  # fmt: skip
            if at < high:
                cols, vals = _longer(cols, high - low), _longer(vals, high - low)
        self.pieces[low] = cols[: state[0]], vals[: state[0]]

    def _reduce_large(self, g: int) -> None:
        """Reduce one graph whose exact elimination is too expensive."""
        if self._is_dense(g):
            self._reduce_dense(g)
        else:
            self._estimate(g)

    def _reduce_dense(self, g: int) -> None:
        """Reduce a graph by a full matrix: padding, dropped nodes, kept nodes."""
        from tgp.kernels.kron_core import eliminate_dense

        graph = self.graph
        lo, hi = (int(i) for i in graph.node_ptr[g : g + 2])
        low, high = (int(k) for k in self.super_ptr[g : g + 2])
        dropped = np.flatnonzero(self.cluster[lo:hi] < 0)
        count = -(-len(dropped) // 8) * 8
        size = count + high - low
        place = np.empty(hi - lo, np.int64)
        place[dropped] = np.arange(count - len(dropped), count)
        place[self.nodes[low:high] - lo] = np.arange(count, size)
        matrix = np.zeros((size, size))
        edges = slice(graph.indptr[lo], graph.indptr[hi])
        rows = np.repeat(place, np.diff(graph.indptr[lo : hi + 1]))
        matrix[rows, place[graph.indices[edges] - lo]] = self.weight[edges]
        diagonal = np.zeros(size)
        np.add.at(diagonal, rows, np.abs(self.weight[edges]))
        scratch = np.empty((64, size)), np.empty((64, size))
        eliminate_dense(matrix, count, bool(self.signed[g]), diagonal, *scratch)
        coarse = np.triu(matrix[count:, count:], 1)
        del matrix, scratch
        coarse[np.abs(coarse) <= self.threshold[g]] = 0.0
        coarse += coarse.T
        row, col = np.nonzero(coarse)
        self.row_length[low:high] = np.bincount(row, minlength=high - low)
        self.pieces[low] = (col + low).astype(np.int32), coarse[row, col]

    def _estimate(self, g: int) -> None:
        """Reduce a graph by a series, or by a short elimination and walks from the nodes that it leaves."""
        entries = int(self.graph.edge_ptr[g + 1] - self.graph.edge_ptr[g])
        if not (self.series and self._add_series(g, ENTRY_WORK * entries)):
            done, starts, steps = self._remaining(g, _FIRST_WORK * entries)
            ends = self._walk(g, steps)
            self._assemble(g, g + 1, _joined_rows(done, starts), _joined_rows(done, ends))
        self.estimated = True

    def _add_series(self, g: int, limit: int) -> bool:
        """Reduce a graph by a series. Return False if this needs more work than ``limit``."""
        span = int(self.super_ptr[g]), int(self.super_ptr[g + 1])
        # An elimination would add entries to the rows that every iteration of the series reads.
        _, starts, steps = self._remaining(g, -1)
        inner = self.graph.indptr, self.graph.indices, self.weight, self.cluster, self.nodes
        rows = series_rows(
            inner, starts, steps, span, self.threshold[g], bool(self.signed[g]), limit, self.row_length
        )
        if rows is None:
            return False
        self.pieces[span[0]] = rows
        return True

    def _remaining(self, g: int, budget: int) -> tuple[Rows, Rows, Steps]:
        """Eliminate nodes of a graph up to a limit of work.

        Returns:
            The eliminated rows, the entries of the remaining rows at kept nodes, and their step probabilities.
        """
        from tgp.kernels.kron import remaining_rows
        from tgp.kernels.kron_core import step_probabilities

        graph = self.graph
        lo, hi = (int(i) for i in graph.node_ptr[g : g + 2])
        done, _, work_rows = self._eliminate(g, g + 1, budget, keep=True)
        live = self.mark[lo:hi] == 1
        space = np.where(self.length[lo:hi] > 0, self.length[lo:hi], np.diff(graph.indptr[lo : hi + 1]))
        ptr, nodes = np.zeros(int(live.sum()) + 1, np.int64), np.empty(int(live.sum()), np.int32)
        cols, vals = _entries(int(space[live].sum()))
        count = remaining_rows(
            graph.indptr, graph.indices, self.weight, lo, hi, self.mark, self.start, self.length, *work_rows, self.slot,
            ptr, nodes, cols, vals,
        )  # fmt: skip
        del work_rows
        cols, vals = cols[: ptr[count]], vals[: ptr[count]]
        row_of = np.full(graph.num_nodes, -1, np.int32)
        row_of[nodes] = np.arange(count, dtype=np.int32)
        steps = Steps(
            ptr, np.empty(count, np.int64), np.empty(len(cols), np.int32), np.empty(len(cols)), np.empty(count), np.empty(count)
        )  # fmt: skip
        signed = bool(self.signed[g])
        step_probabilities(
            count, ptr, nodes, cols, vals, signed, self.diagonal, self.cluster, row_of, *steps[1:]
        )
        is_kept = self.cluster[cols] >= 0
        starts = Rows(offsets(is_kept)[ptr], self.cluster[cols[is_kept]], vals[is_kept], np.ones(count))
        return done, starts, steps

    def _walk(self, g: int, steps: Steps) -> Rows:
        """Return the probabilities that walks from the given rows end at each kept node."""
        from tgp.kernels import kron_core as kernels

        low, high = (int(k) for k in self.super_ptr[g : g + 2])
        count, kept, lanes = len(steps.inner), high - low, kernels.LANES
        tolerance = WALK_TOLERANCE * max(self.threshold[g], _LEAST_THRESHOLD * self.unit[g])
        budget = float(_WALK_WORK * (self.graph.edge_ptr[g + 1] - self.graph.edge_ptr[g]))
        scratch: tuple[Any, ...] = (
            np.zeros(count * lanes), np.zeros(kept * lanes), np.zeros(count, np.bool_), np.zeros(kept, np.bool_),
            np.empty(count, np.int32), np.empty(kept, np.int32), np.empty(count, np.int32), np.zeros(lanes),
        )  # fmt: skip
        b_ptr, (b_cols, b_vals) = np.zeros(count + 1, np.int64), _entries(4 * count + lanes * kept)
        state = np.array([0.0, 0.0, budget / 8.0, 1.0])
        at = 0
        while at < count:
            outputs: tuple[Any, ...] = (*scratch, b_ptr, b_cols, b_vals, state)
            at = kernels.walk_ends(at, count, *steps[:4], steps.top, low, tolerance, budget, *outputs)
            if at < count:
                b_cols, b_vals = _longer(b_cols, lanes * kept), _longer(b_vals, lanes * kept)
        size = int(state[kernels.SIZE])
        return Rows(b_ptr, b_cols[:size], b_vals[:size], np.ones(count))


def _entries(size: int) -> tuple[IndexArray, FloatArray]:
    # Memory pages that are never written take no memory.
    return np.empty(size, np.int32), np.empty(size)


def _longer(array: Array, extra: int = 0) -> Array:
    """Return a copy with twice the space, and ``extra`` elements more."""
    out = np.empty(2 * len(array) + extra, array.dtype)
    out[: len(array)] = array
    return out


def _joined_rows(a: Rows, b: Rows) -> Rows:
    return Rows(
        np.concatenate([a.ptr, b.ptr[1:] + a.ptr[-1]]),
        np.concatenate([a.cols, b.cols]),
        np.concatenate([a.vals, b.vals]),
        np.concatenate([a.inv, b.inv]),
    )


def _signed_graphs(edge_ptr: PtrArray, weight: FloatArray) -> npt.NDArray[np.int8]:
    """Return 1 for each graph with a negative weight."""
    out = np.zeros(len(edge_ptr) - 1, np.int8)
    if weight.min(initial=0.0) >= 0.0:
        return out
    negative = np.flatnonzero(weight < 0)
    out[np.searchsorted(edge_ptr, negative, side="right") - 1] = 1
    return out
