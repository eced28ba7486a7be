"""Entries of the assignments between the levels of a hierarchy, for any kind of assignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.errors import InputError

__all__ = ["LevelLinks", "compose_links", "num_nodes_of"]


class LevelLinks(NamedTuple):
    """Entries of an assignment: nodes, supernodes and weights. Ids count through a batch.

    Args:
        node: ``[M]`` nodes of the level before.
        supernode: ``[M]`` nodes of the level.
        weight: ``[M]`` entries of a dense ``S``; ones for a sparse one, whose values are scores.
        is_hard: True if no node has several supernodes.
        num_supernodes: Number of nodes of the level.
    """

    node: Tensor
    supernode: Tensor
    weight: Tensor
    is_hard: bool
    num_supernodes: int

    @classmethod
    def of(cls, graph: Data, level: int) -> LevelLinks:
        """Return the links of a level to the level before."""
        so = graph.get("so")
        if so is None:
            raise InputError(
                f"level {level} is not linked to level {level - 1}: expected an assignment 'so', got None",
                field="so",
            )
        size = num_nodes_of(graph)
        if so.is_sparse:
            ones = torch.ones(len(so.node_index), device=so.node_index.device)
            return cls(so.node_index, so.cluster_index, ones, True, size)
        matrix = so.s.squeeze(0) if so.s.dim() == 3 else so.s
        node, column = matrix.nonzero(as_tuple=True)
        if so.batch is not None:
            column = so.batch[node] * matrix.size(1) + column
        is_hard = bool((matrix.count_nonzero(dim=1) <= 1).all())
        return cls(node, column, matrix[matrix != 0], is_hard, size)

    def has_members(self, kept: Tensor) -> Tensor:
        """Return True for each supernode that has one of the nodes in the mask ``kept``."""
        mask = kept.new_zeros(self.num_supernodes)
        mask[self.supernode[kept[self.node]]] = True
        return mask

    def mean(self, x: Tensor) -> Tensor:
        """Return the weighted mean of the rows of each supernode."""
        weight = self.weight.double()
        total = weight.new_zeros(self.num_supernodes, *x.shape[1:])
        mass = weight.new_zeros(self.num_supernodes).index_add_(0, self.supernode, weight)
        shape = (-1, *(1,) * (x.dim() - 1))
        total.index_add_(0, self.supernode, x[self.node].double() * weight.view(shape))
        return (total / torch.where(mass == 0, 1, mass).view(shape)).to(x.dtype)

    def strongest(self, num_nodes: int) -> Tensor:
        """Return the supernode with the largest entry of each node, -1 for a node without any."""
        result = self.node.new_full((num_nodes,), -1)
        node, supernode = self.node, self.supernode
        if (
            not self.is_hard
        ):  # sort by node, then by falling weight, then by supernode, and take the first of each node
            order = torch.argsort(supernode, stable=True)
            order = order[torch.argsort(self.weight[order], descending=True, stable=True)]
            order = order[torch.argsort(node[order], stable=True)]
            node, count = node[order].unique_consecutive(return_counts=True)
            supernode = supernode[order][count.cumsum(0) - count]
        result[node] = supernode
        return result


def compose_links(graphs: Sequence[Data], level: int) -> Tensor:
    """Return the supernode at ``level`` of each node of the input graph, -1 for dropped nodes."""
    cluster = torch.arange(num_nodes_of(graphs[0]), device=graphs[0].edge_index.device)
    for number in range(1, level + 1):
        step = LevelLinks.of(graphs[number], number).strongest(num_nodes_of(graphs[number - 1]))
        cluster[cluster >= 0] = step[cluster[cluster >= 0]]
    return cluster


def num_nodes_of(graph: Data) -> int:
    """Return the number of nodes of a level."""
    count = graph.num_nodes
    assert count is not None, "a level has a number of nodes"
    return int(count)
