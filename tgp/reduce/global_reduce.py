"""Readout: one row per graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import aggr
from torch_geometric.nn.aggr import Aggregation

from tgp.errors import InputError
from tgp.reduce.aggr_reduce import AggrReduce
from tgp.reduce.get_aggr import resolve_reduce_op
from tgp.utils.tracing import on_host

__all__ = ["GlobalReduce"]

_SCATTERED = (
    aggr.SumAggregation,
    aggr.MeanAggregation,
    aggr.MaxAggregation,
    aggr.MinAggregation,
    aggr.VarAggregation,
    aggr.StdAggregation,
)
"""Aggregations whose result for a group does not depend on the sizes of the other groups."""


class GlobalReduce(AggrReduce):
    r"""Aggregate all nodes of each graph, whether they come flat with a batch vector or padded.

    Args:
        reduce_op: an alias of :func:`~tgp.reduce.get_aggr` or a PyG ``Aggregation`` instance.
        **aggr_kwargs: arguments of the aggregation, for an alias.
    """

    def __init__(self, reduce_op: str | Aggregation = "sum", **aggr_kwargs: Any) -> None:
        super().__init__(resolve_reduce_op(reduce_op, **aggr_kwargs))

    def forward(  # type: ignore[override]
        self, x: Tensor, batch: Tensor | None = None, size: int | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Return ``[B, F']`` for ``x`` of shape ``[N, F]`` (with ``batch``) or ``[B, N, F]`` (with ``mask``).

        A graph without (valid) nodes gets the aggregation's empty value and keeps its row.
        """
        if x.dim() not in (2, 3):
            raise InputError(
                f"readout expects x to be 2D [N, F] or 3D [B, N, F], got ndim={x.dim()}", field="x"
            )
        if x.dim() == 3:
            return self._padded(x, mask)
        if mask is not None:
            raise InputError(
                "mask is only supported for dense x with shape [B, N, F], got 2D x", field="mask"
            )
        if size is not None and batch is None:
            raise InputError("size is only supported for sparse readout when batch is provided", field="size")
        return self._readout(x, batch, size)[0]

    def _padded(self, x: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return self._readout(x, None, None)[0]
        if mask.shape != x.shape[:2]:
            raise InputError(
                f"mask must have shape [B, N] matching x.shape[:2]: expected {list(x.shape[:2])}, got {list(mask.shape)}",
                field="mask",
            )
        valid = mask.bool()
        graph = torch.arange(x.size(0), device=x.device).unsqueeze(1).expand(valid.shape)
        if on_host(valid) or type(self.aggr) not in _SCATTERED:
            return self._aggregate(x[valid], graph[valid], x.size(0))[0]
        # Boolean indexing synchronizes: padding goes into one more group, which is dropped.
        groups = x.size(0)
        index, order = torch.sort(torch.where(valid, graph, groups).flatten(), stable=True)
        return self._aggregate(x.flatten(0, 1)[order], index, groups + 1)[0][:groups]
