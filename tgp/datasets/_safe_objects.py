"""Read published object files without running code from them.

Some benchmark files are pickles. They are decoded by an unpickler that knows a fixed list of inert
constructors (arrays, sparse matrices, tensors, PyG containers) and refuses every other name, so a file
cannot call anything. See ``docs/decisions/0701-read-object-files-without-running-code.md``.
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


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    """What old numpy files call ``_codecs.encode`` for: text that stands for bytes."""
    if encoding not in ("latin1", "latin-1"):
        raise DatasetError(f"refusing to encode text as {encoding!r}: only latin1 stands for bytes")
    return text.encode("latin1")


def _tensor_bytes(data: bytes) -> Any:
    """A tensor storage inside an object file, read without unpickling."""
    import torch

    return torch.load(io.BytesIO(data), weights_only=True)


def _numpy_names() -> dict[tuple[str, str], Any]:
    from numpy._core import multiarray

    names: dict[tuple[str, str], Any] = {("_codecs", "encode"): _latin1}
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
        ("torch.storage", "_load_from_bytes"): _tensor_bytes,
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
                f"{self._path.name} asks for {module}.{name}, which is not a plain array or graph: refused",
                hint="Convert the file to arrays in an environment you trust.",
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        raise DatasetError(f"{self._path.name} refers to an outside object: refused")


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
    """Decode a pickled list of PyG graphs."""
    path = Path(path)
    with path.open("rb") as stream:
        return read_stream(stream, path)


def read_stream(stream: BinaryIO, path: Path, encoding: str = "ASCII") -> Any:
    """Decode an open pickle of arrays, matrices, tensors, graphs and containers of them.

    Args:
        stream: the file.
        path: its name, for messages.
        encoding: of the texts in files of Python 2.
    """
    tables = (_numpy_names, _scipy_names, _torch_names, _container_names)
    return _decode(stream, path, *tables, encoding=encoding)


def object_arrays(path: str | Path) -> dict[str, Any]:
    """All arrays of an ``.npz``; object arrays hold numpy arrays and scipy matrices only."""
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
        raise DatasetError(f"{path.name}: array format {version} is not known")
    shape, fortran, dtype = reader(stream)
    if dtype.hasobject:
        value = _decode(io.BytesIO(stream.read()), path, _numpy_names, _scipy_names)
        return value.reshape(shape)
    flat = np.frombuffer(stream.read(), dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")
