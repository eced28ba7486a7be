"""Base class of connectors, and the edges between the supernodes of a sparse assignment."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.connect.edge_attributes import check_edge_attributes, contract_edge_attributes
from tgp.errors import InputError
from tgp.select.base_select import SelectOutput
from tgp.utils.engine_link import connect_by_engine
from tgp.utils.operator import Operator
from tgp.utils.ops.adjacency import (
    filter_edges,
    filter_rows,
    largest_weights,
    mark_heavy_edges,
    merge_parallel_edges,
    postprocess_adj_pool_sparse,
)
from tgp.utils.ops.connectivity import Container, connectivity_to_edge_index, real_weights
from tgp.utils.ops.reductions import check_reduction, reduce_groups
from tgp.utils.typing import ConnectionType

__all__ = ["Connect", "SparseConnect", "sparse_connect"]


class _AssignmentError(InputError, RuntimeError):
    """The assignment cannot be used. Also a ``RuntimeError``, which tgp 1.0.2 raised."""


Connected = tuple[Any, Tensor | None] | tuple[Any, Tensor | None, Tensor | None]
"""Pooled connectivity and its weights, and edge attributes if they were given."""


class Connect(Operator):
    """Base class of connectors, which compute the edges between supernodes."""

    def forward(
        self, edge_index: Any, so: SelectOutput, *, edge_weight: Tensor | None = None, **kwargs: Any
    ) -> Connected:
        """Connect the supernodes. Subclasses implement this method.

        A connector may have the arguments ``edge_attr`` and ``edge_attr_reduce``. If ``edge_attr`` is given, it then returns
        three values: connectivity, weights, and edge attributes or ``None``. For other connectors the pooler computes the
        edge attributes from the returned edges.

        Args:
            edge_index: connectivity of the nodes.
            so: assignment.
            edge_weight: weights of an edge list.
            **kwargs: further arguments of the subclass.

        Returns:
            The connectivity of the supernodes, and the weights of an edge list or ``None``.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement forward")


class SparseConnect(Connect):
    """Connector that maps the ends of every edge to their supernodes and merges parallel edges.

    Edges at a node without a supernode are removed. The values of the assignment are not used. Row ``c`` of the pooled
    features and node ``c`` of the pooled edges are the same supernode.

    Args:
        reduce_op: reduction of the weights of parallel edges: ``sum``, ``mean``, ``min``, ``max`` or ``mul``.
        remove_self_loops: remove edges inside a supernode.
        edge_weight_norm: divide weights by the largest ``|w|`` of their graph.
        degree_norm: divide weights by the square roots of both out-degrees.
        count_edges: give unweighted graphs unit weights before merging, so that pooled weights are numbers of edges.
    """

    def __init__(
        self,
        reduce_op: ConnectionType = "sum",
        remove_self_loops: bool = True,
        edge_weight_norm: bool = False,
        degree_norm: bool = False,
        count_edges: bool = False,
    ) -> None:
        super().__init__()
        self.reduce_op = reduce_op
        self.remove_self_loops = remove_self_loops
        self.edge_weight_norm = edge_weight_norm
        self.degree_norm = degree_norm
        self.count_edges = count_edges

    def forward(
        self,
        edge_index: Any,
        so: SelectOutput,
        *,
        edge_weight: Tensor | None = None,
        batch_pooled: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_attr_reduce: str = "mean",
        **kwargs: Any,
    ) -> Connected:
        """Connect the supernodes of a sparse assignment.

        Args:
            edge_index: edge list, sparse matrix or ``SparseTensor``.
            so: sparse assignment.
            edge_weight: ``[E]`` or ``[E, 1]`` weights of an edge list.
            batch_pooled: ``[K]`` graph ids for ``edge_weight_norm``; by default there is one graph.
            edge_attr: ``[E]`` or ``[E, D]`` attributes of the edges.
            edge_attr_reduce: reduction of the attributes of merged edges, see :func:`sparse_connect`.
            **kwargs: ignored.

        Returns:
            The pooled connectivity, of the same type as ``edge_index``, and the weights of an edge list. With
            ``edge_attr`` also the attributes of the pooled edges.
        """
        pooled = connect_by_engine(self, so, edge_index, edge_weight)
        if pooled is not None:
            if edge_attr is None:
                return pooled
            check_reduction(edge_attr_reduce, edge_attr, "edge_attr")
            attr = contract_edge_attributes(edge_index, so, pooled[0], edge_attr, edge_attr_reduce)
            return *pooled, attr
        return sparse_connect(
            edge_index,
            edge_weight,
            None if so.covers_all else so.node_index,
            so.cluster_index,
            so.num_nodes,
            so.num_supernodes,
            self.remove_self_loops,
            self.reduce_op,
            self.edge_weight_norm,
            batch_pooled,
            self.degree_norm,
            count_edges=self.count_edges,
            one_to_one=None if so._single is None else True,
            edge_attr=edge_attr,
            edge_attr_reduce=edge_attr_reduce,
        )


