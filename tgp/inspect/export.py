"""Convert stores for other tools: PyTorch Geometric files, numpy archives, GraphML."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError, StoreError, UnknownNameError
from tgp.inspect.graphml_writer import field_columns, graphml_text, own_columns
from tgp.inspect.output_file import FolderWriter
from tgp.inspect.stream_arrays import LARGE, StreamedArray, StreamedValues, Values, stream_graph, stream_level
from tgp.kernels.array_types import LongArray
from tgp.ragged import Level
from tgp.store import StoreReader
from tgp.store.locations import Location, open_store, shown_location
from tgp.store.read.memory_need import check_graphs, has_large_graph
from tgp.text import file_name, inert_text, unique_names

__all__ = [
    "EXPORTS",
    "check_edges",
    "export_store",
    "exported_names",
    "level_ptr",
    "local_arrays",
    "parse_graphs",
]

MOST_TEXT_EDGES = 20_000_000
"""Largest number of edges of a graph that is written as text. The text of an edge needs about 500 bytes of memory."""

MAX_FILES = 10_000
"""Largest number of GraphML files; there is one per graph and level."""


def parse_graphs(text: str | None, total: int) -> LongArray:
    """Parse graph ids and ranges of graph ids.

    Args:
        text: ids and half-open ranges separated by commas; ``None`` selects all graphs.
        total: number of graphs in the store.

    Returns:
        The ids in the given order.

    Raises:
        InputError: if the text cannot be parsed, or names a graph that does not exist.

    Examples:
        >>> parse_graphs("0:3,7", 10).tolist()
        [0, 1, 2, 7]
    """
    if text is None:
        return np.arange(total)
    found: list[LongArray] = []
    try:
        for part in text.split(","):
            low, colon, high = (piece.strip() for piece in part.partition(":"))
            start = int(low or 0) if colon else int(low)
            stop = int(high or total) if colon else start + 1
            if start < 0 or stop < 0 or max(start + 1, stop) > total:
                raise InputError(
                    f"the store holds graphs 0 to {total - 1}, got {part.strip()!r}", field="graphs"
                )
            if stop <= start:
                raise InputError(f"{part.strip()!r} names no graph", field="graphs", hint="0:100 is 0 to 99")
            found.append(np.arange(start, stop))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"expected graphs such as 0:100 or 3,5, got {text!r}", field="graphs") from None
    return np.concatenate(found)


def export_store(
    store: Location,
    to: str,
    out: Path,
    *,
    hierarchy: str | None = None,
    graphs: str | None = None,
    force: bool = False,
) -> list[Path]:
    """Convert a store.

    Args:
        store: directory or URL of the store, or an open reader.
        to: format, one of :data:`EXPORTS`.
        out: folder to write to; it is created if it does not exist.
        hierarchy: name of the hierarchy; may be omitted if the store has only one.
        graphs: graphs to convert, see :func:`parse_graphs`.
        force: overwrite existing files.

    Returns:
        The files that were written. Names of files count levels from 1, the first pooled graph. Fields may have other
        names in the files, see :func:`exported_names`. After an error nothing is written.

    Raises:
        InputError: if an argument is wrong, or a file exists and ``force`` is False.
        UnknownNameError: if there is no such format or hierarchy.
        StoreError: if the store cannot be read or the files cannot be written.
    """
    if to not in EXPORTS:
        raise UnknownNameError("format", to, EXPORTS)
    reader = open_store(store)
    if hierarchy is None:
        if len(reader.hierarchies) != 1:
            raise InputError(
                f"choose a hierarchy of {shown_location(store)}: {', '.join(reader.hierarchies)}",
                field="hierarchy",
                hint="name one with --hierarchy (in Python: hierarchy=...)",
            )
        hierarchy = next(iter(reader.hierarchies))
    name = reader.hierarchy(hierarchy).name
    if reader.manifest.spec.types is not None and to != "npz":
        hint = "use --to npz, or read HeteroData with tgp.data.PooledDataset and save it with torch.save"
        raise InputError(
            f"heterogeneous graphs cannot be exported to {to}: expected npz", field="to", hint=hint
        )
    ids = parse_graphs(graphs, reader.num_graphs)
    files = FolderWriter(out, overwrite=force)
    try:
        with files:
            EXPORTS[to](reader, name, ids, files)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"cannot write to {out}: {error.strerror or error}", path=out) from error
    return files.written


def exported_names(fields: Iterable[str], to: str, used: Iterable[str] = ()) -> dict[str, str]:
    """Return the names that the fields of a store have in exported files.

    A name that would be a path outside of the archive, that contains control characters, or that has another meaning in
    the file is changed. Different fields have different names.

    Args:
        fields: names of the fields.
        to: format, one of :data:`EXPORTS`.
        used: names of other arrays of the same file.

    Returns:
        Name of a field -> its name in the files.

    Examples:
        >>> exported_names(["x", "../../evil", "x_ptr"], "npz")
        {'x': 'x', '../../evil': '%2E.%2F..%2Fevil', 'x_ptr': 'x_ptr~2'}
    """
    names = [name for name in fields if name != "edge_index"]
    if to == "npz":
        reserved = ("node_ptr", "edge_index", "edge_ptr", "node_type_names", "relation_names", *used)
        found = unique_names(names, _archive_name, reserved=reserved, suffixes=("", "_ptr"))
    else:
        found = unique_names(names, _attribute_name, reserved=("edge_index", "num_nodes", *used))
    return {name: found.get(name, name) for name in fields}


def _archive_name(name: str) -> str:
    """Return the name of an array in a numpy archive. numpy appends ``.npy`` and removes it when it reads."""
    text = file_name(name)
    return text.removesuffix(".npy") + "%2Enpy" if text.endswith(".npy") else text


def _attribute_name(name: str) -> str:
    """Return the name of an attribute of a PyG ``Data``, which uses names with a leading underscore itself."""
    return f"field{name}" if name.startswith("_") else "field_self" if name == "self" else inert_text(name)


def check_edges(reader: StoreReader) -> None:
    """Check that a store has the edges of the input graphs, and at most one real weight per edge.

    Raises:
        InputError: if it has not.
    """
    if "edge_index" not in reader.fields:
        raise InputError("the store has no edges of the input graphs: expected a field 'edge_index'")
    weight = next((f for f in reader.manifest.fields if f.name == "edge_weight"), None)
    if weight is None:
        return
    numbers = int(np.prod(weight.tail, dtype=np.int64))
    if "edge" not in weight.ptrs or numbers != 1 or weight.dtype.startswith("complex"):
        raise InputError(
            f"the field 'edge_weight' is not usable: expected one real number per edge, got {numbers} of type "
            f"{weight.dtype} per {weight.ptr}"
        )


def local_arrays(level: Level) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a level with node and supernode ids counted from 0 in each graph."""
    arrays = level.arrays()
    arrays["edge_index"] = level.edge_index - np.repeat(level.super_ptr[:-1], np.diff(level.edge_ptr))
    if "cluster" in arrays:
        start = np.repeat(level.super_ptr[:-1], np.diff(level.node_ptr))
        arrays["cluster"] = np.where(arrays["cluster"] < 0, -1, arrays["cluster"] - start)
    if "representative" in arrays:
        start = np.repeat(level.node_ptr[:-1], np.diff(level.super_ptr))
        arrays["representative"] = arrays["representative"] - start
    return arrays


