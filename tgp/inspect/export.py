"""Stores for other tools: PyTorch Geometric files, plain arrays, GraphML."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError, StoreError, UnknownNameError
from tgp.store import LevelArrays, StoreReader
from tgp.store.locations import Place, open_store

__all__ = ["EXPORTS", "export_store", "parse_graphs"]

MAX_FILES = 10_000
"""GraphML makes a file per graph and level; more than this is a mistake."""

Ints = npt.NDArray[np.int64]


def parse_graphs(text: str | None, total: int) -> Ints:
    """``"3"``, ``"0:100"`` or ``"0:100,200"`` as graph ids; all if ``None``."""
    if text is None:
        return np.arange(total)
    found: list[Ints] = []
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
    store: Place,
    to: str,
    out: Path,
    *,
    hierarchy: str | None = None,
    graphs: str | None = None,
    force: bool = False,
) -> list[Path]:
    """Convert a store.

    Args:
        store: directory or URL of the store.
        to: one of :data:`EXPORTS`.
        out: folder to write to; made if absent.
        hierarchy: which one; not needed if there is only one.
        graphs: see :func:`parse_graphs`.
        force: write over existing files.

    Returns:
        the files that were written.
    """
    if to not in EXPORTS:
        raise UnknownNameError("format", to, EXPORTS)
    reader = open_store(store)
    if hierarchy is None:
        if len(reader.hierarchies) != 1:
            raise InputError(
                f"choose a hierarchy of {store}: {', '.join(reader.hierarchies)}", field="hierarchy"
            )
        hierarchy = next(iter(reader.hierarchies))
    name = reader.hierarchy(hierarchy).name
    ids = parse_graphs(graphs, reader.num_graphs)
    files = _Files(out, force)
    try:
        EXPORTS[to](reader, name, ids, files)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"cannot write to {out}: {error.strerror or error}", path=out) from error
    return files.written


class _Files:
    """Writes whole files or none."""

    def __init__(self, folder: Path, force: bool) -> None:
        self.folder = folder
        self.force = force
        self.written: list[Path] = []

    @contextlib.contextmanager
    def create(self, name: str) -> Iterator[Any]:
        """A binary file that gets its name when it is complete."""
        target = self.folder / name
        if target.exists() and not self.force:
            raise InputError(f"{target} exists", field="out", hint="--force writes over it")
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor, temp = tempfile.mkstemp(prefix=".new-", dir=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temp, 0o666 & ~umask)
            os.replace(temp, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temp)
            raise
        self.written.append(target)


def _local(level: LevelArrays) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a level with ids counted inside their graph."""
    edge_start = np.repeat(level.super_ptr[:-1], np.diff(level.edge_ptr))
    arrays: dict[str, npt.NDArray[Any]] = {"edge_index": level.edge_index - edge_start}
    if level.cluster is not None:
        start = np.repeat(level.super_ptr[:-1], np.diff(level.node_ptr))
        arrays["cluster"] = np.where(level.cluster < 0, -1, level.cluster - start)
    if level.representative is not None:
        start = np.repeat(level.node_ptr[:-1], np.diff(level.super_ptr))
        arrays["representative"] = level.representative - start
    for name in ("edge_weight", "weight", "soft", "theta"):
        values = getattr(level, name)
        if values is not None:
            arrays[name] = values
    return arrays


def _to_npz(reader: StoreReader, name: str, ids: Ints, files: _Files) -> None:
    """``graphs.npz`` and one ``level-i.npz`` per level: flat arrays and offsets."""
    table = reader.gather_graphs(ids)
    arrays: dict[str, Any] = {"node_ptr": table.node_ptr}
    for key, field in table.fields.items():
        arrays[key] = field.values
        arrays[f"{key}_ptr" if key != "edge_index" else "edge_ptr"] = field.ptr
    with files.create("graphs.npz") as file:
        np.savez(file, **arrays)
    for number, level in enumerate(reader.gather_levels(ids, name)):
        offsets = {"node_ptr": level.node_ptr, "super_ptr": level.super_ptr, "edge_ptr": level.edge_ptr}
        with files.create(f"level-{number}.npz") as file:
            np.savez(file, **offsets, **_local(level))


