"""Members of supernodes and coarse edges: the input nodes and edges that a level is reduced from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tgp.kernels.array_types import Array
from tgp.ragged import BlockCSR, EdgeList, GraphTable, Level
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import run_ids

__all__ = ["Groups", "InputEdges", "SoftColumns", "compose_members"]


EdgeRows = tuple[PtrArray, IndexArray, IndexArray, IndexArray, PtrArray, PtrArray, PtrArray, IndexArray]
"""First arguments of the kernels for edges: see :func:`tgp.kernels.carry.find_edges`."""


@dataclass(frozen=True, eq=False)
class SoftColumns:
    """Soft assignment of the input nodes.

    Args:
        entries: ``[N, W]`` float64, share of each node in the supernodes of its graph.
        graph: ``[N]`` graph of each node.
        super_ptr: ``[B + 1]`` first supernode of each graph.
    """

    entries: FloatArray
    graph: PtrArray
    super_ptr: PtrArray

    def __iter__(self) -> Iterator[tuple[PtrArray, FloatArray]]:
        """Yield the supernode and the share of each node, column by column. A share outside of the graph is 0."""
        base, width = self.super_ptr[self.graph], np.diff(self.super_ptr)[self.graph]
        for column in range(self.entries.shape[1]):
            inside = column < width
            yield np.where(inside, base + column, -1), np.where(inside, self.entries[:, column], 0.0)


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows of the input graphs that belong to each supernode or coarse edge.

    Args:
        find: ``[M]`` int64, supernode or coarse edge of each row, or a function that returns them. They are -1 for a row that
            belongs to none. For a soft assignment it is the supernode with the largest entry.
        size: Number of supernodes or coarse edges.
        ptr: ``[B + 1]`` first supernode or coarse edge of each graph.
        soft: Entries of a soft assignment; ``None`` for other assignments.
        chosen: ``[size]`` row that represents each supernode; ``None`` for the first row.
        twin: ``[size]`` coarse edge that has the rows of each coarse edge: the last one of parallel coarse edges. ``None`` if
            there are no parallel ones.
        add: Function ``(values, mean) -> sums or means`` that is faster than adding by segment; ``None`` if there is none.
    """

    find: PtrArray | Callable[[], PtrArray]
    size: int
    ptr: PtrArray
    soft: SoftColumns | None = None
    chosen: PtrArray | None = None
    twin: PtrArray | None = None
    add: Callable[[Array, bool], Array] | None = None

    @cached_property
    def segment(self) -> PtrArray:
        """``[M]`` supernode or coarse edge of each row, -1 if it has none."""
        return self.find() if callable(self.find) else self.find

    @cached_property
    def rows(self) -> tuple[PtrArray, PtrArray]:
        """Offsets ``[size + 1]`` and rows ``[M]`` of the groups, in ascending order."""
        from tgp.kernels import carry as kernels

        ptr, order = np.zeros(self.size + 1, np.int64), np.empty(len(self.segment), np.int64)
        kernels.group_rows(self.segment, ptr, order)
        return ptr, order[: ptr[-1]]

    @cached_property
    def counts(self) -> PtrArray:
        """``[size]`` number of rows of each group."""
        return np.bincount(self.segment + 1, minlength=self.size + 1)[1:]

    @cached_property
    def first(self) -> PtrArray:
        """``[size]`` row that represents each group, or -1 for an empty one."""
        found = np.full(self.size, -1, np.int64)
        inside = np.flatnonzero(self.segment >= 0)[::-1]
        found[self.segment[inside]] = inside  # the smallest row is written last
        return found if self.chosen is None else np.where(self.chosen < 0, found, self.chosen)


def compose_members(before: Groups | None, level: Level) -> Groups:
    """Return the input nodes of the supernodes of a level.

    Args:
        before: Input nodes of the nodes that the level pools; ``None`` if these are the input nodes.
        level: The level.
    """
    given, size = level.assignment, level.assignment.num_supernodes
    if given.soft is not None or (before is not None and before.soft is not None):
        return _compose_soft(before, level)
    assert given.cluster is not None, "an assignment without 'soft' has clusters"
    cluster = given.cluster.astype(np.int64)
    segment = cluster if before is None else _take(cluster, before.segment, -1)
    chosen = None
    if given.representative is not None:
        chosen = given.representative.astype(np.int64)
        chosen = chosen if before is None else _take(before.first, chosen, -1)
    return Groups(segment, size, given.super_ptr, chosen=chosen)


