"""What coarsening yields: assignments, levels, hierarchies. Arrays only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError
from tgp.ragged.block import BlockCSR, IndexArray, PtrArray

__all__ = ["Assignment", "AssignmentKind", "Hierarchy", "Level"]

AssignmentKind = Literal["hard", "onehot", "soft"]


@dataclass(frozen=True, eq=False)
class Assignment:
    """How the nodes of a block map to supernodes.

    Three kinds, told apart because models meet a different matrix ``S`` for each:

    - ``hard``: every node has at most one supernode; ``S`` is sparse.
    - ``onehot``: the same data, but each graph has the same number ``k`` of (possibly empty)
      supernodes and ``S`` is a dense ``[N, k]`` matrix (EigenPool).
    - ``soft``: ``S`` is ``soft``, a dense ``[N, k]`` matrix (NMF).

    Args:
        kind: see above.
        super_ptr: ``[B + 1]`` int64, start of each graph's supernodes.
        cluster: ``[N]`` int32 supernode (block id) of each node, ``-1`` for a dropped node;
            ``None`` for ``soft``.
        weight: ``[N]`` float32 value of each node's entry in ``S``; ``None`` means ones.
        soft: ``[N, k]`` float32, for ``soft`` only.
        theta: ``[N, H]`` float32 eigenvector modes of each node inside its supernode.
        representative: ``[K]`` int32, the node (block id) that stands for each supernode
            (the kept node of NDP, the independent-set node of k-MIS); ``None`` if there is none.
    """

    kind: AssignmentKind
    super_ptr: PtrArray
    cluster: IndexArray | None = None
    weight: npt.NDArray[np.float32] | None = None
    soft: npt.NDArray[np.float32] | None = None
    theta: npt.NDArray[np.float32] | None = None
    representative: IndexArray | None = None

    @property
    def num_supernodes(self) -> int:
        return int(self.super_ptr[-1])

    @property
    def num_graphs(self) -> int:
        return len(self.super_ptr) - 1

    @property
    def num_nodes(self) -> int:
        return len(self.cluster) if self.cluster is not None else len(self._soft())

    @property
    def width(self) -> int | None:
        """Columns of a dense ``S`` (the same for every graph), ``None`` for ``hard``."""
        if self.kind == "hard":
            return None
        if self.soft is not None:
            return int(self.soft.shape[1])
        # A graph that failed has no supernodes; all others have the same number.
        return int(np.diff(self.super_ptr).max(initial=0))

    def _soft(self) -> npt.NDArray[np.float32]:
        if self.soft is None:
            raise InputError("an assignment needs 'cluster' or 'soft'", field="soft")
        return self.soft

    @classmethod
    def concat(cls, parts: Sequence[Assignment]) -> Assignment:
        """Assignments of consecutive blocks behind one another.

        A part without supernodes (its graphs failed, or are empty) fits to parts of any kind.
        """
        if not parts:
            return cls("hard", np.zeros(1, np.int64), np.zeros(0, np.int32))
        live = [part for part in parts if part.num_supernodes] or list(parts[:1])
        kinds = {part.kind for part in live}
        if len(kinds) > 1:
            raise InputError(f"parts must be of one kind, got {', '.join(sorted(kinds))}", field="parts")
        supers = np.concatenate([[0], np.cumsum([part.num_supernodes for part in parts])])
        nodes = np.concatenate([[0], np.cumsum([part.num_nodes for part in parts])])
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
        """Check shapes, ranges, and that no supernode has nodes of another graph; returns ``self``."""
        if len(self.super_ptr) != len(node_ptr):
            raise InputError(
                f"super_ptr must hold {len(node_ptr)} offsets, got {len(self.super_ptr)}", field="super_ptr"
            )
        if self.super_ptr[0] != 0 or (np.diff(self.super_ptr) < 0).any():
            raise InputError("super_ptr must start at 0 and never fall", field="super_ptr")
        num_nodes = int(node_ptr[-1])
        per_node = {"cluster": self.cluster, "weight": self.weight, "soft": self.soft, "theta": self.theta}
        for name, array in per_node.items():
            if array is not None and len(array) != num_nodes:
                raise InputError(f"{name} must hold {num_nodes} rows, got {len(array)}", field=name)
        if self.kind == "soft":
            self._soft()
        elif self.cluster is None:
            raise InputError(f"a {self.kind} assignment needs 'cluster'", field="cluster")
        if self.cluster is not None:
            graph = np.repeat(np.arange(len(node_ptr) - 1), np.diff(node_ptr))
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
                f"representative must hold {self.num_supernodes} ids, got {len(self.representative)}",
                field="representative",
            )
        return self


def _cluster(part: Assignment) -> IndexArray:
    """The clusters of a part; a failed part that has none dropped all its nodes."""
    return np.full(part.num_nodes, -1, np.int32) if part.cluster is None else part.cluster


def _stack(
    arrays: list[tuple[npt.NDArray[np.float32] | None, int]], fill: float
) -> npt.NDArray[np.float32] | None:
    """Rows behind one another; parts without the array get rows of ``fill``."""
    shapes = [array.shape[1:] for array, _ in arrays if array is not None]
    if not shapes:
        return None
    return np.concatenate(
        [np.full((rows, *shapes[0]), fill, np.float32) if array is None else array for array, rows in arrays]
    )


@dataclass(frozen=True, eq=False)
class Level:
    """One step: which method, how nodes of the previous level map, and the coarse graphs."""

    method: str
    assignment: Assignment
    block: BlockCSR


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """All levels over one block of graphs. ``levels[0]`` maps the input graphs' nodes."""

    node_ptr: PtrArray
    levels: tuple[Level, ...]

    @property
    def num_graphs(self) -> int:
        return len(self.node_ptr) - 1

    @property
    def depth(self) -> int:
        return len(self.levels)

    def validate(self) -> Hierarchy:
        """Check every level and the chain of shapes; returns ``self``."""
        node_ptr = self.node_ptr
        for level in self.levels:
            level.assignment.validate(node_ptr)
            level.block.validate()
            if not np.array_equal(level.block.node_ptr, level.assignment.super_ptr):
                raise InputError(
                    "a coarse block must have the supernodes of its assignment", field="super_ptr"
                )
            node_ptr = level.block.node_ptr
        return self
