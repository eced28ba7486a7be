"""``LayoutView``: what formulas may ask of an assignment and an adjacency."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from tgp.utils.ops.entries import EdgeEntries
from tgp.utils.ops.products import EdgeMatrix
from tgp.utils.precision import widen
from tgp.utils.tracing import lazy_attribute

__all__ = ["LayoutView"]


class LayoutView(ABC):
    """An assignment ``S`` and an adjacency ``A`` over ``B`` graphs.

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
        """Return ``[B]``: ``Tr(S^T A S)``, the weight kept inside supernodes."""
        return self.sum((self.assignment_image * self.s).sum(-1))

    def degree_quad(self) -> Tensor:
        """Return ``[B]``: ``Tr(S^T D S) = sum_i d_i |S_i|^2``."""
        return self.sum(self.degree * self.s.square().sum(-1))

    def volume(self) -> Tensor:
        """Return ``[B]``: total edge weight."""
        return self.sum(self.degree)

    def column_sums(self) -> Tensor:
        """Return ``[B, K]``: ``S^T 1``, soft sizes of the supernodes."""
        return self.sum(self.s)

    def gram(self) -> Tensor:
        """Return ``[B, K, K]``: ``S^T S``."""
        return self.product(self.s, self.s)

    def coarse(self) -> Tensor:
        """Return ``[B, K, K]``: ``S^T A S`` before any post-processing, in the dtype of the given assignment."""
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
        """``[B]``: real nodes per graph, in the dtype of :attr:`s`."""

    @abstractmethod
    def propagate(self, values: Tensor) -> Tensor:
        """Return ``A values``, in node shape."""

    @abstractmethod
    def sum(self, values: Tensor) -> Tensor:
        """Sum over the real nodes of each graph: node shape -> ``[B, ...]``, in float32 or wider."""

    @abstractmethod
    def product(self, u: Tensor, v: Tensor) -> Tensor:
        """Return ``[B, K, F]``: ``u^T v`` of each graph, in the dtype of ``v``."""

    @abstractmethod
    def spread(self, values: Tensor) -> Tensor:
        """Give every node the value of its graph: ``[B, ...]`` -> node shape (with broadcasting)."""

    @abstractmethod
    def padded(self) -> tuple[Tensor, Tensor]:
        """Return ``S`` as ``[B, N, K]`` and ``[B, N]`` bool of its real rows."""

    @abstractmethod
    def rows(self) -> tuple[Tensor, Tensor]:
        """Return ``S`` as flat rows ``[R, K]`` and their graph ids; :meth:`entries` point into these rows."""

    @abstractmethod
    def entries(self) -> EdgeEntries:
        """Return every edge; in a padded view every non-zero entry of ``A``, where parallel edges are one."""

    @abstractmethod
    def merged(self) -> EdgeEntries:
        """Return every non-zero entry of ``A``, parallel edges summed."""

    @abstractmethod
    def squares(self) -> Tensor:
        """Return the squares of the entries of ``A``, in any shape; zeros may be left out."""

    def sum_entries(self, values: Tensor, entries: EdgeEntries) -> Tensor:
        """Return ``[B]``: sum of one value per edge over the edges of each graph, in float32 or wider."""
        values = widen(values)
        return values.new_zeros(self.num_graphs).index_add(0, entries.graph, values)

    def column_quantile(self, position: Tensor) -> Tensor:
        """Return ``[B, K]`` the entry at a position of every column of ``S``, sorted from the largest down.

        Args:
            position: ``[B]`` positions below the number of nodes of each graph.
        """
        padded, real = self.padded()
        ordered = padded.masked_fill(~real.unsqueeze(-1), -1).sort(dim=1, descending=True).values
        return ordered.gather(1, position.view(-1, 1, 1).expand(-1, 1, self.k)).squeeze(1)

    def variation(self) -> tuple[Tensor, Tensor]:
        """Return ``[B]`` sums of ``A_ij |S_i - S_j|_1`` over the entries of ``A``, and ``[B]`` numbers of entries."""
        edges = self.entries()
        return self._variation(edges, torch.ones_like(edges.weight))

    def _variation(self, edges: EdgeEntries, present: Tensor) -> tuple[Tensor, Tensor]:
        rows, _ = self.rows()
        matrix = EdgeMatrix(edges.source, edges.target, None, rows.size(0), checked=True)
        gaps = edges.weight * matrix.distances(rows)
        return self.sum_entries(gaps, edges), self.sum_entries(present.to(gaps.dtype), edges)
