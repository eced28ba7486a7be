"""Files written by torch: read without running any code in them, or refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data, InMemoryDataset

from tgp.errors import DatasetError

__all__ = ["load_processed"]


class _Loaded(InMemoryDataset):
    """The ragged tensors of a processed file as a dataset."""

    def __init__(self, data: Data, slices: Any) -> None:
        super().__init__(None)
        self.data, self.slices = data, slices


def load_processed(path: Path) -> Any:
    """The graphs of a ``processed/data.pt``, of a saved list of ``Data``, or of one ``Data``.

    Raises:
        DatasetError: the file cannot be read as plain tensors, or holds something else.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).splitlines()[0]
        raise DatasetError(
            f"{path} holds Python objects that could run code when they are loaded: {reason}",
            hint="open it in a function of yours and pass --dataset module:function",
        ) from error
    except (OSError, RuntimeError, EOFError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    if (
        isinstance(content, tuple)
        and len(content) >= 2
        and (content[1] is None or isinstance(content[1], dict))
    ):
        data = content[0]
        data = Data.from_dict(data) if isinstance(data, dict) else data
        if isinstance(data, Data):
            return [data] if content[1] is None else _Loaded(data, content[1])
    if isinstance(content, Data):
        return [content]
    if isinstance(content, list | tuple) and content and all(isinstance(item, Data) for item in content):
        return list(content)
    raise DatasetError(f"{path} must hold graphs (torch_geometric.data.Data), got {type(content).__name__}")
