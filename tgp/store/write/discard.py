"""Deletion of a store, or of parts of it, for ``--force``.

Only files that the store itself names are deleted: those of its specification, its manifest and its completion records.
Other files of the directory are kept, also those with a similar name. Everything is checked before the first file is
deleted. The order of deletion is manifest, shards, completion records, specifications. Therefore a reader never sees a
published store without its shards, and after a kill the remaining files are still named by a specification or a record.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tgp.errors import StoreDamagedError, StoreError, StoreMissingError, StoreVersionError
from tgp.store.format import constants as fmt
from tgp.store.format.fingerprint import StoreSpec
from tgp.store.format.manifest import PartRecord
from tgp.store.format.pieces import PieceCompletion
from tgp.store.format.strict_json import parse, seal, unseal
from tgp.store.io.failpoint import failpoint
from tgp.store.io.files import LocalFiles

__all__ = ["check_manifest_is_own", "discard_parts"]

_UNIT_FILE = re.compile(r"shard-([0-9]{5,9})\.([^.]+)(?:\.r([0-9]{4}))?\.(h5|json)")


@dataclass
class _OwnFiles:
    """Names of the files to delete, by kind. Those of records and specifications include the directory."""

    shards: list[str] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    specs: list[str] = field(default_factory=list)


def discard_parts(files: LocalFiles, specs: Iterable[StoreSpec], parts: Collection[str] | None) -> None:
    """Delete the manifest, then the files of some parts.

    Args:
        files: Files of the store. The caller holds its lock.
        specs: Specifications of the store that could be read: the recorded one and that of the manifest.
        parts: Parts to delete, all parts if ``None``.

    Raises:
        StoreError: If a file of the store is a symbolic link, or a file that is not of the store is in the place of one.
            Nothing is deleted in this case.
    """
    specs = tuple(specs)
    own = _find_own_files(files, specs, parts)
    has_manifest = check_manifest_is_own(files)
    for name in (*own.shards, *own.records, *own.specs):
        files.size(name)  # raises an error for anything but a regular file
    if has_manifest:
        for name in _record_specs(files, specs):
            if parts is None or fmt.part_of_file(name) in parts:
                own.specs.append(f"{fmt.RECORDS}/{name}")
        files.remove(fmt.MANIFEST)
        files.sync()
    failpoint("force-manifest")
    for name in own.shards:
        files.remove(name)
    files.sync()
    failpoint("force-shards")
    for name in own.records:
        files.remove(name)
    files.sync(fmt.RECORDS)
    failpoint("force-records")
    for name in own.specs:
        files.remove(name)
    files.sync(fmt.RECORDS)
    failpoint("force-specs")


def _record_specs(files: LocalFiles, specs: Iterable[StoreSpec]) -> list[str]:
    """Write missing specification files, which name the shards when the manifest is deleted, and return their names."""
    present, written = files.names(fmt.RECORDS), []
    for spec in specs:
        contents = {fmt.spec_file(h.name): h.to_json() for h in spec.hierarchies}
        contents[fmt.spec_file(None)] = spec.base_json()
        for name, content in contents.items():
            if name not in present and name not in written:
                files.write(f"{fmt.RECORDS}/{name}", seal(content), exclusive=True)
                written.append(name)
    return written


def _find_own_files(
    files: LocalFiles, specs: tuple[StoreSpec, ...], parts: Collection[str] | None
) -> _OwnFiles:
    own, units = _OwnFiles(), _named_units(specs)
    is_divided = any(spec.shard_edges is not None for spec in specs)
    recorded: set[tuple[int, str, int | None]] = set()
    for name in files.names(fmt.RECORDS):
        path, part = f"{fmt.RECORDS}/{name}", fmt.part_of_file(name)
        if part is None or (parts is not None and part not in parts) or not name.endswith(".json"):
            continue
        unit, piece = _unit_of(name)
        if unit is None:
            own.specs.append(path)
        elif (unit < units.get(part, 0) and (is_divided or piece is None)) or _is_record(
            files, path, unit, part, piece
        ):
            own.records.append(path)
            recorded.add((unit, part, piece))
    for name in files.names():
        (unit, piece), part = _unit_of(name), fmt.part_of_file(name)
        if unit is None or part is None or not name.endswith(".h5"):
            continue
        named = unit < units.get(part, 0) and (is_divided or piece is None)
        named |= (unit, part, piece) in recorded
        if named and (parts is None or part in parts):
            own.shards.append(name)
    is_store = bool(specs) or _has_sealed_record(files)
    for name in own.specs:
        _check_specification(files, name, is_store)
    return own


def _named_units(specs: tuple[StoreSpec, ...]) -> dict[str, int]:
    """Return the number of units of each part that a specification names."""
    units: dict[str, int] = {}
    for spec in specs:
        for part in (fmt.GRAPHS, *(h.name for h in spec.hierarchies)):
            units[part] = max(units.get(part, 0), spec.num_units)
    return units


def _unit_of(name: str) -> tuple[int | None, int | None]:
    """Return the unit of a shard or completion record, and the number of its piece; ``None`` for any other name."""
    found = _UNIT_FILE.fullmatch(name)
    if found is None:
        return None, None
    unit, part, piece = int(found[1]), found[2], None if found[3] is None else int(found[3])
    file = fmt.part_file(unit, part) if piece is None else fmt.piece_file(unit, part, piece)
    return (unit, piece) if name in (file, fmt.record_file(unit, part, piece)) else (None, None)


def _is_record(files: LocalFiles, path: str, unit: int, part: str, piece: int | None) -> bool:
    """Return True if a file is a completion record, also one that the specification does not name."""
    try:
        data = files.read(path, fmt.MAX_MANIFEST_BYTES)
        if piece is None:
            PartRecord.from_bytes(data, unit, part)
        else:
            PieceCompletion.from_bytes(data, unit, part, piece)
    except StoreError:
        return False
    return True


def _check_specification(files: LocalFiles, path: str, is_store: bool) -> None:
    """Refuse to delete a file with the name of a specification that another program has written."""
    if not _has_own_format(files, path, is_store):
        raise StoreError(
            f"{files.path / path} is not a file of tgp. Nothing was deleted",
            path=files.path / path,
            hint="Choose another directory, or move this file.",
        )


def _has_own_format(files: LocalFiles, name: str, is_store: bool) -> bool:
    """Return True if a JSON file was written by tgp. One that cannot be parsed counts as damaged if ``is_store``."""
    try:
        document = parse(files.read(name, fmt.MAX_MANIFEST_BYTES), name)
    except StoreDamagedError:
        return is_store
    return document.values.get("format") == fmt.FORMAT


def _has_sealed_record(files: LocalFiles) -> bool:
    """Return True if the records directory has at least one intact file of tgp."""
    for name in files.names(fmt.RECORDS):
        if fmt.part_of_file(name) is None:
            continue
        path = f"{fmt.RECORDS}/{name}"
        try:
            unseal(files.read(path, fmt.MAX_MANIFEST_BYTES), path)
        except StoreVersionError:
            return True
        except StoreError:
            continue
        return True
    return False


def check_manifest_is_own(files: LocalFiles) -> bool:
    """Check that a file with the name of the manifest may be replaced or deleted.

    A manifest that cannot be parsed counts as damaged if the directory has an intact file of tgp in its records.

    Args:
        files: Files of the store.

    Returns:
        True if there is a manifest, False if there is none.

    Raises:
        StoreError: If another program wrote the file.
        StoreDamagedError: If it is a symbolic link or not a regular file.
    """
    try:
        files.size(fmt.MANIFEST)
        if _has_own_format(files, fmt.MANIFEST, is_store=False):
            return True
        if _has_own_format(files, fmt.MANIFEST, is_store=True) and _has_sealed_record(files):
            return True
    except StoreMissingError:
        return False
    raise StoreError(
        f"{files.path / fmt.MANIFEST} is not the manifest of a store. Nothing was deleted",
        path=files.path / fmt.MANIFEST,
        hint="Choose another directory, or move this file.",
    )
