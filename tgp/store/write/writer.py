"""``StoreWriter``: shard by shard, crash-safe, resumable; the manifest last.

A part of a unit is written in this order: temporary file, fsync, digest, rename, fsync of the directory,
completion record (itself written so). A file without a valid record is not believed and is written again;
a store without a manifest is not complete. Two writers may work on one store at once: they write the same
bytes, and renames are atomic.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError, StoreDamagedError, StoreError, StoreMismatchError, StoreMissingError
from tgp.ragged import GraphTable, Hierarchy
from tgp.store.format import constants as fmt
from tgp.store.format.fingerprint import HierarchySpec, StoreSpec, spec_differences
from tgp.store.format.manifest import Manifest, PartRecord, read_manifest, seal, unseal
from tgp.store.format.schema import FailureRecord, FieldInfo, HierarchyInfo, LevelInfo, ShardRecord
from tgp.store.io.failpoint import failpoint
from tgp.store.io.files import LocalFiles, Sink, ends_digest, file_digest
from tgp.store.write import shard

__all__ = ["StoreWriter", "Task", "read_spec"]


class FailureLike(Protocol):
    """What a failure must tell; ids are those of the whole store."""

    @property
    def graph(self) -> int: ...
    @property
    def level(self) -> int: ...
    @property
    def reason(self) -> str: ...


@dataclass(frozen=True, order=True)
class Task:
    """A file that is still to be written: ``part`` is ``"graphs"`` or the name of a hierarchy."""

    unit: int
    part: str


def read_spec(path: str | os.PathLike[str]) -> StoreSpec | None:
    """What the store at ``path``, finished or not, is made from; ``None`` if there is no store.

    Adding a hierarchy to a store needs its ``bounds`` and ``profile``: take them from here.
    """
    files = LocalFiles(path)
    try:
        return read_manifest(files).spec
    except StoreMissingError:
        return _recorded_spec(files)


def _recorded_spec(files: LocalFiles) -> StoreSpec | None:
    names = files.names(fmt.RECORDS)
    if fmt.spec_file(None) not in names:
        return None

    def load(name: str) -> Any:
        path = f"{fmt.RECORDS}/{name}"
        return unseal(files.read(path, fmt.MAX_MANIFEST_BYTES), path)

    found = [n for n in names if n.startswith("spec.") and n.endswith(".json") and n != fmt.spec_file(None)]
    hierarchies = tuple(HierarchySpec.from_json(load(name)) for name in found)
    return StoreSpec.from_json(load(fmt.spec_file(None)), hierarchies)


class StoreWriter:
    """Writes the parts of a store. Made by :meth:`open`; picklable, so that workers can write units."""

    def __init__(self, path: str | os.PathLike[str], spec: StoreSpec) -> None:
        self.files = LocalFiles(path)
        self.spec = spec

    @classmethod
    def open(cls, path: str | os.PathLike[str], spec: StoreSpec, *, force: bool = False) -> StoreWriter:
        """Start or continue a store.

        Args:
            path: the directory; made if absent.
            spec: what the store is made from. Hierarchies the store already has may be left out.
            force: throw away the graphs and the hierarchies named in ``spec`` and write them again; if the
                graphs differ from the stored ones, every other hierarchy goes too.

        Raises:
            StoreMismatchError: there is a store made from something else; ``differences`` says what differs.
        """
        writer = cls(path, spec)
        writer.files.make()
        writer.files.remove_stale()
        stored = read_spec(path) if not force else _readable_spec(path)
        if stored is not None:
            writer._continue(stored, force)
        elif force:
            writer._discard(None)
        writer._record_spec()
        return writer

    def _continue(self, stored: StoreSpec, force: bool) -> None:
        differences = spec_differences(stored, self.spec)
        if force:
            same = stored.part_fingerprint(fmt.GRAPHS) == self.spec.part_fingerprint(fmt.GRAPHS)
            self._discard(set(self.parts) if same else None)
        elif differences:
            raise StoreMismatchError(
                f"{self.files.location} holds a store made from something else:\n  "
                + "\n  ".join(differences),
                differences=differences,
                path=self.files.location,
                hint="Choose another directory, or build it anew with force (--force).",
            )
        else:
            self.spec = replace(self.spec, dataset=stored.dataset)

    def _discard(self, parts: set[str] | None) -> None:
        """Delete the manifest, then the files of the given parts (all if ``None``)."""
        self.files.remove(fmt.MANIFEST)
        self.files.sync(fmt.MANIFEST)
        for folder in (fmt.RECORDS, ""):
            for name in self.files.names(folder):
                part = fmt.part_of_file(name)
                if part is not None and (parts is None or part in parts):
                    self.files.remove(os.path.join(folder, name))
        self.files.sync(f"{fmt.RECORDS}/x")

    def _record_spec(self) -> None:
        """Note what this store is made from, so that an interrupted run knows it."""
        self._record_one(None, seal(self.spec.base_json()))
        for entry in self.spec.hierarchies:
            self._record_one(entry.name, seal(entry.to_json()))
        stored = _recorded_spec(self.files)
        differences = [] if stored is None else spec_differences(stored, self.spec)
        if differences:
            raise StoreMismatchError(
                f"another writer is making something else at {self.files.location}:\n  "
                + "\n  ".join(differences),
                differences=differences,
                path=self.files.location,
            )

    def _record_one(self, hierarchy: str | None, data: bytes) -> None:
        name = f"{fmt.RECORDS}/{fmt.spec_file(hierarchy)}"
        if not self.files.exists(name):
            self.files.write(name, data, exclusive=True)

    # State --------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[str, ...]:
        """``"graphs"`` and the names of the hierarchies."""
        return (fmt.GRAPHS, *(h.name for h in self.spec.hierarchies))

    def record(self, unit: int, part: str) -> PartRecord | None:
        """The completion record of a part, if it is valid and its file is there."""
        return self._record(self.spec, unit, part, self._manifest())

    def _record(self, spec: StoreSpec, unit: int, part: str, manifest: Manifest | None) -> PartRecord | None:
        name = f"{fmt.RECORDS}/{fmt.record_file(unit, part)}"
        try:
            record = PartRecord.from_bytes(self.files.read(name, fmt.MAX_MANIFEST_BYTES), unit, part)
        except (StoreMissingError, StoreDamagedError):
            # A store that was copied without its records is still complete.
            if manifest is None or part not in manifest.shards:
                return None
            record = manifest.record(unit, part)
        if record.fingerprint != spec.part_fingerprint(part) or not self._has_size(record.shard):
            return None
        return record

    def _manifest(self) -> Manifest | None:
        try:
            return read_manifest(self.files)
        except (StoreMissingError, StoreDamagedError):
            return None

    def pending(self) -> list[Task]:
        """What is still to be written, unit by unit, graphs first."""
        manifest = self._manifest()
        return [
            Task(unit, part)
            for unit in range(self.spec.num_units)
            for part in self.parts
            if self._record(self.spec, unit, part, manifest) is None
        ]

    @property
    def is_complete(self) -> bool:
        """Whether the manifest is published, covers the specification, and its files have their sizes."""
        manifest = self._manifest()
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

    def _graphs_in(self, unit: int, found: int) -> int:
        """Check a unit's number of graphs; the id of its first graph."""
        if not 0 <= unit < self.spec.num_units:
            raise InputError(f"unit must lie in [0, {self.spec.num_units}), got {unit}", field="unit")
        first, last = self.spec.bounds[unit], self.spec.bounds[unit + 1]
        if found != last - first:
            raise InputError(f"unit {unit} holds graphs {first}:{last}, got {found} graphs", field="unit")
        return first

    def write_graphs(self, unit: int, table: GraphTable) -> PartRecord:
        """Write the input graphs of a unit."""
        first = self._graphs_in(unit, table.num_graphs)

        def fill(sink: Sink) -> shard.PartSummary:
            return shard.write_graphs_file(sink, table, self.spec.profile, unit, first)

        return self._write(unit, fmt.GRAPHS, fill)

    def write_hierarchy(
        self,
        unit: int,
        name: str,
        hierarchy: Hierarchy,
        *,
        weight_dtype: npt.DTypeLike = np.float32,
        metrics: Mapping[str, npt.NDArray[Any]] | None = None,
        failures: Sequence[FailureLike] = (),
    ) -> PartRecord:
        """Write one hierarchy over the graphs of a unit.

        Args:
            unit: number of the unit.
            name: name of the hierarchy in the specification.
            hierarchy: its levels.
            weight_dtype: type of the stored edge weights.
            metrics: ``"<level>/<name>"`` -> one row per graph, or one number.
            failures: graphs (ids of the whole store) that could not be coarsened.
        """
        first = self._graphs_in(unit, hierarchy.num_graphs)
        wanted = self.spec.hierarchy(name)
        if hierarchy.depth != len(wanted.schedule):
            raise InputError(
                f"hierarchy {name!r} has {len(wanted.schedule)} levels, got {hierarchy.depth}",
                field="hierarchy",
            )
        ledger = [FailureRecord(int(f.graph), int(f.level), str(f.reason)) for f in failures]
        if any(
            not first <= f.graph < self.spec.bounds[unit + 1] or f.level >= hierarchy.depth for f in ledger
        ):
            raise InputError(
                f"failures of unit {unit} must name graphs {first}:{self.spec.bounds[unit + 1]} of the whole store "
                f"and levels below {hierarchy.depth}, got {ledger[:3]}",
                field="failures",
            )
        header: dict[str, str | int] = {"part": name, "unit": unit, "first_graph": first}

        def fill(sink: Sink) -> shard.PartSummary:
            return shard.write_hierarchy_file(
                sink,
                hierarchy,
                self.spec.profile,
                header,
                weight_dtype=weight_dtype,
                metrics=metrics,
                failures=ledger,
            )

        return self._write(unit, name, fill)

    def _write(self, unit: int, part: str, fill: Callable[[Sink], shard.PartSummary]) -> PartRecord:
        name = fmt.part_file(unit, part)
        with self.files.writing(name), self.files.temporary(name) as (descriptor, temp):
            failpoint("shard:created")
            sink = Sink(descriptor)
            try:
                summary = fill(sink)
            finally:
                sink.raise_error()
            failpoint("shard:written")
            os.fsync(descriptor)
            failpoint("shard:synced")
            with open(temp, "rb") as file:
                size = os.fstat(descriptor).st_size
                sha256, ends = file_digest(file), ends_digest(file, size)
            record = PartRecord(
                unit,
                part,
                self.spec.part_fingerprint(part),
                ShardRecord(
                    name,
                    size,
                    sha256,
                    ends,
                    tuple(summary.nodes),
                    tuple(summary.edges),
                    tuple(summary.bytes),
                    summary.failures,
                ),
                summary.fields,
                summary.levels,
                summary.metrics,
            )
            failpoint("shard:digested")
            self.files.publish(temp, name)
        failpoint("shard:durable")
        self.files.write(f"{fmt.RECORDS}/{fmt.record_file(unit, part)}", record.to_bytes())
        failpoint("shard:recorded")
        return record

    def publish(self) -> Manifest:
        """Write the manifest, atomically.

        Everything asked for must have been written. Hierarchies that others have finished are listed, too. A manifest
        that says it all is left alone.
        """
        published = self._manifest() if self.is_complete else None
        if published is not None and published.to_bytes() == self._finished().to_bytes():
            return published  # nothing to write; in a folder for reading only, that is as well
        with self.files.lock():
            manifest = self._finished()
            self.files.remove_stale()  # of workers that died while others went on
            failpoint("manifest:before")
            self.files.write(fmt.MANIFEST, manifest.to_bytes())
            failpoint("manifest:after")
        return manifest

    def _finished(self) -> Manifest:
        """The manifest of everything that is written."""
        spec, records = self.spec, self._records(self.spec)
        missing = [Task(u, p) for p, found in records.items() for u, r in enumerate(found) if r is None]
        if missing:
            shown = ", ".join(f"{t.part} of unit {t.unit}" for t in missing[:5])
            raise StoreError(
                f"{len(missing)} parts are not written yet: {shown}{', ...' if len(missing) > 5 else ''}",
                path=self.files.location,
            )
        for name, found in self._records(self._others()).items():
            if name != fmt.GRAPHS and all(found):
                records[name] = found
                spec = replace(spec, hierarchies=(*spec.hierarchies, self._others().hierarchy(name)))
        return _build_manifest(spec, {p: [r for r in found if r] for p, found in records.items()})

    def _others(self) -> StoreSpec:
        """The hierarchies over these graphs that this writer was not asked for."""
        names = {h.name for h in self.spec.hierarchies}
        found = [
            s.hierarchies for s in (_recorded_spec(self.files), read_spec(self.files.path)) if s is not None
        ]
        others = {h.name: h for hierarchies in found for h in hierarchies if h.name not in names}
        return replace(self.spec, hierarchies=tuple(others.values()))

    def _records(self, spec: StoreSpec) -> dict[str, list[PartRecord | None]]:
        manifest = self._manifest()
        parts = (fmt.GRAPHS, *(h.name for h in spec.hierarchies))
        return {p: [self._record(spec, u, p, manifest) for u in range(spec.num_units)] for p in parts}


def _readable_spec(path: str | os.PathLike[str]) -> StoreSpec | None:
    """The stored specification, or ``None`` if it cannot be read: force rebuilds damaged stores, too."""
    try:
        return read_spec(path)
    except StoreError:
        return None


def _build_manifest(spec: StoreSpec, records: Mapping[str, Sequence[PartRecord]]) -> Manifest:
    ordered = replace(spec, hierarchies=tuple(sorted(spec.hierarchies, key=lambda h: h.name)))
    hierarchies = {}
    for wanted in ordered.hierarchies:
        found = records[wanted.name]
        hierarchies[wanted.name] = HierarchyInfo(
            wanted.name,
            tuple(wanted.schedule),
            wanted.seed,
            LevelInfo.merge([(r.levels, r.shard.nodes) for r in found]),
            tuple(m for m in found[0].metrics if all(m in r.metrics for r in found)),
            sum(r.shard.failures for r in found),
        )
    return Manifest(
        ordered,
        FieldInfo.merge([r.fields for r in records[fmt.GRAPHS]]),
        hierarchies,
        {part: tuple(r.shard for r in found) for part, found in records.items()},
    )
