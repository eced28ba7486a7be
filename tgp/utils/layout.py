"""Views of assignment and adjacency in two layouts, so that a formula works on both.

:class:`DenseView` contains padded ``[B, N, K]`` assignments with dense adjacencies. :class:`SegmentView` contains a
flat ``[N, K]`` assignment with an edge list and graph ids. Both have the same methods, which return the same shapes:

>>> def mincut(view):
...     return -view.quad() / (view.degree_quad() + 1e-8)  # [B]

Views compute in float32 or wider, also for half-precision assignments and under autocast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.utils.ops import connectivity
from tgp.utils.ops.adjacency import rank3_trace, weighted_degree
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.connectivity import EdgeEntries, merge_entries
from tgp.utils.ops.products import EdgeMatrix
from tgp.utils.precision import matmul, widen
from tgp.utils.tracing import lazy_attribute, on_host

__all__ = ["DenseView", "EdgeEntries", "LayoutView", "SegmentView"]


class LayoutView(ABC):
    """Assignment ``S`` and adjacency ``A`` of ``B`` graphs.

    ``A_ij`` is the weight of the edge ``i -> j``; degrees are sums over ``j``. Per-node values have the
    *node shape* of the view (``[B, N, ...]`` or ``[N, ...]``), per-graph ones start with ``B``. A graph without
    nodes or edges contributes zeros, never NaN.

    Attributes:
        s: The assignment, in float32 if it was given in half precision. All values that formulas use have
            this dtype.
        dtype: The dtype in which the assignment was given, and which :meth:`coarse` returns.
        num_graphs: ``B``.
    """

    s: Tensor
    dtype: torch.dtype
    num_graphs: int

    @property
    def k(self) -> int:
        """Number of supernodes per graph."""
        return self.s.size(-1)

    @lazy_attribute
    def assignment_image(self) -> Tensor:
        """``A S``, in node shape."""
        return self.propagate(self.s)

    def quad(self) -> Tensor:
        """Return ``[B]`` traces ``Tr(S^T A S)``, the edge weight inside supernodes."""
        return self.sum((self.assignment_image * self.s).sum(-1))

    def degree_quad(self) -> Tensor:
        """Return ``[B]`` traces ``Tr(S^T D S) = sum_i d_i |S_i|^2``."""
        return self.sum(self.degree * self.s.square().sum(-1))

    def volume(self) -> Tensor:
        """Return ``[B]`` total edge weights."""
        return self.sum(self.degree)

    def column_sums(self) -> Tensor:
        """Return ``[B, K]`` column sums ``S^T 1``, the soft sizes of the supernodes."""
        return self.sum(self.s)

    def gram(self) -> Tensor:
        """Return ``[B, K, K]`` products ``S^T S``."""
        return self.product(self.s, self.s)

    def coarse(self) -> Tensor:
        """Return ``[B, K, K]`` products ``S^T A S`` without post-processing, in the dtype of the given assignment."""
        return self._coarse.to(self.dtype)

    @lazy_attribute
    def _coarse(self) -> Tensor:
        return self.product(self.s, self.assignment_image)

    @property
    @abstractmethod
    def degree(self) -> Tensor:
        """Out-degree of every node, in node shape."""

    @property
    @abstractmethod
    def counts(self) -> Tensor:
        """``[B]`` number of nodes of each graph without padding, in the dtype of :attr:`s`."""

    @abstractmethod
    def propagate(self, values: Tensor) -> Tensor:
        """Return ``A values``, in node shape."""

    @abstractmethod
    def sum(self, values: Tensor) -> Tensor:
        """Return the sums ``[B, ...]`` of values in node shape over the nodes of each graph, in float32 or wider."""

    @abstractmethod
    def product(self, u: Tensor, v: Tensor) -> Tensor:
        """Return ``[B, K, F]`` products ``u^T v`` of each graph, in the dtype of ``v``."""

    @abstractmethod
    def spread(self, values: Tensor) -> Tensor:
        """Return the value ``[B, ...]`` of its graph for every node, in node shape or a shape that broadcasts to it."""

    @abstractmethod
    def padded(self) -> tuple[Tensor, Tensor]:
        """Return ``S`` as ``[B, N, K]`` and the mask ``[B, N]`` of the rows that are not padding."""

    @abstractmethod
    def rows(self) -> tuple[Tensor, Tensor]:
        """Return ``S`` as flat rows ``[R, K]`` and their graph ids. :meth:`entries` refer to these rows."""

    @abstractmethod
    def entries(self) -> EdgeEntries:
        """Return every edge. In a padded view, parallel edges are merged and edges of weight 0 are removed."""

    @abstractmethod
    def merged(self) -> EdgeEntries:
        """Return every non-zero entry of ``A``. Weights of parallel edges are summed."""

    @abstractmethod
    def squares(self) -> Tensor:
        """Return the squares of the entries of ``A`` in any shape. Zeros may be missing."""

    def sum_entries(self, values: Tensor, entries: EdgeEntries) -> Tensor:
        """Return ``[B]`` sums of one value per edge over the edges of each graph, in float32 or wider."""
        values = widen(values)
        return values.new_zeros(self.num_graphs).index_add(0, entries.graph, values)

    def column_quantile(self, position: Tensor) -> Tensor:
        """Return ``[B, K]`` the entry at a position of every column of ``S``, in descending order.

        Args:
            position: ``[B]`` positions below the number of nodes of each graph.
        """
        padded, real = self.padded()
        ordered = padded.masked_fill(~real.unsqueeze(-1), -1).sort(dim=1, descending=True).values
        return ordered.gather(1, position.view(-1, 1, 1).expand(-1, 1, self.k)).squeeze(1)

    def variation(self) -> tuple[Tensor, Tensor]:
        """Return ``[B]`` sums of ``A_ij |S_i - S_j|_1`` over the entries of ``A``, and ``[B]`` numbers of entries."""
        edges = self.entries()
        return self._sum_gaps(edges), self.sum_entries(torch.ones_like(edges.weight), edges)

    def _sum_gaps(self, edges: EdgeEntries) -> Tensor:
        """Return ``[B]`` sums of ``A_ij |S_i - S_j|_1`` over the given edges."""
        rows, _ = self.rows()
        matrix = EdgeMatrix(edges.source, edges.target, None, rows.size(0), checked=True)
        return self.sum_entries(edges.weight * matrix.distances(rows), edges)


class DenseView(LayoutView):
    """View of padded graphs.

    Args:
        s: ``[B, N, K]`` (or ``[N, K]``). Rows outside of ``mask`` are treated as zero.
        adj: ``[B, N, N]`` (or ``[N, N]``), or ``None`` for formulas that do not need it.
        mask: ``[B, N]`` mask of the nodes that are not padding; ``None`` if there is no padding.
        clean: True if rows of ``s`` outside of ``mask`` are already zero.
    """

    def __init__(
        self,
        s: Tensor,
        adj: Tensor | None = None,
        mask: Tensor | None = None,
        clean: bool = False,
    ) -> None:
        dtype = s.dtype
        s = widen(s.unsqueeze(0) if s.dim() == 2 else s)
        if s.dim() != 3:
            raise InputError(f"s must have shape [B, N, K], got {list(s.shape)}.", field="s")
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
        self.s, self.dtype = s, dtype
        self._adj = adj
        self.mask = None if mask is None else mask.bool()
        self.num_graphs = s.size(0)

    @property
    def adj(self) -> Tensor:
        """``[B, N, N]``."""
        if self._adj is None:
            raise InputError("adj is missing: expected an adjacency for this formula, got None.", field="adj")
        return self._adj

    @lazy_attribute
    def degree(self) -> Tensor:
        return self.adj.sum(-1)

    @lazy_attribute
    def counts(self) -> Tensor:
        if self.mask is None:
            return self.s.new_full((self.num_graphs,), self.s.size(1))
        return self.mask.sum(-1).to(self.s.dtype)

    def propagate(self, values: Tensor) -> Tensor:
        if values.dim() == 3:
            return matmul(self.adj, values)
        return matmul(self.adj, values.unsqueeze(-1)).squeeze(-1)

    def sum(self, values: Tensor) -> Tensor:
        values = widen(values)
        if self.mask is not None:
            mask = self.mask.view(*self.mask.shape, *[1] * (values.dim() - 2))
            values = values.masked_fill(~mask, 0)
        return values.sum(1)

    def product(self, u: Tensor, v: Tensor) -> Tensor:
        return matmul(widen(u).transpose(1, 2), widen(v)).to(v.dtype)

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

    def variation(self) -> tuple[Tensor, Tensor]:
        if on_host(self.adj):
            return super().variation()
        # Without access to the number of entries, use all pairs of nodes.
        gaps = self.adj * torch.cdist(self.s, self.s, p=1)
        return gaps.sum((1, 2)), (self.adj != 0).to(gaps.dtype).sum((1, 2))


class SegmentView(LayoutView):
    """View of flat graphs.

    Args:
        s: ``[N, K]``.
        edge_index: ``[2, E]``, in any order, or ``None`` for formulas that do not need it.
        edge_weight: ``[E]``, ``[E, 1]`` or ``None`` for ones.
        batch: ``[N]`` graph ids, in any order; one graph if ``None``.
        batch_size: Number of graphs; default is the largest id + 1.
        layout: Layout of ``batch``, if it is already known.
        padded: ``s`` as ``[B, N, K]``, for a padded call that runs on flat rows. :meth:`entries` then returns the
            entries of the padded adjacency.
        checked: True if the node ids are known to be in range.
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
        checked: bool = False,
    ) -> None:
        if s.dim() != 2:
            raise InputError(f"s must have shape [N, K], got {list(s.shape)}.", field="s")
        self.s, self.dtype = widen(s), s.dtype
        self._edge_index = edge_index
        self._checked = checked
        weight = connectivity.check_and_filter_edge_weights(edge_weight)
        self.edge_weight = None if weight is None else weight.to(self.s.dtype)
        self.layout = GraphLayout(batch, s.size(0), batch_size) if layout is None else layout
        self.batch = batch
        self._of_padded = padded is not None
        if padded is not None:
            self._padded = widen(padded)
        self.num_graphs = self.layout.batch_size

    @property
    def edge_index(self) -> Tensor:
        """``[2, E]``."""
        if self._edge_index is None:
            raise InputError(
                "edge_index is missing: expected an edge list for this formula, got None.", field="edge_index"
            )
        return self._edge_index

    @lazy_attribute
    def degree(self) -> Tensor:
        if self.edge_weight is None and on_host(self.edge_index):
            return self._matrix.row_counts().to(self.s.dtype)
        return weighted_degree(self.edge_index[0], self.edge_weight, self.s.size(0)).to(self.s.dtype)

    @lazy_attribute
    def counts(self) -> Tensor:
        if self.layout.batch is None:
            return self.s.new_full((1,), self.layout.num_nodes)
        return self.layout.counts.to(self.s)

    def propagate(self, values: Tensor) -> Tensor:
        return self._matrix.times(values)

    @lazy_attribute
    def _matrix(self) -> EdgeMatrix:
        source, target = self.edge_index
        return EdgeMatrix(source, target, self.edge_weight, self.s.size(0), checked=self._checked)

    @lazy_attribute
    def _padded(self) -> Tensor:
        return self.layout.pad(self.s)

    def sum(self, values: Tensor) -> Tensor:
        return self.layout.sum(values)

    def product(self, u: Tensor, v: Tensor) -> Tensor:
        if u is not self.s or not self.layout.padding_pays(u.size(1), v.size(1)):
            return self.layout.matmul(u, v)
        other = self._padded if v is u else self.layout.pad(widen(v))
        return matmul(self._padded.transpose(1, 2), other).to(v.dtype)

    def spread(self, values: Tensor) -> Tensor:
        if self.batch is None:
            return values.expand(self.s.size(0), *values.shape[1:])
        return values.index_select(0, self.batch)

    def padded(self) -> tuple[Tensor, Tensor]:
        return self._padded, self.layout.mask().to(self.s.device)

    def rows(self) -> tuple[Tensor, Tensor]:
        return self.s, self._graph

    @lazy_attribute
    def _graph(self) -> Tensor:
        if self.batch is not None:
            return self.batch
        return torch.zeros(self.s.size(0), dtype=torch.long, device=self.s.device)

    def entries(self) -> EdgeEntries:
        return self.merged() if self._of_padded else self._edges()

    def _edges(self) -> EdgeEntries:
        source, target = self.edge_index
        return EdgeEntries(source, target, self._weights(), self._graph.index_select(0, source))

    def _weights(self) -> Tensor:
        return self.s.new_ones(self.edge_index.size(1)) if self.edge_weight is None else self.edge_weight

    def merged(self) -> EdgeEntries:
        (source, target), size = self.edge_index, self.s.size(0)
        merged = merge_entries(source, target, self._weights(), size, positive=self.edge_weight is None)
        return EdgeEntries(*merged, self._graph.index_select(0, merged[0]))

    def squares(self) -> Tensor:
        source, target = self.edge_index
        if on_host(source, self.edge_weight):
            return self.merged().weight.square()
        _, _, weight, _ = connectivity.mark_merged_entries(source, target, self._weights(), self.s.size(0))
        return weight.square()

    def column_quantile(self, position: Tensor) -> Tensor:
        layout = self.layout
        if layout.batch is None or layout.knows_width() or self.s.size(0) == 0:
            return super().column_quantile(position)
        # Sort by value, then by graph. Padding is not possible without reading its width.
        values, order = self.s.sort(dim=0, descending=True)
        by_graph = layout.batch[order].sort(dim=0, stable=True).indices
        start = layout.counts.cumsum(0) - layout.counts
        place = (start + position).clamp(max=self.s.size(0) - 1)
        return values.gather(0, by_graph).index_select(0, place)

    def variation(self) -> tuple[Tensor, Tensor]:
        # Parallel edges count as one entry. Their weights need not be merged for the sum.
        source, target = self.edge_index
        counts = connectivity.count_entries(source, target, self.edge_weight, self.s.size(0))
        return self._sum_gaps(self._edges()), self.sum(counts.to(self.s.dtype))
