"""Base class of lifters, and lifting by a matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select.base_select import SelectOutput
from tgp.utils.operator import Operator
from tgp.utils.ops.assign import pseudo_inverse
from tgp.utils.ops.batching import GraphLayout, expand_compacted_rows
from tgp.utils.precision import is_half, widen
from tgp.utils.tracing import on_host
from tgp.utils.typing import LiftType, ReduceType

__all__ = ["BaseLift", "Lift"]

_SCATTER = {"mean": "mean", "min": "amin", "max": "amax", "mul": "prod"}
_REDUCTIONS = ("sum", "add", *_SCATTER)


class _UnknownOperation(InputError, RuntimeError):
    """Unknown operation. Also a ``RuntimeError``, which tgp 1.0.2 raised."""


class _NoAssignment(InputError, AttributeError):
    """There is no assignment. Also an ``AttributeError``, which tgp 1.0.2 raised."""


class Lift(Operator):
    """Base class of lifters, which map features of supernodes to nodes."""

    def forward(self, x_pool: Tensor, so: SelectOutput, **kwargs: Any) -> Tensor:
        """Lift features. Subclasses implement this method.

        Args:
            x_pool: ``[K, F]`` features of the supernodes.
            so: assignment.
            **kwargs: further arguments of the subclass.

        Returns:
            ``[N, F]`` features of the nodes.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement forward")


