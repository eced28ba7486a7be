"""Kron reduction as a connector."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from tgp.connect.base_conn import Connect
from tgp.engine.kron_reduction import check_threshold, kron_reduce_simple, simple_graph
from tgp.errors import InputError
from tgp.ragged import BlockCSR
from tgp.select.base_select import SelectOutput
from tgp.utils.blocks import TorchBlock, to_adjacency, to_block
from tgp.utils.engine_link import connect_by_engine
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.tracing import opaque

__all__ = ["KronConnect"]


class KronConnect(Connect):
    r"""Join kept nodes so that they see the same electrical network as before.

    With kept nodes :math:`P` and dropped nodes :math:`Q`, the coarse graph has the Laplacian
    :math:`\mathbf{L}_{PP} - \mathbf{L}_{PQ} \mathbf{L}_{QQ}^{-1} \mathbf{L}_{QP}`. Effective resistances between kept
    nodes stay what they were, up to what the threshold leaves out. The simple undirected graph counts: no self
    loops, parallel edges merged, the larger weight of the two directions. Components
    without a kept node vanish.

    The engine computes it in float64, graph by graph. Where ``edge_weight`` asks for a gradient, the weights are
    computed again in torch, with dense matrices of one graph at a time.

    Args:
        sparse_threshold: coarse weights ``|w| <= sparse_threshold`` are left out.
    """

    def __init__(self, sparse_threshold: float = 1e-2) -> None:
        super().__init__()
        self.sparse_threshold = check_threshold(sparse_threshold)

    def forward(
        self,
        edge_index: Any,
        so: SelectOutput,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> tuple[Any, Tensor | None]:
        """Connect the supernodes of ``so``; the result has the container of ``edge_index`` and is weighted.

        Args:
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            so: a sparse assignment with one node per supernode, or with ``so.mis``: the node of each.
                With ``so.L``, a Laplacian, the edges are those of ``so.L``.
            edge_weight: ``[E]`` or ``[E, 1]`` for an edge list.
            batch: ``[N]`` graph ids; default ``so.batch``, else one graph. Edges never leave a graph, so
                this only says what belongs together.
            batch_size: number of graphs.

        Raises:
            InputError: if it is not clear which node stands for each supernode.
        """
        pooled = connect_by_engine(self, so, edge_index, edge_weight)
        if pooled is not None:
            return pooled
        return self._reduce(edge_index, so, edge_weight, batch, batch_size)

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
        if given is not None:
            edges, weights = _laplacian_edges(given)
        else:
            edges, weights = edge_index, edge_weight
            if not getattr(so, "_decimated", False):
                warnings.warn(
                    "Kron reduction after a selection other than NDP: the coarse graph joins one node per supernode, "
                    "whatever the pooled features stand for",
                    UserWarning,
                    stacklevel=4,
                )
        batch = so.batch if batch is None else batch
        source = to_block(edges, weights, batch, so.num_nodes, None if batch is None else batch_size)
        places = kept if source.rank is None else source.rank[kept]
        coarse = _reduce(source.block, places, self.sparse_threshold)
        form = source if given is None else to_block(edge_index, edge_weight, num_nodes=so.num_nodes)
        index, values = connectivity_to_edge_index(edges, weights)
        if values is None or not values.requires_grad or not torch.is_grad_enabled():
            return to_adjacency(coarse, form)
        weight = _differentiable(source, index, values, places, coarse)
        pairs = torch.from_numpy(coarse.edge_index()).to(values.device)
        return form.container.pack(pairs, weight.to(values.dtype), coarse.num_nodes)


def _kept_nodes(so: SelectOutput) -> npt.NDArray[np.int64]:
    """``[K]`` input node that stands for each supernode."""
    if so.is_dense:
        raise InputError("Kron reduction needs a sparse assignment, got a dense one", field="so")
    nodes, clusters = so.node_index, so.cluster_index
    if nodes.numel() == so.num_supernodes and clusters.unique().numel() == nodes.numel():
        out = torch.empty_like(nodes)
        out[clusters] = nodes
        return out.cpu().numpy()
    mis = getattr(so, "mis", None)
    if mis is None or mis.numel() != so.num_supernodes:
        raise InputError(
            f"Inconsistent number of clusters and node indices: Kron reduction keeps one node per supernode, got "
            f"{nodes.numel()} nodes in {so.num_supernodes} supernodes and no so.mis",
            field="so",
            hint="use NDP, a top-k selection or k-MIS before a Kron reduction",
        )
    if mis.numel() and (int(mis.min()) < 0 or int(mis.max()) >= so.num_nodes):
        raise InputError(
            f"MIS indices out of range: so.mis must hold ids in [0, {so.num_nodes}), got {int(mis.min())}..{int(mis.max())}",
            field="so",
        )
    return mis.cpu().numpy()


def _laplacian_edges(given: Any) -> tuple[Tensor, Tensor]:
    """Off-diagonal entries of a Laplacian (tensor, scipy matrix or array) as an edge list, weights ``-L_ij``."""
    if isinstance(given, Tensor):
        index, value = connectivity_to_edge_index(given.to_sparse_coo())
    else:
        from scipy.sparse import coo_array

        matrix = coo_array(given)
        index = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
        value = torch.from_numpy(np.asarray(matrix.data, dtype=np.float64)).float()
    off = index[0] != index[1]
    return index[:, off], -value[off]


def _reduce(block: BlockCSR, places: npt.NDArray[np.int64], threshold: float) -> BlockCSR:
    """The coarse graphs, numbered as ``places``: the block node of each supernode."""
    # The engine wants supernodes graph after graph; they get their own numbers back afterwards.
    order = np.argsort(places, kind="stable")
    nodes = places[order].astype(np.int32)
    super_ptr = np.searchsorted(nodes, block.node_ptr).astype(np.int64)
    coarse = kron_reduce_simple(simple_graph(block), nodes, super_ptr, threshold)
    if (order[1:] < order[:-1]).any():
        return BlockCSR.from_edge_index(order[coarse.edge_index()], coarse.weight, num_nodes=len(places))
    return coarse


def _differentiable(
    source: TorchBlock, index: Tensor, values: Tensor, places: npt.NDArray[np.int64], coarse: BlockCSR
) -> Tensor:
    """The weights of ``coarse`` as functions of ``values``, by one dense Schur complement per graph."""
    block, device = source.block, values.device
    ends = index.cpu().numpy()
    ends = ends if source.rank is None else source.rank[ends]
    graph_of = block.graph_of_node()
    edge_graph, super_graph = graph_of[ends[0]], graph_of[places]
    pairs = coarse.edge_index()
    pair_graph = super_graph[pairs[0]]
    column = np.empty(len(places), np.int64)
    out = values.new_zeros(pairs.shape[1], dtype=torch.float64)
    for g in np.unique(pair_graph):
        first = int(block.node_ptr[g])
        inside, supers, wanted = (np.flatnonzero(ids == g) for ids in (edge_graph, super_graph, pair_graph))
        column[supers] = np.arange(len(supers))
        adjacency = _schur(
            torch.from_numpy(ends[:, inside] - first).to(device),
            values[torch.from_numpy(inside).to(device)].double(),
            int(block.node_ptr[g + 1]) - first,
            places[supers] - first,
        )
        row, col = torch.from_numpy(column[pairs[:, wanted]]).to(device)
        out = out.index_put((torch.from_numpy(wanted).to(device),), adjacency[row, col])
    return out


def _schur(index: Tensor, values: Tensor, num_nodes: int, kept: npt.NDArray[np.int64]) -> Tensor:
    """``[k, k]`` reduced adjacency (diagonal: anything) of one graph given as an edge list."""
    total = values.new_zeros(num_nodes, num_nodes).index_put((index[0], index[1]), values, accumulate=True)
    there = torch.zeros_like(total, dtype=torch.bool)
    there[index[0], index[1]] = True
    both = there & there.t()
    graph = torch.where(both, torch.maximum(total, total.t()), total + total.t())
    graph = graph.masked_fill(torch.eye(num_nodes, dtype=torch.bool, device=graph.device), 0.0)
    laplacian = graph.sum(dim=1).diag() - graph
    label = connected_components(graph.detach().cpu().numpy() != 0.0, directed=False)[1]
    # A component without a kept node has a singular block, and nothing to add.
    dropped = np.setdiff1d(np.flatnonzero(np.isin(label, label[kept])), kept)
    p = torch.from_numpy(kept).to(graph.device)
    q = torch.from_numpy(dropped).to(graph.device)
    bridge = laplacian[q[:, None], p]
    return bridge.t() @ torch.linalg.solve(laplacian[q[:, None], q], bridge) - laplacian[p[:, None], p]
