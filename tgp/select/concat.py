"""Join assignments into one, and split a joined assignment into its parts."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select._sparse_entries import coo_matrix
from tgp.select.base_select import SelectOutput
from tgp.utils.ops.batching import GraphLayout

__all__ = ["Parts", "Rows", "cat", "part", "split"]


@dataclass(frozen=True)
class Parts:
    """Offsets of the parts of a joined assignment.

    Attributes:
        node_ptr: offsets of the nodes.
        super_ptr: offsets of the supernodes.
        graph_ptr: number that was added to the graph ids of each part; ``None`` if there are no graph ids.
        extras: for each extra its :class:`Rows`, a dictionary of them, or ``None`` if it was not concatenated.
    """

    node_ptr: tuple[int, ...]
    super_ptr: tuple[int, ...]
    graph_ptr: tuple[int, ...] | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """Offsets of an extra that was concatenated along its first axis.

    Attributes:
        ptr: offsets of the parts.
        number: type of the parts if they were numbers, not tensors.
    """

    ptr: tuple[int, ...]
    number: type | None = None


def _offsets(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return offsets as Python numbers. For a list this is faster than an array from ``tgp.ragged.offsets``."""
    return (0, *accumulate(sizes))


def cat(items: Sequence[SelectOutput]) -> SelectOutput:
    """Join assignments; see :meth:`SelectOutput.cat`.

    Raises:
        InputError: if ``items`` is empty or the assignments have different forms or extras.
    """
    items = list(items)
    if not items:
        raise InputError("items is empty: expected at least one SelectOutput, got none", field="items")
    first = items[0]
    _check_same_form(items)
    node_ptr = _offsets([so.num_nodes for so in items])
    super_ptr = _offsets([so.num_supernodes for so in items])
    batch, graph_ptr = _cat_batch(items)
    if first.is_sparse:
        out = _cat_sparse(items, node_ptr, super_ptr)
    else:
        out = _cat_dense(items)
    out.batch = batch
    out.batch_size = None if graph_ptr is None else graph_ptr[-1]
    out.s_inv_op = first.s_inv_op
    if first._given_s_inv:
        out.s_inv = _cat_inverse(items, node_ptr, super_ptr)
    extras = {}
    for name in sorted(first._extra_args - {"in_mask"}):
        shift = node_ptr if name in first._node_id_extras else None
        value, extras[name] = _cat_values([getattr(so, name) for so in items], shift)
        setattr(out, name, value)
    out._extra_args |= first._extra_args
    out._node_id_extras = first._node_id_extras
    out._parts = Parts(node_ptr, super_ptr, graph_ptr, extras)
    return out


def _check_same_form(items: Sequence[SelectOutput]) -> None:
    first = items[0]
    for so in items[1:]:
        if so.is_dense != first.is_dense:
            raise InputError(
                "dense and sparse assignments cannot be joined: expected one kind, got both", field="s"
            )
        if so._extra_args != first._extra_args:
            raise InputError(
                f"SelectOutputs have different extra attributes: {sorted(first._extra_args)} and {sorted(so._extra_args)}",
                field="extra_args",
            )
        if first.is_dense and so.num_supernodes != first.num_supernodes:
            raise InputError(
                f"dense assignments must have the same number of supernodes, got {first.num_supernodes} "
                f"and {so.num_supernodes}",
                field="s",
            )


def _cat_batch(items: Sequence[SelectOutput]) -> tuple[Tensor | None, tuple[int, ...] | None]:
    """Return the joined graph ids and the offsets of the graphs."""
    batches = [so.batch for so in items if so.batch is not None]
    if not batches:
        return None, None
    if len(batches) < len(items):
        raise InputError(
            "either all or none of the SelectOutputs must have a batch, "
            f"got {len(batches)} of {len(items)} with a batch",
            field="batch",
        )
    sizes = []
    for so, batch in zip(items, batches, strict=True):
        largest = int(batch.max()) if so.batch_size is None and batch.numel() > 0 else 0
        sizes.append(largest + 1 if so.batch_size is None else so.batch_size)
    ptr = _offsets(sizes)
    return torch.cat([batch + shift for batch, shift in zip(batches, ptr, strict=False)]), ptr


def _cat_sparse(
    items: Sequence[SelectOutput], node_ptr: Sequence[int], super_ptr: Sequence[int]
) -> SelectOutput:
    cluster = torch.cat([so._stored_index() + shift for so, shift in zip(items, super_ptr, strict=False)])
    rows = weight = None
    if any(so._node_index is not None for so in items):
        nodes = [so.node_index for so in items if so.node_index is not None]
        rows = torch.cat([index + shift for index, shift in zip(nodes, node_ptr, strict=False)])
    if any(so._weight is not None for so in items):
        weight = torch.cat([so._entry_weights() for so in items])
    out = SelectOutput.hard(cluster, super_ptr[-1], node_index=rows, num_nodes=node_ptr[-1], weight=weight)
    out._distinct = True if all(so._distinct for so in items) else None
    if weight is None:
        out._dtype = items[0]._dtype
    return out


