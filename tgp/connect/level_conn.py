"""Connector of level methods that do not contract edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tgp.connect.base_conn import Connect, Connected
from tgp.engine.coarsening import connect_level
from tgp.engine.schedule import LevelSpec
from tgp.errors import InputError
from tgp.ragged import Assignment
from tgp.select.base_select import SelectOutput
from tgp.utils.blocks import TorchBlock, to_adjacency, to_block
from tgp.utils.engine_link import connect_by_engine
from tgp.utils.tracing import opaque

__all__ = ["LevelConnect"]


class LevelConnect(Connect):
    """Connector that runs the connection of a level method of the engine.

    The pooled weights have no gradient with respect to ``edge_weight``.

    Args:
        spec: method and parameters of the level.
    """

    def __init__(self, spec: LevelSpec) -> None:
        super().__init__()
        self.spec = spec

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
            so: sparse assignment of each node to at most one supernode. Supernodes are numbered graph by graph.
            edge_weight: ``[E]`` or ``[E, 1]`` weights of an edge list.
            batch: ``[N]`` graph ids; by default ``so.batch``, or one graph.
            batch_size: number of graphs.
            edge_attr: attributes of the edges. They cannot be pooled, because input edges do not belong to pooled edges.
            **kwargs: ignored.

        Returns:
            The pooled connectivity, of the same type as ``edge_index``, and the weights of an edge list or ``None``. With
            ``edge_attr`` also ``None``, which means that the pooled edges have no attributes.

        Raises:
            InputError: if the assignment is dense or does not fit the method.
        """
        pooled = connect_by_engine(self, so, edge_index, edge_weight)
        if pooled is None:
            pooled = self._connect(
                edge_index, so, edge_weight, so.batch if batch is None else batch, batch_size
            )
        return pooled if edge_attr is None else (*pooled, None)

    @opaque
    def _connect(
        self,
        edge_index: Any,
        so: SelectOutput,
        edge_weight: Tensor | None,
        batch: Tensor | None,
        batch_size: int | None,
    ) -> tuple[Any, Tensor | None]:
        if so.node_index is None or so.cluster_index is None:
            raise InputError(
                f"the assignment is dense: expected a sparse assignment for {self.spec.method}, got a dense one",
                field="so",
            )
        source = to_block(edge_index, edge_weight, batch, so.num_nodes, None if batch is None else batch_size)
        nodes, clusters = so.node_index.cpu().numpy(), so.cluster_index.cpu().numpy()
        block = source.block
        cluster = np.full(block.num_nodes, -1, np.int32)
        cluster[nodes if source.rank is None else source.rank[nodes]] = clusters
        graph = np.zeros(so.num_supernodes, np.int64)
        graph[cluster[cluster >= 0]] = block.graph_of_node()[cluster >= 0]
        super_ptr = np.searchsorted(graph, np.arange(block.num_graphs + 1)).astype(np.int64)
        chosen = self._find_representatives(so, source)
        assignment = Assignment("hard", super_ptr, cluster, representative=chosen).validate(block.node_ptr)
        return to_adjacency(connect_level(block, assignment, self.spec, source.weight_dtype), source)

    def _find_representatives(self, so: SelectOutput, source: TorchBlock) -> npt.NDArray[Any] | None:
        """Return the node of the block that represents each supernode, or ``None`` if the assignment does not name it."""
        name = self.spec.level_method.representative
        nodes = None if name is None else getattr(so, name, None)
        if not isinstance(nodes, Tensor):
            return None
        if nodes.numel() > 0 and not 0 <= int(nodes.min()) <= int(nodes.max()) < source.block.num_nodes:
            raise InputError(
                f"so.{name} is out of range: expected nodes in [0, {source.block.num_nodes})", field="so"
            )
        chosen = nodes.cpu().numpy()
        return chosen if source.rank is None else source.rank[chosen]
