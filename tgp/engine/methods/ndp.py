"""NDP: keep one side of a spectral cut, join the kept nodes by Kron reduction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.engine.kron import check_threshold, kron, simple_graph
from tgp.engine.protocol import LevelEstimate, LevelMethod, RandomKey
from tgp.ragged import Assignment, BlockCSR

__all__ = ["METHOD", "NDPParams", "random_cut"]


@dataclass(frozen=True)
class NDPParams:
    """Parameters of node decimation.

    Args:
        sparse_threshold: entries of the reduced adjacency matrix with ``|a| <= sparse_threshold`` are
            left out.
    """

    sparse_threshold: float = 1e-2

    def __post_init__(self) -> None:
        check_threshold(self.sparse_threshold)


def assign(block: BlockCSR, params: NDPParams, draw: RandomKey) -> Assignment:
    """Keep one side of a large cut of every connected component; the other side is dropped.

    From "Hierarchical Representation Learning in Graph Neural Networks with Node Decimation Pooling"
    (TNNLS 2020). The cut has the signs of the top eigenvector of the normalised Laplacian; the side of
    the node of largest degree is kept. Isolated nodes are kept, any other component has nodes on
    both sides. All rules: :func:`tgp.kernels.spectral_cut.cut_sides`. The simple undirected graph counts,
    see :func:`tgp.engine.kron.simple_graph`. Kept nodes are numbered in ascending order.
    """
    from tgp.kernels.spectral_cut import cut_sides
    from tgp.kernels.spectral_vector import component_vectors

    graph = simple_graph(block)
    arrays = (graph.indptr, graph.indices, graph.weights_or_ones())
    parts = component_vectors(*arrays, graph.node_ptr, draw.seed, draw.level)
    kept = cut_sides(*arrays, *parts) > 0
    before = np.zeros(block.num_nodes + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    return Assignment(
        "hard",
        before[block.node_ptr],
        np.where(kept, before[:-1], -1).astype(np.int32),
        representative=np.flatnonzero(kept).astype(np.int32),
    )


def connect(block: BlockCSR, assignment: Assignment, params: NDPParams) -> BlockCSR:
    """The Kron reduction to the kept nodes."""
    return kron(block, assignment, params.sparse_threshold)


def random_cut(num_nodes: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """A cut to compare with: node 0 on side 1, node 1 on side -1, each other node on either, by hash."""
    from tgp.kernels._prims import hash_u64

    sides = np.array([1.0 if hash_u64(seed, 0, i, 0) & 1 else -1.0 for i in range(num_nodes)])
    sides[:2] = [1.0, -1.0][:num_nodes]
    return sides


def cost(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], params: NDPParams
) -> npt.NDArray[np.float64]:
    """Some forty passes over nodes and edges: eigenvector steps, then the reduction."""
    return 40.0 * (nodes + edges).astype(np.float64)


METHOD = LevelMethod(
    "ndp",
    NDPParams,
    assign,
    connect,
    cost=cost,
    expected=LevelEstimate(0.5, 0.75, weighted=True, scratch=500.0),
)
