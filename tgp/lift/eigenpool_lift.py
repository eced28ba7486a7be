"""Lifter of EigenPool: features from the coefficients of the eigenvectors of each cluster."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tgp.errors import InputError
from tgp.lift.base_lift import Lift, graph_order
from tgp.select.base_select import SelectOutput
from tgp.select.eigen_modes import MissingThetaError, Modes, modes_of_assignment
from tgp.utils.precision import is_half, widen
from tgp.utils.typing import ReduceType

__all__ = ["EigenPoolLift"]


class EigenPoolLift(Lift):
    r"""Lifter that sums the eigenvectors (modes) of the cluster of each node, weighted by the pooled coefficients:
    :math:`\mathbf{x}_i = \sum_h \theta_{i,h} \, \mathbf{x}'_{c(i),h}`.

    This is the transposed map of :class:`~tgp.reduce.EigenPoolReduce`. It is the inverse map if every cluster has at
    most ``H`` nodes.

    Args:
        num_modes: shown in the repr. The number of modes is that of ``so.theta``.
        reduce_op: has no effect, because the contributions are summed.
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
        """Lift features.

        Args:
            x_pool: ``[B, K, H * F]``, ``[B * K, H * F]``, or ``[K, H * F]`` that all graphs share.
            so: assignment with the attribute ``theta``.
            batch, batch_pooled, batch_size: see :meth:`~tgp.lift.BaseLift.forward`.
            edge_index, edge_weight: ignored.
            **kwargs: ignored.

        Returns:
            ``[N, F]``.

        Raises:
            InputError: if there is no assignment with ``theta``, or the shapes do not fit.
        """
        if so is None:
            raise MissingThetaError(
                "so is missing: expected a SelectOutput to lift with, got None", field="so"
            )
        batch = so.batch if batch is None else batch
        batch_size = so.batch_size if batch_size is None else batch_size
        modes = modes_of_assignment(so, batch, batch_size)
        coefficients = _coefficients(x_pool, modes, batch_pooled)
        lifted = modes.lift(widen(coefficients))
        return lifted.to(coefficients.dtype) if is_half(coefficients) else lifted

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
        x = x[graph_order(batch_pooled, graphs, k)]
    x = x.view(x.size(0) // max(k, 1), k, modes.num_modes, x.size(1) // modes.num_modes)
    return x.expand(graphs, -1, -1, -1)
