"""Entries of an adjacency as flat vectors, and merging of parallel edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = ["EdgeEntries", "count_entries", "mark_merged_entries", "merge_entries"]


class EdgeEntries(NamedTuple):
    """Edges as flat vectors: positions of both ends in the rows of a view, weights and graph ids."""

    source: Tensor
    target: Tensor
    weight: Tensor
    graph: Tensor


def merge_entries(
    source: Tensor, target: Tensor, weight: Tensor, size: int, *, positive: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Sum parallel edges and drop entries of weight 0. The number of results depends on the values.

    Args:
        source: ``[E]`` rows.
        target: ``[E]`` columns.
        weight: ``[E]``.
        size: Number of rows and columns.
        positive: All weights are known to be positive, so that no sum is 0.

    Returns:
        Sources, targets and weights of the non-zero entries; the arguments themselves if nothing changes.
    """
    size = max(size, 1)
    key = source * size + target
    if not bool((key[1:] > key[:-1]).all()):  # most edge lists are sorted and free of repeats
        key, group = torch.unique(key, return_inverse=True)
        weight = weight.new_zeros(key.numel()).index_add(0, group, weight)
        source, target = key // size, key % size
    if not positive and not bool(weight.all()):
        source, target, weight = (part[weight != 0] for part in (source, target, weight))
    return source, target, weight


def count_entries(source: Tensor, target: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Count the non-zero entries in each row of an adjacency; parallel edges are one entry. Needs the host.

    Args:
        source: ``[E]`` rows, in range.
        target: ``[E]`` columns, in range.
        weight: ``[E]`` or ``None`` for ones.
        size: Number of rows and columns.

    Returns:
        ``[size]`` int64.
    """
    key = source * max(size, 1) + target
    if bool((key[1:] > key[:-1]).all()):  # most edge lists are sorted and free of repeats
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
    """Sum parallel edges in tensors of fixed length, without reading a value on the host.

    Args:
        source: ``[E]`` rows.
        target: ``[E]`` columns.
        weight: ``[E]``.
        size: Number of rows and columns.

    Returns:
        Sources, targets and weights ``[E]``, sorted, and a bool mask of the non-zero entries. The first of some
        parallel edges has their sum, the others have the weight 0.
    """
    size = max(size, 1)
    key, order = (source * size + target).sort()
    repeated = key[1:] == key[:-1]
    first = torch.cat([torch.ones_like(key[:1], dtype=torch.bool), ~repeated])
    group = first.long().cumsum(0) - 1
    total = torch.zeros_like(weight).index_add(0, group, weight.index_select(0, order))
    merged = total.index_select(0, group) * first
    return key // size, key % size, merged, merged != 0
