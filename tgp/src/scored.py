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
from tgp.src.base import SRCPooling
from tgp.src.execution import SparseExecution
from tgp.src.inputs import PoolInputs
from tgp.src.output import PoolingOutput
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType

__all__ = ["FeatureScoredPooling", "ScoredExecution", "ScoredPooling", "build_gnn"]


class ScoredExecution(SparseExecution):
    """Execution of the stages of a pooler that scores nodes."""

    pooler: ScoredPooling

    def select(self) -> SelectOutput:
        """Return the nodes with the best scores."""
        return self._select(self.pooler._scored(self.inputs))

    def reduce(self, so: SelectOutput) -> tuple[Tensor | None, Tensor | None]:
        """Return the features of the kept nodes, scaled by their scores and the multiplier."""
        x_pool, batch_pool = super().reduce(so)
        factor = self.pooler.multiplier
        return x_pool if factor == 1 or x_pool is None else factor * x_pool, batch_pool


class ScoredPooling(SRCPooling):
    """Base class of poolers that score nodes, keep the best ones, and multiply their features by the scores.

    A subclass implements ``_scored``, which returns the input of the selector.

    Args:
        in_channels: Number of features that the selector projects to a score; ``None`` if ``_scored`` returns scores.
        ratio: Share of nodes to keep (a float up to 1, so ``1.0`` keeps all), or a number of nodes per graph.
        min_score: Keep all nodes with a larger softmax score instead.
        multiplier: Factor on the pooled features.
        nonlinearity: Activation of the scores.
        lift, s_inv_op, lift_red_op: See :class:`~tgp.src.level.LevelPooling`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm: See
            :class:`~tgp.engine.contraction.ConnectParams`.
    """

    _needs_features = True

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

    def _scored(self, inputs: PoolInputs) -> Tensor:
        """Return the input of the selector: features, or scores."""
        raise NotImplementedError(f"{type(self).__name__} must implement _scored")

    def _execution(self, inputs: PoolInputs) -> ScoredExecution:
        return ScoredExecution(self, inputs)

    def extra_repr_args(self) -> dict[str, Any]:
        """Return the multiplier."""
        return {"multiplier": self.multiplier}


class FeatureScoredPooling(ScoredPooling):
    """Base class of poolers that score nodes by their features, or by other features that a call gives as ``attn``."""

    def forward(  # type: ignore[override]
        self,
        x: Tensor | None = None,
        adj: Any = None,
        edge_weight: Tensor | None = None,
        so: SelectOutput | None = None,
        batch: Tensor | None = None,
        attn: Tensor | None = None,
        lifting: bool = False,
        **kwargs: Any,
    ) -> PoolingOutput | Tensor:
        """Pool or lift.

        Args:
            x, adj, edge_weight, so, batch, lifting: see :meth:`~tgp.src.SRCPooling.forward`.
            **kwargs: further arguments of that method.
            attn: ``[N, in_channels]`` features that are scored; by default ``x``.
        """
        return self._pool(
            lifting, x=x, adj=adj, edge_weight=edge_weight, so=so, batch=batch, attn=attn, **kwargs
        )

    def _features_to_score(self, inputs: PoolInputs) -> Tensor:
        """Return ``attn`` if it is given, else the features of the nodes."""
        attn = inputs.extra.get("attn")
        features = inputs.x if attn is None else attn
        assert features is not None  # the pooler needs features
        return features


def build_gnn(gnn: type, in_channels: int, out_channels: int, kwargs: dict[str, Any]) -> Any:
    """Build a convolution.

    Args:
        gnn: Class of the convolution.
        in_channels: Number of input features.
        out_channels: Number of output features.
        kwargs: Further keywords. Those that the constructor does not name are ignored, and so is ``cached``, which
            means the cache of the pooler.
    """
    try:
        names = set(inspect.signature(gnn).parameters) - {"cached"}
    except (TypeError, ValueError):
        names = set()
    return gnn(in_channels, out_channels, **{key: value for key, value in kwargs.items() if key in names})
