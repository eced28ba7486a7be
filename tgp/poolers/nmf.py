"""NMF pooling: clusters by non-negative matrix factorisation."""

from __future__ import annotations

import warnings

from tgp.connect.dense_conn import DenseConnect
from tgp.engine.schedule import LevelSpec
from tgp.lift.base_lift import BaseLift
from tgp.reduce.base_reduce import BaseReduce
from tgp.select.nmf_select import NMFSelect
from tgp.src.level import DenseLevelPooling
from tgp.utils.typing import LiftType, SinvType

__all__ = ["NMFPooling"]


class NMFPooling(DenseLevelPooling):
    r"""NMF pooling from `"A Non-Negative Factorization approach to node pooling in Graph Convolutional Neural Networks"
    <https://arxiv.org/abs/1909.03287>`_.

    The soft clusters come from a non-negative factorisation of the adjacency (:class:`~tgp.select.NMFSelect`).

    .. math::
        \mathbf{A} \approx \mathbf{W} \mathbf{H}, \quad \mathbf{S} = \mathrm{softmax}(\mathbf{H}^\top), \quad
        \mathbf{X}' = \mathbf{S}^\top \mathbf{X}, \quad \mathbf{A}' = \mathbf{S}^\top \mathbf{A} \mathbf{S}

    The pooler has no learnable parameters, so the levels can be computed before training.

    Good for:
        Soft, overlapping clusters, exactly ``k`` per graph.

    Avoid when:
        Graphs have fewer than ``k`` nodes: they get empty supernodes. The coarse graph must be sparse: it is nearly
        complete.

    Complexity:
        ``O(E k + N k^2)`` per sweep, up to ``max_sweeps`` sweeps. Above 2,000 nodes a sweep takes ``O(k (E + Z))``, where
        ``Z`` is the number of non-zero values of the factors, and ``gain`` ends the sweeps after about 100; a million
        nodes with ``k = 8`` take about 12 s. ``O(E + N k)`` memory.

    Args:
        k: number of supernodes per graph.
        cached: reuse the result as long as the input graph does not change.
        remove_self_loops, degree_norm, edge_weight_norm, adj_transpose: see :class:`~tgp.connect.DenseConnect`.
        lift, s_inv_op: see :class:`~tgp.src.level.LevelPooling`.
        batched: has no effect, because there is no padded mode. ``True`` gives a warning.
        sparse_output: return an edge list instead of a dense ``[B, K, K]`` adjacency.
        cache_preprocessing: has no effect, because inputs are never padded.
        tol, max_sweeps, seed, gain: see :class:`~tgp.select.NMFSelect`.
    """

    def __init__(
        self,
        k: int,
        cached: bool = False,
        remove_self_loops: bool = True,
        degree_norm: bool = True,
        edge_weight_norm: bool = False,
        adj_transpose: bool = True,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        batched: bool = False,
        sparse_output: bool = False,
        cache_preprocessing: bool = False,
        *,
        tol: float = 1e-3,
        max_sweeps: int = 1000,
        seed: int = 0,
        gain: float = 0.01,
    ) -> None:
        if batched:
            warnings.warn(
                "NMFPooling does not support dense padded batched inputs: batched=True has no effect. "
                "Use sparse edge_index with a batch vector.",
                UserWarning,
                stacklevel=2,
            )
        flags = {
            "remove_self_loops": remove_self_loops,
            "degree_norm": degree_norm,
            "edge_weight_norm": edge_weight_norm,
        }
        super().__init__(
            selector=NMFSelect(k, s_inv_op, tol=tol, max_sweeps=max_sweeps, seed=seed, gain=gain),
            reducer=BaseReduce(),
            lifter=BaseLift(lift),
            connector=DenseConnect(**flags, adj_transpose=adj_transpose, sparse_output=sparse_output),
            cached=cached,
            adj_transpose=adj_transpose,
            batched=False,
            sparse_output=sparse_output,
            cache_preprocessing=cache_preprocessing,
        )
        self.preconnector = DenseConnect(**flags, adj_transpose=adj_transpose, sparse_output=True)
        rules = {"tol": tol, "max_sweeps": max_sweeps, "gain": gain}
        self._use_engine(LevelSpec.of("nmf", {"k": k, **rules, **flags}))
