"""Read the text files of the TU Dortmund collection, without torch.

The arrays are those of ``torch_geometric.datasets.TUDataset``: labels are one-hot, self loops are removed, duplicate
edges are merged, edges are sorted.
"""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError
from tgp.input_limits import MAX_RATIO, READ_ERRORS, InputBudget, input_budget
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged import Field, GraphTable
from tgp.ragged.offsets import offsets
from tgp.sources.download import fetch

__all__ = ["download_tu", "read_tu"]

_URL = "https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip"


def read_tu(
    folder: Path, name: str, *, use_node_attr: bool = False, use_edge_attr: bool = False
) -> GraphTable:
    """Read ``NAME_A.txt``, ``NAME_graph_indicator.txt``, and the optional files of labels and attributes.

    Args:
        folder: Folder of the files.
        name: Prefix of the files.
        use_node_attr: Put node attributes before the one-hot node labels.
        use_edge_attr: Put edge attributes before the one-hot edge labels.

    Raises:
        DatasetError: If a file is missing, or does not fit the other files.
    """
    with input_budget() as budget:
        return _read_files(_TextFiles(folder, name, budget), use_node_attr, use_edge_attr)


def _read_files(reader: _TextFiles, use_node_attr: bool, use_edge_attr: bool) -> GraphTable:
    edges = reader.integers("A", columns=2).T
    graph = reader.integers("graph_indicator")[:, 0]
    y = reader.targets()
    if graph.size == 0 or graph[0] != 1 or (graph[1:] < graph[:-1]).any():
        raise reader.fail("graph_indicator", "must hold ascending graph ids from 1, one line per node")
    most = max(len(graph), 0 if y is None else len(y))
    if graph[-1] > most:  # graphs without nodes are valid, but each graph needs a line in some file
        raise reader.fail("graph_indicator", f"must hold graph ids in [1, {most}], got {graph[-1]}")
    if edges.size and (edges.min() < 1 or edges.max() > len(graph)):
        raise reader.fail("A", f"must hold node ids in [1, {len(graph)}]")
    edges, graph = edges - 1, graph - 1
    if (graph[edges[0]] != graph[edges[1]]).any():
        raise reader.fail("A", "has an edge between two graphs")
    node_ptr = offsets(np.bincount(graph))
    num_graphs = len(node_ptr) - 1

    x = reader.features("node", len(graph), use_node_attr)
    edges, attr = _merge_duplicates(edges, reader.features("edge", edges.shape[1], use_edge_attr), len(graph))
    edge_ptr = offsets(np.bincount(graph[edges[0]], minlength=num_graphs))
    fields = {
        "edge_index": Field("edge_index", edges - node_ptr[graph[edges[0]]], edge_ptr, axis=-1, shifted=True)
    }
    if x is None:
        counts = np.diff(node_ptr)
        fields["num_nodes"] = Field("num_nodes", counts, np.arange(num_graphs + 1), form="int")
    else:
        fields["x"] = Field("x", x, node_ptr)
    if attr is not None:
        fields["edge_attr"] = Field("edge_attr", attr, edge_ptr)
    if y is not None:
        if len(y) not in (num_graphs, len(graph)):
            raise reader.fail("graph_labels", f"must hold {num_graphs} lines, got {len(y)}")
        fields["y"] = Field("y", y, node_ptr if len(y) == len(graph) else np.arange(num_graphs + 1))
    return GraphTable(node_ptr, fields)