class BaseLift(Lift):
    r"""Lifter :math:`\mathbf{X} = \mathbf{M} \mathbf{X}'` with a matrix :math:`\mathbf{M}` that the assignment gives.

    Args:
        matrix_op: :math:`\mathbf{M}` is ``s_inv`` transposed (``precomputed``), ``s`` (``transpose``) or the
            pseudo-inverse of ``s``, transposed (``inverse``).
        reduce_op: reduction of the entries of a node in a sparse assignment: ``sum``, ``mean``, ``min``,
            ``max`` or ``mul``. Nodes without entries get 0.
    """

    def __init__(self, matrix_op: LiftType = "precomputed", reduce_op: ReduceType = "sum") -> None:
        super().__init__()
        self.matrix_op = matrix_op
        self.reduce_op = reduce_op

    def forward(
        self,
        x_pool: Tensor,
        so: SelectOutput | None = None,
        batch: Tensor | None = None,
        batch_pooled: Tensor | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Lift features.

        Args:
            x_pool: ``[K, F]`` for a sparse assignment. For a dense one, ``[B, K, F]``, ``[B * K, F]``, ``[K, F]`` that
                all graphs share, or only the rows of non-empty supernodes.
            so: assignment.
            batch: ``[N]`` graph ids, in any order; by default ``so.batch``.
            batch_pooled: graph ids of the rows of ``x_pool``; by default there are ``K`` consecutive rows per graph.
            batch_size: number of graphs.
            **kwargs: ignored.

        Returns:
            ``[N, F]`` in the order of the nodes, or padded ``[B, N, F]`` for a batched dense assignment.
            ``so.to_nodes(lifted)`` removes the padding and restores the order of the nodes.

        Raises:
            InputError: if there is no assignment, an option is unknown, or the shapes do not fit.
        """
        if so is None:
            raise _NoAssignment("so is missing: expected a SelectOutput to lift with, got None", field="so")
        if not isinstance(so, SelectOutput) and not hasattr(so, "num_supernodes"):
            raise InputError(f"so must be a SelectOutput, got {type(so).__name__}", field="so")
        if self.matrix_op not in ("precomputed", "transpose", "inverse"):
            raise _UnknownOperation(
                f"'matrix_op' must be one of ['transpose', 'inverse', 'precomputed'], got {self.matrix_op!r}",
                field="matrix_op",
            )
        if so.is_sparse:
            return self._sparse(x_pool, so)
        matrix = self._dense_matrix(so)
        matrix = matrix.to(x_pool.dtype) if x_pool.is_floating_point() else matrix
        if matrix.dim() == 3:
            return matrix @ _to_batch(x_pool, so, matrix)
        batch = so.batch if batch is None else batch
        batch_size = so.batch_size if batch_size is None else batch_size
        layout = GraphLayout(batch, matrix.size(0), batch_size)
        return _lift_flat(matrix, x_pool, layout, batch_pooled)

    def _dense_matrix(self, so: SelectOutput) -> Tensor:
        if self.matrix_op == "transpose":
            return so.s
        if self.matrix_op == "inverse":
            return pseudo_inverse(so.s).transpose(-1, -2)
        if not so._given_s_inv and so.s_inv_op == "transpose":
            return so.s
        inverse = so.s_inv
        return (inverse if inverse.layout is torch.strided else inverse.to_dense()).transpose(-1, -2)

    def _sparse(self, x_pool: Tensor, so: SelectOutput) -> Tensor:
        if x_pool.dim() != 2:
            raise InputError(f"x_pool must have shape [K, F], got {list(x_pool.shape)}", field="x_pool")
        if on_host(x_pool) and x_pool.size(0) != so.num_supernodes:
            raise InputError(
                f"x_pool must have one row per supernode: expected {so.num_supernodes}, got {x_pool.size(0)}",
                field="x_pool",
            )
        if self.reduce_op not in _REDUCTIONS:
            raise InputError(
                f"Encountered invalid `reduce` argument {self.reduce_op!r}: expected one of {', '.join(_REDUCTIONS)}",
                field="reduce_op",
            )
        rows, cols, values = self._entries(so)
        lifted = widen(x_pool.index_select(0, cols))
        if values is not None:
            lifted = lifted * values.unsqueeze(-1)
        if rows is not None:
            lifted = self._collect(lifted, rows, so)
        return lifted.to(x_pool.dtype) if is_half(x_pool) else lifted

    def _collect(self, lifted: Tensor, rows: Tensor, so: SelectOutput) -> Tensor:
        """Reduce the entries of each node. Nodes without entries get 0."""
        out = lifted.new_zeros((so.num_nodes, lifted.size(1)))
        if self.reduce_op in ("sum", "add") or so.cluster is not None:
            return out.index_add(0, rows, lifted)
        index = rows.unsqueeze(-1).expand_as(lifted)
        return out.scatter_reduce(0, index, lifted, _SCATTER[self.reduce_op], include_self=False)

    def _entries(self, so: SelectOutput) -> tuple[Tensor | None, Tensor, Tensor | None]:
        """Return the nodes, supernodes and values of the entries of the matrix.

        The nodes are ``None`` if entry ``i`` belongs to node ``i``, and the values are ``None`` if all are ones.
        """
        op = so.s_inv_op if self.matrix_op == "precomputed" else self.matrix_op
        if self.matrix_op == "precomputed" and so._given_s_inv:
            inverse = so.s_inv.to_sparse_coo().coalesce()
            cols, rows = inverse.indices()
            return rows, cols, inverse.values()
        if op == "transpose":
            return so._node_index, so._stored_index(), so._weight
        if so.cluster is None:
            inverse = pseudo_inverse(so.s).coalesce()
            cols, rows = inverse.indices()
            return rows, cols, inverse.values()
        weight, cluster = widen(so._entry_weights()), so._stored_index()
        norm = weight.new_zeros(so.num_supernodes).index_add(0, cluster, weight * weight)
        norm = torch.where(norm == 0, torch.ones_like(norm), norm)
        return so._node_index, cluster, weight / norm[cluster]


def _to_batch(x_pool: Tensor, so: SelectOutput, matrix: Tensor) -> Tensor:
    """Return pooled features of any accepted shape as ``[B, K, F]``."""
    if x_pool.dim() == 3:
        return x_pool
    graphs, k = matrix.size(0), matrix.size(2)
    if x_pool.size(0) != graphs * k:
        x_pool = expand_compacted_rows(x_pool, so.out_mask, graphs * k)
    return x_pool.view(graphs, k, -1)


def _lift_flat(matrix: Tensor, x_pool: Tensor, layout: GraphLayout, batch_pooled: Tensor | None) -> Tensor:
    """Return the features of flat nodes with a dense matrix ``[N, K]``."""
    k = matrix.size(1)
    graphs = layout.batch_size
    if x_pool.dim() == 3:
        x_pool = x_pool.flatten(0, 1)
        batch_pooled = None
    rows = x_pool.size(0)
    if rows == k and (layout.single or batch_pooled is None):
        return matrix @ x_pool
    if rows != graphs * k:
        raise InputError(
            f"Unexpected pooled feature shape {list(x_pool.shape)}: expected {graphs} graphs of {k} supernodes "
            f"({graphs * k} rows) or {k} rows shared by all",
            field="x_pool",
        )
    if batch_pooled is not None:
        x_pool = x_pool[graph_order(batch_pooled, graphs, k)]
    return layout.expand(matrix, x_pool.view(graphs, k, -1))


def graph_order(batch_pooled: Tensor, graphs: int, k: int) -> Tensor:
    """Return the permutation that sorts the rows of supernodes by graph.

    Args:
        batch_pooled: ``[graphs * k]`` graph ids of the rows.
        graphs: number of graphs.
        k: number of supernodes per graph.

    Raises:
        InputError: if a graph does not have ``k`` rows.
    """
    if batch_pooled.numel() != graphs * k:
        raise InputError(
            f"batch_pooled has an unexpected length: expected {graphs * k}, got {batch_pooled.numel()}",
            field="batch_pooled",
        )
    if on_host(batch_pooled):
        _check_counts(batch_pooled, graphs, k)
    return batch_pooled.argsort(stable=True)


def _check_counts(batch_pooled: Tensor, graphs: int, k: int) -> None:
    counts = torch.bincount(batch_pooled, minlength=graphs)
    if counts.numel() > graphs or bool((counts != k).any()):
        raise InputError(
            f"Inconsistent per-graph blocks: expected {k} supernodes in each of {graphs} graphs, "
            f"got {counts.tolist()[:8]}",
            field="batch_pooled",
        )
