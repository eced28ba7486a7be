"""Two layouts, one formula: losses and products are written against a view.

:class:`DenseView` holds padded ``[B, N, K]`` assignments with dense adjacencies, :class:`SegmentView` a
flat ``[N, K]`` with an edge list and graph ids. Both answer the same questions with the same
shapes, so a formula over a view is written once:

>>> def mincut(view):
...     return -view.quad() / (view.degree_quad() + 1e-8)  # [B]

Views compute in float32 or wider, also for half-precision assignments and under autocast.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.utils.layout_view import LayoutView
from tgp.utils.ops.adjacency import rank3_trace, weighted_degree
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.connectivity import check_and_filter_edge_weights
from tgp.utils.ops.entries import EdgeEntries, count_entries, mark_merged_entries, merge_entries
from tgp.utils.ops.products import EdgeMatrix
from tgp.utils.precision import matmul, widen
from tgp.utils.tracing import lazy_attribute, on_host

__all__ = ["DenseView", "EdgeEntries", "LayoutView", "SegmentView"]


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
        dtype = s.dtype
        s = widen(s.unsqueeze(0) if s.dim() == 2 else s)
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
        self.s, self.dtype = s, dtype
        self._adj = adj
        self.mask = None if mask is None else mask.bool()
        self.num_graphs = s.size(0)

    @property
    def adj(self) -> Tensor:
        """``[B, N, N]``."""
        if self._adj is None:
            raise InputError("this formula needs an adjacency, got None", field="adj")
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
        # The number of entries is not known without reading it: use all pairs of nodes.
        gaps = self.adj * torch.cdist(self.s, self.s, p=1)
        return gaps.sum((1, 2)), (self.adj != 0).to(gaps.dtype).sum((1, 2))


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
        checked: the node ids are known to be in range.
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
            raise InputError(f"s must have shape [N, K], got {list(s.shape)}", field="s")
        self.s, self.dtype = widen(s), s.dtype
        self._edge_index = edge_index
        self._checked = checked
        weight = check_and_filter_edge_weights(edge_weight)
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
            raise InputError("this formula needs an edge list, got None", field="edge_index")
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
        if self._of_padded:
            return self.merged()
        source, target = self.edge_index
        return EdgeEntries(source, target, self._weights(), self._graph.index_select(0, source))

    def _weights(self) -> Tensor:
        return self.s.new_ones(self.edge_index.size(1)) if self.edge_weight is None else self.edge_weight

    def squares(self) -> Tensor:
        if on_host(self.edge_index, self.edge_weight):
            return self.merged().weight.square()
        return self._merged_with_mask()[0].weight.square()

    def merged(self) -> EdgeEntries:
        source, target = self.edge_index
        source, target, weight = merge_entries(
            source, target, self._weights(), self.s.size(0), positive=self.edge_weight is None
        )
        return EdgeEntries(source, target, weight, self._graph.index_select(0, source))

    def _merged_with_mask(self) -> tuple[EdgeEntries, Tensor]:
        source, target = self.edge_index
        source, target, weight, present = mark_merged_entries(source, target, self._weights(), self.s.size(0))
        return EdgeEntries(source, target, weight, self._graph.index_select(0, source)), present

    def column_quantile(self, position: Tensor) -> Tensor:
        layout = self.layout
        if layout.batch is None or layout.knows_width() or not self.s.size(0):
            return super().column_quantile(position)
        # Sort by value, then by graph: no padding, whose width would have to be read.
        values, order = self.s.sort(dim=0, descending=True)
        by_graph = layout.batch[order].sort(dim=0, stable=True).indices
        start = layout.counts.cumsum(0) - layout.counts
        place = (start + position).clamp(max=self.s.size(0) - 1)
        return values.gather(0, by_graph).index_select(0, place)

    def variation(self) -> tuple[Tensor, Tensor]:
        # Parallel edges add up in the sum on their own, but they are one entry.
        source, target = self.edge_index
        edges = EdgeEntries(source, target, self._weights(), self._graph.index_select(0, source))
        total, _ = self._variation(edges, torch.ones_like(edges.weight))
        return total, self.sum(self._entries_per_row())

    def _entries_per_row(self) -> Tensor:
        """Return ``[N]`` the number of non-zero entries in each row of ``A``."""
        (source, target), size = self.edge_index, self.s.size(0)
        if on_host(source, self.edge_weight):
            return count_entries(source, target, self.edge_weight, size).to(self.s.dtype)
        rows, _, _, present = mark_merged_entries(source, target, self._weights(), size)
        return self.s.new_zeros(size).index_add(0, rows, present.to(self.s.dtype))
