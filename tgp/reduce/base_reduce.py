"""Base class of reducers, and the weighted sum ``X' = S^T X``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation, MeanAggregation, SumAggregation

from tgp.errors import InputError
from tgp.reduce.get_aggr import resolve_reduce_op
from tgp.select.base_select import SelectOutput
from tgp.utils.operator import Operator
from tgp.utils.ops.batching import GraphLayout, build_pooled_batch, num_graphs
from tgp.utils.precision import is_half, widen
from tgp.utils.tracing import on_host

__all__ = ["BaseReduce", "Reduce"]


class Reduce(Operator):
    """Base class of reducers, which compute the features of supernodes."""

    @staticmethod
    def reduce_batch(
        select_output: SelectOutput, batch: Tensor | None, batch_size: int | None = None
    ) -> Tensor | None:
        """Return the graph ids of the supernodes, or ``None`` without ``batch``.

        A supernode of a sparse assignment belongs to the graph of its nodes. An empty supernode belongs to the
        graph of the nearest non-empty one before it, or after it for the first ones. A dense assignment has
        ``K`` supernodes per graph.

        Args:
            select_output: Assignment.
            batch: ``[N]`` graph ids of the nodes.
            batch_size: Number of graphs; by default the largest id + 1.

        Returns:
            ``[K]`` or ``[B * K]`` graph ids.
        """
        so = select_output
        if batch is None:
            return None
        if so.is_dense:
            size = batch_size if batch_size is not None else so.batch_size
            return build_pooled_batch(num_graphs(batch, size), so.num_supernodes, batch.device, batch.dtype)
        if so._single is not None:
            return batch.index_select(0, so._single[0])
        source = batch if so._node_index is None else batch.index_select(0, so._node_index)
        out = torch.full((so.num_supernodes,), -1, dtype=batch.dtype, device=batch.device)
        out = out.scatter(0, so._stored_index(), source)
        # Reading a value would synchronize an accelerator, so the shortcut is only taken on the host.
        if on_host(out) and (out.numel() == 0 or int(out.min()) >= 0):
            return out
        return _fill_from_neighbour(out)

    def forward(
        self, x: Tensor, so: SelectOutput, *, batch: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Pool features. Subclasses implement this method.

        Args:
            x: ``[N, F]`` features of the nodes.
            so: assignment.
            batch: ``[N]`` graph ids of the nodes.
            **kwargs: further arguments of the subclass.

        Returns:
            Features of the supernodes, and their graph ids or ``None``.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement forward")


def _fill_from_neighbour(ids: Tensor) -> Tensor:
    """Replace negative ids by the previous valid id, or by the first valid one. Return zeros if no id is valid."""
    if ids.numel() == 0:
        return ids
    valid = ids >= 0
    position = torch.arange(ids.numel(), device=ids.device)
    source = torch.where(valid, position, 0).cummax(0).values
    source = torch.where(valid[source], source, valid.int().argmax())
    return ids[source].clamp(min=0)


class BaseReduce(Reduce):
    r"""Reducer that sums the features of the nodes of each supernode, weighted by the assignment:
    :math:`\mathbf{X}' = \mathbf{S}^\top \mathbf{X}`.

    Half-precision features are summed in float32. The result has the type of the features.

    Another aggregation than the sum can be given by the name that PyG uses. Features are first multiplied by the weights of
    a sparse assignment, as in :class:`~tgp.reduce.AggrReduce`. A dense assignment allows ``"sum"``, and ``"mean"``, which
    is the mean weighted by the assignment. A dense one-hot assignment allows all of them.

    Args:
        aggr: Name for :func:`~tgp.reduce.get_aggr`, such as ``"mean"``, ``"max"`` or ``"median"``, or an instance of
            ``torch_geometric.nn.aggr.Aggregation``.
        **kwargs: Arguments of the aggregation, for a name.

    Raises:
        UnknownNameError: If the name is unknown.

    Examples:
        >>> so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]))
        >>> BaseReduce("mean")(torch.tensor([[1.0], [3.0], [5.0]]), so)[0].tolist()
        [[2.0], [5.0]]
    """

    def __init__(self, aggr: str | Aggregation = "sum", **kwargs: Any) -> None:
        super().__init__()
        resolved = resolve_reduce_op(aggr, **kwargs)
        if type(resolved) is not SumAggregation:
            from tgp.reduce.aggr_reduce import AggrReduce

            self.aggregation = AggrReduce(resolved)

    @property
    def is_sum(self) -> bool:
        """True if features are summed."""
        return "aggregation" not in self._modules

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the aggregation."""
        if not self.is_sum:
            self.aggregation.reset_parameters()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.is_sum else self.aggregation.aggr})"

    def forward(
        self,
        x: Tensor,
        so: SelectOutput,
        *,
        batch: Tensor | None = None,
        return_batched: bool = False,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Pool features.

        Args:
            x: ``[N, F]``, or ``[N]`` for one feature, or ``[B, N, F]`` for a batched dense assignment.
            so: assignment.
            batch: ``[N]`` graph ids, in any order; by default ``so.batch``.
            return_batched: return ``[B, K, F]`` instead of ``[B * K, F]`` for a flat dense assignment.
            batch_size: number of graphs; by default the largest id + 1.
            **kwargs: ignored.

        Returns:
            The features of the supernodes and their graph ids. The features have the shape ``[K, F]`` for a sparse
            assignment, ``[B, K, F]`` for ``[B, N, K]``, and ``[B * K, F]`` or ``[B, K, F]`` for ``[N, K]``.

        Raises:
            InputError: if the shapes of ``x`` and the assignment do not fit.
        """
        batch = so.batch if batch is None else batch
        batch_size = so.batch_size if batch_size is None else batch_size
        batch_pool = self.reduce_batch(so, batch, batch_size)
        if so.is_sparse:
            if return_batched:
                raise InputError(
                    "return_batched=True is only supported for dense assignment matrices, got a sparse assignment",
                    field="return_batched",
                )
            if not self.is_sum:
                return self.aggregation(x.unsqueeze(-1) if x.dim() == 1 else x, so=so, batch=batch)[
                    0
                ], batch_pool
            return self._sparse(x, so), batch_pool
        if not self.is_sum:
            return self._dense_aggregate(x, so, batch, batch_size, return_batched), batch_pool
        return self._dense(x, so, batch, batch_size, return_batched), batch_pool

    @staticmethod
    def _dense(
        x: Tensor, so: SelectOutput, batch: Tensor | None, batch_size: int | None, return_batched: bool
    ) -> Tensor:
        """Return the weighted sums of a dense assignment."""
        s = so.s
        s = s.to(x.dtype) if x.is_floating_point() else s
        x = x if x.is_floating_point() else x.to(s.dtype)
        if s.dim() == 3:
            x = x.unsqueeze(0) if x.dim() == 2 else x
            return s.transpose(1, 2) @ x
        if s.dim() != 2:
            raise InputError(
                f"Dense SelectOutput.s must be 2D [N, K] or 3D [B, N, K], got {list(s.shape)}", field="s"
            )
        x = x.unsqueeze(-1) if x.dim() == 1 else x.squeeze(0) if x.dim() == 3 else x
        pooled = GraphLayout(batch, s.size(0), batch_size).matmul(s, x)
        return pooled if return_batched else pooled.flatten(0, 1)

    def _dense_aggregate(
        self,
        x: Tensor,
        so: SelectOutput,
        batch: Tensor | None,
        batch_size: int | None,
        return_batched: bool,
    ) -> Tensor:
        """Return the aggregated features of a dense assignment."""
        aggr = self.aggregation.aggr
        if type(aggr) is MeanAggregation:
            total = self._dense(x, so, batch, batch_size, return_batched)
            ones = x.new_ones(*x.shape[: 1 if x.dim() == 1 else -1], 1)
            weight = self._dense(ones, so, batch, batch_size, return_batched)
            # An empty supernode has the sum 0, which stays 0.
            return total / torch.where(weight == 0, torch.ones_like(weight), weight)
        if so._cluster_index is None:
            raise InputError(
                f"{aggr} cannot pool with a dense assignment, in which every node belongs to every supernode: "
                "expected 'sum' or 'mean'. Use BaseReduce('mean'), or a pooler with a sparse assignment",
                field="aggr",
            )
        x = x.unsqueeze(-1) if x.dim() == 1 else x.squeeze(0) if x.dim() == 3 else x
        column, k = so._cluster_index, so.num_supernodes
        graphs = num_graphs(batch, batch_size)
        first = 0 if batch is None else batch * k
        nodes = torch.nonzero(column >= 0).flatten()
        clusters = (column + first).index_select(0, nodes)
        members = SelectOutput.hard(clusters, graphs * k, node_index=nodes, num_nodes=so.num_nodes)
        pooled: Tensor = self.aggregation(x, so=members)[0]
        return pooled.view(graphs, k, -1) if return_batched else pooled

    @staticmethod
    def _sparse(x: Tensor, so: SelectOutput) -> Tensor:
        check_rows(x, so)
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        if so._single is not None:
            return _select_rows(x, so._weight, *so._single)
        rows = x if so._node_index is None else x.index_select(0, so._node_index)
        rows = widen(rows)
        if so._weight is not None:
            rows = rows * so._weight.unsqueeze(-1)
        out = rows.new_zeros((so.num_supernodes, *rows.shape[1:]))
        out = out.index_add(0, so._stored_index(), rows)
        return out.to(x.dtype) if is_half(x) else out


def check_rows(x: Tensor, so: SelectOutput) -> None:
    """Check that features have one row per node of a sparse assignment.

    Raises:
        InputError: If there are more or fewer rows.
    """
    if x.size(0) != so.num_nodes:
        raise InputError(
            f"x must have shape [N, F] with one row per node: expected {so.num_nodes} rows, got {list(x.shape)}",
            field="x",
        )


def _select_rows(x: Tensor, weight: Tensor | None, nodes: Tensor, entries: Tensor) -> Tensor:
    """Return the weighted rows of ``nodes``, each of which is a supernode."""
    rows = x.index_select(0, nodes)
    if weight is None:
        return rows
    scaled = rows * weight.index_select(0, entries).unsqueeze(-1)
    return scaled.to(x.dtype) if is_half(x) else scaled
