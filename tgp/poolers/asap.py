"""Adaptive structure-aware pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import LEConv
from torch_geometric.utils import softmax

from tgp.errors import ParameterError
from tgp.select.base_select import SelectOutput
from tgp.src.execution import Pooled, SparseExecution
from tgp.src.inputs import PoolInputs
from tgp.src.scored import ScoredPooling, build_gnn
from tgp.utils.ops.adjacency import add_remaining_self_loops, weighted_degree
from tgp.utils.ops.connectivity import Container, connectivity_to_edge_index
from tgp.utils.ops.products import EdgeMatrix, max_over_edges, sparse_product
from tgp.utils.signature import accepted, base_kwargs
from tgp.utils.typing import ConnectionType, LiftType, ReduceType, SinvType
from tgp.utils.user_code import has_user_code

__all__ = ["ASAPooling"]


class ASAPooling(ScoredPooling):
    r"""ASAP pooling from `"ASAP: Adaptive Structure Aware Pooling for Learning Hierarchical Graph Representations"
    <https://arxiv.org/abs/1911.07979>`_.

    Every node aggregates its neighbourhood by attention. The neighbourhoods with the highest scores become supernodes.

    .. math::
        \mathbf{x}'_i = \sum_{j \in N(i)\cup i} \alpha_{ij}\,\mathbf{x}_j, \quad
        \alpha_{ij} = \mathrm{softmax}_j\,\mathrm{LeakyReLU}(\mathbf{a}^\top[\mathbf{W}\max_j \mathbf{h}_j \| \mathbf{h}_j]),
        \quad \mathbf{s} = \sigma(\mathrm{LEConv}(\mathbf{X}', \mathbf{A}))

    The kept nodes are connected as in the input graph. With ``soft_connect`` they are connected as in the paper, by
    :math:`S^\top A S` of the attention clusters. ``so.attention`` holds :math:`\alpha` of every edge. Attributes of the edges
    between kept nodes are kept. A self loop that ASAP adds has the attributes 0. With ``soft_connect`` there are no edge
    attributes, because input edges do not belong to pooled edges.

    Good for:
        Supernodes that summarize the neighbourhood of a node by attention, with a chosen ratio, on graphs without hubs.

    Avoid when:
        The graph has hubs and ``soft_connect`` is set: the product of the neighbourhoods is then large. The graph must
        stay connected: without ``soft_connect`` only edges between kept nodes remain.

    Complexity:
        ``O(E F + N F^2)`` time and ``O(E + N F)`` memory. With ``soft_connect`` also the product ``S^T A S``, whose
        size grows with the squares of the degrees.

    Args:
        in_channels: feature size.
        GNN: class of an optional convolution before the attention, built as ``GNN(F, F, ...)``.
        dropout: dropout of the attention.
        negative_slope: slope of the leaky ReLU.
        add_self_loops: keep self loops in the pooled graph. Cannot be combined with ``remove_self_loops``.
        soft_connect: connect attention clusters instead of kept nodes.
        ratio, nonlinearity, lift, s_inv_op, connect_red_op, lift_red_op, remove_self_loops, degree_norm,
            edge_weight_norm: see :class:`~tgp.src.scored.ScoredPooling`.
        **kwargs: arguments of the convolution. Names that it does not accept are ignored.
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        GNN: type | None = None,
        dropout: float = 0.0,
        negative_slope: float = 0.2,
        add_self_loops: bool = False,
        nonlinearity: str | Callable[[Tensor], Tensor] = "sigmoid",
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        connect_red_op: ConnectionType = "sum",
        lift_red_op: ReduceType = "sum",
        remove_self_loops: bool = True,
        degree_norm: bool = False,
        edge_weight_norm: bool = False,
        soft_connect: bool = False,
        **kwargs: Any,
    ) -> None:
        if add_self_loops and remove_self_loops:
            raise ParameterError(
                "remove_self_loops and add_self_loops cannot be both True: expected at most one of them",
                field="add_self_loops",
            )
        super().__init__(**{**base_kwargs(ScoredPooling, locals()), "in_channels": None})
        self.in_channels, self.ratio, self.GNN = in_channels, ratio, GNN
        self.dropout, self.negative_slope, self.add_self_loops = dropout, negative_slope, add_self_loops
        self.soft_connect = soft_connect
        # The layers are created in the order of tgp 1.0.2, so that a seed gives the same weights.
        self.select_scorer = LEConv(in_channels, 1)
        self.lin = torch.nn.Linear(in_channels, in_channels)
        self.att = torch.nn.Linear(2 * in_channels, 1)
        self.gnn_intra_cluster = None if GNN is None else build_gnn(GNN, in_channels, in_channels, kwargs)

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        super().reset_parameters()
        for layer in (self.lin, self.att, self.select_scorer, self.gnn_intra_cluster):
            if layer is not None:
                layer.reset_parameters()

    def extra_repr_args(self) -> dict[str, Any]:
        """Return the ratio, the convolution and the use of self loops."""
        name = None if self.GNN is None else self.GNN.__name__
        return {"ratio": self.ratio, "GNN": name, "add_self_loops": self.add_self_loops}

    def _execution(self, inputs: PoolInputs) -> ASAPExecution:  # type: ignore[override]  # scores in its own way
        return ASAPExecution(self, inputs)

    def _attention(self, x: Tensor, edges: Tensor, weight: Tensor | None) -> Tensor:
        """Return the attention of every edge, which sums to one over the edges into a node."""
        source, target = edges
        h = x
        if self.gnn_intra_cluster is not None:
            h = self.gnn_intra_cluster(
                **accepted(self.gnn_intra_cluster, x=x, edge_index=edges, edge_weight=weight)
            )
        query = self.lin(max_over_edges(h, source, target))
        if type(self.att) is torch.nn.Linear and not has_user_code(self.att):
            # Apply the two halves of the layer to the nodes, so that no row of 2F features per edge is needed.
            query_weight, member_weight = torch.split(self.att.weight.view(-1), [query.size(-1), h.size(-1)])
            score = (query @ query_weight + self.att.bias)[target] + (h @ member_weight)[source]
        else:
            score = self.att(torch.cat([query[target], h[source]], dim=-1)).view(-1)
        alpha = softmax(F.leaky_relu(score, self.negative_slope), target, num_nodes=x.size(0))
        return F.dropout(alpha, p=self.dropout, training=self.training)

    def _fitness(self, x: Tensor, edges: Tensor, into: EdgeMatrix) -> Tensor:
        """Return the score of every neighbourhood."""
        scorer = self.select_scorer
        if type(scorer) is not LEConv or has_user_code(scorer):
            fitness: Tensor = scorer(x, edges, into.weight)
        else:
            # LEConv as products: sum_j w_ji (a_j - b_i) = A^T a - b * in-degree.
            degree = weighted_degree(into.source, into.weight, x.size(0)).to(x.dtype).unsqueeze(-1)
            fitness = into.times(scorer.lin1(x)) - degree * scorer.lin2(x) + scorer.lin3(x)
        return fitness


class ASAPExecution(SparseExecution):
    """Execution of the stages of ASAP on neighbourhoods, which contain a node and its neighbours."""

    pooler: ASAPooling

    def __init__(self, pooler: ASAPooling, inputs: PoolInputs) -> None:
        x = inputs.x
        assert x is not None  # the pooler needs features
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        self.container = Container.of(inputs.adj)
        index, weight = connectivity_to_edge_index(inputs.adj, inputs.edge_weight)
        edges, weight = add_remaining_self_loops(index, weight, 1.0, x.size(0))
        self.attention = pooler._attention(x, edges, weight)
        into = EdgeMatrix(edges[1], edges[0], None, x.size(0), checked=inputs.checked)
        self.x = into.with_weight(self.attention).times(x)
        self.into = into.with_weight(weight)
        attr = inputs.edge_attr
        attr = None if attr is None else _attributes_with_loops(attr, index, x.size(0))
        super().__init__(pooler, inputs.replace(x=self.x, adj=edges, edge_weight=weight, edge_attr=attr))

    def select(self) -> SelectOutput:
        """Return the neighbourhoods with the highest scores."""
        so = self._select(self.pooler._fitness(self.x, self.inputs.adj, self.into))
        so.attention = self.attention
        so._extra_args.add("attention")
        return so

    def connect(self, so: SelectOutput, batch_pool: Tensor | None) -> Pooled:
        """Return the edges between kept nodes, or with ``soft_connect`` between attention clusters."""
        if self.pooler.soft_connect:
            edges, weight = self._soft_edges(so)
            self.inputs = self.inputs.replace(adj=edges, edge_weight=weight, edge_attr=None)
            # The edges already connect supernodes.
            so = SelectOutput.hard(torch.arange(so.num_supernodes, device=edges.device), so.num_supernodes)
        index, values = super().connect(so, batch_pool)
        if (
            self.edge_attr is not None and self.container.kind != "edge_index"
        ):  # the entries of a matrix are sorted
            order = (index[0] * so.num_supernodes + index[1]).argsort()
            self.edge_attr = self.edge_attr.index_select(0, order)
        return self.container.pack(index, values, so.num_supernodes)

    def _soft_edges(self, so: SelectOutput) -> tuple[Tensor, Tensor]:
        """Return the edges of ``S^T A S``. ``S`` holds the attention of the kept neighbourhoods."""
        edges, given = self.inputs.adj, self.inputs.edge_weight
        source, target = edges
        size, kept = self.x.size(0), so.cluster
        assert kept is not None  # no node has two entries
        member = kept[target] >= 0
        alpha = self.attention
        weight = torch.ones_like(alpha) if given is None else given.to(alpha.dtype)
        s = torch.sparse_coo_tensor(
            torch.stack([source[member], kept[target[member]]]),
            alpha[member],
            (size, so.num_supernodes),
            check_invariants=False,
        )
        a = torch.sparse_coo_tensor(edges, weight, (size, size), check_invariants=False)
        pooled = sparse_product(s.t(), sparse_product(a, s))
        return pooled.indices(), pooled.values()


def _attributes_with_loops(edge_attr: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return the attributes of the edges of :func:`add_remaining_self_loops`: proper edges, then one loop per node."""
    is_loop = edge_index[0] == edge_index[1]
    loops = edge_attr.new_zeros((num_nodes, *edge_attr.shape[1:]))
    loops = loops.index_copy(0, edge_index[0, is_loop], edge_attr[is_loop])
    return torch.cat([edge_attr[~is_loop], loops])
