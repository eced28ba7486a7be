"""Reducer of EigenPool: features in the eigenbasis of each cluster."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.reduce.base_reduce import Reduce
from tgp.select.base_select import SelectOutput
from tgp.select.eigen_modes import modes_of_assignment
from tgp.utils.precision import widen
from tgp.utils.typing import ReduceType

__all__ = ["EigenPoolReduce"]


class EigenPoolReduce(Reduce):
    r"""Reducer that returns the coefficients of the features in the eigenvectors (modes) of each cluster:
    :math:`\mathbf{X}'_c = [\theta_{c,0}^\top \mathbf{X} \,|\, \theta_{c,1}^\top \mathbf{X} \,|\, \dots]`.

    Args:
        num_modes: shown in the repr. The number of modes is that of ``so.theta``.
        reduce_op: has no effect, because coefficients are sums.
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
        """Pool features.

        Args:
            x: ``[N, F]``, or ``[N]`` for one feature.
            so: assignment with the attribute ``theta``.
            batch: ``[N]`` graph ids, in any order; by default ``so.batch``.
            edge_index, edge_weight: ignored.
            **kwargs: ignored.
            return_batched: return ``[B, K, H * F]`` instead of ``[B * K, H * F]``.
            batch_size: number of graphs; by default the largest id + 1.

        Returns:
            The features and the graph ids of the supernodes. A row holds the ``F`` coefficients of mode 0, then those of
            mode 1, and so on.
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
