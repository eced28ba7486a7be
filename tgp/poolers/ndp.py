"""Node decimation pooling."""

from __future__ import annotations

from tgp.connect.kron_conn import KronConnect
from tgp.select.ndp_select import NDPSelect
from tgp.src.level import LevelPooling
from tgp.utils.typing import LiftType, ReduceType, SinvType

__all__ = ["NDPPooling"]


class NDPPooling(LevelPooling):
    r"""Keep one side of a large cut, from `"Hierarchical Representation Learning in Graph Neural Networks with Node
    Decimation Pooling" <https://arxiv.org/abs/1910.11436>`_.

    Roughly every other node is kept with its features; the kept nodes are joined by Kron reduction,

    .. math::
        \mathbf{L}' = \mathbf{L}_{PP} - \mathbf{L}_{PQ} \mathbf{L}_{QQ}^{-1} \mathbf{L}_{QP},

    with kept nodes :math:`P` and dropped ones :math:`Q`. See :class:`~tgp.select.NDPSelect` and
    :class:`~tgp.connect.KronConnect`.

    Args:
        lift, s_inv_op, lift_red_op: see :class:`~tgp.lift.BaseLift` and :class:`~tgp.select.SelectOutput`.
        cached: keep the result as long as the input graph stays the same.
        sparse_threshold: coarse weights ``|w| <= sparse_threshold`` are left out.
        seed: seed of the start vector of the eigenvector iteration.
    """

    def __init__(
        self,
        lift: LiftType = "precomputed",
        s_inv_op: SinvType = "transpose",
        lift_red_op: ReduceType = "sum",
        cached: bool = False,
        *,
        sparse_threshold: float = 1e-2,
        seed: int = 0,
    ) -> None:
        super().__init__(
            "ndp",
            {"sparse_threshold": sparse_threshold},
            selector=NDPSelect(s_inv_op, seed),
            connector=KronConnect(sparse_threshold),
            lift=lift,
            lift_red_op=lift_red_op,
            cached=cached,
        )
