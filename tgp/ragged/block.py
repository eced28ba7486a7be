"""``BlockCSR``: thousands of graphs as one block-diagonal sparse matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError

__all__ = ["BlockCSR", "FloatArray", "IndexArray", "PtrArray"]

PtrArray = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]

MAX_NODES = 2**31 - 1
"""Node ids inside a block are 32 bit: half the memory traffic in every kernel."""


@dataclass(frozen=True, eq=False)
class BlockCSR:
    """A block of graphs in compressed sparse row form.

    Row ``i`` holds the out-edges of node ``i``, sorted by target (stable: parallel edges keep
    their order). Parallel edges and self loops are legal and kept. Node ids are those of the block; graph ``g``
    owns nodes ``node_ptr[g]:node_ptr[g + 1]``, and no edge leaves its graph.

    Args:
        indptr: ``[N + 1]`` int64, start of each row.
        indices: ``[nnz]`` int32, target node (block id) of each edge.
        weight: ``[nnz]`` float64, or ``None`` for an unweighted block. Unweighted is a fact
            worth keeping: an unweighted graph stays unweighted through contraction.
        node_ptr: ``[B + 1]`` int64, start of each graph.
    """

    indptr: PtrArray
    indices: IndexArray
    weight: FloatArray | None
    node_ptr: PtrArray

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Stored (directed) entries."""
        return len(self.indices)

    @property
    def num_graphs(self) -> int:
        return len(self.node_ptr) - 1

    @property
    def edge_ptr(self) -> PtrArray:
        """``[B + 1]`` int64, start of each graph's entries in ``indices``."""
        return self.indptr[self.node_ptr]

    def __repr__(self) -> str:
        kind = "unweighted" if self.weight is None else "weighted"
        return f"BlockCSR(graphs={self.num_graphs}, nodes={self.num_nodes}, edges={self.num_edges}, {kind})"

    @classmethod
    def from_edge_index(
        cls,
        edge_index: npt.ArrayLike,
        weight: npt.ArrayLike | None = None,
        *,
        node_ptr: npt.ArrayLike | None = None,
        num_nodes: int | None = None,
    ) -> BlockCSR:
        """Build from an edge list in block ids, checking everything.

        Args:
            edge_index: ``[2, E]`` integers, in any order.
            weight: ``[E]`` or ``[E, 1]`` finite numbers, or ``None``.
            node_ptr: ``[B + 1]`` offsets of the graphs; one graph if absent.
            num_nodes: number of nodes when ``node_ptr`` is absent; default largest id + 1.
        """
        edges = _edge_list(edge_index)
        values = _weights(weight, edges.shape[1])
        ptr = _graph_offsets(node_ptr, num_nodes, edges)
        total = int(ptr[-1])
        _check_ids(edges, total)
        _check_inside_graphs(edges, ptr)
        return cls._sorted(edges, values, ptr)

    @classmethod
    def _sorted(cls, edges: npt.NDArray[np.int64], values: FloatArray | None, ptr: PtrArray) -> BlockCSR:
        from tgp.kernels import csr

        indptr, order = csr.sort_edges(edges[0], edges[1], int(ptr[-1]))
        return cls(
            indptr,
            edges[1][order].astype(np.int32),
            None if values is None else values[order],
            ptr,
        )

    def rows(self) -> IndexArray:
        """``[nnz]`` source node of each entry."""
        return np.repeat(np.arange(self.num_nodes, dtype=np.int32), np.diff(self.indptr))

    def edge_index(self) -> npt.NDArray[np.int64]:
        """``[2, nnz]`` int64 edge list in block ids, row-major."""
        return np.stack([self.rows(), self.indices]).astype(np.int64)

    def weights_or_ones(self) -> FloatArray:
        """The weights, or ones for an unweighted block."""
        return np.ones(self.num_edges) if self.weight is None else self.weight

    def graph_of_node(self) -> PtrArray:
        """``[N]`` graph id of each node."""
        return np.repeat(np.arange(self.num_graphs, dtype=np.int64), np.diff(self.node_ptr))

    def take(self, graphs: Sequence[int] | npt.NDArray[np.integer[Any]]) -> BlockCSR:
        """The block of the given graphs, in the given order."""
        ids = np.asarray(graphs, dtype=np.int64)
        if ids.size and (ids.min() < 0 or ids.max() >= self.num_graphs):
            raise InputError(f"graph ids must lie in [0, {self.num_graphs}), got {ids.min()}..{ids.max()}", field="graphs")
        counts = np.diff(self.node_ptr)[ids]
        node_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        shift = node_ptr[:-1] - self.node_ptr[ids]
        nodes = np.arange(node_ptr[-1]) - np.repeat(shift, counts)
        degree = np.diff(self.indptr)[nodes]
        indptr = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
        entries = np.arange(indptr[-1]) - np.repeat(indptr[:-1] - self.indptr[nodes], degree)
        edge_counts = np.diff(self.edge_ptr)[ids]
        indices = self.indices[entries] + np.repeat(shift, edge_counts)
        return BlockCSR(
            indptr,
            indices.astype(np.int32),
            None if self.weight is None else self.weight[entries],
            node_ptr,
        )

    def split(self) -> list[BlockCSR]:
        """One block per graph."""
        return [self.take([g]) for g in range(self.num_graphs)]

    @classmethod
    def concat(cls, blocks: Sequence[BlockCSR]) -> BlockCSR:
        """Several blocks behind one another; weighted if any of them is."""
        if not blocks:
            return cls(np.zeros(1, np.int64), np.zeros(0, np.int32), None, np.zeros(1, np.int64))
        weighted = any(b.weight is not None for b in blocks)
        node_start = np.concatenate([[0], np.cumsum([b.num_nodes for b in blocks])])
        edge_start = np.concatenate([[0], np.cumsum([b.num_edges for b in blocks])])
        return cls(
            np.concatenate([[0], *(b.indptr[1:] + e for b, e in zip(blocks, edge_start, strict=False))]).astype(np.int64),
            np.concatenate([b.indices + n for b, n in zip(blocks, node_start, strict=False)]).astype(np.int32),
            np.concatenate([b.weights_or_ones() for b in blocks]) if weighted else None,
            np.concatenate([[0], *(b.node_ptr[1:] + n for b, n in zip(blocks, node_start, strict=False))]).astype(np.int64),
        )

    def validate(self) -> BlockCSR:
        """Check every invariant; returns ``self``."""
        if self.indptr[0] != 0 or self.indptr[-1] != len(self.indices) or (np.diff(self.indptr) < 0).any():
            raise InputError("indptr must start at 0, never fall, and end at the number of edges", field="indptr")
        if self.node_ptr[0] != 0 or self.node_ptr[-1] != self.num_nodes or (np.diff(self.node_ptr) < 0).any():
            raise InputError("node_ptr must start at 0, never fall, and end at the number of nodes", field="node_ptr")
        _weights(self.weight, self.num_edges)
        edges = self.edge_index()
        _check_ids(edges, self.num_nodes)
        _check_inside_graphs(edges, self.node_ptr)
        keys = edges[0] * max(self.num_nodes, 1) + edges[1]
        if (np.diff(keys) < 0).any():
            raise InputError("entries must be sorted by row, then column", field="indices")
        return self


