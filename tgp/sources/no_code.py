"""Let dataset classes of other packages read their files without running code from them.

The classes of PyG and ogb call ``pickle.load`` and ``torch.load`` on the files below their root. Both run code that a
file contains, and the classes have no option to prevent it. See ``docs/decisions/0706-readers-of-one-thread.md``.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tgp.datasets._safe_objects import read_stream
from tgp.errors import DatasetError
from tgp.input_limits import input_budget

__all__ = ["no_code"]

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
    import torch

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
    from tgp.sources.tensors import charge_content, check_archive

    # `read_stream` itself calls `torch.load` for the tensors inside a pickle.
    with input_budget() as budget:
        if isinstance(f, str | os.PathLike):
            with budget.open(os.fspath(f)) as file:
                return _read_tensors(label, original, file, *args, **options)
        where = getattr(f, "name", label)
        check_archive(f, where)
        content = original(f, *args, **{**options, "weights_only": True})
        charge_content(content, where, budget)
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
