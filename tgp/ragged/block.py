"""``BlockCSR``: many graphs as one block-diagonal sparse matrix."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.kernels.array_types import FloatArray, IndexArray, LongArray, PtrArray
from tgp.ragged.block_checks import (
    check_edge_list,
    check_edges,
    check_offsets,
    check_weights,
    make_node_ptr,
    make_writeable,
)
from tgp.ragged.node_attributes import NodeAttributes, RowArray, check_node_values
from tgp.ragged.offsets import offsets, run_ids

__all__ = ["BlockCSR", "FloatArray", "IndexArray", "PtrArray"]

_DTYPES = {"indptr": "int64", "indices": "int32", "weight": "float64", "node_ptr": "int64"}

_NO_WEIGHT: FloatArray = np.empty(0)
"""Array that kernels get for an unweighted block."""


@dataclass(frozen=True, eq=False)
class BlockCSR:
    """A block of graphs in compressed sparse row form.

    Row ``i`` contains the out-edges of node ``i``, sorted by target. The sort is stable, so parallel edges keep their
    order. Parallel edges and self loops are allowed. Node ids count through the whole block: graph ``g`` has the nodes
    ``node_ptr[g]:node_ptr[g + 1]``. No edge connects two graphs.

    Args:
        indptr: ``[N + 1]`` int64, offsets of the rows.
        indices: ``[nnz]`` int32, target node of each edge.
        weight: ``[nnz]`` float64, or ``None`` for an unweighted block. An unweighted block stays unweighted when it is
            contracted.
        node_ptr: ``[B + 1]`` int64, offsets of the graphs.
        attributes: Attributes of the nodes that level methods read; ``None`` if there are none. Kernels and contractions do
            not use them.

    Examples:
        >>> BlockCSR.from_edge_index([[0, 1, 2, 3], [1, 0, 3, 2]], node_ptr=[0, 2, 4])
        BlockCSR(graphs=2, nodes=4, edges=4, unweighted)
    """

    indptr: PtrArray
    indices: IndexArray
    weight: FloatArray | None
    node_ptr: PtrArray
    attributes: NodeAttributes | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Number of stored (directed) edges of all graphs."""
        return len(self.indices)

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self.node_ptr) - 1

    @property
    def edge_ptr(self) -> PtrArray:
        """``[B + 1]`` int64, offsets of the graphs in ``indices``."""
        return self.indptr[self.node_ptr]

    @cached_property
    def symmetry(self) -> npt.NDArray[np.int8]:
        """``[B]`` symmetry of the edges of each graph, a code of :mod:`tgp.kernels.mis`."""
        from tgp.kernels import mis

        symmetry = np.empty(self.num_graphs, np.int8)
        mis.check_symmetry(self.indptr, self.indices, self.node_ptr, self.indptr.copy(), symmetry)
        return symmetry

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
        """Build a block from an edge list whose ids count through the block.

        Args:
            edge_index: ``[2, E]`` integers, in any order.
            weight: ``[E]`` or ``[E, 1]`` finite numbers, or ``None``.
            node_ptr: ``[B + 1]`` offsets of the graphs. Without it the block has one graph.
            num_nodes: number of nodes if ``node_ptr`` is not given; default largest id + 1.

        Raises:
            InputError: if an array has the wrong type, shape or values, or an edge connects two graphs.
        """
        edges = make_writeable(check_edge_list(edge_index), np.int64)
        values = check_weights(weight, edges.shape[1])
        ptr = make_node_ptr(node_ptr, num_nodes, edges)
        check_edges(edges, ptr)
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
        """Build a block from an edge list whose ids count inside each graph.

        Args:
            edge_index: ``[2, E]`` integers, graph by graph. Sorted edges (by source, then target) are converted in one
                pass.
            edge_ptr: ``[B + 1]`` offsets of the edges of each graph.
            weight: ``[E]`` or ``[E, 1]`` finite numbers, or ``None``.
            node_ptr: ``[B + 1]`` offsets of the graphs.

        Raises:
            InputError: if an array has the wrong type, shape or values.
        """
        from tgp.kernels import local_ids as local

        given = check_edge_list(edge_index)
        # The rows of a slice of a long edge list are contiguous, the slice is not: convert one row at a time.
        dtype = np.int32 if given.dtype == np.int32 or sys.byteorder == "big" else np.int64
        sources, targets = make_writeable(given[0], dtype), make_writeable(given[1], dtype)
        ptr = make_node_ptr(node_ptr, None, given)
        edge_starts = make_writeable(np.asarray(edge_ptr), np.int64)
        check_offsets("edge_ptr", edge_starts, len(ptr), given.shape[1])
        indptr, indices = np.empty(ptr[-1] + 1, np.int64), np.empty(given.shape[1], np.int32)
        words = sources.dtype.itemsize // 4
        if local.join_rows(
            sources.view(np.int32), targets.view(np.int32), edge_starts, ptr, indptr, indices, words
        ):
            values = check_weights(weight, given.shape[1])
            return cls(indptr, indices, None if values is None else values.copy(), ptr)
        counts, edges = np.diff(edge_starts), np.stack([sources, targets])
        block = cls.from_edge_index(edges + np.repeat(ptr[:-1], counts), weight, node_ptr=ptr)
        # Both ends of an edge can be in one other graph. Its ids are then valid in the block, but not in its graph.
        wrong = ((edges < 0) | (edges >= np.repeat(np.diff(ptr), counts))).any(axis=0)
        if wrong.any():
            position = int(np.argmax(wrong))
            raise InputError(
                f"an edge leaves its graph: expected ids of nodes of the graph, got {edges[0, position]} -> "
                f"{edges[1, position]} (edge {position})",
                field="edge_index",
            )
        return block

    @classmethod
    def _sorted(cls, edges: LongArray, values: FloatArray | None, ptr: PtrArray) -> BlockCSR:
        from tgp.kernels import csr

        given = _NO_WEIGHT if values is None else values
        indptr, indices, weight = csr.build_rows(edges[0], edges[1], given, values is not None, int(ptr[-1]))
        return cls(indptr, indices, None if values is None else weight, ptr)

    def rows(self) -> IndexArray:
        """Return the source node of each edge, ``[nnz]`` int32."""
        from tgp.kernels import csr

        rows: IndexArray = csr.row_ids(self.indptr)
        return rows

    def edge_index(self) -> LongArray:
        """Return the edge list ``[2, nnz]`` int64, sorted by source and target."""
        return np.stack([self.rows(), self.indices]).astype(np.int64)

    def weights_or_ones(self) -> FloatArray:
        """Return the weights, or ones for an unweighted block."""
        return np.ones(self.num_edges) if self.weight is None else self.weight

    def arrays(self) -> tuple[PtrArray, IndexArray, FloatArray, bool]:
        """Return ``(indptr, indices, weight, weighted)``, the arguments of kernels. No weights are an empty array."""
        if self.weight is None:
            return self.indptr, self.indices, _NO_WEIGHT, False
        return self.indptr, self.indices, self.weight, True

    def node_values(self, name: str) -> RowArray:
        """Return an attribute of the nodes, ``[N, D]`` float32 or float64.

        Args:
            name: name of the attribute, which the method declares in :attr:`LevelMethod.needs
                <tgp.engine.level_method.LevelMethod>`.

        Raises:
            InputError: if the block has nodes and no such attribute.
        """
        values = {} if self.attributes is None else self.attributes.values
        if name in values:
            return values[name]
        if not self.num_nodes:
            return np.empty((0, 1))
        raise InputError(
            f"the graphs have no node attribute {name!r}: expected one row for each of {self.num_nodes} nodes, got "
            f"{', '.join(values) or 'no attributes'}",
            field=name,
            hint="give the attribute to the graphs, or use a method that does not need it",
        )

    def with_values(self, **values: npt.ArrayLike) -> BlockCSR:
        """Return the block with attributes of its nodes.

        Args:
            **values: ``[N]`` or ``[N, D]`` finite numbers by name.

        Raises:
            InputError: if an attribute has a wrong type, shape or value.
        """
        rows = {name: check_node_values(name, value, self.node_ptr) for name, value in values.items()}
        return replace(self, attributes=NodeAttributes(rows) if rows else None)

    def graph_of_node(self) -> PtrArray:
        """Return the graph of each node, ``[N]`` int64."""
        return run_ids(self.node_ptr)

    def take(self, graphs: Sequence[int] | npt.NDArray[np.integer[Any]]) -> BlockCSR:
        """Return the block of some graphs.

        Args:
            graphs: indices of the graphs, in any order.

        Raises:
            InputError: if a graph does not exist.
        """
        from tgp.kernels import csr

        ids = np.ascontiguousarray(graphs, dtype=np.int64)
        if ids.size and (ids.min() < 0 or ids.max() >= self.num_graphs):
            raise InputError(
                f"a graph does not exist: expected indices in [0, {self.num_graphs}), "
                f"got {ids.min()} to {ids.max()}",
                field="graphs",
            )
        indptr, indices, weight, node_ptr = csr.take_graphs(*self.arrays(), self.node_ptr, ids)
        attributes = self.attributes
        if attributes is not None:
            starts = np.repeat(self.node_ptr[ids] - node_ptr[:-1], np.diff(node_ptr))
            attributes = attributes.take(np.arange(node_ptr[-1]) + starts)
        return BlockCSR(indptr, indices, None if self.weight is None else weight, node_ptr, attributes)

    def split(self) -> list[BlockCSR]:
        """Return one block per graph."""
        return [self.take([g]) for g in range(self.num_graphs)]

    @classmethod
    def concat(cls, blocks: Sequence[BlockCSR]) -> BlockCSR:
        """Join blocks. The result is weighted if one of them is.

        Args:
            blocks: the blocks, in order.
        """
        if not blocks:
            return cls(np.zeros(1, np.int64), np.zeros(0, np.int32), None, np.zeros(1, np.int64))
        weighted = any(block.weight is not None for block in blocks)
        node_start = offsets([block.num_nodes for block in blocks])
        edge_start = offsets([block.num_edges for block in blocks])
        indices = [block.indices + start for block, start in zip(blocks, node_start, strict=False)]
        return cls(
            _join_offsets([block.indptr for block in blocks], edge_start),
            np.concatenate(indices).astype(np.int32),
            np.concatenate([block.weights_or_ones() for block in blocks]) if weighted else None,
            _join_offsets([block.node_ptr for block in blocks], node_start),
            NodeAttributes.concat([b.attributes for b in blocks], [b.num_nodes for b in blocks]),
        )

    def validate(self) -> BlockCSR:
        """Check types, shapes and values of all arrays.

        Returns:
            The block itself.

        Raises:
            InputError: if a check fails.
        """
        for name, dtype in _DTYPES.items():
            array = getattr(self, name)
            if array is not None and (array.dtype != dtype or array.ndim != 1):
                raise InputError(
                    f"{name} has the wrong type: expected a vector of {dtype}, got {array.ndim}-d {array.dtype}",
                    field=name,
                )
        check_offsets("indptr", self.indptr, len(self.indptr), len(self.indices))
        check_offsets("node_ptr", self.node_ptr, len(self.node_ptr), self.num_nodes)
        check_weights(self.weight, self.num_edges)
        edges = self.edge_index()
        check_edges(edges, self.node_ptr)
        keys = edges[0] * max(self.num_nodes, 1) + edges[1]
        if (np.diff(keys) < 0).any():
            position = int(np.argmax(np.diff(keys) < 0)) + 1
            raise InputError(
                f"indices are not sorted: expected ascending targets in each row, got a smaller one at edge {position}",
                field="indices",
            )
        return self


def _join_offsets(parts: Sequence[PtrArray], starts: PtrArray) -> PtrArray:
    shifted = [part[1:] + start for part, start in zip(parts, starts, strict=False)]
    return np.concatenate([[0], *shifted]).astype(np.int64)
