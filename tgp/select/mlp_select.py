"""Selector with soft clusters from an MLP on node features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch_geometric.nn import MLP

from tgp.errors import InputError
from tgp.select.base_select import Select, SelectOutput
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.products import softmax_rows
from tgp.utils.typing import SinvType

__all__ = ["MLPSelect"]


class _ShapeError(InputError, AssertionError):
    """Wrong shape; also an ``AssertionError``, which users of this check may catch."""


class MLPSelect(Select):
    r"""Soft assignment :math:`\mathbf{S} = \mathrm{softmax}(\mathrm{MLP}(\mathbf{X}))`.

    Args:
        in_channels: feature size, or the widths of the layers, the first being the feature size.
        k: number of supernodes.
        batched_representation: padded ``[B, N, F]`` input (true) or flat ``[N, F]``.
        act: activation of the hidden layers; ``None`` leaves them linear.
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
        self.k = k
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
        """Return ``S`` of all rows and the extra attributes of the assignment."""
        return softmax_rows(self.mlp(x)), {}

    def on_rows(self, x: Tensor, layout: GraphLayout) -> tuple[Tensor, dict[str, Any], SelectOutput]:
        """Assign the nodes of a flat batch without computing anything for padding.

        Returns:
            ``S [N, K]``, its extra attributes, and the padded assignment that :meth:`forward` would return.
        """
        s, extras = self.assignment(x)
        padded = {name: self.padded_extra(value, layout) for name, value in extras.items()}
        so = SelectOutput(s=layout.pad(s), s_inv_op=self.s_inv_op, in_mask=layout.mask(), **padded)
        so._layout = layout
        return s, extras, so

    def padded_extra(self, value: Any, layout: GraphLayout) -> Any:
        """Return an extra attribute of flat rows in the form of a padded assignment."""
        return value

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Assign every node. No value is read on the host.

        Args:
            x: ``[B, N, F]`` (``[N, F]`` is one graph) if padded, else ``[N, F]``.
            mask: ``[B, N]`` real nodes of padded input; other rows of ``S`` are zero.
            batch: ``[N]`` graph ids of flat input.
            batch_size: number of graphs of flat input.
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
