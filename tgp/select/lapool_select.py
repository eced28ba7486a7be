"""Leaders by the norm of the Laplacian, and soft assignments to them (LaPool)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select.base_select import Select, SelectOutput
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.batching import is_multi_graph_batch as is_multi_graph_batch
from tgp.utils.ops.connectivity import (
    check_and_filter_edge_weights as check_and_filter_edge_weights,
)
from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj
from tgp.utils.precision import matmul, widen
from tgp.utils.tracing import opaque
from tgp.utils.typing import SinvType

__all__ = ["LaPoolSelect"]

_EPS = 1e-8


class LaPoolSelect(Select):
    r"""Selector that chooses leaders by the variation of the features and assigns the other nodes to them.

    With :math:`v_i = \|(\mathbf{L}\mathbf{X})_i\|_2`, node :math:`i` is a leader if :math:`v_i \ge v_j` for all of its
    neighbours. If a graph has no leader, all of its nodes are leaders. Other nodes are assigned by the softmax of the
    cosine similarity to the leaders of their graph. Half-precision features are compared in float32.

    With ``batch_size`` given, a call synchronizes an accelerator twice: for the leaders, and for their largest number in
    a graph. A dense adjacency needs one more synchronization, and ``shortest_path_reg`` one per hop.

    Args:
        shortest_path_reg: divide the assignment to a leader by the number of hops to it.
        batched_representation: expect padded input with a dense adjacency instead of flat input with edges.
        s_inv_op: see :class:`~tgp.select.SelectOutput`.
    """

    is_dense = True

    def __init__(
        self,
        shortest_path_reg: bool = False,
        batched_representation: bool = True,
        s_inv_op: SinvType = "transpose",
    ) -> None:
        super().__init__()
        self.shortest_path_reg = shortest_path_reg
        self.batched_representation = batched_representation
        self.s_inv_op = s_inv_op

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
        num_nodes: int | None = None,
        *,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Assign every node to the leaders of its graph, numbered in ascending node order.

        Args:
            x: ``[B, N, F]``, or ``[N, F]`` for one graph, if the input is padded; otherwise ``[N, F]``.
            edge_index: dense adjacency of padded input, sparse connectivity of flat input.
            edge_weight: ``[E]`` or ``[E, 1]``, for an edge list.
            batch: ``[N]`` graph ids of flat input.
            mask: ``[B, N]`` mask of the real nodes of padded input.
            num_nodes: ignored; the number of nodes is that of ``x``.
            batch_size: number of graphs of flat input.
            **kwargs: ignored.
        """
        if self.batched_representation:
            return self._padded(x, edge_index, mask)
        if x.dim() != 2:
            raise InputError(f"x must have shape [N, F] in unbatched mode, got {list(x.shape)}", field="x")
        if mask is not None:
            raise InputError(
                f"mask is only supported for batched representations: expected None, got {list(mask.shape)}",
                field="mask",
            )
        if is_dense_adj(edge_index):
            raise InputError(
                "Unbatched LaPoolSelect expects a sparse adjacency tensor, got a dense one",
                field="edge_index",
            )
        return self._flat(x, edge_index, edge_weight, batch, batch_size)

    def _padded(self, x: Tensor, adj: Any, mask: Tensor | None) -> SelectOutput:
        if x.dim() not in (2, 3):
            raise InputError(f"x must have shape [B, N, F] or [N, F], got {list(x.shape)}", field="x")
        if not is_dense_adj(adj):
            raise InputError(
                "Batched LaPoolSelect expects a dense adjacency tensor, got sparse connectivity",
                field="edge_index",
            )
        x = x.unsqueeze(0) if x.dim() == 2 else x
        adj = adj.unsqueeze(0) if adj.dim() == 2 else adj
        valid = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask.bool()
        graph, row, col = adj.nonzero(as_tuple=True)
        width = x.size(1)
        edges = torch.stack([graph * width + row, graph * width + col])
        layout = _PaddedRows(x.size(0), width, valid)
        s = self._assign(x.flatten(0, 1), edges, adj[graph, row, col], layout)
        s = s.view(x.size(0), width, s.size(1))
        return SelectOutput(s=s, s_inv_op=self.s_inv_op, in_mask=mask)

    def _flat(
        self,
        x: Tensor,
        edge_index: Any,
        edge_weight: Tensor | None,
        batch: Tensor | None,
        batch_size: int | None,
    ) -> SelectOutput:
        edges, weight = connectivity_to_edge_index(edge_index, edge_weight)
        weight = x.new_ones(edges.size(1)) if weight is None else weight
        layout = _FlatRows(GraphLayout(batch, x.size(0), batch_size), x.device)
        s = self._assign(x, edges, weight, layout)
        return SelectOutput(s=s, s_inv_op=self.s_inv_op, batch=batch, batch_size=batch_size)

    def _assign(self, x: Tensor, edges: Tensor, weight: Tensor, layout: _Rows) -> Tensor:
        """Return the assignment ``[rows, K]`` of flat rows, some of which may be padding."""
        dtype, x = x.dtype, widen(x)
        ids, column, width = _find_leaders(x.detach(), edges, weight.detach().to(x.dtype), layout)
        slots = layout.num_graphs * width
        # Features of the leaders by graph and column. Unused columns stay zero and are masked below.
        slot = layout.graph[ids] * width + column
        features = x.new_zeros(slots, x.size(1)).index_copy(0, slot, x.index_select(0, ids))
        exists = torch.zeros(slots, dtype=torch.bool, device=x.device).index_fill(0, slot, True)
        s = layout.similarity(x, features.view(layout.num_graphs, width, x.size(1)))
        present = exists.view(layout.num_graphs, width)[layout.graph]
        s = s.masked_fill(~present, torch.finfo(s.dtype).min).softmax(-1)
        s = torch.where(present & layout.real.unsqueeze(-1), s, torch.zeros_like(s))
        if self.shortest_path_reg:
            s = s * _inverse_hops(edges, ids, column, layout, width).to(s.dtype)
        own = torch.zeros_like(s).index_put((ids, column), s.new_ones(()))
        leads = torch.zeros_like(layout.real).index_fill(0, ids, True)
        return torch.where(leads.unsqueeze(-1), own, s).to(dtype)


