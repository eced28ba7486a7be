"""Selector with soft clusters from a truncated stick-breaking (Dirichlet) process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Beta

from tgp.select.base_select import SelectOutput as SelectOutput
from tgp.select.mlp_select import MLPSelect
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.precision import widen
from tgp.utils.typing import SinvType

__all__ = ["DPSelect", "stick_breaking"]

_SMALLEST, _LARGEST = 1e-3, 1e3
"""Range of the Beta parameters: outside it sampling and its gradient lose all precision."""


def stick_breaking(v: Tensor) -> Tensor:
    r"""Return the pieces ``[..., k]`` of a stick from the fractions ``[..., k - 1]`` of the rest that break off.

    :math:`\pi_c = v_c \prod_{l<c} (1 - v_l)`, in log space.
    """
    tiny = torch.finfo(v.dtype).tiny
    rest = torch.log1p(-v.clamp(max=1 - torch.finfo(v.dtype).eps)).cumsum(-1)
    before = F.pad(rest, (1, 0))
    pieces = F.pad(v.clamp(min=tiny).log(), (0, 1))
    return (pieces + before).exp()


class DPSelect(MLPSelect):
    r"""Selector whose MLP gives each node the parameters of :math:`k-1` Beta variables that break a stick.

    Training draws a reparameterised sample; evaluation uses the mean, so that it is deterministic. The
    distribution is kept in ``so.q_z``, in float32 or wider; ``S`` has the type of the features.

    Args:
        in_channels: feature size, or the widths of the layers, the first being the feature size.
        k: largest number of supernodes.
        batched_representation: padded ``[B, N, F]`` input (true) or flat ``[N, F]``.
        act: activation of the hidden layers.
        dropout: dropout of the hidden layers.
        s_inv_op: see :class:`~tgp.select.SelectOutput`.
        sample_in_eval: also draw samples in evaluation mode.
    """

    sample_in_eval = False  # for modules pickled by tgp 1.0.2

    def __init__(
        self,
        in_channels: int | Sequence[int],
        k: int,
        batched_representation: bool = True,
        act: str | None = None,
        dropout: float = 0.0,
        s_inv_op: SinvType = "transpose",
        sample_in_eval: bool = False,
    ) -> None:
        super().__init__(in_channels, k, batched_representation, act, dropout, s_inv_op)
        self.sample_in_eval = sample_in_eval

    @property
    def num_outputs(self) -> int:
        return 2 * (self.k - 1)

    def padded_extra(self, value: Beta, layout: GraphLayout) -> Beta:
        """Return the posterior of padded rows; padding is uniform."""
        padding = (~layout.mask()).unsqueeze(-1)
        alpha, beta = (
            layout.pad(part).masked_fill(padding, 1.0)
            for part in (value.concentration1, value.concentration0)
        )
        return Beta(alpha, beta, validate_args=False)

    def assignment(self, x: Tensor) -> tuple[Tensor, dict[str, Any]]:
        if self.k == 1:
            # With one cluster nothing is broken; the posterior of no fractions is empty.
            empty = x.new_ones(*x.shape[:-1], 0)
            return x.new_ones(*x.shape[:-1], 1), {"q_z": Beta(empty, empty, validate_args=False)}
        theta = F.softplus(widen(self.mlp(x))).clamp(_SMALLEST, _LARGEST)
        alpha, beta = theta.chunk(2, dim=-1)
        posterior = Beta(alpha, beta, validate_args=False)
        sampled = self.training or self.sample_in_eval
        s = stick_breaking(posterior.rsample() if sampled else posterior.mean)
        return s.to(x.dtype) if widen(x) is not x else s, {"q_z": posterior}
