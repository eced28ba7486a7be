"""Reductions of rows by group, as torch operations that carry gradients.

Sums are computed in float64 in the order of the rows and rounded once. On the CPU they are therefore equal, bit for bit,
to those of the engine.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tgp.errors import InputError, ParameterError, UnknownNameError
from tgp.utils.tracing import on_host

__all__ = [
    "GROUP_REDUCTIONS",
    "check_reduction",
    "count_votes",
    "group_sizes",
    "group_totals",
    "reduce_columns",
    "reduce_groups",
    "sum_type",
]

GROUP_REDUCTIONS = ("sum", "mean", "max", "min", "mul", "majority", "any", "all", "first", "stats")
"""Names of the reductions of :func:`reduce_groups`."""

_SCATTER = {"max": "amax", "min": "amin", "mul": "prod"}
_WIDE = 32
"""Number of columns from which a maximum is computed on all columns at once. Below, an operation per column is faster
(measured)."""

_FEW = 8
"""Number of columns from which a transposed copy is faster (measured)."""


def check_reduction(how: str, values: Tensor, name: str) -> None:
    """Check that a reduction exists and fits the type of the values.

    Args:
        how: Name of the reduction, or ``none``.
        values: Values to reduce.
        name: Name of the attribute, for messages.

    Raises:
        UnknownNameError: If the reduction does not exist.
        ParameterError: If it does not fit.
    """
    if not isinstance(how, str) or how not in (*GROUP_REDUCTIONS, "none"):
        raise UnknownNameError("reduction", str(how), (*GROUP_REDUCTIONS, "none"))
    if how in ("any", "all") and values.is_floating_point():
        raise ParameterError(
            f"{name!r} cannot be reduced by {how}: expected a bool or integer type, got {values.dtype}",
            field=name,
            hint="choose sum, mean, max, min, mul, majority, first or stats",
        )


def reduce_groups(
    values: Tensor, group: Tensor, size: int, how: str, *, weight: Tensor | None = None
) -> Tensor:
    """Reduce the rows of each group.

    Args:
        values: ``[R, ...]`` rows of any real type.
        group: ``[R]`` group of each row, from 0 to ``size - 1``.
        size: Number of groups.
        how: One of :data:`GROUP_REDUCTIONS`. ``majority`` returns the smallest of the most frequent values, ``first`` the
            first row, and ``stats`` the mean, the standard deviation and the maximum, joined along the last axis.
        weight: ``[R]`` weights of the rows for ``sum``, ``mean``, ``stats`` and ``majority``.

    Returns:
        ``[size, ...]`` in the type of ``values``. Sums of integers are int64, means of integers float32, and ``any`` and
        ``all`` bool. Groups without rows are 0; the majority of signed integers is -1 for them.
    """
    if how == "stats":
        return _stats(values, group, size, weight)
    if how == "first":
        return _first(values, group, size)
    if how in ("any", "all"):
        found = _scatter(values.ne(0).to(torch.uint8), group, size, "max" if how == "any" else "min")
        return found.bool()
    if how == "majority":
        return reduce_columns(values, lambda column: count_votes(column, group, size, weight)[0])
    if how in _SCATTER:
        return _scatter(values, group, size, how)
    if how == "sum" and not values.is_floating_point() and weight is None:
        return _add(values.long(), group, size)
    dtype = values.dtype if values.is_floating_point() else torch.float32
    count = None if how == "sum" else _positive_sizes(group, size, weight)
    return group_totals(values, group, size, weight, divisor=count, dtype=dtype)


def group_sizes(group: Tensor, size: int, weight: Tensor | None = None) -> Tensor:
    """Return ``[size]`` number of rows of each group, or the sums of their weights, in float64."""
    if weight is None and on_host(group):
        return torch.bincount(group, minlength=size).to(sum_type(group))
    ones = group.new_ones(group.numel()) if weight is None else weight
    wide = ones.to(sum_type(group))
    return wide.new_zeros(size).index_add(0, group, wide)


def sum_type(tensor: Tensor) -> torch.dtype:
    """Return the type in which values on the device of ``tensor`` are summed. Some accelerators have no float64."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _is_wide(values: Tensor) -> bool:
    return values.dim() > 1 and values[0:1].numel() > _WIDE


