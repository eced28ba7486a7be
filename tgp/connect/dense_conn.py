"""Edges between supernodes of a dense assignment: ``A' = S^T A S``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.connect.base_conn import Connect
from tgp.errors import InputError
from tgp.select.base_select import SelectOutput
from tgp.utils.engine_link import connect_by_engine
from tgp.utils.layout import SegmentView
from tgp.utils.ops.adjacency import (
    dense_to_block_diag,
    postprocess_adj_pool_dense,
    postprocess_adj_pool_sparse,
)
from tgp.utils.ops.connectivity import Container, connectivity_to_edge_index, is_dense_adj
from tgp.utils.precision import matmul, widen
from tgp.utils.user_code import is_overridden

__all__ = ["DenseConnect", "dense_connect"]


class _TypeInputError(InputError, TypeError):
    """Also a ``TypeError``: an argument of the wrong type."""


def dense_connect(adj: Tensor, s: Tensor) -> Tensor:
    """Return the raw product ``S^T A S``: ``[B, N, N]``, ``[B, N, K]`` -> ``[B, K, K]``."""
    wide = widen(s)
    return matmul(wide.transpose(-1, -2), matmul(adj.to(wide.dtype), wide)).to(s.dtype)


class DenseConnect(Connect):
    r"""Coarse adjacency :math:`\mathbf{A}' = \mathbf{S}^\top \mathbf{A} \mathbf{S}`, post-processed.

    Args:
        remove_self_loops: zero the diagonal.
        degree_norm: divide by the roots of both degrees.
        adj_transpose: a dense adjacency has targets in rows, so that degrees are column sums.
        edge_weight_norm: divide each graph's weights by the largest.
        sparse_output: return one block-diagonal edge list instead of ``[B, K, K]``, for sparse input.
    """

    def __init__(
        self,
        remove_self_loops: bool = True,
        degree_norm: bool = True,
        adj_transpose: bool = True,
        edge_weight_norm: bool = False,
        sparse_output: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(sparse_output, bool):
            raise _TypeInputError(
                f"sparse_output must be a bool, got {type(sparse_output).__name__}", field="sparse_output"
            )
        self.remove_self_loops = remove_self_loops
        self.degree_norm = degree_norm
        self.adj_transpose = adj_transpose
        self.edge_weight_norm = edge_weight_norm
        self.sparse_output = sparse_output

    def forward(
        self,
        edge_index: Any,
        so: SelectOutput,
        *,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_pooled: Tensor | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> tuple[Any, Tensor | None]:
        """Connect the supernodes of a dense assignment.

        Args:
            edge_index: dense ``[N, N]`` / ``[B, N, N]``, or any sparse connectivity.
            so: dense assignment ``[N, K]`` or ``[B, N, K]``.
            edge_weight: weights of an edge list.
            batch: ``[N]`` graph ids for sparse connectivity, in any order; default ``so.batch``.
            batch_pooled: ``[B * K]`` graph ids for ``edge_weight_norm`` of a sparse result.
            batch_size: number of graphs; default largest id + 1.
        """
        pooled = connect_by_engine(self, so, edge_index, edge_weight, self.sparse_output)
        if pooled is not None:
            return pooled
        s = _dense_assignment(so)
        raw = self._shared_product(so, edge_index, edge_weight)
        if is_dense_adj(edge_index):
            return self.postprocess(self.dense_connect(edge_index, s) if raw is None else raw), None
        if raw is not None:
            return self._finish(raw, Container.of(edge_index), batch_pooled)
        if s.dim() == 3 and s.size(0) == 1:
            s = s[0]
        if s.dim() != 2:
            raise InputError(
                f"SelectOutput.s must have shape [N, K] or [1, N, K] for sparse connectivity, got {list(s.shape)}",
                field="s",
            )
        index, weight = connectivity_to_edge_index(edge_index, edge_weight)
        batch = so.batch if batch is None else batch
        view = SegmentView(s, index, weight, batch, batch_size if batch_size is not None else so.batch_size)
        return self._finish(view.coarse(), Container.of(edge_index), batch_pooled)

    @staticmethod
    def dense_connect(adj: Tensor, s: Tensor) -> Tensor:
        """Return the raw product ``S^T A S``, ``[B, K, K]``.

        Args:
            adj: ``[N, N]`` or ``[B, N, N]``.
            s: ``[N, K]`` or ``[B, N, K]``.
        """
        return _dense_product(adj, s)

    def _shared_product(self, so: SelectOutput, edge_index: Any, edge_weight: Tensor | None) -> Tensor | None:
        """Return the ``S^T A S`` that this forward pass of a pooler has already, or ``None``."""
        if so is None or so._memo is None or is_overridden(self, "dense_connect"):
            return None
        return so._memo.shared_product(so, edge_index, edge_weight)

    def _finish(
        self, raw: Tensor, container: Container, batch_pooled: Tensor | None
    ) -> tuple[Any, Tensor | None]:
        """Post-process a raw ``[B, K, K]`` of sparse connectivity and return it in the requested form."""
        if not self.sparse_output:
            return self.postprocess(raw, adj_transpose=False), None
        size = raw.size(0) * raw.size(-1)
        if batch_pooled is None and self.edge_weight_norm:
            batch_pooled = torch.arange(raw.size(0), device=raw.device).repeat_interleave(raw.size(-1))
        index, weight = postprocess_adj_pool_sparse(
            *dense_to_block_diag(raw),
            size,
            self.remove_self_loops,
            self.degree_norm,
            self.edge_weight_norm,
            batch_pooled,
        )
        return container.pack(index, weight, size)

    def postprocess(self, raw: Tensor, adj_transpose: bool | None = None) -> Tensor:
        """Post-process a raw ``[B, K, K]`` with the options of this connector."""
        return postprocess_adj_pool_dense(
            raw,
            self.remove_self_loops,
            self.degree_norm,
            self.adj_transpose if adj_transpose is None else adj_transpose,
            self.edge_weight_norm,
        )


def _dense_assignment(so: SelectOutput | None) -> Tensor:
    if so is None:
        raise InputError("SelectOutput is required to connect supernodes, got None", field="so")
    if not isinstance(so.s, Tensor):
        raise _TypeInputError(f"SelectOutput.s must be a torch.Tensor, got {type(so.s).__name__}", field="so")
    if so.s.layout is not torch.strided:
        raise InputError("DenseConnect needs a dense assignment matrix, got a sparse one", field="so")
    return so.s


def _dense_product(adj: Tensor, s: Tensor) -> Tensor:
    adj = adj.unsqueeze(0) if adj.dim() == 2 else adj
    s = s.unsqueeze(0) if s.dim() == 2 else s
    if adj.dim() != 3 or s.dim() != 3:
        raise InputError(
            f"Expected batched dense inputs with 3 dimensions, got {list(adj.shape)} and {list(s.shape)}",
            field="edge_index",
        )
    if adj.size(0) != s.size(0):
        raise InputError(
            f"batch sizes do not match: adjacency {adj.size(0)}, assignment {s.size(0)}", field="so"
        )
    return dense_connect(adj, s)
