"""Write the parts of a store: the checks and the records that all kinds of storage share."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Literal, Protocol, TypeVar

from tgp.errors import InputError
from tgp.kernels.array_types import Array
from tgp.ragged import Field, GraphTable, Hierarchy
from tgp.store.format import constants as fmt
from tgp.store.format.codec import narrow
from tgp.store.format.fingerprint import StoreSpec
from tgp.store.format.manifest import Manifest, PartRecord
from tgp.store.format.pieces import PieceCompletion, PieceRecord
from tgp.store.format.schema import FailureRecord, FieldInfo
from tgp.store.io.files import StoreFiles, ends_digest, file_digest
from tgp.store.io.sink import Sink
from tgp.store.write import shard
from tgp.store.write.divided import NOT_DIVIDED, Column, Divided, Target, find_ranges, write_pieces
from tgp.store.write.field_infos import graph_field_info, level_field_info
from tgp.store.write.limits import check_decoded_size
from tgp.store.write.records import Records
from tgp.store.write.shard import IDS, ShardFile, level_arrays

__all__ = ["PartWriter", "Task"]


class Completion(Protocol):
    """Completion record of a file."""

    def to_bytes(self) -> bytes:
        """Return the content of the record file."""
        ...


_Record = TypeVar("_Record", bound=Completion)
Describe = Callable[[shard.PartSummary, BinaryIO], _Record]
"""Function that makes the completion record of a file from the summary of its content and the written file."""


@dataclass(frozen=True, order=True)
class Task:
    """File with arrays. ``part`` is ``"graphs"`` or the name of a hierarchy."""

    unit: int
    part: str


class PartWriter(ABC):
    """Writer of the graphs and hierarchies of a store, unit by unit.

    Args:
        spec: Specification of the store.

    Attributes:
        files: Files of the store.
    """

    files: StoreFiles

    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec

    @abstractmethod
    def records(self) -> Records:
        """Return the completion records: for each part one entry per unit, ``None`` if the file has to be written."""

    @abstractmethod
    def publish(self) -> Manifest:
        """Write the manifest of the complete store and return it."""

    @abstractmethod
    def _write_file(
        self, name: str, part: str, fill: Callable[[Sink], shard.PartSummary], describe: Describe[_Record]
    ) -> _Record:
        """Write a file of a part and its completion record. ``fill`` writes the content of the file."""

    @abstractmethod
    def find_piece(self, unit: int, part: str, number: int) -> PieceRecord | None:
        """Return the record of a piece that is written already, or ``None``.

        Args:
            unit: Number of the unit.
            part: ``"graphs"`` or the name of a hierarchy.
            number: Number of the piece.
        """

    def write_part(self, unit: int, part: str, fill: Callable[[Sink], shard.PartSummary]) -> PartRecord:
        """Write a shard file whose content a function makes, see :mod:`tgp.store.write.streamed`.

        Args:
            unit: Number of the unit.
            part: ``"graphs"`` or the name of a hierarchy.
            fill: Function that writes the content to a file and returns its totals and schema.

        Returns:
            The completion record of the file.
        """

        def describe(summary: shard.PartSummary, file: BinaryIO) -> PartRecord:
            return self._make_record(unit, part, summary, file)

        return self._write_file(fmt.part_file(unit, part), part, fill, describe)

    def write_piece(
        self,
        unit: int,
        part: str,
        number: int,
        ranges: PieceRecord,
        fill: Callable[[Sink], shard.PartSummary],
    ) -> PieceRecord:
        """Write one piece of a divided part. Pieces can be written in any order, before the file of the part.

        Args:
            unit: Number of the unit.
            part: ``"graphs"`` or the name of a hierarchy.
            number: Number of the piece.
            ranges: Record with the level and the ranges of the piece.
            fill: Function that writes the content to a file.

        Returns:
            The record with the name, size and digests of the file.
        """
        name = fmt.piece_file(unit, part, number)

        def describe(_: shard.PartSummary, file: BinaryIO) -> PieceCompletion:
            size = file.seek(0, os.SEEK_END)
            record = replace(
                ranges, file=name, size=size, sha256=file_digest(file), ends=ends_digest(file, size)
            )
            return PieceCompletion(unit, part, number, self.spec.part_fingerprint(part), record)

        return self._write_file(name, part, fill, describe).piece

    @property
    def parts(self) -> tuple[str, ...]:
        """``"graphs"`` and the names of the hierarchies."""
        return (fmt.GRAPHS, *(h.name for h in self.spec.hierarchies))

    def tasks(self) -> list[Task]:
        """Return all files, unit by unit, graphs first."""
        return [Task(unit, part) for unit in range(self.spec.num_units) for part in self.parts]

    def pending(self, records: Records | None = None) -> list[Task]:
        """Return the files that are not written yet, in the order of :meth:`tasks`.

        Args:
            records: Result of :meth:`records`; read now if ``None``.
        """
        known = self.records() if records is None else records
        return [task for task in self.tasks() if known[task.part][task.unit] is None]

    def _first_graph(self, unit: int, num_graphs: int) -> int:
        """Check the number of graphs of a unit and return the id of its first graph."""
        if not 0 <= unit < self.spec.num_units:
            raise InputError(f"unit must lie in [0, {self.spec.num_units}), got {unit}", field="unit")
        first, last = self.spec.bounds[unit], self.spec.bounds[unit + 1]
        if num_graphs != last - first:
            raise InputError(
                f"unit {unit}: expected graphs {first}:{last}, got {num_graphs} graphs", field="unit"
            )
        return first

    def write_graphs(self, unit: int, table: GraphTable) -> PartRecord:
        """Write the input graphs of a unit.

        Args:
            unit: Number of the unit.
            table: Its graphs.

        Returns:
            The completion record of the file.
        """
        first = self._first_graph(unit, table.num_graphs)

        divided = _divide_graphs(self, unit, table)

        def fill(sink: Sink) -> shard.PartSummary:
            summary = shard.write_graphs_file(
                sink, table, self.spec.profile, unit, first, left_out=divided.paths
            )
            summary.pieces = divided.pieces
            return summary

        return self.write_part(unit, fmt.GRAPHS, fill)

    def write_hierarchy(
        self,
        unit: int,
        name: str,
        hierarchy: Hierarchy,
        *,
        metrics: Mapping[str, Array] | None = None,
        failures: Sequence[FailureRecord] = (),
    ) -> PartRecord:
        """Write one hierarchy over the graphs of a unit.

        Args:
            unit: Number of the unit.
            name: Name of the hierarchy in the specification.
            hierarchy: Its levels.
            metrics: Values per ``"<position>/<name>"``, where ``position`` counts the levels from 0. A value is one
                number, or has one row per graph.
            failures: Graphs that could not be coarsened.

        Returns:
            The completion record of the file.
        """
        first = self._first_graph(unit, hierarchy.num_graphs)
        wanted = self.spec.hierarchy(name)
        if hierarchy.depth != len(wanted.schedule):
            raise InputError(
                f"hierarchy {name!r}: expected {len(wanted.schedule)} levels, got {hierarchy.depth}",
                field="hierarchy",
            )
        if any(
            not first <= f.graph < self.spec.bounds[unit + 1] or f.level >= hierarchy.depth for f in failures
        ):
            raise InputError(
                f"failures of unit {unit}: expected graphs {first}:{self.spec.bounds[unit + 1]} of the whole store "
                f"and levels below {hierarchy.depth} (counted from 0), got {list(failures[:3])}",
                field="failures",
            )
        header: dict[str, str | int] = {"part": name, "unit": unit, "first_graph": first}

        divided = _divide_hierarchy(self, unit, name, hierarchy)

        def fill(sink: Sink) -> shard.PartSummary:
            summary = shard.write_hierarchy_file(
                sink,
                hierarchy,
                self.spec.profile,
                header,
                metrics=metrics,
                failures=failures,
                typed=self.spec.types is not None,
                left_out=divided.paths,
            )
            summary.pieces = divided.pieces
            return summary

        return self.write_part(unit, name, fill)

    def _make_record(self, unit: int, part: str, summary: shard.PartSummary, file: BinaryIO) -> PartRecord:
        """Return the completion record of a shard file after checking its size."""
        name = fmt.part_file(unit, part)
        size = file.seek(0, os.SEEK_END)
        check_decoded_size(name, self.spec.profile, sum(summary.bytes), size)
        return PartRecord(
            unit,
            part,
            self.spec.part_fingerprint(part),
            summary.shard_record(name, size, file_digest(file), ends_digest(file, size)),
            summary.fields,
            summary.levels,
            summary.metrics,
        )


Counts = Literal["rows", "edges", "nodes"]

_COUNTS: dict[str, Counts] = {"edge_index": "edges", "edge_weight": "edges", "representative": "rows"}
"""Rows of the arrays of a level. Other arrays have one row per node of the finer graph."""

_ROWS_OF_PTR: dict[str, Counts] = {"node": "rows", "edge": "edges"}


def _divide_graphs(writer: PartWriter, unit: int, table: GraphTable) -> Divided:
    """Write the pieces of the input graph of a unit, if it is to be divided.

    A graph is not divided if it is not alone in its unit, or if its edges are not sorted by source.

    Args:
        writer: Writer of the store.
        unit: Number of the unit.
        table: Its graphs.

    Returns:
        The arrays that are in pieces.
    """
    edges = table.fields.get("edge_index")
    if writer.spec.shard_edges is None or table.num_graphs != 1 or edges is None:
        return NOT_DIVIDED
    table.validate()
    sources = edges.values[0]
    if (sources[1:] < sources[:-1]).any():
        return NOT_DIVIDED
    ranges = find_ranges(table.num_nodes, edges.values.shape[1], [sources], writer.spec.shard_edges)
    if ranges is None:
        return NOT_DIVIDED
    infos = [graph_field_info(table, table.fields[name]) for name in sorted(table.fields)]
    columns = _field_columns("fields", infos, table.fields)
    return write_pieces(writer, unit, fmt.GRAPHS, 0, ranges, columns, 0)


def _divide_hierarchy(writer: PartWriter, unit: int, name: str, hierarchy: Hierarchy) -> Divided:
    """Write the pieces of the levels of a unit that are to be divided.

    Args:
        writer: Writer of the store.
        unit: Number of the unit.
        name: Name of the hierarchy.
        hierarchy: Its levels.

    Returns:
        The arrays that are in pieces.
    """
    divided, node_ptr, limit = NOT_DIVIDED, hierarchy.node_ptr, writer.spec.shard_edges
    if limit is None or hierarchy.num_graphs != 1:
        return divided
    for number, level in enumerate(hierarchy.levels):
        if level.block.num_edges > limit:
            arrays, base = level_arrays(level, node_ptr, number), f"levels/{number}"
            sources, nodes = arrays["edge_index"][0], int(node_ptr[-1])
            ranges = find_ranges(level.block.num_nodes, len(arrays["edge_index"][0]), [sources], limit, nodes)
            if ranges is not None:
                columns = [
                    _column(
                        _COUNTS.get(key, "nodes"), f"{base}/{key}", values, {"dtype": _dtype(key, values)}
                    )
                    for key, values in arrays.items()
                    if key not in ("super_ptr", "edge_ptr")
                ]
                infos = [level_field_info(level, field, number) for field in sorted(level.fields)]
                columns += _field_columns(f"{base}/fields", infos, level.fields)
                divided += write_pieces(writer, unit, name, number, ranges, columns, len(divided.pieces))
        node_ptr = level.block.node_ptr
    return divided


def _dtype(name: str, values: Array) -> str:
    return IDS.get(name) or values.dtype.newbyteorder("=").name


def _field_columns(base: str, infos: list[FieldInfo], fields: Mapping[str, Field]) -> list[Column]:
    """Return the columns of the attributes of nodes and edges. Others stay in the file of the part."""
    columns = []
    for info in infos:
        is_edges = info.name == "edge_index" and info.axis != 0
        if info.ptr in _ROWS_OF_PTR and (info.axis == 0 or is_edges):
            values = fields[info.name].values
            attributes = {"dtype": values.dtype.newbyteorder("=").name, **ShardFile.describe(info)}
            path = f"{base}/{fmt.encode_name(info.name)}"
            columns.append(_column(_ROWS_OF_PTR[info.ptr], path, values, attributes))
    return columns


def _column(counts: Counts, path: str, values: Array, attributes: Mapping[str, str | int]) -> Column:
    stored = narrow(values, path)
    axis = -1 if path.endswith("/edge_index") else 0
    tail = stored.shape[1:] if axis == 0 else stored.shape[:-1]
    return Column(counts, (Target(path, stored.dtype, attributes, tail, axis),), lambda: [(stored,)])
