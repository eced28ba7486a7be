"""Results of coarsening as arrays: assignments, levels and hierarchies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tgp.display import repr_html
from tgp.errors import InputError
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged.block import BlockCSR, PtrArray
from tgp.ragged.fields import Field
from tgp.ragged.offsets import offsets, run_ids

__all__ = ["Assignment", "AssignmentKind", "EdgeList", "Hierarchy", "IdArray", "Level"]

AssignmentKind = Literal["hard", "onehot", "soft"]

IdArray = Array
"""Ids of nodes or supernodes of a block: int32 from the engine, int64 from a store."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """Map from the nodes of a block of graphs to supernodes.

    The kind determines the matrix ``S`` that a model gets:

    - ``hard``: every node has at most one supernode, and ``S`` is sparse.
    - ``onehot``: every node has at most one supernode, every graph has the same number ``k`` of supernodes, some of
      which may be empty, and ``S`` is a dense ``[N, k]`` matrix (EigenPool).
    - ``soft``: ``S`` is the dense ``[N, k]`` matrix ``soft`` (NMF).

    Args:
        kind: Kind of the assignment.
        super_ptr: ``[B + 1]`` int64, first supernode of each graph.
        cluster: ``[N]`` supernode of each node, ``-1`` for a dropped node; ``None`` for ``soft``. Ids count through
            the whole block.
        weight: ``[N]`` float32, entry of each node in ``S``; ``None`` means ones.
        soft: ``[N, k]`` float32, for ``soft`` only.
        theta: ``[N, H]`` float32, eigenvector modes: entry ``h`` is the value of a node in the ``h``-th eigenvector of
            its supernode.
        representative: ``[K]`` node that represents each supernode, such as the node that NDP keeps; ``None`` if the
            method defines none.
    """

    kind: AssignmentKind
    super_ptr: PtrArray
    cluster: IdArray | None = None
    weight: npt.NDArray[np.float32] | None = None
    soft: npt.NDArray[np.float32] | None = None
    theta: npt.NDArray[np.float32] | None = None
    representative: IdArray | None = None

    @property
    def num_supernodes(self) -> int:
        """Number of supernodes of all graphs."""
        return int(self.super_ptr[-1])

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self.super_ptr) - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes that are assigned, in all graphs."""
        return len(self.cluster) if self.cluster is not None else len(self._soft())

    @property
    def width(self) -> int | None:
        """Number of columns of a dense ``S``; ``None`` for ``hard``."""
        if self.kind == "hard":
            return None
        if self.soft is not None:
            return int(self.soft.shape[1])
        # A graph that failed has no supernodes; all others have the same number.
        return int(np.diff(self.super_ptr).max(initial=0))

    def _soft(self) -> npt.NDArray[np.float32]:
        if self.soft is None:
            raise InputError(
                "the assignment is incomplete: expected 'cluster' or 'soft', got neither", field="soft"
            )
        return self.soft

    @classmethod
    def concat(cls, parts: Sequence[Assignment]) -> Assignment:
        """Join the assignments of consecutive blocks.

        Args:
            parts: Assignments of one kind. A part without supernodes (all of its graphs failed or are empty) may be
                of another kind.

        Raises:
            InputError: If the parts are of several kinds.
        """
        if not parts:
            return cls("hard", np.zeros(1, np.int64), np.zeros(0, np.int32))
        live = [part for part in parts if part.num_supernodes] or list(parts[:1])
        kinds = {part.kind for part in live}
        if len(kinds) > 1:
            raise InputError(
                f"the parts cannot be joined: expected one kind of assignment, got {', '.join(sorted(kinds))}",
                field="parts",
            )
        supers = offsets([part.num_supernodes for part in parts])
        nodes = offsets([part.num_nodes for part in parts])
        super_ptr = [part.super_ptr[1:] + start for part, start in zip(parts, supers, strict=False)]
        cluster = representative = None
        if live[0].cluster is not None:
            shifted = [
                np.where(_cluster(part) < 0, -1, _cluster(part) + start)
                for part, start in zip(parts, supers, strict=False)
            ]
            cluster = np.concatenate(shifted).astype(np.int32)
        if all(part.representative is not None for part in live):
            chosen = [
                part.representative + start
                for part, start in zip(parts, nodes, strict=False)
                if part.representative is not None
            ]
            representative = np.concatenate(chosen).astype(np.int32)
        return cls(
            live[0].kind,
            np.concatenate([[0], *super_ptr]).astype(np.int64),
            cluster,
            _stack([(part.weight, part.num_nodes) for part in parts], fill=1.0),
            _stack([(part.soft, part.num_nodes) for part in parts], fill=0.0),
            _stack([(part.theta, part.num_nodes) for part in parts], fill=0.0),
            representative,
        )

    def validate(self, node_ptr: PtrArray) -> Assignment:
        """Check shapes, value ranges, and that no supernode contains nodes of two graphs.

        Args:
            node_ptr: ``[B + 1]`` offsets of the nodes that are assigned.

        Returns:
            The assignment itself.

        Raises:
            InputError: If a check fails. Its ``field`` names the array.
        """
        if len(self.super_ptr) != len(node_ptr):
            raise InputError(
                f"super_ptr has the wrong length: expected {len(node_ptr)} offsets, got {len(self.super_ptr)}",
                field="super_ptr",
            )
        if self.super_ptr[0] != 0 or (np.diff(self.super_ptr) < 0).any():
            raise InputError(
                f"super_ptr must start at 0 and must not decrease, got {self.super_ptr}", field="super_ptr"
            )
        num_nodes = int(node_ptr[-1])
        per_node = {"cluster": self.cluster, "weight": self.weight, "soft": self.soft, "theta": self.theta}
        for name, array in per_node.items():
            if array is not None and len(array) != num_nodes:
                raise InputError(
                    f"{name} has the wrong length: expected {num_nodes} rows, got {len(array)}", field=name
                )
        if self.kind == "soft":
            self._soft()
        elif self.cluster is None:
            raise InputError(
                f"the assignment is incomplete: expected 'cluster' for kind {self.kind!r}, got None",
                field="cluster",
            )
        if self.cluster is not None:
            graph = run_ids(node_ptr)
            low, high = self.super_ptr[graph], self.super_ptr[graph + 1]
            wrong = (self.cluster != -1) & ((self.cluster < low) | (self.cluster >= high))
            if wrong.any():
                node = int(np.flatnonzero(wrong)[0])
                raise InputError(
                    f"cluster of node {node} must be -1 or in [{low[node]}, {high[node]}), got {self.cluster[node]}",
                    field="cluster",
                )
        if self.representative is not None and len(self.representative) != self.num_supernodes:
            raise InputError(
                f"representative has the wrong length: expected {self.num_supernodes} ids, "
                f"got {len(self.representative)}",
                field="representative",
            )
        return self