def _compose_soft(before: Groups | None, level: Level) -> Groups:
    """Return the product of two assignments of which at least one is soft."""
    given, super_ptr = level.assignment, level.super_ptr
    if before is not None and before.soft is not None:
        graph = before.soft.graph
        entries = _multiply(before.soft, level)
    else:
        graph = run_ids(level.node_ptr)
        entries = np.asarray(given.soft, np.float64)
        if before is not None:
            graph = _take(graph, before.segment, 0)
            inside = before.segment >= 0
            pooled, entries = entries, np.zeros((len(graph), entries.shape[1]))
            entries[inside] = pooled[before.segment[inside]]
    largest = entries.max(axis=1, initial=0.0)
    best = entries.argmax(axis=1) if entries.shape[1] else np.zeros(len(entries), np.int64)
    segment = np.where(largest > 0.0, super_ptr[graph] + best, -1)
    return Groups(segment, given.num_supernodes, super_ptr, SoftColumns(entries, graph, super_ptr))


def _multiply(before: SoftColumns, level: Level) -> FloatArray:
    """Return the entries of the input nodes in the supernodes of a level whose nodes have soft members."""
    given, first = level.assignment, level.super_ptr[before.graph]
    width = int(np.diff(level.super_ptr).max(initial=0)) if given.soft is None else given.soft.shape[1]
    entries = np.zeros((len(first), width))
    for pooled, share in before:
        inside = np.flatnonzero((pooled >= 0) & (share != 0.0))
        if given.soft is not None:
            entries[inside] += share[inside, None] * given.soft[pooled[inside]]
            continue
        assert given.cluster is not None, "an assignment without 'soft' has clusters"
        target = given.cluster[pooled[inside]]
        inside, target = inside[target >= 0], target[target >= 0]
        entries[inside, target - first[inside]] += share[inside]
    return entries


def _take(values: Array, index: PtrArray, missing: int) -> Array:
    """Return ``values[index]``, and ``missing`` for negative indices."""
    return np.append(values, np.asarray(missing, values.dtype))[index]


