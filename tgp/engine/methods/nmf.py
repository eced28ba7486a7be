r"""NMF: soft clusters from a non-negative factorisation of the adjacency matrix.

From `"A Non-Negative Factorization approach to node pooling in Graph Convolutional Neural Networks"
<https://arxiv.org/abs/1909.03287>`_ (AI*IA 2019),

.. math::
    \mathbf{W}, \mathbf{H} = \mathrm{argmin}_{\mathbf{W}, \mathbf{H} \ge 0} \,
    \| \max(\mathbf{A}, 0) - \mathbf{W} \mathbf{H} \|_F^2 , \qquad
    \mathbf{S} = \mathrm{softmax}(\mathbf{H}^\top) .
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tgp.engine.contraction import ContractOptions, contract, make_options
from tgp.engine.level_method import ADDED, GraphSizes, LevelBound, LevelEstimate, LevelMethod, RandomKey
from tgp.engine.parameter_checks import check_share, check_whole
from tgp.engine.threads import run_over_ranges
from tgp.kernels.array_types import LongArray
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, IndexArray, PtrArray
from tgp.ragged.offsets import offsets, run_lengths, run_positions

__all__ = ["METHOD", "NMFParams"]

LARGE_GRAPH = 2000
"""Number of nodes above which a graph is factorised row by row, and ``gain`` ends the sweeps."""

TYPICAL_SWEEPS = 200
"""Number of sweeps over a small graph in estimates of the work. Few graphs need more."""

MOST_SWEEPS = 400
"""Twice the number of sweeps over a large graph for which the slowest family of graphs needs ``gain = 0.01``."""

Rows = tuple[PtrArray, IndexArray, FloatArray]


@dataclass(frozen=True)
class NMFParams:
    """Parameters of the factorisation and of the coarse graph.

    Args:
        k: number of supernodes per graph. A graph with fewer nodes gets empty supernodes.
        remove_self_loops: set the diagonal of the coarse graph to zero.
        degree_norm: normalise the coarse graph symmetrically by its degrees.
        edge_weight_norm: divide the coarse weights of each graph by the largest one.
        tol: stop when the projected-gradient violation of a sweep falls below ``tol`` times that of the first sweep.
        max_sweeps: largest number of sweeps over both factors.
        gain: stop on a graph of more than 2,000 nodes when the second half of the sweeps explained less than this share
            more of the adjacency matrix. 0 uses only ``tol`` and ``max_sweeps``.
    """

    k: int = 8
    remove_self_loops: bool = True
    degree_norm: bool = True
    edge_weight_norm: bool = False
    tol: float = 1e-3
    max_sweeps: int = 1000
    gain: float = field(default=0.01, metadata=ADDED)

    def __post_init__(self) -> None:
        for name in ("k", "max_sweeps"):
            check_whole(name, getattr(self, name))
        for name in ("tol", "gain"):
            check_share(name, getattr(self, name), zero=True, one=False)

    def contract_options(self) -> ContractOptions:
        """Return the options of the contraction."""
        return make_options(
            remove_self_loops=self.remove_self_loops,
            degree_norm=self.degree_norm,
            edge_weight_norm=self.edge_weight_norm,
        )


def assign(block: BlockCSR, params: NMFParams, key: RandomKey) -> Assignment:
    """Compute the soft clusters ``S = softmax(H^T)`` of ``max(A, 0) = W H``, where ``W`` and ``H`` are non-negative.

    ``A`` is not symmetrised: parallel edges are added up, self loops count, and directions are kept (``H`` describes
    columns). Every row of ``H`` is scaled to mean square 1 over the nodes before the softmax. ``S`` therefore depends
    neither on the arbitrary scale between ``W`` and ``H`` nor on the size of the graph.

    A graph with at most ``k`` nodes keeps them (``S = I``), ``k = 1`` gives a column of ones, and a node without
    in-edges gets a uniform row. Unused columns are zero.

    Args:
        block: the graphs.
        params: parameters of the method.
        key: key of the random start of the factors.

    Returns:
        A soft assignment with ``k`` columns.
    """
    sizes = run_lengths(block.node_ptr)
    k = int(params.k)
    soft = np.zeros((block.num_nodes, k), np.float32)
    factorised = sizes > k
    if not factorised.all():
        local = run_positions(block.node_ptr)
        kept = np.flatnonzero(np.repeat(~factorised, sizes))
        soft[kept, local[kept]] = 1.0
    if k == 1:
        soft[:] = 1.0
    elif factorised.any():
        rows = _positive_part(block)
        large = factorised & (sizes > LARGE_GRAPH)
        _factorise_small(rows, block, np.flatnonzero(factorised & ~large), params, key, soft)
        for g in np.flatnonzero(large):
            nodes = slice(int(block.node_ptr[g]), int(block.node_ptr[g + 1]))
            _factorise_large(rows, nodes, params, key, soft[nodes])
    super_ptr = np.arange(block.num_graphs + 1, dtype=np.int64) * k
    return Assignment("soft", super_ptr, soft=soft)


def _factorise_small(
    rows: Rows,
    block: BlockCSR,
    graphs: PtrArray,
    params: NMFParams,
    key: RandomKey,
    soft: npt.NDArray[np.float32],
) -> None:
    """Write the soft clusters of small graphs to ``soft``, on several threads."""
    if len(graphs) == 0:
        return
    from tgp.kernels import nmf

    def run(first: int, last: int) -> None:
        some = graphs[first:last]
        nmf.nmf_soft(
            *rows, block.node_ptr, some, int(params.k), key.seed, key.level, float(params.tol),
            int(params.max_sweeps), soft,
        )  # fmt: skip

    nodes, edges = run_lengths(block.node_ptr)[graphs], run_lengths(block.edge_ptr)[graphs]
    run_over_ranges(run, offsets(TYPICAL_SWEEPS * (nodes + edges)))


def _factorise_large(
    rows: Rows, nodes: slice, params: NMFParams, key: RandomKey, soft: npt.NDArray[np.float32]
) -> int:
    """Write the soft clusters of one large graph to ``soft``; return the number of sweeps."""
    from tgp.kernels import csr, nmf

    indptr, indices, weight = rows
    entries = slice(indptr[nodes.start], indptr[nodes.stop])
    own = (indptr[nodes.start : nodes.stop + 1] - indptr[nodes.start], indices[entries] - np.int32(nodes.start),
           weight[entries])  # fmt: skip
    if not own[2].any():
        soft[:] = 1.0 / soft.shape[1]
        return 0
    transposed = csr.transpose(*own, True)
    return nmf.nmf_rows(
        own, transposed, int(params.k), key.seed, key.level, float(params.tol), int(params.max_sweeps), params.gain,
        soft,
    )  # fmt: skip


def _positive_part(block: BlockCSR) -> Rows:
    """Return the rows of ``max(A, 0)``. Parallel edges are added up first if a weight is negative."""
    weight = block.weights_or_ones()
    if block.weight is None or not (weight < 0).any():
        return block.indptr, block.indices, weight
    from tgp.kernels import csr

    indptr, indices, weight = csr.coalesce(block.indptr, block.indices, weight, True, csr.SUM)
    return indptr, indices, np.maximum(weight, 0.0)


def cost(nodes: LongArray, edges: LongArray, params: NMFParams) -> FloatArray:
    """Estimate the work: about fifty sweeps of ``E k + n k^2`` for graphs with more than ``k`` nodes."""
    sweeps = np.where(nodes > params.k, 50.0, 1.0)
    return np.asarray(sweeps * (edges * params.k + nodes * params.k**2) / 4.0 + nodes, np.float64)


def bound(sizes: GraphSizes, params: NMFParams) -> LevelBound:
    """Bound time and memory. With ``gain``, no family of graphs needs more than half of ``MOST_SWEEPS``."""
    k = params.k
    capped = min(params.max_sweeps, MOST_SWEEPS) if params.gain > 0 else params.max_sweeps
    sweeps = np.where(sizes.nodes > max(k, LARGE_GRAPH), capped, params.max_sweeps)
    work = 5.0 * k * sizes.edges + (3.0 * k * k + 100.0) * sizes.nodes
    seconds = 1e-9 * np.where(sizes.nodes > k, sweeps, 1) * work
    memory = 40.0 * (k + 4.0) * sizes.nodes + 60.0 * sizes.edges
    nodes = np.full(len(sizes.nodes), k)
    return LevelBound(seconds, memory, nodes, np.where(sizes.edges > 0, nodes**2, 0))


METHOD = LevelMethod(
    "nmf",
    NMFParams,
    assign,
    contract,
    cost=cost,
    estimate=LevelEstimate(weighted=True, scratch=250.0),
    dense=True,
    bound=bound,
    revision=2,
    one_core="the factorization",
)
