"""Open the edges of one graph by a path: a file of edges, raw files of the Open Graph Benchmark, or a store of tgp.

The edges are read piece by piece, so the files may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tgp.errors import DatasetError
from tgp.input_limits import check_regular
from tgp.sources.edge_arrays import ArrayReader, ParquetReader
from tgp.sources.edge_reader import EdgePiece, EdgeReader, check_weights, translate_errors
from tgp.sources.edge_text import TextReader
from tgp.sources.names import EDGE_LIST_SUFFIXES

if TYPE_CHECKING:
    from tgp.store.read.mapped import MappedGraph

__all__ = ["EDGE_FILE_SUFFIXES", "find_raw_edges", "open_edges"]

EDGE_FILE_SUFFIXES = (*EDGE_LIST_SUFFIXES, ".npy", ".npz", ".parquet")
"""Suffixes of the files that :func:`open_edges` reads. Those of text can be followed by ``.gz`` or ``.xz``."""

_BINARY, _TEXT, _COUNTS = "data.npz", "edge.csv.gz", "num-node-list.csv.gz"
"""Names of the raw files of OGB."""


def open_edges(path: Path) -> EdgeReader:
    """Open a file or folder with the edges of one graph.

    Args:
        path: Text with lines ``u v`` or ``u v weight``, which may be compressed (``.gz``, ``.xz``); a ``.npy`` file with an array ``[2, E]``
            or ``[E, 2]``; a ``.npz`` file with an array ``edge_index`` of this shape and optional arrays ``edge_weight`` and
            ``num_nodes``; a ``.parquet`` file; a folder with the raw files of a graph of OGB; or a store of one graph.

    Raises:
        DatasetError: If the path does not exist, is nothing of these, or is damaged.
        MissingPackageError: If pyarrow is needed and not installed.
    """
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        raise DatasetError(
            f"there is no file {path}: expected a file of edges",
            hint="names of datasets and settings such as :directed=true are for graphs that fit in memory",
        )
    check_regular(path)
    with translate_errors(path):
        suffix = path.suffix.lower()
        inner = Path(path.stem).suffix.lower() if suffix in (".gz", ".xz") else suffix
        if inner in EDGE_LIST_SUFFIXES:
            return TextReader(path)
        if suffix in (".npy", ".npz"):
            return ArrayReader(path)
        if suffix == ".parquet":
            return ParquetReader(path)
    raise DatasetError(
        f"{path} cannot be read piece by piece: expected a file with suffix {', '.join(EDGE_FILE_SUFFIXES)}, got {suffix!r}",
        hint="write the edges of the graph to one of these files, for example with numpy.save('edges.npy', edge_index)",
    )


def _open_folder(path: Path) -> EdgeReader:
    with translate_errors(path):
        if (path / "manifest.json").is_file():
            return _StoredEdges(path)
        raw = find_raw_edges(path)
        if raw is not None:
            return _open_raw_edges(raw)
    raise DatasetError(
        f"{path} is a folder: expected a file of edges, a store, or raw/edge.csv.gz or raw/data.npz of OGB",
        hint="give the path of a file in the folder",
    )


def find_raw_edges(folder: Path) -> Path | None:
    """Return the folder of the raw files of OGB, the given folder or its subfolder ``raw``; ``None`` if there are none.

    Args:
        folder: Folder of a dataset.
    """
    for raw in (folder, folder / "raw"):
        if (raw / _BINARY).is_file() or ((raw / _TEXT).is_file() and (raw / _COUNTS).is_file()):
            return raw
    return None


def _open_raw_edges(raw: Path) -> EdgeReader:
    """Open the edges in a folder of raw files: ``data.npz`` or ``edge.csv.gz`` with ``num-node-list.csv.gz``.

    Args:
        raw: Folder, see :func:`find_raw_edges`.

    Raises:
        DatasetError: If the files hold several graphs, or cannot be read.
    """
    if (raw / _BINARY).is_file():
        check_regular(raw / _BINARY)
        return ArrayReader(raw / _BINARY)
    for name in (_TEXT, _COUNTS):
        check_regular(raw / name)
    lines = _read_lines(TextReader(raw / _COUNTS))
    if len(lines) != 1 or not lines[0].isdecimal() or len(lines[0]) > 18:
        raise DatasetError(
            f"{raw} must hold one graph: expected one number in {_COUNTS}, got {len(lines)} lines"
        )
    return _RawText(raw / _TEXT, int(lines[0]))


def _read_lines(reader: TextReader) -> list[str]:
    """Return the first lines of a text."""
    return [line.strip() for line in reader.read_text(1 << 12).splitlines() if line.strip()]


class _RawText(TextReader):
    """Reader of ``edge.csv.gz``. OGB lists the edges of most graphs in one direction and those of some in both."""

    keeps_symmetric = True

    @property
    def files(self) -> list[Path]:
        """Files of the edges and of the number of nodes."""
        return [self.path, self.path.with_name(_COUNTS)]


class _StoredEdges(EdgeReader):
    """Reader of the input graph of a store of one graph. A position is a number of edges.

    The edges are mapped, and a piece at a time is copied.

    Args:
        path: Folder of the store.

    Raises:
        DatasetError: If the store has several graphs or types of nodes.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        graph = self._graph
        self.num_nodes = graph.num_nodes
        self.num_edges = graph.edge_rows[1] - graph.edge_rows[0]
        if "edge_weight" in graph.edges:
            weight = graph.edges["edge_weight"]
            if len(weight.shape) != 1:
                raise DatasetError(f"{path}: 'edge_weight' must hold one number for each edge")
            self.weight_dtype = np.dtype(np.float64 if weight.dtype == "float64" else np.float32)

    @cached_property
    def _graph(self) -> MappedGraph:
        from tgp.store import StoreReader
        from tgp.store.read.mapped import map_graph

        reader = StoreReader(self.path)
        if reader.num_graphs != 1 or reader.manifest.spec.types is not None:
            raise DatasetError(
                f"{self.path} must hold one graph with one type of nodes, got {reader.num_graphs} graphs"
            )
        return map_graph(reader, 0)

    @property
    def files(self) -> list[Path]:
        """Manifest, which has the digests of all other files."""
        return [self.path / "manifest.json"]

    def _read(self, size: int, position: int) -> Iterator[EdgePiece]:
        weights = self._graph.edges.get("edge_weight") if self.weight_dtype is not None else None
        for low in range(position, self.num_edges, size):
            high = min(low + size, self.num_edges)
            source, target = self._graph.edge_index()
            edges = np.empty((high - low, 2), np.int64)
            edges[:, 0], edges[:, 1] = source[low:high], target[low:high]
            weight = None
            if weights is not None and self.weight_dtype is not None:
                where = f"{self.path}, edges {low} to {high - 1}"
                weight = check_weights(weights.take(slice(low, high)), where, self.weight_dtype)
            yield EdgePiece(edges, weight, high)

    def estimate_edges(self) -> tuple[int, int]:
        """Return the number of edges and of nodes."""
        return self.num_edges, self.num_nodes or 0
