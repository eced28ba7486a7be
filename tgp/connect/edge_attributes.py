"""Attributes of the edges between supernodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select.base_select import SelectOutput
from tgp.utils.layout import DenseView, SegmentView
from tgp.utils.ops.adjacency import filter_rows
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.ops.connectivity import connectivity_to_edge_index
from tgp.utils.ops.reductions import reduce_groups

__all__ = [
    "DENSE_REDUCTIONS",
    "attributes_of_edges",
    "check_edge_attributes",
    "contract_edge_attributes",
    "dense_edge_attributes",
    "edge_map",
]


class AttributeTypeError(InputError, TypeError):
    """Edge attributes of the wrong type. Also a ``TypeError``."""


DENSE_REDUCTIONS = ("sum", "mean", "none")
"""Reductions of edge attributes for dense assignments."""


def check_edge_attributes(edge_attr: Any, num_edges: int, device: torch.device) -> None:
    """Check the type, the shape and the device of edge attributes.

    Args:
        edge_attr: Value to check.
        num_edges: Number of edges.
        device: Device of the edges.

    Raises:
        InputError: If it is no tensor ``[E]`` or ``[E, D]`` of real numbers on the device of the edges.
    """
    if not isinstance(edge_attr, Tensor) or edge_attr.layout is not torch.strided:
        raise AttributeTypeError(
            f"edge_attr must be a dense Tensor, got {getattr(edge_attr, 'layout', type(edge_attr).__name__)}.",
            field="edge_attr",
        )
    if edge_attr.dim() not in (1, 2) or edge_attr.size(0) != num_edges:
        raise InputError(
            f"edge_attr must have one row per edge: expected [{num_edges}] or [{num_edges}, D], got "
            f"{list(edge_attr.shape)}.",
            field="edge_attr",
        )
    if edge_attr.is_complex():
        raise InputError(f"edge_attr must hold real numbers: got {edge_attr.dtype}.", field="edge_attr")
    if edge_attr.device != device:
        raise InputError(
            f"edge_attr must be on the device of the edges: expected {device}, got {edge_attr.device}. "
            "Move it with edge_attr.to(...).",
            field="edge_attr",
        )


def contract_edge_attributes(
    edge_index: Any,
    so: SelectOutput,
    pooled: Any,
    edge_attr: Tensor,
    how: str,
    *,
    allow_empty: bool = False,
) -> Tensor | None:
    """Return the attributes of pooled edges that a connector has made.

    An input edge belongs to the pooled edge between the supernodes of its ends. This works for every connector that merges
    edges, because only its result is needed.

    Args:
        edge_index: Connectivity of the nodes.
        so: Assignment of the nodes to the supernodes of ``pooled``.
        pooled: Connectivity of the supernodes.
        edge_attr: ``[E]`` or ``[E, D]``.
        how: Reduction, see :func:`~tgp.utils.ops.reductions.reduce_groups`, or ``none``.
        allow_empty: Give the value of an empty group to pooled edges to which no input edge belongs.

    Returns:
        ``[E', ...]``, or ``None`` for the reduction ``none``.

    Raises:
        InputError: If there is a pooled edge to which no input edge belongs, or a node has several supernodes.
    """
    if how == "none":
        return None
    source, target, coarse = _supernodes_of_ends(
        edge_index, so, pooled, "edge_attr cannot be pooled", "edge_attr"
    )
    inside = source >= 0 if so.covers_all else (source >= 0) & (target >= 0)
    if not bool((coarse[0] == coarse[1]).any()):
        inside = inside & (source != target)
    mask = so.out_mask
    size = max(so.num_supernodes if mask is None else mask.numel(), 1)
    key = filter_rows(source * size + target, inside)
    merged, group = torch.unique(key, return_inverse=True)
    wanted = coarse[0] * size + coarse[1]
    rows = filter_rows(edge_attr, inside)
    if torch.equal(merged, wanted):  # most connectors return sorted edges
        return reduce_groups(rows, group, merged.numel(), how)
    place = torch.searchsorted(merged, wanted)
    known = place < merged.numel()
    if merged.numel() > 0:
        known = known & (merged.index_select(0, place.clamp(max=merged.numel() - 1)) == wanted)
    if not allow_empty and not bool(known.all()):
        edge = int((~known).nonzero()[0])
        raise InputError(
            f"edge_attr cannot be pooled: expected a connector that merges edges, got the pooled edge "
            f"{int(coarse[0, edge])} -> {int(coarse[1, edge])}, to which no input edge belongs. Write a connector that "
            "takes edge_attr and returns (edge_index, edge_weight, edge_attr), or drop them with edge_attr_reduce='none'.",
            field="edge_attr",
        )
    empty = merged.numel()
    values = reduce_groups(rows, group, empty + 1, how)
    return values.index_select(0, torch.where(known, place, empty))


def _supernodes_of_ends(
    edge_index: Any, so: SelectOutput, pooled: Any, problem: str, field: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the supernodes of the source and target of each edge, and the pooled edges ``[2, E']``."""
    if so.cluster is None:
        raise InputError(
            f"{problem}: expected an assignment with one supernode per node, got one with several.",
            field=field,
        )
    index, _ = connectivity_to_edge_index(edge_index)
    coarse, _ = connectivity_to_edge_index(pooled)
    source, target = so.cluster.index_select(0, index.reshape(-1)).view(2, -1)
    return source, target, coarse


def edge_map(edge_index: Any, so: SelectOutput, pooled: Any) -> Tensor:
    """Return the pooled edge to which each input edge belongs.

    With it, any attribute of the edges is pooled by one segment reduction, such as :func:`torch_geometric.utils.scatter`.

    Args:
        edge_index: Connectivity of the nodes.
        so: Assignment of the nodes to the supernodes of ``pooled``.
        pooled: Connectivity of the supernodes, made by a connector that merges edges.

    Returns:
        ``[E]``: position of the pooled edge from the supernode of the source to the supernode of the target, the last one of
        parallel pooled edges; -1 if there is none.

    Raises:
        InputError: If a node has several supernodes.

    Examples:
        >>> so = SelectOutput(cluster_index=torch.tensor([0, 0, 1]), num_supernodes=2)
        >>> edge_map(torch.tensor([[0, 1, 2], [1, 2, 0]]), so, torch.tensor([[0, 1], [1, 0]])).tolist()
        [-1, 0, 1]
    """
    source, target, coarse = _supernodes_of_ends(edge_index, so, pooled, "edges have no map", "edge_map")
    size = 1
    if source.numel() > 0 and coarse.numel() > 0:
        size += int(torch.stack([source.max(), target.max(), coarse.max()]).max())
    pairs, order = torch.sort(coarse[0] * size + coarse[1], stable=True)
    inside = (source >= 0) & (target >= 0)
    key = torch.where(inside, source * size + target, -1)
    place = torch.searchsorted(pairs, key, right=True) - 1
    found = torch.full_like(key, -1)
    known = (place >= 0).nonzero().squeeze(1)
    known = known[pairs[place[known]] == key[known]]
    found[known] = order[place[known]]
    return found


def dense_edge_attributes(
    s: Tensor,
    adj: Tensor,
    edge_weight: Tensor | None,
    edge_attr: Tensor,
    how: str,
    *,
    layout: GraphLayout | None = None,
    mask: Tensor | None = None,
    checked: bool = False,
) -> Tensor:
    r"""Return :math:`\mathbf{S}^\top (\mathbf{A} \odot \mathbf{E}_d) \mathbf{S}` for every channel :math:`d`.

    For an edge list, a channel costs the memory of one product ``A S``. No dense ``[N, N]`` array is made.

    Args:
        s: ``[N, K]`` with an edge list, ``[B, N, K]`` with a dense adjacency.
        adj: Edge list ``[2, E]``, or dense ``[B, N, N]``.
        edge_weight: ``[E]`` weights of an edge list, or ``None`` for ones.
        edge_attr: ``[E]`` or ``[E, D]`` for an edge list, ``[B, N, N]`` or ``[B, N, N, D]`` for a dense adjacency.
        how: ``sum``, or ``mean`` to divide by :math:`\mathbf{S}^\top \mathbf{A} \mathbf{S}` where it is not 0.
        layout: Layout of the graphs of an edge list; one graph if ``None``.
        mask: ``[B, N]`` mask of the nodes of a dense adjacency that are not padding.
        checked: True if the node ids are known to be in range.

    Returns:
        ``[B, K, K]`` or ``[B, K, K, D]``, in the type of ``s``.
    """
    is_list = adj.dim() == 2 and not adj.is_floating_point()
    has_channels = edge_attr.dim() > (1 if is_list else 3)
    values = edge_attr.to(s.dtype) if has_channels else edge_attr.to(s.dtype).unsqueeze(-1)
    if is_list:
        batch = None if layout is None else layout.batch
        view = SegmentView(s, adj, edge_weight, batch, layout=layout, checked=checked)

        def product(channel: Tensor | None) -> Tensor:
            weight = view.edge_weight
            if channel is not None:
                weight = channel.to(view.s.dtype) if weight is None else weight * channel
            return view.product(view.s, view._matrix.with_weight(weight).times(view.s))
    else:
        dense = adj.unsqueeze(0) if adj.dim() == 2 else adj
        values = values.view(*dense.shape, -1)

        def product(channel: Tensor | None) -> Tensor:
            return DenseView(s, dense if channel is None else dense * channel, mask).coarse()

    parts = [product(channel) for channel in values.unbind(-1)]
    if how == "mean":
        total = product(None)
        total = torch.where(total == 0, torch.ones_like(total), total)
        parts = [part / total for part in parts]
    if not has_channels:
        return parts[0].to(s.dtype)
    graphs = 1 if layout is None else layout.batch_size
    empty = s.new_zeros((graphs if is_list else dense.size(0), s.size(-1), s.size(-1), 0))
    return torch.stack(parts, -1).to(s.dtype) if parts else empty


def attributes_of_edges(values: Tensor, edge_index: Tensor, valid: Tensor | None = None) -> Tensor:
    """Return the rows of dense edge attributes that belong to a block-diagonal edge list.

    Args:
        values: ``[B, K, K]`` or ``[B, K, K, D]``, sources in rows.
        edge_index: ``[2, E']`` supernodes, numbered over the whole batch.
        valid: ``[B, K]`` mask of the supernodes that are numbered; all if ``None``.

    Returns:
        ``[E']`` or ``[E', D]``.
    """
    if valid is not None:
        edge_index = valid.reshape(-1).nonzero().squeeze(1)[edge_index]
    k = max(values.size(1), 1)
    source, target = edge_index
    return values[source // k, source % k, target % k]
