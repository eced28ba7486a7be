"""Soft clusters by non-negative matrix factorisation as a selector."""

from __future__ import annotations

from tgp.select._fixed_k import FixedKSelect
from tgp.utils.typing import SinvType

__all__ = ["NMFSelect"]


class NMFSelect(FixedKSelect):
    r"""Soft clusters from a factorisation :math:`\max(\mathbf{A}, 0) \approx \mathbf{W} \mathbf{H}` into non-negative
    factors, from `"A Non-Negative Factorization approach to node pooling in Graph Convolutional Neural Networks"
    <https://arxiv.org/abs/1909.03287>`_.

    .. math::
        \mathbf{S} = \mathrm{softmax}(\mathbf{H}^\top), \qquad \text{rows of } \mathbf{H} \text{ scaled to mean square } 1

    so that :math:`\mathbf{S}` depends neither on the arbitrary scale between the factors nor on the size of the
    graph. A graph with at most ``k`` nodes keeps them. The result depends on the graph and the seed alone.

    Args:
        k: supernodes per graph.
        s_inv_op: ``transpose`` or ``inverse``.
        tol: stop when a sweep's projected gradient is below this share of the first one's.
        max_sweeps: stop after so many sweeps over both factors.
        seed: seed of the starting point.
    """

    def __init__(
        self,
        k: int,
        s_inv_op: SinvType = "transpose",
        *,
        tol: float = 1e-3,
        max_sweeps: int = 1000,
        seed: int = 0,
    ) -> None:
        super().__init__("nmf", {"k": k, "tol": tol, "max_sweeps": max_sweeps}, seed, s_inv_op)
