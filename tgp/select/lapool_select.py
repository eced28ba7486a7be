"""Leaders by the norm of the Laplacian, everyone else by cosine attention to them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select.base_select import Select, SelectOutput
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.connectivity import connectivity_to_edge_index, is_dense_adj
from tgp.utils.typing import SinvType

__all__ = ["LaPoolSelect"]

_EPS = 1e-8


class LaPoolSelect(Select):
    r"""A node leads if its signal changes at least as fast as that of all its neighbours.

    With :math:`v_i = \|(\mathbf{L}\mathbf{X})_i\|_2`, node :math:`i` is a leader iff
    :math:`v_i \ge v_j` for all neighbours; a graph without a leader makes all its nodes leaders. The rest
    are assigned by the softmax of the cosine similarity to the leaders of their graph.

    Args:
        shortest_path_reg: multiply the assignment by one over the number of hops to the leader.
        batched_representation: padded input with a dense adjacency (true) or flat input with edges.
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

    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Assign every node to the leaders of its graph, numbered in ascending node order."""
        if self.batched_representation:
            return self._padded(x, edge_index, mask)
        if x.dim() != 2:
            raise InputError(f"x must be 2D [N, F] in unbatched mode, got {list(x.shape)}", field="x")
        if mask is not None:
            raise InputError("mask belongs to padded input; flat input has none", field="mask")
        if is_dense_adj(edge_index):
            raise InputError(
                "unbatched mode takes sparse connectivity, got a dense adjacency", field="edge_index"
            )
        return self._flat(x, edge_index, edge_weight, batch, batch_size)

    def _padded(self, x: Tensor, adj: Any, mask: Tensor | None) -> SelectOutput:
        if x.dim() not in (2, 3):
            raise InputError(f"x must be 2D [N, F] or 3D [B, N, F], got {list(x.shape)}", field="x")
        if not is_dense_adj(adj):
            raise InputError(
                "batched mode takes a dense adjacency, got sparse connectivity", field="edge_index"
            )
        x = x.unsqueeze(0) if x.dim() == 2 else x
        adj = adj.unsqueeze(0) if adj.dim() == 2 else adj
        valid = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask.bool()
        graph, row, col = adj.nonzero(as_tuple=True)
        width = x.size(1)
        edges = torch.stack([graph * width + row, graph * width + col])
        layout = _Padded(x.size(0), width, valid)
        s = self._assign(x.flatten(0, 1), edges, adj[graph, row, col], layout)
        return SelectOutput(s=s.view(x.size(0), width, -1), s_inv_op=self.s_inv_op, in_mask=mask)

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
        layout = _Flat(GraphLayout(batch, x.size(0), batch_size), x.device)
        s = self._assign(x, edges, weight.to(x.dtype), layout)
        return SelectOutput(s=s, s_inv_op=self.s_inv_op, batch=batch, batch_size=batch_size)

    def _assign(self, x: Tensor, edges: Tensor, weight: Tensor, layout: _Rows) -> Tensor:
        """``[rows, K]`` over flat rows, padded or not."""
        leader = self._leaders(x, edges, weight, layout)
        column = _column_of_leader(leader, layout)  # [rows], place among the leaders of the graph
        width = int(column[leader].max()) + 1 if bool(leader.any()) else 0
        slots = layout.num_graphs * width
        # Leader features by (graph, column); unused columns stay zero and are masked below.
        place = layout.graph * width + column
        ids = leader.nonzero().squeeze(1)
        features = x.new_zeros(slots, x.size(1)).index_copy(0, place[ids], x[ids]).view(-1, width, x.size(1))
        exists = torch.zeros(slots, dtype=torch.bool, device=x.device).index_fill(0, place[ids], True)
        s = layout.similarity(x, features)
        present = exists.view(-1, width)[layout.graph]
        s = s.masked_fill(~present, float("-inf")).softmax(-1)
        s = torch.where(present & layout.real.unsqueeze(-1), s, torch.zeros_like(s))
        if self.shortest_path_reg:
            s = s * _inverse_hops(edges, place[ids], ids, layout, width).to(s.dtype)
        own = torch.zeros_like(s)
        own[ids, column[ids]] = 1
        return torch.where(leader.unsqueeze(-1), own, s)

    @staticmethod
    def _leaders(x: Tensor, edges: Tensor, weight: Tensor, layout: _Rows) -> Tensor:
        source, target = edges
        with torch.no_grad():
            change = torch.zeros_like(x).index_add(0, source, weight.unsqueeze(-1) * (x[source] - x[target]))
            speed = change.norm(dim=-1)
            beaten = torch.zeros_like(layout.real)
            counts = (weight != 0) & (speed[target] > speed[source])
            beaten[source[counts]] = True
            leader = layout.real & ~beaten
            led = torch.zeros(layout.num_graphs, dtype=torch.bool, device=x.device)
            led[layout.graph[leader]] = True
            return leader | (layout.real & ~led[layout.graph])


class _Rows:
    """Flat rows and the graph of each; some of them may be padding."""

    graph: Tensor
    real: Tensor
    num_graphs: int

    def similarity(self, x: Tensor, leaders: Tensor) -> Tensor:
        """``[rows, K]`` cosine of every row with the leaders ``[B, K, F]`` of its graph."""
        raise NotImplementedError


def _cosine(inner: Tensor, left: Tensor, right: Tensor) -> Tensor:
    return inner / (left.norm(dim=-1).unsqueeze(-1) * right.norm(dim=-1) + _EPS)


class _Padded(_Rows):
    def __init__(self, num_graphs: int, width: int, real: Tensor) -> None:
        self.num_graphs, self.width, self.real = num_graphs, width, real.flatten()
        self.graph = torch.arange(num_graphs, device=real.device).repeat_interleave(width)

    def similarity(self, x: Tensor, leaders: Tensor) -> Tensor:
        rows = x.view(self.num_graphs, self.width, -1)
        inner = rows @ leaders.transpose(1, 2)
        return _cosine(inner, rows, leaders.unsqueeze(1)).flatten(0, 1)


class _Flat(_Rows):
    def __init__(self, layout: GraphLayout, device: torch.device) -> None:
        self.layout, self.num_graphs = layout, max(layout.batch_size, 1)
        self.real = torch.ones(layout.num_nodes, dtype=torch.bool, device=device)
        zeros = torch.zeros(layout.num_nodes, dtype=torch.long, device=device)
        self.graph = zeros if layout.batch is None else layout.batch

    def similarity(self, x: Tensor, leaders: Tensor) -> Tensor:
        inner = self.layout.expand(x, leaders.transpose(1, 2))
        return inner / (x.norm(dim=-1, keepdim=True) * leaders.norm(dim=-1)[self.graph] + _EPS)


def _column_of_leader(leader: Tensor, layout: _Rows) -> Tensor:
    """Place of each leader among those of its graph, in ascending row order; graphs in any order."""
    ids = leader.nonzero().squeeze(1)
    graph = layout.graph[ids]
    order = graph.argsort(stable=True)
    counts = torch.bincount(graph, minlength=layout.num_graphs)
    start = counts.cumsum(0) - counts
    column = torch.zeros_like(layout.graph)
    column[ids[order]] = torch.arange(ids.numel(), device=ids.device) - start[graph[order]]
    return column


def _inverse_hops(edges: Tensor, place: Tensor, leaders: Tensor, layout: _Rows, width: int) -> Tensor:
    """``[rows, K]`` one over the hops to each leader of the graph; 0 at the leader itself and out of reach.

    A breadth-first wave from all leaders at once, one column per leader.
    """
    rows = layout.graph.numel()
    source = torch.cat([edges[0], edges[1]])
    target = torch.cat([edges[1], edges[0]])
    reached = torch.zeros(rows, width, dtype=torch.bool, device=edges.device)
    reached[leaders, place % max(width, 1)] = True
    inverse = torch.zeros(rows, width, device=edges.device)
    hops = 0
    while True:
        hops += 1
        wave = torch.zeros(rows, width, dtype=torch.int32, device=edges.device)
        fresh = (wave.index_add(0, target, reached[source].int()) > 0) & ~reached
        if not bool(fresh.any()):
            return inverse
        inverse = inverse + fresh / hops
        reached |= fresh