def level_ptr(level: Level, name: str) -> LongArray:
    """Return the offsets that split an array of a level into graphs."""
    ptrs = {"edge_index": level.edge_ptr, "edge_weight": level.edge_ptr, "representative": level.super_ptr}
    return ptrs.get(name, level.node_ptr)


def _to_npz(reader: StoreReader, name: str, ids: LongArray, files: FolderWriter) -> None:
    """Write ``graphs.npz`` and one ``level-i.npz`` per level: flat arrays and offsets. Those of a large graph are written in pieces."""
    is_large = len(ids) == 1 and int(reader.sizes()[1][ids[0]]) >= LARGE
    is_divided = reader.manifest.spec.shard_edges is not None and len(ids) == 1
    spec, found = reader.manifest.spec, _npz_values
    if (is_large or is_divided) and spec.types is None and spec.profile == "fast":
        found = _streamed_npz_values
    for file, (arrays, fields) in found(reader, name, ids):
        for key, member in exported_names(fields, "npz", arrays).items():
            values, ptr = fields[key]
            arrays[member], arrays[f"{member}_ptr" if key != "edge_index" else "edge_ptr"] = values, ptr
        if file == "graphs.npz" and spec.types is not None:
            arrays["node_type_names"] = np.array(spec.types.nodes, np.str_)
            arrays["relation_names"] = np.array(spec.types.relations, np.str_)
        _write_npz(files, file, arrays)


