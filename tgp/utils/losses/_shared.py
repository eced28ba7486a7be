"""Functions that all losses share: checked views, safe arithmetic, and the reduction over graphs."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.utils.checks import MAX_EMPTY_GRAPHS, check_ids, check_length
from tgp.utils.layout import SegmentView
from tgp.utils.ops.adjacency import rank3_trace
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.precision import widen

__all__ = ["BatchReductionType", "reduce_graphs", "safe_divide", "safe_sqrt", "segment_view", "trace_of"]

BatchReductionType = Literal["mean", "sum"]
"""Reduction of the losses of several graphs to one number."""


def segment_view(
    s: Tensor,
    edge_index: Any = None,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
) -> SegmentView:
    """Return a :class:`SegmentView` of any sparse connectivity, after a check of its ids and lengths.

    Raises:
        InputError: If a node id or graph id is out of range, or a length does not fit.
    """
    if edge_index is not None:
        edge_index, edge_weight = connectivity_to_edge_index(edge_index, edge_weight)
        check_ids(edge_index, s.size(0), "edge_index")
        check_length(edge_weight, edge_index.size(1), "edge_weight")
    if batch is not None:
        check_ids(batch, s.size(0) + MAX_EMPTY_GRAPHS, "batch")
    return SegmentView(s, edge_index, edge_weight, batch, None, checked=True)


def trace_of(pooled: Tensor) -> Tensor:
    """Return ``[B]`` traces of ``[B, K, K]`` (or one of ``[K, K]``), in float32 or wider."""
    return rank3_trace(widen(pooled.unsqueeze(0) if pooled.dim() == 2 else pooled))


def reduce_graphs(values: Tensor, batch_reduction: BatchReductionType = "mean") -> Tensor:
    """Return the mean or sum over graphs; the result for no graphs is 0."""
    if batch_reduction == "sum":
        return values.sum()
    if batch_reduction == "mean":
        return values.mean() if values.numel() > 0 else values.sum()
    raise InputError(
        f"Batch reduction {batch_reduction!r} not allowed: expected 'mean' or 'sum'.",
        field="batch_reduction",
    )


def safe_divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Return ``numerator / denominator``, and 0 for a denominator that is not positive; gradients are finite."""
    positive = denominator > 0
    divisor = torch.where(positive, denominator, torch.ones_like(denominator))
    return torch.where(positive, numerator / divisor, torch.zeros_like(numerator))


def safe_sqrt(values: Tensor) -> Tensor:
    """Return the square root, with a gradient of 0 at 0 instead of an infinite one."""
    positive = values > 0
    root = torch.where(positive, values, torch.ones_like(values)).sqrt()
    return torch.where(positive, root, torch.zeros_like(values))
