"""Products with a matrix that is given as an edge list.

On the host the products are custom autograd functions that call compiled kernels and do not store one row per edge.
Everywhere else (see :func:`~tgp.utils.tracing.on_host`) they are plain torch operations with one row per edge, which
all devices, compilers and ``torch.func`` transforms support.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tgp.utils.checks import check_ids
from tgp.utils.precision import autocast_enabled, widen
from tgp.utils.tracing import on_host

__all__ = ["EdgeMatrix", "group_by", "max_over_edges", "softmax_rows", "sparse_product"]

_NUMBERS_AT_ONCE = 2**18
_FAST_DTYPES = (torch.float32, torch.float64)
_SHORT_IDS = 2**16
_WIDE_ROWS = 16
"""Row width from which the softmax of torch is faster than the softmax by columns (measured)."""


def sparse_product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two COO matrices as a coalesced COO matrix.

    Args:
        a: ``[N, M]``.
        b: ``[M, K]``.
    """
    with warnings.catch_warnings():  # torch warns once per process that its sparse products are in beta state
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        product: Tensor = torch.sparse.mm(a, b)
    return product.coalesce()


def group_by(ids: Tensor, size: int, *, checked: bool = False) -> tuple[Tensor, Tensor | None]:
    """Group equal ids. The tensors must be on the host.

    Args:
        ids: ``[E]`` ids from 0 to ``size - 1``, in any order.
        size: Number of groups.
        checked: True if the ids are known to be in range.

    Returns:
        Offsets ``[size + 1]`` of the groups, and the stable order that sorts ``ids``, or ``None`` if they are sorted.

    Raises:
        InputError: If an id is out of range.
    """
    if not checked:
        check_ids(ids, size, "edge_index")
    indptr = torch.zeros(size + 1, dtype=torch.long, device=ids.device)
    torch.cumsum(torch.bincount(ids, minlength=size), 0, out=indptr[1:])
    if bool((ids[1:] >= ids[:-1]).all()):
        return indptr, None
    if not on_host(ids):
        return indptr, ids.argsort(stable=True)
    count = ids.numel()
    if size <= _SHORT_IDS:
        # numpy uses radix sort for 16-bit numbers, which is ten times faster than sorting by comparison.
        return indptr, torch.from_numpy(np.argsort(ids.numpy().astype(np.uint16), kind="stable"))
    from scipy.sparse import csr_matrix

    # The conversion to columns is a counting sort, which is five times faster than sorting by comparison.
    rows = csr_matrix((np.ones(count, np.int8), ids.numpy(), np.arange(count + 1)), shape=(count, size))
    return indptr, torch.from_numpy(rows.tocsc().indices).long()


