"""Attributes of supernodes, reduced from those of their members by the rules of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tgp.engine.carry import CarryStep
from tgp.select.base_select import SelectOutput
from tgp.utils.ops.reductions import (
    count_votes,
    group_sizes,
    group_totals,
    reduce_columns,
    reduce_groups,
    sum_type,
)

__all__ = ["Members"]

Part = tuple[Tensor | None, Tensor, Tensor | None]
"""Entries of an assignment: nodes (``None`` for all), their supernodes, and their shares (``None`` for ones)."""


@dataclass(frozen=True, eq=False)
class Members:
    """Members of supernodes.

    Args:
        size: Number of supernodes, with empty ones.
        parts: Entries of the assignment. A dense assignment has one part per column.
        nodes: Nodes with a supernode; ``None`` for all.
        group: Supernode of each of these nodes, the one with the largest share in a soft assignment.
        chosen: ``[size]`` node that represents each supernode; ``None`` for its first one.
        kept: Supernodes that are numbered in the result; ``None`` for all.
        is_soft: True if shares count.
    """

    size: int
    parts: tuple[Part, ...]
    nodes: Tensor | None
    group: Tensor
    chosen: Tensor | None = None
    kept: Tensor | None = None
    is_soft: bool = False

    @classmethod
    def of(cls, so: SelectOutput, batch: Tensor | None, kept: Tensor | None) -> Members:
        """Return the members of an assignment.

        Args:
            so: Assignment.
            batch: ``[N]`` graph ids of the nodes.
            kept: Supernodes in the result; ``None`` for all.
        """
        size = so.num_supernodes
        if so.is_dense:
            size *= 1 if so.out_mask is None else so.out_mask.size(0)
        cluster = so.cluster
        if cluster is not None:
            inside = cluster >= 0
            nodes = None if so.covers_all else inside.nonzero().squeeze(1)
            group = cluster if nodes is None else cluster.index_select(0, nodes)
            return cls(size, ((nodes, group, None),), nodes, group, _representatives(so), kept)
        if so.is_sparse:
            rows, columns, share = so.node_index, so.cluster_index, so.weight
            assert rows is not None and columns is not None and share is not None  # the assignment is sparse
            chosen, best = _largest_entries(rows, columns, share.detach(), so.num_nodes)
            return cls(size, ((rows, columns, share),), chosen, best, None, kept, True)
        s = so.to_nodes(so.s)
        start = torch.zeros_like(s[:, 0], dtype=torch.long) if batch is None else batch * s.size(1)
        parts = tuple((None, start + column, s[:, column]) for column in range(s.size(1)))
        largest = s.detach().max(1)
        nodes = (largest.values > 0).nonzero().squeeze(1)
        return cls(size, parts, nodes, (start + largest.indices).index_select(0, nodes), None, kept, True)

    def reduce(self, step: CarryStep, attributes: Mapping[str, Tensor]) -> Tensor:
        """Return one attribute of the supernodes.

        If the nodes are supernodes themselves (``num_members``), means and majorities count each one with its members.

        Args:
            step: Attribute and its reduction.
            attributes: Attributes of the nodes by name.
        """
        members = attributes.get("num_members")
        if step.reduction == "count":
            found = self._count(members)
        elif step.reduction in ("majority", "purity", "mixed"):
            found = self._label(step, attributes, members)
        else:
            found = self._reduce(attributes[step.input_name], step.reduction, members)
        return found if self.kept is None else found.index_select(0, self.kept)

    def _count(self, members: Tensor | None) -> Tensor:
        if members is None and not self.is_soft:
            return group_sizes(self.group, self.size).long()
        total = self._sizes(members)
        is_float = self.is_soft or (members is not None and members.is_floating_point())
        return total.float() if is_float else total.round().long()

    def _reduce(self, values: Tensor, how: str, members: Tensor | None) -> Tensor:
        if how == "first" and self.chosen is not None:
            return values.index_select(0, self.chosen)
        if how in ("first", "max", "min", "any", "all"):
            return reduce_groups(_take(values, self.nodes), self.group, self.size, how)
        if how == "sum" and not self.is_soft:
            return reduce_groups(_take(values, self.nodes), self.group, self.size, "sum")
        dtype = values.dtype if values.is_floating_point() else torch.float32
        if how == "sum":
            return self._totals(values, None).to(dtype)
        rows = values.unsqueeze(1) if how == "stats" and values.dim() == 1 else values
        count = self._sizes(members)
        count = torch.where(count == 0, torch.ones_like(count), count).view(-1, *[1] * (rows.dim() - 1))
        mean = self._totals(rows, members) / count
        if how == "mean":
            return mean.to(dtype)
        variance = self._totals(rows, members, mean) / count
        positive = variance > 0  # the gradient of a root at 0 is infinite
        deviation = torch.where(positive, variance, torch.ones_like(variance)).sqrt() * positive
        largest = reduce_groups(_take(rows, self.nodes), self.group, self.size, "max")
        return torch.cat([mean.to(dtype), deviation.to(dtype), largest.to(dtype)], -1)

    def _totals(self, values: Tensor, members: Tensor | None, center: Tensor | None = None) -> Tensor:
        """Return weighted sums in float64, of the squares of the distances to ``center`` if it is given."""
        out: Tensor | None = None
        for nodes, group, share in self.parts:
            rows = _take(values, nodes)
            if center is not None:
                rows = (rows.to(center.dtype) - center.index_select(0, group)).square()
            part = group_totals(rows, group, self.size, _product(share, members, nodes))
            out = part if out is None else out + part
        return (
            values.new_zeros((self.size, *values.shape[1:]), dtype=sum_type(values)) if out is None else out
        )

    def _sizes(self, members: Tensor | None) -> Tensor:
        """Return ``[size]`` sums of the weights of the members, in float64."""
        sizes = [
            group_sizes(group, self.size, _product(share, members, nodes))
            for nodes, group, share in self.parts
        ]
        return torch.stack(sizes).sum(0) if sizes else group_sizes(self.group[:0], self.size)

    def _label(self, step: CarryStep, attributes: Mapping[str, Tensor], members: Tensor | None) -> Tensor:
        """Return the majority of a label, its share, or True for each supernode whose training members have several labels.

        On a second level, the votes of a supernode are those of its majority, and its training label votes instead of its
        label.
        """
        name, mask = step.input_name, None if step.mask is None else attributes[step.mask]
        train, purity = attributes.get(f"{name}_train"), attributes.get(f"{name}_purity")
        values = attributes[name] if mask is None or train is None else train
        nodes, group = self.nodes, self.group
        if mask is not None:
            inside = _take(mask, nodes).nonzero().squeeze(1)
            nodes, group = inside if nodes is None else nodes[inside], group[inside]
            if values.dtype in (torch.bool, torch.uint8):
                values = values.long()
        total = weight = _product(None, members, nodes)
        if members is not None and mask is None and purity is not None and purity.shape == members.shape:
            weight = _take(purity * members, nodes)
        count = group_sizes(group, self.size, total)

        def reduce(column: Tensor) -> Tensor:
            winner, votes = count_votes(column, group, self.size, weight)
            if step.reduction == "purity":
                return (votes / torch.where(count == 0, torch.ones_like(count), count)).float()
            if step.reduction == "mixed":
                return votes < count
            if mask is not None and winner.is_floating_point():
                return torch.where(count == 0, -torch.ones_like(winner), winner)
            return winner

        found = reduce_columns(_take(values, nodes), reduce)
        if step.reduction == "mixed" and f"{name}_mixed" in attributes:
            found = found | self._reduce(attributes[f"{name}_mixed"], "any", None)
        return found


def _representatives(so: SelectOutput) -> Tensor | None:
    """Return the node that represents each supernode, or ``None`` if the method defines none."""
    names: frozenset[str] = getattr(so, "_node_id_extras", frozenset())
    for found in (getattr(so, name, None) for name in sorted(names)):
        if isinstance(found, Tensor) and found.numel() == so.num_supernodes:
            return found
    return None


def _largest_entries(nodes: Tensor, group: Tensor, share: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return the nodes with a positive entry, and the supernode of the largest one, the first of equal ones."""
    top = share.new_zeros(num_nodes).scatter_reduce(0, nodes, share, "amax")
    best = (share == top.index_select(0, nodes)) & (share > 0)
    limit = int(group.max()) + 1 if group.numel() > 0 else 0
    found = group.new_full((num_nodes,), limit).scatter_reduce(
        0, nodes, torch.where(best, group, limit), "amin"
    )
    chosen = (found < limit).nonzero().squeeze(1)
    return chosen, found.index_select(0, chosen)


def _take(values: Tensor, nodes: Tensor | None) -> Tensor:
    return values if nodes is None else values.index_select(0, nodes)


def _product(share: Tensor | None, members: Tensor | None, nodes: Tensor | None) -> Tensor | None:
    """Return the weights of entries: share times number of members, or ``None`` for ones."""
    if members is None:
        return share
    count = _take(members, nodes)
    return count if share is None else share.to(sum_type(share)) * count
