"""Manifest, completion records and specification files of a store."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tgp.errors import StoreMissingError
from tgp.store.format import constants as fmt
from tgp.store.format.fingerprint import HierarchySpec, StoreSpec
from tgp.store.format.pieces import FileRecord
from tgp.store.format.schema import (
    FieldInfo,
    HierarchyInfo,
    LevelInfo,
    ShardRecord,
    parse_fields,
    parse_levels,
    parse_metrics,
)
from tgp.store.format.strict_json import Document, seal, unseal
from tgp.store.format.type_names import check_typed_fields
from tgp.store.io.files import LocalFiles, StoreFiles

__all__ = [
    "Manifest",
    "PartRecord",
    "is_later_minor",
    "read_manifest",
    "read_manifest_bytes",
    "read_recorded_spec",
    "read_spec",
]


def is_later_minor(document: Document) -> bool:
    """Return True if a manifest has a later minor version, whose additional keys this version ignores."""
    return "minor" in document.values and document.integer("minor", low=1) > fmt.MINOR


@dataclass(frozen=True)
class PartRecord:
    """Completion record of one part of one unit. It is written when the file of the part is durable.

    Args:
        unit: Number of the unit.
        part: ``"graphs"`` or the name of a hierarchy.
        fingerprint: Fingerprint of the part, see :meth:`StoreSpec.part_fingerprint`.
        shard: Digests and totals of the file.
        fields: Attributes of the graphs. Empty for a hierarchy.
        levels: Levels of the hierarchy. Empty for the graphs.
        metrics: Names of the stored metrics.
    """

    unit: int
    part: str
    fingerprint: str
    shard: ShardRecord
    fields: tuple[FieldInfo, ...] = ()
    levels: tuple[LevelInfo, ...] = ()
    metrics: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the content of the record file."""
        return seal(
            {
                "unit": self.unit,
                "part": self.part,
                "fingerprint": self.fingerprint,
                "shard": self.shard.to_json(),
                "fields": [f.to_json() for f in self.fields],
                "levels": [level.to_json() for level in self.levels],
                "metrics": list(self.metrics),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, unit: int, part: str) -> PartRecord:
        """Parse the content of a record file and check that it belongs to this unit and part."""
        document = unseal(data, f"{fmt.RECORDS}/{fmt.record_file(unit, part)}")
        if document.integer("unit") != unit or document.text("part") != part:
            raise document.fail("unit", f"{unit} (part {part!r})")
        levels = parse_levels(document)
        shard = Document(document.mapping("shard"), f"{document.name}: shard")
        count = 1 if part == fmt.GRAPHS else len(levels)
        return cls(
            unit,
            part,
            document.digest("fingerprint"),
            ShardRecord.from_json(shard, fmt.part_file(unit, part), count),
            parse_fields(document),
            levels,
            parse_metrics(document, len(levels)),
        )


@dataclass(frozen=True)
class Manifest:
    """Content of a complete store.

    Args:
        spec: Specification of the store.
        fields: Attributes of the input graphs, sorted by name.
        hierarchies: Hierarchies by name, sorted by name.
        shards: For each part (``"graphs"`` or the name of a hierarchy) one record per unit.
    """

    spec: StoreSpec
    fields: tuple[FieldInfo, ...]
    hierarchies: dict[str, HierarchyInfo]
    shards: dict[str, tuple[ShardRecord, ...]] = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the whole store."""
        return self.spec.fingerprint

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return self.spec.num_graphs

    @property
    def minor(self) -> int:
        """Minor format version: the first one that has everything that the store contains."""
        if self.spec.shard_edges is not None:
            return 5
        if self.spec.types is not None:
            return 4
        levels = [level for info in self.hierarchies.values() for level in info.levels]
        if any(field.shifted for level in levels for field in level.fields):
            return 4
        if any(h.carry is not None for h in self.spec.hierarchies) or any(level.fields for level in levels):
            return 3
        if any(info.form == "json" for info in self.fields):
            return 2
        is_new = any(h.engine is not None or h.metrics is not None for h in self.spec.hierarchies)
        return 1 if is_new else 0

    @property
    def files(self) -> tuple[FileRecord, ...]:
        """All files with arrays."""
        return tuple(file for records in self.shards.values() for record in records for file in record.files)

    def record(self, unit: int, part: str) -> PartRecord:
        """Return the completion record that a part had when the manifest was written."""
        info = self.hierarchies.get(part)
        return PartRecord(
            unit,
            part,
            self.spec.part_fingerprint(part),
            self.shards[part][unit],
            self.fields if info is None else (),
            () if info is None else info.levels,
            () if info is None else info.metrics,
        )

    def to_bytes(self) -> bytes:
        """Return the content of the manifest file. It does not depend on the order in which parts were written."""
        hierarchies = []
        for name, info in sorted(self.hierarchies.items()):
            hierarchies.append(
                {
                    **self.spec.hierarchy(name).to_json(),
                    "levels": [level.to_json() for level in info.levels],
                    "metrics": list(info.metrics),
                    "shards": [shard.to_json() for shard in self.shards[name]],
                }
            )
        return seal(
            {
                **({"minor": self.minor} if self.minor else {}),
                **self.spec.base_json(),
                "fingerprint": self.fingerprint,
                "fields": [f.to_json() for f in self.fields],
                "shards": [shard.to_json() for shard in self.shards[fmt.GRAPHS]],
                "hierarchies": hierarchies,
            }
        )

    @classmethod
    def from_records(cls, spec: StoreSpec, records: Mapping[str, Sequence[PartRecord]]) -> Manifest:
        """Merge the completion records of all units.

        Args:
            spec: Specification of the store.
            records: For each part one record per unit.

        Returns:
            The manifest, with the hierarchies sorted by name.

        Raises:
            StoreError: If the units of a part differ in their fields or levels.
        """
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
                wanted.carry,
            )
        fields = FieldInfo.merge([r.fields for r in records[fmt.GRAPHS]])
        return cls(
            ordered, fields, hierarchies, {p: tuple(r.shard for r in found) for p, found in records.items()}
        )

    @classmethod
    def from_bytes(cls, data: bytes, name: str = fmt.MANIFEST) -> Manifest:
        """Parse the content of a manifest file.

        Args:
            data: Content of the file.
            name: Name of the file, for messages.

        Returns:
            The manifest.

        Raises:
            StoreDamagedError: If the content is not a valid manifest.
            StoreVersionError: If the store has another format version.
        """
        document = unseal(data, name)
        entries = document.documents("hierarchies")
        spec = StoreSpec.from_json(document, tuple(HierarchySpec.from_json(entry) for entry in entries))
        shards = {fmt.GRAPHS: _parse_shards(document, spec, fmt.GRAPHS, 1)}
        hierarchies = {}
        for entry, wanted in zip(entries, spec.hierarchies, strict=True):
            levels = parse_levels(entry)
            if len(levels) != len(wanted.schedule):
                raise entry.fail("levels", f"a list of {len(wanted.schedule)} levels, as the schedule")
            shards[wanted.name] = _parse_shards(entry, spec, wanted.name, len(levels))
            failures = sum(s.failures for s in shards[wanted.name])
            hierarchies[wanted.name] = HierarchyInfo(
                wanted.name,
                tuple(wanted.schedule),
                wanted.seed,
                levels,
                parse_metrics(entry, len(levels)),
                failures,
                wanted.carry,
            )
        fields = parse_fields(document)
        check_typed_fields(document, spec.types, fields, hierarchies)
        # A later minor version may add keys on which the fingerprint depends.
        if document.digest("fingerprint") != spec.fingerprint and not is_later_minor(document):
            raise document.fail("fingerprint", f"the fingerprint of its content, {spec.fingerprint}")
        return cls(spec, fields, hierarchies, shards)


def _check_divided(
    document: Document, record: ShardRecord, spec: StoreSpec, part: str, num_graphs: int
) -> None:
    """Check that a shard may be divided: only a unit of one graph, if the specification says so."""
    if not record.pieces:
        return
    if spec.shard_edges is None or num_graphs != 1:
        raise document.fail(
            "pieces", "absent: only a unit of one graph of a store with 'shard_edges' is divided"
        )
    if part == fmt.GRAPHS and any(piece.nodes != (0, 0) for piece in record.pieces):
        raise document.fail("pieces", "a list of pieces of an input graph, without 'nodes'")


def _parse_shards(document: Document, spec: StoreSpec, part: str, levels: int) -> tuple[ShardRecord, ...]:
    """Parse the records of all files of a part and check their totals.

    Args:
        document: Manifest, or its entry of a hierarchy.
        spec: Specification of the store.
        part: ``"graphs"`` or the name of a hierarchy.
        levels: Number of totals of each record.
    """
    entries = document.documents("shards")
    if len(entries) != spec.num_units:
        raise document.fail("shards", f"a list of {spec.num_units} shards")
    records = tuple(
        ShardRecord.from_json(d, fmt.part_file(unit, part), levels) for unit, d in enumerate(entries)
    )
    for unit, record in enumerate(records):
        _check_divided(entries[unit], record, spec, part, spec.bounds[unit + 1] - spec.bounds[unit])
    for key in ("total_size", "failures"):
        if sum(getattr(record, key) for record in records) > fmt.MAX_COUNT:
            raise document.fail("shards", f"a list in which the sum of {key!r} is at most {fmt.MAX_COUNT}")
    for key in ("nodes", "edges", "bytes"):
        if sum(sum(getattr(record, key)) for record in records) > fmt.MAX_COUNT:
            raise document.fail("shards", f"a list in which the sum of {key!r} is at most {fmt.MAX_COUNT}")
    # Every graph has an entry in the offsets of its file, so the number of graphs is limited by the size of the files.
    ratio = 1 if spec.profile == "fast" else fmt.MAX_RATIO
    for unit, record in enumerate(records):
        count = spec.bounds[unit + 1] - spec.bounds[unit]
        if count >= record.size * ratio:
            raise entries[unit].fail("size", f"the size of a file of {count} graphs")
    return records


def read_manifest(files: StoreFiles) -> Manifest:
    """Read the manifest of a complete store.

    Args:
        files: Files of the store.

    Returns:
        The manifest.

    Raises:
        StoreMissingError: If there is no complete store.
        StoreDamagedError: If the manifest is not valid.
        StoreVersionError: If the store has another format version.
    """
    manifest = Manifest.from_bytes(read_manifest_bytes(files), f"{files.location}/{fmt.MANIFEST}")
    files.expect(manifest.files)
    return manifest


def read_manifest_bytes(files: StoreFiles) -> bytes:
    """Read the manifest file without parsing it.

    Args:
        files: Files of the store.

    Returns:
        Content of the file.

    Raises:
        StoreMissingError: If there is no complete store.
    """
    try:
        return files.read(fmt.MANIFEST, fmt.MAX_MANIFEST_BYTES)
    except StoreMissingError as error:
        raise StoreMissingError(
            f"no complete store at {files.location}: it has no {fmt.MANIFEST}",
            path=files.location,
            hint="If a run was interrupted, run the same `tgp coarsen` command again: it continues.",
        ) from error


def read_spec(path: str | os.PathLike[str]) -> StoreSpec | None:
    """Read the specification of a complete or incomplete store.

    A hierarchy that is added to a store needs the ``bounds`` and ``profile`` of this specification.

    Args:
        path: Directory of the store.

    Returns:
        The specification, or ``None`` if there is no store.
    """
    files = LocalFiles(path)
    try:
        return read_manifest(files).spec
    except StoreMissingError:
        return read_recorded_spec(files)


def read_recorded_spec(files: LocalFiles) -> StoreSpec | None:
    """Read the specification from the records directory of a store.

    Args:
        files: Files of the store.

    Returns:
        The specification, or ``None`` if there is none.
    """
    names = files.names(fmt.RECORDS)
    if fmt.spec_file(None) not in names:
        return None

    def load(name: str) -> Document:
        path = f"{fmt.RECORDS}/{name}"
        return unseal(files.read(path, fmt.MAX_MANIFEST_BYTES), path)

    found = [n for n in names if n.startswith("spec.") and n.endswith(".json") and n != fmt.spec_file(None)]
    hierarchies = tuple(HierarchySpec.from_json(load(name)) for name in found)
    return StoreSpec.from_json(load(fmt.spec_file(None)), hierarchies)
