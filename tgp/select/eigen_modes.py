"""Pooling operator of EigenPool as two linear maps, for every form of ``so.theta``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.select.base_select import SelectOutput
from tgp.utils.ops.batching import GraphLayout
from tgp.utils.precision import widen

__all__ = ["Modes", "modes_of_assignment"]


class MissingThetaError(InputError, AttributeError):
    """The assignment has no attribute ``theta``. Also an ``AttributeError``, as Python itself raises."""


class Modes(ABC):
    """Base class of pooling operators.

    Args:
        num_graphs: ``B``, number of graphs.
        k: ``K``, number of supernodes per graph.
        num_modes: ``H``, number of modes per supernode.
    """

    def __init__(self, num_graphs: int, k: int, num_modes: int) -> None:
        self.num_graphs = num_graphs
        self.k = k
        self.num_modes = num_modes

    @abstractmethod
    def pool(self, x: Tensor) -> Tensor:
        """Return the coefficients ``[B, K, H, F]`` of ``x [N, F]`` in every mode."""

    @abstractmethod
    def lift(self, coefficients: Tensor) -> Tensor:
        """Apply the transposed map: return ``[N, F]`` from coefficients ``[B, K, H, F]``."""


class CompactModes(Modes):
    """Operator from ``theta [N, H]`` and the supernode of each node.

    Args:
        theta: ``[N, H]`` values of the modes.
        slot: ``[N]`` supernode of each node, numbered over the whole batch.
        num_graphs: ``B``.
        k: ``K``.
    """

    def __init__(self, theta: Tensor, slot: Tensor, num_graphs: int, k: int) -> None:
        super().__init__(num_graphs, k, theta.size(1))
        self.theta = theta
        self.slot = slot

    def pool(self, x: Tensor) -> Tensor:
        wide = widen(x)  # sums over nodes
        parts = self.theta.to(wide.dtype).unsqueeze(2) * wide.unsqueeze(1)  # [N, H, F]
        out = parts.new_zeros((self.num_graphs * self.k, *parts.shape[1:]))
        out = out.index_add(0, self.slot, parts).to(x.dtype)
        return out.view(self.num_graphs, self.k, self.num_modes, x.size(1))

    def lift(self, coefficients: Tensor) -> Tensor:
        mine = coefficients.flatten(0, 1).index_select(0, self.slot)  # [N, H, F]
        return (self.theta.to(mine.dtype).unsqueeze(1) @ mine).squeeze(1)


class WideModes(Modes):
    """Operator from a dense ``theta [N, H * K]``, mode-major."""

    def __init__(self, theta: Tensor, layout: GraphLayout, k: int) -> None:
        super().__init__(layout.batch_size, k, theta.size(1) // max(k, 1))
        self.theta = theta
        self.layout = layout

    def pool(self, x: Tensor) -> Tensor:
        raw = self.layout.matmul(self.theta.to(x.dtype), x)  # [B, H * K, F]
        return raw.view(self.num_graphs, self.num_modes, self.k, x.size(1)).transpose(1, 2)

    def lift(self, coefficients: Tensor) -> Tensor:
        raw = coefficients.transpose(1, 2).flatten(1, 2)  # [B, H * K, F]
        theta = self.theta.to(raw.dtype)
        return theta @ raw[0] if self.layout.single else self.layout.expand(theta, raw)


class SparseModes(Modes):
    """Operator from the entries of a sparse ``theta [N, H * K]``, mode-major."""

    def __init__(self, theta: Tensor, batch: Tensor | None, num_graphs: int, k: int) -> None:
        super().__init__(num_graphs, k, theta.size(1) // max(k, 1))
        theta = theta.to_sparse_coo().coalesce()
        self.num_nodes = theta.size(0)
        self.row, column = theta.indices()
        self.value = theta.values()
        graph = 0 if batch is None else batch[self.row]
        # Position in [B, K, H]: column ``h * K + c`` is mode ``h`` of supernode ``c``.
        self.position = (graph * k + column % k) * self.num_modes + column // k

    def pool(self, x: Tensor) -> Tensor:
        wide = widen(x)  # sums over nodes
        parts = self.value.to(wide.dtype).unsqueeze(1) * wide.index_select(0, self.row)
        out = parts.new_zeros((self.num_graphs * self.k * self.num_modes, x.size(1)))
        out = out.index_add(0, self.position, parts).to(x.dtype)
        return out.view(self.num_graphs, self.k, self.num_modes, x.size(1))

    def lift(self, coefficients: Tensor) -> Tensor:
        flat = coefficients.flatten(0, 2)
        parts = self.value.to(flat.dtype).unsqueeze(1) * flat.index_select(0, self.position)
        return parts.new_zeros((self.num_nodes, flat.size(1))).index_add(0, self.row, parts)


def modes_of_assignment(so: SelectOutput, batch: Tensor | None, batch_size: int | None) -> Modes:
    """Return the pooling operator of an assignment with the attribute ``theta``.

    ``theta`` is ``[N, H]`` if the assignment knows the supernode of each node, as the selector makes it. It may also be
    ``[N, H * K]``, mode-major, or a list of such matrices with one per graph. All forms may be dense or sparse.

    Args:
        so: assignment.
        batch: ``[N]`` graph ids.
        batch_size: number of graphs.

    Raises:
        InputError: if ``theta`` is missing or has the wrong shape.
    """
    theta: Any = getattr(so, "theta", None)
    if theta is None:
        raise MissingThetaError(
            "the SelectOutput has no attribute theta, which EigenPool needs. Select with EigenPoolSelect",
            field="so",
        )
    k = so.num_supernodes
    if isinstance(theta, (list, tuple)):
        layout = GraphLayout(batch, so.num_nodes, batch_size)
        theta = _stack([part if part.layout is torch.strided else part.to_dense() for part in theta], layout)
        return WideModes(theta, layout, k)
    if theta.size(0) != so.num_nodes:
        raise InputError(f"theta must hold {so.num_nodes} rows, got {theta.size(0)}", field="theta")
    layout = GraphLayout(batch, so.num_nodes, batch_size)
    if theta.layout is not torch.strided and _is_compact(theta, so):
        theta = theta.to_dense()
    if theta.layout is not torch.strided:
        _check_width(theta, k)
        return SparseModes(theta, None if layout.single else batch, layout.batch_size, k)
    if so._cluster_index is None:
        _check_width(theta, k)
        return WideModes(theta, layout, k)
    slot = so._cluster_index if batch is None or layout.single else batch * k + so._cluster_index
    # A dropped node (column -1) has zeros in theta. Its index only has to be valid.
    return CompactModes(theta, slot.clamp(min=0), layout.batch_size, k)


def _is_compact(theta: Tensor, so: SelectOutput) -> bool:
    """Return True if a sparse ``theta`` is ``[N, H]``.

    In a matrix ``[N, H * K]``, every entry is in a column of the supernode of its row.
    """
    if so._cluster_index is None:
        return False
    k = max(so.num_supernodes, 1)
    row, column = theta.to_sparse_coo().coalesce().indices()
    return bool(theta.size(1) % k) or bool((column % k != so._cluster_index[row]).any())


def _check_width(theta: Tensor, k: int) -> None:
    if theta.size(1) % max(k, 1):
        raise InputError(
            f"theta must have a multiple of {k} columns (modes times supernodes), got {theta.size(1)}",
            field="theta",
        )


def _stack(parts: list[Tensor], layout: GraphLayout) -> Tensor:
    """Join one matrix per graph into one matrix with the rows in the order of the nodes."""
    rows = torch.cat(parts)
    if rows.size(0) != layout.num_nodes:
        raise InputError(f"theta must hold {layout.num_nodes} rows, got {rows.size(0)}", field="theta")
    if layout.batch is None or layout.single:
        return rows
    return torch.empty_like(rows).index_copy(0, layout.batch.argsort(stable=True), rows)