def _to_pyg(reader: StoreReader, name: str, ids: Ints, files: _Files) -> None:
    """``graphs.pt`` and ``level-i.pt``: what ``InMemoryDataset.load`` reads, tensors only."""
    import torch
    from torch_geometric.data import Data

    def save(
        file_name: str, arrays: dict[str, npt.NDArray[Any]], ptrs: dict[str, Ints], counts: Ints
    ) -> None:
        tensors: dict[str, Any] = {
            key: torch.from_numpy(np.ascontiguousarray(values)) for key, values in arrays.items()
        }
        slices = {key: torch.from_numpy(np.ascontiguousarray(ptr)) for key, ptr in ptrs.items()}
        # Sizes stand where PyG's own collate keeps them.
        sizes = {"num_nodes": int(counts.sum()), "_num_nodes": counts.tolist()}
        with files.create(file_name) as file:
            torch.save((tensors | sizes, slices, Data), file)

    table = reader.gather_graphs(ids)
    plain = {key: f for key, f in table.fields.items() if f.form != "str" and key != "num_nodes"}
    save(
        "graphs.pt",
        {k: f.values for k, f in plain.items()},
        {k: f.ptr for k, f in plain.items()},
        np.diff(table.node_ptr),
    )
    for number, level in enumerate(reader.gather_levels(ids, name)):
        own = {"edge_index": level.edge_ptr, "edge_weight": level.edge_ptr, "representative": level.super_ptr}
        arrays = _local(level)
        save(
            f"level-{number}.pt",
            arrays,
            {k: own.get(k, level.node_ptr) for k in arrays},
            np.diff(level.super_ptr),
        )


def _to_graphml(reader: StoreReader, name: str, ids: Ints, files: _Files) -> None:
    """``graph-i.graphml`` and ``graph-i.level-j.graphml``; nodes carry the supernode they go to."""
    levels = reader.gather_levels(ids, name)
    if len(ids) * (1 + len(levels)) > MAX_FILES:
        raise InputError(
            f"GraphML would take {len(ids) * (1 + len(levels))} files",
            field="graphs",
            hint="choose some with --graphs 0:100",
        )
    table = reader.gather_graphs(ids, [f for f in ("edge_index", "edge_weight") if f in reader.fields])
    local = [_local(level) for level in levels]
    for i, graph in enumerate(ids):
        weight = table.fields.get("edge_weight")
        edges = table.fields["edge_index"].item(i)
        weights = None if weight is None else weight.item(i).reshape(-1)
        count = int(np.diff(table.node_ptr)[i])
        for number in range(len(levels) + 1):
            cluster = None
            if number < len(levels) and "cluster" in local[number]:
                cluster = _cut(local[number]["cluster"], levels[number].node_ptr, i)
            suffix = f".level-{number - 1}" if number else ""
            with files.create(f"graph-{graph:05d}{suffix}.graphml") as file:
                file.write(_graphml(count, edges, weights, cluster).encode())
            if number < len(levels):
                level, arrays = levels[number], local[number]
                edges = arrays["edge_index"][:, level.edge_ptr[i] : level.edge_ptr[i + 1]]
                given = arrays.get("edge_weight")
                weights = None if given is None else _cut(given, level.edge_ptr, i)
                count = int(level.super_ptr[i + 1] - level.super_ptr[i])


def _cut(values: npt.NDArray[Any], ptr: Ints, graph: int) -> npt.NDArray[Any]:
    return values[int(ptr[graph]) : int(ptr[graph + 1])]


def _graphml(
    count: int, edges: npt.NDArray[Any], weight: npt.NDArray[Any] | None, cluster: npt.NDArray[Any] | None
) -> str:
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
    ]
    if cluster is not None:
        lines.append('<key id="c" for="node" attr.name="cluster" attr.type="long"/>')
    if weight is not None:
        lines.append('<key id="w" for="edge" attr.name="weight" attr.type="double"/>')
    lines.append('<graph edgedefault="directed">')
    for node in range(count):
        data = "" if cluster is None else f'<data key="c">{int(cluster[node])}</data>'
        lines.append(f"<node id={quoteattr(f'n{node}')}>{data}</node>")
    for number, (a, b) in enumerate(edges.T.tolist()):
        data = "" if weight is None else f'<data key="w">{float(weight[number])!r}</data>'
        lines.append(f'<edge source="n{a}" target="n{b}">{data}</edge>')
    return "\n".join([*lines, "</graph>", "</graphml>", ""])


EXPORTS: dict[str, Callable[[StoreReader, str, Ints, _Files], None]] = {
    "pyg": _to_pyg,
    "npz": _to_npz,
    "graphml": _to_graphml,
}