def _edge_list(edge_index: npt.ArrayLike) -> npt.NDArray[np.int64]:
    edges = np.asarray(edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise InputError(f"edge_index must have shape [2, E], got {list(edges.shape)}", field="edge_index")
    if edges.size and not np.issubdtype(edges.dtype, np.integer):
        raise InputError(f"edge_index must hold integers, got {edges.dtype}", field="edge_index")
    return np.ascontiguousarray(edges, dtype=np.int64)


def _weights(weight: npt.ArrayLike | None, num_edges: int) -> FloatArray | None:
    if weight is None:
        return None
    values = np.asarray(weight)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (num_edges,):
        raise InputError(f"edge_weight must hold {num_edges} values, got shape {list(values.shape)}", field="edge_weight")
    values = np.ascontiguousarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(f"edge_weight must be finite, got {values[bad]} at edge {bad}", field="edge_weight")
    return values


def _graph_offsets(
    node_ptr: npt.ArrayLike | None, num_nodes: int | None, edges: npt.NDArray[np.int64]
) -> PtrArray:
    if node_ptr is None:
        inferred = int(edges.max()) + 1 if edges.size else 0
        count = inferred if num_nodes is None else int(num_nodes)
        if count < 0:
            raise InputError(f"num_nodes must not be negative, got {count}", field="num_nodes")
        ptr = np.array([0, count], dtype=np.int64)
    else:
        ptr = np.ascontiguousarray(node_ptr, dtype=np.int64)
        if ptr.ndim != 1 or len(ptr) == 0 or ptr[0] != 0 or (np.diff(ptr) < 0).any():
            raise InputError("node_ptr must be a vector that starts at 0 and never falls", field="node_ptr")
    if ptr[-1] > MAX_NODES:
        raise InputError(f"a block holds at most {MAX_NODES} nodes, got {ptr[-1]}: split it", field="node_ptr")
    return ptr


def _check_ids(edges: npt.NDArray[np.int64], num_nodes: int) -> None:
    if edges.size and (edges.min() < 0 or edges.max() >= num_nodes):
        bad = int(edges.min()) if edges.min() < 0 else int(edges.max())
        raise InputError(f"edge_index must hold ids in [0, {num_nodes}), got {bad}", field="edge_index")


def _check_inside_graphs(edges: npt.NDArray[np.int64], node_ptr: PtrArray) -> None:
    if len(node_ptr) <= 2 or edges.shape[1] == 0:
        return
    graph = np.repeat(np.arange(len(node_ptr) - 1), np.diff(node_ptr))
    crossing = np.flatnonzero(graph[edges[0]] != graph[edges[1]])
    if crossing.size:
        s, t = edges[:, crossing[0]]
        raise InputError(
            f"an edge must stay inside its graph, got {s} -> {t} between graphs {graph[s]} and {graph[t]}",
            field="edge_index",
        )
