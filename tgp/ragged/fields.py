"""Attributes of many graphs as flat arrays with offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError, InputError
from tgp.ragged.block import BlockCSR, PtrArray

__all__ = ["Field", "FieldForm", "GraphTable", "take_ragged"]

FieldForm = Literal["rows", "stacked", "int", "float", "bool", "str"]
"""How one graph's value looks: a slice along an axis, one item without that axis (a 0-d tensor,
or a tensor stacked along a new axis), or a plain Python number or string."""


def take_ragged(ptr: PtrArray, ids: npt.NDArray[np.int64]) -> tuple[PtrArray, npt.NDArray[np.int64]]:
    """Offsets and source positions of the rows of ``ids``, in that order."""
    start = ptr[ids]
    counts = ptr[ids + 1] - start
    new_ptr = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(counts, out=new_ptr[1:])
    positions = np.arange(new_ptr[-1]) + np.repeat(start - new_ptr[:-1], counts)
    return new_ptr, positions


@dataclass(frozen=True, eq=False)
class Field:
    """One attribute of ``B`` graphs, concatenated.

    Args:
        name: attribute name on ``Data``.
        values: concatenated values. Strings are UTF-8 bytes (uint8).
        ptr: ``[B + 1]`` offsets along ``axis``; ``arange(B + 1)`` for forms other than rows and str.
        axis: the axis graphs are concatenated along: 0, or -1 for ``edge_index``-like arrays.
        form: see :data:`FieldForm`.
        shifted: values are node ids: local to their graph here, shifted by the number of
            preceding nodes in a batch.
    """

    name: str
    values: npt.NDArray[Any]
    ptr: PtrArray
    axis: int = 0
    form: FieldForm = "rows"
    shifted: bool = False

    @property
    def num_graphs(self) -> int:
        return len(self.ptr) - 1

    def take(self, ids: npt.NDArray[np.int64]) -> Field:
        """The field of the given graphs, in the given order."""
        ptr, positions = take_ragged(self.ptr, ids)
        values = np.take(self.values, positions, axis=self.axis)
        return Field(self.name, values, ptr, self.axis, self.form, self.shifted)

    def item(self, graph: int) -> npt.NDArray[Any]:
        """The raw array of one graph, still with its row axis."""
        low, high = int(self.ptr[graph]), int(self.ptr[graph + 1])
        return self.values[low:high] if self.axis == 0 else self.values[..., low:high]


@dataclass(frozen=True, eq=False)
class GraphTable:
    """The input graphs: node counts and every attribute.

    ``edge_index`` (local ids, ``axis=-1``, ``shifted``) and ``edge_weight`` are ordinary fields.
    """

    node_ptr: PtrArray
    fields: Mapping[str, Field] = field(default_factory=dict)

    @property
    def num_graphs(self) -> int:
        return len(self.node_ptr) - 1

    @property
    def num_nodes(self) -> int:
        return int(self.node_ptr[-1])

    def take(self, ids: npt.ArrayLike) -> GraphTable:
        """The table of the given graphs, in the given order."""
        chosen = np.asarray(ids, dtype=np.int64)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= self.num_graphs):
            raise InputError(f"graph ids must lie in [0, {self.num_graphs})", field="ids")
        counts = np.diff(self.node_ptr)[chosen]
        node_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return GraphTable(node_ptr, {name: f.take(chosen) for name, f in self.fields.items()})

    def to_block(self) -> BlockCSR:
        """Return the adjacency of all graphs as one block.

        Weights are taken from ``edge_weight``, never from ``edge_attr``.

        Raises:
            DatasetError: If there are no edges, or if ids or weights are invalid.
        """
        edges = self.fields.get("edge_index")
        if edges is None:
            raise DatasetError(
                f"the graphs cannot be coarsened: expected 'edge_index', got {', '.join(self.fields) or 'no fields'}"
            )
        weight = self.fields.get("edge_weight")
        if weight is not None and not np.array_equal(weight.ptr, edges.ptr):
            expected, got = np.diff(edges.ptr), np.diff(weight.ptr)
            graph = int(np.flatnonzero(expected != got)[0])
            raise DatasetError(
                f"'edge_weight' of graph {graph} has the wrong length: expected {expected[graph]} values, "
                f"got {got[graph]}"
            )
        try:
            return BlockCSR.from_local_edges(
                edges.values, edges.ptr, None if weight is None else weight.values, node_ptr=self.node_ptr
            )
        except InputError as error:
            raise DatasetError(str(error)) from error

    def validate(self) -> GraphTable:
        """Check offsets, lengths and id ranges; returns ``self``."""
        for name, entry in self.fields.items():
            length = entry.values.shape[entry.axis]
            if len(entry.ptr) != len(self.node_ptr):
                raise InputError(
                    f"{name}: ptr must hold {len(self.node_ptr)} offsets, got {len(entry.ptr)}", field=name
                )
            if entry.ptr[0] != 0 or entry.ptr[-1] != length or (np.diff(entry.ptr) < 0).any():
                raise InputError(f"{name}: ptr must start at 0, never fall, and end at {length}", field=name)
            if entry.shifted and entry.values.size:
                sizes = np.repeat(np.diff(self.node_ptr), np.diff(entry.ptr))
                ids = entry.values if entry.axis != 0 else np.moveaxis(entry.values, 0, -1)
                if (ids < 0).any() or (ids >= sizes).any():
                    raise InputError(
                        f"{name} must hold node ids of its own graph, got one out of range", field=name
                    )
        return self
