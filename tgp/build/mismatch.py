"""Compare a store with a run: explain the first difference, and find files that were written with other settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tgp.errors import Difference, StoreDamagedError, StoreError, StoreMismatchError, StoreMissingError
from tgp.kernels.array_types import Array, BoolArray
from tgp.ragged import Field, GraphTable
from tgp.ragged.offsets import find_run
from tgp.store import PartRecord, StoreReader, StoreSpec, StoreWriter, spec_differences
from tgp.store.format import constants as store_format
from tgp.store.format.schema import FieldInfo
from tgp.store.write.records import Records
from tgp.store.write.writer import REBUILD

__all__ = ["check_foreign_parts", "check_same_store", "explain_mismatch", "explain_settings", "foreign_parts"]


MOST_BYTES = 256 * 10**6
"""Number of bytes of the new graphs that are compared with those of the store at most."""

PIECE_BYTES = 8 * 10**6
"""Number of bytes that are compared at once."""


def check_same_store(stored: StoreSpec, asked: StoreSpec, path: str, table: GraphTable) -> None:
    """Check that a run can continue a store.

    Args:
        stored: Specification of the store.
        asked: Specification of the run.
        path: Directory of the store.
        table: Graphs of the run.

    Raises:
        StoreMismatchError: If it cannot. The error names everything that differs.
    """
    differences = spec_differences(stored, asked)
    if differences:
        message = f"{path} holds a store of other data or settings"
        error = StoreMismatchError(message, differences=differences, path=path, hint=REBUILD)
        raise explain_mismatch(error, asked, table)


def explain_mismatch(
    error: StoreMismatchError, asked: StoreSpec, table: GraphTable, *, array_job: bool = False
) -> StoreMismatchError:
    """Add the attributes and the first graph that differ to an error, and a hint that fits.

    Args:
        error: Error that :meth:`tgp.store.StoreWriter.open` raised.
        asked: Specification of the run.
        table: Graphs of the run.
        array_job: True if the run is one of several jobs that write the store together.

    Returns:
        An error with the same summary.
    """
    rebuild = f"{'All jobs of an array need the same data and options. ' if array_job else ''}{REBUILD}"
    if all(difference.what != "graphs" for difference in error.differences):
        return explain_settings(error, rebuild)
    found = _compare_graphs(str(error.path), table)
    unexplained = (
        error.differences[0].what == "graphs"
    )  # no setting of the dataset differs, which would be first
    kept = [d for d in error.differences if d.what != "graphs" or unexplained or not found]
    return _replace(error, kept + found, f"{_hint(asked)} {rebuild}" if unexplained else rebuild)


def explain_settings(error: StoreMismatchError, rebuild: str = REBUILD) -> StoreMismatchError:
    """Add a hint that fits to an error about a store of the same graphs with other settings.

    Args:
        error: The error.
        rebuild: Sentence that says how the store is written again.

    Returns:
        An error with the same summary.
    """
    hint = rebuild
    if {difference.what for difference in error.differences} <= {"bounds", "profile", "shard_edges"}:
        hint = f"Leave out --shard-size, --shard-edges and --profile to use those of the store. {rebuild}"
    elif all(difference.hierarchy for difference in error.differences):
        hint = f"Add it to the store as another hierarchy with --name OTHER. {rebuild}"
    return _replace(error, list(error.differences), hint)


def _replace(error: StoreMismatchError, differences: list[Difference], hint: str) -> StoreMismatchError:
    message = error.summary.removesuffix(":")
    return StoreMismatchError(message, differences=differences, path=error.path, hint=hint)


def _hint(asked: StoreSpec) -> str:
    """Return a hint for graphs that differ although their description is the same."""
    if asked.dataset.get("source") == "callable":
        name = asked.dataset.get("name")
        return (
            f"{name} returned other graphs than in the first run. If it uses random numbers, fix their seed, for example "
            "with torch.manual_seed(0)."
        )
    what = "graphs" if asked.dataset.get("source") == "object" else "files of the dataset"
    return f"The {what} have changed since the store was written."


def _compare_graphs(path: str, table: GraphTable) -> list[Difference]:
    """Return the attributes that differ in type or shape, and the first graph that differs."""
    try:
        reader = StoreReader(path)
        found = list(_schema_differences(reader.fields, table))
        changed = {difference.attribute for difference in found}
        names = [name for name in reader.fields if name in table.fields and name not in changed]
        first, compared = _first_difference(reader, table, names)
    except StoreError:  # unfinished or damaged: only the specification is known
        return []
    if first is not None:
        return [*found, first]
    count = min(reader.num_graphs, table.num_graphs)
    if compared and not found and (compared < count or reader.num_graphs != table.num_graphs):
        text = "the first graph is" if compared == 1 else f"the first {compared:,} graphs are"
        text += " the same" if compared == count else " the same, the others were not compared"
        return [Difference("first_graphs", text)]
    return found


def _schema_differences(stored: dict[str, FieldInfo], table: GraphTable) -> Iterator[Difference]:
    """Yield the attributes that only one side has, and those of another type or shape."""
    for name in sorted(stored.keys() | table.fields.keys()):
        old = _describe_stored(stored[name]) if name in stored else None
        new = _describe_field(table.fields[name]) if name in table.fields else None
        if old == new:
            continue
        if old is None:
            text = f"attribute {name!r} is not in the store"
        elif new is None:
            text = f"attribute {name!r} is in the store, but not in the graphs of this run"
        else:
            text = f"attribute {name!r}: {old} in the store, {new} in this run"
        yield Difference("attribute", text, old, new, attribute=name)


def _describe_stored(info: FieldInfo) -> str:
    return _describe(info.dtype, info.tail, info.axis, info.form, info.shifted)


def _describe_field(field: Field) -> str:
    axis = field.axis % field.values.ndim
    tail = tuple(size for i, size in enumerate(field.values.shape) if i != axis)
    return _describe(str(field.values.dtype.newbyteorder("=")), tail, field.axis, field.form, field.shifted)


def _describe(dtype: str, tail: tuple[int, ...], axis: int, form: str, shifted: bool) -> str:
    """Return type and shape of an attribute; ``*`` is the number of rows of a graph."""
    if form not in ("rows", "stacked"):
        return {"str": "text", "json": "JSON", "int": "an int", "float": "a float", "bool": "a bool"}[form]
    sizes = [*map(str, tail)]
    shape = sizes if form == "stacked" else ["*", *sizes] if axis == 0 else [*sizes, "*"]
    return f"{dtype} [{', '.join(shape)}]{' of node ids' if shifted else ''}"


def _first_difference(
    reader: StoreReader, table: GraphTable, names: list[str]
) -> tuple[Difference | None, int]:
    """Return the first difference of sizes or attributes that is found, and the number of equal graphs before it."""
    count = min(reader.num_graphs, table.num_graphs)
    nodes, edges = (sizes[:count] for sizes in reader.sizes())
    new_nodes = np.diff(table.node_ptr)[:count]
    edge_field = table.fields.get("edge_index")
    new_edges = np.zeros_like(new_nodes) if edge_field is None else np.diff(edge_field.ptr)[:count]
    resized = np.flatnonzero((nodes != new_nodes) | (edges != new_edges))
    end = int(resized[0]) if resized.size else count
    compared = 0
    for low, high in _pieces(table, names, end):
        ids = np.arange(low, high)
        stored, asked = reader.gather_graphs(ids, names), table.take(ids)
        changed = [(_first_changed(stored.fields[name], asked.fields[name]), name) for name in names]
        graph, name = min(changed, default=(high - low, ""))
        if graph < high - low:
            text = _value_text(stored.fields[name], asked.fields[name], graph)
            text = f"graph {low + graph:,} is the first that differs: {text}"
            return Difference("graph", text, graph=low + graph, attribute=name), low + graph
        compared = high
    if not resized.size:
        return None, compared
    sizes = [f"{n[end]:,} nodes and {e[end]:,} edges" for n, e in ((nodes, edges), (new_nodes, new_edges))]
    first = "differs" if compared == end else "has another size"
    text = f"graph {end:,} is the first that {first}: {sizes[0]} in the store, {sizes[1]} in this run"
    return Difference("graph", text, sizes[0], sizes[1], graph=end), compared


def _pieces(table: GraphTable, names: list[str], end: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of the first ``end`` graphs, of limited size each and together."""
    total = np.zeros(table.num_graphs, np.int64)
    for name in names:
        entry = table.fields[name]
        row = entry.values.nbytes // max(1, entry.values.shape[entry.axis])
        total += row * np.diff(entry.ptr)
    ends = np.concatenate(([0], np.cumsum(total)))
    low = 0
    while low < end:
        high = int(np.searchsorted(ends, ends[low] + PIECE_BYTES, side="right")) - 1
        high = min(max(high, low + 1), end)
        if ends[high] > MOST_BYTES:
            return
        yield low, high
        low = high


