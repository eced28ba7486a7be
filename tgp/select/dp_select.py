"""Soft clusters from a truncated stick-breaking (Dirichlet) process."""

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
"""Range of the Beta parameters. Outside of it, sampling and its gradient lose all precision."""


def stick_breaking(v: Tensor) -> Tensor:
    r"""Return the weights :math:`\pi_c = v_c \prod_{l<c} (1 - v_l)` of a stick-breaking process.

    The product is computed in log space.

    Args:
        v: ``[..., k - 1]`` fractions. Each is the share of the remaining stick that is broken off.

    Returns:
        ``[..., k]`` lengths of the pieces, which sum to one.
    """
    tiny = torch.finfo(v.dtype).tiny
    rest = torch.log1p(-v.clamp(max=1 - torch.finfo(v.dtype).eps)).cumsum(-1)
    before = F.pad(rest, (1, 0))
    pieces = F.pad(v.clamp(min=tiny).log(), (0, 1))
    return (pieces + before).exp()


class DPSelect(MLPSelect):
    r"""Selector that assigns nodes by a stick-breaking process with learned fractions.

    An MLP gives each node the parameters of :math:`k-1` Beta distributions. Their samples :math:`v` are the fractions
    of :func:`stick_breaking`. In training mode the samples are reparameterised. In evaluation mode the means are used,
    so that the result is deterministic. ``so.q_z`` holds the distributions in float32 or wider. ``S`` has the type of
    the features.

    Args:
        in_channels, batched_representation, act, dropout, s_inv_op: see :class:`~tgp.select.MLPSelect`.
        k: largest number of supernodes.
        sample_in_eval: also draw samples in evaluation mode.
    """

    sample_in_eval = False  # modules that tgp 1.0.2 pickled do not have this attribute

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
        """Return the distributions of padded rows. Rows of padding have uniform distributions."""
        padding = (~layout.mask()).unsqueeze(-1)
        alpha, beta = (
            layout.pad(part).masked_fill(padding, 1.0)
            for part in (value.concentration1, value.concentration0)
        )
        return Beta(alpha, beta, validate_args=False)

    def assignment(self, x: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """Return ``S`` of all rows and the distributions of the fractions."""
        if self.k == 1:
            # A single cluster takes the whole stick. There are no fractions, so their distribution is empty.
            empty = x.new_ones(*x.shape[:-1], 0)
            return x.new_ones(*x.shape[:-1], 1), {"q_z": Beta(empty, empty, validate_args=False)}
        theta = F.softplus(widen(self.mlp(x))).clamp(_SMALLEST, _LARGEST)
        alpha, beta = theta.chunk(2, dim=-1)
        posterior = Beta(alpha, beta, validate_args=False)
        sampled = self.training or self.sample_in_eval
        s = stick_breaking(posterior.rsample() if sampled else posterior.mean)
        return s.to(x.dtype) if widen(x) is not x else s, {"q_z": posterior}
