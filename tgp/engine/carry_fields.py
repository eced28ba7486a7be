"""Compute the attributes of the levels of a hierarchy from those of the input graphs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tgp.engine.carry import MAP, CarryStep
from tgp.engine.carry_attributes import split_texts
from tgp.engine.carry_members import Groups, InputEdges, compose_members
from tgp.engine.methods import contracts_edges
from tgp.kernels.array_types import Array
from tgp.ragged import Field, GraphTable, Hierarchy
from tgp.ragged.block import FloatArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = ["carry_fields"]


_CHUNK = 1 << 14
"""Number of rows that are converted to float64 at a time, so that they stay in the cache."""

_NO_WEIGHT: FloatArray = np.empty(0)


def carry_fields(table: GraphTable, hierarchy: Hierarchy, steps: Sequence[CarryStep]) -> Hierarchy:
    """Return the hierarchy with attributes on its levels.

    Every level is reduced from the input graphs, except ``edge_map``: it has a row for each edge of the graph before, which is the
    level before or the input graph. The result of a graph does not depend on the other graphs. A supernode or
    coarse edge without members has the value 0, False or an empty text. The majority of signed integers is -1 for it.

    Args:
        table: Input graphs, with the attributes that the steps name.
        hierarchy: Levels of the same graphs.
        steps: Attributes of the levels, from :func:`~tgp.engine.carry.resolve`.

    Returns:
        A hierarchy whose levels have ``fields``. The hierarchy itself if there are no steps.

    Examples:
        >>> from tgp.engine.carry import CarryRules, resolve
        >>> from tgp.engine.coarsening import coarsen
        >>> edges = Field("edge_index", np.array([[0, 1, 2, 3], [1, 0, 3, 2]]), np.array([0, 4]), -1, shifted=True)
        >>> x = Field("x", np.array([1.0, 2.0, 3.0, 5.0]), np.array([0, 4]))
        >>> table = GraphTable(np.array([0, 4]), {"edge_index": edges, "x": x})
        >>> levels = coarsen(table.to_block(), "graclus")
        >>> fields = carry_fields(table, levels, resolve(CarryRules.parse("auto"), table)).levels[0].fields
        >>> {name: field.values.tolist() for name, field in fields.items()}
        {'num_members': [2, 2], 'x': [1.5, 4.0]}
    """
    if not steps:
        return hierarchy
    inputs: dict[str, _Input] = {}
    edges = fine = None
    if any(step.owner == "edge" for step in steps):
        edges = fine = InputEdges.from_table(table)
        fine_ptr = table.fields["edge_index"].ptr
    maps = [step for step in steps if step.reduction == MAP]
    steps = [step for step in steps if step.reduction != MAP]
    nodes: Groups | None = None
    levels = []
    for level in hierarchy.levels:
        nodes = compose_members(nodes, level)
        groups = {"node": nodes}
        if edges is not None and nodes.soft is None and contracts_edges(level.method):
            groups["edge"] = edges.groups(nodes, level)
        else:
            edges = None  # the edges of later levels are not those of the input graphs either
        reducers = {owner: _Reducer(table, found, inputs) for owner, found in groups.items()}
        fields = {step.name: reducers[step.owner].field(step) for step in steps if step.owner in reducers}
        if maps and fine is not None:
            if level.assignment.soft is None and contracts_edges(level.method):
                (step,) = maps
                fields[step.name] = Field(step.name, fine.map_to(level), fine_ptr, shifted=True)
            fine, fine_ptr = InputEdges.from_level(level), level.edge_ptr
        levels.append(replace(level, fields=fields))
    return Hierarchy(hierarchy.node_ptr, tuple(levels))


class _Input:
    """Values of one attribute of the input graphs.

    Args:
        entry: The attribute.
    """

    def __init__(self, entry: Field) -> None:
        self.is_text = entry.form == "json"
        values = entry.values
        if self.is_text:
            values = np.array([text for texts in split_texts(entry) or [] for text in texts], np.str_)
        self.values = values
        self.shape = values.shape[1:]
        self.flat = values.reshape(len(values), int(np.prod(self.shape, dtype=np.int64)))
        self._codes: list[tuple[PtrArray, Array]] | None = None

    @property
    def float_type(self) -> np.dtype[Any]:
        """Type of means."""
        return self.values.dtype if self.values.dtype.kind == "f" else np.dtype(np.float32)

    def codes(self) -> list[tuple[PtrArray, Array]]:
        """Return, for each column, an integer code of each value, and the values in ascending order of their codes."""
        if self._codes is None:
            self._codes = [_encode(self.flat[:, column]) for column in range(self.flat.shape[1])]
        return self._codes


def _encode(values: Array) -> tuple[PtrArray, Array]:
    if values.dtype.kind in "biu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(values) + 64 and high < 2**62 and low > -(2**62):
            return values.astype(np.int64) - low, np.arange(low, high + 1).astype(values.dtype)
    found, codes = np.unique(values, return_inverse=True)
    return codes.reshape(-1).astype(np.int64), found


@dataclass(frozen=True, eq=False)
class _Reducer:
    """Reductions of attributes over the members of supernodes or coarse edges.

    Args:
        table: Input graphs.
        groups: Members.
        inputs: Attributes that were used before, by name.
    """

    table: GraphTable
    groups: Groups
    inputs: dict[str, _Input]
    _masked: dict[str, Groups] = field(default_factory=dict)
    _votes: dict[tuple[str, str | None], tuple[Array, PtrArray]] = field(default_factory=dict)

    def field(self, step: CarryStep) -> Field:
        """Return one attribute of the level."""
        values = self._reduce(step)
        if self.groups.twin is not None:
            values = values[self.groups.twin]
        if values.dtype.kind == "U":
            return _text_field(step.name, values, self.groups.ptr)
        return Field(step.name, np.ascontiguousarray(values), self.groups.ptr)

    def _reduce(self, step: CarryStep) -> Array:
        if step.reduction == "count":
            return self._count()
        given = self._input(step.input_name)
        quick = self._add_quickly(given, step.reduction)
        if quick is not None:
            return quick
        if step.reduction in ("majority", "purity", "mixed"):
            return self._label(step, given)
        if step.reduction == "first":
            found = self._shaped(given, self._first(given.flat))
        elif step.reduction == "stats":
            found = self._stats(given)
        elif step.reduction == "mean":
            found = self._shaped(given, self._mean(given).astype(given.float_type))
        elif step.reduction == "sum":
            found = self._shaped(given, self._sum(given))
        else:
            values = given.flat != 0 if step.reduction in ("any", "all") else given.flat
            largest = step.reduction in ("any", "max")
            found = self._shaped(given, self._fold(np.maximum if largest else np.minimum, values))
        return found

    def _add_quickly(self, given: _Input, reduction: str) -> Array | None:
        """Return the sums or means that ``groups.add`` computes, or ``None`` if it cannot compute them."""
        values = given.flat
        if self.groups.add is None or reduction not in ("sum", "mean") or values.dtype.char not in "fd":
            return None
        values = np.require(values, None, ["C", "W"])  # the kernel is not compiled again for read-only arrays
        return self._shaped(given, self.groups.add(values, reduction == "mean"))

    def _input(self, name: str) -> _Input:
        if name not in self.inputs:
            self.inputs[name] = _Input(self.table.fields[name])
        return self.inputs[name]

    def _shaped(self, given: _Input, flat: Array) -> Array:
        return flat.reshape(len(flat), *given.shape)

    def _count(self) -> Array:
        if self.groups.soft is None:
            return self.groups.counts
        return self._sizes().astype(np.float32)

    def _sizes(self) -> FloatArray:
        """Return ``[size]`` sum of the weights of the members."""
        if self.groups.soft is None:
            return self.groups.counts.astype(np.float64)
        return self._add(np.ones((len(self.groups.segment), 1)))[:, 0]

    def _add(self, values: Array, center: FloatArray | None = None) -> FloatArray:
        """Return ``[size, D]`` weighted sums, of the squares of the distances to ``center`` if it is given."""
        from tgp.kernels import carry as kernels

        out = np.zeros((self.groups.size, values.shape[1]))
        soft = self.groups.soft
        if not self.groups.size:
            return out
        for segment, weight in [(self.groups.segment, _NO_WEIGHT)] if soft is None else soft:
            for low in range(0, len(values), _CHUNK):
                rows = slice(low, low + _CHUNK)
                part = values[rows].astype(np.float64)
                if center is not None:
                    part -= center[segment[rows]]
                    part *= part
                kernels.add_rows(part, segment[rows], weight[rows], soft is not None, out)
        return out

    def _sum(self, given: _Input) -> Array:
        if self.groups.soft is not None or given.values.dtype.kind == "f":
            return self._add(given.flat).astype(given.float_type)
        return self._fold(np.add, given.flat.astype(np.int64))

    def _mean(self, given: _Input) -> FloatArray:
        sizes = self._sizes()
        return self._add(given.flat) / np.where(sizes == 0.0, 1.0, sizes)[:, None]

    def _stats(self, given: _Input) -> Array:
        """Return mean, standard deviation and maximum side by side, along the last axis."""
        sizes, mean = self._sizes(), self._mean(given)
        deviation = np.sqrt(self._add(given.flat, mean) / np.where(sizes == 0.0, 1.0, sizes)[:, None])
        parts = (mean, deviation, self._fold(np.maximum, given.flat))
        shaped = [self._shaped(given, part.astype(given.float_type)) for part in parts]
        return np.stack(shaped, axis=1) if not given.shape else np.concatenate(shaped, axis=-1)

    def _fold(self, ufunc: np.ufunc, values: Array) -> Array:
        """Return ``[size, D]`` values of each group combined by an operation whose order has no effect."""
        ptr, order = self.groups.rows
        out = np.zeros((self.groups.size, values.shape[1]), values.dtype)
        filled = np.flatnonzero(ptr[1:] > ptr[:-1])
        if len(filled):
            out[filled] = ufunc.reduceat(values[order], ptr[filled], axis=0)
        return out

    def _first(self, values: Array) -> Array:
        first = self.groups.first
        out = np.zeros((len(first), values.shape[1]), values.dtype)
        out[first >= 0] = values[first[first >= 0]]
        return out

    def _label(self, step: CarryStep, given: _Input) -> Array:
        groups = self.groups if step.mask is None else self._mask(step.mask)
        key = step.input_name, step.mask
        if key not in self._votes:
            self._votes[key] = _majority(given, groups, signed=step.mask is not None)
        winner, votes = self._votes[key]
        if step.reduction == "majority":
            return self._shaped(given, winner)
        members = groups.counts[:, None]
        if step.reduction == "mixed":
            return self._shaped(given, votes < members)
        return self._shaped(given, (votes / np.maximum(members, 1)).astype(np.float32))

    def _mask(self, name: str) -> Groups:
        if name not in self._masked:
            segment = np.where(self._input(name).values, self.groups.segment, -1)
            self._masked[name] = Groups(segment, self.groups.size, self.groups.ptr)
        return self._masked[name]


def _majority(given: _Input, groups: Groups, signed: bool) -> tuple[Array, PtrArray]:
    """Return ``[size, D]`` most frequent values and their numbers; ``signed`` lets -1 mark empty groups in any case."""
    from tgp.kernels import carry as kernels

    dtype = given.values.dtype
    if signed and dtype.kind in "bu":
        dtype = np.dtype(np.int64)
    winners = np.zeros((groups.size, given.flat.shape[1]), dtype)
    votes = np.zeros(winners.shape, np.int64)
    for column, (codes, values) in enumerate(given.codes()):
        winner, number = np.empty(groups.size, np.int64), np.empty(groups.size, np.int64)
        count = np.zeros(len(values), np.int64)
        kernels.count_majority(codes, *groups.rows, count, winner, number)
        inside = winner >= 0
        winners[inside, column] = values[winner[inside]]
        if dtype.kind == "i" or (signed and dtype.kind == "f"):
            winners[~inside, column] = -1
        votes[:, column] = number
    return winners, votes


def _text_field(name: str, values: Array, ptr: PtrArray) -> Field:
    """Return texts of supernodes or edges as one JSON list per graph."""
    texts = [
        json.dumps(values[low:high].tolist(), separators=(",", ":"), ensure_ascii=False).encode()
        for low, high in pairwise(ptr.tolist())
    ]
    joined = np.frombuffer(b"".join(texts), np.uint8)
    return Field(name, joined, offsets([len(text) for text in texts]), 0, "json")
