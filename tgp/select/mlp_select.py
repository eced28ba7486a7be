"""Soft clusters from an MLP on node features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.nn import MLP

from tgp.errors import InputError
from tgp.select.base_select import Select, SelectOutput
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.products import softmax_rows
from tgp.utils.typing import SinvType

__all__ = ["MLPSelect"]


class _SizeError(InputError, TypeError):
    """Wrong number of supernodes. Also a ``TypeError``, which torch raises for such a layer width."""


class _ShapeError(InputError, AssertionError):
    """Wrong shape. Also an ``AssertionError``, which tgp 1.0.2 raised."""


class MLPSelect(Select):
    r"""Selector with the soft assignment :math:`\mathbf{S} = \mathrm{softmax}(\mathrm{MLP}(\mathbf{X}))`.

    Args:
        in_channels: feature size, or a list of the feature size and the widths of the hidden layers.
        k: number of supernodes.
        batched_representation: expect padded input ``[B, N, F]`` instead of flat input ``[N, F]``.
        act: activation of the hidden layers; ``None`` for linear layers.
        dropout: dropout of the hidden layers.
        s_inv_op: see :class:`~tgp.select.SelectOutput`.
    """

    is_dense = True

    def __init__(
        self,
        in_channels: int | Sequence[int],
        k: int,
        batched_representation: bool = True,
        act: str | None = None,
        dropout: float = 0.0,
        s_inv_op: SinvType = "transpose",
    ) -> None:
        super().__init__()
        self.in_channels = [in_channels] if isinstance(in_channels, int) else [int(c) for c in in_channels]
        if not isinstance(k, (int, np.integer)) or k < 1:
            raise _SizeError(f"k must be a whole number of at least 1, got {k!r}", field="k")
        self.k = int(k)
        self.batched_representation = batched_representation
        self.act = act
        self.dropout = float(dropout)
        self.s_inv_op = s_inv_op
        self.mlp = MLP([*self.in_channels, self.num_outputs], act=act, norm=None, dropout=self.dropout)

    @property
    def num_outputs(self) -> int:
        """Width of the last layer."""
        return self.k

    def options(self) -> dict[str, Any]:
        shown = super().options()
        shown.pop("batched_representation", None)
        return shown

    def reset_parameters(self) -> None:
        """Reset the parameters of the MLP."""
        self.mlp.reset_parameters()

    def assignment(self, x: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """Return ``S`` of all rows and the extra attributes of the assignment.

        Args:
            x: ``[..., F]`` features.
        """
        return softmax_rows(self.mlp(x)), {}

    def on_rows(self, x: Tensor, layout: GraphLayout) -> tuple[Tensor, dict[str, Any], SelectOutput]:
        """Assign the nodes of a flat batch without computing rows of padding.

        Args:
            x: ``[N, F]`` features.
            layout: graphs of the nodes.

        Returns:
            ``S [N, K]``, its extra attributes, and the padded assignment that :meth:`forward` returns for padded input.
        """
        s, extras = self.assignment(x)
        padded = {name: self.padded_extra(value, layout) for name, value in extras.items()}
        so = SelectOutput(s=layout.pad(s), s_inv_op=self.s_inv_op, in_mask=layout.mask(), **padded)
        so._layout = layout
        return s, extras, so

    def padded_extra(self, value: Any, layout: GraphLayout) -> Any:
        """Return an extra attribute of flat rows in the form of a padded assignment."""
        return value

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        mask: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Assign every node, without synchronizing an accelerator.

        Args:
            x: ``[B, N, F]``, or ``[N, F]`` for one graph, if the input is padded; otherwise ``[N, F]``.
            mask: ``[B, N]`` mask of the real nodes of padded input. Other rows of ``S`` are zero.
            batch: ``[N]`` graph ids of flat input.
            batch_size: number of graphs of flat input.
            **kwargs: ignored.
        """
        if self.batched_representation:
            x = x.unsqueeze(0) if x.dim() == 2 else x
            if x.dim() != 3:
                raise _ShapeError(f"x must be of shape [B, N, F] or [N, F], got {list(x.shape)}", field="x")
            s, extras = self.assignment(x)
            if mask is not None:
                s = s * mask.unsqueeze(-1).to(s.dtype)
            return SelectOutput(s=s, s_inv_op=self.s_inv_op, in_mask=mask, **extras)
        if x.dim() != 2:
            raise _ShapeError(f"x must be of shape [N, F] for unbatched mode, got {list(x.shape)}", field="x")
        s, extras = self.assignment(x)
        return SelectOutput(s=s, s_inv_op=self.s_inv_op, batch=batch, batch_size=batch_size, **extras)
