"""Open the edges of one graph by a path, to read them piece by piece from files that may be larger than memory."""

from __future__ import annotations

from pathlib import Path

from tgp.errors import DatasetError
from tgp.input_limits import check_regular
from tgp.sources.edge_arrays import ArrayReader, ParquetReader
from tgp.sources.edge_folders import StoredEdges, find_raw_edges, open_raw_edges
from tgp.sources.edge_reader import EdgeReader, translate_errors
from tgp.sources.edge_text import TextReader
from tgp.sources.names import EDGE_LIST_SUFFIXES

__all__ = ["EDGE_FILE_SUFFIXES", "open_edges"]

EDGE_FILE_SUFFIXES = (*EDGE_LIST_SUFFIXES, ".npy", ".npz", ".parquet")
"""Suffixes of the files that :func:`open_edges` reads. Those of text can be followed by ``.gz`` or ``.xz``."""


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
            return StoredEdges(path)
        raw = find_raw_edges(path)
        if raw is not None:
            return open_raw_edges(raw)
    raise DatasetError(
        f"{path} is a folder: expected a file of edges, a store, or raw/edge.csv.gz or raw/data.npz of OGB",
        hint="give the path of a file in the folder",
    )
