"""Laplacian pooling."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.connect.dense_conn import DenseConnect
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.base_select import SelectOutput
from tgp.select.lapool_select import LaPoolSelect
from tgp.src.base import PoolCall
from tgp.src.dense import DenseSRCPooling
from tgp.src.output import PoolingOutput
from tgp.utils.ops.batching import expand_compacted_rows
from tgp.utils.ops.connectivity import Container
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
        return self.pool(
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

    def run_connect(
        self, call: PoolCall, so: SelectOutput, batch_pool: Tensor | None
    ) -> tuple[Any, Tensor | None]:
        """As the base, but a flat sparse result waits for :meth:`finish` to be compacted."""
        if self.batched or not self.sparse_output or type(self.connector) is not DenseConnect:
            return super().run_connect(call, so, batch_pool)
        return self.connector.postprocess(self.view(call, so).coarse(), adj_transpose=False), None

    def finish(self, call: PoolCall, output: PoolingOutput) -> PoolingOutput:
        """Padded supernodes leave a sparse result in both modes."""
        if self.batched or not self.sparse_output or type(self.connector) is not DenseConnect:
            return super().finish(call, output)
        adj, given = output.edge_index, output.batch
        x = output.x.view(*adj.shape[:2], -1)
        output.x, index, weight, batch = self._finalize_sparse_output(x, adj, None, None, output.so)
        output.batch = batch if given is not None else None
        output.edge_index, output.edge_weight = Container.of(call.adj).pack(index, weight, output.x.size(0))
        return output


def _expanded(x: Tensor, so: SelectOutput) -> Tensor:
    """Rows of real supernodes back at their places in ``[B * K]``."""
    mask = so.out_mask
    if mask is None or x.size(0) == mask.numel() or x.size(0) != int(mask.sum()):
        return x
    return expand_compacted_rows(x, mask, mask.numel())
