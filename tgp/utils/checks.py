"""Checks of arguments: ids and lengths that reach compiled code, which would read outside of its arrays, and numbers of levels."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from torch import Tensor

from tgp.errors import InputError
from tgp.utils.tracing import on_host

__all__ = ["MAX_EMPTY_GRAPHS", "check_array_ids", "check_ids", "check_length", "check_levels"]

MAX_EMPTY_GRAPHS = 2**20
"""Number of empty graphs that a batch vector may contain if ``batch_size`` is not given. A larger graph id is a
mistake: it would allocate memory for all graphs below it."""

_HINT = "Check the number of nodes and the ids of the edges."


def check_ids(ids: Tensor, size: int, field: str) -> None:
    """Check that all ids lie in ``[0, size)``.

    The values are read only if that is free, see :func:`~tgp.utils.tracing.on_host`.

    Args:
        ids: Integer tensor of any shape.
        size: Number of valid ids.
        field: Name of the argument in the message.

    Raises:
        InputError: If an id is negative or not below ``size``.

    Examples:
        >>> import torch
        >>> check_ids(torch.tensor([0, 3]), 3, "batch")
        Traceback (most recent call last):
        tgp.errors.InputError: batch has an id out of range: expected ids in [0, 3), got 3. Check the number of nodes and the ids of the edges.
    """
    if ids.numel() > 0 and on_host(ids):
        check_array_ids(ids.numpy(), size, field)


def check_array_ids(ids: npt.NDArray[Any], size: int, field: str, hint: str = _HINT) -> None:
    """Check that all ids of an array lie in ``[0, size)``; see :func:`check_ids`."""
    if not ids.size:
        return
    low, high = int(ids.min()), int(ids.max())  # numpy needs half the time of torch
    if low >= 0 and high < size:
        return
    raise InputError(
        f"{field} has an id out of range: expected ids in [0, {size}), got {low if low < 0 else high}. {hint}",
        field=field,
    )


def check_length(values: Tensor | None, size: int, field: str) -> None:
    """Check that a tensor has one entry for each of ``size`` items; ``None`` passes.

    Raises:
        InputError: If the first dimension has another size.
    """
    if values is not None and values.size(0) != size:
        raise InputError(f"{field} has the wrong length: expected {size}, got {values.size(0)}.", field=field)


def check_levels(levels: int) -> None:
    """Check that the number of levels is at least one.

    Raises:
        InputError: If it is smaller.
    """
    if levels < 1:
        raise InputError(f"'levels' must be >= 1, got {levels}.", field="levels")
