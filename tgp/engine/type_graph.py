"""Graphs on which methods run if nodes have types: only nodes of the same type are connected."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from tgp.engine.contraction import contract
from tgp.errors import UnknownNameError
from tgp.kernels.array_types import BoolArray, FloatArray, LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.offsets import offsets

__all__ = ["TypeGraph", "connect_types"]

TypeGraph = Literal["auto", "same", "project"]
"""Edges on which supernodes depend: those inside a type, those and common neighbours of other types, or the latter only for
types without edges among themselves."""

_MAX_PAIRS = 16
"""Largest number of common neighbours of which all pairs are connected."""


def connect_types(block: BlockCSR, node_type: LongArray, mode: TypeGraph = "auto") -> BlockCSR:
    """Return a graph with the same nodes in which every edge connects two nodes of one type.

    A node with ``d`` neighbours of another type connects all pairs of them with weight ``1 / (d - 1)``, in both directions. If it
    has more than 16, only neighbours that follow each other in the order of the nodes are connected, so that the number of edges
    stays linear. Directions of edges are not used for this. Edges inside a type have their own weights, or 1. Parallel edges are
    added, unless the mode is ``same``.

    Args:
        block: Graphs with nodes of several types.
        node_type: ``[N]`` type of each node.
        mode: ``same`` keeps the edges inside types. ``project`` also connects common neighbours. ``auto`` does so only for types
            that have no edge among themselves in their graph.

    Raises:
        UnknownNameError: If the mode does not exist.

    Examples:
        >>> films = BlockCSR.from_edge_index([[0, 1], [2, 2]], num_nodes=3)  # two films with one actor
        >>> connect_types(films, np.array([0, 0, 1])).edge_index().tolist()
        [[0, 1], [1, 0]]
    """
    if mode not in get_args(TypeGraph):
        raise UnknownNameError("type graph", mode, get_args(TypeGraph))
    rows, cols = block.rows().astype(np.int64), block.indices.astype(np.int64)
    inside = node_type[rows] == node_type[cols]
    same_rows, same_cols = rows[inside], cols[inside]
    same_weight = None if block.weight is None else block.weight[inside]
    if mode == "same":
        return BlockCSR(
            offsets(np.bincount(same_rows, minlength=block.num_nodes)),
            same_cols.astype(np.int32),
            same_weight,
            block.node_ptr,
        )
    chosen = np.ones(block.num_nodes, bool)
    if mode == "auto":
        graph = block.graph_of_node()
        group = graph * (int(node_type.max(initial=0)) + 1) + node_type
        chosen = ~np.isin(group, group[same_rows])
    first, second, weight = _common_neighbours(rows[~inside], cols[~inside], node_type, chosen)
    # Also without any pair, so that the result of a graph does not depend on the other graphs.
    ones = np.ones(len(same_rows)) if same_weight is None else same_weight
    edges = np.stack([np.concatenate([same_rows, first]), np.concatenate([same_cols, second])])
    joined = BlockCSR.from_edge_index(edges, np.concatenate([ones, weight]), node_ptr=block.node_ptr)
    identity = Assignment("hard", block.node_ptr, np.arange(block.num_nodes, dtype=np.int32))
    return contract(joined, identity)  # adds the weights of parallel edges


def _common_neighbours(
    rows: LongArray, cols: LongArray, node_type: LongArray, chosen: BoolArray
) -> tuple[LongArray, LongArray, FloatArray]:
    """Return pairs of chosen nodes of one type with a neighbour of another type in common, and their weights."""
    middle, node = np.concatenate([rows, cols]), np.concatenate([cols, rows])
    middle, node = middle[chosen[node]], node[chosen[node]]
    order = np.lexsort((node, node_type[node], middle))
    middle, node = middle[order], node[order]
    kind = node_type[node]
    fresh = np.ones(len(node), bool)  # without parallel edges
    fresh[1:] = (middle[1:] != middle[:-1]) | (node[1:] != node[:-1])
    middle, node, kind = middle[fresh], node[fresh], kind[fresh]
    starts = np.ones(len(node), bool)
    starts[1:] = (middle[1:] != middle[:-1]) | (kind[1:] != kind[:-1])
    begin = np.flatnonzero(starts)
    size = np.diff(np.append(begin, len(node)))
    # Each member of a small group is paired with all later members, one of a large group with the next one.
    position = np.arange(len(node)) - np.repeat(begin, size)
    later = np.repeat(size, size) - 1 - position
    later = np.where(np.repeat(size > _MAX_PAIRS, size), np.minimum(later, 1), later)
    left = np.repeat(np.arange(len(node)), later)
    right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(later) - later, later)
    weight = np.repeat(1.0 / np.maximum(np.repeat(size, size) - 1, 1), later)
    both = np.concatenate([node[left], node[right]]), np.concatenate([node[right], node[left]])
    return *both, np.concatenate([weight, weight])
