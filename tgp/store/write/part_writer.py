"""Write the parts of a store: the checks and the records that all kinds of storage share."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy.typing as npt

from tgp.errors import InputError
from tgp.ragged import GraphTable, Hierarchy
from tgp.store.format import constants as fmt
from tgp.store.format.fingerprint import StoreSpec
from tgp.store.format.manifest import Manifest, PartRecord
from tgp.store.format.piece_completion import PieceCompletion
from tgp.store.format.pieces import PieceRecord
from tgp.store.format.schema import FailureRecord
from tgp.store.io.files import StoreFiles, ends_digest, file_digest
from tgp.store.io.sink import Sink
from tgp.store.write import shard
from tgp.store.write.divided_arrays import divide_graphs, divide_hierarchy
from tgp.store.write.limits import check_decoded_size
from tgp.store.write.records import Records

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
    """File that is not written yet. ``part`` is ``"graphs"`` or the name of a hierarchy."""

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

    def pending(self) -> list[Task]:
        """Return the files that are not written yet, unit by unit, graphs first."""
        records = self.records()
        return [
            Task(unit, part)
            for unit in range(self.spec.num_units)
            for part in self.parts
            if records[part][unit] is None
        ]

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

        divided = divide_graphs(self, unit, table)

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
        metrics: Mapping[str, npt.NDArray[Any]] | None = None,
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

        divided = divide_hierarchy(self, unit, name, hierarchy)

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
