"""Edges of one mapped graph by row: neighbours of nodes without loading the edges.

A pass over the edges in pieces counts the neighbours of each node, checks the ids, and finds out how the edges are sorted. If they are
sorted as needed, neighbours are read from the file of the store. Otherwise a sorted copy is written to an unnamed scratch file that is
mapped, too. Memory holds a few numbers per node.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tgp.kernels.array_types import Array, LongArray
from tgp.ragged.offsets import offsets
from tgp.store.read.mapped import MappedGraph
from tgp.store.read.piece_array import PieceArray, StoredArray, find_in_rows

__all__ = ["MappedEdges", "Rows"]


_PIECE = 1 << 20
"""Number of edges that are in memory at a time."""


@dataclass(frozen=True)
class Rows:
    """Neighbours of every node.

    Args:
        ptr: ``[N + 1]`` offsets of the neighbours of each node.
        ids: ``[E]`` neighbours, mapped.
        perm: ``[E]`` number of each edge in the store, mapped; ``None`` if the numbers are the positions.
        is_reversed: The rows hold the targets of edges instead of the sources. The edges of the graph are symmetric.
    """

    ptr: LongArray
    ids: StoredArray
    perm: Array | None = None
    is_reversed: bool = False

    def edge_ids(self, position: LongArray, node: LongArray) -> LongArray:
        """Return the number in the store of the edges from neighbours to nodes.

        Args:
            position: Positions of neighbours in ``ids``.
            node: Node in whose row each of them is.
        """
        if self.perm is not None:
            return np.asarray(self.perm[position], np.int64)
        if not self.is_reversed:
            return position
        row = self.ids[position].astype(np.int64)
        return find_in_rows(self.ids, self.ptr[row], self.ptr[row + 1], node)


class MappedEdges:
    """Edges of a mapped graph.

    Args:
        graph: Mapped graph.
        scratch: Directory of scratch files; that of the system if ``None``.
    """

    def __init__(self, graph: MappedGraph, scratch: str | None = None) -> None:
        self.graph, self.scratch = graph, scratch
        self.num_nodes, self.num_edges = graph.num_nodes, graph.edge_rows[1] - graph.edge_rows[0]

    @cached_property
    def neighbors(self) -> Rows:
        """Sources of the edges to each node, from the file of the store if possible."""
        scan = self._scan
        if scan.is_symmetric and not scan.is_sorted[1]:
            return Rows(offsets(scan.counts[0]), self.graph.edge_index()[1], is_reversed=True)
        return self._by_end(1)

    def coo(self) -> Array:
        """Return a mapped copy of all edges, ``[2, E]`` of ``int64``."""
        self._scan  # noqa: B018  checks the ids
        edges = self._file((2, self.num_edges))
        for low, source, target in self._pieces():
            edges[:, low : low + len(source)] = source, target
        return edges

    def compressed(self, end: int) -> Rows:
        """Return the edges by one of their ends, with neighbours of type ``int64`` for PyG.

        Args:
            end: 0 for rows of sources (CSR), 1 for rows of targets (CSC).
        """
        rows = self._by_end(end)
        if rows.ids.dtype == np.int64 and not isinstance(rows.ids, PieceArray):
            return rows
        ids = self._file((self.num_edges,))
        for low, *ends in self._pieces():
            ids[low : low + len(ends[0])] = ends[1 - end]
        return Rows(rows.ptr, ids)

    def _by_end(self, end: int) -> Rows:
        """Return the edges by one of their ends: in the order of the store if that is sorted, else sorted by a count."""
        ptr = offsets(self._scan.counts[end])
        if self._scan.is_sorted[end]:
            return Rows(ptr, self.graph.edge_index()[1 - end])
        ids, perm = self._file((self.num_edges,)), self._file((self.num_edges,))
        place = ptr[:-1].copy()
        for low, *ends in self._pieces():
            order = np.argsort(ends[end], kind="stable")
            key = ends[end][order]
            first = np.flatnonzero(np.diff(key, prepend=-1))
            count = np.diff(first, append=len(key))
            position = place[key] + np.arange(len(key)) - np.repeat(first, count)
            ids[position], perm[position] = ends[1 - end][order], low + order
            place[key[first]] += count
        return Rows(ptr, ids, perm)

    @cached_property
    def _scan(self) -> _Scan:
        scan, last = _Scan(self.num_nodes), (-1, -1)
        for _, source, target in self._pieces():
            for ids in (source, target):
                self.graph.part.check_ids(self.graph.edge_path, ids, 0, self.num_nodes)
            scan.add(source, target, last)
            last = int(source[-1]), int(target[-1])
        return scan

    def _pieces(self) -> Iterator[tuple[int, LongArray, LongArray]]:
        """Yield the first number, the sources and the targets of pieces of the edges."""
        source, target = self.graph.edge_index()
        for low in range(0, self.num_edges, _PIECE):
            piece = slice(low, low + _PIECE)
            yield low, source[piece].astype(np.int64), target[piece].astype(np.int64)

    def _file(self, shape: tuple[int, ...]) -> Array:
        """Return a mapped array over an unnamed file, which disappears with the array."""
        if not np.prod(shape):
            return np.zeros(shape, np.int64)
        with tempfile.TemporaryFile(dir=self.scratch) as file:
            return np.memmap(file, np.int64, "w+", shape=shape)


class _Scan:
    """Facts about the edges after one pass.

    Args:
        num_nodes: Number of nodes.
    """

    def __init__(self, num_nodes: int) -> None:
        self.counts = np.zeros((2, num_nodes), np.int64)
        self.is_sorted = [True, True]
        self._is_ascending, self._balance = True, 0

    def add(self, source: LongArray, target: LongArray, last: tuple[int, int]) -> None:
        """Add a piece of the edges that follows the edge ``last``."""
        for end, ids in enumerate((source, target)):
            np.add.at(self.counts[end], ids, 1)
            self.is_sorted[end] &= bool((np.diff(ids, prepend=last[end]) >= 0).all())
        if self._is_ascending:
            step, inner = np.diff(source, prepend=last[0]), np.diff(target, prepend=last[1])
            self._is_ascending = bool(((step > 0) | ((step == 0) & (inner > 0))).all())
            balance = int(_hash(source, target).sum()) - int(_hash(target, source).sum())
            self._balance = (self._balance + balance) % 2**64

    @property
    def is_symmetric(self) -> bool:
        """True if edges are sorted by source and target without duplicates and each has its reverse.

        The sums of the hashes of all edges and of all reversed edges are equal (decision 1401 does the same).
        """
        return self._is_ascending and self._balance == 0


def _hash(first: LongArray, second: LongArray) -> npt.NDArray[np.uint64]:
    """Return a mixed number of each ordered pair."""
    mixed = first.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + second.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    result: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result
