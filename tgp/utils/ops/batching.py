"""Graph ids of nodes: masks, pooled batch vectors, padded and flat layouts."""

from __future__ import annotations

import torch
from torch import Tensor

from tgp.errors import InputError
from tgp.utils.checks import check_length
from tgp.utils.precision import matmul, widen
from tgp.utils.tracing import lazy_attribute, on_host

__all__ = [
    "GraphLayout",
    "apply_dense_node_mask",
    "build_pooled_batch",
    "expand_compacted_rows",
    "get_mask_from_dense_s",
    "is_multi_graph_batch",
    "num_graphs",
]


_MOST_PRODUCTS = 2**24
"""Largest number of products of pairs of columns that are in memory at the same time."""


def is_multi_graph_batch(batch: Tensor | None) -> bool:
    """Return True if ``batch`` contains more than one graph id."""
    return batch is not None and batch.numel() > 0 and bool(batch.min() != batch.max())


def num_graphs(batch: Tensor | None, batch_size: int | None = None) -> int:
    """Return ``batch_size`` if it is given, else the largest graph id + 1, or 1 without ``batch``."""
    if batch_size is not None:
        return int(batch_size)
    if batch is None:
        return 1
    return int(batch.max()) + 1 if batch.numel() > 0 else 0


def build_pooled_batch(
    batch_size: int,
    num_supernodes: int,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.long,
) -> Tensor:
    """Return the graph ids ``[0] * K + [1] * K + ...`` of ``batch_size`` graphs with ``K`` supernodes each.

    Args:
        batch_size: Number of graphs.
        num_supernodes: ``K``.
        device: Device of the result.
        dtype: Integer dtype of the result.

    Returns:
        ``[batch_size * K]``.
    """
    ids = torch.arange(batch_size, device=device, dtype=dtype)
    return ids.repeat_interleave(num_supernodes)


