"""Connector of dense assignments: ``A' = S^T A S``."""

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
    """An argument has the wrong type. Also a ``TypeError``."""


def dense_connect(adj: Tensor, s: Tensor) -> Tensor:
    """Return the product ``S^T A S`` without post-processing.

    Args:
        adj: ``[B, N, N]``.
        s: ``[B, N, K]``.

    Returns:
        ``[B, K, K]``.
    """
    wide = widen(s)
    return matmul(wide.transpose(-1, -2), matmul(adj.to(wide.dtype), wide)).to(s.dtype)


class DenseConnect(Connect):
    r"""Connector :math:`\mathbf{A}' = \mathbf{S}^\top \mathbf{A} \mathbf{S}` with post-processing.

    Args:
        remove_self_loops: set the diagonal to zero.
        degree_norm: divide weights by the square roots of both degrees.
        adj_transpose: dense adjacencies have targets in rows, so degrees are column sums.
        edge_weight_norm: divide the weights of each graph by the largest.
        sparse_output: return one block-diagonal edge list instead of ``[B, K, K]`` for sparse input.
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
            edge_index: dense ``[N, N]`` / ``[B, N, N]``, edge list, sparse matrix or ``SparseTensor``.
            so: dense assignment ``[N, K]`` or ``[B, N, K]``.
            edge_weight: weights of an edge list.
            batch: ``[N]`` graph ids for sparse connectivity, in any order; by default ``so.batch``.
            batch_pooled: ``[B * K]`` graph ids for ``edge_weight_norm`` of a sparse result.
            batch_size: number of graphs; by default the largest id + 1.
            **kwargs: ignored.

        Returns:
            A dense ``[B, K, K]`` and ``None``, or the pooled connectivity of the same type as ``edge_index`` and the
            weights of an edge list.

        Raises:
            InputError: if the assignment is missing, sparse, or does not fit the connectivity.
        """
        pooled = connect_by_engine(self, so, edge_index, edge_weight, self.sparse_output)
        if pooled is not None:
            return pooled
        s = dense_assignment(so)
        raw = self._shared_product(so, edge_index, edge_weight)
        if is_dense_adj(edge_index):
            return self.postprocess(self.dense_connect(edge_index, s) if raw is None else raw), None
        if raw is not None:
            return self._postprocess_sparse(raw, Container.of(edge_index), batch_pooled)
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
        return self._postprocess_sparse(view.coarse(), Container.of(edge_index), batch_pooled)

    @staticmethod
    def dense_connect(adj: Tensor, s: Tensor) -> Tensor:
        """Return the product ``S^T A S`` without post-processing.

        Args:
            adj: ``[N, N]`` or ``[B, N, N]``.
            s: ``[N, K]`` or ``[B, N, K]``.

        Returns:
            ``[B, K, K]``.

        Raises:
            InputError: if the shapes do not fit.
        """
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

    def _shared_product(self, so: SelectOutput, edge_index: Any, edge_weight: Tensor | None) -> Tensor | None:
        """Return the ``S^T A S`` that the loss of this forward pass also needs, or ``None`` if it cannot be shared."""
        if so is None or so._memo is None or is_overridden(self, "dense_connect"):
            return None
        product: Tensor | None = so._memo.shared_product(so, edge_index, edge_weight)
        return product

    def _postprocess_sparse(
        self, raw: Tensor, container: Container, batch_pooled: Tensor | None
    ) -> tuple[Any, Tensor | None]:
        """Post-process ``S^T A S`` of sparse connectivity. The result is dense or sparse, as ``sparse_output`` says."""
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
        """Apply the options of this connector to ``S^T A S``.

        Args:
            raw: ``[B, K, K]``.
            adj_transpose: ``raw`` has targets in rows; by default the option of this connector.
        """
        return postprocess_adj_pool_dense(
            raw,
            self.remove_self_loops,
            self.degree_norm,
            self.adj_transpose if adj_transpose is None else adj_transpose,
            self.edge_weight_norm,
        )


def dense_assignment(so: SelectOutput | None) -> Tensor:
    """Return the matrix of a dense assignment.

    Raises:
        InputError: if the assignment is missing or sparse.
    """
    if so is None:
        raise InputError("SelectOutput is required to connect supernodes, got None", field="so")
    if not isinstance(so.s, Tensor):
        raise _TypeInputError(f"SelectOutput.s must be a torch.Tensor, got {type(so.s).__name__}", field="so")
    if so.s.layout is not torch.strided:
        raise InputError("DenseConnect needs a dense assignment matrix, got a sparse one", field="so")
    return so.s