def sparse_connect(
    edge_index: Any,
    edge_weight: Tensor | None = None,
    node_index: Tensor | None = None,
    cluster_index: Tensor | None = None,
    num_nodes: int | None = None,
    num_supernodes: int | None = None,
    remove_self_loops: bool = True,
    reduce_op: ConnectionType = "sum",
    edge_weight_norm: bool = False,
    batch_pooled: Tensor | None = None,
    degree_norm: bool = False,
    *,
    count_edges: bool = False,
    one_to_one: bool | None = None,
    dtype: torch.dtype | None = None,
    edge_attr: Tensor | None = None,
    edge_attr_reduce: str = "mean",
) -> Connected:
    """Connect the supernodes of a sparse assignment; see :class:`SparseConnect`.

    Args:
        edge_index: edge list, sparse matrix or ``SparseTensor``.
        edge_weight: weights of an edge list. An unweighted graph stays unweighted unless an option needs weights.
        node_index: nodes that have a supernode; by default all nodes.
        cluster_index: supernode of each of these nodes; by default the position in ``node_index``.
        num_nodes: ``N``.
        num_supernodes: ``K``.
        remove_self_loops, reduce_op, edge_weight_norm, degree_norm, count_edges:
            see :class:`SparseConnect`.
        batch_pooled: ``[K]`` graph ids for ``edge_weight_norm``.
        one_to_one: True if every supernode is a single node and no node has two supernodes. By default this is read from
            the assignment.
        dtype: type of weights that replace missing ones; by default float32.
        edge_attr: ``[E]`` or ``[E, D]`` attributes, one row per edge. The rows of a sparse matrix are its entries, row by
            row.
        edge_attr_reduce: reduction of the attributes of the edges that are merged: ``sum``, ``mean``, ``max``, ``min``,
            ``mul``, ``majority``, ``any``, ``all``, ``first``, ``stats`` (mean, standard deviation and maximum) or
            ``none``. Edge weights do not count.

    Returns:
        The pooled connectivity, of the same type as ``edge_index``, and the weights of an edge list. With ``edge_attr``
        also the attributes of the pooled edges.

    Raises:
        InputError: if the assignment is missing, does not cover the nodes, or is overlapping, or if ``edge_attr`` does not
            have one row per edge.

    Examples:
        >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> edges, weight = sparse_connect(path, cluster_index=torch.tensor([0, 0, 1, 1]), num_nodes=4)
        >>> edges.tolist()
        [[0], [1]]
    """
    container = Container.of(edge_index)
    index, weight = connectivity_to_edge_index(edge_index, edge_weight)
    if edge_attr is not None:
        check_edge_attributes(edge_attr, index.size(1), index.device)
        check_reduction(edge_attr_reduce, edge_attr, "edge_attr")
    if weight is None and count_edges:
        weight = torch.ones(index.size(1), dtype=dtype or torch.float32, device=index.device)
    mapping, size, has_parallel_edges = _node_map(
        index, node_index, cluster_index, num_nodes, num_supernodes, one_to_one
    )
    coarse = mapping.index_select(0, index.reshape(-1)).view(2, -1)
    largest = largest_weights(coarse, weight, size, batch_pooled)
    # Remove edges before merging, because merging sorts them.
    keep = None if node_index is None else (coarse[0] >= 0) & (coarse[1] >= 0)
    if remove_self_loops:
        proper = coarse[0] != coarse[1]
        keep = proper if keep is None else keep & proper
    attr = None if edge_attr_reduce == "none" else edge_attr
    if keep is not None:
        attr = None if attr is None else filter_rows(attr, keep)
        coarse, weight = filter_edges(coarse, weight, keep)
    group = None
    # The entries of a matrix are sorted, so the attributes must follow the order of merged edges.
    if has_parallel_edges or (attr is not None and container.kind != "edge_index"):
        coarse, weight, group = merge_parallel_edges(coarse, weight, size, reduce_op, attr is not None)
    if attr is not None:
        group = torch.arange(coarse.size(1), device=coarse.device) if group is None else group
        attr = reduce_groups(attr, group, coarse.size(1), edge_attr_reduce)
        if weight is not None:
            attr = filter_rows(attr, mark_heavy_edges(coarse, real_weights(weight, dtype), largest))
    coarse, weight = postprocess_adj_pool_sparse(
        coarse, weight, size, False, degree_norm, edge_weight_norm, batch_pooled, dtype=dtype, largest=largest
    )
    packed = container.pack(coarse, weight, size)
    return packed if edge_attr is None else (*packed, attr)


