"""Data transforms that do not depend on poolers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from tgp.errors import InputError
from tgp.utils.ops.adjacency import delta_gcn_matrix

__all__ = ["NormalizeAdj", "SortNodes"]


class _MissingField(InputError, AssertionError):
    """A field of the data is missing. Also an ``AssertionError``, which tgp 1.0.2 raised."""


def _required_field(data: Data, name: str, who: str) -> Any:
    value = getattr(data, name, None)
    if value is None:
        raise _MissingField(f"{who} needs data.{name}: got None.", field=name)
    return value


class NormalizeAdj(BaseTransform):
    r"""Replace the adjacency by :math:`\mathbf{I} - \delta \mathbf{L}_\mathrm{sym}`.

    Self-loops are removed from the Laplacian, and every node gets the diagonal entry :math:`1 - \delta`. Edge
    attributes stay with their edges; those of parallel edges are summed, and those of new loops are 0.

    Args:
        delta: Strength of the filter.
    """

    def __init__(self, delta: float = 0.85) -> None:
        self.delta = delta

    @torch.no_grad()
    def forward(self, data: Data) -> Data:
        """Apply the transform to a shallow copy made by the caller."""
        edge_index = _required_field(data, "edge_index", "NormalizeAdj")
        size = data.num_nodes
        index, weight = delta_gcn_matrix(edge_index, getattr(data, "edge_weight", None), self.delta, size)
        if getattr(data, "edge_attr", None) is not None:
            data.edge_attr = _move_attributes(data.edge_attr, edge_index, index, size)
        data.edge_index, data.edge_weight = index, weight
        return data

    def __repr__(self) -> str:
        return f"NormalizeAdj(delta={self.delta})"


def _move_attributes(attr: Tensor, old: Tensor, new: Tensor, size: int) -> Tensor:
    """Return the attributes of the ``old`` edges at their positions in the sorted ``new`` edges."""
    place = torch.searchsorted(new[0] * size + new[1], old[0] * size + old[1])
    return attr.new_zeros((new.size(1), *attr.shape[1:])).index_add(0, place, attr)


class SortNodes(BaseTransform):
    """Sort nodes by ascending ``y``, and nodes with equal ``y`` by node id.

    Node-level attributes are sorted with the nodes, ids in index attributes are updated, and edges are sorted by
    row, then column, together with edge-level attributes.
    """

    @torch.no_grad()
    def forward(self, data: Data) -> Data:
        """Apply the transform to a shallow copy made by the caller."""
        _required_field(data, "edge_index", "SortNodes")
        label = _required_field(data, "y", "SortNodes").reshape(-1)
        size = data.num_nodes
        if label.numel() != size:
            raise InputError(
                f"y must have one value per node: expected {size}, got {label.numel()}.", field="y"
            )
        order = label.argsort(stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(size, device=order.device)
        renamed = rank[data.edge_index]
        edge_order = (renamed[0] * size + renamed[1]).argsort(stable=True)
        for name, value in list(data):
            if name == "edge_index":
                continue
            if isinstance(value, Tensor) and (name == "face" or "index" in name):
                data[name] = rank[value]
            elif data.is_node_attr(name):
                data[name] = value[order.to(value.device)]
            elif data.is_edge_attr(name):
                data[name] = value[edge_order.to(value.device)]
        data.edge_index = renamed[:, edge_order]
        return data
