"""Read published object files without running code from them.

Some benchmark files are pickles. They are decoded by an unpickler with a fixed list of constructors (arrays, sparse
matrices, tensors, PyG containers). It refuses every other name, so a file cannot call any other function. The
constructors check sizes and indices. See ``docs/decisions/0701-read-object-files-without-running-code.md``.
"""

from __future__ import annotations

import functools
import io
import math
import pickle
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tgp.datasets._safe_names import container_names, numpy_names, scipy_names, torch_names
from tgp.errors import DatasetError
from tgp.input_limits import READ_ERRORS, InputBudget, describe, input_budget

__all__ = ["find_end", "object_arrays", "read_objects", "read_stream"]

_STOP, _LONG_BINPUT, _PUT = ord("."), ord("r"), ord("p")
_TEXT_NUMBERS = (ord("I"), ord("L"), _PUT, ord("g"))
_LONGS = (0x8A, 0x8B)
_TWO_LINES = (ord("c"), ord("i"))
_MAX_NUMBER = 24
"""Largest number of characters of an integer."""


@functools.lru_cache(maxsize=1)
def _sizes() -> list[int | None]:
    """Return the size of the argument of each opcode, in the code of ``pickletools``; ``None`` for no opcode."""
    import pickletools

    table: list[int | None] = [None] * 256
    for opcode in pickletools.opcodes:
        table[ord(opcode.code)] = 0 if opcode.arg is None else opcode.arg.n
    return table


_PREFIX = {-2: 1, -3: 4, -4: 4, -5: 8}
"""Number of bytes of the length of an argument, by the code of ``pickletools``."""


def find_end(data: bytes, name: str) -> int:
    """Check the opcodes of a pickle and return the position after its end.

    The unpickler allocates what an opcode declares: a string of any length, a table with room for any index. Here a
    length must be inside the file, an index must be below the number of opcodes, and an integer must have 64 bits.

    Args:
        data: Pickle, followed by anything.
        name: Name of the file for error messages.

    Raises:
        DatasetError: If the pickle is truncated or declares more than it holds.
    """
    sizes, position, end, count = _sizes(), 0, len(data), 0
    while position < end:
        opcode = data[position]
        position += 1
        count += 1
        size = sizes[opcode]
        if size is None:
            break
        if size > 0:
            if opcode == _LONG_BINPUT and int.from_bytes(data[position : position + 4], "little") > count:
                raise DatasetError(f"{name} is not a readable object file: an index is larger than the file")
            position += size
        elif size == -1:
            position = _skip_lines(data, position, opcode, count, name)
        elif size < -1:
            width = _PREFIX[size]
            length = int.from_bytes(data[position : position + width], "little")
            if length > end - position or (opcode in _LONGS and length > 8):
                break
            position += width + length
        if opcode == _STOP:
            return position
    raise DatasetError(f"{name} is not a readable object file: it is truncated or damaged")


def _skip_lines(data: bytes, position: int, opcode: int, count: int, name: str) -> int:
    """Return the position after the argument of an opcode that ends with a newline."""
    for _ in range(2 if opcode in _TWO_LINES else 1):
        stop = data.find(b"\n", position)
        line = data[position:stop]
        if stop < 0 or (opcode in _TEXT_NUMBERS and len(line) > _MAX_NUMBER):
            raise DatasetError(f"{name} is not a readable object file: it is truncated or damaged")
        if opcode == _PUT and not (line.isdigit() and int(line) <= count):
            raise DatasetError(f"{name} is not a readable object file: an index is larger than the file")
        position = stop + 1
    return position


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
