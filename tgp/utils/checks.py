"""Checks of arguments that reach compiled code."""

from __future__ import annotations

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.utils.host import on_host

__all__ = ["check_ids", "check_length"]


def check_ids(ids: Tensor, size: int, field: str) -> None:
    """Check that all ids lie in ``[0, size)``.

    Reads the values once, and only where that is free (see :func:`~tgp.utils.host.on_host`).

    Args:
        ids: Integer tensor of any shape.
        size: Number of valid ids.
        field: Name of the argument in the message.

    Raises:
        InputError: An id is negative or not below ``size``.
    """
    if not ids.numel() or not on_host(ids):
        return
    low, high = (int(bound) for bound in torch.aminmax(ids))
    if low >= 0 and high < size:
        return
    raise InputError(
        f"{field} has an id out of range: expected ids from 0 to {size - 1}, got {low if low < 0 else high}. "
        "Check the number of nodes and the ids of the edges.",
        field=field,
    )


def check_length(values: Tensor | None, size: int, field: str) -> None:
    """Check that a tensor has one entry for each of ``size`` items; ``None`` passes.

    Raises:
        InputError: The first dimension has another size.
    """
    if values is not None and values.size(0) != size:
        raise InputError(f"{field} has the wrong length: expected {size}, got {values.size(0)}.", field=field)