@dataclass(frozen=True, eq=False)
class InputEdges:
    """Edges of the input graphs by source node.

    Args:
        indptr: ``[N + 1]`` offsets of the nodes.
        indices: ``[E]`` int32, target of each edge.
        order: ``[E]`` position of each edge in the table; ``None`` if they have the order of the table.
    """

    indptr: PtrArray
    indices: IndexArray
    order: PtrArray | None = None

    @classmethod
    def from_table(cls, table: GraphTable) -> InputEdges:
        """Return the edges of a table. Sorted edges are converted in one pass.

        Args:
            table: Input graphs.
        """
        from tgp.kernels import carry as kernels
        from tgp.kernels import local_ids

        field = table.fields["edge_index"]
        # The kernel reads 64-bit ids as two words, the lower one first.
        is_short = field.values.dtype == np.int32 or sys.byteorder == "big"
        dtype: Any = np.int32 if is_short else np.int64
        sources, targets = (np.require(row, dtype, ["C", "W"]) for row in field.values)
        indptr, indices = np.zeros(table.num_nodes + 1, np.int64), np.empty(len(targets), np.int32)
        rows, columns, words = sources.view(np.int32), targets.view(np.int32), sources.itemsize // 4
        if local_ids.join_rows(rows, columns, field.ptr, table.node_ptr, indptr, indices, words):
            return cls(indptr, indices)
        shift = np.repeat(table.node_ptr[:-1], np.diff(field.ptr))
        indptr[:], order = 0, np.empty(len(targets), np.int64)
        kernels.group_rows(sources + shift, indptr, order)
        return cls(indptr, (targets + shift)[order].astype(np.int32), order)

    @classmethod
    def from_level(cls, level: Level) -> InputEdges:
        """Return the edges of the coarse graphs of a level.

        Args:
            level: The level.
        """
        is_list = isinstance(level.coarse, EdgeList)  # it need not be sorted
        order = np.lexsort(level.edge_index[::-1]) if is_list else None
        return cls(level.block.indptr, level.block.indices, order)

    def map_to(self, level: Level) -> PtrArray:
        """Return the coarse edge of each edge, in the order of the table. Coarse edges count inside each graph.

        Args:
            level: Level that pools the graphs of these edges.
        """
        nodes = compose_members(None, level)
        found = self.groups(nodes, level).segment
        graph = np.searchsorted(level.edge_ptr, found, side="right") - 1
        return np.where(found < 0, -1, found - level.edge_ptr[graph])

    @cached_property
    def _columns(self) -> IndexArray:
        """Buffer of the kernels."""
        return np.empty(len(self.indices), np.int32)

    def groups(self, nodes: Groups, level: Level) -> Groups:
        """Return the input edges of the coarse edges of a level.

        Args:
            nodes: Input nodes of the supernodes of the level.
            level: The level.
        """
        block = level.block
        # The edge list of a level of rows is not needed here.
        rank, edge_ptr = None, block.edge_ptr
        twin = _parallel_edges(block)
        if isinstance(level.coarse, EdgeList):  # it need not be sorted
            edge_ptr = level.edge_ptr
            rank = np.lexsort(level.edge_index[::-1])
            if twin is not None:
                twin[rank] = rank[twin]

        def find() -> PtrArray:
            return self.find(nodes, block, rank)

        def add(values: Array, mean: bool) -> Array:
            return _add_edges(self._rows(nodes, block), nodes.size, values, mean)

        is_quick = self.order is None and rank is None
        return Groups(find, block.num_edges, edge_ptr, twin=twin, add=add if is_quick else None)

    def _rows(self, nodes: Groups, block: BlockCSR) -> EdgeRows:
        cluster = nodes.segment.astype(np.int32)
        edges = self.indptr, self.indices, cluster, self._columns
        return (*edges, *nodes.rows, block.indptr, block.indices)

    def find(self, nodes: Groups, block: BlockCSR, rank: PtrArray | None = None) -> PtrArray:
        """Return the coarse edge of each input edge, in the order of the table, or -1.

        Args:
            nodes: Input nodes of the supernodes.
            block: Coarse graphs.
            rank: Number of each coarse edge; its position if ``None``.
        """
        from tgp.kernels import carry as kernels

        given, size = self._rows(nodes, block), nodes.size
        found = np.full(len(self.indices), -1, np.int64)
        kernels.find_edges(*given, _make_slots(given, size), found)
        if rank is not None:
            found = _take(rank, found, -1)
        if self.order is not None:
            sorted_found, found = found, np.empty_like(found)
            found[self.order] = sorted_found
        return found


def _add_edges(given: EdgeRows, size: int, values: Array, mean: bool) -> Array:
    """Return the sums or means of the edges of each coarse edge, ``[coarse edges, D]``."""
    from tgp.kernels import carry as kernels

    coarse_ptr, coarse = given[-2:]
    longest = int(np.diff(coarse_ptr).max(initial=0)) + 1
    out = np.empty((len(coarse), values.shape[1]), values.dtype)
    total, count = np.empty(longest * values.shape[1]), np.empty(longest, np.int64)
    kernels.sum_edges(*given, _make_slots(given, size), values, mean, total, count, out)
    return out


def _make_slots(given: EdgeRows, size: int) -> Array:
    """Return a buffer of the kernels: -1 for each supernode, in the smallest type that holds the number of coarse edges."""
    return np.full(size, -1, np.int32 if len(given[-1]) <= np.iinfo(np.int32).max else np.int64)


def _parallel_edges(block: BlockCSR) -> PtrArray | None:
    """Return the last one of the edges that are parallel to each edge, or ``None`` if there are no parallel edges."""
    equal = block.indices[1:] == block.indices[:-1]
    if not equal.any():
        return None
    rows = block.rows()
    last = np.flatnonzero(np.append(~(equal & (rows[1:] == rows[:-1])), True))
    return None if len(last) == block.num_edges else last[np.searchsorted(last, np.arange(block.num_edges))]