def _first_changed(stored: Field, asked: Field) -> int:
    """Return the first graph in which an attribute differs, or the number of graphs if there is none."""
    resized = np.flatnonzero(np.diff(stored.ptr) != np.diff(asked.ptr))
    end = int(resized[0]) if resized.size else stored.num_graphs
    old, new = (np.moveaxis(f.values, f.axis, 0)[: int(f.ptr[end])] for f in (stored, asked))
    changed = (
        np.flatnonzero(_different(old, new).reshape(len(old), -1).any(axis=1)) if old.size else resized[:0]
    )
    return find_run(stored.ptr, changed[0]) if changed.size else end


def _different(old: Array, new: Array) -> BoolArray:
    """Return True where two arrays differ. NaN equals NaN."""
    different: BoolArray = (old != new) & ~((old != old) & (new != new))
    return different


def _value_text(stored: Field, asked: Field, graph: int) -> str:
    """Describe the first difference of an attribute of one graph."""
    name, old, new = stored.name, stored.item(graph), asked.item(graph)
    if stored.form in ("str", "json"):
        return f"attribute {name!r} has another text"
    if old.shape != new.shape:
        return f"attribute {name!r} has shape {list(old.shape)} in the store, {list(new.shape)} in this run"
    place = tuple(int(i) for i in np.argwhere(_different(old, new))[0])
    values = f"{_number(old[place])} in the store, {_number(new[place])} in this run"
    shown = place if stored.form == "rows" else place[1:]  # a number of a graph has no index
    return f"{name}{list(shown) if shown else ''} is {values}"


def _number(value: Any) -> str:
    item = value.item()
    return f"{item:.6g}" if isinstance(item, float) else str(item)


def foreign_parts(writer: StoreWriter, records: Records | None = None) -> dict[str, list[int]]:
    """Return the units whose completion record has another fingerprint than the specification of the store.

    Such a file was written by a job with another revision of the engine, with other settings, or by a version of tgp that
    does not know all settings. It counts as missing, because the bytes of the store would depend on who wrote it.

    Args:
        writer: Writer of the store.
        records: Completion records that are read already; read now if ``None``.

    Returns:
        Name of each part -> numbers of its units. Parts without such units are left out.
    """
    found: dict[str, list[int]] = {}
    names = set(writer.files.names(store_format.RECORDS))
    fingerprints = {part: writer.spec.part_fingerprint(part) for part in writer.parts}
    for task in writer.pending(records):
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
