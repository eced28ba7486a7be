"""Reduction of one value per graph to one number."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tgp.errors import InputError

__all__ = ["BatchReductionType", "reduce_graphs", "safe_divide", "safe_sqrt"]

BatchReductionType = Literal["mean", "sum"]


def reduce_graphs(values: Tensor, batch_reduction: BatchReductionType = "mean") -> Tensor:
    """Return the mean or sum over graphs; no graphs give 0."""
    if batch_reduction == "sum":
        return values.sum()
    if batch_reduction == "mean":
        return values.mean() if values.numel() else values.sum()
    raise InputError(
        f"Batch reduction {batch_reduction!r} not allowed: choose 'mean' or 'sum'", field="batch_reduction"
    )


def safe_divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Return ``numerator / denominator``, 0 where the denominator is not positive, with finite gradients."""
    positive = denominator > 0
    divisor = torch.where(positive, denominator, torch.ones_like(denominator))
    return torch.where(positive, numerator / divisor, torch.zeros_like(numerator))


def safe_sqrt(values: Tensor) -> Tensor:
    """Return the square root whose gradient at 0 is 0 instead of infinite."""
    positive = values > 0
    root = torch.where(positive, values, torch.ones_like(values)).sqrt()
    return torch.where(positive, root, torch.zeros_like(values))
