"""Completion records of a store, and the specification to which they belong.

Everything here takes time proportional to the number of units: directories are listed once, the manifest is parsed once,
and a fingerprint is computed once per part.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from tgp.errors import Difference, StoreDamagedError, StoreError, StoreMissingError
from tgp.store.format import constants as fmt
from tgp.store.format.differences import spec_differences
from tgp.store.format.fingerprint import HierarchySpec, StoreSpec
from tgp.store.format.manifest import Manifest, PartRecord, read_recorded_spec
from tgp.store.format.pieces import FileRecord
from tgp.store.io.directory import Directory, open_directory
from tgp.store.io.files import LocalFiles, ends_digest, file_digest

__all__ = [
    "Records",
    "adopt",
    "changes_of_spec",
    "check_shards",
    "collect_manifest",
    "complete_manifest",
    "read_records",
]

Records = dict[str, list[PartRecord | None]]
"""For each part one entry per unit: the completion record, or ``None`` if the file has to be written."""

_SETTLED_NS = 2 * 10**9
"""A file that is older than this (in nanoseconds) gets another time stamp when it is replaced."""

_checked: dict[tuple[str, str], tuple[tuple[int, int, int], ...]] = {}
"""Specification files that were compared with a specification: (directory, fingerprints) -> versions of the files."""


def read_records(files: LocalFiles, spec: StoreSpec, manifest: Manifest | None) -> Records:
    """Read the completion records of all parts of a specification.

    Args:
        files: Files of the store.
        spec: Specification with the parts.
        manifest: Manifest of the store. It replaces records that are missing, because a store that was copied without
            its records is still complete.

    Returns:
        The records with the fingerprint of their part whose files have the recorded size.
    """
    sizes, found = files.sizes(), Records()
    with contextlib.ExitStack() as stack:
        folder, written = None, frozenset[str]()
        with contextlib.suppress(FileNotFoundError):
            folder = stack.enter_context(open_directory(files.path, fmt.RECORDS))
            written = frozenset(folder.names())
        for part in (fmt.GRAPHS, *(h.name for h in spec.hierarchies)):
            fingerprint = spec.part_fingerprint(part)
            published = _published_records(manifest, part, fingerprint)
            records: list[PartRecord | None] = []
            for unit in range(spec.num_units):
                record = None
                if folder is not None and fmt.record_file(unit, part) in written:
                    record = _read_record(folder, unit, part)
                if record is None and unit < len(published):
                    record = published[unit]
                valid = (
                    record is not None
                    and record.fingerprint == fingerprint
                    and all(sizes.get(file.file) == file.size for file in record.shard.files)
                )
                records.append(record if valid else None)
            found[part] = records
    return found


def _published_records(manifest: Manifest | None, part: str, fingerprint: str) -> list[PartRecord]:
    """Return the records of one part from the manifest, or none if it lists the part with another fingerprint."""
    if manifest is None or part not in manifest.shards:
        return []
    first = manifest.record(0, part)
    if first.fingerprint != fingerprint:
        return []
    return [replace(first, unit=unit, shard=shard) for unit, shard in enumerate(manifest.shards[part])]


def _read_record(folder: Directory, unit: int, part: str) -> PartRecord | None:
    try:
        data = folder.read(fmt.record_file(unit, part), fmt.MAX_MANIFEST_BYTES)
        return PartRecord.from_bytes(data, unit, part)
    except (FileNotFoundError, StoreDamagedError):
        return None


def adopt(spec: StoreSpec, stored: StoreSpec) -> StoreSpec:
    """Return a specification with the values of a compatible stored one.

    The description of the data is not compared, and a store of an older version does not have all values of a
    hierarchy. The stored values are kept, so that the fingerprints of existing files stay valid.

    Args:
        spec: Specification of this run.
        stored: Specification of the store, without differences to ``spec``.
    """
    known = {h.name: h for h in stored.hierarchies}
    hierarchies = tuple(known.get(h.name, h) for h in spec.hierarchies)
    return replace(spec, dataset=stored.dataset, hierarchies=hierarchies)


def changes_of_spec(
    files: LocalFiles, spec: StoreSpec, parts: Iterable[str], read_manifest: Callable[[], Manifest | None]
) -> list[Difference]:
    """List what another process has changed in the recorded specification of a store.

    The files are parsed again only if they were replaced since the last call in this process.

    Args:
        files: Files of the store.
        spec: Specification of this run.
        parts: Parts that are compared.
        read_manifest: Function that returns the manifest. It is called for a store without specification files only,
            because a manifest is long and a worker checks the specification for every shard.

    Returns:
        The differences, none if the specification is unchanged.
    """
    parts = tuple(parts)
    names = [fmt.spec_file(None if part == fmt.GRAPHS else part) for part in parts]
    fingerprints = [spec.part_fingerprint(part) for part in parts]
    key = files.location, " ".join(fingerprints)
    try:
        versions = tuple(files.version(f"{fmt.RECORDS}/{name}") for name in names)
        if _checked.get(key) == versions:
            return []
    except StoreMissingError:
        versions = ()
    stored = read_recorded_spec(files)
    if stored is None:
        manifest = read_manifest()
        stored = None if manifest is None else manifest.spec
    if stored is None:
        return [Difference("deleted", "the specification of the store was deleted")]
    known = {fmt.GRAPHS, *(h.name for h in stored.hierarchies)}
    changed = [
        Difference("deleted", f"hierarchy {part!r} was deleted", hierarchy=part)
        for part in parts
        if part not in known
    ]
    for part, fingerprint in zip(parts, fingerprints, strict=True):
        if part in known and stored.part_fingerprint(part) != fingerprint:
            unknown = Difference("version", f"{part}: written by another version of tgp")
            return changed + (spec_differences(stored, spec) or [unknown])
    if not changed and versions and time.time_ns() - max(v[2] for v in versions) > _SETTLED_NS:
        if len(_checked) >= 1000:
            _checked.clear()
        _checked[key] = versions
    return changed


def collect_manifest(files: LocalFiles, spec: StoreSpec, published: Manifest | None) -> Manifest:
    """Return the manifest of everything that is written.

    Args:
        files: Files of the store.
        spec: Parts that must be complete.
        published: Current manifest of the store.

    Returns:
        The manifest of these parts, and of the complete hierarchies of other writers.

    Raises:
        StoreError: If a part of ``spec`` is not complete.
    """
    others = _other_hierarchies(files, spec, published)
    records = read_records(files, replace(spec, hierarchies=(*spec.hierarchies, *others)), published)
    return complete_manifest(spec, records, files.location, others)


def complete_manifest(
    spec: StoreSpec, records: Records, location: str, others: Iterable[HierarchySpec] = ()
) -> Manifest:
    """Return the manifest of completion records.

    Args:
        spec: Parts that must be complete.
        records: Completion records of these parts and of other hierarchies.
        location: Location of the store, for the message.
        others: Other hierarchies. Those that are complete become part of the manifest.

    Raises:
        StoreError: If a part of ``spec`` is not complete.
    """
    wanted = (fmt.GRAPHS, *(h.name for h in spec.hierarchies))
    missing = [
        f"{part} of unit {unit}" for part in wanted for unit, r in enumerate(records[part]) if r is None
    ]
    if missing:
        raise StoreError(
            f"{len(missing)} parts are not written yet: {', '.join(missing[:5])}{', ...' * (len(missing) > 5)}",
            path=location,
        )
    complete = {part: [r for r in found if r] for part, found in records.items() if all(found)}
    hierarchies = (*spec.hierarchies, *(h for h in others if h.name in complete))
    return Manifest.from_records(replace(spec, hierarchies=hierarchies), complete)


def _other_hierarchies(
    files: LocalFiles, spec: StoreSpec, published: Manifest | None
) -> tuple[HierarchySpec, ...]:
    """Return the hierarchies over the same graphs that a specification does not name."""
    names = {h.name for h in spec.hierarchies}
    specs = (read_recorded_spec(files), None if published is None else published.spec)
    others = {h.name: h for stored in specs if stored for h in stored.hierarchies if h.name not in names}
    return tuple(others.values())


def check_shards(
    files: LocalFiles, manifest: Manifest, published: Manifest | None, *, full: bool = False
) -> None:
    """Check that files are those of their completion records. Wrong records are deleted.

    Args:
        files: Files of the store.
        manifest: Records to compare.
        published: Manifest that is already published. The files that it lists in the same way are not read again.
        full: Read the whole files, and not only both ends.

    Raises:
        StoreError: If another process has replaced a file.
    """
    replaced: list[FileRecord] = []
    for part, records in manifest.shards.items():
        known = () if published is None else published.shards.get(part, ())
        for unit, record in enumerate(records):
            is_known = unit < len(known) and known[unit] == record
            wrong = [] if is_known else [file for file in record.files if not _matches(files, file, full)]
            if wrong:
                replaced += wrong
                files.remove(f"{fmt.RECORDS}/{fmt.record_file(unit, part)}")
            for file in wrong:
                files.remove(f"{fmt.RECORDS}/{file.file.removesuffix('h5')}json")
    if replaced:
        raise StoreError(
            f"{len(replaced)} files of {files.location} do not match their completion records, the first one is "
            f"{replaced[0].file}: another process has replaced them",
            path=files.path / replaced[0].file,
            hint="Run the same command again: it writes them again.",
        )


def _matches(files: LocalFiles, record: FileRecord, full: bool) -> bool:
    try:
        with files.open(record.file) as file:
            size = file.seek(0, 2)
            if size != record.size or ends_digest(file, size) != record.ends:
                return False
            return not full or file_digest(file) == record.sha256
    except StoreError:
        return False
