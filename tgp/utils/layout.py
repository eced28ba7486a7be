"""Two views of "node rows of several graphs": padded and flat.

A loss is written once, against the operations that both views offer; every operation returns one
value (or matrix) per graph. Padded rows are masked here and nowhere else; a graph without nodes gives zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tgp.errors import InputError

__all__ = ["DenseView", "SegmentView", "View"]


@dataclass(eq=False)
class DenseView:
    """Assignments ``[B, N, K]`` of padded graphs with dense adjacency ``[B, N, N]``.

    Args:
        s: assignments; padded rows are set to zero.
        adj: adjacency, or ``None`` where a formula does not use it.
        mask: ``[B, N]``, true for real nodes; ``None`` = all real.
    """

    s: Tensor
    adj: Tensor | None = None
    mask: Tensor | None = None

    def __post_init__(self) -> None:
        if self.s.dim() == 2:
            self.s = self.s.unsqueeze(0)
        if self.s.dim() != 3:
            raise InputError(f"S must have shape [B, N, K] or [N, K], got {list(self.s.shape)}", field="S")
        if self.adj is not None and self.adj.dim() == 2:
            self.adj = self.adj.unsqueeze(0)
        if self.mask is not None:
            self.mask = self.mask.bool().view(self.s.shape[:2])
            self.s = self.s * self.mask.unsqueeze(-1).to(self.s.dtype)

    @property
    def num_graphs(self) -> int:
        return self.s.size(0)

    @cached_property
    def num_nodes(self) -> Tensor:
        """``[B]`` real nodes."""
        if self.mask is None:
            return self.s.new_full((self.s.size(0),), float(self.s.size(1)))
        return self.mask.sum(-1).to(self.s.dtype)

    @cached_property
    def degree(self) -> Tensor:
        """``[B, N]`` row sums of the adjacency, zero on padding."""
        degree = self._adj().sum(-1)
        return degree if self.mask is None else degree * self.mask.to(degree.dtype)

    def _adj(self) -> Tensor:
        if self.adj is None:
            raise InputError("this formula needs the adjacency", field="adj")
        return self.adj.to(self.s.dtype)

    def propagate(self, rows: Tensor) -> Tensor:
        """``A @ rows``."""
        return self._adj() @ rows

    def sum(self, rows: Tensor) -> Tensor:
        """Sum node values ``[B, N, ...]`` over each graph."""
        return rows.sum(1)

    def gram(self) -> Tensor:
        """``SᵀS``: ``[B, K, K]``."""
        return self.s.transpose(1, 2) @ self.s

    def quad(self, pooled: Tensor | None = None) -> Tensor:
        """``Tr(SᵀAS)``: ``[B]``. ``pooled`` is a raw ``SᵀAS`` that is at hand already."""
        if pooled is not None:
            pooled = pooled.unsqueeze(0) if pooled.dim() == 2 else pooled
            return pooled.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (self.s * self.propagate(self.s)).sum((1, 2))

    def edge_variation(self) -> tuple[Tensor, Tensor]:
        """``Σ a_ij ‖S_i - S_j‖₁`` and the number of non-zero entries, per graph."""
        adj = self._adj()
        graph, source, target = adj.nonzero(as_tuple=True)
        gaps = (self.s[graph, source] - self.s[graph, target]).abs().sum(-1) * adj[graph, source, target]
        zeros = self.s.new_zeros(self.num_graphs)
        return zeros.index_add(0, graph, gaps), zeros.index_add(0, graph, torch.ones_like(gaps))

    def residual(self) -> Tensor:
        """``‖A - SSᵀ‖²``: ``[B]``."""
        return (self._adj() - self.s @ self.s.transpose(1, 2)).square().sum((1, 2))

    def kth_largest(self, position: Tensor) -> Tensor:
        """``[B, K]``: the entry at 0-based ``position [B]`` of each column in descending order."""
        values = self.s
        if self.mask is not None:
            values = values.masked_fill(~self.mask.unsqueeze(-1), float("-inf"))
        ordered = values.sort(dim=1, descending=True).values
        found = ordered.gather(1, position.view(-1, 1, 1).expand(-1, 1, self.s.size(-1))).squeeze(1)
        return torch.where(torch.isfinite(found), found, torch.zeros_like(found))

    def spread(self, values: Tensor) -> Tensor:
        """Per-graph values ``[B, ...]`` brought to nodes, ready to combine with ``s``."""
        return values.unsqueeze(1)

    @property
    def valid(self) -> Tensor | None:
        """``[B, N, 1]`` one for real nodes, or ``None`` if all are real."""
        return None if self.mask is None else self.mask.unsqueeze(-1).to(self.s.dtype)


@dataclass(eq=False)
class SegmentView:
    """Assignments ``[N, K]`` of flat graphs with an edge list.

    Args:
        s: assignments.
        edge_index: ``[2, E]``, or ``None`` where a formula does not use it; in any order.
        edge_weight: ``[E]``, or ``None`` for ones.
        batch: ``[N]`` graph of each node, in any order; ``None`` = one graph.
        batch_size: number of graphs; default largest id + 1.
    """

    s: Tensor
    edge_index: Tensor | None = None
    edge_weight: Tensor | None = None
    batch: Tensor | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.s.dim() != 2:
            raise InputError(f"S must have shape [N, K], got {list(self.s.shape)}", field="S")
        if self.batch is None:
            self.batch = self.s.new_zeros(self.s.size(0), dtype=torch.long)
            self.batch_size = 1 if self.batch_size is None else self.batch_size
        elif self.batch_size is None:
            self.batch_size = int(self.batch.max()) + 1 if self.batch.numel() else 1

    @property
    def num_graphs(self) -> int:
        return int(self.batch_size or 0)

    @cached_property
    def num_nodes(self) -> Tensor:
        """``[B]`` nodes."""
        return self.sum(self.s.new_ones(self.s.size(0)))

    def _edges(self) -> tuple[Tensor, Tensor, Tensor]:
        if self.edge_index is None:
            raise InputError("this formula needs the edges", field="edge_index")
        source, target = self.edge_index
        if self.edge_weight is None:
            return source, target, self.s.new_ones(source.numel())
        return source, target, self.edge_weight.view(-1).to(self.s.dtype)

    def _sum_edges(self, values: Tensor) -> Tensor:
        source = self._edges()[0]
        return values.new_zeros(self.num_graphs).index_add(0, self.batch[source], values)

    @cached_property
    def degree(self) -> Tensor:
        """``[N]`` row sums of the adjacency."""
        source, _, weight = self._edges()
        return weight.new_zeros(self.s.size(0)).index_add(0, source, weight)

    def propagate(self, rows: Tensor) -> Tensor:
        """``A @ rows``."""
        source, target, weight = self._edges()
        messages = rows[target] * weight.view(-1, *[1] * (rows.dim() - 1))
        return torch.zeros_like(rows).index_add(0, source, messages)

    def sum(self, rows: Tensor) -> Tensor:
        """Sum node values ``[N, ...]`` over each graph."""
        return rows.new_zeros(self.num_graphs, *rows.shape[1:]).index_add(0, self.batch, rows)

    def gram(self) -> Tensor:
        """``SᵀS``: ``[B, K, K]``."""
        if self.num_graphs == 1:
            return (self.s.t() @ self.s).unsqueeze(0)
        return self.sum(self.s.unsqueeze(2) * self.s.unsqueeze(1))

    def quad(self, pooled: Tensor | None = None) -> Tensor:
        """``Tr(SᵀAS)``: ``[B]``. ``pooled`` is a raw ``SᵀAS`` that is at hand already."""
        if pooled is not None:
            return pooled.diagonal(dim1=-2, dim2=-1).sum(-1)
        source, target, weight = self._edges()
        return self._sum_edges(weight * (self.s[source] * self.s[target]).sum(-1))

    def edge_variation(self) -> tuple[Tensor, Tensor]:
        """``Σ a_ij ‖S_i - S_j‖₁`` and the number of entries, per graph."""
        source, target, weight = self._edges()
        gaps = weight * (self.s[source] - self.s[target]).abs().sum(-1)
        return self._sum_edges(gaps), self._sum_edges(torch.ones_like(gaps))

    def residual(self) -> Tensor:
        """``‖A - SSᵀ‖²`` without forming the product: ``[B]``. Parallel edges count as their sum."""
        source, target, weight = self._edges()
        size = self.s.size(0)
        key, group = torch.unique(source * size + target, return_inverse=True)
        weight = weight.new_zeros(key.numel()).index_add(0, group, weight)
        source, target = key // max(size, 1), key % max(size, 1)
        inner = (self.s[source] * self.s[target]).sum(-1)
        # Entries off the edge list are the whole of ‖SSᵀ‖² = ‖SᵀS‖² less those on it.
        on_edges = weight.square() - 2 * weight * inner
        total = weight.new_zeros(self.num_graphs).index_add(0, self.batch[source], on_edges)
        return (total + self.gram().square().sum((1, 2))).clamp(min=0)

    def kth_largest(self, position: Tensor) -> Tensor:
        """``[B, K]``: the entry at 0-based ``position [B]`` of each column in descending order."""
        by_value = self.s.argsort(dim=0, descending=True)
        by_graph = self.batch[by_value].argsort(dim=0, stable=True)
        ordered = self.s.gather(0, by_value.gather(0, by_graph))
        counts = self.num_nodes.long()
        start = counts.cumsum(0) - counts
        rows = (start + position).clamp(max=max(self.s.size(0) - 1, 0))
        found = ordered[rows] if self.s.size(0) else self.s.new_zeros(self.num_graphs, self.s.size(1))
        return torch.where((counts > 0).unsqueeze(-1), found, torch.zeros_like(found))

    def spread(self, values: Tensor) -> Tensor:
        """Per-graph values ``[B, ...]`` brought to nodes, ready to combine with ``s``."""
        return values[self.batch]

    @property
    def valid(self) -> Tensor | None:
        """Flat rows are all real."""
        return None


View = DenseView | SegmentView
