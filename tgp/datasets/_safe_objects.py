"""Read published object files without running code from them.

Some benchmark files are pickles. They are decoded by an unpickler with a fixed list of constructors (arrays, sparse
matrices, tensors, PyG containers). It refuses every other name, so a file cannot call any other function. See ``docs/decisions/0701-read-object-files-without-running-code.md``.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tgp.errors import DatasetError

__all__ = ["object_arrays", "read_objects", "read_stream"]


def _encode_latin1(text: str, encoding: str = "latin1") -> bytes:
    """Replace ``_codecs.encode``, which old numpy files call to convert text to bytes."""
    if encoding not in ("latin1", "latin-1"):
        raise DatasetError(f"the file encodes bytes as {encoding!r}: expected latin1. The file is not read")
    return text.encode("latin1")


def _read_storage(data: bytes) -> Any:
    """Replace ``torch.storage._load_from_bytes`` by a reader that runs no code."""
    import torch

    return torch.load(io.BytesIO(data), weights_only=True)


def _numpy_names() -> dict[tuple[str, str], Any]:
    from numpy._core import multiarray

    names: dict[tuple[str, str], Any] = {("_codecs", "encode"): _encode_latin1}
    for module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray"):
        names[module, "ndarray"] = np.ndarray
        names[module, "dtype"] = np.dtype
        names[module, "_reconstruct"] = multiarray._reconstruct
        names[module, "scalar"] = multiarray.scalar
    return names


def _scipy_names() -> dict[tuple[str, str], Any]:
    from scipy import sparse

    return {
        (f"scipy.sparse.{folder}{kind}", f"{kind}_matrix"): getattr(sparse, f"{kind}_matrix")
        for kind in ("csr", "csc", "coo")
        for folder in ("", "_")
    }


def _torch_names() -> dict[tuple[str, str], Any]:
    import collections

    import torch
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    return {
        ("torch_geometric.data.data", "DataEdgeAttr"): DataEdgeAttr,
        ("torch_geometric.data.data", "DataTensorAttr"): DataTensorAttr,
        ("collections", "OrderedDict"): collections.OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
        ("torch.storage", "_load_from_bytes"): _read_storage,
        ("torch_geometric.data.data", "Data"): Data,
        ("torch_geometric.data.storage", "GlobalStorage"): GlobalStorage,
    }


def _container_names() -> dict[tuple[str, str], Any]:
    import collections

    kinds = {kind.__name__: kind for kind in (list, dict, set, tuple)}
    names: dict[tuple[str, str], Any] = {("collections", "defaultdict"): collections.defaultdict}
    for module in ("builtins", "__builtin__"):
        names.update({(module, name): kind for name, kind in kinds.items()})
    return names


class _InertUnpickler(pickle.Unpickler):
    """Unpickler that resolves only the given names."""

    def __init__(
        self, stream: BinaryIO, names: dict[tuple[str, str], Any], path: Path, encoding: str = "ASCII"
    ) -> None:
        super().__init__(stream, encoding=encoding)
        self._names, self._path = names, path

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._names[module, name]
        except KeyError:
            raise DatasetError(
                f"{self._path.name} contains {module}.{name}: expected plain arrays and graphs. The file is not read",
                hint="convert the file to arrays in an environment that you trust",
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        raise DatasetError(f"{self._path.name} refers to an object outside of the file, which is not read")


def _decode(
    stream: BinaryIO,
    path: Path,
    *tables: Callable[[], dict[tuple[str, str], Any]],
    encoding: str = "ASCII",
) -> Any:
    names = {key: value for table in tables for key, value in table().items()}
    try:
        return _InertUnpickler(stream, names, path, encoding).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{path.name} is not a readable object file: {error}") from error


def read_objects(path: str | Path) -> Any:
    """Decode a pickle file of arrays, matrices, tensors, graphs, and containers of them.

    Args:
        path: The file.

    Raises:
        DatasetError: If the file contains other objects, or is damaged.
    """
    path = Path(path)
    with path.open("rb") as stream:
        return read_stream(stream, path)


def read_stream(stream: BinaryIO, path: Path, encoding: str = "ASCII") -> Any:
    """Decode an open pickle of arrays, matrices, tensors, graphs, and containers of them.

    Args:
        stream: The open file.
        path: Name of the file for error messages.
        encoding: Encoding of text in files of Python 2.

    Raises:
        DatasetError: If the file contains other objects, or is damaged.
    """
    tables = (_numpy_names, _scipy_names, _torch_names, _container_names)
    return _decode(stream, path, *tables, encoding=encoding)


def object_arrays(path: str | Path) -> dict[str, Any]:
    """Read all arrays of an ``.npz`` file. Object arrays may contain numpy arrays and scipy matrices.

    Args:
        path: The file.

    Raises:
        DatasetError: If an array contains other objects, or has an unknown format.
    """
    path = Path(path)
    arrays: dict[str, Any] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as stream:
                arrays[member.removesuffix(".npy")] = _read_npy(stream, path)
    return arrays


def _read_npy(stream: Any, path: Path) -> Any:
    version = np.lib.format.read_magic(stream)
    reader = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if reader is None:
        raise DatasetError(f"{path.name} has an unknown array format: expected 1.0 or 2.0, got {version}")
    shape, fortran, dtype = reader(stream)
    if dtype.hasobject:
        value = _decode(io.BytesIO(stream.read()), path, _numpy_names, _scipy_names)
        return value.reshape(shape)
    flat = np.frombuffer(stream.read(), dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")
