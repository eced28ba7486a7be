"""Read published object files without running code from them.

Some benchmark files are pickles. They are decoded by an unpickler with a fixed list of constructors (arrays, sparse
matrices, tensors, PyG containers). It refuses every other name, so a file cannot call any other function. The
constructors check sizes and indices. See ``docs/decisions/0701-read-object-files-without-running-code.md``.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tgp.datasets._pickle_scan import find_end
from tgp.datasets._safe_names import container_names, numpy_names, scipy_names, torch_names
from tgp.errors import DatasetError
from tgp.input_limits import READ_ERRORS, InputBudget, describe, input_budget

__all__ = ["object_arrays", "read_objects", "read_stream"]

Names = dict[tuple[str, str], Any]


class _InertUnpickler(pickle.Unpickler):
    """Unpickler that resolves only the given names."""

    def __init__(self, stream: BinaryIO, names: Names, path: Path, encoding: str = "ASCII") -> None:
        super().__init__(stream, encoding=encoding)
        self._names, self._path = names, path

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._names[module, name]
        except KeyError:
            raise DatasetError(
                f"{self._path} contains {module}.{name}: expected plain arrays and graphs. The file is not read",
                hint="convert the file to arrays in an environment that you trust",
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        raise DatasetError(f"{self._path} refers to an object outside of the file, which is not read")


def _decode(data: bytes, path: Path, names: Names, encoding: str = "ASCII") -> Any:
    try:
        return _InertUnpickler(io.BytesIO(data), names, path, encoding).load()
    except (pickle.UnpicklingError, *READ_ERRORS) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{path} is not a readable object file: {describe(error)}") from error


def read_objects(path: str | Path) -> Any:
    """Decode a pickle file of arrays, matrices, tensors, graphs, and containers of them.

    Args:
        path: The file.

    Raises:
        DatasetError: If the file contains other objects, or is damaged.
    """
    path = Path(path)
    with input_budget() as budget, budget.open(path) as stream:
        return read_stream(stream, path)


def read_stream(stream: BinaryIO, path: Path, encoding: str = "ASCII") -> Any:
    """Decode an open pickle of arrays, matrices, tensors, graphs, and containers of them.

    Args:
        stream: The open file. Afterwards it is positioned after the pickle, if it can be positioned.
        path: Name of the file for error messages.
        encoding: Encoding of text in files of Python 2.

    Raises:
        DatasetError: If the file contains other objects, is damaged, or needs too much memory.
    """
    seekable = stream.seekable()
    start = stream.tell() if seekable else 0
    data = stream.read()
    end = find_end(data, str(path))
    if seekable:
        stream.seek(start + end)
    with input_budget() as budget:
        names = {
            **numpy_names(str(path), budget),
            **scipy_names(str(path)),
            **torch_names(str(path), budget),
            **container_names(str(path), budget),
        }
        return _decode(data[:end], path, names, encoding)


def object_arrays(path: str | Path) -> dict[str, Any]:
    """Read all arrays of an ``.npz`` file. Object arrays may contain numpy arrays and scipy matrices.

    Args:
        path: The file.

    Raises:
        DatasetError: If an array contains other objects, has an unknown format, or needs too much memory.
    """
    path = Path(path)
    arrays: dict[str, Any] = {}
    with input_budget() as budget, budget.open(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                for member in archive.infolist():
                    budget.charge(member.file_size, path, repr(member.filename))
                    with archive.open(member) as stream:
                        arrays[member.filename.removesuffix(".npy")] = _read_npy(stream, path, budget)
        except READ_ERRORS as error:
            if isinstance(error, DatasetError):
                raise
            raise DatasetError(f"{path} cannot be read: {describe(error)}") from error
    return arrays


def _read_npy(stream: Any, path: Path, budget: InputBudget) -> Any:
    version = np.lib.format.read_magic(stream)
    reader = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if reader is None:
        raise DatasetError(f"{path} has an unknown array format: expected 1.0 or 2.0, got {version}")
    shape, fortran, dtype = reader(stream)
    data = stream.read()
    if dtype.hasobject:
        names = {**numpy_names(str(path), budget), **scipy_names(str(path))}
        value = _decode(data[: find_end(data, str(path))], path, names)
        if not isinstance(value, np.ndarray):
            raise DatasetError(f"{path} must hold arrays of objects, got {type(value).__name__}")
        return value.reshape(shape)
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(data):
        raise DatasetError(f"{path} declares an array of shape {shape} but stores {len(data)} bytes")
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
