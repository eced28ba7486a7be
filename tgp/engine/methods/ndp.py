r"""NDP (node decimation pooling): keep one side of a spectral cut and connect the kept nodes by Kron reduction.

From `"Hierarchical Representation Learning in Graph Neural Networks with Node Decimation Pooling"
<https://arxiv.org/abs/1910.11436>`_ (TNNLS 2020). The cut of a component approximates the maximum cut by the signs of the
eigenvector of the largest eigenvalue of its normalised Laplacian,

.. math::
    \mathbf{z} = \mathrm{sign}(\mathbf{u}), \qquad
    \left(\mathbf{I} - \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}\right) \mathbf{u} = \lambda_{\mathrm{max}} \mathbf{u} .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.engine.kron_reduction import check_threshold, kron_reduce, simple_graph
from tgp.engine.level_method import LevelEstimate, LevelMethod, RandomKey
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.offsets import offsets

__all__ = ["METHOD", "NDPParams", "random_cut"]


@dataclass(frozen=True)
class NDPParams:
    """Parameters of node decimation.

    Args:
        sparse_threshold: entries of the reduced adjacency matrix with ``|a| <= sparse_threshold`` are removed.
    """

    sparse_threshold: float = 1e-2

    def __post_init__(self) -> None:
        check_threshold(self.sparse_threshold)


def assign(block: BlockCSR, params: NDPParams, key: RandomKey) -> Assignment:
    """Keep the nodes on one side of a cut of every connected component and drop the others.

    The side of the node of largest degree is kept. Isolated nodes are kept; every other component has nodes on both
    sides. All rules are in :func:`tgp.kernels.spectral_cut.cut_sides`. The method reads the simple undirected graph,
    see :func:`tgp.engine.kron_reduction.simple_graph`.

    Args:
        block: the graphs.
        params: parameters of the method; not used here.
        key: key of the random start vectors.

    Returns:
        A hard assignment. Kept nodes are numbered in ascending order.
    """
    from tgp.kernels.spectral_cut import cut_sides
    from tgp.kernels.spectral_vector import component_vectors

    graph = simple_graph(block)
    arrays = (graph.indptr, graph.indices, graph.weights_or_ones())
    order, ptr, entry, residual = component_vectors(*arrays, graph.node_ptr, key.seed, key.level)
    kept = cut_sides(*arrays, order, ptr, entry, residual) > 0
    before = offsets(kept)
    return Assignment(
        "hard",
        before[block.node_ptr],
        np.where(kept, before[:-1], -1).astype(np.int32),
        representative=np.flatnonzero(kept).astype(np.int32),
    )


def connect(block: BlockCSR, assignment: Assignment, params: NDPParams) -> BlockCSR:
    """Return the Kron reduction of the graphs to the kept nodes."""
    return kron_reduce(block, assignment, params.sparse_threshold)


def random_cut(num_nodes: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """Return a random cut, for comparison with a spectral one.

    Args:
        num_nodes: number of nodes.
        seed: seed of the hash that chooses the side of each node.

    Returns:
        ``[num_nodes]`` sides 1 and -1. Node 0 is on side 1 and node 1 on side -1, so that neither side is empty.
    """
    from tgp.kernels._prims import hash_u64

    sides = np.array([1.0 if hash_u64(seed, 0, i, 0) & 1 else -1.0 for i in range(num_nodes)])
    sides[:2] = [1.0, -1.0][:num_nodes]
    return sides


def cost(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], params: NDPParams
) -> npt.NDArray[np.float64]:
    """Estimate the work: about forty passes over nodes and edges for the eigenvectors and the reduction."""
    return 40.0 * (nodes + edges).astype(np.float64)


METHOD = LevelMethod(
    "ndp",
    NDPParams,
    assign,
    connect,
    cost=cost,
    estimate=LevelEstimate(0.5, 0.75, weighted=True, scratch=500.0),
)
