"""``ScoredPooling``: keep the best nodes of each graph by a score."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from tgp.connect.base_conn import SparseConnect
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.base_select import SelectOutput
from tgp.select.topk_select import TopkSelect
from tgp.src.base import PoolCall, SRCPooling
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType

__all__ = ["ScoredPooling", "build_gnn"]


class ScoredPooling(SRCPooling):
    """Base of poolers that score nodes and keep the best, gated by their scores.

    A subclass says in :meth:`scored` what the selector sees.

    Args:
        in_channels: size of the selector's projection; ``None`` if :meth:`scored` gives the scores.
        ratio: share of nodes to keep (a float up to 1, so ``1.0`` keeps all), or a number per graph.
        min_score: keep nodes above this softmax score instead.
        multiplier: factor on the pooled features.
        nonlinearity: activation of the scores.
        lift, s_inv_op, lift_red_op: see :class:`~tgp.lift.BaseLift` and :class:`~tgp.select.SelectOutput`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm: see
            :class:`~tgp.connect.SparseConnect`.
    """

    def __init__(
        self,
        in_channels: int | None = None,
        ratio: float | int = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: str | Callable[[Tensor], Tensor] = "tanh",
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        connect_red_op: ConnectionType = "sum",
        lift_red_op: ReduceType = "sum",
        remove_self_loops: bool = True,
        degree_norm: bool = False,
        edge_weight_norm: bool = False,
    ) -> None:
        super().__init__(
            selector=TopkSelect(in_channels, ratio, min_score, nonlinearity, s_inv_op),
            reducer=BaseReduce(),
            lifter=BaseLift(lift, lift_red_op),
            connector=SparseConnect(connect_red_op, remove_self_loops, edge_weight_norm, degree_norm),
        )
        self.multiplier = multiplier

    def scored(self, call: PoolCall) -> Tensor:
        """What the selector scores."""
        raise NotImplementedError(f"{type(self).__name__} must implement scored")

    def run_select(self, call: PoolCall) -> SelectOutput:
        """Score and select."""
        return self.select(x=self.scored(call), batch=call.batch, batch_size=call.batch_size)

    def run_reduce(self, call: PoolCall, so: SelectOutput) -> tuple[Tensor, Tensor | None]:
        """Gated features of the kept nodes, times the multiplier."""
        x_pool, batch_pool = super().run_reduce(call, so)
        return x_pool if self.multiplier == 1 else self.multiplier * x_pool, batch_pool

    def extra_repr_args(self) -> dict[str, Any]:
        """The multiplier."""
        return {"multiplier": self.multiplier}


def build_gnn(gnn: type, in_channels: int, out_channels: int, kwargs: dict[str, Any]) -> Any:
    """``gnn(in_channels, out_channels, ...)`` with those of ``kwargs`` that its constructor names.

    ``cached`` is the pooler's own word for keeping assignments, so it never reaches a convolution.
    """
    try:
        names = set(inspect.signature(gnn.__init__).parameters) - {"cached"}
    except (TypeError, ValueError):
        names = set()
    return gnn(in_channels, out_channels, **{key: value for key, value in kwargs.items() if key in names})