class EdgeMatrix:
    """``A`` with ``A_ij`` the sum of the weights of the edges ``i -> j``.

    On the host a product costs memory for its result only; elsewhere, one row per edge. Gradients reach both
    the values and the weights. Sums of half-precision values are formed in float32.

    Args:
        source: ``[E]`` rows, in any order.
        target: ``[E]`` columns.
        weight: ``[E]``, or ``None`` for ones.
        num_nodes: ``N``.
        checked: The ids are known to be in range. Otherwise an id out of range raises an error in the first
            product.
    """

    def __init__(
        self, source: Tensor, target: Tensor, weight: Tensor | None, num_nodes: int, *, checked: bool = False
    ) -> None:
        self.source, self.target, self.weight, self.num_nodes = source, target, weight, num_nodes
        # Grouped rows by side; shared by the matrices made from this one, which have the same edges.
        self._groups: dict[bool, tuple[Tensor, Tensor, Tensor | None]] = {}
        self._flipped = False
        self._checked = checked

    @property
    def mT(self) -> EdgeMatrix:
        """The transpose."""
        return self._like(self.target, self.source, self.weight, not self._flipped)

    def with_weight(self, weight: Tensor | None) -> EdgeMatrix:
        """Return a matrix of the same edges with other weights."""
        return self._like(self.source, self.target, weight, self._flipped)

    def _like(self, source: Tensor, target: Tensor, weight: Tensor | None, flipped: bool) -> EdgeMatrix:
        other = EdgeMatrix(source, target, weight, self.num_nodes, checked=self._checked)
        other._groups, other._flipped = self._groups, flipped
        return other

    def _rows(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the offsets of the rows, the columns in this order, and the order or ``None`` if it is unchanged."""
        if self._flipped not in self._groups:
            indptr, order = group_by(self.source, self.num_nodes, checked=self._checked)
            columns = self.target if order is None else self.target.index_select(0, order)
            self._groups[self._flipped] = indptr, columns, order
        return self._groups[self._flipped]

    def __matmul__(self, values: Tensor) -> Tensor:
        """Return ``A values``, see :meth:`times`."""
        return self.times(values)

    def times(self, values: Tensor) -> Tensor:
        """Return ``A values`` for ``[N]`` or ``[N, F]``, in the dtype of ``values``.

        Equals ``A @ values``, which ``torch.compile`` cannot trace.
        """
        wide = widen(values)
        weight = None if self.weight is None else self.weight.to(wide.dtype)
        if values.dim() == 1:
            return self._product(wide.unsqueeze(1), weight).squeeze(1).to(values.dtype)
        return self._product(wide, weight).to(values.dtype)

    def _product(self, values: Tensor, weight: Tensor | None) -> Tensor:
        if on_host(values, weight, self.source) and values.dtype in _FAST_DTYPES:
            product: Tensor = _Product.apply(values, weight, self)  # type: ignore[no-untyped-call]
            return product
        moved = values.index_select(0, self.target)
        if weight is not None:
            moved = moved * weight.unsqueeze(-1)
        return torch.zeros_like(values).index_add(0, self.source, moved)

    def row_counts(self) -> Tensor:
        """Return ``[N]`` number of edges of every row. The tensors must be on the host."""
        return self._rows()[0].diff()

    def dots(self, u: Tensor, v: Tensor) -> Tensor:
        """Return ``[E]`` inner products of row ``i`` of ``u`` and row ``j`` of ``v`` for every edge ``i -> j``."""
        if on_host(u, v, self.source):
            dots: Tensor = _EdgeDots.apply(u, v, self)  # type: ignore[no-untyped-call]
            return dots
        return (u.index_select(0, self.source) * v.index_select(0, self.target)).sum(-1)

    def distances(self, values: Tensor) -> Tensor:
        """Return ``[E]`` sums of absolute differences between the rows of source and target of every edge."""
        if on_host(values, self.source):
            distances: Tensor = _EdgeDistances.apply(values, self.source, self.target)  # type: ignore[no-untyped-call]
            return distances
        return _differences(values, self.source, self.target).abs().sum(-1)

    def row_sums(self, values: Tensor, weight: Tensor | None) -> Tensor:
        """Return ``A values`` for ``[N, F]`` and weights of its dtype, outside of autograd."""
        if self.source.numel() == 0 or values.numel() == 0:
            return torch.zeros_like(values)
        indptr, columns, order = self._rows()
        if weight is not None and order is not None:
            weight = weight.index_select(0, order)
        return torch.embedding_bag(
            values.contiguous(), columns, indptr, False, 0, False, weight, include_last_offset=True
        )[0]


class _Product(torch.autograd.Function):
    """``A values``, whose gradients are products of the same kind."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor | None, matrix: EdgeMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(values if weight is not None and weight.requires_grad else None, weight)
        return matrix.row_sums(values.detach(), None if weight is None else weight.detach())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        values, weight = ctx.saved_tensors
        matrix, to_values, to_weight = ctx.matrix, None, None
        if ctx.needs_input_grad[0]:
            to_values = matrix.with_weight(weight).mT.times(grad)
        if ctx.needs_input_grad[1]:
            to_weight = matrix.dots(grad, values)
        return to_values, to_weight, None


def _chunks(width: int, *per_edge: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Split vectors with one value per edge into chunks, so that the rows gathered for a chunk fit into the cache."""
    size = max(1024, _NUMBERS_AT_ONCE // max(width, 1))
    return zip(*(torch.split(values, size) for values in per_edge), strict=True)


class _EdgeDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, matrix: EdgeMatrix) -> Tensor:
        ctx.save_for_backward(u, v)
        ctx.matrix = matrix
        parts = [
            (u.index_select(0, i) * v.index_select(0, j)).sum(-1)
            for i, j in _chunks(u.size(-1), matrix.source, matrix.target)
        ]
        return torch.cat(parts) if parts else u.new_zeros(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        u, v = ctx.saved_tensors
        weighted = ctx.matrix.with_weight(grad)
        return weighted.times(v), weighted.mT.times(u), None


def _differences(values: Tensor, source: Tensor, target: Tensor) -> Tensor:
    return values.index_select(0, source) - values.index_select(0, target)


class _EdgeDistances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, source: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(values, source, target)
        parts = [
            _differences(values, i, j).abs_().sum(-1) for i, j in _chunks(values.size(-1), source, target)
        ]
        return torch.cat(parts) if parts else values.new_zeros(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        values, source, target = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative, autograd must record every operation
            slope = _differences(values, source, target).sign() * grad.unsqueeze(-1)
            zeros = torch.zeros_like(values)
            return zeros.index_add(0, source, slope).index_add(0, target, -slope), None, None
        out = torch.zeros_like(widen(values))
        for i, j, part in _chunks(values.size(-1), source, target, grad):
            slope = widen(_differences(values, i, j).sign_().mul_(part.unsqueeze(-1)))
            out.index_add_(0, i, slope)
            out.index_add_(0, j, slope, alpha=-1)
        return out.to(values.dtype), None, None


def softmax_rows(x: Tensor) -> Tensor:
    """Return the softmax over the last axis.

    On a CPU, short rows are processed by columns, which is faster. Under autocast the result is float32 on every
    device; torch itself returns half precision on the CPU.
    """
    x = widen(x) if autocast_enabled(x) else x
    if x.size(-1) >= _WIDE_ROWS or not x.is_cpu or x.dim() < 2:
        return x.softmax(-1)
    return x.mT.contiguous().softmax(-2).mT.contiguous()


def max_over_edges(values: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Return ``[N, F]`` the largest ``values[j]`` over the edges ``j -> i`` of each node, and 0 without edges.

    The gradient is divided evenly among edges with the same maximum.
    """
    if on_host(values, source, target):
        largest: Tensor = _MaxOverEdges.apply(values, source, target)  # type: ignore[no-untyped-call]
        return largest
    place = target.unsqueeze(-1).expand(-1, values.size(-1))
    lowest = torch.full_like(values, -torch.inf)
    out = lowest.scatter_reduce(0, place, values.index_select(0, source), "amax")
    return out.masked_fill(out == -torch.inf, 0.0)


class _MaxOverEdges(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, source: Tensor, target: Tensor) -> Tensor:
        width = values.size(-1)
        out = torch.full_like(values, -torch.inf)
        for i, j in _chunks(width, source, target):
            place = j.unsqueeze(-1).expand(-1, width)
            out.scatter_reduce_(0, place, values.index_select(0, i), "amax")
        out.masked_fill_(out == -torch.inf, 0.0)
        ctx.save_for_backward(values, out, source, target)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        values, top, source, target = ctx.saved_tensors
        wide = widen(grad)
        ties, reaches = torch.zeros_like(wide), []
        with torch.no_grad():
            for i, j in _chunks(top.size(-1), source, target):
                gap = top.index_select(0, j) - values.index_select(0, i)
                # 1 at the maximum and 0 below; faster than a comparison
                reaches.append(widen(gap.sign_().neg_().add_(1)))
                ties.index_add_(0, j, reaches[-1])
        share, out = wide / ties.clamp_(min=1), torch.zeros_like(wide)
        for (i, j), reach in zip(_chunks(top.size(-1), source, target), reaches, strict=True):
            out = out.index_add_(0, i, share.index_select(0, j) * reach)
        return out.to(grad.dtype), None, None