_NpzValues: TypeAlias = Iterator[tuple[str, tuple[dict[str, Values], StreamedValues]]]
"""Name of a file, its arrays, and its attributes with their offsets."""


def _npz_values(reader: StoreReader, name: str, ids: LongArray) -> _NpzValues:
    table = reader.gather_graphs(ids)
    fields: StreamedValues = {key: (field.values, field.ptr) for key, field in table.fields.items()}
    yield "graphs.npz", ({"node_ptr": table.node_ptr}, fields)
    for number, level in enumerate(reader.gather_levels(ids, name), start=1):
        fields = {key: (field.values, field.ptr) for key, field in level.fields.items()}
        ptrs = {"node_ptr": level.node_ptr, "super_ptr": level.super_ptr, "edge_ptr": level.edge_ptr}
        yield f"level-{number}.npz", ({**ptrs, **local_arrays(level)}, fields)


def _streamed_npz_values(reader: StoreReader, name: str, ids: LongArray) -> _NpzValues:
    graph = int(ids[0])
    node_ptr = np.array([0, int(reader.sizes()[0][graph])])
    yield "graphs.npz", ({"node_ptr": node_ptr}, stream_graph(reader, graph))
    for number in range(1, reader.hierarchy(name).depth + 1):
        yield f"level-{number}.npz", stream_level(reader, graph, name, number)


def _write_npz(files: FolderWriter, name: str, arrays: dict[str, Values]) -> None:
    """Write a numpy archive. ``np.savez`` takes names as keywords, so that ``file`` is no possible name."""
    with files.create(name) as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for key, values in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w", force_zip64=True) as member:
                if isinstance(values, StreamedArray):
                    values.write(member)
                else:
                    np.lib.format.write_array(member, np.asanyarray(values), allow_pickle=False)


