"""Read graphs from local files: arrays, edge lists, GraphML and stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError
from tgp.input_limits import LIMIT_HINT, READ_ERRORS, InputBudget, describe, input_budget, open_decompressed
from tgp.kernels.array_types import Array, FloatArray, LongArray
from tgp.ragged import GraphTable
from tgp.sources.arrays import read_npz
from tgp.sources.edge_files import find_raw_edges, open_edges
from tgp.sources.edge_reader import EdgeReader
from tgp.sources.edge_text import (
    NO_EDGES_HINT,
    check_declared_edges,
    find_declared_edges,
    parse_edge_text,
)
from tgp.sources.graphml import read_graphml
from tgp.sources.names import EDGE_LIST_SUFFIXES
from tgp.sources.tables import join_tables, table_from_arrays

__all__ = ["FORMATS", "is_processed_file", "open_local"]

_COMPRESSED = (".gz", ".xz")
_EDGE_ARRAYS = (".npy", ".parquet")
"""Suffixes of files that hold nothing but edges. In a folder of graphs they are left out."""

_PIECE = 1 << 20
_MAX_ID = np.iinfo(np.int64).max
_MAX_LINE = 10_000
"""Largest number of characters in a line of an edge list."""

_EDGE_BYTES = 96
"""Memory that a line of an edge list needs while ids are sorted and reverse edges are added."""

_CHUNK = 1 << 18
FORMATS = (
    f"a .npz, .h5 or .graphml file, an edge list ({', '.join(EDGE_LIST_SUFFIXES)}, also .gz or .xz; .npy, .parquet), a .pt file, "
    "a store, or a folder of such files"
)
"""Description of the supported files for error messages."""


def is_processed_file(path: Path) -> bool:
    """Return True if a file was written by torch, so that reading it needs torch.

    Args:
        path: File.
    """
    return path.suffix in (".pt", ".pth")


def open_local(path: Path, params: dict[str, str] | None = None) -> GraphTable:
    """Read the graphs of a file or folder.

    A file contains one graph, or many graphs if it has arrays of offsets. A folder contains one graph per file, in the
    order of the file names.

    Args:
        path: File or folder, see :data:`FORMATS`.
        params: ``directed=true`` keeps the direction of the edges of an edge list. By default each edge is added in
            both directions.

    Raises:
        DatasetError: If the path contains no graphs that can be read.
    """
    options = dict(params or {})
    directed = options.pop("directed", "false").lower() in ("true", "1", "yes")
    if options:
        raise DatasetError(f"{path} takes the parameter 'directed', got {', '.join(options)}")
    if path.is_dir() and (path / "manifest.json").is_file():
        return _read_store(path)
    if path.suffix.lower() in _EDGE_ARRAYS or (path.is_dir() and find_raw_edges(path) is not None):
        return _read_edge_arrays(open_edges(path), directed)
    if path.is_dir():
        return _read_folder(path, directed)
    reader = _choose_reader(path, directed)
    if reader is None:
        raise DatasetError(f"{path} is not a file of graphs", hint=f"expected {FORMATS}")
    return reader(path)


def _choose_reader(path: Path, directed: bool) -> Callable[[Path], GraphTable] | None:
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower() if suffix in _COMPRESSED else suffix
    if suffix == ".npz":
        return _read_npz
    if suffix in (".h5", ".hdf5"):
        return _read_hdf5
    if suffix == ".graphml":
        return read_graphml
    if inner in EDGE_LIST_SUFFIXES:
        return lambda p: _read_edge_list(p, directed)
    return None


def _read_store(path: Path) -> GraphTable:
    from tgp.store import StoreReader

    reader = StoreReader(path)
    return reader.gather_graphs(np.arange(reader.num_graphs))


def _read_folder(path: Path, directed: bool) -> GraphTable:
    labels = path / "labels.csv"
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
    files = [p for p in entries if not p.is_dir() and p != labels and not p.name.startswith(".")]
    readers = [(p, _choose_reader(p, directed)) for p in files]
    graphs = [(p, reader) for p, reader in readers if reader is not None]
    if not graphs:
        raise DatasetError(f"{path} holds no graphs", hint=f"expected {FORMATS}")
    kinds = {(p.suffixes or [""])[0].lower() for p, _ in graphs}
    if len(kinds) > 1:
        raise DatasetError(
            f"the graphs in {path} must be files of one kind: expected one suffix, got {', '.join(sorted(kinds))}"
        )
    table = join_tables([(p.name, reader(p)) for p, reader in graphs])
    if labels.exists():
        return _add_labels(table, labels, [p.name for p, _ in graphs])
    return table


def _add_labels(table: GraphTable, path: Path, names: list[str]) -> GraphTable:
    """Add ``y`` from a file with lines ``file,label``. The suffix of the file name may be left out."""
    with input_budget() as budget:
        try:
            with open_decompressed(path, budget) as file:
                found = _parse_labels(path, file)
        except (OSError, UnicodeDecodeError) as error:
            raise DatasetError(f"{path} cannot be read: {error}") from error
    missing = [n for n in names if n not in found and n.split(".")[0] not in found]
    if missing:
        raise DatasetError(
            f"{path} has no label for {missing[0]}" + (f" and {len(missing) - 1} more" if missing[1:] else "")
        )
    y = np.array([found.get(n, found.get(n.split(".")[0], 0)) for n in names], np.int64)
    return table_from_arrays({"y": y}, path.name, base=table)


def _parse_labels(path: Path, file: IO[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    number = 0
    while line := file.readline(_MAX_LINE):
        number += 1
        name, comma, value = (part.strip() for part in line.partition(","))
        is_number = value.lstrip("+-").isdecimal() and len(value) < 24
        if not line.strip() or (number == 1 and not is_number):
            continue
        if not comma or not is_number or abs(int(value)) > _MAX_ID:
            raise DatasetError(
                f"{path}, line {number}: expected 'file,label' with a whole number of 64 bits, "
                f"got {line.strip()[:80]!r}"
            )
        found[name] = int(value)
    return found


def _read_npz(path: Path) -> GraphTable:
    with input_budget() as budget:
        return table_from_arrays(read_npz(path, budget), str(path))


def _read_hdf5(path: Path) -> GraphTable:
    from tgp.store.io.guard import read_arrays

    with input_budget() as budget:
        budget.open(path).close()
        try:
            arrays = read_arrays(path, max_bytes=max(budget.limit - budget.needed, 0))
        except READ_ERRORS as error:
            text = str(error) if str(path) in str(error) else f"{path} cannot be read: {describe(error)}"
            raise DatasetError(text, hint=LIMIT_HINT if "too large" in text else None) from error
        budget.charge(sum(values.nbytes for values in arrays.values()), path, "the arrays of the file")
        return table_from_arrays(arrays, str(path))


def _read_edge_list(path: Path, directed: bool) -> GraphTable:
    """Read lines ``u v`` or ``u v weight``, separated by blanks or commas. Ids are renumbered in ascending order."""
    with input_budget() as budget:
        try:
            with open_decompressed(path, budget) as file:
                pairs, weight = _parse_edges(path, file, budget)
        except READ_ERRORS as error:
            if isinstance(error, DatasetError):
                raise
            raise DatasetError(f"{path} cannot be read: {describe(error)}") from error
    ids, index = np.unique(pairs, return_inverse=True)
    edges = index.reshape(-1, 2).T.astype(np.int64)
    arrays: dict[str, Array] = {"num_nodes": np.array([len(ids)])}
    if not directed:
        loop = edges[0] == edges[1]
        edges = np.concatenate([edges, edges[::-1][:, ~loop]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight[~loop]])
    if weight is not None:
        arrays["edge_weight"] = weight
    return table_from_arrays({"edge_index": edges, **arrays}, str(path))


def _read_edge_arrays(reader: EdgeReader, directed: bool) -> GraphTable:
    """Read the edges of one graph from arrays. Both directions are added, unless the file has them already."""
    from tgp.kernels.edge_input import symmetry_sum

    path = reader.path
    with input_budget() as budget:
        for file in reader.files:
            budget.open(file).close()
        budget.check(_EDGE_BYTES * reader.estimate_edges()[0], path, "the list of edges")
        pieces = []
        for piece in reader.read(_PIECE):
            budget.charge(_EDGE_BYTES * len(piece.edges), path, "the list of edges")
            pieces.append(piece)
    if not sum(len(piece.edges) for piece in pieces):
        raise DatasetError(f"{path} holds no edges")
    edges = np.concatenate([piece.edges for piece in pieces])
    found = [piece.weight for piece in pieces if piece.weight is not None]
    weight = np.concatenate(found) if found else None
    if edges.min() < 0:
        raise DatasetError(f"{path} has a wrong id: expected ids from 0 on, got {edges.min()}")
    arrays: dict[str, Array] = {}
    if reader.has_holes:
        ids, index = np.unique(edges, return_inverse=True)
        edges = np.ascontiguousarray(index.reshape(-1, 2), np.int64)
        arrays["num_nodes"] = np.array([len(ids)])
        if len(ids) > 1 and int(ids[-1]) >= len(ids):
            arrays["node_id"] = ids
    else:
        largest = int(edges.max()) + 1
        arrays["num_nodes"] = np.array([largest if reader.num_nodes is None else reader.num_nodes])
    salt = int.from_bytes(os.urandom(7), "little")
    bits = np.empty(0, np.uint64) if weight is None else weight.view(np.uint64)
    once = directed or (
        reader.keeps_symmetric and symmetry_sum(edges.ravel(), bits, weight is not None, salt) == 0
    )
    if not once:
        loop = edges[:, 0] == edges[:, 1]
        edges = np.concatenate([edges, edges[~loop, ::-1]])
        weight = None if weight is None else np.concatenate([weight, weight[~loop]])
    if weight is not None:
        arrays["edge_weight"] = weight.astype(reader.weight_dtype)
    return table_from_arrays({"edge_index": np.ascontiguousarray(edges.T), **arrays}, str(path))


def _parse_edges(
    path: Path, file: IO[str], budget: InputBudget
) -> tuple[LongArray, npt.NDArray[np.float32] | None]:
    """Return the ids of all lines, flat, and the weights if there are any."""
    ids: list[LongArray] = []
    weights: list[FloatArray] = []
    number = declared = 0
    for text in _read_lines(path, file):
        declared = declared or (0 if ids else find_declared_edges(text))
        found = parse_edge_text(path, text, number, any(map(len, ids)))
        number += text.count("\n")
        budget.charge(_EDGE_BYTES * len(found[0]) // 2, path, "the list of edges")
        ids.append(found[0])
        weights.append(found[1])
    num_ids, num_weights = (sum(map(len, parts)) for parts in (ids, weights))
    if not num_ids:
        raise DatasetError(f"{path} holds no edges", hint=NO_EDGES_HINT)
    check_declared_edges(path, declared, num_ids // 2)
    if num_weights not in (0, num_ids // 2):
        raise DatasetError(f"{path}: expected a weight on all lines or on none, got both kinds of lines")
    values = np.concatenate(weights)
    if not (np.abs(values) <= np.finfo(np.float32).max).all():
        raise DatasetError(f"{path}: expected weights that are finite numbers of 32 bits, got others")
    return np.concatenate(ids), values.astype(np.float32) if num_weights else None


def _read_lines(path: Path, file: IO[str]) -> Iterator[str]:
    """Yield the text of a file in parts of whole lines."""
    rest = ""
    while data := file.read(_CHUNK):
        text = rest + data
        end = text.rfind("\n") + 1
        rest = text[end:]
        if len(rest) > _MAX_LINE:
            raise DatasetError(f"{path} has a line that is too long: expected at most {_MAX_LINE} characters")
        yield text[:end]
    yield rest