class _Rows:
    """Flat rows, some of which may be padding.

    Attributes:
        graph: ``[rows]`` graph ids.
        real: ``[rows]`` mask of the rows that are not padding.
        num_graphs: number of graphs.
    """

    graph: Tensor
    real: Tensor
    num_graphs: int

    def similarity(self, x: Tensor, leaders: Tensor) -> Tensor:
        """Return the cosine similarity ``[rows, K]`` of every row with the leaders ``[B, K, F]`` of its graph."""
        raise NotImplementedError


class _PaddedRows(_Rows):
    def __init__(self, num_graphs: int, width: int, real: Tensor) -> None:
        self.num_graphs, self.width, self.real = num_graphs, width, real.flatten()
        self.graph = torch.arange(num_graphs, device=real.device).repeat_interleave(width)

    def similarity(self, x: Tensor, leaders: Tensor) -> Tensor:
        rows = x.view(self.num_graphs, self.width, x.size(1))
        inner = matmul(rows, leaders.transpose(1, 2))
        norms: Tensor = rows.norm(dim=-1).unsqueeze(2) * leaders.norm(dim=-1).unsqueeze(1)
        return (inner / (norms + _EPS)).flatten(0, 1)


class _FlatRows(_Rows):
    def __init__(self, layout: GraphLayout, device: torch.device) -> None:
        self.layout, self.num_graphs = layout, max(layout.batch_size, 1)
        self.real = torch.ones(layout.num_nodes, dtype=torch.bool, device=device)
        zeros = torch.zeros(layout.num_nodes, dtype=torch.long, device=device)
        self.graph = zeros if layout.batch is None else layout.batch

    def similarity(self, x: Tensor, leaders: Tensor) -> Tensor:
        inner = widen(self.layout.expand(x, leaders.transpose(1, 2)))
        norms: Tensor = x.norm(dim=-1, keepdim=True) * leaders.norm(dim=-1)[self.graph]
        return inner / (norms + _EPS)


@opaque  # The sizes depend on values. This gives one break of a compiled graph.
@torch.no_grad()
def _find_leaders(x: Tensor, edges: Tensor, weight: Tensor, layout: _Rows) -> tuple[Tensor, Tensor, int]:
    """Return the rows of the leaders, the column of each leader, and the largest number of leaders of a graph.

    The leaders of a graph are numbered by ascending rows.
    """
    source, target = edges
    difference = x.index_select(0, source) - x.index_select(0, target)
    change = torch.zeros_like(x).index_add(0, source, weight.unsqueeze(-1) * difference)
    variation = change.norm(dim=-1)
    smaller = (weight != 0) & (variation[target] > variation[source])
    leader = layout.real & ~_any_by_id(smaller, source, layout.graph.numel())
    has_leader = _any_by_id(leader, layout.graph, layout.num_graphs)
    leader = leader | (layout.real & ~has_leader[layout.graph])
    ids = leader.nonzero().squeeze(1)
    graph = layout.graph[ids]
    counts = torch.zeros(layout.num_graphs, dtype=torch.long, device=x.device)
    counts = counts.index_add(0, graph, torch.ones_like(graph))
    order = graph.argsort(stable=True)
    rank = torch.arange(ids.numel(), device=ids.device) - (counts.cumsum(0) - counts)[graph[order]]
    column = torch.empty_like(ids).index_copy(0, order, rank)
    return ids, column, int(counts.max()) if counts.numel() > 0 else 0


def _any_by_id(flags: Tensor, ids: Tensor, size: int) -> Tensor:
    """Return the mask ``[size]`` of the ids with a true flag, without synchronizing an accelerator."""
    out = torch.zeros(size + 1, dtype=torch.bool, device=ids.device)
    return out.index_fill(0, torch.where(flags, ids, size), True)[:-1]


@opaque
def _inverse_hops(edges: Tensor, leaders: Tensor, column: Tensor, layout: _Rows, width: int) -> Tensor:
    """Return ``[rows, K]`` with one over the number of hops to each leader of the graph.

    The value is 0 for the leader itself and for nodes that it does not reach. The breadth-first search starts from all
    leaders at the same time and has one column per leader.
    """
    rows = layout.graph.numel()
    source = torch.cat([edges[0], edges[1]])
    target = torch.cat([edges[1], edges[0]])
    reached = torch.zeros(rows, width, dtype=torch.bool, device=edges.device)
    reached[leaders, column] = True
    inverse = torch.zeros(rows, width, device=edges.device)
    hops = 0
    while True:
        hops += 1
        zeros = torch.zeros(rows, width, dtype=torch.int32, device=edges.device)
        new = (zeros.index_add(0, target, reached[source].int()) > 0) & ~reached
        if not bool(new.any()):
            return inverse
        inverse = inverse + new / hops
        reached |= new
