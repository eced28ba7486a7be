"""``BlockCSR``: thousands of graphs as one block-diagonal sparse matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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

_DTYPES = {"indptr": "int64", "indices": "int32", "weight": "float64", "node_ptr": "int64"}

_NO_WEIGHT: FloatArray = np.empty(0)
"""What kernels get in place of absent weights."""


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

    @cached_property
    def symmetry(self) -> npt.NDArray[np.int8]:
        """``[B]`` whether the edges of each graph run both ways: a code of :mod:`tgp.kernels.mis`."""
        from tgp.kernels import mis

        finding = np.empty(self.num_graphs, np.int8)
        mis.check_symmetry(self.indptr, self.indices, self.node_ptr, finding)
        return finding

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
        edges = _own(_edge_list(edge_index), np.int64)
        values = _weights(weight, edges.shape[1])
        ptr = _graph_offsets(node_ptr, num_nodes, edges)
        _check_edges(edges, ptr)
        return cls._sorted(edges, values, ptr)

    @classmethod
    def from_local_edges(
        cls,
        edge_index: npt.ArrayLike,
        edge_ptr: npt.ArrayLike,
        weight: npt.ArrayLike | None = None,
        *,
        node_ptr: npt.ArrayLike,
    ) -> BlockCSR:
        """:meth:`from_edge_index` for ids that are local to their graphs, given graph after graph.

        Args:
            edge_index: ``[2, E]`` integers. Edges in order (by source, then target) are taken in one pass.
            edge_ptr: ``[B + 1]`` offsets of the edges of each graph.
            weight: ``[E]`` or ``[E, 1]`` finite numbers, or ``None``.
            node_ptr: ``[B + 1]`` offsets of the graphs.
        """
        from tgp.kernels import local_ids as local

        edges = _edge_list(edge_index)
        ptr = _graph_offsets(node_ptr, None, edges)
        cuts = _own(np.asarray(edge_ptr), np.int64)
        if cuts.shape != ptr.shape or cuts[0] != 0 or cuts[-1] != edges.shape[1] or (np.diff(cuts) < 0).any():
            raise InputError(
                f"edge_ptr must hold {len(ptr)} offsets that start at 0, never fall, and end at {edges.shape[1]}",
                field="edge_ptr",
            )
        indptr, indices = np.empty(ptr[-1] + 1, np.int64), np.empty(edges.shape[1], np.int32)
        if local.join_rows(edges[0], edges[1], cuts, ptr, indptr, indices):
            values = _weights(weight, edges.shape[1])
            return cls(indptr, indices, None if values is None else values.copy(), ptr)
        counts = np.diff(cuts)
        block = cls.from_edge_index(edges + np.repeat(ptr[:-1], counts), weight, node_ptr=ptr)
        # Both ends may lie in one other graph: as block ids they are good.
        wrong = ((edges < 0) | (edges >= np.repeat(np.diff(ptr), counts))).any(axis=0)
        if wrong.any():
            position = int(np.argmax(wrong))
            raise InputError(
                f"an edge must stay inside its graph, got {edges[0, position]} -> {edges[1, position]} "
                f"in ids of its graph (edge {position})",
                field="edge_index",
            )
        return block

    @classmethod
    def _sorted(cls, edges: npt.NDArray[np.int64], values: FloatArray | None, ptr: PtrArray) -> BlockCSR:
        from tgp.kernels import csr

        given = _NO_WEIGHT if values is None else values
        indptr, indices, weight = csr.build_rows(edges[0], edges[1], given, values is not None, int(ptr[-1]))
        return cls(indptr, indices, None if values is None else weight, ptr)

    def rows(self) -> IndexArray:
        """``[nnz]`` source node of each entry."""
        from tgp.kernels import csr

        rows: IndexArray = csr.row_ids(self.indptr)
        return rows

    def edge_index(self) -> npt.NDArray[np.int64]:
        """``[2, nnz]`` int64 edge list in block ids, row-major."""
        return np.stack([self.rows(), self.indices]).astype(np.int64)

    def weights_or_ones(self) -> FloatArray:
        """The weights, or ones for an unweighted block."""
        return np.ones(self.num_edges) if self.weight is None else self.weight

    def arrays(self) -> tuple[PtrArray, IndexArray, FloatArray, bool]:
        """``(indptr, indices, weight, weighted)`` as kernels take them: an empty array for no weights."""
        if self.weight is None:
            return self.indptr, self.indices, _NO_WEIGHT, False
        return self.indptr, self.indices, self.weight, True

    def graph_of_node(self) -> PtrArray:
        """``[N]`` graph id of each node."""
        return np.repeat(np.arange(self.num_graphs, dtype=np.int64), np.diff(self.node_ptr))

    def take(self, graphs: Sequence[int] | npt.NDArray[np.integer[Any]]) -> BlockCSR:
        """The block of the given graphs, in the given order."""
        from tgp.kernels import csr

        ids = np.ascontiguousarray(graphs, dtype=np.int64)
        if ids.size and (ids.min() < 0 or ids.max() >= self.num_graphs):
            raise InputError(
                f"graph ids must lie in [0, {self.num_graphs}), got {ids.min()}..{ids.max()}", field="graphs"
            )
        indptr, indices, weight, node_ptr = csr.take_graphs(*self.arrays(), self.node_ptr, ids)
        return BlockCSR(indptr, indices, None if self.weight is None else weight, node_ptr)

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
            np.concatenate(
                [[0], *(b.indptr[1:] + e for b, e in zip(blocks, edge_start, strict=False))]
            ).astype(np.int64),
            np.concatenate([b.indices + n for b, n in zip(blocks, node_start, strict=False)]).astype(
                np.int32
            ),
            np.concatenate([b.weights_or_ones() for b in blocks]) if weighted else None,
            np.concatenate(
                [[0], *(b.node_ptr[1:] + n for b, n in zip(blocks, node_start, strict=False))]
            ).astype(np.int64),
        )

    def validate(self) -> BlockCSR:
        """Check every invariant; returns ``self``."""
        for name, dtype in _DTYPES.items():
            array = getattr(self, name)
            if array is not None and (array.dtype != dtype or array.ndim != 1):
                raise InputError(
                    f"{name} must be a vector of {dtype}, got {array.ndim}-d {array.dtype}", field=name
                )
        if self.indptr[0] != 0 or self.indptr[-1] != len(self.indices) or (np.diff(self.indptr) < 0).any():
            raise InputError(
                "indptr must start at 0, never fall, and end at the number of edges", field="indptr"
            )
        if self.node_ptr[0] != 0 or self.node_ptr[-1] != self.num_nodes or (np.diff(self.node_ptr) < 0).any():
            raise InputError(
                "node_ptr must start at 0, never fall, and end at the number of nodes", field="node_ptr"
            )
        _weights(self.weight, self.num_edges)
        edges = self.edge_index()
        _check_edges(edges, self.node_ptr)
        keys = edges[0] * max(self.num_nodes, 1) + edges[1]
        if (np.diff(keys) < 0).any():
            raise InputError("entries must be sorted by row, then column", field="indices")
        return self


def _edge_list(edge_index: npt.ArrayLike) -> npt.NDArray[np.integer[Any]]:
    """Two rows of int32 or int64."""
    edges = np.asarray(edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise InputError(f"edge_index must have shape [2, E], got {list(edges.shape)}", field="edge_index")
    if edges.size and not np.issubdtype(edges.dtype, np.integer):
        raise InputError(f"edge_index must hold integers, got {edges.dtype}", field="edge_index")
    return _own(edges, np.int32 if edges.dtype == np.int32 else np.int64)


def _own(array: npt.NDArray[Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    """C-contiguous and writeable: numba compiles anew for read-only arrays."""
    out = np.ascontiguousarray(array, dtype=dtype)
    return out if out.flags.writeable else out.copy()


def _weights(weight: npt.ArrayLike | None, num_edges: int) -> FloatArray | None:
    if weight is None:
        return None
    values = np.asarray(weight)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (num_edges,):
        raise InputError(
            f"edge_weight must hold {num_edges} values, got shape {list(values.shape)}", field="edge_weight"
        )
    if values.dtype.kind not in "fiub":
        raise InputError(f"edge_weight must hold numbers, got {values.dtype}", field="edge_weight")
    values = _own(values, np.float64)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(f"edge_weight must be finite, got {values[bad]} at edge {bad}", field="edge_weight")
    return values


def _graph_offsets(
    node_ptr: npt.ArrayLike | None, num_nodes: int | None, edges: npt.NDArray[np.integer[Any]]
) -> PtrArray:
    if node_ptr is None:
        inferred = int(edges.max()) + 1 if edges.size else 0
        count = inferred if num_nodes is None else int(num_nodes)
        if count < 0:
            raise InputError(f"num_nodes must not be negative, got {count}", field="num_nodes")
        ptr = np.array([0, count], dtype=np.int64)
    else:
        given = np.asarray(node_ptr)
        if given.size and given.dtype.kind not in "iu":
            raise InputError(f"node_ptr must hold integers, got {given.dtype}", field="node_ptr")
        ptr = given.astype(np.int64)
        if ptr.ndim != 1 or len(ptr) == 0 or ptr[0] != 0 or (np.diff(ptr) < 0).any():
            raise InputError("node_ptr must be a vector that starts at 0 and never falls", field="node_ptr")
    if ptr[-1] > MAX_NODES:
        raise InputError(
            f"a block holds at most {MAX_NODES} nodes, got {ptr[-1]}: split it", field="node_ptr"
        )
    return ptr


def _check_edges(edges: npt.NDArray[np.int64], node_ptr: PtrArray) -> None:
    """Ids in range, and no edge between graphs."""
    from tgp.kernels import csr

    finding, position = csr.check_edges(edges[0], edges[1], node_ptr)
    if finding == 0:
        return
    s, t = int(edges[0, position]), int(edges[1, position])
    if finding == csr.CROSSING:
        g, h = np.searchsorted(node_ptr, [s, t], side="right") - 1
        raise InputError(
            f"an edge must stay inside its graph, got {s} -> {t} between graphs {g} and {h} (edge {position})",
            field="edge_index",
        )
    bad = s if finding == csr.BAD_ROW else t
    raise InputError(
        f"edge_index must hold ids in [0, {node_ptr[-1]}), got {bad} at edge {position}", field="edge_index"
    )
