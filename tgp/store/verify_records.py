"""Check that the records of a store agree with its manifest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tgp.errors import StoreError, StoreMissingError
from tgp.store.format import constants as fmt
from tgp.store.format.manifest import Manifest, PartRecord
from tgp.store.format.pieces import PieceCompletion
from tgp.store.format.schema import ShardRecord
from tgp.store.format.strict_json import canonical_bytes, unseal
from tgp.store.io.files import LocalFiles, StoreFiles

__all__ = ["Finding", "check_records", "check_unlisted"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong in a store.

    Args:
        shard: Name of the file.
        field: Array or key in the file, if known.
        graph: Id of the graph in the whole store, if known.
        message: Description for people.
    """

    shard: str
    field: str | None
    graph: int | None
    message: str


def check_records(files: StoreFiles, manifest: Manifest, is_later: bool) -> Iterator[Finding]:
    """Check that the completion records and specifications agree with the manifest. They may be missing.

    Args:
        files: Files of the store.
        manifest: Its manifest.
        is_later: True if the manifest has a later minor version. Its fingerprints cannot be computed then.
    """
    for part, shards in manifest.shards.items():
        fingerprint = manifest.spec.part_fingerprint(part)
        for unit, shard in enumerate(shards):
            yield from _check_piece_records(files, shard, unit, part, None if is_later else fingerprint)
            name = f"{fmt.RECORDS}/{fmt.record_file(unit, part)}"
            try:
                data = files.read(name, fmt.MAX_MANIFEST_BYTES)
                record = PartRecord.from_bytes(data, unit, part)
            except StoreMissingError:
                continue
            except StoreError as error:
                yield Finding(name, None, None, str(error))
                continue
            same = record.shard == shard
            if not is_later:
                same = same and record.fingerprint == fingerprint and record.to_bytes() == data
            if not same:
                yield Finding(name, None, None, f"{name} does not agree with the manifest")
    for hierarchy in (None, *manifest.hierarchies):
        name = f"{fmt.RECORDS}/{fmt.spec_file(hierarchy)}"
        try:
            data = files.read(name, fmt.MAX_MANIFEST_BYTES)
            document = unseal(data, name)
        except StoreMissingError:
            continue
        except StoreError as error:
            yield Finding(name, None, None, str(error))
            continue
        if canonical_bytes(document) != data:
            yield Finding(name, None, None, f"{name} was edited: it is not in the canonical form")


def _check_piece_records(
    files: StoreFiles, shard: ShardRecord, unit: int, part: str, fingerprint: str | None
) -> Iterator[Finding]:
    """Check the completion records of the pieces of a shard. They may be missing."""
    for number, piece in enumerate(shard.pieces):
        name = f"{fmt.RECORDS}/{fmt.record_file(unit, part, number)}"
        try:
            data = files.read(name, fmt.MAX_MANIFEST_BYTES)
            record = PieceCompletion.from_bytes(data, unit, part, number)
        except StoreMissingError:
            continue
        except StoreError as error:
            yield Finding(name, None, None, str(error))
            continue
        same = record.piece == piece
        if fingerprint is not None:
            same = same and record.fingerprint == fingerprint and record.to_bytes() == data
        if not same:
            yield Finding(name, None, None, f"{name} does not agree with the manifest")


def check_unlisted(files: StoreFiles, manifest: Manifest) -> Iterator[Finding]:
    """Check that a local store has no pieces that the manifest does not list. They could be those of another table of ranges.

    Args:
        files: Files of the store.
        manifest: Its manifest.
    """
    if manifest.spec.shard_edges is None or not isinstance(files, LocalFiles):
        return
    listed = {file.file for file in manifest.files}
    for name in files.names():
        if fmt.is_piece_file(name) and fmt.part_of_file(name) in manifest.shards and name not in listed:
            yield Finding(name, None, None, f"{name} is not listed in {fmt.MANIFEST}: expected no such piece")
