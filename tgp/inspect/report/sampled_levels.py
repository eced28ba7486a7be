"""Read the surroundings of some nodes of a large graph at all of its levels, without reading the graph.

Edges are read by rows from mapped files. Memory holds the number of members of each supernode and blocks of the assignments.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.inspect.report.level_graphs import (
    LevelGraph,
    Neighbourhood,
    choose_supernode,
    grow_nodes,
    largest_owners,
    usable_positions,
)
from tgp.kernels.array_types import LongArray
from tgp.store import StoreReader
from tgp.store.read.mapped import MappedGraph, map_assignment, map_graph
from tgp.store.read.piece_array import PieceArray, StoredArray, find_in_rows, iter_blocks

__all__ = ["SampledLevels"]

_BLOCK = 1 << 18
"""Number of edges or nodes that are in memory at a time."""

_MOST_NEIGHBOURS = 1 << 14
"""Number of neighbours of a node from which a neighbourhood grows. A hub has more; they are not all needed."""


class SampledLevels:
    """All levels of one large graph in one hierarchy.

    Args:
        reader: store of the ``fast`` profile.
        graph: id of the graph.
        hierarchy: name of the hierarchy.
    """

    def __init__(self, reader: StoreReader, graph: int, hierarchy: str) -> None:
        self.reader, self.graph, self.hierarchy = reader, graph, hierarchy
        self.methods = ["input", *(level.method for level in reader.hierarchies[hierarchy].levels)]
        sizes = [reader.sizes(hierarchy, level) for level in range(len(self.methods))]
        self.reason: str | None = None
        self.sizes, self.num_edges = (
            [int(part[graph]) for part in parts] for parts in zip(*sizes, strict=True)
        )
        if 0 in self.sizes:
            self.reason = next((f.reason for f in reader.failures(hierarchy) if f.graph == graph), None)
            depth = self.sizes.index(0) + (self.reason is None)
            self.sizes, self.num_edges = self.sizes[:depth], self.num_edges[:depth]
        self._maps: dict[int, MappedGraph] = {}
        self._is_sorted: dict[int, bool] = {}

    @cached_property
    def members(self) -> list[LongArray]:
        """Number of input nodes that each supernode of a level stands for; level 1 first."""
        found: list[LongArray] = []
        for level, size in enumerate(self.sizes[1:]):
            counts = np.zeros(size, np.int64)
            for low in range(0, self.sizes[level], _BLOCK):
                rows = slice(low, min(low + _BLOCK, self.sizes[level]))
                owner, _ = self.owners(level, rows)
                kept = owner >= 0
                np.add.at(counts, owner[kept], found[-1][rows][kept] if found else 1)
            found.append(counts)
        return found

    def owners(self, level: int, nodes: Any) -> tuple[LongArray, npt.NDArray[np.float64]]:
        """Return the supernode at the next level of some nodes, -1 if they were dropped, and the share that belongs to it.

        Args:
            level: level of the nodes.
            nodes: slice or array of nodes.
        """
        soft = self.reader.hierarchies[self.hierarchy].levels[level].kind == "soft"
        name = "soft" if soft else "cluster"
        rows = map_assignment(self.reader, self.graph, self.hierarchy, level + 1, name)
        size = self.sizes[level + 1]
        if rows is None:
            count = len(np.arange(self.sizes[level])[nodes])
            return np.full(count, -1), np.ones(count)
        if soft:
            owner, share = largest_owners(rows.take(nodes))
            owner[owner >= size] = -1
            return owner, share
        owner = rows.take(nodes)
        rows.part.check_ids(rows.path, owner, -1, size)
        return owner, np.ones(len(owner))

    def choose_neighbourhood(self, deepest: int, size: int) -> Neighbourhood:
        """Choose the part of the graph that is drawn, see :func:`tgp.inspect.report.level_graphs.choose_neighbourhood`.

        Differently from there, edges are followed in their direction, and the neighbourhood lies around the source of the edge in the middle
        of the list of edges if no supernode is small enough.

        Args:
            deepest: coarsest level to choose the supernode from.
            size: number of nodes to choose.
        """
        level, supernode = choose_supernode(self.members[:deepest], size)
        if supernode < 0:
            source, _ = self._map(0).edge_index()
            middle = self.num_edges[0] // 2
            centre = int(np.asarray(source[middle : middle + 1])[0])
            return Neighbourhood(grow_nodes(np.array([centre]), size, self._neighbours), centre)
        core = np.array([supernode])
        for finer in range(level - 1, -1, -1):
            core = self._members_of(finer, core)
        degree = np.zeros(len(core), np.int64)
        for source, _, _ in self._rows(0, core):
            np.add.at(degree, np.searchsorted(core, source), 1)
        centre = int(core[degree.argmax()])
        return Neighbourhood(
            grow_nodes(core, size, self._neighbours), centre, self.hierarchy, level, supernode
        )

    def read_part(self, start: int, nodes: LongArray) -> tuple[list[LevelGraph], list[LongArray]]:
        """Read some nodes of a level, their supernodes at all coarser levels, and the edges between them.

        Args:
            start: first level.
            nodes: nodes of this level, ascending.

        Returns:
            The graphs, whose nodes count from 0 at each level, and the ids of their nodes in the whole graph.
        """
        chain, ids = [], []
        for level in range(start, len(self.sizes)):
            ends, weight = self._edges_between(level, nodes)
            members = self.members[level - 1][nodes] if level else np.ones(len(nodes), np.int64)
            ids.append(nodes)
            owner = share = None
            pos = self._positions(level, nodes)
            if level + 1 < len(self.sizes):
                target, share = self.owners(level, nodes)
                share = np.nan_to_num(share.astype(np.float64))
                nodes = np.unique(target[target >= 0])
                owner = np.where(target >= 0, np.searchsorted(nodes, target), -1)
            chain.append(LevelGraph(self.methods[level], members, ends, weight, owner, share, pos))
        return chain, ids

    def _map(self, level: int) -> MappedGraph:
        if level not in self._maps:
            self._maps[level] = map_graph(self.reader, self.graph, self.hierarchy, level)
        return self._maps[level]

    def _positions(self, level: int, nodes: LongArray) -> npt.NDArray[np.float64] | None:
        levels = [info for h in self.reader.hierarchies.values() for info in h.levels]
        rows = self._map(level).nodes.get("pos")
        if rows is None or not any(field.name == "pos" for info in levels for field in info.fields):
            return None
        return usable_positions(rows.take(nodes), len(nodes))

    def _members_of(self, level: int, supernodes: LongArray) -> LongArray:
        """Return the nodes of a level in some supernodes of the next one."""
        found = []
        for low in range(0, self.sizes[level], _BLOCK):
            owner, _ = self.owners(level, slice(low, low + _BLOCK))
            found.append(low + np.flatnonzero(np.isin(owner, supernodes)))
        return np.concatenate(found)

    def _neighbours(self, nodes: LongArray) -> LongArray:
        """Return the neighbours of input nodes, once for each link, but only some of nodes with very many."""
        reached = [target for _, target, _ in self._rows(0, nodes, _MOST_NEIGHBOURS)]
        return np.concatenate([np.zeros(0, np.int64), *reached])

    def _edges_between(self, level: int, nodes: LongArray) -> tuple[LongArray, npt.NDArray[Any] | None]:
        """Return the edges between some nodes as positions in ``nodes``, and their weights."""
        ends, numbers = [np.zeros((2, 0), np.int64)], [np.zeros(0, np.int64)]
        for source, target, number in self._rows(level, nodes):
            kept = np.isin(target, nodes)
            ends.append(np.searchsorted(nodes, np.stack([source[kept], target[kept]])))
            numbers.append(number[kept])
        weight = self._map(level).edges.get("edge_weight")
        edges = np.concatenate(ends, axis=1)
        if weight is None or np.prod(weight.shape[1:]) != 1:
            return edges, None
        return edges, weight.take(np.concatenate(numbers)).reshape(-1)

    def _rows(
        self, level: int, nodes: LongArray, most: int | None = None
    ) -> Iterator[tuple[LongArray, LongArray, LongArray]]:
        """Yield sources, targets and numbers of the edges that start at some nodes, in blocks.

        Args:
            level: level of the nodes.
            nodes: nodes, ascending.
            most: number of edges that are needed of each node; all if ``None``.
        """
        source, target = self._map(level).edge_index()
        if not self._has_rows(level, source):
            for low, block in iter_blocks(source, _BLOCK):
                number = np.flatnonzero(np.isin(block, nodes))
                ends = np.asarray(target[low : low + len(block)])[number]
                yield block[number].astype(np.int64), self._checked(level, ends), low + number
            return
        starts, stops = (
            find_in_rows(source, np.zeros_like(nodes), np.full_like(nodes, len(source)), value)
            for value in (nodes, nodes + 1)
        )
        for node, start, stop in zip(nodes.tolist(), starts.tolist(), stops.tolist(), strict=True):
            end = stop if most is None else min(stop, start + most)
            for low in range(start, end, _BLOCK):
                number = np.arange(low, min(low + _BLOCK, end))
                ends = self._checked(level, np.asarray(target[low : low + len(number)]))
                yield np.full(len(number), node), ends, number

    def _checked(self, level: int, ends: npt.NDArray[Any]) -> LongArray:
        """Return ids of nodes that were read as ``int64``."""
        graph = self._map(level)
        graph.part.check_ids(graph.edge_path, ends, 0, graph.num_nodes)
        return ends.astype(np.int64)

    def _has_rows(self, level: int, source: StoredArray) -> bool:
        """Return True if edges are sorted by source. Those of several files are."""
        if level not in self._is_sorted:
            blocks = () if isinstance(source, PieceArray) else iter_blocks(source, _BLOCK)
            self._is_sorted[level] = all(
                (block[1:] >= block[:-1]).all() and block[0] >= source[max(low - 1, 0)]
                for low, block in blocks
            )
        return self._is_sorted[level]
