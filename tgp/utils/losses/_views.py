"""Views for the public loss functions, which are called with any container and unchecked ids."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.utils.checks import check_ids, check_length
from tgp.utils.layout import SegmentView
from tgp.utils.ops.adjacency import rank3_trace
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.precision import widen

__all__ = ["segment_view", "trace_of"]

_EMPTY_GRAPHS = 2**20
"""Graph ids above the number of nodes by more than this are taken for a mistake: they would allocate memory."""


def segment_view(
    s: Tensor,
    edge_index: Any = None,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> SegmentView:
    """Return a checked :class:`SegmentView` of any sparse connectivity.

    Raises:
        InputError: A node id or graph id is out of range, or a length does not fit.
    """
    if edge_index is not None:
        edge_index, edge_weight = connectivity_to_edge_index(edge_index, edge_weight)
        check_ids(edge_index, s.size(0), "edge_index")
        check_length(edge_weight, edge_index.size(1), "edge_weight")
    if batch is not None:
        check_ids(batch, s.size(0) + _EMPTY_GRAPHS if batch_size is None else batch_size, "batch")
    return SegmentView(s, edge_index, edge_weight, batch, batch_size, checked=True)


def trace_of(pooled: Tensor) -> Tensor:
    """Return ``[B]`` traces of ``[B, K, K]`` (or one of ``[K, K]``), in float32 or wider."""
    return rank3_trace(widen(pooled.unsqueeze(0) if pooled.dim() == 2 else pooled))
