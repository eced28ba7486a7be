"""Every node its own supernode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.imports import is_sparsetensor as is_sparsetensor
from tgp.select.base_select import Select, SelectOutput
from tgp.utils.ops.connectivity import infer_num_nodes

__all__ = ["IdentitySelect", "get_device"]


def get_device(x: Tensor | None = None, edge_index: Any = None) -> torch.device:
    """Return the device of the connectivity, else that of the features."""
    if edge_index is not None:
        return edge_index.device if isinstance(edge_index, Tensor) else edge_index.device()
    if x is None:
        raise InputError("No device found: neither x nor edge_index is given", field="edge_index")
    return x.device


class IdentitySelect(Select):
    r"""Selector with the identity assignment :math:`\mathbf{S} = \mathbf{I}`."""

    def forward(
        self,
        *,
        edge_index: Any = None,
        num_nodes: int | None = None,
        device: torch.device | str | None = None,
        x: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Assign every node to itself.

        Args:
            edge_index: connectivity, read for the number of nodes and the device.
            num_nodes: ``N``; default from ``batch``, else from the connectivity.
            device: device of the result; default that of the connectivity, else the CPU.
            x: read for the type of real numbers.
            batch: kept as ``so.batch``.
            batch_size: kept as ``so.batch_size``.
        """
        if num_nodes is None and batch is not None:
            num_nodes = batch.numel()
        if num_nodes is None and edge_index is None:
            raise NotImplementedError("IdentitySelect needs num_nodes, batch or edge_index to know the nodes")
        size = infer_num_nodes(edge_index, num_nodes)
        if device is None:
            device = torch.device("cpu") if edge_index is None else get_device(edge_index=edge_index)
        dtype = x.dtype if x is not None and x.dtype is torch.float64 else None
        return SelectOutput.hard(
            torch.arange(size, device=device), size, batch=batch, batch_size=batch_size, dtype=dtype
        )
