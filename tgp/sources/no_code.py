"""Let dataset classes of other packages read their files without running code from them.

The classes of PyG and ogb call ``pickle.load`` and ``torch.load`` on the files below their root. Both run code that a
file contains, and the classes have no option to prevent it. See ``docs/decisions/0706-readers-of-one-thread.md``.
"""

from __future__ import annotations

import builtins
import contextlib
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tgp.datasets._safe_objects import read_stream
from tgp.errors import DatasetError

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

    Inside the block, ``pickle.load`` decodes plain arrays, tensors and graphs only, and ``torch.load`` reads with
    ``weights_only=True``. ``input`` raises an error, because the output of dataset classes is hidden and a user would
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


def _read_tensors(label: str, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    # `read_stream` itself calls `torch.load` for the tensors inside a pickle.
    return original(*args, **{**options, "weights_only": True})


def _refuse_question(label: str, original: Callable[..., Any], prompt: object = "") -> str:
    raise DatasetError(
        f"{label} asks before it downloads: {str(prompt).strip()}",
        hint="open the dataset once in Python, where you can answer",
    )