def _cat_dense(items: Sequence[SelectOutput]) -> SelectOutput:
    first = items[0]
    if all(so._cluster_index is not None for so in items):
        columns = torch.cat([so._stored_index() for so in items])
        return SelectOutput.onehot(columns, first.num_supernodes, dtype=first._dtype)
    if first.s.dim() not in (2, 3):
        raise InputError(f"s must be 2D [N, K] or 3D [B, N, K], got {list(first.s.shape)}", field="s")
    if first.s.dim() == 3 and any(so.num_nodes != first.num_nodes for so in items):
        raise InputError(
            "batched dense assignments must have the same padded number of nodes, "
            f"got {sorted({so.num_nodes for so in items})}",
            field="s",
        )
    masks = [so.in_mask for so in items if so.in_mask is not None]
    mask = torch.cat(masks) if first.in_mask is not None else None
    out = SelectOutput(s=torch.cat([so.s for so in items]), in_mask=mask)
    layouts = [so._layout for so in items if so._layout is not None]
    if len(layouts) == len(items):
        out._layout = _cat_layouts(layouts)
    return out


def _cat_layouts(layouts: Sequence[GraphLayout]) -> GraphLayout:
    """Return the layout of the graphs of all parts, whose nodes follow one another part by part."""
    shifts = _offsets([layout.batch_size for layout in layouts])
    ids = [
        torch.zeros(layout.num_nodes, dtype=torch.long) if layout.batch is None else layout.batch
        for layout in layouts
    ]
    device = next((part.device for part in ids if part.device.type != "cpu"), ids[0].device)
    batch = torch.cat([part.to(device) + shift for part, shift in zip(ids, shifts, strict=False)])
    out = GraphLayout(batch, batch.numel(), shifts[-1])
    out.max_count = max(layout.max_count for layout in layouts)
    return out


def _layout_part(layout: GraphLayout, rows: slice) -> GraphLayout:
    """Return the layout of the graphs in ``rows``."""
    if layout.batch is None:
        return layout
    mine = layout.batch[(layout.batch >= rows.start) & (layout.batch < rows.stop)] - rows.start
    out = GraphLayout(mine, mine.numel(), rows.stop - rows.start)
    out.max_count = layout.max_count
    return out


def _cat_inverse(items: Sequence[SelectOutput], node_ptr: Sequence[int], super_ptr: Sequence[int]) -> Tensor:
    """Return the joined ``s_inv``."""
    parts = [so.s_inv for so in items]
    if parts[0].layout is torch.strided:
        return torch.cat(parts, dim=1 if parts[0].dim() == 2 else 0)
    coo = [part.coalesce() for part in parts]
    index = torch.cat(
        [
            part.indices() + torch.tensor([[k], [n]], device=part.device)
            for part, n, k in zip(coo, node_ptr, super_ptr, strict=False)
        ],
        dim=1,
    )
    values = torch.cat([part.values() for part in coo])
    return coo_matrix(index, values, (super_ptr[-1], node_ptr[-1]))


def _cat_values(values: list[Any], shift: Sequence[int] | None) -> tuple[Any, Any]:
    """Return a joined extra and the offsets that :func:`_part_of` needs to split it."""
    first = values[0]
    if isinstance(first, Tensor):
        rows = [v.unsqueeze(0) if v.dim() == 0 else v for v in values]
        if shift is not None:
            rows = [v + s for v, s in zip(rows, shift, strict=False)]
        return torch.cat(rows), Rows(_offsets([len(v) for v in rows]))
    if isinstance(first, numbers.Number):
        return torch.tensor(values), Rows(_offsets([1] * len(values)), type(first))
    if isinstance(first, Mapping):
        joined = {key: _cat_values([v[key] for v in values], shift) for key in first}
        return {k: v for k, (v, _) in joined.items()}, {k: n for k, (_, n) in joined.items()}
    return list(values), None


def _part_of(value: Any, bounds: Any, index: int, shift: int) -> Any:
    """Return part ``index`` of a joined extra."""
    if isinstance(bounds, Rows):
        rows = value[bounds.ptr[index] : bounds.ptr[index + 1]]
        if bounds.number is not None:
            return bounds.number(rows.item())
        return rows - shift if shift else rows
    if isinstance(bounds, dict):
        return {key: _part_of(value[key], sub, index, shift) for key, sub in bounds.items()}
    return value[index]


