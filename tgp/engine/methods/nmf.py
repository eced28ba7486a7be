"""NMF: soft clusters from a non-negative factorisation of the adjacency matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tgp.engine.contraction import ContractOptions
from tgp.engine.protocol import LevelEstimate, LevelMethod, RandomKey
from tgp.engine.soft import soft_connect
from tgp.errors import ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.block import FloatArray, PtrArray

__all__ = ["METHOD", "NMFParams"]


@dataclass(frozen=True)
class NMFParams:
    """Parameters of the factorisation and of the coarse graph.

    Args:
        k: supernodes per graph; a graph with fewer nodes gets empty ones.
        remove_self_loops: zero the diagonal of the coarse graph.
        degree_norm: symmetric degree normalisation of the coarse graph.
        edge_weight_norm: divide coarse weights by the largest of their graph.
        tol: stop when the projected-gradient violation of a sweep falls below ``tol`` times that of
            the first.
        max_sweeps: stop after so many sweeps over both factors.
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
                raise ParameterError(f"{name} must be a whole number >= 1, got {value!r}", field=name)
        if not 0 <= self.tol < 1:
            raise ParameterError(f"tol must lie in [0, 1), got {self.tol!r}", field="tol")

    def options(self) -> ContractOptions:
        """The part that shapes the coarse graph."""
        return ContractOptions(
            remove_self_loops=self.remove_self_loops,
            degree_norm=self.degree_norm,
            edge_weight_norm=self.edge_weight_norm,
        )


def assign(block: BlockCSR, params: NMFParams, draw: RandomKey) -> Assignment:
    """Soft clusters ``S = softmax(H^T)`` of ``max(A, 0) = W H``, all factors non-negative.

    From "A Non-Negative Factorization approach to node pooling in Graph Convolutional Neural
    Networks" (AI*IA 2019). ``A`` is used as it is: parallel edges add up, self loops count, directions
    stay (``H`` describes columns). Every row of ``H`` is scaled to mean square 1 over the nodes before
    the softmax, so ``S`` depends neither on the arbitrary scale between ``W`` and ``H`` nor on the size
    of the graph.

    A graph with at most ``k`` nodes keeps them (``S = I``), ``k = 1`` gives a column of ones, and
    nodes without in-edges get a uniform row. Unused columns are zero.
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
        indptr, indices, weight = _positive(block)
        nmf.nmf_soft(
            indptr,
            indices,
            weight,
            block.node_ptr,
            large,
            k,
            draw.seed,
            draw.level,
            float(params.tol),
            int(params.max_sweeps),
            soft,
        )
    super_ptr = np.arange(block.num_graphs + 1, dtype=np.int64) * k
    return Assignment("soft", super_ptr, soft=soft)


def _positive(block: BlockCSR) -> tuple[PtrArray, npt.NDArray[np.int32], FloatArray]:
    """``max(A, 0)`` with parallel edges added up first, where that matters."""
    weight = block.weights_or_ones()
    if block.weight is None or not (weight < 0).any():
        return block.indptr, block.indices, weight
    from tgp.kernels import csr

    indptr, indices, weight = csr.coalesce(block.indptr, block.indices, weight, True, csr.SUM)
    return indptr, indices, np.maximum(weight, 0.0)


def connect(block: BlockCSR, assignment: Assignment, params: NMFParams) -> BlockCSR:
    """``S^T A S``, post-processed."""
    return soft_connect(block, assignment, params.options())


def cost(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], params: NMFParams
) -> npt.NDArray[np.float64]:
    """Some tens of sweeps of ``E k + n k^2`` on graphs that are larger than ``k``."""
    sweeps = np.where(nodes > params.k, 50.0, 1.0)
    return np.asarray(sweeps * (edges * params.k + nodes * params.k**2) / 4.0 + nodes, np.float64)


METHOD = LevelMethod(
    "nmf",
    NMFParams,
    assign,
    connect,
    cost=cost,
    expected=LevelEstimate(fixed_k=True, weighted=True, scratch=250.0),
)
