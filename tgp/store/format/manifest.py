"""The manifest and the completion records: sealed JSON, written atomically, the manifest last."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tgp.errors import StoreDamagedError, StoreMissingError, StoreVersionError
from tgp.store.format import constants as fmt
from tgp.store.format.fingerprint import HierarchySpec, StoreSpec
from tgp.store.format.schema import FieldInfo, HierarchyInfo, LevelInfo, ShardRecord
from tgp.store.format.strict_json import Document, canonical, parse
from tgp.store.io.files import StoreFiles

__all__ = ["Manifest", "PartRecord", "read_manifest", "seal", "canonical_bytes", "unseal"]

_SEAL = "checksum"


def seal(values: dict[str, Any]) -> bytes:
    """A JSON file for people and programs, with a digest of its own content."""
    body = {"format": fmt.FORMAT, "version": fmt.VERSION, **values}
    body[_SEAL] = hashlib.sha256(canonical(body)).hexdigest()
    return (json.dumps(body, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode()


def unseal(data: bytes, name: str) -> Document:
    """Read what :func:`seal` wrote; other versions and altered files are refused."""
    document = parse(data, name)
    if document.text("format") != fmt.FORMAT:
        raise document.fail("format", repr(fmt.FORMAT))
    version = document.integer("version", low=1)
    if version != fmt.VERSION:
        raise StoreVersionError(
            f"{name} has format version {version}, this version of tgp reads version {fmt.VERSION}",
            path=name,
            hint="Install a newer tgp, or make the store again with this one."
            if version > fmt.VERSION
            else None,
        )
    body = {key: value for key, value in document.values.items() if key != _SEAL}
    if document.digest(_SEAL) != hashlib.sha256(canonical(body)).hexdigest():
        raise StoreDamagedError(
            f"{name} was altered: its content does not match its checksum", path=name, item=name
        )
    return document


def canonical_bytes(document: Document) -> bytes:
    """The bytes :func:`seal` gives for what a file says; others say the same, but somebody else wrote them."""
    return seal({key: value for key, value in document.values.items() if key != _SEAL})


@dataclass(frozen=True)
class PartRecord:
    """Completion record of one part of one unit: written when its file is durable."""

    unit: int
    part: str
    fingerprint: str
    shard: ShardRecord
    fields: tuple[FieldInfo, ...] = ()
    levels: tuple[LevelInfo, ...] = ()
    metrics: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
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
        document = unseal(data, f"{fmt.RECORDS}/{fmt.record_file(unit, part)}")
        if document.integer("unit") != unit or document.text("part") != part:
            raise document.fail("unit", f"{unit} (part {part!r})")
        levels = tuple(LevelInfo.from_json(d) for d in document.documents("levels"))
        shard = Document(document.mapping("shard"), f"{document.name}: shard")
        count = 1 if part == fmt.GRAPHS else len(levels)
        return cls(
            unit,
            part,
            document.digest("fingerprint"),
            ShardRecord.from_json(shard, fmt.part_file(unit, part), count),
            tuple(FieldInfo.from_json(d) for d in document.documents("fields")),
            levels,
            document.texts("metrics"),
        )


@dataclass(frozen=True)
class Manifest:
    """What a complete store holds.

    Args:
        spec: what it was made from.
        fields: attributes of the input graphs, sorted by name.
        hierarchies: name -> what it holds, sorted by name.
        shards: part (``"graphs"`` or a hierarchy) -> one record per unit.
    """

    spec: StoreSpec
    fields: tuple[FieldInfo, ...]
    hierarchies: dict[str, HierarchyInfo]
    shards: dict[str, tuple[ShardRecord, ...]] = field(repr=False)

    @property
    def fingerprint(self) -> str:
        return self.spec.fingerprint

    @property
    def num_graphs(self) -> int:
        return self.spec.num_graphs

    def record(self, unit: int, part: str) -> PartRecord:
        """The completion record a part had when the manifest was written."""
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
        """The file's content: a function of the content alone, hierarchies in the order of their names."""
        hierarchies = []
        for name, info in sorted(self.hierarchies.items()):
            hierarchies.append(
                {
                    "name": name,
                    "schedule": list(info.schedule),
                    "seed": info.seed,
                    "levels": [level.to_json() for level in info.levels],
                    "metrics": list(info.metrics),
                    "shards": [shard.to_json() for shard in self.shards[name]],
                }
            )
        return seal(
            {
                **self.spec.base_json(),
                "fingerprint": self.fingerprint,
                "fields": [f.to_json() for f in self.fields],
                "shards": [shard.to_json() for shard in self.shards[fmt.GRAPHS]],
                "hierarchies": hierarchies,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, name: str = fmt.MANIFEST) -> Manifest:
        document = unseal(data, name)
        entries = document.documents("hierarchies")
        spec = StoreSpec.from_json(document, tuple(HierarchySpec.from_json(entry) for entry in entries))
        shards = {fmt.GRAPHS: _shards(document, spec, fmt.GRAPHS, 1)}
        hierarchies = {}
        for entry, wanted in zip(entries, spec.hierarchies, strict=True):
            levels = tuple(LevelInfo.from_json(d) for d in entry.documents("levels"))
            if len(levels) != len(wanted.schedule):
                raise entry.fail("levels", f"a list of {len(wanted.schedule)} levels, as the schedule")
            shards[wanted.name] = _shards(entry, spec, wanted.name, len(levels))
            failures = sum(s.failures for s in shards[wanted.name])
            hierarchies[wanted.name] = HierarchyInfo(
                wanted.name, tuple(wanted.schedule), wanted.seed, levels, entry.texts("metrics"), failures
            )
        fields = tuple(FieldInfo.from_json(d) for d in document.documents("fields"))
        if len({f.name for f in fields}) != len(fields):
            raise document.fail("fields", "a list of different fields")
        if document.digest("fingerprint") != spec.fingerprint:
            raise document.fail("fingerprint", f"the fingerprint of its content, {spec.fingerprint}")
        return cls(spec, fields, hierarchies, shards)


def _shards(document: Document, spec: StoreSpec, part: str, levels: int) -> tuple[ShardRecord, ...]:
    entries = document.documents("shards")
    if len(entries) != spec.num_units:
        raise document.fail("shards", f"a list of {spec.num_units} shards")
    return tuple(
        ShardRecord.from_json(d, fmt.part_file(unit, part), levels) for unit, d in enumerate(entries)
    )


def read_manifest(files: StoreFiles) -> Manifest:
    """The manifest of a complete store; :class:`StoreMissingError` if there is none."""
    try:
        data = files.read(fmt.MANIFEST, fmt.MAX_MANIFEST_BYTES)
    except StoreMissingError as error:
        raise StoreMissingError(
            f"no complete store at {files.location}: it has no {fmt.MANIFEST}",
            path=files.location,
            hint="An interrupted run has none yet: run the same `tgp coarsen` command again, it continues.",
        ) from error
    return Manifest.from_bytes(data, f"{files.location}/{fmt.MANIFEST}")