def split(
    so: SelectOutput, node_ptr: Sequence[int] | None, super_ptr: Sequence[int] | None
) -> list[SelectOutput]:
    """Split a joined assignment; see :meth:`SelectOutput.split`."""
    parts = so._parts
    if node_ptr is not None:
        parts = _parts_from_offsets(so, node_ptr, super_ptr)
    if parts is None:
        raise InputError(
            "node_ptr must be given: this SelectOutput was not made by SelectOutput.cat", field="node_ptr"
        )
    return [part(so, parts, i) for i in range(len(parts.node_ptr) - 1)]


def _parts_from_offsets(so: SelectOutput, node_ptr: Sequence[int], super_ptr: Sequence[int] | None) -> Parts:
    """Return the parts between given offsets. An extra is split if it has a row per node, supernode or part."""
    nodes = tuple(int(v) for v in node_ptr)
    count = len(nodes) - 1
    if super_ptr is None:
        if so.is_sparse:
            raise InputError("super_ptr must be given to split a sparse assignment", field="super_ptr")
        super_ptr = [i * so.num_supernodes for i in range(count + 1)]
    supernodes = tuple(int(v) for v in super_ptr)
    lengths = {nodes[-1]: nodes, supernodes[-1]: supernodes, count: tuple(range(count + 1))}
    extras = {}
    for name in so._extra_args - {"in_mask"}:
        value = getattr(so, name)
        ptr = lengths.get(len(value)) if isinstance(value, Tensor) and value.dim() else None
        if name in so._node_id_extras and isinstance(value, Tensor):
            bounds = torch.tensor(nodes, device=value.device)
            ptr = tuple(torch.searchsorted(value.contiguous(), bounds).tolist())
        extras[name] = None if ptr is None else Rows(ptr)
    graph_ptr = None
    if so.batch is not None:
        graph_ptr = tuple(int(so.batch[lo]) if hi > lo else 0 for lo, hi in pairwise(nodes))
    return Parts(nodes, supernodes, graph_ptr, extras)


def part(so: SelectOutput, parts: Parts, i: int) -> SelectOutput:
    """Return part ``i`` of a joined assignment.

    Args:
        so: joined assignment.
        parts: its offsets.
        i: index of the part.
    """
    low, high = parts.node_ptr[i], parts.node_ptr[i + 1]
    k_low, k_high = parts.super_ptr[i], parts.super_ptr[i + 1]
    if so.is_sparse:
        out = _sparse_part(so, low, high, k_low, k_high)
    elif so._cluster_index is not None:
        out = SelectOutput.onehot(so._cluster_index[low:high], so.num_supernodes, dtype=so._dtype)
    elif so.s.dim() == 3:
        counts = so.s.size(0) // (len(parts.node_ptr) - 1)
        rows = slice(i * counts, (i + 1) * counts)
        out = SelectOutput(s=so.s[rows], in_mask=None if so.in_mask is None else so.in_mask[rows])
        out._layout = None if so._layout is None else _layout_part(so._layout, rows)
    else:
        out = SelectOutput(s=so.s[low:high])
    out.s_inv_op = so.s_inv_op
    if so._given_s_inv:
        out.s_inv = _inverse_part(so.s_inv, low, high, k_low, k_high)
    if so.batch is not None:
        batch = so.batch[low:high]
        out.batch = batch - parts.graph_ptr[i] if parts.graph_ptr is not None else batch
    for name in sorted(so._extra_args - {"in_mask"}):
        shift = low if name in so._node_id_extras else 0
        bounds, value = parts.extras.get(name), getattr(so, name)
        whole = bounds is None and not isinstance(value, list)
        setattr(out, name, value if whole else _part_of(value, bounds, i, shift))
        out._extra_args.add(name)
    out._node_id_extras = so._node_id_extras
    return out


def _sparse_part(so: SelectOutput, low: int, high: int, k_low: int, k_high: int) -> SelectOutput:
    if so._node_index is None:
        entries, rows = slice(low, high), None
    else:
        bounds = torch.tensor([low, high], device=so._node_index.device)
        entries = slice(*torch.searchsorted(so._node_index, bounds).tolist())
        rows = so._node_index[entries] - low
    out = SelectOutput.hard(
        so._stored_index()[entries] - k_low,
        k_high - k_low,
        node_index=rows,
        num_nodes=high - low,
        weight=None if so._weight is None else so._weight[entries],
        dtype=so._dtype,
    )
    out._distinct = so._distinct or None
    return out


def _inverse_part(s_inv: Tensor, low: int, high: int, k_low: int, k_high: int) -> Tensor:
    if s_inv.layout is torch.strided:
        return s_inv[..., low:high]
    coo = s_inv.coalesce()
    rows, cols = coo.indices()
    keep = (cols >= low) & (cols < high)
    index = torch.stack([rows[keep] - k_low, cols[keep] - low])
    return coo_matrix(index, coo.values()[keep], (k_high - k_low, high - low))
