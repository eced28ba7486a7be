"""Features of clusters back to nodes, along their eigenvectors."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.errors import InputError
from tgp.lift.base_lift import HALF, Lift, check_blocks
from tgp.select.eigen_modes import MissingThetaError, Modes, modes_of_assignment
from tgp.select.base_select import SelectOutput
from tgp.utils.tracing import on_host
from tgp.utils.typing import ReduceType

__all__ = ["EigenPoolLift"]


class EigenPoolLift(Lift):
    r"""Sum of the modes of a node's cluster, weighted by the pooled coefficients:
    :math:`\mathbf{x}_i = \sum_h \theta_{i,h} \, \mathbf{x}'_{c(i),h}`.

    The transposed map of :class:`~tgp.reduce.EigenPoolReduce`, and its inverse where all modes of every cluster
    are kept. With ``theta [N, H]`` it is one gather.

    Args:
        num_modes: shown in the repr; the number of modes is that of ``so.theta``.
        reduce_op: has no effect: contributions add up.
    """

    def __init__(self, num_modes: int = 5, reduce_op: ReduceType = "sum") -> None:
        super().__init__()
        self.num_modes = num_modes
        self.reduce_op = reduce_op

    def forward(
        self,
        x_pool: Tensor,
        so: SelectOutput | None = None,
        batch: Tensor | None = None,
        batch_pooled: Tensor | None = None,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Lift ``x_pool``.

        Args:
            x_pool: ``[B, K, H * F]``, ``[B * K, H * F]``, or ``[K, H * F]`` shared by all graphs.
            so: an assignment with ``theta``.
            batch: ``[N]`` graph ids, in any order; default ``so.batch``.
            batch_pooled: graph ids of the rows of ``x_pool``; default contiguous blocks of ``K``.
            edge_index, edge_weight: not needed.
            batch_size: number of graphs.

        Returns:
            ``[N, F]``.
        """
        if so is None:
            raise MissingThetaError("a SelectOutput is needed to lift, got None", field="so")
        batch = so.batch if batch is None else batch
        batch_size = so.batch_size if batch_size is None else batch_size
        modes = modes_of_assignment(so, batch, batch_size)
        coefficients = _coefficients(x_pool, modes, batch_pooled)
        if coefficients.dtype in HALF:
            return modes.lift(coefficients.float()).to(coefficients.dtype)
        return modes.lift(coefficients)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_modes={self.num_modes})"


def _coefficients(x_pool: Tensor, modes: Modes, batch_pooled: Tensor | None) -> Tensor:
    """Return pooled features of any accepted shape as ``[B, K, H, F]``."""
    graphs, k = modes.num_graphs, modes.k
    x = x_pool if x_pool.is_floating_point() else x_pool.float()
    if x.dim() == 3:
        x, batch_pooled = x.flatten(0, 1), None
    if x.dim() != 2 or x.size(1) % modes.num_modes or x.size(0) not in (k, graphs * k):
        raise InputError(
            f"Unexpected pooled feature shape {list(x_pool.shape)}: expected {graphs} graphs of {k} supernodes "
            f"({graphs * k} rows) with a multiple of {modes.num_modes} columns",
            field="x_pool",
        )
    if batch_pooled is not None and x.size(0) == graphs * k:
        if batch_pooled.numel() != x.size(0):
            raise InputError(
                f"batch_pooled has an unexpected length: expected {x.size(0)}, got {batch_pooled.numel()}",
                field="batch_pooled",
            )
        if on_host(batch_pooled):
            check_blocks(batch_pooled, graphs, k)
        x = x[batch_pooled.argsort(stable=True)]
    x = x.unflatten(0, (x.size(0) // max(k, 1), k)).unflatten(
        2, (modes.num_modes, x.size(1) // modes.num_modes)
    )
    return x.expand(graphs, -1, -1, -1)
