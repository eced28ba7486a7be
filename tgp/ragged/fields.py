"""Attributes of many graphs as flat arrays with offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError, InputError
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged.block import BlockCSR, PtrArray
from tgp.ragged.node_attributes import NodeAttributes, check_node_values
from tgp.ragged.offsets import offsets
from tgp.ragged.types import TypeTable

__all__ = ["Field", "FieldForm", "GraphTable", "take_ragged"]

FieldForm = Literal["rows", "stacked", "int", "float", "bool", "str", "json"]
"""Form of the value of one graph: ``rows`` is a slice along an axis, ``stacked`` is one item without that axis (a 0-d
tensor, or a tensor that is stacked along a new axis), ``json`` is a list, dictionary or other plain value as JSON text, and
the others are plain Python numbers and strings."""


def take_ragged(ptr: PtrArray, ids: LongArray) -> tuple[PtrArray, LongArray]:
    """Return the offsets and the source positions of the elements of some runs.

    Args:
        ptr: offsets of all runs.
        ids: runs to take, in any order.

    Examples:
        >>> ptr, positions = take_ragged(np.array([0, 2, 5]), np.array([1, 0]))
        >>> ptr.tolist(), positions.tolist()
        ([0, 3, 5], [2, 3, 4, 0, 1])
    """
    start = ptr[ids]
    counts = ptr[ids + 1] - start
    new_ptr = offsets(counts)
    positions = np.arange(new_ptr[-1]) + np.repeat(start - new_ptr[:-1], counts)
    return new_ptr, positions


@dataclass(frozen=True, eq=False)
class Field:
    """One attribute of ``B`` graphs, concatenated.

    Args:
        name: name of the attribute of ``Data``.
        values: concatenated values. Strings and JSON texts are UTF-8 bytes (uint8).
        ptr: ``[B + 1]`` offsets along ``axis``; ``arange(B + 1)`` for forms other than ``rows``, ``str`` and ``json``.
        axis: axis along which graphs are concatenated: 0, or -1 for arrays such as ``edge_index``.
        form: form of the value of one graph, see :data:`FieldForm`.
        shifted: True if the values are node ids. They count inside each graph here, and through all graphs in a batch. For an
            attribute of a level, they are ids of its edges, or -1.
    """

    name: str
    values: Array
    ptr: PtrArray
    axis: int = 0
    form: FieldForm = "rows"
    shifted: bool = False

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self.ptr) - 1

    @staticmethod
    def concat(parts: Sequence[Field]) -> Field:
        """Concatenate one attribute of consecutive blocks of graphs.

        Args:
            parts: Fields of the blocks, at least one.
        """
        values = np.concatenate([part.values for part in parts], axis=parts[0].axis)
        ptr = offsets(np.concatenate([np.diff(part.ptr) for part in parts]))
        return replace(parts[0], values=values, ptr=ptr)

    def take(self, ids: LongArray) -> Field:
        """Return the field of some graphs.

        Args:
            ids: indices of the graphs, in any order.
        """
        ptr, positions = take_ragged(self.ptr, ids)
        values = np.take(self.values, positions, axis=self.axis)
        return Field(self.name, values, ptr, self.axis, self.form, self.shifted)

    def item(self, graph: int) -> Array:
        """Return the array of one graph, with its row axis.

        Args:
            graph: index of the graph.
        """
        low, high = int(self.ptr[graph]), int(self.ptr[graph + 1])
        return self.values[low:high] if self.axis == 0 else self.values[..., low:high]


@dataclass(frozen=True, eq=False)
class GraphTable:
    """Input graphs: number of nodes and all attributes.

    ``edge_index`` (``axis=-1``, ``shifted=True``) and ``edge_weight`` are ordinary fields.

    Args:
        node_ptr: ``[B + 1]`` offsets of the nodes of the graphs.
        fields: name -> attribute.
        types: types of the nodes and edges of heterogeneous graphs, see :mod:`tgp.ragged.types`; ``None`` for others.
    """

    node_ptr: PtrArray
    fields: Mapping[str, Field] = field(default_factory=dict)
    types: TypeTable | None = None

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self.node_ptr) - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs."""
        return int(self.node_ptr[-1])

    def take(self, ids: npt.ArrayLike) -> GraphTable:
        """Return the table of some graphs.

        Args:
            ids: indices of the graphs, in any order.

        Raises:
            InputError: if a graph does not exist.
        """
        chosen = np.asarray(ids, dtype=np.int64)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= self.num_graphs):
            raise InputError(
                f"a graph does not exist: expected indices in [0, {self.num_graphs}), "
                f"got {chosen.min()} to {chosen.max()}",
                field="ids",
            )
        node_ptr = offsets(np.diff(self.node_ptr)[chosen])
        return GraphTable(node_ptr, {name: f.take(chosen) for name, f in self.fields.items()}, self.types)

    def to_block(self, needs: Mapping[str, str] | None = None) -> BlockCSR:
        """Return the adjacency of all graphs as one block.

        Weights are taken from ``edge_weight``, never from ``edge_attr``.

        Args:
            needs: Attributes of nodes that the block has, each with the method that needs it; see
                :attr:`Schedule.needs <tgp.engine.schedule.Schedule>`.

        Raises:
            DatasetError: If there are no edges, or if ids or weights are invalid.
            InputError: If an attribute is missing or not valid, see :meth:`node_attributes`.
        """
        attributes = self.node_attributes(needs or {})
        block = self._adjacency()
        return block if attributes is None else replace(block, attributes=attributes)

    def node_attributes(self, needs: Mapping[str, str]) -> NodeAttributes | None:
        """Return the attributes of nodes that methods need, without copying arrays of float32 or float64 numbers.

        Args:
            needs: Names, each with the method that needs it.

        Raises:
            InputError: If an attribute is missing, has not one row for each node, or is not a finite real number everywhere.
        """
        values = {}
        for name, method in needs.items():
            entry = self.fields.get(name)
            if entry is None:
                raise InputError(
                    f"{method} needs the node attribute {name!r}: expected it on every graph, got graphs with "
                    f"{', '.join(sorted(self.fields)) or 'no attributes'}",
                    field=name,
                    hint=f"add {name!r} to the graphs, or use a method that does not need it",
                )
            rows = np.diff(entry.ptr)
            if entry.form != "rows" or entry.axis != 0 or not np.array_equal(rows, np.diff(self.node_ptr)):
                wrong = len(rows) == self.num_graphs and entry.form == "rows" and entry.axis == 0
                graph = int(np.argmax(rows != np.diff(self.node_ptr))) if wrong else 0
                got = f"{rows[graph]} for {np.diff(self.node_ptr)[graph]} nodes" if wrong else "another form"
                raise InputError(
                    f"{name!r} (needed by {method}) has the wrong shape: expected one row for each node, got {got} in graph "
                    f"{graph}",
                    field=name,
                )
            values[name] = check_node_values(name, entry.values, self.node_ptr, method)
        return NodeAttributes(values) if values else None

    def _adjacency(self) -> BlockCSR:
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
        """Check offsets, lengths and id ranges of all fields.

        Returns:
            The table itself.

        Raises:
            InputError: if a check fails. Its ``field`` is the name of the field.
        """
        for name, entry in self.fields.items():
            length = entry.values.shape[entry.axis]
            if len(entry.ptr) != len(self.node_ptr):
                raise InputError(
                    f"{name} has the wrong number of offsets: expected {len(self.node_ptr)}, got {len(entry.ptr)}",
                    field=name,
                )
            if entry.ptr[0] != 0 or entry.ptr[-1] != length or (np.diff(entry.ptr) < 0).any():
                raise InputError(
                    f"{name} has wrong offsets: expected numbers that start at 0, never decrease and end at {length}, "
                    f"got {entry.ptr}",
                    field=name,
                )
            if entry.shifted and entry.values.size and not _are_ids(entry, np.diff(self.node_ptr)):
                raise InputError(
                    f"{name} has a wrong id: expected ids of nodes of the same graph, "
                    f"got {entry.values.min()} to {entry.values.max()}",
                    field=name,
                )
        return self


def _are_ids(entry: Field, sizes: LongArray) -> bool:
    """Return True if all values of a field lie between 0 and the number of nodes of their graph."""
    ids = entry.values if entry.axis != 0 else np.moveaxis(entry.values, 0, -1)
    filled = np.flatnonzero(np.diff(entry.ptr))
    # Unlike `maximum` and `minimum`, these ignore NaN.
    largest = np.fmax.reduceat(ids, entry.ptr[filled], axis=-1)
    return not (largest >= sizes[filled]).any() and not np.fmin.reduce(ids, axis=None) < 0
