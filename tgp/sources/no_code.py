"""Let dataset classes of other packages read their files without running code from them."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from tgp.datasets._safe_objects import read_stream
from tgp.errors import DatasetError

__all__ = ["no_code"]


@contextlib.contextmanager
def no_code(label: str) -> Iterator[None]:
    """Inside, in this thread, pickles are decoded by the inert reader and torch files as plain tensors.

    Dataset classes of PyG and ogb call ``pickle.load`` and ``torch.load`` on what they find below their root.
    Both run whatever a file says unless told otherwise, and the classes cannot be told. Questions on the terminal,
    which nobody would see, become errors.

    Args:
        label: name of the dataset, for messages.
    """
    import torch

    mine = threading.get_ident()
    plain_load, torch_load = pickle.load, torch.load

    def load(file: Any, **options: Any) -> Any:
        if threading.get_ident() != mine:
            return plain_load(file, **options)
        return read_stream(file, Path(str(getattr(file, "name", label))), options.get("encoding", "ASCII"))

    def load_tensors(*args: Any, **options: Any) -> Any:
        if threading.get_ident() == mine:
            options["weights_only"] = True
        return torch_load(*args, **options)

    def ask(prompt: object = "") -> str:
        raise DatasetError(
            f"{label} asks before it downloads: {str(prompt).strip()}",
            hint="open the dataset once in Python, where you can answer",
        )

    with (
        mock.patch.object(pickle, "load", load),
        mock.patch.object(torch, "load", load_tensors),
        mock.patch("builtins.input", ask),
    ):
        yield
