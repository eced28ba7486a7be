"""Write the parts of a store: the checks and the records that all kinds of storage share."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy.typing as npt

from tgp.errors import InputError
from tgp.ragged import GraphTable, Hierarchy
from tgp.store.format import constants as fmt
from tgp.store.format.fingerprint import StoreSpec
from tgp.store.format.manifest import Manifest, PartRecord
from tgp.store.format.schema import FailureRecord
from tgp.store.io.files import StoreFiles, ends_digest, file_digest
from tgp.store.io.sink import Sink
from tgp.store.write import shard
from tgp.store.write.limits import check_decoded_size
from tgp.store.write.records import Records

__all__ = ["PartWriter", "Task"]


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
    def _write(self, unit: int, part: str, fill: Callable[[Sink], shard.PartSummary]) -> PartRecord:
        """Write a shard file and its completion record. ``fill`` writes the content of the file."""

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

        def fill(sink: Sink) -> shard.PartSummary:
            return shard.write_graphs_file(sink, table, self.spec.profile, unit, first)

        return self._write(unit, fmt.GRAPHS, fill)

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

        def fill(sink: Sink) -> shard.PartSummary:
            return shard.write_hierarchy_file(
                sink,
                hierarchy,
                self.spec.profile,
                header,
                metrics=metrics,
                failures=failures,
                typed=self.spec.types is not None,
            )

        return self._write(unit, name, fill)

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
