"""Relations of heterogeneous graphs, and the graph of all their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch_geometric.data import HeteroData

from tgp.errors import DatasetError
from tgp.kernels.array_types import LongArray
from tgp.ragged import BlockCSR
from tgp.ragged.offsets import offsets
from tgp.ragged.types import Relation, parse_relations

__all__ = ["Relation", "UnionGraph", "parse_relations"]


class UnionGraph(NamedTuple):
    """All nodes of a heterogeneous graph as one graph, type by type.

    Args:
        types: Names of the node types.
        relations: Names of the relations.
        first: ``[T + 1]`` first node of each type.
        edges: Edges of each relation ``[2, E]``. Ids count through all types.
        weights: Weights of each relation, or ``None``.
    """

    types: list[str]
    relations: list[Relation]
    first: LongArray
    edges: dict[Relation, LongArray]
    weights: dict[Relation, Any]

    @classmethod
    def of(
        cls, data: HeteroData, types: Sequence[str] | None = None, relations: Sequence[Relation] | None = None
    ) -> UnionGraph:
        """Read the nodes and edges of a heterogeneous graph.

        Args:
            data: Graph, not a batch.
            types: Order of the types of nodes; that of the graph if ``None``.
            relations: Order of the relations; that of the graph if ``None``.

        Raises:
            DatasetError: If the graph is a batch, or if nodes or edges are missing or wrong.
        """
        if any("batch" in store for store in data.node_stores):
            raise DatasetError(
                "the graph is a batch: expected one heterogeneous graph",
                hint="coarsen graphs before they are joined",
            )
        types = list(data.node_types if types is None else types)
        relations = list(data.edge_types if relations is None else relations)
        sizes = []
        for name in types:
            size = data[name].num_nodes
            if size is None:
                raise DatasetError(
                    f"the number of nodes of type {name!r} is not known: expected 'x' or 'num_nodes', got neither"
                )
            sizes.append(int(size))
        first = offsets(sizes)
        edges, weights = {}, {}
        for relation in relations:
            index = data[relation].get("edge_index")
            if not isinstance(index, Tensor) or index.dim() != 2 or index.size(0) != 2:
                raise DatasetError(
                    f"relation {'-'.join(relation)} has no edges: expected an edge_index of shape [2, E]"
                )
            ends = index.detach().cpu().numpy().astype(np.int64)
            for row, kind in zip(ends, (relation[0], relation[2]), strict=True):
                if kind not in types:
                    raise DatasetError(
                        f"relation {'-'.join(relation)} has ends of type {kind!r}, which the graph does not have"
                    )
                size = sizes[types.index(kind)]
                if len(row) and not (row.min() >= 0 and row.max() < size):
                    raise DatasetError(
                        f"relation {'-'.join(relation)} has a wrong id: expected ids of type {kind!r} in [0, {size}), got "
                        f"{row.min()} to {row.max()}"
                    )
                row += first[types.index(kind)]
            edges[relation] = ends
            weight = data[relation].get("edge_weight")
            weights[relation] = None if weight is None else weight.detach().cpu().flatten().numpy()
        return cls(types, relations, first, edges, weights)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all types."""
        return int(self.first[-1])

    def weight_type(self, relation: Relation) -> Any:
        """Return the type of the weights of a relation."""
        weight = self.weights[relation]
        return np.float64 if weight is not None and weight.dtype == np.float64 else np.float32

    @property
    def node_type(self) -> LongArray:
        """``[N]`` type of each node."""
        return np.repeat(np.arange(len(self.types)), np.diff(self.first))

    def blocks(self) -> dict[Relation, BlockCSR]:
        """Return the edges of each relation as rows over all nodes."""
        return {
            relation: BlockCSR.from_edge_index(ends, self.weights[relation], num_nodes=self.num_nodes)
            for relation, ends in self.edges.items()
        }
