r"""NMF: soft clusters from a non-negative factorisation of the adjacency matrix.

From `"A Non-Negative Factorization approach to node pooling in Graph Convolutional Neural Networks"
<https://arxiv.org/abs/1909.03287>`_ (AI*IA 2019),

.. math::
    \mathbf{W}, \mathbf{H} = \mathrm{argmin}_{\mathbf{W}, \mathbf{H} \ge 0} \,
    \| \max(\mathbf{A}, 0) - \mathbf{W} \mathbf{H} \|_F^2 , \qquad
    \mathbf{S} = \mathrm{softmax}(\mathbf{H}^\top) .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.engine.contraction import ContractOptions, contract
from tgp.engine.level_method import LevelEstimate, LevelMethod, RandomKey
from tgp.errors import ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, PtrArray

__all__ = ["METHOD", "NMFParams"]


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
    """

    k: int = 8
    remove_self_loops: bool = True
    degree_norm: bool = True
    edge_weight_norm: bool = False
    tol: float = 1e-3
    max_sweeps: int = 1000

    def __post_init__(self) -> None:
        for name in ("k", "max_sweeps"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ParameterError(
                    f"{name} is out of range: expected a whole number >= 1, got {value!r}", field=name
                )
        if not 0 <= self.tol < 1:
            raise ParameterError(
                f"tol is out of range: expected a number in [0, 1), got {self.tol!r}", field="tol"
            )

    def contract_options(self) -> ContractOptions:
        """Return the options of the contraction."""
        return ContractOptions(
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
    from tgp.kernels import nmf

    sizes = np.diff(block.node_ptr)
    k = int(params.k)
    soft = np.zeros((block.num_nodes, k), np.float32)
    local = np.arange(block.num_nodes) - np.repeat(block.node_ptr[:-1], sizes)
    kept = np.flatnonzero(np.repeat(sizes <= k, sizes))
    soft[kept, local[kept]] = 1.0
    large = np.flatnonzero(sizes > k)
    if k == 1:
        soft[:] = 1.0
    elif len(large):
        indptr, indices, weight = _positive_part(block)
        nmf.nmf_soft(
            indptr,
            indices,
            weight,
            block.node_ptr,
            large,
            k,
            key.seed,
            key.level,
            float(params.tol),
            int(params.max_sweeps),
            soft,
        )
    super_ptr = np.arange(block.num_graphs + 1, dtype=np.int64) * k
    return Assignment("soft", super_ptr, soft=soft)


def _positive_part(block: BlockCSR) -> tuple[PtrArray, npt.NDArray[np.int32], FloatArray]:
    """Return the rows of ``max(A, 0)``. Parallel edges are added up first if a weight is negative."""
    weight = block.weights_or_ones()
    if block.weight is None or not (weight < 0).any():
        return block.indptr, block.indices, weight
    from tgp.kernels import csr

    indptr, indices, weight = csr.coalesce(block.indptr, block.indices, weight, True, csr.SUM)
    return indptr, indices, np.maximum(weight, 0.0)


def connect(block: BlockCSR, assignment: Assignment, params: NMFParams) -> BlockCSR:
    """Return the coarse graphs ``S^T A S``, post-processed."""
    return contract(block, assignment, params.contract_options())


def cost(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], params: NMFParams
) -> npt.NDArray[np.float64]:
    """Estimate the work: about fifty sweeps of ``E k + n k^2`` for graphs with more than ``k`` nodes."""
    sweeps = np.where(nodes > params.k, 50.0, 1.0)
    return np.asarray(sweeps * (edges * params.k + nodes * params.k**2) / 4.0 + nodes, np.float64)


METHOD = LevelMethod(
    "nmf",
    NMFParams,
    assign,
    connect,
    cost=cost,
    estimate=LevelEstimate(weighted=True, scratch=250.0),
    dense=True,
)