def _to_pyg(reader: StoreReader, name: str, ids: LongArray, files: FolderWriter) -> None:
    """Write ``graphs.pt`` and ``level-i.pt``: tensors in the layout of ``InMemoryDataset.load``."""
    import torch
    from torch_geometric.data import Data

    def save(
        file_name: str, arrays: dict[str, npt.NDArray[Any]], ptrs: dict[str, LongArray], counts: LongArray
    ) -> None:
        tensors: dict[str, Any] = {
            key: torch.from_numpy(np.ascontiguousarray(values)) for key, values in arrays.items()
        }
        # An empty array has the address of its neighbour in memory, which torch refuses to save in another type.
        tensors |= {key: tensor.clone() for key, tensor in tensors.items() if not tensor.numel()}
        slices = {key: torch.from_numpy(np.ascontiguousarray(ptr)) for key, ptr in ptrs.items()}
        # PyG's own collate stores the numbers of nodes under these keys.
        sizes = {"num_nodes": int(counts.sum()), "_num_nodes": counts.tolist()}
        with files.create(file_name) as file:
            torch.save((tensors | sizes, slices, Data), file)

    if has_large_graph(reader):
        depth = reader.hierarchy(name).depth
        hint = "--to npz writes arrays piece by piece, and tgp.data.LevelStore samples from a level"
        check_graphs(reader, ids, name, range(1, depth + 1), None, hint)
    table = reader.gather_graphs(ids)
    names = exported_names(table.fields, "pyg")
    plain = {
        names[k]: f for k, f in table.fields.items() if f.form not in ("str", "json") and k != "num_nodes"
    }
    save(
        "graphs.pt",
        {k: f.values for k, f in plain.items()},
        {k: f.ptr for k, f in plain.items()},
        np.diff(table.node_ptr),
    )
    for number, level in enumerate(reader.gather_levels(ids, name), start=1):
        arrays = local_arrays(level)
        ptrs = {key: level_ptr(level, key) for key in arrays}
        for key, member in exported_names(level.fields, "pyg", arrays).items():
            if level.fields[key].form == "rows":
                arrays[member], ptrs[member] = level.fields[key].values, level.fields[key].ptr
        save(f"level-{number}.pt", arrays, ptrs, np.diff(level.super_ptr))


def _to_graphml(reader: StoreReader, name: str, ids: LongArray, files: FolderWriter) -> None:
    """Write ``graph-i.graphml`` and ``graph-i.level-j.graphml``. Nodes carry the id of their supernode, levels their attributes."""
    check_edges(reader)
    counts = reader.sizes()[1][ids]
    if counts.max(initial=0) > MOST_TEXT_EDGES:
        raise InputError(
            f"graph {ids[counts.argmax()]} is too large for GraphML: expected at most {MOST_TEXT_EDGES:,} edges, got {counts.max():,}",
            field="to",
            hint="--to npz writes arrays piece by piece",
        )
    levels = reader.gather_levels(ids, name)
    if len(ids) * (1 + len(levels)) > MAX_FILES:
        raise InputError(
            f"GraphML would need {len(ids) * (1 + len(levels))} files, the limit is {MAX_FILES}",
            field="graphs",
            hint="choose some graphs with --graphs 0:100",
        )
    table = reader.gather_graphs(ids, [f for f in ("edge_index", "edge_weight") if f in reader.fields])
    arrays = [local_arrays(level) for level in levels]

    def rows(number: int, key: str, graph: int) -> npt.NDArray[Any] | None:
        """Return the rows of one graph in an array of a level, or ``None`` if there is no such array."""
        if number > len(levels) or key not in arrays[number - 1]:
            return None
        ptr = level_ptr(levels[number - 1], key)
        return arrays[number - 1][key][..., int(ptr[graph]) : int(ptr[graph + 1])]

    infos = [info.fields for info in reader.hierarchy(name).levels]
    for i, graph in enumerate(ids):
        weight = table.fields.get("edge_weight")
        columns = own_columns(rows(1, "cluster", i), None if weight is None else weight.item(i).reshape(-1))
        text = graphml_text(int(np.diff(table.node_ptr)[i]), table.fields["edge_index"].item(i), columns)
        with files.create(f"graph-{graph:05d}.graphml") as file:
            file.write(text.encode())
        for number, level in enumerate(levels, start=1):
            nodes = int(level.super_ptr[i + 1] - level.super_ptr[i])
            edges = rows(number, "edge_index", i)
            assert edges is not None, "every level has edges"
            columns = own_columns(rows(number + 1, "cluster", i), rows(number, "edge_weight", i))
            columns += field_columns(level, infos[number - 1], i)
            text = graphml_text(nodes, edges, columns)
            with files.create(f"graph-{graph:05d}.level-{number}.graphml") as file:
                file.write(text.encode())


EXPORTS: dict[str, Callable[[StoreReader, str, LongArray, FolderWriter], None]] = {
    "pyg": _to_pyg,
    "npz": _to_npz,
    "graphml": _to_graphml,
}
"""Format -> function that writes it."""
