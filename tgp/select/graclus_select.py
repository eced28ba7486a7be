"""Greedy heavy-edge matching as a selector."""

from __future__ import annotations

from tgp.select.level_select import LevelSelect
from tgp.utils.typing import SinvType

__all__ = ["GraclusSelect"]


class GraclusSelect(LevelSelect):
    """Pairs of neighbours from `"Weighted Graph Cuts without Eigenvectors: A Multilevel Approach"
    <https://ieeexplore.ieee.org/document/4302760>`_.

    Args:
        s_inv_op: ``transpose`` or ``inverse``.
        order: in which order nodes look for a partner: ``random`` (seeded, per graph), ``degree`` or ``index``.
        seed: seed of the random order.
    """

    def __init__(self, s_inv_op: SinvType = "transpose", order: str = "random", seed: int = 0) -> None:
        super().__init__("graclus", {"order": order}, seed=seed, s_inv_op=s_inv_op)

    @property
    def order(self) -> str:
        """In which order nodes look for a partner."""
        return self.spec.params.order
