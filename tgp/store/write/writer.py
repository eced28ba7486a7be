"""Write a store shard by shard, so that a run can be killed and continued at any time.

A part of a unit is written in this order: temporary file, fsync, digest, rename, fsync of the directory, completion
record (written in the same way). A file without a valid record is ignored and written again. The manifest is written
last, so a store without a manifest is incomplete. Several writers may work on the same store: they write the same bytes,
and renames are atomic.

The recorded specification decides which writers may change a store. A writer gives a file its final name only while it
holds the lock of the store (shared) and the recorded specification is its own. ``force`` replaces the specification while
it holds the lock exclusively, so the files of a writer that was replaced never mix with those of its successor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from tgp.errors import StoreDamagedError, StoreMismatchError, StoreMissingError
from tgp.store.format import constants as fmt
from tgp.store.format.differences import spec_differences
from tgp.store.format.fingerprint import StoreSpec
from tgp.store.format.manifest import Manifest, read_manifest, read_recorded_spec
from tgp.store.format.pieces import PieceCompletion, PieceRecord
from tgp.store.format.strict_json import seal
from tgp.store.io.failpoint import failpoint
from tgp.store.io.files import LocalFiles
from tgp.store.io.sink import Sink
from tgp.store.write import shard
from tgp.store.write.discard import check_manifest_is_own, discard_parts
from tgp.store.write.part_writer import Describe, PartWriter, Task, _Record
from tgp.store.write.records import (
    Records,
    adopt,
    changes_of_spec,
    check_shards,
    collect_manifest,
    read_records,
)

__all__ = ["REBUILD", "StoreWriter", "Task"]

REBUILD = (
    "Rebuild the store with --force, or write another one with --out OTHER (in Python: force=True, out=...)."
)
"""Hint of every mismatch."""


class StoreWriter(PartWriter):
    """Writer of the parts of a store. It can be pickled, so that worker processes can write units.

    Use :meth:`open` to start or continue a store. The constructor neither reads nor writes anything.

    Args:
        path: Directory of the store.
        spec: Specification of the store.
    """

    def __init__(self, path: str | os.PathLike[str], spec: StoreSpec) -> None:
        super().__init__(spec)
        self.files: LocalFiles = LocalFiles(path)
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
                from the stored ones, all other hierarchies are deleted too. Only files that the store itself names are
                deleted, see :mod:`tgp.store.write.discard`.

        Returns:
            A writer for the store.

        Raises:
            StoreMismatchError: If the directory holds a store of another specification. ``differences`` lists what
                differs.
            StoreError: If ``force`` would delete a file of another program.
            StoreDamagedError: If the records directory, the lock or a file to delete is a symbolic link.
        """
        writer = cls(path, spec)
        writer.files.make()
        writer.files.remove_stale()
        if force:
            with writer.files.lock():
                writer._discard()
                writer._record_spec()
        else:
            writer._continue()
            if writer._missing_spec_files():
                with writer.files.lock():
                    writer._continue()
                    writer._record_spec()
        return writer

    def _stored_specs(self, *, damaged_ok: bool = False) -> list[StoreSpec]:
        """Return the specifications of the manifest and of the records directory, as far as they exist.

        Args:
            damaged_ok: Omit a damaged specification instead of raising an error.
        """
        found = []
        manifest = self.read_manifest(damaged_ok=damaged_ok)
        if manifest is not None:
            found.append(manifest.spec)
        try:
            recorded = read_recorded_spec(self.files)
        except (StoreDamagedError, StoreMissingError):
            if not damaged_ok:
                raise
            recorded = None
        return found if recorded is None else [*found, recorded]

    def _continue(self) -> None:
        """Compare the specification with the stored one and adopt the stored values."""
        for stored in self._stored_specs():
            differences = spec_differences(stored, self.spec)
            if differences:
                raise StoreMismatchError(
                    f"{self.files.location} holds a store of other data or settings",
                    differences=differences,
                    path=self.files.location,
                    hint=REBUILD,
                )
            self.spec = adopt(self.spec, stored)

    def _discard(self) -> None:
        """Delete the parts of this writer, or all parts if the stored graphs are others."""
        stored = self._stored_specs(damaged_ok=True)
        graphs = self.spec.part_fingerprint(fmt.GRAPHS)
        same = bool(stored) and all(spec.part_fingerprint(fmt.GRAPHS) == graphs for spec in stored)
        discard_parts(self.files, stored, set(self.parts) if same else None)
        self._manifest, self._manifest_version = None, None

    def _missing_spec_files(self) -> list[str | None]:
        """Return the hierarchies without a specification file, ``None`` for the graphs."""
        present = self.files.names(fmt.RECORDS)
        wanted = (None, *(h.name for h in self.spec.hierarchies))
        return [name for name in wanted if fmt.spec_file(name) not in present]

    def _record_spec(self) -> None:
        """Write the specification into the records directory, so that an interrupted run can be continued."""
        for hierarchy in self._missing_spec_files():
            content = self.spec.base_json() if hierarchy is None else self.spec.hierarchy(hierarchy).to_json()
            name = f"{fmt.RECORDS}/{fmt.spec_file(hierarchy)}"
            self.files.write(name, seal(content), exclusive=True)
        self._check_spec(self.parts)

    def _check_spec(self, parts: Sequence[str]) -> None:
        """Check that no other process has replaced the recorded specification of some parts."""
        differences = changes_of_spec(self.files, self.spec, parts, self.read_manifest)
        if differences:
            raise StoreMismatchError(
                f"another process is writing other data or settings to {self.files.location}",
                differences=differences,
                path=self.files.location,
                hint="Wait until it has finished, then run this command again.",
            )

    # State --------------------------------------------------------------------------------------

    def records(self) -> Records:
        """Read the completion records of all parts.

        Returns:
            For each part one entry per unit: the record, or ``None`` if the file has to be written.
        """
        return read_records(self.files, self.spec, self.read_manifest())

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

    @property
    def is_complete(self) -> bool:
        """True if the manifest is published and covers the specification, and its files have the right sizes."""
        manifest = self.read_manifest()
        if manifest is None or any(part not in manifest.shards for part in self.parts):
            return False
        if any(manifest.spec.part_fingerprint(p) != self.spec.part_fingerprint(p) for p in self.parts):
            return False
        sizes = self.files.sizes()
        records = (record for part in self.parts for record in manifest.shards[part])
        return all(sizes.get(file.file) == file.size for record in records for file in record.files)

    # Writing ------------------------------------------------------------------------------------

    def _write_file(
        self, name: str, part: str, fill: Callable[[Sink], shard.PartSummary], describe: Describe[_Record]
    ) -> _Record:
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
                record = describe(summary, file)
            failpoint("shard:digested")
            with self.files.lock(shared=True):
                self._check_spec((fmt.GRAPHS,) if part == fmt.GRAPHS else (fmt.GRAPHS, part))
                temp.rename()
                failpoint("shard:renamed")
                temp.sync()
                failpoint("shard:durable")
                self.files.write(f"{fmt.RECORDS}/{name.removesuffix('h5')}json", record.to_bytes())
        failpoint("shard:recorded")
        return record

    def find_piece(self, unit: int, part: str, number: int) -> PieceRecord | None:
        try:
            data = self.files.read(
                f"{fmt.RECORDS}/{fmt.record_file(unit, part, number)}", fmt.MAX_MANIFEST_BYTES
            )
            found = PieceCompletion.from_bytes(data, unit, part, number)
            is_valid = found.fingerprint == self.spec.part_fingerprint(part)
            return found.piece if is_valid and self.files.size(found.piece.file) == found.piece.size else None
        except (StoreMissingError, StoreDamagedError):
            return None

    def discard_failed(self) -> list[Task]:
        """Delete the completion records of units with failed graphs, so that they are written again.

        Returns:
            The files that have to be written again.
        """
        with self.files.lock():
            self._check_spec(self.parts)
            tasks = [
                Task(unit, part)
                for part, records in self.records().items()
                for unit, record in enumerate(records)
                if record is not None and record.shard.failures
            ]
            if tasks and check_manifest_is_own(self.files):
                self.files.remove(fmt.MANIFEST)
                self.files.sync()
            for task in tasks:
                self.files.remove(f"{fmt.RECORDS}/{fmt.record_file(task.unit, task.part)}")
        return tasks

    def publish(self) -> Manifest:
        """Write the manifest atomically.

        It lists everything that this writer was asked for, and the complete hierarchies of other writers. A manifest
        that already lists all of this is not written again, so this also works in a read-only directory.

        Returns:
            The manifest.

        Raises:
            StoreError: If something this writer was asked for is not written yet, or a file does not match its
                completion record.
            StoreMismatchError: If another process has replaced the specification of the store.
        """
        published = self.read_manifest() if self.is_complete else None
        if published is not None and published.to_bytes() == self._collect_manifest().to_bytes():
            return published
        with self.files.lock() as locked:
            self._check_spec(self.parts)
            manifest = self._collect_manifest()
            check_shards(self.files, manifest, self.read_manifest(), full=not locked)
            check_manifest_is_own(self.files)
            self.files.remove_stale()  # temporary files of workers that died while others continued
            failpoint("manifest:before")
            self.files.write(fmt.MANIFEST, manifest.to_bytes())
            failpoint("manifest:after")
        return manifest

    def _collect_manifest(self) -> Manifest:
        """Return the manifest of everything that is written."""
        return collect_manifest(self.files, self.spec, self.read_manifest())
