"""Features of supernodes back to nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select.base_select import SelectOutput
from tgp.utils.operator import Operator
from tgp.utils.ops.assign import pseudo_inverse
from tgp.utils.ops.batching import GraphLayout, expand_compacted_rows
from tgp.utils.tracing import on_host
from tgp.utils.typing import LiftType, ReduceType

__all__ = ["BaseLift", "Lift"]

HALF = (torch.float16, torch.bfloat16)
_SCATTER = {"mean": "mean", "min": "amin", "max": "amax", "mul": "prod"}
_REDUCTIONS = ("sum", "add", *_SCATTER)


class _OpError(InputError, RuntimeError):
    """Also a ``RuntimeError``, which callers may catch."""


class Lift(Operator):
    """Base of lifters: ``forward(x_pool, so)`` returns features of nodes."""

    def forward(self, x_pool: Tensor, so: SelectOutput, **kwargs: Any) -> Tensor:
        """Lift ``x_pool``. Subclasses implement this method."""
        raise NotImplementedError(f"{type(self).__name__} must implement forward")


class BaseLift(Lift):
    r"""Lift by a matrix: :math:`\mathbf{X} = \mathbf{M} \mathbf{X}'` with :math:`\mathbf{M}` made of
    the assignment.

    Args:
        matrix_op: ``precomputed`` (``s_inv`` transposed), ``transpose`` (``s``) or ``inverse``
            (pseudo-inverse of ``s``, transposed).
        reduce_op: how entries of one node meet, for sparse assignments: ``sum``, ``mean``, ``min``,
            ``max`` or ``mul``. Nodes without entry get 0.
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
        """Lift ``x_pool``.

        Args:
            x_pool: ``[K, F]`` for a sparse assignment; ``[B, K, F]``, ``[B * K, F]``, ``[K, F]`` (shared by all
                graphs) or only the rows of non-empty supernodes for a dense one.
            so: the assignment.
            batch: ``[N]`` graph ids, in any order; default ``so.batch``.
            batch_pooled: graph ids of the rows of ``x_pool``; default contiguous blocks of ``K``.
            batch_size: number of graphs.

        Returns:
            ``[N, F]`` in the order of the nodes, or padded ``[B, N, F]`` for a batched dense assignment.
            ``so.to_nodes(lifted)`` brings padded features back to the order of the nodes.
        """
        if so is None:
            raise _NoAssignment("a SelectOutput is needed to lift, got None", field="so")
        if self.matrix_op not in ("precomputed", "transpose", "inverse"):
            raise _OpError(
                f"'matrix_op' must be one of ['transpose', 'inverse', 'precomputed'], got {self.matrix_op!r}",
                field="matrix_op",
            )
        if so.is_sparse:
            return self._sparse(x_pool, so)
        matrix = self._dense_matrix(so)
        matrix = matrix.to(x_pool.dtype) if x_pool.is_floating_point() else matrix
        if matrix.dim() == 3:
            return matrix @ _blocks_of_batch(x_pool, so, matrix)
        batch = so.batch if batch is None else batch
        batch_size = so.batch_size if batch_size is None else batch_size
        layout = GraphLayout(batch, matrix.size(0), batch_size)
        return _flat(matrix, x_pool, layout, batch_pooled)

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
        if self.reduce_op not in _REDUCTIONS:
            raise InputError(
                f"Encountered invalid `reduce` argument {self.reduce_op!r}: expected one of {', '.join(_REDUCTIONS)}",
                field="reduce_op",
            )
        rows, cols, values = self._entries(so)
        lifted = x_pool.index_select(0, cols)
        half = lifted.dtype in HALF
        if half:
            lifted = lifted.float()
        if values is not None:
            lifted = lifted * values.unsqueeze(-1)
        if rows is not None:
            lifted = self._collect(lifted, rows, so)
        return lifted.to(x_pool.dtype) if half else lifted

    def _collect(self, lifted: Tensor, rows: Tensor, so: SelectOutput) -> Tensor:
        """Combine the entries of each node; nodes without entry get 0."""
        out = lifted.new_zeros((so.num_nodes, lifted.size(1)))
        if self.reduce_op in ("sum", "add") or so.cluster is not None:
            return out.index_add(0, rows, lifted)
        place = rows.unsqueeze(-1).expand_as(lifted)
        return out.scatter_reduce(0, place, lifted, _SCATTER[self.reduce_op], include_self=False)

    def _entries(self, so: SelectOutput) -> tuple[Tensor | None, Tensor, Tensor | None]:
        """Return nodes (``None``: entry i is node i), supernodes and values (``None``: ones) of the lift matrix."""
        op = so.s_inv_op if self.matrix_op == "precomputed" else self.matrix_op
        if self.matrix_op == "precomputed" and so._given_s_inv:
            inverse = so.s_inv.to_sparse_coo().coalesce()
            cols, rows = inverse.indices()
            return rows, cols, inverse.values()
        if op == "transpose":
            return so._node_index, so.cluster_index, so._weight
        if so.cluster is None:
            inverse = pseudo_inverse(so.s).coalesce()
            cols, rows = inverse.indices()
            return rows, cols, inverse.values()
        weight = so.weight.float() if so.weight.dtype in HALF else so.weight
        norm = weight.new_zeros(so.num_supernodes).index_add(0, so.cluster_index, weight * weight)
        norm = torch.where(norm == 0, torch.ones_like(norm), norm)
        return so._node_index, so.cluster_index, weight / norm[so.cluster_index]


