"""LaPool: Laplacian pooling."""

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

    Nodes with the largest variation of the features in their neighbourhood are leaders,

    .. math::
        i \text{ is a leader} \iff \|(\mathbf{L}\mathbf{X})_i\|_2 \ge \|(\mathbf{L}\mathbf{X})_j\|_2 \;\;
        \text{for all neighbours } j .

    Other nodes are assigned to the leaders by cosine similarity; see :class:`~tgp.select.LaPoolSelect`. The pooler has no
    learnable parameters. Gradients reach the features.

    Good for:
        Small graphs whose features vary, such as molecules: leaders are nodes of the graph, so pooled graphs can be
        read, and there is nothing to learn.

    Avoid when:
        Graphs have no features, or features that hardly vary between neighbours. Graphs are large: the number of
        leaders grows with the graph, so the assignment is a large dense matrix.

    Complexity:
        ``O(E F + N K F)`` time and ``O(N K)`` memory with ``K`` leaders, whose number grows with the graph.
        ``shortest_path_reg`` adds one pass over the edges per hop.

    Args:
        shortest_path_reg: divide the assignment to a leader by the number of hops to it.
        remove_self_loops, degree_norm, edge_weight_norm: see :class:`~tgp.connect.DenseConnect`.
        lift, s_inv_op, batched: see :class:`~tgp.src.mlp.MLPPooling`.
        lift_red_op: see :class:`~tgp.src.level.LevelPooling`.
        sparse_output: return the pooled graphs as one edge list.

    Shapes:
        ``x``: ``[N, F]`` to ``[B, K, F]`` with the largest number ``K`` of leaders of a graph. With ``sparse_output``
        and without ``batched``, the rows of padding are removed.
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
        # Sources are in rows in both modes, so that leaders are always compared with their out-neighbours.
        super().__init__(
            selector=LaPoolSelect(shortest_path_reg, batched, s_inv_op),
            reducer=BaseReduce(),
            lifter=BaseLift(matrix_op=lift, reduce_op=lift_red_op),
            connector=DenseConnect(remove_self_loops, degree_norm, False, edge_weight_norm, sparse_output),
            adj_transpose=False,
            batched=batched,
            sparse_output=sparse_output,
        )

    def forward(  # type: ignore[override]
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
        """Pool or lift; see :meth:`~tgp.src.DenseSRCPooling.forward`."""
        if lifting and not self.batched and so is not None and isinstance(x, Tensor) and x.dim() == 2:
            x, batch_pooled = _restore_padding(x, so), None
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
    """Execution of LaPool on flat inputs with a sparse output, which removes supernodes that are padding."""

    def finish(self, output: PoolingOutput, so: SelectOutput) -> PoolingOutput:
        """Remove supernodes that are padding and number the others consecutively."""
        output = super().finish(output, so)
        mask = so.out_mask
        assert (
            mask is not None and output.x is not None
        )  # the assignment is dense and the pooler needs features
        valid = mask.reshape(-1)
        new_id = valid.long().cumsum(0) - 1
        index, weight = connectivity_to_edge_index(output.edge_index, output.edge_weight)
        output.x = output.x[valid]
        output.batch = None if output.batch is None else output.batch[valid]
        container = Container.of(self.inputs.adj)
        output.edge_index, output.edge_weight = container.pack(new_id[index], weight, output.x.size(0))
        return output


def _restore_padding(x: Tensor, so: SelectOutput) -> Tensor:
    """Return ``[B * K, F]`` with the given rows at the positions of the real supernodes."""
    mask = so.out_mask
    if mask is None or x.size(0) == mask.numel() or x.size(0) != int(mask.sum()):
        return x
    return expand_compacted_rows(x, mask, mask.numel())