def download_tu(name: str, raw: Path) -> None:
    """Download the archive of a dataset and extract its text files.

    Args:
        name: Name of the dataset.
        raw: Folder for the text files.

    Raises:
        DatasetError: If the server is unreachable, or has no such dataset.
    """
    body = fetch(_URL.format(name=name), f"TUDataset/{name}", raw)
    raw.mkdir(parents=True, exist_ok=True)
    budget = InputBudget(max_input=MAX_RATIO * len(body) + (1 << 20))
    try:
        archive = zipfile.ZipFile(io.BytesIO(body))
        for member in archive.infolist():
            base = member.filename.rpartition("/")[2]
            if base.startswith(f"{name}_") and base.endswith(".txt"):
                budget.charge(member.file_size, f"the archive of TUDataset/{name}", repr(base))
                temp = raw / f".{base}.part"
                temp.write_bytes(archive.read(member))
                temp.replace(raw / base)
    except READ_ERRORS as error:
        if isinstance(error, DatasetError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise DatasetError(f"the server has no archive for TUDataset/{name}") from error


class _TextFiles:
    """Text files ``<name>_<part>.txt`` of a folder."""

    def __init__(self, folder: Path, name: str, budget: InputBudget) -> None:
        self.folder = folder
        self.name = name
        self.budget = budget

    def path(self, part: str) -> Path:
        return self.folder / f"{self.name}_{part}.txt"

    def fail(self, part: str, why: str) -> DatasetError:
        return DatasetError(f"{self.path(part)} {why}")

    def has(self, part: str) -> bool:
        return os.path.lexists(self.path(part))

    def _read(self, part: str, dtype: npt.DTypeLike) -> Array:
        path = self.path(part)
        if not os.path.lexists(path):
            raise self.fail(part, "is missing")
        with self.budget.open(path) as file, warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy warns about empty files and about integers written as 1.5
            try:
                found: Array = np.loadtxt(
                    file, dtype=dtype, delimiter=",", ndmin=2, comments=None, encoding="utf-8"
                )
            except (UserWarning, *READ_ERRORS) as error:
                if "no data" in str(error):
                    return np.zeros((0, 0), dtype)
                raise self.fail(part, f"cannot be read: {str(error)[:200]}") from error
        self.budget.charge(found.nbytes, path, "the numbers of the file")
        return found

    def integers(self, part: str, columns: int | None = None) -> LongArray:
        found: LongArray = self._read(part, np.int64)
        if not found.size:
            return found.reshape(0, columns or 1)
        if columns is not None and found.shape[1] != columns:
            raise self.fail(part, f"must have {columns} columns, got {found.shape[1]}")
        return found

    def floats(self, part: str) -> npt.NDArray[np.float32]:
        with np.errstate(over="ignore"):  # numbers above 3e38 become infinite, as in PyG
            return self._read(part, np.float64).astype(np.float32)

    def features(self, kind: str, rows: int, use_attributes: bool) -> npt.NDArray[np.float32] | None:
        """Concatenate attributes (on request) and one-hot labels of nodes or edges; ``None`` if there are no files."""
        pieces: list[npt.NDArray[np.float32]] = []
        attributes, labels = f"{kind}_attributes", f"{kind}_labels"
        if self.has(attributes) and use_attributes:
            pieces.append(self.floats(attributes))
        if self.has(labels):
            for column in self.integers(labels).T:
                pieces.append(self._one_hot(labels, column))
        for piece in pieces:
            if len(piece) != rows:
                raise self.fail(labels, f"must hold {rows} lines, got {len(piece)}")
        if pieces:
            return np.concatenate(pieces, axis=1)
        return np.zeros((rows, 0), np.float32) if self.has(attributes) else None

    def _one_hot(self, part: str, labels: LongArray) -> npt.NDArray[np.float32]:
        classes = int(labels.max()) - int(labels.min()) + 1 if len(labels) else 0
        self.budget.charge(
            4 * classes * len(labels), self.path(part), f"the one-hot form of {classes} labels"
        )
        found = np.zeros((len(labels), classes), np.float32)
        if len(labels):
            found[np.arange(len(labels)), labels - labels.min()] = 1
        return found

    def targets(self) -> Array | None:
        if self.has("graph_attributes"):
            values = self.floats("graph_attributes")
            return values[:, 0] if values.shape[1] == 1 else values
        if self.has("graph_labels"):
            labels = self.integers("graph_labels")
            classes: Array = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
            return (classes[:, 0] if labels.shape[1] == 1 else classes).astype(np.int64)
        return None


def _merge_duplicates(
    edges: LongArray, attr: npt.NDArray[np.float32] | None, num_nodes: int
) -> tuple[LongArray, npt.NDArray[np.float32] | None]:
    """Remove self loops, sort edges, and merge duplicates. Attributes of duplicates are added."""
    keep = edges[0] != edges[1]
    key = edges[0][keep] * num_nodes + edges[1][keep]
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    merged = np.stack(np.divmod(key[first], max(num_nodes, 1)))
    if attr is None:
        return merged, None
    attr = attr[keep][order]
    return merged, attr if len(first) == len(attr) else np.add.reduceat(attr, first, axis=0)