def _cluster(part: Assignment) -> IdArray:
    """Return the clusters of a part. A failed part has none: all of its nodes are dropped."""
    return np.full(part.num_nodes, -1, np.int32) if part.cluster is None else part.cluster


def _stack(
    arrays: list[tuple[npt.NDArray[np.float32] | None, int]], fill: float
) -> npt.NDArray[np.float32] | None:
    """Concatenate rows. A part without the array gets rows of ``fill``."""
    shapes = [array.shape[1:] for array, _ in arrays if array is not None]
    if not shapes:
        return None
    return np.concatenate(
        [np.full((rows, *shapes[0]), fill, np.float32) if array is None else array for array, rows in arrays]
    )


class EdgeList(NamedTuple):
    """Edges of a block of graphs, in the order of the graphs.

    Args:
        edge_ptr: ``[B + 1]`` int64, first edge of each graph.
        edge_index: ``[2, E]`` int64, ends of each edge. Ids count through the whole block.
        edge_weight: ``[E]`` weights, or ``None`` for an unweighted block.
    """

    edge_ptr: PtrArray
    edge_index: LongArray
    edge_weight: Array | None = None


@dataclass(frozen=True, eq=False)
class Level:
    """One pooled level of a block of graphs: an assignment and the coarse graphs.

    The coarse graphs are available as sparse rows (:attr:`block`) and as an edge list (:attr:`edges`). A level holds
    one of the two forms and makes the other one on first access.

    Args:
        method: Name of the level method.
        node_ptr: ``[B + 1]`` offsets of the nodes that are pooled.
        assignment: Map from these nodes to supernodes.
        coarse: Graphs of the supernodes, in either form.
        weight_dtype: Type of the weights in an edge list that is made from rows. Rows always hold float64.
        fields: Attributes of the coarse graphs by name. The offsets of a field are :attr:`super_ptr` for attributes of
            supernodes and :attr:`edge_ptr` for attributes of coarse edges, in the order of :attr:`edge_index`.

    Examples:
        >>> from tgp.testing.graphs import path
        >>> pairs = Assignment("hard", np.array([0, 2]), np.array([0, 0, 1, 1]))
        >>> level = Level("graclus", np.array([0, 4]), pairs, path(2))
        >>> level.edge_index.tolist()
        [[0, 1], [1, 0]]
    """

    method: str
    node_ptr: PtrArray
    assignment: Assignment
    coarse: BlockCSR | EdgeList
    weight_dtype: npt.DTypeLike = np.float32
    fields: Mapping[str, Field] = field(default_factory=dict)

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self.node_ptr) - 1

    # The properties return the stored form without a cache: a cached property would allocate a dictionary for every
    # level of every batch.

    @property
    def block(self) -> BlockCSR:
        """Coarse graphs as sparse rows."""
        return self.coarse if isinstance(self.coarse, BlockCSR) else self._made_block

    @property
    def edges(self) -> EdgeList:
        """Coarse graphs as an edge list."""
        return self.coarse if isinstance(self.coarse, EdgeList) else self._made_edges

    @cached_property
    def _made_block(self) -> BlockCSR:
        _, edge_index, edge_weight = self.edges
        return BlockCSR.from_edge_index(edge_index, edge_weight, node_ptr=self.super_ptr)

    @cached_property
    def _made_edges(self) -> EdgeList:
        return EdgeList(self.block.edge_ptr, *self.edge_arrays())

    def edge_arrays(self) -> tuple[LongArray, Array | None]:
        """Return :attr:`edge_index` and :attr:`edge_weight`. Rows are converted in each call."""
        if isinstance(self.coarse, EdgeList):
            return self.coarse.edge_index, self.coarse.edge_weight
        block = self.coarse
        edge_index = np.empty((2, block.num_edges), np.int64)
        edge_index[0], edge_index[1] = block.rows(), block.indices
        return edge_index, None if block.weight is None else block.weight.astype(self.weight_dtype)

    @classmethod
    def concat(cls, parts: Sequence[Level]) -> Level:
        """Concatenate the same level of consecutive blocks of graphs. The coarse graphs become an edge list.

        Args:
            parts: Levels of the blocks, at least one.
        """
        first = parts[0]
        supers = offsets([part.assignment.num_supernodes for part in parts])
        nodes = offsets([part.node_ptr[-1] for part in parts])
        counts = [np.diff(part.edge_ptr) for part in parts]
        weights = [part.edge_weight for part in parts if part.edge_weight is not None]
        edges = EdgeList(
            offsets(np.concatenate(counts)),
            np.concatenate([p.edge_index + start for p, start in zip(parts, supers, strict=False)], axis=1),
            np.concatenate(weights) if weights else None,
        )
        node_ptr = [part.node_ptr[1:] + start for part, start in zip(parts, nodes, strict=False)]
        assignment = Assignment.concat([part.assignment for part in parts])
        fields = {name: Field.concat([part.fields[name] for part in parts]) for name in first.fields}
        return cls(
            first.method, np.concatenate([[0], *node_ptr]), assignment, edges, first.weight_dtype, fields
        )

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of the edge list and of the assignment by name, without those that are ``None``."""
        given = self.assignment
        named = {
            "edge_index": self.edge_index,
            "edge_weight": self.edge_weight,
            "cluster": given.cluster,
            "weight": given.weight,
            "soft": given.soft,
            "theta": given.theta,
            "representative": given.representative,
        }
        return {name: array for name, array in named.items() if array is not None}

    @property
    def super_ptr(self) -> PtrArray:
        """``[B + 1]`` first supernode of each graph."""
        return self.assignment.super_ptr

    @property
    def edge_ptr(self) -> PtrArray:
        """``[B + 1]`` first coarse edge of each graph."""
        return self.edges.edge_ptr

    @property
    def edge_index(self) -> LongArray:
        """``[2, E]`` ends of each coarse edge."""
        return self.edges.edge_index

    @property
    def edge_weight(self) -> Array | None:
        """``[E]`` weights of the coarse edges, or ``None``."""
        return self.edges.edge_weight


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """All pooled levels of a block of graphs.

    Args:
        node_ptr: ``[B + 1]`` offsets of the nodes of the input graphs.
        levels: Levels, finest first. ``levels[0]`` pools the nodes of the input graphs.
    """

    node_ptr: PtrArray
    levels: tuple[Level, ...]

    _repr_html_ = repr_html

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self.node_ptr) - 1

    @property
    def depth(self) -> int:
        """Number of pooled levels."""
        return len(self.levels)

    def validate(self) -> Hierarchy:
        """Check every level, and that each level pools the supernodes of the level before.

        Returns:
            The hierarchy itself.

        Raises:
            InputError: If a check fails.
        """
        node_ptr = self.node_ptr
        for number, level in enumerate(self.levels, 1):
            if not np.array_equal(level.node_ptr, node_ptr):
                raise InputError(
                    f"level {number} must pool the supernodes of level {number - 1}: expected node_ptr {node_ptr}, "
                    f"got {level.node_ptr}",
                    field="node_ptr",
                )
            level.assignment.validate(node_ptr)
            level.block.validate()
            if not np.array_equal(level.block.node_ptr, level.assignment.super_ptr):
                raise InputError(
                    f"the coarse graphs of level {number} must have the supernodes of its assignment: expected "
                    f"{level.assignment.num_supernodes} nodes, got {level.block.num_nodes}",
                    field="super_ptr",
                )
            node_ptr = level.block.node_ptr
        return self
