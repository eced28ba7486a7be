"""Graphs from files of the user: arrays, edge lists, GraphML, processed PyG files, stores."""

from __future__ import annotations

import gzip
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError, StoreError
from tgp.ragged import GraphTable
from tgp.sources.arrays import join_tables, table_from_arrays
from tgp.sources.graphml import read_graphml
from tgp.sources.names import EDGE_LIST_SUFFIXES

__all__ = ["FORMATS", "is_processed_file", "open_local"]

PACKED = {".gz": gzip.open, ".xz": lzma.open}
FORMATS = f"a .npz, .h5 or .graphml file, an edge list ({', '.join(EDGE_LIST_SUFFIXES)}, also .gz or .xz), a .pt file, a store, or a folder of such files"


def is_processed_file(path: Path) -> bool:
    """Whether ``path`` was written by torch, so that reading it needs torch."""
    return path.suffix in (".pt", ".pth")


def open_local(path: Path, params: dict[str, str] | None = None) -> GraphTable:
    """Read a file as one graph (or many, for arrays with offsets), a folder as one graph per file.

    Args:
        path: see :data:`FORMATS`; a folder's files are taken in the order of their names.
        params: ``directed=true`` keeps the direction of edge lists, which otherwise count both ways.

    Raises:
        DatasetError: nothing readable there; the text says what is.
    """
    options = dict(params or {})
    directed = options.pop("directed", "false").lower() in ("true", "1", "yes")
    if options:
        raise DatasetError(f"{path} takes the parameter 'directed', got {', '.join(options)}")
    if path.is_dir():
        return _store(path) if (path / "manifest.json").is_file() else _folder(path, directed)
    reader = _reader_of(path, directed)
    if reader is None:
        raise DatasetError(f"{path} is no file of graphs that can be read", hint=f"expected {FORMATS}")
    return reader(path)


def _reader_of(path: Path, directed: bool) -> Callable[[Path], GraphTable] | None:
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower() if suffix in PACKED else suffix
    if suffix == ".npz":
        return _npz
    if suffix in (".h5", ".hdf5"):
        return _hdf5
    if suffix == ".graphml":
        return read_graphml
    if inner in EDGE_LIST_SUFFIXES:
        return lambda p: _edge_list(p, directed)
    return None


def _store(path: Path) -> GraphTable:
    from tgp.store import StoreReader

    reader = StoreReader(path)
    return reader.gather_graphs(np.arange(reader.num_graphs))


def _folder(path: Path, directed: bool) -> GraphTable:
    labels = path / "labels.csv"
    files = [p for p in sorted(path.iterdir()) if p.is_file() and p != labels and not p.name.startswith(".")]
    readers = [(p, _reader_of(p, directed)) for p in files]
    graphs = [(p, reader) for p, reader in readers if reader is not None]
    if not graphs:
        raise DatasetError(f"{path} holds no graphs that can be read", hint=f"expected {FORMATS}")
    kinds = {(p.suffixes or [""])[0].lower() for p, _ in graphs}
    if len(kinds) > 1:
        raise DatasetError(f"the graphs in {path} must be files of one kind, got {', '.join(sorted(kinds))}")
    table = join_tables([(p.name, reader(p)) for p, reader in graphs])
    if labels.is_file():
        return _with_labels(table, labels, [p.name for p, _ in graphs])
    return table


def _with_labels(table: GraphTable, path: Path, names: list[str]) -> GraphTable:
    """Add ``y`` from lines ``file,label``; the file may lack its ending."""
    found: dict[str, int] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        name, comma, value = (part.strip() for part in line.partition(","))
        if not line.strip() or (number == 1 and not value.lstrip("+-").isdigit()):
            continue
        if not comma or not value.lstrip("+-").isdigit():
            raise DatasetError(
                f"{path}, line {number}: expected 'file,label' with a whole number, got {line!r}"
            )
        found[name] = int(value)
    missing = [n for n in names if n not in found and n.split(".")[0] not in found]
    if missing:
        raise DatasetError(
            f"{path} has no label for {missing[0]}" + (f" and {len(missing) - 1} more" if missing[1:] else "")
        )
    y = np.array([found.get(n, found.get(n.split(".")[0], 0)) for n in names])
    return table_from_arrays({"y": y}, path.name, base=table)


def _npz(path: Path) -> GraphTable:
    if not zipfile.is_zipfile(path):
        raise DatasetError(f"{path} cannot be read: it is no archive of arrays")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError) as error:
        why = (
            "holds Python objects, which are not loaded from files"
            if "pickle" in str(error)
            else f"cannot be read: {error}"
        )
        raise DatasetError(
            f"{path} {why}",
            hint="save plain arrays: edge_index, x, y, and node_ptr and edge_ptr for many graphs",
        ) from error
    return table_from_arrays(arrays, str(path))


def _hdf5(path: Path) -> GraphTable:
    from tgp.store.read.foreign import read_arrays

    try:
        return table_from_arrays(read_arrays(path), str(path))
    except StoreError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error


def _edge_list(path: Path, directed: bool) -> GraphTable:
    """Lines ``u v`` or ``u v weight``, separated by blanks or commas; ids are renumbered in ascending order."""
    opener: Any = PACKED.get(path.suffix.lower(), open)
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            rows = [_edge(path, number, line) for number, line in enumerate(file, start=1) if _is_edge(line)]
    except (OSError, UnicodeDecodeError, lzma.LZMAError, EOFError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    if not rows:
        raise DatasetError(f"{path} holds no edges", hint="an edge list has lines 'u v' or 'u v weight'")
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise DatasetError(f"{path}: either all lines have a weight or none")
    values = np.array(rows, np.float64).reshape(len(rows), -1)
    ids, index = np.unique(values[:, :2].astype(np.int64), return_inverse=True)
    edges = index.reshape(-1, 2).T.astype(np.int64)
    weight = values[:, 2].astype(np.float32) if values.shape[1] == 3 else None
    arrays: dict[str, npt.NDArray[Any]] = {"num_nodes": np.array([len(ids)])}
    if not directed:
        loop = edges[0] == edges[1]
        edges = np.concatenate([edges, edges[::-1][:, ~loop]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight[~loop]])
    if weight is not None:
        arrays["edge_weight"] = weight
    return table_from_arrays({"edge_index": edges, **arrays}, str(path))


def _is_edge(line: str) -> bool:
    """Leave out comments, headings and the 'p' and 'c' lines of DIMACS files."""
    word = line.lstrip()[:1]
    return word.isdigit() or (word in ("a", "e") and line.lstrip()[1:2] == " ")


def _edge(path: Path, number: int, line: str) -> tuple[float, ...]:
    words = line.replace(",", " ").split()
    if words[0] in ("a", "e"):
        words = words[1:]
    try:
        if len(words) not in (2, 3):
            raise ValueError
        return (int(words[0]), int(words[1]), *(float(w) for w in words[2:]))
    except ValueError:
        raise DatasetError(
            f"{path}, line {number}: expected 'u v' or 'u v weight', got {line.strip()!r}"
        ) from None