def reduce_columns(values: Tensor, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function from ``[R]`` to ``[size]`` to every column of ``[R, ...]``.

    Args:
        values: ``[R]`` or ``[R, ...]``.
        reduce: The function.

    Returns:
        ``[size, ...]``.
    """
    if values.dim() == 1:
        return reduce(values)
    flat = values.flatten(1)
    # Strided columns of a wide matrix would read all of its memory once per column.
    columns = list(flat.unbind(1) if flat.size(1) < _FEW else flat.t().contiguous().unbind(0))
    parts = [reduce(column) for column in columns or [values.new_zeros(values.size(0))]]
    found = torch.stack(parts, 1)[:, : len(columns)]
    return found.reshape(found.size(0), *values.shape[1:])


def _add(values: Tensor, group: Tensor, size: int) -> Tensor:
    """Return the sums of the rows of each group, in the type of ``values``."""
    return values.new_zeros(size, *values.shape[1:]).index_add(0, group, values)


def group_totals(
    values: Tensor,
    group: Tensor,
    size: int,
    weight: Tensor | None = None,
    *,
    divisor: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the sums of the rows of each group, computed in float64 column by column.

    Args:
        values: ``[R, ...]``.
        group: ``[R]`` group of each row, from 0 to ``size - 1``.
        size: Number of groups.
        weight: ``[R]`` weights of the rows; by default ones.
        divisor: ``[size]`` numbers by which the sums are divided; by default ones.
        dtype: Type of the result; by default float64.
    """
    wide = sum_type(values)
    factor = None if weight is None else weight.to(wide)

    def add(column: Tensor) -> Tensor:
        column = column.to(wide) if factor is None else column.to(wide) * factor
        total = _add(column, group, size)
        total = total if divisor is None else total / divisor
        return total if dtype is None else total.to(dtype)

    return reduce_columns(values, add)


def _positive_sizes(group: Tensor, size: int, weight: Tensor | None) -> Tensor:
    """Return the sizes of the groups, and 1 for groups without weight."""
    count = group_sizes(group, size, weight)
    return torch.where(count == 0, torch.ones_like(count), count)


def _stats(values: Tensor, group: Tensor, size: int, weight: Tensor | None) -> Tensor:
    dtype = values.dtype if values.is_floating_point() else torch.float32
    rows = values.unsqueeze(1) if values.dim() == 1 else values
    count = _positive_sizes(group, size, weight)
    mean = group_totals(rows, group, size, weight, divisor=count)
    distance = rows.to(mean.dtype) - mean.index_select(0, group)
    variance = group_totals(distance.square(), group, size, weight, divisor=count)
    # The gradient of a root at 0 is infinite.
    positive = variance > 0
    deviation = torch.where(positive, variance, torch.ones_like(variance)).sqrt() * positive
    return torch.cat([mean.to(dtype), deviation.to(dtype), _scatter(rows, group, size, "max").to(dtype)], -1)


def _scatter(values: Tensor, group: Tensor, size: int, how: str) -> Tensor:
    is_bool = values.dtype is torch.bool
    numbers = values.to(torch.uint8) if is_bool else values

    def reduce(column: Tensor) -> Tensor:
        index = group.view(-1, *[1] * (column.dim() - 1)).expand_as(column)
        start = column.new_zeros(size, *column.shape[1:])
        return start.scatter_reduce(0, index, column, _SCATTER[how], include_self=False)

    found = reduce(numbers) if _is_wide(numbers) else reduce_columns(numbers, reduce)
    return found.bool() if is_bool else found


def _first(values: Tensor, group: Tensor, size: int) -> Tensor:
    place = torch.arange(group.numel(), device=group.device)
    first = place.new_full((size,), group.numel()).scatter_reduce(0, group, place, "amin")
    # A row of zeros stands for groups without rows.
    padded = torch.cat([values, values.new_zeros(1, *values.shape[1:])])
    return padded.index_select(0, first)


def count_votes(
    values: Tensor, group: Tensor, size: int, weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the smallest of the most frequent values of each group, and the number of its rows.

    Args:
        values: ``[R]``.
        group: ``[R]`` group of each value, from 0 to ``size - 1``.
        size: Number of groups.
        weight: ``[R]`` weights of the rows; by default ones.

    Returns:
        ``[size]`` values and ``[size]`` sums of weights in float64. Without rows a signed integer is -1, another value 0.

    Raises:
        InputError: If a value is NaN.
    """
    if values.is_floating_point() and on_host(values) and bool(values.isnan().any()):
        raise InputError(
            "values cannot be reduced by majority: expected numbers, got NaN. "
            "Replace missing values, or choose first, max or mean."
        )
    levels, rank = torch.unique(values, return_inverse=True)
    count = max(levels.numel(), 1)
    pair, inverse = torch.unique(group * count + rank, return_inverse=True)
    votes = group_sizes(inverse, pair.numel(), weight)
    owner, rank = pair // count, pair % count
    most = votes.new_zeros(size).scatter_reduce(0, owner, votes, "amax", include_self=False)
    rank = torch.where(votes == most.index_select(0, owner), rank, count)
    best = rank.new_full((size,), count).scatter_reduce(0, owner, rank, "amin")
    is_signed = not levels.is_floating_point() and levels.dtype not in (torch.bool, torch.uint8)
    missing = levels.new_full((1,), -1 if is_signed else 0)
    return torch.cat([levels, missing]).index_select(0, best.clamp(max=levels.numel())), most
