"""Check files of torch and their content: stored sizes before loading, sizes of tensors after it."""

from __future__ import annotations

import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, GlobalStorage

from tgp.errors import DatasetError
from tgp.input_limits import InputBudget

__all__ = ["charge_content", "check_archive", "load_tensors"]

_ITEM_BYTES = 64
"""Bytes that are charged for each Python object."""

_MAX_DEPTH = 12

# Classes inside a saved `Data`. PyG registers `Data` itself. The context manager of torch would remove them again, also
# while another thread needs them.
torch.serialization.add_safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage])


def check_archive(file: Any, path: Any) -> None:
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


def charge_content(content: Any, path: Any, budget: InputBudget) -> None:
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
        check_archive(file, path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about other versions of pickle
            content = torch.load(file, map_location="cpu", weights_only=True)
    charge_content(content, path, budget)
    return content
