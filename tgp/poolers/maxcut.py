"""MaxCutPool: pooling by a learned max-cut."""

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
    """Execution of the stages of max-cut pooling. Edges always come from an assignment of all nodes."""

    pooler: MaxCutPooling

    def connect(self, so: SelectOutput, batch_pool: Tensor | None) -> Pooled:
        """Assign all nodes to supernodes and return the pooled connectivity."""
        if not so.covers_all:
            selector = self.pooler.selector
            so = selector.assign_remaining_nodes(so, self.inputs.adj, None, self.inputs.batch)
        return super().connect(so, batch_pool)

    def loss(self, so: SelectOutput) -> dict[str, Tensor]:
        """Return the losses of the scores."""
        inputs = self.inputs
        return self.pooler.compute_loss(so.scores, inputs.adj, inputs.edge_weight, inputs.batch)


class MaxCutPooling(SRCPooling):
    r"""MaxCutPool from `"MaxCutPool: differentiable feature-aware Maxcut for pooling in graph neural networks"
    <https://arxiv.org/abs/2409.05100>`_.

    A message-passing network computes the scores :math:`\mathbf{z}` of the nodes. It is trained with the loss

    .. math::
        \mathcal{L} = \frac{\mathbf{z}^\top\mathbf{A}\mathbf{z}}{\sum_{ij} a_{ij}} ,

    which gives neighbours scores of opposite signs. The nodes with the highest scores of each graph become supernodes.
    Every other node is assigned to the nearest supernode.

    Good for:
        Supernodes spread over the graph at a chosen ratio, also if neighbours have different labels (heterophilic
        graphs). Every node is assigned to a supernode.

    Avoid when:
        Time is short: the score network has four message-passing layers by default. Graphs have no features.

    Complexity:
        ``O(E F)`` per layer of the score network, plus ``max_iter`` passes over the edges. ``O(E + N F)`` memory.

    Args:
        in_channels: feature size.
        ratio: share of nodes to keep, or a number of nodes per graph.
        assign_all_nodes: pool the features of all nodes instead of those of the kept nodes. Edges always come from an
            assignment of all nodes.
        max_iter: rounds of propagation from kept nodes to their neighbours. Nodes that are not reached get a random
            supernode of their graph.
        loss_coeff: coefficient of the loss.
        mp_units, mp_act, mlp_units, mlp_act, act, delta: see :class:`~tgp.select.MaxCutScoreNet`.
        lift, s_inv_op, lift_red_op: see :class:`~tgp.src.level.LevelPooling`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm: see
            :class:`~tgp.engine.contraction.ConnectParams`.
    """

    _needs_features = True

    selector: MaxCutSelect

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

    def _run_lift(
        self, x: Tensor | None = None, so: SelectOutput | None = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        if so is None:
            raise InputError(
                "SelectOutput (so) cannot be None for lifting: expected the assignment of a pooling call, got None",
                field="so",
            )
        return super()._run_lift(x, so, *args, **kwargs)

    def compute_loss(  # type: ignore[override]
        self, scores: Tensor, adj: Any, edge_weight: Tensor | None = None, batch: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the loss of given scores.

        Args:
            scores: ``[N]`` or ``[N, 1]``.
            adj: edge list, sparse matrix or ``SparseTensor``.
            edge_weight: ``[E]`` or ``[E, 1]``.
            batch: ``[N]`` graph ids.
        """
        return {"maxcut_loss": self.loss_coeff * maxcut_loss(scores, adj, edge_weight, batch)}
