"""The identity assignment: every node is a supernode."""

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
    """Return the device of the connectivity, or of the features if there is no connectivity.

    Args:
        x: features.
        edge_index: edge list, sparse matrix or ``SparseTensor``.

    Raises:
        InputError: if both are ``None``.
    """
    if edge_index is not None:
        device: torch.device = edge_index.device if isinstance(edge_index, Tensor) else edge_index.device()
        return device
    if x is None:
        raise InputError(
            "No device found: expected x or edge_index to be a tensor, got None for both", field="edge_index"
        )
    return x.device


class IdentitySelect(Select):
    r"""Selector with the identity assignment :math:`\mathbf{S} = \mathbf{I}`."""

    def forward(  # type: ignore[override]
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
            edge_index: connectivity. It gives the number of nodes and the device.
            num_nodes: ``N``; by default the length of ``batch``, or the number of nodes of the connectivity.
            device: device of the result; by default that of the connectivity, or the CPU.
            x: features. They give the type of the weights.
            batch: kept as ``so.batch``.
            batch_size: kept as ``so.batch_size``.
            **kwargs: ignored.

        Raises:
            NotImplementedError: if the number of nodes is unknown.
        """
        if num_nodes is None and batch is not None:
            num_nodes = batch.numel()
        if num_nodes is None and edge_index is None:
            raise NotImplementedError(
                "the number of nodes is unknown: expected num_nodes, batch or edge_index, got None for all"
            )
        size = infer_num_nodes(edge_index, num_nodes)
        if device is None:
            device = torch.device("cpu") if edge_index is None else get_device(edge_index=edge_index)
        dtype = x.dtype if x is not None and x.dtype is torch.float64 else None
        return SelectOutput.hard(
            torch.arange(size, device=device), size, batch=batch, batch_size=batch_size, dtype=dtype
        )
