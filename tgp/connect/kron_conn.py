"""Connector by Kron reduction."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from tgp.connect.base_conn import Connect, Connected
from tgp.engine.kron_reduction import (
    ThresholdRule,
    check_rule,
    check_threshold,
    kron_reduce_simple,
    simple_graph,
)
from tgp.errors import InputError
from tgp.ragged import BlockCSR
from tgp.select.base_select import SelectOutput
from tgp.utils.blocks import TorchBlock, to_adjacency, to_block
from tgp.utils.engine_link import connect_by_engine
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.tracing import opaque

__all__ = ["KronConnect"]


class KronConnect(Connect):
    r"""Connector that joins the kept nodes by Kron reduction of the Laplacian.

    With kept nodes :math:`P` and dropped nodes :math:`Q`, the pooled graph has the Laplacian

    .. math::
        \mathbf{L}' = \mathbf{L}_{PP} - \mathbf{L}_{PQ} \mathbf{L}_{QQ}^{-1} \mathbf{L}_{QP} .

    Effective resistances between kept nodes do not change, except for the edges that the threshold removes. The input
    is treated as a simple undirected graph: self loops are ignored, parallel edges are merged, and the larger weight of
    the two directions is used. Components without a kept node are removed.

    The engine computes the reduction in float64, graph by graph. If ``edge_weight`` requires a gradient, the weights are
    computed again in torch, with dense matrices of one graph at a time.

    A negative weight stands for dissimilarity: the Laplacian of such a graph is the signed one, with the degrees
    :math:`\sum_j |a_{ij}|`. See :class:`~tgp.poolers.NDPPooling`.

    Args:
        sparse_threshold: remove edges with a weight ``|w| <= sparse_threshold``.
        threshold: unit of ``sparse_threshold``: ``auto``, ``absolute`` or ``relative``, see
            :class:`~tgp.poolers.NDPPooling`.
    """

    def __init__(self, sparse_threshold: float = 1e-2, threshold: ThresholdRule = "auto") -> None:
        super().__init__()
        self.sparse_threshold = check_threshold(sparse_threshold)
        self.threshold = check_rule(threshold)

    def forward(
        self,
        edge_index: Any,
        so: SelectOutput,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        edge_attr: Tensor | None = None,
        **kwargs: Any,
    ) -> Connected:
        """Connect the supernodes of a sparse assignment.

        Args:
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            so: sparse assignment with one node per supernode, or with the attribute ``mis`` that holds the node of each
                supernode. If it has the attribute ``L``, a Laplacian, its edges replace ``edge_index``.
            edge_weight: ``[E]`` or ``[E, 1]`` weights of an edge list.
            batch: ``[N]`` graph ids; by default ``so.batch``, or one graph. The result does not depend on them, because
                no edge connects two graphs; they divide the computation.
            batch_size: number of graphs.
            edge_attr: attributes of the edges. They cannot be pooled, because input edges do not belong to pooled edges.
            **kwargs: ignored.

        Returns:
            The pooled connectivity, of the same type as ``edge_index`` and always weighted, and the weights of an edge
            list. With ``edge_attr`` also ``None``, which means that the pooled edges have no attributes.

        Raises:
            InputError: if the node of a supernode is not known.
        """
        pooled = connect_by_engine(self, so, edge_index, edge_weight)
        if pooled is None:
            pooled = self._reduce(edge_index, so, edge_weight, batch, batch_size)
        return pooled if edge_attr is None else (*pooled, None)

    @opaque
    def _reduce(
        self,
        edge_index: Any,
        so: SelectOutput,
        edge_weight: Tensor | None,
        batch: Tensor | None,
        batch_size: int | None,
    ) -> tuple[Any, Tensor | None]:
        given = getattr(so, "L", None)
        kept = _kept_nodes(so)
        edges: Any = edge_index
        weights = edge_weight
        if given is not None:
            edges, weights = _laplacian_edges(given)
        else:
            if not getattr(so, "_decimated", False):
                warnings.warn(
                    "Kron reduction after a selection other than NDP: the pooled graph connects one node per supernode, "
                    "but the pooled features may come from other nodes, too",
                    UserWarning,
                    stacklevel=4,
                )
        batch = so.batch if batch is None else batch
        source = to_block(edges, weights, batch, so.num_nodes, None if batch is None else batch_size)
        nodes = kept if source.rank is None else source.rank[kept]
        coarse = _reduce(source.block, nodes, self.sparse_threshold, self.threshold)
        form = source if given is None else to_block(edge_index, edge_weight, num_nodes=so.num_nodes)
        index, values = connectivity_to_edge_index(edges, weights)
        if values is None or not values.requires_grad or not torch.is_grad_enabled():
            return to_adjacency(coarse, form)
        weight = _differentiable_weights(source, index, values, nodes, coarse)
        pairs = torch.from_numpy(coarse.edge_index()).to(values.device)
        return form.container.pack(pairs, weight.to(values.dtype), coarse.num_nodes)


def _kept_nodes(so: SelectOutput) -> npt.NDArray[np.int64]:
    """Return the ``[K]`` node that represents each supernode."""
    nodes, clusters = so.node_index, so.cluster_index
    if nodes is None or clusters is None:
        raise InputError("Kron reduction needs a sparse assignment, got a dense one", field="so")
    if nodes.numel() == so.num_supernodes and clusters.unique().numel() == nodes.numel():
        out = torch.empty_like(nodes)
        out[clusters] = nodes
        return out.cpu().numpy()
    mis: Tensor | None = getattr(so, "mis", None)
    if mis is None or mis.numel() != so.num_supernodes:
        raise InputError(
            f"Inconsistent number of clusters and node indices: Kron reduction keeps one node per supernode, got "
            f"{nodes.numel()} nodes in {so.num_supernodes} supernodes and no so.mis",
            field="so",
            hint="use NDP, a top-k selection or k-MIS before a Kron reduction",
        )
    if mis.numel() > 0 and (int(mis.min()) < 0 or int(mis.max()) >= so.num_nodes):
        raise InputError(
            f"MIS indices out of range: so.mis must hold ids in [0, {so.num_nodes}), got {int(mis.min())}..{int(mis.max())}",
            field="so",
        )
    return mis.cpu().numpy()


def _laplacian_edges(given: Any) -> tuple[Tensor, Tensor]:
    """Return the edges of a Laplacian and their weights ``-L_ij``. It may be a tensor, a scipy matrix or an array."""
    if isinstance(given, Tensor):
        coo = given.to_sparse_coo().coalesce()
        index, value = coo.indices(), coo.values()
    else:
        from scipy.sparse import coo_array

        matrix = coo_array(given)
        index = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
        value = torch.from_numpy(np.asarray(matrix.data, dtype=np.float64)).float()
    off = index[0] != index[1]
    return index[:, off], -value[off]


def _reduce(block: BlockCSR, kept: npt.NDArray[np.int64], threshold: float, rule: ThresholdRule) -> BlockCSR:
    """Return the pooled graphs. Supernode ``i`` is node ``kept[i]`` of the block."""
    # The engine needs supernodes sorted by graph. The original numbers are restored afterwards.
    order = np.argsort(kept, kind="stable")
    nodes = kept[order].astype(np.int32)
    super_ptr = np.searchsorted(nodes, block.node_ptr).astype(np.int64)
    coarse = kron_reduce_simple(simple_graph(block), nodes, super_ptr, threshold, rule)
    if (order[1:] < order[:-1]).any():
        return BlockCSR.from_edge_index(order[coarse.edge_index()], coarse.weight, num_nodes=len(kept))
    return coarse


def _differentiable_weights(
    source: TorchBlock, index: Tensor, values: Tensor, kept: npt.NDArray[np.int64], coarse: BlockCSR
) -> Tensor:
    """Return the weights of the pooled edges, with gradients with respect to ``values``.

    The weights come from one dense Schur complement per graph.
    """
    block, device = source.block, values.device
    ends = index.cpu().numpy()
    ends = ends if source.rank is None else source.rank[ends]
    graph_of = block.graph_of_node()
    edge_graph, super_graph = graph_of[ends[0]], graph_of[kept]
    pairs = coarse.edge_index()
    pair_graph = super_graph[pairs[0]]
    column = np.empty(len(kept), np.int64)
    out = values.new_zeros(pairs.shape[1], dtype=torch.float64)
    for g in np.unique(pair_graph):
        first = int(block.node_ptr[g])
        inside, supers, wanted = (np.flatnonzero(ids == g) for ids in (edge_graph, super_graph, pair_graph))
        column[supers] = np.arange(len(supers))
        adjacency = _schur(
            torch.from_numpy(ends[:, inside] - first).to(device),
            values[torch.from_numpy(inside).to(device)].double(),
            int(block.node_ptr[g + 1]) - first,
            kept[supers] - first,
        )
        row, col = torch.from_numpy(column[pairs[:, wanted]]).to(device)
        out = out.index_put((torch.from_numpy(wanted).to(device),), adjacency[row, col])
    return out


def _schur(index: Tensor, values: Tensor, num_nodes: int, kept: npt.NDArray[np.int64]) -> Tensor:
    """Return the reduced adjacency ``[k, k]`` of the graph of an edge list. The diagonal has no meaning."""
    total = values.new_zeros(num_nodes, num_nodes).index_put((index[0], index[1]), values, accumulate=True)
    is_edge = torch.zeros_like(total, dtype=torch.bool)
    is_edge[index[0], index[1]] = True
    both = is_edge & is_edge.t()
    graph = torch.where(both, torch.maximum(total, total.t()), total + total.t())
    graph = graph.masked_fill(torch.eye(num_nodes, dtype=torch.bool, device=graph.device), 0.0)
    # The signed Laplacian: diagonally dominant, so the block of the dropped nodes below is not singular.
    laplacian = graph.abs().sum(dim=1).diag() - graph
    label = connected_components(graph.detach().cpu().numpy() != 0.0, directed=False)[1]
    # The block of a component without a kept node is singular, and the component does not contribute.
    dropped = np.setdiff1d(np.flatnonzero(np.isin(label, label[kept])), kept)
    p = torch.from_numpy(kept).to(graph.device)
    q = torch.from_numpy(dropped).to(graph.device)
    between = laplacian[q[:, None], p]
    solution: Tensor = torch.linalg.solve(laplacian[q[:, None], q], between)
    return between.t() @ solution - laplacian[p[:, None], p]