def apply_dense_node_mask(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of padded ``x [B, N, F]`` for which ``mask [B, N]`` is True, and their graph ids."""
    if x.dim() != 3:
        raise InputError(
            f"apply_dense_node_mask expects x to be 3D [B, N, F], got {list(x.shape)}", field="x"
        )
    if mask.shape != x.shape[:2]:
        raise InputError(
            f"apply_dense_node_mask expects mask shape {list(x.shape[:2])}, got {list(mask.shape)}",
            field="mask",
        )
    valid = mask.bool()
    graph = torch.arange(x.size(0), device=x.device).unsqueeze(1).expand(valid.shape)
    return x[valid], graph[valid]


def expand_compacted_rows(x_compact: Tensor, valid_mask: Tensor | None, expected_rows: int) -> Tensor:
    """Insert rows of zeros at the positions where ``valid_mask`` is False.

    Args:
        x_compact: ``[M, ...]`` rows.
        valid_mask: Mask with ``expected_rows`` entries, of which ``M`` are True.
        expected_rows: Number of rows of the result.

    Returns:
        ``[expected_rows, ...]``.

    Raises:
        InputError: If the sizes do not fit. The number of True entries is checked on the host only.
    """
    if x_compact.dim() == 0:
        raise InputError("x_compact must be at least 1D, got a scalar.", field="x_compact")
    if valid_mask is None or valid_mask.numel() != expected_rows:
        got = "None" if valid_mask is None else valid_mask.numel()
        raise InputError(
            f"valid_mask must contain exactly {expected_rows} entries, got {got}.", field="valid_mask"
        )
    flat = valid_mask.reshape(-1).bool()
    if not on_host(x_compact, valid_mask):
        return _expand_rows(x_compact, flat)
    count = int(flat.sum())
    if count != x_compact.size(0):
        raise InputError(
            f"x_compact has the wrong number of rows: expected {count} as in valid_mask, got {x_compact.size(0)}.",
            field="x_compact",
        )
    out = x_compact.new_zeros((expected_rows, *x_compact.shape[1:]))
    return out.index_copy(0, flat.nonzero().squeeze(1), x_compact)


def _expand_rows(x_compact: Tensor, flat: Tensor) -> Tensor:
    """Expand rows without reading the mask on the host."""
    if x_compact.size(0) == 0:
        return x_compact.new_zeros((flat.numel(), *x_compact.shape[1:]))
    row = (flat.long().cumsum(0) - 1).clamp(0, x_compact.size(0) - 1)
    hidden = ~flat.view(-1, *[1] * (x_compact.dim() - 1))
    return x_compact.index_select(0, row).masked_fill(hidden, 0)


def get_mask_from_dense_s(s: Tensor, batch: Tensor | None = None, batch_size: int | None = None) -> Tensor:
    """Return the mask ``[B, K]`` of the supernodes of a dense assignment that have a non-zero entry.

    Args:
        s: ``[B, N, K]``, for which ``batch`` is ignored, or ``[N, K]``.
        batch: ``[N]`` graph ids for a flat ``s``; one graph if ``None``.
        batch_size: Number of graphs; default is the largest id + 1.
    """
    if s.layout is not torch.strided:
        raise _SparseGiven("s must be a dense assignment, got a sparse one.", field="s")
    if s.dim() == 3:
        return (s != 0).any(dim=-2)
    if s.dim() != 2:
        raise InputError(f"s must have shape [N, K] or [B, N, K], got {list(s.shape)}", field="s")
    used = s != 0
    if batch is None:
        return used.any(dim=0, keepdim=True)
    count = num_graphs(batch, batch_size)
    hits = torch.zeros(count, s.size(1), dtype=torch.int32, device=s.device)
    return hits.index_add(0, batch, used.int()) > 0


class _SparseGiven(InputError, AssertionError):
    """A sparse matrix instead of a dense one. Also an ``AssertionError``, which tgp 1.0.2 raised."""


class GraphLayout:
    """Positions of the nodes of each graph in flat and padded form.

    This class is the only code that sorts, counts and pads nodes by graph. Graph ids may have any order and gaps;
    without a batch vector there is one graph. If ``batch_size`` and ``max_num_nodes`` are given, no value is read
    on the host.

    Args:
        batch: ``[N]`` graph ids, or ``None``.
        num_nodes: ``N``; needed when ``batch`` is ``None``.
        batch_size: Number of graphs; default is the largest id + 1.
        max_num_nodes: Width of the padded layout; default is the size of the largest graph.
    """

    def __init__(
        self,
        batch: Tensor | None,
        num_nodes: int,
        batch_size: int | None = None,
        max_num_nodes: int | None = None,
    ) -> None:
        check_length(batch, num_nodes, "batch")
        self.batch = batch
        self.num_nodes = num_nodes
        self.batch_size = num_graphs(batch, batch_size)
        if batch is None and self.batch_size > 1:
            raise InputError(
                f"batch is missing: expected a batch vector for {self.batch_size} graphs, got None.",
                field="batch",
            )
        if max_num_nodes is not None:
            self.max_count = self._checked_width(int(max_num_nodes))

    def _checked_width(self, width: int) -> int:
        if self.batch is not None and not on_host(self.batch):
            if self.batch.is_cuda and not torch.compiler.is_compiling():
                torch._assert_async((self.counts <= width).all(), "max_num_nodes is too small")
            return width
        largest = self.num_nodes if self.single else int(self.counts.max()) if self.batch_size else 0
        if largest > width:
            raise InputError(
                f"max_num_nodes is too small: expected at least {largest} (the largest graph), got {width}.",
                field="max_num_nodes",
            )
        return width

    @property
    def single(self) -> bool:
        """True if there is exactly one graph. Its sums need no graph ids."""
        return self.batch_size == 1

    @lazy_attribute
    def counts(self) -> Tensor:
        """``[B]`` int64 number of nodes of each graph."""
        if self.batch is None:
            return torch.full((1,), self.num_nodes)
        if on_host(self.batch):
            return torch.bincount(self.batch, minlength=self.batch_size)
        zeros = torch.zeros(self.batch_size, dtype=torch.long, device=self.batch.device)
        return zeros.index_add(0, self.batch, torch.ones_like(self.batch, dtype=torch.long))

    @lazy_attribute
    def max_count(self) -> int:
        """Number of nodes of the largest graph. A larger value may be assigned before padding."""
        if self.single:
            return self.num_nodes
        return int(self.counts.max()) if self.batch_size else 0

    @lazy_attribute
    def slot(self) -> Tensor:
        """``[N]`` position of each node in the flattened padded layout ``[B * max_count]``."""
        assert self.batch is not None
        start = self.counts.cumsum(0) - self.counts
        batch = self.batch
        place = torch.arange(self.num_nodes, device=batch.device)
        if on_host(batch) and bool((batch[1:] >= batch[:-1]).all()):
            return batch * self.max_count + place - start[batch]
        order = batch.argsort(stable=True)
        rank = torch.zeros_like(place).index_copy(0, order, place)
        return batch * self.max_count + rank - start[batch]

    @lazy_attribute
    def _is_padded(self) -> bool:
        """True if all graphs have the same size and their nodes are in order, so that the padded form is a view."""
        batch = self.batch
        assert batch is not None
        if not on_host(batch) or self.num_nodes != self.batch_size * self.max_count:
            return False
        return bool((batch[1:] >= batch[:-1]).all())

    def pad(self, values: Tensor) -> Tensor:
        """Return ``[N, ...]`` as ``[B, max_count, ...]`` with zeros after the nodes of each graph."""
        if self.single and self.max_count == self.num_nodes:
            return values.unsqueeze(0)
        if self.single:
            padding = values.new_zeros((self.max_count - self.num_nodes, *values.shape[1:]))
            return torch.cat([values, padding]).unsqueeze(0)
        if self._is_padded:
            return values.reshape(self.batch_size, self.max_count, *values.shape[1:])
        shape = (self.batch_size * self.max_count, *values.shape[1:])
        out = values.new_zeros(shape)
        if on_host(values):
            out.index_copy_(0, self.slot, values)
        else:  # vmap does not support the in-place operation
            out = out.index_copy(0, self.slot, values)
        return out.view(self.batch_size, self.max_count, *values.shape[1:])

    def unpad(self, values: Tensor) -> Tensor:
        """Return ``[B, max_count, ...]`` as ``[N, ...]``, the inverse of :meth:`pad`."""
        if self.single:
            return values[0, : self.num_nodes]
        if self._is_padded:
            return values.flatten(0, 1)
        return values.flatten(0, 1).index_select(0, self.slot)

    def mask(self) -> Tensor:
        """Return the mask ``[B, max_count]`` of the positions that are not padding."""
        counts = self.counts
        return torch.arange(self.max_count, device=counts.device) < counts.unsqueeze(1)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sums ``[B, ...]`` of ``[N, ...]`` over the nodes of each graph; 0 for a graph without nodes.

        The result has the dtype of ``values``; half-precision values are summed in float32.
        """
        if self.single:
            return values.sum(0, keepdim=True)
        assert self.batch is not None
        wide = widen(values)
        out = wide.new_zeros((self.batch_size, *values.shape[1:]))
        return out.index_add_(0, self.batch, wide).to(values.dtype)

    def knows_width(self) -> bool:
        """Return True if the size of the largest graph is known or can be read for free."""
        return self.single or "max_count" in self.__dict__ or on_host(self.batch)

    def padding_pays(self, k: int, f: int) -> bool:
        """Return True if products of ``k`` by ``f`` columns should be padded.

        If one graph is much larger than the others, the padded form needs too much memory, and outer products are
        used instead. A width that is not known yet is not read from an accelerator.
        """
        if self.single or not self.knows_width():
            return False
        padded = self.batch_size * self.max_count * (k + f)
        return padded <= max(self.num_nodes * k * f, 4 * self.num_nodes * (k + f))

    def matmul(self, u: Tensor, v: Tensor) -> Tensor:
        """Return ``u^T v`` of each graph, ``[B, K, F]`` from ``[N, K]`` and ``[N, F]``, in the dtype of ``v``."""
        dtype = v.dtype
        u, v = widen(u), widen(v)
        k, f = u.size(1), v.size(1)
        if self.single:
            out = matmul(u.t(), v).unsqueeze(0)
        elif self.padding_pays(k, f):
            out = matmul(self.pad(u).transpose(1, 2), self.pad(v))
        else:
            # A few columns at a time: all outer products together may not fit into memory.
            width = max(1, _MOST_PRODUCTS // max(self.num_nodes * f, 1))
            parts = [self.sum(c.unsqueeze(2) * v.unsqueeze(1)) for c in torch.split(u, width, dim=1)]
            out = torch.cat(parts, dim=1) if k else v.new_zeros(self.batch_size, 0, f)
        return out.to(dtype)

    def expand(self, m: Tensor, x: Tensor) -> Tensor:
        """Return ``m x`` of each graph, ``[N, F]`` from ``[N, K]`` and ``[B, K, F]``."""
        if self.single:
            return m @ x[0]
        if self.padding_pays(m.size(1), x.size(2)):
            return self.unpad(self.pad(m) @ x)
        assert self.batch is not None
        return torch.bmm(m.unsqueeze(1), x.index_select(0, self.batch)).squeeze(1)
