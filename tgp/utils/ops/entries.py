"""Entries of an adjacency as flat vectors, and merging of parallel edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tgp.utils.tracing import on_host

__all__ = ["EdgeEntries", "count_entries", "mark_merged_entries", "merge_entries"]


class EdgeEntries(NamedTuple):
    """Edges as flat vectors: row positions of source and target in a view, weights, and graph ids."""

    source: Tensor
    target: Tensor
    weight: Tensor
    graph: Tensor


def merge_entries(
    source: Tensor, target: Tensor, weight: Tensor, size: int, *, positive: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Merge parallel edges and remove entries of weight 0. The size of the result depends on the values.

    Args:
        source: ``[E]`` rows.
        target: ``[E]`` columns.
        weight: ``[E]``.
        size: Number of rows and columns.
        positive: True if all weights are known to be positive, so that no sum is 0.

    Returns:
        Sources, targets and weights of the non-zero entries. If nothing changes, these are the arguments.
    """
    size = max(size, 1)
    key = source * size + target
    if not bool((key[1:] > key[:-1]).all()):  # most edge lists are sorted and have no parallel edges
        key, group = torch.unique(key, return_inverse=True)
        weight = weight.new_zeros(key.numel()).index_add(0, group, weight)
        source, target = key // size, key % size
    if not positive and not bool(weight.all()):
        source, target, weight = (part[weight != 0] for part in (source, target, weight))
    return source, target, weight


def count_entries(source: Tensor, target: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Return the number of non-zero entries in each row of an adjacency. Parallel edges are one entry.

    Args:
        source: ``[E]`` rows, in range.
        target: ``[E]`` columns, in range.
        weight: ``[E]`` or ``None`` for ones.
        size: Number of rows and columns.

    Returns:
        ``[size]`` int64.
    """
    if not on_host(source, weight):
        weights = torch.ones_like(source) if weight is None else weight
        rows, _, _, present = mark_merged_entries(source, target, weights, size)
        return source.new_zeros(size).index_add(0, rows, present.long())
    key = source * max(size, 1) + target
    if bool((key[1:] > key[:-1]).all()):  # most edge lists are sorted and have no parallel edges
        present = source if weight is None else source[weight.detach() != 0]
        return torch.bincount(present, minlength=size)
    from scipy.sparse import coo_matrix

    values = np.ones(source.numel(), np.float32) if weight is None else weight.detach().numpy()
    matrix = coo_matrix((values, (source.numpy(), target.numpy())), shape=(size, size)).tocsr()
    if weight is not None:
        matrix.eliminate_zeros()
    return torch.from_numpy(np.diff(matrix.indptr).astype(np.int64))


def mark_merged_entries(
    source: Tensor, target: Tensor, weight: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Merge parallel edges in tensors of fixed length, without reading a value on the host.

    Args:
        source: ``[E]`` rows.
        target: ``[E]`` columns.
        weight: ``[E]``.
        size: Number of rows and columns.

    Returns:
        Sources, targets and weights ``[E]`` in sorted order, and a mask of the non-zero entries. The first of several
        parallel edges has the sum of their weights, the others have weight 0.
    """
    size = max(size, 1)
    key, order = (source * size + target).sort()
    repeated = key[1:] == key[:-1]
    first = torch.cat([torch.ones_like(key[:1], dtype=torch.bool), ~repeated])
    group = first.long().cumsum(0) - 1
    total = torch.zeros_like(weight).index_add(0, group, weight.index_select(0, order))
    merged = total.index_select(0, group) * first
    return key // size, key % size, merged, merged != 0
