"""Read files of torch, and let dataset classes of other packages read their files, without running code from them.

The sizes that a file declares are checked before it is loaded, and those of its tensors after that.

The classes of PyG and ogb call ``pickle.load`` and ``torch.load`` on the files below their root. Both run code that a
file contains, and the classes have no option to prevent it. See ``docs/decisions/0706-readers-of-one-thread.md``.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import pickle
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, GlobalStorage

from tgp.datasets._safe_objects import read_stream
from tgp.errors import DatasetError
from tgp.input_limits import InputBudget, input_budget

__all__ = ["load_tensors", "no_code"]

_ITEM_BYTES = 64
"""Bytes that are charged for each Python object."""

_MAX_DEPTH = 12

# Classes inside a saved `Data`. PyG registers `Data` itself. The context manager of torch would remove them again, also
# while another thread needs them.
torch.serialization.add_safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage])

_thread = threading.local()
"""``_thread.label`` is the name of the dataset that this thread opens; unset in all other threads."""

_lock = threading.Lock()
_replaced: list[_Replacement] = []
"""Functions that are replaced while at least one thread is inside :func:`no_code`."""

_num_users = 0
"""Number of active :func:`no_code` blocks in all threads."""


class _Replacement:
    """A function of a module that calls ``inert`` in threads inside :func:`no_code`, and the original elsewhere."""

    def __init__(self, module: ModuleType, name: str, inert: Callable[..., Any]) -> None:
        self._module, self._name = module, name
        self._original = original = getattr(module, name)

        def dispatch(*args: Any, **kwargs: Any) -> Any:
            label = getattr(_thread, "label", None)
            if label is None:
                return original(*args, **kwargs)
            return inert(label, original, *args, **kwargs)

        setattr(module, name, dispatch)

    def restore(self) -> None:
        setattr(self._module, self._name, self._original)


@contextlib.contextmanager
def no_code(label: str) -> Iterator[None]:
    """Replace the readers of pickles and torch files in this thread by readers that run no code.

    Inside the block, ``pickle.load`` decodes plain arrays, tensors and graphs only, ``torch.load`` reads with
    ``weights_only=True``, and ``numpy.load`` checks sizes and sparse matrices. ``input`` raises an error, because the output of dataset classes is hidden and a user would
    not see the question. Other threads keep the original functions.

    Args:
        label: Name of the dataset for error messages.
    """
    global _num_users
    with _lock:
        _num_users += 1
        if _num_users == 1:
            _replaced[:] = [
                _Replacement(pickle, "load", _read_pickle),
                _Replacement(torch, "load", _read_tensors),
                _Replacement(np, "load", _read_arrays),
                _Replacement(builtins, "input", _refuse_question),
            ]
    outer = getattr(_thread, "label", None)
    _thread.label = label
    try:
        yield
    finally:
        _thread.label = outer
        with _lock:
            _num_users -= 1
            if _num_users == 0:
                for replacement in _replaced:
                    replacement.restore()
                _replaced.clear()


def _read_pickle(label: str, original: Callable[..., Any], file: Any, **options: Any) -> Any:
    return read_stream(file, Path(str(getattr(file, "name", label))), options.get("encoding", "ASCII"))


def _read_tensors(label: str, original: Callable[..., Any], f: Any, *args: Any, **options: Any) -> Any:
    # `read_stream` itself calls `torch.load` for the tensors inside a pickle.
    with input_budget() as budget:
        if isinstance(f, str | os.PathLike):
            with budget.open(os.fspath(f)) as file:
                return _read_tensors(label, original, file, *args, **options)
        where = getattr(f, "name", label)
        _check_archive(f, where)
        content = original(f, *args, **{**options, "weights_only": True})
        _charge_content(content, where, budget)
        return content


class _Arrays(dict[str, Any]):
    """Arrays of a file, with the interface of ``numpy.lib.npyio.NpzFile``."""

    @property
    def files(self) -> list[str]:
        return list(self)

    def __enter__(self) -> _Arrays:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _read_arrays(label: str, original: Callable[..., Any], file: Any, *args: Any, **options: Any) -> Any:
    from tgp.sources.arrays import check_sparse, read_npz

    if not isinstance(file, str | os.PathLike) or not os.fspath(file).endswith(".npz"):
        return original(file, *args, **{**options, "allow_pickle": False})
    with input_budget() as budget:
        arrays = read_npz(file, budget)
        for name in arrays:
            prefix = name.removesuffix("indptr")
            if name.endswith("indptr") and {f"{prefix}indices", f"{prefix}data"} <= arrays.keys():
                rows, columns = check_sparse(arrays, prefix, file)
                if prefix == "attr_":  # PyG makes a dense matrix of the features
                    size = rows * columns * arrays["attr_data"].dtype.itemsize
                    budget.charge(size, file, "the matrix of features")
    return _Arrays(arrays)


def _refuse_question(label: str, original: Callable[..., Any], prompt: object = "") -> str:
    raise DatasetError(
        f"{label} asks before it downloads: {str(prompt).strip()}",
        hint="open the dataset once in Python, where you can answer",
    )


def _check_archive(file: Any, path: Any) -> None:
    """Check that a file of torch stores all the bytes that it declares. ``torch.save`` does not compress.

    Args:
        file: Open file. Its position is restored.
        path: Its name, for the error message.

    Raises:
        DatasetError: If a member is compressed or encrypted, or the members are larger than the file.
    """
    if not hasattr(file, "seek"):
        return
    start = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(start)
    if file.read(4) != b"PK\x03\x04":
        file.seek(start)
        return  # the format of torch before version 1.6
    try:
        members = zipfile.ZipFile(file).infolist()
    except zipfile.BadZipFile as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    finally:
        file.seek(start)
    declared = sum(member.file_size for member in members)
    packed = any(member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1 for member in members)
    if packed or declared > size:
        raise DatasetError(
            f"{path} cannot be read: expected an archive of torch, without compression and encryption, "
            f"got {declared} declared bytes in a file of {size}"
        )


def _charge_content(content: Any, path: Any, budget: InputBudget) -> None:
    """Charge the memory that tensors need after a copy. A stored tensor may repeat one number any number of times.

    An object that occurs several times is charged each time, because the arrays of all graphs are concatenated.

    Args:
        content: Loaded object.
        path: Name of the file, for the error message.
        budget: Budget of the dataset.

    Raises:
        DatasetError: If the content is larger than the limit, or nests too deep.
    """
    pending = [(content, 0)]
    while pending:
        value, depth = pending.pop()
        if depth > _MAX_DEPTH:
            raise DatasetError(f"{path} nests its objects too deep: expected at most {_MAX_DEPTH} levels")
        if isinstance(value, Tensor):
            budget.charge(_tensor_bytes(value), path, "a tensor")
            continue
        inner = _inner_values(value)
        budget.charge(_ITEM_BYTES * (1 + len(inner)) + _text_bytes(value), path, "the content")
        pending.extend((item, depth + 1) for item in inner if not isinstance(item, int | float))


def _tensor_bytes(value: Tensor) -> int:
    if value.layout != torch.strided:
        return _ITEM_BYTES  # not accepted as an attribute
    return _ITEM_BYTES + value.numel() * value.element_size()


def _text_bytes(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | bytearray) else 0


def _inner_values(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set):
        return list(value)
    if isinstance(value, Data | BaseStorage):
        own = vars(value)
        return [own[key] for key in ("_store", "_mapping") if key in own]
    return []


def load_tensors(path: Path, budget: InputBudget) -> Any:
    """Load a file of torch without running code from it.

    Args:
        path: The file.
        budget: Budget of the dataset.

    Raises:
        DatasetError: If the file is not a regular file, or is larger than the limit.
        Exception: Any error of ``torch.load``.
    """
    with budget.open(path) as file:
        _check_archive(file, path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about other versions of pickle
            content = torch.load(file, map_location="cpu", weights_only=True)
    _charge_content(content, path, budget)
    return content
