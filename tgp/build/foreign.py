"""Files of an unfinished store that were written with other settings or by another engine."""

from __future__ import annotations

from tgp.errors import Difference, StoreDamagedError, StoreMismatchError, StoreMissingError
from tgp.store import PartRecord, StoreWriter
from tgp.store.format import constants as store_format

__all__ = ["check_foreign_parts", "foreign_parts"]


def foreign_parts(writer: StoreWriter) -> dict[str, list[int]]:
    """Return the units whose completion record has another fingerprint than the specification of the store.

    Such a file was written by a job with another revision of the engine, with other settings, or by a version of tgp that
    does not know all settings. It counts as missing, because the bytes of the store would depend on who wrote it.

    Args:
        writer: Writer of the store.

    Returns:
        Name of each part -> numbers of its units. Parts without such units are left out.
    """
    found: dict[str, list[int]] = {}
    names = set(writer.files.names(store_format.RECORDS))
    fingerprints = {part: writer.spec.part_fingerprint(part) for part in writer.parts}
    for task in writer.pending():
        name = store_format.record_file(task.unit, task.part)
        if name not in names:
            continue
        try:
            data = writer.files.read(f"{store_format.RECORDS}/{name}", store_format.MAX_MANIFEST_BYTES)
            record = PartRecord.from_bytes(data, task.unit, task.part)
        except (StoreMissingError, StoreDamagedError):
            continue
        if record.fingerprint != fingerprints[task.part]:
            found.setdefault(task.part, []).append(task.unit)
    return found


def check_foreign_parts(writer: StoreWriter) -> None:
    """Check that no file was written with other settings or by another engine.

    Args:
        writer: Writer of the store.

    Raises:
        StoreMismatchError: If there are such files. ``differences`` has one entry for each part.
    """
    found = foreign_parts(writer)
    if store_format.GRAPHS in found:
        return  # another process has replaced the store: the writer reports that itself
    differences = []
    for part, units in found.items():
        shown = ", ".join(map(str, units[:5])) + (", ..." if len(units) > 5 else "")
        text = f"{part}: {'unit' if len(units) == 1 else 'units'} {shown}"
        differences.append(Difference("units", text, stored=units, hierarchy=part))
    if differences:
        raise StoreMismatchError(
            f"files of {writer.files.location} were written by jobs with another engine revision, another version of tgp or "
            "other settings than the store",
            differences=differences,
            path=writer.files.location,
            hint="run these jobs again with the same version of tgp and the same options; they replace the files",
        )
