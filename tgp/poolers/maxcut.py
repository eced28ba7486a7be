"""Max-cut pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tgp.connect.base_conn import SparseConnect
from tgp.errors import InputError
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.base_select import SelectOutput
from tgp.select.maxcut_select import MaxCutSelect
from tgp.src.base import SRCPooling
from tgp.src.execution import Pooled, SparseExecution
from tgp.src.inputs import PoolInputs
from tgp.utils.losses.cut import maxcut_loss
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType

__all__ = ["MaxCutPooling"]


class MaxCutExecution(SparseExecution):
    """Run the stages of max-cut pooling: edges are those of the full assignment."""

    def connect(self, so: SelectOutput, batch_pool: Tensor | None) -> Pooled:
        """Return the pooled connectivity after every node has joined a supernode."""
        if not so.covers_all:
            so = self.pooler.selector.assign_remaining_nodes(so, self.inputs.adj, None, self.inputs.batch)
        return super().connect(so, batch_pool)

    def loss(self, so: SelectOutput) -> dict[str, Tensor]:
        """Return the losses of the scores."""
        inputs = self.inputs
        return self.pooler.compute_loss(so.scores, inputs.adj, inputs.edge_weight, inputs.batch)


class MaxCutPooling(SRCPooling):
    r"""Keep nodes on one side of a learned max-cut, from `"MaxCutPool: differentiable feature-aware Maxcut for
    pooling in graph neural networks" <https://arxiv.org/abs/2409.05100>`_.

    The scores :math:`\mathbf{z}` of a message-passing network are trained by
    :math:`\mathcal{L} = \mathbf{z}^\top\mathbf{A}\mathbf{z} / \sum_{ij} a_{ij}`, which drives neighbours to opposite signs. The
    best nodes of each graph become supernodes; every other node joins the nearest.

    Args:
        in_channels: size of the features.
        ratio: share of nodes to keep, or a number per graph.
        assign_all_nodes: pool all nodes (true) or only the kept ones; edges are always those of the full
            assignment.
        max_iter: rounds of spreading; nodes out of reach are assigned at random inside their graph.
        loss_coeff: coefficient of the loss.
        mp_units, mp_act, mlp_units, mlp_act, act, delta: see :class:`~tgp.select.MaxCutScoreNet`.
        lift, s_inv_op, lift_red_op: see :class:`~tgp.lift.BaseLift` and :class:`~tgp.select.SelectOutput`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm: see
            :class:`~tgp.connect.SparseConnect`.
    """

    _needs_features = True

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        assign_all_nodes: bool = True,
        max_iter: int = 5,
        loss_coeff: float = 1.0,
        mp_units: Sequence[int] = (32, 32, 32, 32),
        mp_act: str = "tanh",
        mlp_units: Sequence[int] = (16, 16),
        mlp_act: str = "relu",
        act: str = "tanh",
        delta: float = 2.0,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        connect_red_op: ConnectionType = "sum",
        lift_red_op: ReduceType = "sum",
        remove_self_loops: bool = True,
        degree_norm: bool = False,
        edge_weight_norm: bool = True,
    ) -> None:
        super().__init__(
            selector=MaxCutSelect(
                in_channels,
                ratio,
                assign_all_nodes,
                max_iter,
                mp_units,
                mp_act,
                mlp_units,
                mlp_act,
                act,
                delta,
                s_inv_op=s_inv_op,
            ),
            reducer=BaseReduce(),
            lifter=BaseLift(lift, lift_red_op),
            connector=SparseConnect(connect_red_op, remove_self_loops, edge_weight_norm, degree_norm),
        )
        self.in_channels = in_channels
        self.ratio = ratio
        self.assign_all_nodes = assign_all_nodes
        self.max_iter = max_iter
        self.loss_coeff = loss_coeff
        self.mp_units = mp_units
        self.mp_act = mp_act
        self.mlp_units = mlp_units
        self.mlp_act = mlp_act
        self.act = act
        self.delta = delta

    def extra_repr_args(self) -> dict[str, Any]:
        """Return the coefficient of the loss."""
        return {"loss_coeff": self.loss_coeff}

    def _execution(self, inputs: PoolInputs) -> MaxCutExecution:
        return MaxCutExecution(self, inputs)

    def _run_lift(self, **arguments: Any) -> Tensor:
        if arguments.get("so") is None:
            raise InputError("SelectOutput (so) cannot be None for lifting", field="so")
        return super()._run_lift(**arguments)

    def compute_loss(  # type: ignore[override]
        self, scores: Tensor, adj: Any, edge_weight: Tensor | None = None, batch: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the loss of given scores."""
        return {"maxcut_loss": self.loss_coeff * maxcut_loss(scores, adj, edge_weight, batch)}
