"""Two layouts, one formula: losses and products are written against a view.

:class:`DenseView` holds padded ``[B, N, K]`` assignments with dense adjacencies, :class:`SegmentView` a
flat ``[N, K]`` with an edge list and graph ids. Both answer the same questions with the same
shapes, so a formula over a view is written once:

>>> def mincut(view):
...     return -view.quad() / (view.degree_quad() + 1e-8)  # [B]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.utils.ops.adjacency import rank3_trace, weighted_degree
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.connectivity import check_and_filter_edge_weights
from tgp.utils.ops.products import EdgeMatrix

__all__ = ["DenseView", "EdgeEntries", "LayoutView", "SegmentView"]


class EdgeEntries(NamedTuple):
    """Edges as flat vectors: positions of both ends in :meth:`LayoutView.rows`, weights and graph ids."""

    source: Tensor
    target: Tensor
    weight: Tensor
    graph: Tensor


class LayoutView(ABC):
    """An assignment ``S`` and an adjacency ``A`` over ``B`` graphs.

    ``A_ij`` is the weight of the edge ``i -> j``; degrees are sums over ``j``. Per-node values have the
    *node shape* of the view (``[B, N, ...]`` or ``[N, ...]``), per-graph ones start with ``B``. A graph without
    nodes or edges contributes zeros, never NaN.
    """

    s: Tensor
    num_graphs: int

    @property
    def k(self) -> int:
        """Supernodes per graph."""
        return self.s.size(-1)

    @cached_property
    def assignment_image(self) -> Tensor:
        """``A S``, in node shape."""
        return self.propagate(self.s)

    def quad(self) -> Tensor:
        """``[B]``: ``Tr(S^T A S)``, the weight kept inside supernodes."""
        return self.sum((self.assignment_image * self.s).sum(-1))

    def degree_quad(self) -> Tensor:
        """``[B]``: ``Tr(S^T D S) = sum_i d_i |S_i|^2``."""
        return self.sum(self.degree * self.s.square().sum(-1))

    def volume(self) -> Tensor:
        """``[B]``: total edge weight."""
        return self.sum(self.degree)

    def column_sums(self) -> Tensor:
        """``[B, K]``: ``S^T 1``, soft sizes of the supernodes."""
        return self.sum(self.s)

    def gram(self) -> Tensor:
        """``[B, K, K]``: ``S^T S``."""
        return self.product(self.s, self.s)

    def coarse(self) -> Tensor:
        """``[B, K, K]``: ``S^T A S`` as it is, before any post-processing."""
        return self._coarse

    @cached_property
    def _coarse(self) -> Tensor:
        return self.product(self.s, self.assignment_image)

    @property
    @abstractmethod
    def degree(self) -> Tensor:
        """Out-degree of every node, in node shape."""

    @property
    @abstractmethod
    def counts(self) -> Tensor:
        """``[B]``: real nodes per graph, in the dtype of ``S``."""

    @abstractmethod
    def propagate(self, values: Tensor) -> Tensor:
        """``A values``, in node shape."""

    @abstractmethod
    def sum(self, values: Tensor) -> Tensor:
        """Sum over the real nodes of each graph: node shape -> ``[B, ...]``."""

    @abstractmethod
    def product(self, u: Tensor, v: Tensor) -> Tensor:
        """``[B, K, F]``: ``u^T v`` of each graph."""

    @abstractmethod
    def spread(self, values: Tensor) -> Tensor:
        """Give every node the value of its graph: ``[B, ...]`` -> node shape (with broadcasting)."""

    @abstractmethod
    def padded(self) -> tuple[Tensor, Tensor]:
        """``S`` as ``[B, N, K]`` and ``[B, N]`` bool of its real rows."""

    @abstractmethod
    def rows(self) -> tuple[Tensor, Tensor]:
        """``S`` as flat rows ``[R, K]`` and their graph ids; :meth:`entries` point into these rows."""

    @abstractmethod
    def entries(self) -> EdgeEntries:
        """Every edge; in a padded view every non-zero entry of ``A``, where parallel edges are one."""

    @abstractmethod
    def merged(self) -> EdgeEntries:
        """Every non-zero entry of ``A``, parallel edges summed."""

    @abstractmethod
    def squares(self) -> Tensor:
        """Squares of the non-zero entries of ``A`` (or of all), in any shape."""

    def sum_entries(self, values: Tensor, entries: EdgeEntries) -> Tensor:
        """``[B]``: sum of one value per edge over the edges of each graph."""
        return values.new_zeros(self.num_graphs).index_add(0, entries.graph, values)


class DenseView(LayoutView):
    """Padded graphs.

    Args:
        s: ``[B, N, K]`` (or ``[N, K]``); rows outside ``mask`` are treated as zero.
        adj: ``[B, N, N]`` (or ``[N, N]``), or ``None`` for formulas that need none.
        mask: ``[B, N]`` real nodes; all if absent.
        clean: rows of ``s`` outside ``mask`` are zero already, as selectors make them.
    """

    def __init__(
        self,
        s: Tensor,
        adj: Tensor | None = None,
        mask: Tensor | None = None,
        clean: bool = False,
    ) -> None:
        s = s.unsqueeze(0) if s.dim() == 2 else s
        if s.dim() != 3:
            raise InputError(f"s must have shape [B, N, K], got {list(s.shape)}", field="s")
        if adj is not None:
            adj = adj.unsqueeze(0) if adj.dim() == 2 else adj
            if adj.dim() != 3 or adj.size(-1) != s.size(1) or adj.size(0) != s.size(0):
                raise InputError(
                    f"adj must have shape {[s.size(0), s.size(1), s.size(1)]}, got {list(adj.shape)}",
                    field="adj",
                )
            adj = adj.to(s.dtype)
        if mask is not None:
            mask = mask.unsqueeze(0) if mask.dim() == 1 else mask
            s = s if clean else s * mask.unsqueeze(-1).to(s.dtype)
        self.s = s
        self._adj = adj
        self.mask = None if mask is None else mask.bool()
        self.num_graphs = s.size(0)

    @property
    def adj(self) -> Tensor:
        """``[B, N, N]``."""
        if self._adj is None:
            raise InputError("this formula needs an adjacency, got None", field="adj")
        return self._adj

    @cached_property
    def degree(self) -> Tensor:
        return self.adj.sum(-1)

    @cached_property
    def counts(self) -> Tensor:
        if self.mask is None:
            return self.s.new_full((self.num_graphs,), self.s.size(1))
        return self.mask.sum(-1).to(self.s.dtype)

    def propagate(self, values: Tensor) -> Tensor:
        return self.adj @ values if values.dim() == 3 else (self.adj @ values.unsqueeze(-1)).squeeze(-1)

    def sum(self, values: Tensor) -> Tensor:
        if self.mask is not None:
            mask = self.mask.view(*self.mask.shape, *[1] * (values.dim() - 2))
            values = values.masked_fill(~mask, 0)
        return values.sum(1)

    def product(self, u: Tensor, v: Tensor) -> Tensor:
        return u.transpose(1, 2) @ v

    def quad(self) -> Tensor:
        return rank3_trace(self._coarse)

    def spread(self, values: Tensor) -> Tensor:
        return values.unsqueeze(1)

    def padded(self) -> tuple[Tensor, Tensor]:
        mask = self.mask
        if mask is None:
            mask = torch.ones(self.s.shape[:2], dtype=torch.bool, device=self.s.device)
        return self.s, mask

    def rows(self) -> tuple[Tensor, Tensor]:
        graph = torch.arange(self.num_graphs, device=self.s.device).repeat_interleave(self.s.size(1))
        return self.s.flatten(0, 1), graph

    def entries(self) -> EdgeEntries:
        graph, row, col = self.adj.nonzero(as_tuple=True)
        offset = graph * self.s.size(1)
        return EdgeEntries(row + offset, col + offset, self.adj[graph, row, col], graph)

    def merged(self) -> EdgeEntries:
        return self.entries()

    def squares(self) -> Tensor:
        return self.adj.square()


class SegmentView(LayoutView):
    """Flat graphs.

    Args:
        s: ``[N, K]``.
        edge_index: ``[2, E]``, in any order, or ``None`` for formulas that need none.
        edge_weight: ``[E]``, ``[E, 1]`` or ``None`` for ones.
        batch: ``[N]`` graph ids, in any order; one graph if absent.
        batch_size: number of graphs; default largest id + 1.
        layout: the layout of ``batch``, where it is at hand.
        padded: ``s`` as ``[B, N, K]`` of a padded call that runs on flat rows; entries are then those of its
            adjacency.
    """

    def __init__(
        self,
        s: Tensor,
        edge_index: Tensor | None = None,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        layout: GraphLayout | None = None,
        padded: Tensor | None = None,
    ) -> None:
        if s.dim() != 2:
            raise InputError(f"s must have shape [N, K], got {list(s.shape)}", field="s")
        self.s = s
        self._edge_index = edge_index
        weight = check_and_filter_edge_weights(edge_weight)
        self.edge_weight = None if weight is None else weight.to(s.dtype)
        self.layout = GraphLayout(batch, s.size(0), batch_size) if layout is None else layout
        self.batch = batch
        self._of_padded = padded is not None
        if padded is not None:
            self._padded = padded
        self.num_graphs = self.layout.batch_size

    @property
    def edge_index(self) -> Tensor:
        """``[2, E]``."""
        if self._edge_index is None:
            raise InputError("this formula needs an edge list, got None", field="edge_index")
        return self._edge_index

    @cached_property
    def degree(self) -> Tensor:
        return weighted_degree(self.edge_index[0], self.edge_weight, self.s.size(0)).to(self.s.dtype)

    @cached_property
    def counts(self) -> Tensor:
        return self.layout.counts.to(self.s)

    def propagate(self, values: Tensor) -> Tensor:
        return self._matrix @ values

    @cached_property
    def _matrix(self) -> EdgeMatrix:
        return EdgeMatrix(*self.edge_index, self.edge_weight, self.s.size(0))

    @cached_property
    def _padded(self) -> Tensor:
        return self.layout.pad(self.s)

    def sum(self, values: Tensor) -> Tensor:
        return self.layout.sum(values)

    def product(self, u: Tensor, v: Tensor) -> Tensor:
        if u is self.s and self.layout.padding_pays(u.size(1), v.size(1)):
            return self._padded.transpose(1, 2) @ (self._padded if v is u else self.layout.pad(v))
        return self.layout.matmul(u, v)

    def spread(self, values: Tensor) -> Tensor:
        if self.batch is None:
            return values.expand(self.s.size(0), *values.shape[1:])
        return values.index_select(0, self.batch)

    def padded(self) -> tuple[Tensor, Tensor]:
        return self._padded, self.layout.mask().to(self.s.device)

    def rows(self) -> tuple[Tensor, Tensor]:
        return self.s, self._graph

    @cached_property
    def _graph(self) -> Tensor:
        if self.batch is not None:
            return self.batch
        return torch.zeros(self.s.size(0), dtype=torch.long, device=self.s.device)

    def entries(self) -> EdgeEntries:
        if self._of_padded:
            return self.merged()
        source, target = self.edge_index
        weight = self.edge_weight
        if weight is None:
            weight = self.s.new_ones(source.numel())
        return EdgeEntries(source, target, weight, self._graph.index_select(0, source))

    def squares(self) -> Tensor:
        return self.merged().weight.square()

    def merged(self) -> EdgeEntries:
        size = max(self.s.size(0), 1)
        source, target = self.edge_index
        weight = self.s.new_ones(source.numel()) if self.edge_weight is None else self.edge_weight
        key = source * size + target
        if not bool((key[1:] > key[:-1]).all()):  # most edge lists are sorted and free of repeats
            key, group = torch.unique(key, return_inverse=True)
            weight = weight.new_zeros(key.numel()).index_add(0, group, weight)
            source, target = key // size, key % size
        if self.edge_weight is not None and not bool(weight.all()):
            source, target, weight = (part[weight != 0] for part in (source, target, weight))
        return EdgeEntries(source, target, weight, self._graph.index_select(0, source))
