"""Parse the lists of a manifest or completion record: fields, levels, metrics and files."""

from __future__ import annotations

from tgp.store.format import constants as fmt
from tgp.store.format.fingerprint import StoreSpec
from tgp.store.format.schema import FieldInfo, LevelInfo, ShardRecord
from tgp.store.format.strict_json import Document

__all__ = ["parse_fields", "parse_levels", "parse_metrics", "parse_shards"]


def parse_fields(document: Document) -> tuple[FieldInfo, ...]:
    """Parse the fields of the graphs and check them together."""
    fields = tuple(FieldInfo.from_json(d) for d in document.documents("fields"))
    names = {f.name for f in fields}
    if len(names) != len(fields) or len(fields) > fmt.MAX_OBJECTS:
        raise document.fail("fields", f"a list of at most {fmt.MAX_OBJECTS} different fields")
    if "edge_index" not in names and any("edge" in f.ptrs for f in fields):
        raise document.fail("fields", "a list with edge_index, whose offsets other fields use")
    return fields


def parse_levels(document: Document) -> tuple[LevelInfo, ...]:
    """Parse the levels of a hierarchy."""
    levels = tuple(LevelInfo.from_json(d) for d in document.documents("levels"))
    if len(levels) > fmt.MAX_LEVELS:
        raise document.fail("levels", f"a list of at most {fmt.MAX_LEVELS} levels")
    return levels


def parse_metrics(document: Document, num_levels: int) -> tuple[str, ...]:
    """Parse the names of metrics, ``"<position of the level>/<name>"``."""
    names = document.texts("metrics")
    for name in names:
        level, _, rest = name.partition("/")
        is_number = level.isascii() and level.isdigit() and str(int(level)) == level
        if not is_number or int(level) >= num_levels or not rest or len(fmt.encode_name(rest)) > fmt.MAX_NAME:
            raise document.fail("metrics", f"a list of names '<level>/<name>' with levels below {num_levels}")
    if len(names) > fmt.MAX_METRICS:
        raise document.fail("metrics", f"a list of at most {fmt.MAX_METRICS} names")
    return names


def check_divided(
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


def parse_shards(document: Document, spec: StoreSpec, part: str, levels: int) -> tuple[ShardRecord, ...]:
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
        check_divided(entries[unit], record, spec, part, spec.bounds[unit + 1] - spec.bounds[unit])
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
