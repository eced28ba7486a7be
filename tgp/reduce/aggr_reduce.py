"""Reducer with any PyG aggregation, over supernodes or over graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from tgp.errors import InputError
from tgp.reduce.base_reduce import Reduce, check_rows
from tgp.reduce.get_aggr import is_pyg_aggregation
from tgp.select.base_select import SelectOutput
from tgp.utils.precision import is_half, widen

__all__ = ["AggrReduce"]


class AggrReduce(Reduce):
    r"""Reducer that aggregates the features of each supernode with a PyG aggregation instead of the sum.

    The rows are multiplied by the weights of the assignment, sorted by supernode and passed to ``aggr``. The sort is
    stable, so sequence models such as LSTM get the nodes in ascending order. Without an assignment the rows of each
    graph are aggregated. Half-precision rows are aggregated in float32.

    Args:
        aggr: aggregation, for example ``get_aggr("lstm", in_channels=64)``.

    Raises:
        TypeError: if ``aggr`` is not an instance of ``torch_geometric.nn.aggr.Aggregation``.
    """

    def __init__(self, aggr: Aggregation) -> None:
        super().__init__()
        if not is_pyg_aggregation(aggr):
            hint = f". Use get_aggr({aggr!r})" if isinstance(aggr, str) else ""
            raise TypeError(f"aggr must be a PyG Aggregation, got {type(aggr).__name__}{hint}")
        self.aggr = aggr

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the aggregation."""
        self.aggr.reset_parameters()

    def forward(
        self,
        x: Tensor,
        so: SelectOutput | None = None,
        *,
        batch: Tensor | None = None,
        size: int | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Aggregate the features of each supernode, or of each graph if there is no assignment.

        Args:
            x: ``[N, F]``, or ``[B, N, F]`` for a readout of padded graphs.
            so: sparse assignment, or ``None`` for a readout.
            batch: ``[N]`` graph ids; by default ``so.batch``.
            size: number of graphs of a readout.
            **kwargs: ignored.

        Returns:
            The aggregated rows, and their graph ids or ``None``.

        Raises:
            InputError: if the assignment is dense or ``x`` has the wrong shape.
        """
        if so is None:
            return self._readout(x, batch, size)
        if not so.is_sparse:
            raise InputError(
                "AggrReduce supports only sparse SelectOutput assignments, got a dense one. Use BaseReduce for it.",
                field="so",
            )
        check_rows(x, so)
        batch = so.batch if batch is None else batch
        cluster, order = torch.sort(so._stored_index(), stable=True)
        rows = x[order if so._node_index is None else so._node_index[order]]
        weight = so._weight  # ``None`` means ones
        if weight is not None:
            rows = rows * weight[order].to(rows.dtype).view(-1, *[1] * (rows.dim() - 1))
        return self._call_aggr(rows, cluster, so.num_supernodes), self.reduce_batch(so, batch)

    def _readout(self, x: Tensor, batch: Tensor | None, size: int | None) -> tuple[Tensor, Tensor | None]:
        if x.dim() == 3:
            groups = x.size(0) if size is None else size
            index = torch.arange(x.size(0), device=x.device).repeat_interleave(x.size(1))
            return self._aggregate(x.reshape(-1, x.size(-1)), index, groups)
        if x.dim() != 2:
            raise InputError(
                f"Readout mode expects x to be 2D [N, F] or 3D [B, N, F], got ndim={x.dim()}", field="x"
            )
        if batch is None:
            return self._aggregate(x, torch.zeros(x.size(0), dtype=torch.long, device=x.device), 1)[0], None
        _check_batch(batch, x)
        if size is None:
            size = int(batch.max()) + 1 if batch.numel() > 0 else 1
        index, order = torch.sort(batch, stable=True)
        return self._aggregate(x[order], index, size)

    def _aggregate(self, rows: Tensor, index: Tensor, groups: int) -> tuple[Tensor, Tensor]:
        return self._call_aggr(rows, index, groups), torch.arange(groups, device=rows.device)

    def _call_aggr(self, rows: Tensor, index: Tensor, groups: int) -> Tensor:
        """Aggregate half-precision rows in float32 unless the aggregation has half-precision parameters."""
        wide = is_half(rows) and all(p.dtype is not rows.dtype for p in self.aggr.parameters())
        out: Tensor = self.aggr(widen(rows) if wide else rows, index=index, dim_size=groups, dim=0)
        return out.to(rows.dtype) if wide else out

    def __repr__(self) -> str:
        return f"{type(self).__name__}(aggr={self.aggr})"


def _check_batch(batch: Tensor, x: Tensor) -> None:
    """Check that there is one graph id per row. Rows without an id would be left out silently."""
    if batch.dim() != 1 or batch.size(0) != x.size(0):
        raise InputError(
            f"batch must have one graph id per row of x: expected [{x.size(0)}], got {list(batch.shape)}. "
            "After a pooler, pass out.batch.",
            field="batch",
        )