class _NoAssignment(InputError, AttributeError):
    """Also an ``AttributeError``, which callers may catch."""


def _blocks_of_batch(x_pool: Tensor, so: SelectOutput, matrix: Tensor) -> Tensor:
    """Return padded, flat or compacted pooled features as ``[B, K, F]``."""
    if x_pool.dim() == 3:
        return x_pool
    graphs, k = matrix.size(0), matrix.size(2)
    if x_pool.size(0) != graphs * k:
        x_pool = expand_compacted_rows(x_pool, so.out_mask, graphs * k)
    return x_pool.view(graphs, k, -1)


def _flat(matrix: Tensor, x_pool: Tensor, layout: GraphLayout, batch_pooled: Tensor | None) -> Tensor:
    k = matrix.size(1)
    graphs = layout.batch_size
    if x_pool.dim() == 3:
        x_pool = x_pool.flatten(0, 1)
        batch_pooled = None
    rows = x_pool.size(0)
    if layout.single and rows == k:
        return matrix @ x_pool
    if rows == k and batch_pooled is None:
        return matrix @ x_pool
    if rows != graphs * k:
        raise InputError(
            f"Unexpected pooled feature shape {list(x_pool.shape)}: expected {graphs} graphs of {k} supernodes "
            f"({graphs * k} rows) or {k} rows shared by all",
            field="x_pool",
        )
    if batch_pooled is not None:
        x_pool = x_pool[_block_order(batch_pooled, rows, graphs, k)]
    return layout.expand(matrix, x_pool.view(graphs, k, -1))


def _block_order(batch_pooled: Tensor, rows: int, graphs: int, k: int) -> Tensor:
    if batch_pooled.numel() != rows:
        raise InputError(
            f"batch_pooled has an unexpected length: expected {rows}, got {batch_pooled.numel()}",
            field="batch_pooled",
        )
    if on_host(batch_pooled):
        check_blocks(batch_pooled, graphs, k)
    return batch_pooled.argsort(stable=True)


def check_blocks(batch_pooled: Tensor, graphs: int, k: int) -> None:
    """Check that ``batch_pooled`` names each of ``graphs`` graphs ``k`` times."""
    counts = torch.bincount(batch_pooled, minlength=graphs)
    if counts.numel() > graphs or bool((counts != k).any()):
        raise InputError(
            f"Inconsistent per-graph blocks: expected {k} supernodes in each of {graphs} graphs, "
            f"got {counts.tolist()[:8]}",
            field="batch_pooled",
        )
