"""Graph ids of nodes: masks, pooled batch vectors, padded and flat layouts."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tgp.errors import InputError

__all__ = [
    "GraphLayout",
    "apply_dense_node_mask",
    "build_pooled_batch",
    "expand_compacted_rows",
    "get_mask_from_dense_s",
    "is_multi_graph_batch",
    "num_graphs",
]


def is_multi_graph_batch(batch: Tensor | None) -> bool:
    """Whether ``batch`` is given, non-empty and holds more than one graph id."""
    return batch is not None and batch.numel() > 0 and bool(batch.min() != batch.max())


def num_graphs(batch: Tensor | None, batch_size: int | None = None) -> int:
    """Number of graphs: ``batch_size`` if known, else largest id + 1; one graph without ``batch``."""
    if batch_size is not None:
        return int(batch_size)
    if batch is None:
        return 1
    return int(batch.max()) + 1 if batch.numel() else 0


def build_pooled_batch(
    batch_size: int,
    num_supernodes: int,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.long,
) -> Tensor:
    """``[0] * K + [1] * K + ...``, length ``batch_size * num_supernodes``."""
    ids = torch.arange(batch_size, device=device, dtype=dtype)
    return ids.repeat_interleave(num_supernodes)


def apply_dense_node_mask(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of padded ``x [B, N, F]`` where ``mask [B, N]`` is true, and their graph ids."""
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
    """Put compact rows back at the true positions of ``valid_mask``; zeros elsewhere."""
    if x_compact.dim() == 0:
        raise InputError("x_compact must be at least 1D, got a scalar", field="x_compact")
    if valid_mask is None or valid_mask.numel() != expected_rows:
        got = "None" if valid_mask is None else valid_mask.numel()
        raise InputError(
            f"valid_mask must contain exactly {expected_rows} entries, got {got}", field="valid_mask"
        )
    flat = valid_mask.reshape(-1).bool()
    count = int(flat.sum())
    if count != x_compact.size(0):
        raise InputError(
            f"x_compact has {x_compact.size(0)} rows, but valid_mask marks {count}", field="x_compact"
        )
    out = x_compact.new_zeros((expected_rows, *x_compact.shape[1:]))
    return out.index_copy(0, flat.nonzero().squeeze(1), x_compact)


def get_mask_from_dense_s(s: Tensor, batch: Tensor | None = None, batch_size: int | None = None) -> Tensor:
    """``[B, K]``: which supernodes of a dense assignment have any non-zero entry.

    Args:
        s: ``[B, N, K]`` (``batch`` is not read) or ``[N, K]``.
        batch: ``[N]`` graph ids for a flat ``s``; one graph if absent.
        batch_size: number of graphs; default largest id + 1.
    """
    if s.layout is not torch.strided:
        raise _SparseGiven("s must be a dense assignment, got a sparse one", field="s")
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
    """Also an ``AssertionError``, which users of this check may catch."""


class GraphLayout:
    """Where the nodes of each graph are: the one place that sorts, counts and pads.

    Works for any order of graph ids, for ids without nodes, and without a batch vector (one graph).

    Args:
        batch: ``[N]`` graph ids, or ``None``.
        num_nodes: ``N``; needed when ``batch`` is ``None``.
        batch_size: number of graphs; default largest id + 1.
    """

    def __init__(self, batch: Tensor | None, num_nodes: int, batch_size: int | None = None) -> None:
        self.batch = batch
        self.num_nodes = num_nodes
        self.batch_size = num_graphs(batch, batch_size)
        if batch is None and self.batch_size > 1:
            raise InputError(f"{self.batch_size} graphs need a batch vector, got None", field="batch")

    @property
    def single(self) -> bool:
        """Exactly one graph: per-graph sums are plain sums."""
        return self.batch_size == 1

    @cached_property
    def counts(self) -> Tensor:
        """``[B]`` int64 nodes per graph."""
        if self.batch is None:
            return torch.tensor([self.num_nodes])
        return torch.bincount(self.batch, minlength=self.batch_size)

    @cached_property
    def max_count(self) -> int:
        """Nodes of the largest graph. May be set larger before padding."""
        if self.single:
            return self.num_nodes
        return int(self.counts.max()) if self.batch_size else 0

    @cached_property
    def slot(self) -> Tensor:
        """``[N]`` position of each node in the flattened padded layout ``[B * max_count]``."""
        assert self.batch is not None
        start = self.counts.cumsum(0) - self.counts
        batch = self.batch
        if bool((batch[1:] >= batch[:-1]).all()):
            local = torch.arange(self.num_nodes, device=batch.device) - start[batch]
        else:
            order = batch.argsort(stable=True)
            local = torch.empty_like(batch)
            local[order] = torch.arange(self.num_nodes, device=batch.device) - start[batch[order]]
        return batch * self.max_count + local

    def pad(self, values: Tensor) -> Tensor:
        """``[N, ...]`` -> ``[B, max_count, ...]`` with zeros behind each graph's nodes."""
        if self.single and self.max_count == self.num_nodes:
            return values.unsqueeze(0)
        if self.single:
            behind = values.new_zeros((self.max_count - self.num_nodes, *values.shape[1:]))
            return torch.cat([values, behind]).unsqueeze(0)
        shape = (self.batch_size * self.max_count, *values.shape[1:])
        out = values.new_zeros(shape).index_copy_(0, self.slot, values)
        return out.view(self.batch_size, self.max_count, *values.shape[1:])

    def unpad(self, values: Tensor) -> Tensor:
        """``[B, max_count, ...]`` -> ``[N, ...]``: inverse of :meth:`pad`."""
        if self.single:
            return values[0, : self.num_nodes]
        return values.flatten(0, 1).index_select(0, self.slot)

    def mask(self) -> Tensor:
        """``[B, max_count]`` bool: which padded places hold a node."""
        counts = self.counts
        return torch.arange(self.max_count, device=counts.device) < counts.unsqueeze(1)

    def sum(self, values: Tensor) -> Tensor:
        """``[N, ...]`` -> ``[B, ...]``: sum over each graph's nodes; zero for a graph without nodes."""
        if self.single:
            return values.sum(0, keepdim=True)
        out = values.new_zeros((self.batch_size, *values.shape[1:]))
        return out.index_add_(0, self.batch, values)

    def padding_pays(self, k: int, f: int) -> bool:
        """Whether products of ``k`` by ``f`` columns should be padded.

        One huge graph among many small ones would make the padded form explode; outer products do not.
        """
        padded = self.batch_size * self.max_count * (k + f)
        return not self.single and padded <= max(self.num_nodes * k * f, 4 * self.num_nodes * (k + f))

    def matmul(self, u: Tensor, v: Tensor) -> Tensor:
        """Per-graph ``u^T v``: ``[N, K]``, ``[N, F]`` -> ``[B, K, F]``."""
        if self.single:
            return (u.t() @ v).unsqueeze(0)
        k, f = u.size(1), v.size(1)
        if self.padding_pays(k, f):
            return self.pad(u).transpose(1, 2) @ self.pad(v)
        outer = (u.unsqueeze(2) * v.unsqueeze(1)).view(self.num_nodes, k * f)
        return self.sum(outer).view(self.batch_size, k, f)

    def expand(self, m: Tensor, x: Tensor) -> Tensor:
        """Per-graph ``m x``: ``[N, K]``, ``[B, K, F]`` -> ``[N, F]``."""
        if self.single:
            return m @ x[0]
        if self.padding_pays(m.size(1), x.size(2)):
            return self.unpad(self.pad(m) @ x)
        return torch.bmm(m.unsqueeze(1), x.index_select(0, self.batch)).squeeze(1)
