"""Build a flat view from any sparse container."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.utils.layout import SegmentView
from tgp.utils.ops.adjacency import rank3_trace
from tgp.utils.ops.connectivity import connectivity_to_edge_index

__all__ = ["segment_view", "trace_of"]


def segment_view(
    s: Tensor,
    edge_index: Any = None,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> SegmentView:
    """A :class:`SegmentView`, with the connectivity brought to an edge list first."""
    if edge_index is not None:
        edge_index, edge_weight = connectivity_to_edge_index(edge_index, edge_weight)
    return SegmentView(s, edge_index, edge_weight, batch, batch_size)


def trace_of(pooled: Tensor) -> Tensor:
    """``[B]`` traces of ``[B, K, K]`` (or one of ``[K, K]``)."""
    return rank3_trace(pooled.unsqueeze(0) if pooled.dim() == 2 else pooled)
