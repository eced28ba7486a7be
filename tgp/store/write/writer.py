"""Write a store shard by shard, so that a run can be killed and continued at any time.

A part of a unit is written in this order: temporary file, fsync, digest, rename, fsync of the directory, completion
record (written in the same way). A file without a valid record is ignored and written again. The manifest is written
last, so a store without a manifest is incomplete. Several writers may work on the same store: they write the same bytes,
and renames are atomic.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from tgp.errors import InputError, StoreDamagedError, StoreError, StoreMismatchError, StoreMissingError
from tgp.ragged import GraphTable, Hierarchy
from tgp.store.format import constants as fmt
from tgp.store.format.fingerprint import HierarchySpec, StoreSpec, spec_differences
from tgp.store.format.manifest import Manifest, PartRecord, read_manifest, read_recorded_spec, seal
from tgp.store.format.schema import FailureRecord, ShardRecord
from tgp.store.io.failpoint import failpoint
from tgp.store.io.files import LocalFiles, Sink, ends_digest, file_digest
from tgp.store.write import shard

__all__ = ["StoreWriter", "Task"]


@dataclass(frozen=True, order=True)
class Task:
    """File that is not written yet. ``part`` is ``"graphs"`` or the name of a hierarchy."""

    unit: int
    part: str


class StoreWriter:
    """Writer of the parts of a store. It can be pickled, so that worker processes can write units.

    Use :meth:`open` to start or continue a store. The constructor neither reads nor writes anything.

    Args:
        path: Directory of the store.
        spec: Specification of the store.
    """

    def __init__(self, path: str | os.PathLike[str], spec: StoreSpec) -> None:
        self.files = LocalFiles(path)
        self.spec = spec
        self._manifest: Manifest | None = None
        self._manifest_version: tuple[int, int, int] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return StoreWriter, (self.files.path, self.spec)

    @classmethod
    def open(cls, path: str | os.PathLike[str], spec: StoreSpec, *, force: bool = False) -> StoreWriter:
        """Start or continue a store.

        Args:
            path: Directory of the store. It is created if it does not exist.
            spec: Specification of the store. Hierarchies that the store already has may be omitted.
            force: Delete the graphs and the hierarchies named in ``spec`` and write them again. If the graphs differ
                from the stored ones, all other hierarchies are deleted too.

        Returns:
            A writer for the store.

        Raises:
            StoreMismatchError: If the directory holds a store of another specification. ``differences`` lists what
                differs.
        """
        writer = cls(path, spec)
        writer.files.make()
        writer.files.remove_stale()
        stored = writer._read_stored_spec(ignore_damage=force)
        if stored is not None:
            writer._continue(stored, force)
        elif force:
            writer._discard(None)
        writer._record_spec()
        return writer

    def _read_stored_spec(self, ignore_damage: bool) -> StoreSpec | None:
        """Return the stored specification, or ``None`` if there is none or, with ``ignore_damage``, it is damaged."""
        try:
            manifest = self.read_manifest(damaged_ok=False)
            return manifest.spec if manifest is not None else read_recorded_spec(self.files)
        except StoreError:
            if not ignore_damage:
                raise
            return None

    def _continue(self, stored: StoreSpec, force: bool) -> None:
        differences = spec_differences(stored, self.spec)
        if force:
            same = stored.part_fingerprint(fmt.GRAPHS) == self.spec.part_fingerprint(fmt.GRAPHS)
            self._discard(set(self.parts) if same else None)
        elif differences:
            raise StoreMismatchError(
                f"{self.files.location} holds a store of other data or settings:\n  "
                + "\n  ".join(differences),
                differences=differences,
                path=self.files.location,
                hint="Choose another directory, or rebuild the store with force (--force).",
            )
        else:
            self.spec = replace(self.spec, dataset=stored.dataset)

    def _discard(self, parts: set[str] | None) -> None:
        """Delete the manifest, then the files of the given parts (of all parts if ``None``)."""
        self.files.remove(fmt.MANIFEST)
        self.files.sync(fmt.MANIFEST)
        for folder in (fmt.RECORDS, ""):
            for name in self.files.names(folder):
                part = fmt.part_of_file(name)
                if part is not None and (parts is None or part in parts):
                    self.files.remove(os.path.join(folder, name))
        self.files.sync(f"{fmt.RECORDS}/x")

    def _record_spec(self) -> None:
        """Write the specification into the records directory, so that an interrupted run can be continued."""
        self._write_spec_file(None, seal(self.spec.base_json()))
        for entry in self.spec.hierarchies:
            self._write_spec_file(entry.name, seal(entry.to_json()))
        stored = read_recorded_spec(self.files)
        differences = [] if stored is None else spec_differences(stored, self.spec)
        if differences:
            raise StoreMismatchError(
                f"another process is writing other data or settings to {self.files.location}:\n  "
                + "\n  ".join(differences),
                differences=differences,
                path=self.files.location,
            )

    def _write_spec_file(self, hierarchy: str | None, data: bytes) -> None:
        name = f"{fmt.RECORDS}/{fmt.spec_file(hierarchy)}"
        if not self.files.exists(name):
            self.files.write(name, data, exclusive=True)

    # State --------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[str, ...]:
        """``"graphs"`` and the names of the hierarchies."""
        return (fmt.GRAPHS, *(h.name for h in self.spec.hierarchies))

    def records(self) -> dict[str, list[PartRecord | None]]:
        """Read the completion records of all parts.

        Returns:
            For each part one entry per unit: the record, or ``None`` if the file has to be written.
        """
        return self._read_records(self.spec)

    def _read_records(self, spec: StoreSpec) -> dict[str, list[PartRecord | None]]:
        manifest = self.read_manifest()
        found = {}
        for part in (fmt.GRAPHS, *(h.name for h in spec.hierarchies)):
            fingerprint = spec.part_fingerprint(part)
            records = (self._read_record(unit, part, manifest) for unit in range(spec.num_units))
            found[part] = [r if r is not None and r.fingerprint == fingerprint else None for r in records]
        return found

    def _read_record(self, unit: int, part: str, manifest: Manifest | None) -> PartRecord | None:
        """Read the completion record of one file, or return ``None`` if the file is not complete."""
        name = f"{fmt.RECORDS}/{fmt.record_file(unit, part)}"
        try:
            record = PartRecord.from_bytes(self.files.read(name, fmt.MAX_MANIFEST_BYTES), unit, part)
        except (StoreMissingError, StoreDamagedError):
            # A store that was copied without its records is still complete.
            if manifest is None or part not in manifest.shards:
                return None
            record = manifest.record(unit, part)
        return record if self._has_size(record.shard) else None

    def read_manifest(self, *, damaged_ok: bool = True) -> Manifest | None:
        """Read the manifest. The file is parsed again only if it was replaced since the last call.

        Args:
            damaged_ok: Return ``None`` for a damaged manifest, as for a missing one, instead of raising an error.

        Returns:
            The manifest, or ``None`` if there is none.
        """
        try:
            version = self.files.version(fmt.MANIFEST)
            if version != self._manifest_version:
                self._manifest, self._manifest_version = read_manifest(self.files), version
        except (StoreMissingError, StoreDamagedError) as error:
            self._manifest, self._manifest_version = None, None
            if isinstance(error, StoreDamagedError) and not damaged_ok:
                raise
        return self._manifest

    def pending(self) -> list[Task]:
        """Return the files that are not written yet, unit by unit, graphs first."""
        records = self.records()
        return [
            Task(unit, part)
            for unit in range(self.spec.num_units)
            for part in self.parts
            if records[part][unit] is None
        ]

    @property
    def is_complete(self) -> bool:
        """True if the manifest is published and covers the specification, and its files have the right sizes."""
        manifest = self.read_manifest()
        if manifest is None or any(part not in manifest.shards for part in self.parts):
            return False
        if any(manifest.spec.part_fingerprint(p) != self.spec.part_fingerprint(p) for p in self.parts):
            return False
        return all(self._has_size(s) for part in self.parts for s in manifest.shards[part])

    def _has_size(self, record: ShardRecord) -> bool:
        try:
            return self.files.size(record.file) == record.size
        except (StoreMissingError, StoreDamagedError):
            return False

    # Writing ------------------------------------------------------------------------------------

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
            )

        return self._write(unit, name, fill)

    def _write(self, unit: int, part: str, fill: Callable[[Sink], shard.PartSummary]) -> PartRecord:
        """Write a shard file and its completion record. ``fill`` writes the content of the file."""
        name = fmt.part_file(unit, part)
        with self.files.writing(name), self.files.temporary(name) as temp:
            failpoint("shard:created")
            sink = Sink(temp.descriptor)
            try:
                summary = fill(sink)
            finally:
                sink.raise_error()
            failpoint("shard:written")
            os.fsync(temp.descriptor)
            failpoint("shard:synced")
            with temp.reopen() as file:
                size = os.fstat(temp.descriptor).st_size
                sha256, ends = file_digest(file), ends_digest(file, size)
            record = PartRecord(
                unit,
                part,
                self.spec.part_fingerprint(part),
                summary.shard_record(name, size, sha256, ends),
                summary.fields,
                summary.levels,
                summary.metrics,
            )
            failpoint("shard:digested")
            temp.rename()
            failpoint("shard:renamed")
            self.files.sync(name)
        failpoint("shard:durable")
        self.files.write(f"{fmt.RECORDS}/{fmt.record_file(unit, part)}", record.to_bytes())
        failpoint("shard:recorded")
        return record

    def publish(self) -> Manifest:
        """Write the manifest atomically.

        It lists everything that this writer was asked for, and the complete hierarchies of other writers. A manifest
        that already lists all of this is not written again, so this also works in a read-only directory.

        Returns:
            The manifest.

        Raises:
            StoreError: If something this writer was asked for is not written yet.
        """
        published = self.read_manifest() if self.is_complete else None
        if published is not None and published.to_bytes() == self._collect_manifest().to_bytes():
            return published
        with self.files.lock():
            manifest = self._collect_manifest()
            self.files.remove_stale()  # temporary files of workers that died while others continued
            failpoint("manifest:before")
            self.files.write(fmt.MANIFEST, manifest.to_bytes())
            failpoint("manifest:after")
        return manifest

    def _collect_manifest(self) -> Manifest:
        """Return the manifest of everything that is written."""
        records = self.records()
        missing = [Task(u, p) for p, found in records.items() for u, r in enumerate(found) if r is None]
        if missing:
            shown = ", ".join(f"{t.part} of unit {t.unit}" for t in missing[:5])
            raise StoreError(
                f"{len(missing)} parts are not written yet: {shown}{', ...' if len(missing) > 5 else ''}",
                path=self.files.location,
            )
        hierarchies = self.spec.hierarchies
        others = self._other_hierarchies()
        found = self._read_records(replace(self.spec, hierarchies=others))
        for other in others:
            if all(found[other.name]):
                records[other.name] = found[other.name]
                hierarchies = (*hierarchies, other)
        spec = replace(self.spec, hierarchies=hierarchies)
        return Manifest.from_records(spec, {p: [r for r in parts if r] for p, parts in records.items()})

    def _other_hierarchies(self) -> tuple[HierarchySpec, ...]:
        """Return the hierarchies over these graphs that this writer was not asked for."""
        names = {h.name for h in self.spec.hierarchies}
        manifest = self.read_manifest()
        specs = (read_recorded_spec(self.files), manifest.spec if manifest is not None else None)
        others = {h.name: h for spec in specs if spec for h in spec.hierarchies if h.name not in names}
        return tuple(others.values())
