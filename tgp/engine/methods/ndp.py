r"""NDP (node decimation pooling): keep one side of a spectral cut and connect the kept nodes by Kron reduction.

From `"Hierarchical Representation Learning in Graph Neural Networks with Node Decimation Pooling"
<https://arxiv.org/abs/1910.11436>`_ (TNNLS 2020). The cut of a component approximates the maximum cut by the signs of the
eigenvector of the largest eigenvalue of its normalised Laplacian,

.. math::
    \mathbf{z} = \mathrm{sign}(\mathbf{u}), \qquad
    \left(\mathbf{I} - \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}\right) \mathbf{u} = \lambda_{\mathrm{max}} \mathbf{u} .
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from tgp.engine.kron_blocks import EXACT_WORK
from tgp.engine.kron_reduction import (
    LargeRule,
    ThresholdRule,
    check_threshold,
    kron_reduce,
    simple_graph,
)
from tgp.engine.kron_tiles import ENTRY_WORK, dense_work
from tgp.engine.level_method import ADDED, GraphSizes, LevelBound, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.parameter_checks import check_choice
from tgp.engine.threads import run_over_ranges
from tgp.kernels.array_types import LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets

__all__ = ["METHOD", "CutRule", "NDPParams", "cut", "random_cut"]


CutRule = Literal["spectral", "flip"]

_FLIP_STEPS = 16
"""Lanczos steps before nodes are flipped."""

_MOST_EDGES = 32.0
"""Largest ratio of coarse to stored edges with the default threshold. Graphs whose weights differ by 1e60 have 15."""


@dataclass(frozen=True)
class NDPParams:
    """Parameters of node decimation.

    Args:
        sparse_threshold: entries of the reduced adjacency matrix with ``|a| <= sparse_threshold`` are removed.
        threshold: unit of ``sparse_threshold``. ``absolute``: 1. ``relative``: the largest ``|w|`` of the graph, so that
            the edges do not depend on the unit of the weights. ``auto``: 1 if the largest ``|w|`` is between 0.1 and
            1,000, otherwise the largest ``|w|``.
        cut: rule of the cut. ``spectral``: signs of the eigenvector, as in the paper. ``flip``: 16 Lanczos steps, then single
            nodes are flipped while the cut grows. This is faster for large graphs.
        large: Kron reduction of graphs whose exact elimination takes too long. ``series``: a power series, or walks if the
            graph is too large for it. ``walks``: walks up to a limit of work, the rule before engine revision 3.
    """

    sparse_threshold: float = 1e-2
    threshold: ThresholdRule = field(default="auto", metadata=ADDED)
    cut: CutRule = field(default="spectral", metadata=ADDED)
    large: LargeRule = field(default="series", metadata=ADDED)

    def __post_init__(self) -> None:
        check_threshold(self.sparse_threshold)
        check_choice("threshold", self.threshold, ThresholdRule)
        check_choice("cut", self.cut, CutRule)
        check_choice("large", self.large, LargeRule)


def assign(block: BlockCSR, params: NDPParams, key: RandomKey) -> Assignment:
    """Keep the nodes on one side of a cut of every connected component and drop the others.

    The side of the node of largest degree is kept. Isolated nodes are kept; every other component has nodes on both
    sides. All rules are in :func:`tgp.kernels.spectral_cut.cut_sides`. The method reads the simple undirected graph,
    see :func:`tgp.engine.kron_reduction.simple_graph`.

    Args:
        block: the graphs.
        params: parameters of the method, of which ``cut`` is used.
        key: key of the random start vectors.

    Returns:
        A hard assignment. Kept nodes are numbered in ascending order.
    """
    kept = cut(simple_graph(block, keep=True), params.cut == "flip", key) > 0
    before = offsets(kept)
    return Assignment(
        "hard",
        before[block.node_ptr],
        np.where(kept, before[:-1], -1).astype(np.int32),
        representative=np.flatnonzero(kept).astype(np.int32),
    )


def cut(graph: BlockCSR, flip: bool, key: RandomKey) -> npt.NDArray[np.int8]:
    """Return the side of every node of simple undirected graphs, 1 or -1.

    Args:
        graph: a block as returned by :func:`~tgp.engine.kron_reduction.simple_graph`.
        flip: use a few Lanczos steps and flips of single nodes instead of eigenvectors.
        key: key of the random start vectors.
    """
    from tgp.kernels.spectral_cut import cut_sides

    size = graph.num_nodes
    arrays = (graph.indptr, graph.indices, graph.weights_or_ones(), graph.node_ptr)
    found = np.empty(size, np.int32), np.zeros(size, np.int64), np.empty(size), np.zeros(size)
    colour, side, degree = np.zeros(size, np.int8), np.zeros(size, np.int8), np.zeros(size)
    flags = np.zeros(size, np.bool_), np.empty(size, np.bool_)
    position = np.empty(size, np.int32)  # also the queue of undecided nodes

    def run(first: int, last: int) -> None:
        _find_vectors(arrays, first, last, key, _FLIP_STEPS if flip else None, found, colour, position)
        cut_sides(*arrays, first, last, *found, flip, side, degree, *flags, position)

    run_over_ranges(run, graph.node_ptr + graph.edge_ptr)
    return side


def _find_vectors(
    arrays: tuple[PtrArray, IndexArray, FloatArray, PtrArray],
    first: int,
    last: int,
    key: RandomKey,
    steps: int | None,
    found: tuple[IndexArray, PtrArray, FloatArray, FloatArray],
    colour: npt.NDArray[np.int8],
    position: IndexArray,
) -> None:
    """Write the components of a range of graphs and their eigenvectors to ``found``."""
    from tgp.kernels import spectral_vector as kernels

    small = kernels.SMALL
    rows = np.empty(small + 1, np.int64), np.empty(small * small, np.int32), np.empty(small * small)
    scratch = np.empty(small * (small + 1)), *(np.empty(small) for _ in range(7))
    most = kernels.component_vectors(
        *arrays, first, last, key.seed, key.level, *found, colour, position, *rows, *scratch
    )
    if most == 0:
        return
    node_ptr, (_, extent, _, residual) = arrays[3], found
    span = slice(node_ptr[first], node_ptr[last])
    size = int(extent[span][residual[span] == kernels.UNSOLVED].max())
    limit = kernels.LANCZOS_STEPS if steps is None else steps
    rows = np.empty(size + 1, np.int64), np.empty(most, np.int32), np.empty(most)
    # Memory for as many vectors as the rows of the matrix take.
    vectors, basis = np.empty(4 * size), np.empty(max(most, _FLIP_STEPS * size))
    scratch = *(np.empty(kernels.LANCZOS_STEPS) for _ in range(5)), vectors, basis
    kernels.large_vectors(*arrays, first, last, limit, *found, position, *rows, *scratch)


def connect(block: BlockCSR, assignment: Assignment, params: NDPParams) -> BlockCSR:
    """Return the Kron reduction of the graphs to the kept nodes."""
    return kron_reduce(block, assignment, params.sparse_threshold, params.threshold, params.large)


def random_cut(num_nodes: int, seed: int = 0) -> FloatArray:
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


def cost(nodes: LongArray, edges: LongArray, params: NDPParams) -> FloatArray:
    """Estimate the work: about forty passes over nodes and edges for the eigenvectors and the reduction."""
    return 40.0 * (nodes + edges).astype(np.float64)


def bound(sizes: GraphSizes, params: NDPParams) -> LevelBound:
    """Return upper bounds of time and memory, and of the size of the coarse graph.

    The time is the sum of passes over the graph, the Lanczos steps, the elimination up to its limit, and the estimate or the
    full matrix of graphs that may exceed this limit. The length of eliminated rows is not known in advance. It is taken
    as the number of nodes within three hops, which is at most the product of the average degrees. Weights of any
    sign have the same limits. Sizes do not show that a graph is bipartite, so its Lanczos steps are included, although they
    are not needed. The number of coarse edges is limited by the threshold: twice the largest increase that was found.
    """
    n, e = sizes.nodes.astype(np.float64), sizes.edges.astype(np.float64)
    degree = e / np.maximum(n, 1.0)
    most = float(_FLIP_STEPS if params.cut == "flip" else 512)
    steps = np.where(n > 64, np.minimum(most, np.maximum(96.0, 2e8 / np.maximum(e, 1.0))), 0.0)
    row = np.minimum(n, degree**3)
    exact = np.minimum(0.5 * n * row * row, EXACT_WORK)
    is_large = exact >= EXACT_WORK
    dense = np.minimum(dense_work(n / 2, n / 2), np.maximum(2e10, ENTRY_WORK * e)) / 1e10
    large = np.where(is_large, np.maximum(5e-6 * e, np.where(n * n <= 16 * e, dense, 0.0)), 0.0)
    seconds = 4e-7 * (n + e) + steps * (4e-9 * e + 1e-8 * n) + 6e-9 * exact + large
    memory = 200.0 * n + 100.0 * e + np.where(is_large, 600.0 * e, 12.0 * np.minimum(exact, 16.0 * e))
    # A dropped node connects its kept neighbours. Half of the nodes or fewer are kept unless weights are negative.
    pairs = np.minimum(n * n, e + n * row * row)
    if params.sparse_threshold > 0:
        pairs = np.minimum(pairs, e * _MOST_EDGES * max(1.0, 1e-2 / params.sparse_threshold))
    return LevelBound(seconds, memory, sizes.nodes, np.minimum(pairs, 2.0**62).astype(np.int64))


METHOD = LevelMethod(
    "ndp",
    NDPParams,
    assign,
    connect,
    cost=cost,
    bound=bound,
    estimate=LevelEstimate(0.5, 0.75, weighted=True, scratch=500.0),
    revision=3,
    one_core="the cut",
)
