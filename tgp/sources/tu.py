"""Read the text files of the TU Dortmund collection, without torch.

The arrays are those of ``torch_geometric.datasets.TUDataset``: labels are one-hot, self loops are removed, duplicate
edges are merged, edges are sorted.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError
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
    reader = _TextFiles(folder, name)
    edges = reader.integers("A", columns=2).T - 1
    graph = reader.integers("graph_indicator")[:, 0] - 1
    if graph.size == 0 or graph[0] != 0 or (np.diff(graph) < 0).any():
        raise reader.fail("graph_indicator", "must hold ascending graph ids from 1, one line per node")
    if edges.size and (edges.min() < 0 or edges.max() >= len(graph)):
        raise reader.fail("A", f"must hold node ids in [1, {len(graph)}]")
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
    y = reader.targets()
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
    try:
        archive = zipfile.ZipFile(io.BytesIO(body))
    except zipfile.BadZipFile as error:
        raise DatasetError(f"the server has no archive for TUDataset/{name}") from error
    raw.mkdir(parents=True, exist_ok=True)
    for member in archive.namelist():
        base = member.rpartition("/")[2]
        if base.startswith(f"{name}_") and base.endswith(".txt"):
            temp = raw / f".{base}.part"
            temp.write_bytes(archive.read(member))
            temp.replace(raw / base)


class _TextFiles:
    """Text files ``<name>_<part>.txt`` of a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def path(self, part: str) -> Path:
        return self.folder / f"{self.name}_{part}.txt"

    def fail(self, part: str, why: str) -> DatasetError:
        return DatasetError(f"{self.path(part)} {why}")

    def has(self, part: str) -> bool:
        return self.path(part).is_file()

    def _read(self, part: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        try:
            return np.loadtxt(self.path(part), dtype=dtype, delimiter=",", ndmin=2, comments=None)
        except FileNotFoundError:
            raise self.fail(part, "is missing") from None
        except ValueError as error:
            raise self.fail(part, f"cannot be read: {error}") from error

    def integers(self, part: str, columns: int | None = None) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = self._read(part, np.int64)
        if columns is not None and found.shape[1] != columns:
            raise self.fail(part, f"must have {columns} columns, got {found.shape[1]}")
        return found

    def features(self, kind: str, rows: int, use_attributes: bool) -> npt.NDArray[np.float32] | None:
        """Concatenate attributes (on request) and one-hot labels of nodes or edges; ``None`` if there are no files."""
        pieces: list[npt.NDArray[np.float32]] = []
        attributes, labels = f"{kind}_attributes", f"{kind}_labels"
        if self.has(attributes) and use_attributes:
            pieces.append(self._read(attributes, np.float64).astype(np.float32))
        if self.has(labels):
            values = self.integers(labels)
            shifted = values - values.min(axis=0) if len(values) else values
            for column in shifted.T:
                pieces.append(np.eye(int(column.max(initial=-1)) + 1, dtype=np.float32)[column])
        for piece in pieces:
            if len(piece) != rows:
                raise self.fail(labels, f"must hold {rows} lines, got {len(piece)}")
        if pieces:
            return np.concatenate(pieces, axis=1)
        return np.zeros((rows, 0), np.float32) if self.has(attributes) else None

    def targets(self) -> npt.NDArray[Any] | None:
        if self.has("graph_attributes"):
            values = self._read("graph_attributes", np.float64).astype(np.float32)
            return values[:, 0] if values.shape[1] == 1 else values
        if self.has("graph_labels"):
            labels = self.integers("graph_labels")
            classes: npt.NDArray[Any] = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
            return (classes[:, 0] if labels.shape[1] == 1 else classes).astype(np.int64)
        return None


def _merge_duplicates(
    edges: npt.NDArray[np.int64], attr: npt.NDArray[np.float32] | None, num_nodes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32] | None]:
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
