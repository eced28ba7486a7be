"""Checks of what is written to a shard. Readers refuse a file beyond these limits, so it must not be written."""

from __future__ import annotations

import numpy as np

from tgp.errors import InputError
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged import Assignment
from tgp.store.format import constants as fmt
from tgp.store.format.schema import FieldInfo

__all__ = ["check_decoded_size", "check_field", "check_level", "check_metric", "check_rows"]


def check_field(info: FieldInfo, *, of_level: bool = False) -> None:
    """Check that the type, shape and form of a field fit together.

    Args:
        info: Schema of the field.
        of_level: True for a field of a level.

    Raises:
        InputError: If they do not.
    """
    if info.dtype not in fmt.ORIGINAL_DTYPES:
        return  # refused when the array is written
    problem = info.level_problem() if of_level else info.problem()
    if problem is not None:
        key, expected = problem
        raise InputError(
            f"{info.name}: {key} must be {expected}, got {getattr(info, key)!r}", field=info.name
        )


def check_rows(name: str, rows: int, size: int) -> None:
    """Check a number of rows that no array stores, see :func:`tgp.store.format.constants.max_rows`.

    Args:
        name: Name of the rows, for the message.
        rows: Number of rows.
        size: Size of the arrays of the file in bytes.

    Raises:
        InputError: If there are more rows than a reader accepts.
    """
    limit = fmt.max_rows(size)
    if rows > limit:
        raise InputError(
            f"too many {name}: expected at most {limit} for arrays of {size} bytes, got {rows}", field=name
        )


def check_decoded_size(name: str, profile: str, decoded: int, size: int) -> None:
    """Check the size of the compressed arrays of a file, see :func:`tgp.store.format.constants.max_decoded`.

    Args:
        name: Name of the file.
        profile: ``"fast"`` or ``"small"``. Arrays of the fast profile are not compressed.
        decoded: Size of its arrays in bytes.
        size: Size of the file in bytes.

    Raises:
        InputError: If readers would refuse the file.
    """
    limit = fmt.max_decoded(size)
    if profile == "small" and decoded > limit:
        raise InputError(
            f"{name} is too large for the small profile: expected at most {limit} bytes of arrays, got {decoded}. Use "
            "more shards or the fast profile",
            field="profile",
        )


def check_level(given: Assignment, node_ptr: LongArray, number: int) -> None:
    """Check the numbers of supernodes and columns of a level.

    Args:
        given: Assignment of the level.
        node_ptr: Offsets of the nodes of the finer level.
        number: Position of the level, from 0.

    Raises:
        InputError: If they are beyond a limit.
    """
    nodes, supernodes = np.diff(node_ptr), np.diff(given.super_ptr)
    if given.kind == "hard" and (supernodes > nodes).any():
        raise InputError(
            f"level {number + 1}: a graph of a hard assignment must not have more supernodes than nodes",
            field="super_ptr",
        )
    if given.kind != "hard" and ((supernodes != given.width) & (supernodes != 0)).any():
        raise InputError(
            f"level {number + 1}: every graph must have {given.width} supernodes or none", field="super_ptr"
        )
    modes = 0 if given.theta is None else given.theta.shape[1]
    for name, columns in (("width", given.width or 0), ("theta", modes)):
        if columns > fmt.MAX_WIDTH:
            raise InputError(
                f"level {number + 1}: expected at most {fmt.MAX_WIDTH} columns, got {columns}", field=name
            )


def check_metric(name: str, values: Array, num_graphs: int) -> None:
    """Check the type and the shape of a metric.

    Args:
        name: Name of the metric.
        values: One number, or one row per graph.
        num_graphs: Number of graphs.

    Raises:
        InputError: If they are others.
    """
    if values.ndim > 2 or values.dtype.kind not in "biuf":
        raise InputError(
            f"metric {name!r}: expected at most 2 axes and a real type, got shape {values.shape} of {values.dtype}",
            field="metrics",
        )
    if values.ndim and len(values) != num_graphs:
        raise InputError(
            f"metric {name!r}: expected one number or one row for each of {num_graphs} graphs, "
            f"got {len(values)} rows",
            field="metrics",
        )
