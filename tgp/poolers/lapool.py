"""Laplacian pooling."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.connect.dense_conn import DenseConnect
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.base_select import SelectOutput
from tgp.select.lapool_select import LaPoolSelect
from tgp.src.dense import DenseSRCPooling
from tgp.src.execution import FlatExecution
from tgp.src.inputs import PoolInputs
from tgp.src.output import PoolingOutput
from tgp.utils.ops.batching import expand_compacted_rows
from tgp.utils.ops.connectivity import Container, connectivity_to_edge_index
from tgp.utils.typing import LiftType, ReduceType, SinvType

__all__ = ["LaPooling"]


class LaPooling(DenseSRCPooling):
    r"""LaPool from `"Towards Interpretable Sparse Graph Representation Learning with Laplacian Pooling"
    <https://arxiv.org/abs/1905.11577>`_.

    Nodes whose signal changes fastest among their neighbours lead; the others join leaders by cosine
    attention, see :class:`~tgp.select.LaPoolSelect`. No parameters; gradients reach the features.
    Graphs may have different numbers of leaders: dense results are padded to the largest, sparse
    results hold real supernodes only.

    Args:
        shortest_path_reg: weaken leaders by one over their distance in hops.
        remove_self_loops, degree_norm, edge_weight_norm: see :class:`~tgp.connect.DenseConnect`.
        lift, s_inv_op: see :class:`~tgp.src.mlp.MLPPooling`.
        lift_red_op: see :class:`~tgp.lift.BaseLift`.
        batched: padded execution (true) or flat.
        sparse_output: return the pooled graphs as one edge list.
    """

    _needs_features = True

    def __init__(
        self,
        shortest_path_reg: bool = False,
        remove_self_loops: bool = True,
        degree_norm: bool = True,
        edge_weight_norm: bool = False,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        lift_red_op: ReduceType = "sum",
        batched: bool = True,
        sparse_output: bool = False,
    ) -> None:
        # One orientation everywhere, source in rows: leaders look at their out-neighbours in both modes.
        super().__init__(
            selector=LaPoolSelect(shortest_path_reg, batched, s_inv_op),
            reducer=BaseReduce(),
            lifter=BaseLift(matrix_op=lift, reduce_op=lift_red_op),
            connector=DenseConnect(remove_self_loops, degree_norm, False, edge_weight_norm, sparse_output),
            adj_transpose=False,
            batched=batched,
            sparse_output=sparse_output,
        )

    def forward(
        self,
        x: Tensor | None = None,
        adj: Any = None,
        edge_weight: Tensor | None = None,
        so: SelectOutput | None = None,
        batch: Tensor | None = None,
        batch_pooled: Tensor | None = None,
        lifting: bool = False,
        mask: Tensor | None = None,
        **kwargs: Any,
    ) -> PoolingOutput | Tensor:
        """See :meth:`~tgp.src.DenseSRCPooling.forward`."""
        if lifting and not self.batched and so is not None and x is not None and x.dim() == 2:
            x, batch_pooled = _expanded(x, so), None
        return self._pool(
            lifting,
            x=x,
            adj=adj,
            edge_weight=edge_weight,
            so=so,
            batch=batch,
            batch_pooled=batch_pooled,
            mask=mask,
            **kwargs,
        )

    def _execution(self, inputs: PoolInputs) -> FlatExecution:
        if self.batched or not self.sparse_output or not isinstance(self.connector, DenseConnect):
            return super()._execution(inputs)
        return FlatLaExecution(self, inputs)


class FlatLaExecution(FlatExecution):
    """Run LaPool on flat inputs with a sparse output: supernodes that only pad a graph leave the result."""

    def finish(self, output: PoolingOutput, so: SelectOutput) -> PoolingOutput:
        """Return the real supernodes with ids of their own."""
        output = super().finish(output, so)
        valid = so.out_mask.reshape(-1)
        place = valid.long().cumsum(0) - 1
        index, weight = connectivity_to_edge_index(output.edge_index, output.edge_weight)
        output.x = output.x[valid]
        output.batch = None if output.batch is None else output.batch[valid]
        container = Container.of(self.inputs.adj)
        output.edge_index, output.edge_weight = container.pack(place[index], weight, output.x.size(0))
        return output


def _expanded(x: Tensor, so: SelectOutput) -> Tensor:
    """Return the rows of real supernodes at their positions in ``[B * K]``."""
    mask = so.out_mask
    if mask is None or x.size(0) == mask.numel() or x.size(0) != int(mask.sum()):
        return x
    return expand_compacted_rows(x, mask, mask.numel())
