"""Read graphs from local files: arrays, edge lists, GraphML and stores."""

from __future__ import annotations

import gzip
import lzma
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError, StoreError
from tgp.ragged import GraphTable
from tgp.sources.names import EDGE_LIST_SUFFIXES
from tgp.sources.tables import join_tables, table_from_arrays

__all__ = ["FORMATS", "is_processed_file", "open_local"]

_DECOMPRESSORS = {".gz": gzip.open, ".xz": lzma.open}
FORMATS = (
    f"a .npz, .h5 or .graphml file, an edge list ({', '.join(EDGE_LIST_SUFFIXES)}, also .gz or .xz), a .pt file, "
    "a store, or a folder of such files"
)
"""Description of the supported files for error messages."""

_GRAPHML_TYPES = {
    "int": np.int64,
    "long": np.int64,
    "float": np.float32,
    "double": np.float32,
    "boolean": np.bool_,
}


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
    if path.is_dir():
        return _read_store(path) if (path / "manifest.json").is_file() else _read_folder(path, directed)
    reader = _choose_reader(path, directed)
    if reader is None:
        raise DatasetError(f"{path} is not a file of graphs", hint=f"expected {FORMATS}")
    return reader(path)


def _choose_reader(path: Path, directed: bool) -> Callable[[Path], GraphTable] | None:
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower() if suffix in _DECOMPRESSORS else suffix
    if suffix == ".npz":
        return _read_npz
    if suffix in (".h5", ".hdf5"):
        return _read_hdf5
    if suffix == ".graphml":
        return _read_graphml
    if inner in EDGE_LIST_SUFFIXES:
        return lambda p: _read_edge_list(p, directed)
    return None


def _read_store(path: Path) -> GraphTable:
    from tgp.store import StoreReader

    reader = StoreReader(path)
    return reader.gather_graphs(np.arange(reader.num_graphs))


def _read_folder(path: Path, directed: bool) -> GraphTable:
    labels = path / "labels.csv"
    files = [p for p in sorted(path.iterdir()) if p.is_file() and p != labels and not p.name.startswith(".")]
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
    if labels.is_file():
        return _add_labels(table, labels, [p.name for p, _ in graphs])
    return table


def _add_labels(table: GraphTable, path: Path, names: list[str]) -> GraphTable:
    """Add ``y`` from a file with lines ``file,label``. The suffix of the file name may be left out."""
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


def _read_npz(path: Path) -> GraphTable:
    if not zipfile.is_zipfile(path):
        raise DatasetError(f"{path} cannot be read: expected an archive of arrays (.npz)")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError) as error:
        has_objects = "pickle" in str(error)
        why = "holds Python objects, which are not loaded" if has_objects else f"cannot be read: {error}"
        raise DatasetError(
            f"{path} {why}",
            hint="save plain arrays: edge_index, x, y, and node_ptr and edge_ptr for many graphs",
        ) from error
    return table_from_arrays(arrays, str(path))


def _read_hdf5(path: Path) -> GraphTable:
    from tgp.store.io.guard import read_arrays

    try:
        return table_from_arrays(read_arrays(path), str(path))
    except StoreError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error


def _read_edge_list(path: Path, directed: bool) -> GraphTable:
    """Read lines ``u v`` or ``u v weight``, separated by blanks or commas. Ids are renumbered in ascending order."""
    opener: Any = _DECOMPRESSORS.get(path.suffix.lower(), open)
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            rows = [
                _parse_edge(path, number, line) for number, line in enumerate(file, start=1) if _is_edge(line)
            ]
    except (OSError, UnicodeDecodeError, lzma.LZMAError, EOFError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    if not rows:
        raise DatasetError(f"{path} holds no edges", hint="an edge list has lines 'u v' or 'u v weight'")
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise DatasetError(f"{path}: expected a weight on all lines or on none, got both kinds of lines")
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
    """Return False for comments, headings, and the lines 'p' and 'c' of DIMACS files."""
    word = line.lstrip()[:1]
    return word.isdigit() or (word in ("a", "e") and line.lstrip()[1:2] == " ")


def _parse_edge(path: Path, number: int, line: str) -> tuple[float, ...]:
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


def _read_graphml(path: Path) -> GraphTable:
    """Read the first graph of a GraphML file.

    Nodes are numbered in the order of the file. An undirected edge is added in both directions. The edge attribute
    ``weight`` becomes ``edge_weight``. A numeric attribute that every node has becomes an array of the same name.
    """
    try:
        root = ET.parse(path).getroot()
    except (ET.ParseError, OSError) as error:
        raise DatasetError(f"{path} is not GraphML: {error}") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    graph = root.find("graph")
    if root.tag != "graphml" or graph is None:
        raise DatasetError(f"{path} is not GraphML: it has no <graph>")
    keys = {
        k.get("id", ""): (k.get("for"), k.get("attr.name", ""), k.get("attr.type", ""))
        for k in root.iter("key")
    }
    ids = {node.get("id"): number for number, node in enumerate(graph.iter("node"))}
    arrays: dict[str, npt.NDArray[Any]] = {"num_nodes": np.array([len(ids)]), **_node_columns(graph, keys)}
    pairs, weights = [], []
    weight_key = next(
        (k for k, (_, name, kind) in keys.items() if name == "weight" and kind in _GRAPHML_TYPES), None
    )
    for edge in graph.iter("edge"):
        try:
            pair = (ids[edge.get("source")], ids[edge.get("target")])
        except KeyError as error:
            raise DatasetError(f"{path}: an edge refers to node {error}, which does not exist") from None
        value = next((d.text for d in edge.iter("data") if d.get("key") == weight_key), None)
        directed = edge.get("directed", str(graph.get("edgedefault") == "directed").lower()) == "true"
        for ends in (pair,) if directed or pair[0] == pair[1] else (pair, pair[::-1]):
            pairs.append(ends)
            weights.append(1.0 if value is None else float(value))
    arrays["edge_index"] = np.array(pairs, np.int64).reshape(-1, 2).T
    if weight_key is not None and pairs:
        arrays["edge_weight"] = np.array(weights, np.float32)
    return table_from_arrays(arrays, str(path))


def _node_columns(
    graph: ET.Element, keys: dict[str, tuple[str | None, str, str]]
) -> dict[str, npt.NDArray[Any]]:
    nodes = [{d.get("key"): d.text for d in node.iter("data")} for node in graph.iter("node")]
    columns: dict[str, npt.NDArray[Any]] = {}
    for key, (target, name, kind) in keys.items():
        if target in ("node", "all") and kind in _GRAPHML_TYPES and nodes and all(n.get(key) for n in nodes):
            texts = [n[key] for n in nodes]
            values = [t == "true" for t in texts] if kind == "boolean" else [float(t) for t in texts if t]
            columns[name] = np.array(values).astype(_GRAPHML_TYPES[kind])
    return columns
