"""EigenPool: spectral clusters with features in the eigenbasis of each cluster."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor

from tgp.connect.eigenpool_conn import EigenPoolConnect
from tgp.engine.schedule import LevelSpec
from tgp.lift.eigenpool_lift import EigenPoolLift
from tgp.reduce.eigenpool_reduce import EigenPoolReduce
from tgp.select.base_select import SelectOutput
from tgp.select.eigenpool_select import EigenPoolSelect
from tgp.src.execution import FlatExecution
from tgp.src.inputs import PoolInputs
from tgp.src.level import DenseLevelPooling
from tgp.utils.typing import LiftType, SinvType

__all__ = ["EigenPooling"]


class EigenPooling(DenseLevelPooling):
    r"""EigenPool from `"Graph Convolutional Networks with EigenPooling" <https://arxiv.org/abs/1904.13107>`_.

    The nodes are divided into spectral clusters (:class:`~tgp.select.EigenPoolSelect`).

    .. math::
        \mathbf{X}'_c = \big[\, \theta_{c,0}^\top \mathbf{X} \,|\, \dots \,|\, \theta_{c,H-1}^\top \mathbf{X} \,\big],
        \qquad \mathbf{A}' = \mathbf{S}^\top \mathbf{A}_{ext} \mathbf{S},

    where :math:`\theta_{c,h}` is eigenvector :math:`h` of the Laplacian of cluster :math:`c` and
    :math:`\mathbf{A}_{ext}` holds the edges between clusters. The pooler has no learnable parameters, so the levels can
    be computed before training.

    Good for:
        Exactly ``k`` clusters per graph with few edges between them. Features are pooled with several modes per
        cluster, so less is lost than by a sum.

    Avoid when:
        Graphs have fewer than ``k`` nodes: they get empty supernodes. The width of features must not change: pooled
        features are ``num_modes`` times as wide.

    Complexity:
        ``O(N^3)`` for graphs of up to 128 nodes, ``O(E k + N k^2)`` with a large constant for larger graphs. Above 2,000
        nodes, clusters are computed in few rounds; a million nodes with ``k = 8`` take about 20 s. ``O(E + N k)`` memory.

    Args:
        k: number of supernodes per graph.
        num_modes: ``H``, number of eigenvectors per cluster.
        normalized: use the eigenvectors of the normalised Laplacian instead of those of ``D - A``.
        cached: reuse the result as long as the input graph does not change.
        remove_self_loops: has no effect, because the diagonal is always zero.
        degree_norm, edge_weight_norm, adj_transpose: see :class:`~tgp.connect.DenseConnect`.
        lift: has no effect, because features are lifted with the eigenvectors. A value other than ``precomputed``
            gives a warning.
        s_inv_op: see :class:`~tgp.src.level.LevelPooling`.
        batched: has no effect, because there is no padded mode. ``True`` gives a warning.
        sparse_output: return an edge list instead of a dense ``[B, K, K]`` adjacency.
        cache_preprocessing: has no effect, because inputs are never padded.
        restarts, seed, split_components: see :class:`~tgp.select.EigenPoolSelect`.

    Shapes:
        ``x``: ``[N, F]`` to ``[B, K, H * F]``, or ``[K, H * F]`` without a batch vector.
    """

    def __init__(
        self,
        k: int,
        num_modes: int = 5,
        normalized: bool = True,
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
        restarts: int = 10,
        seed: int = 0,
        split_components: bool = True,
    ) -> None:
        if batched:
            _warn(
                "EigenPooling does not support dense padded batched inputs: batched=True has no effect. "
                "Use batched=False with a sparse edge_index and batch vector."
            )
        if lift != "precomputed":
            _warn(
                f"EigenPooling ignores the 'lift' argument and always uses eigenvector-based lifting: got {lift!r}."
            )
        flags = {
            "remove_self_loops": remove_self_loops,
            "degree_norm": degree_norm,
            "edge_weight_norm": edge_weight_norm,
        }
        super().__init__(
            selector=EigenPoolSelect(
                k,
                s_inv_op,
                num_modes,
                normalized,
                seed=seed,
                restarts=restarts,
                split_components=split_components,
            ),
            reducer=EigenPoolReduce(num_modes),
            lifter=EigenPoolLift(num_modes),
            connector=EigenPoolConnect(**flags, adj_transpose=adj_transpose, sparse_output=sparse_output),
            cached=cached,
            adj_transpose=adj_transpose,
            batched=False,
            sparse_output=sparse_output,
            cache_preprocessing=cache_preprocessing,
        )
        self.preconnector = EigenPoolConnect(**flags, adj_transpose=adj_transpose, sparse_output=True)
        modes = {"num_modes": num_modes, "normalized": normalized}
        search = {"restarts": restarts, "split_components": split_components}
        self.k = k
        self.num_modes = num_modes
        self.normalized = normalized
        self._use_engine(LevelSpec.of("eigen", {"k": k, **modes, **search, **flags}))

    def extra_repr_args(self) -> dict[str, Any]:
        """Return the mode, the sizes, and True if results are cached."""
        sizes = {"k": self.k, "num_modes": self.num_modes, "normalized": self.normalized}
        return {"batched": self.batched, **sizes, "cached": self.cached}

    def _execution(self, inputs: PoolInputs) -> EigenExecution:
        return EigenExecution(self, inputs)


class EigenExecution(FlatExecution):
    """Execution of EigenPool. A graph without a batch vector gives features ``[K, H * F]``."""

    def reduce(self, so: SelectOutput) -> tuple[Tensor | None, Tensor | None]:
        """Return the pooled features."""
        pooled, batch_pool = super().reduce(so)
        if self.inputs.batch is None and pooled is not None and pooled.dim() == 3:
            pooled = pooled.squeeze(0)
        return pooled, batch_pool


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=3)
