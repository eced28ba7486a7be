"""Readout: aggregate the nodes of each graph to one row."""

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

_INDEPENDENT = (
    aggr.SumAggregation,
    aggr.MeanAggregation,
    aggr.MaxAggregation,
    aggr.MinAggregation,
    aggr.VarAggregation,
    aggr.StdAggregation,
)
"""Aggregations whose result for a group does not depend on the other groups."""


class GlobalReduce(AggrReduce):
    r"""Readout that aggregates all nodes of each graph. The graphs may be flat with a batch vector, or padded.

    Args:
        reduce_op: alias for :func:`~tgp.reduce.get_aggr`, or a PyG ``Aggregation``.
        **aggr_kwargs: arguments of the aggregation, for an alias.

    Examples:
        >>> readout = GlobalReduce("max")
        >>> readout(torch.tensor([[1.0], [5.0], [3.0]]), batch=torch.tensor([0, 0, 1])).tolist()
        [[5.0], [3.0]]
    """

    def __init__(self, reduce_op: str | Aggregation = "sum", **aggr_kwargs: Any) -> None:
        super().__init__(resolve_reduce_op(reduce_op, **aggr_kwargs))

    def forward(  # type: ignore[override]
        self, x: Tensor, batch: Tensor | None = None, size: int | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Return one row per graph. The row of a graph without nodes is the aggregation of no rows.

        Args:
            x: ``[N, F]``, or padded ``[B, N, F]``.
            batch: ``[N]`` graph ids of flat input; by default there is one graph.
            size: number of graphs of flat input; by default the largest id + 1.
            mask: ``[B, N]`` mask of the real nodes of padded input; by default all nodes are real.

        Returns:
            ``[B, F']``.

        Raises:
            InputError: if the shapes do not fit, or an argument does not apply to this input.
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
            raise InputError(
                f"size is only supported for sparse readout when batch is provided: expected None, got {size}",
                field="size",
            )
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
        if on_host(valid) or type(self.aggr) not in _INDEPENDENT:
            return self._aggregate(x[valid], graph[valid], x.size(0))[0]
        # Boolean indexing would synchronize. Instead, padding goes into an additional group, which is removed.
        groups = x.size(0)
        index, order = torch.sort(torch.where(valid, graph, groups).flatten(), stable=True)
        return self._aggregate(x.flatten(0, 1)[order], index, groups + 1)[0][:groups]
