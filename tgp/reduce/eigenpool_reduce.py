"""Features of clusters in the basis of their eigenvectors."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.reduce.base_reduce import Reduce
from tgp.select.eigen_modes import modes_of_assignment
from tgp.select.base_select import SelectOutput
from tgp.utils.precision import widen
from tgp.utils.typing import ReduceType

__all__ = ["EigenPoolReduce"]


class EigenPoolReduce(Reduce):
    r"""Coefficients of the features in the modes of each cluster:
    :math:`\mathbf{X}'_c = [\theta_{c,0}^\top \mathbf{X} \,|\, \theta_{c,1}^\top \mathbf{X} \,|\, \dots]`.

    With ``theta [N, H]`` this is one scatter-add over nodes, whatever the number of graphs.

    Args:
        num_modes: shown in the repr; the number of modes is that of ``so.theta``.
        reduce_op: has no effect: coefficients are sums.
    """

    def __init__(self, num_modes: int = 5, reduce_op: ReduceType = "sum") -> None:
        super().__init__()
        self.num_modes = num_modes
        self.reduce_op = reduce_op

    def forward(
        self,
        x: Tensor,
        so: SelectOutput,
        *,
        batch: Tensor | None = None,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        return_batched: bool = False,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Pool ``x``.

        Args:
            x: ``[N, F]`` (``[N]`` is one feature).
            so: an assignment with ``theta``.
            batch: ``[N]`` graph ids, in any order; default ``so.batch``.
            edge_index, edge_weight: not needed.
            return_batched: ``[B, K, H * F]`` instead of ``[B * K, H * F]``.
            batch_size: number of graphs; default largest id + 1.

        Returns:
            ``(x_pool, batch_pool)``; row ``c`` is mode 0's features of cluster ``c``, then mode 1's, ...
        """
        batch = so.batch if batch is None else batch
        batch_size = so.batch_size if batch_size is None else batch_size
        modes = modes_of_assignment(so, batch, batch_size)
        x = x if x.is_floating_point() else x.float()
        x = x.unsqueeze(-1) if x.dim() == 1 else x.squeeze(0) if x.dim() == 3 else x
        pooled = modes.pool(widen(x)).flatten(2).to(x.dtype)
        batch_pool = self.reduce_batch(so, batch, batch_size)
        return (pooled if return_batched else pooled.flatten(0, 1)), batch_pool

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_modes={self.num_modes})"