def _node_map(
    edge_index: Tensor,
    node_index: Tensor | None,
    cluster_index: Tensor | None,
    num_nodes: int | None,
    num_supernodes: int | None,
    one_to_one: bool | None,
) -> tuple[Tensor, int, bool]:
    """Return the supernode of each node, the number of supernodes, and True if parallel edges must be merged.

    A node without a supernode has -1.
    """
    if node_index is None:
        if cluster_index is None:
            raise _AssignmentError(
                "a sparse assignment is missing: expected cluster_index or node_index, got None for both",
                field="cluster_index",
            )
        if num_nodes is not None and cluster_index.numel() != num_nodes:
            raise _AssignmentError(
                f"cluster_index must hold one supernode for each of {num_nodes} nodes, got {cluster_index.numel()}",
                field="cluster_index",
            )
        return cluster_index, _num_supernodes(cluster_index, num_supernodes), True
    if cluster_index is None:
        cluster_index = torch.arange(node_index.numel(), device=node_index.device)
    if num_nodes is None:
        num_nodes = (
            int(torch.cat([node_index, edge_index.reshape(-1)]).max()) + 1 if node_index.numel() > 0 else 0
        )
    size = _num_supernodes(cluster_index, num_supernodes)
    if one_to_one is None:
        if bool(torch.bincount(node_index, minlength=1).max() > 1):
            raise _AssignmentError(
                "the assignment is overlapping: expected one supernode per node, got a node with several",
                field="node_index",
            )
        one_to_one = bool(torch.bincount(cluster_index, minlength=1).max() <= 1)
    mapping = torch.full((num_nodes,), -1, dtype=torch.long, device=node_index.device)
    mapping[node_index] = cluster_index
    # If all nodes are kept, parallel edges are merged as for any other partition.
    return mapping, size, not one_to_one or node_index.numel() >= num_nodes


def _num_supernodes(cluster_index: Tensor, num_supernodes: int | None) -> int:
    if num_supernodes is not None:
        return num_supernodes
    return int(cluster_index.max()) + 1 if cluster_index.numel() > 0 else 0
