"""Global graph ids -> shards and rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError

__all__ = ["Selection", "locate"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Selection:
    """Where the graphs of a batch are.

    Args:
        count: graphs in the batch.
        units: the shards that are needed, ascending.
        rows: per shard, the graphs' rows in it, in the order of the batch.
        order: batch position of each graph in the order of shards; ``None`` if that is the batch's order.
    """

    count: int
    units: tuple[int, ...]
    rows: tuple[Ids, ...]
    order: Ids | None


def locate(bounds: npt.NDArray[np.int64], ids: npt.ArrayLike) -> Selection:
    """Find graphs by their ids, in any order, repeated or not."""
    wanted = _as_ids(ids, int(bounds[-1]))
    unit = np.searchsorted(bounds, wanted, side="right") - 1
    if len(wanted) == 0:
        return Selection(0, (0,), (wanted,), None)
    first = int(unit[0])
    if (unit == first).all():
        return Selection(len(wanted), (first,), (wanted - bounds[first],), None)
    order = None
    if (unit[1:] < unit[:-1]).any():
        order = np.argsort(unit, kind="stable")
        unit, wanted = unit[order], wanted[order]
    cuts = np.flatnonzero(np.diff(unit)) + 1
    starts, ends = [0, *cuts.tolist()], [*cuts.tolist(), len(unit)]
    units = tuple(int(unit[s]) for s in starts)
    rows = tuple(wanted[s:e] - bounds[u] for u, s, e in zip(units, starts, ends, strict=True))
    return Selection(len(wanted), units, rows, order)


def _as_ids(ids: Any, num_graphs: int) -> Ids:
    wanted = np.asarray(ids)
    if wanted.size == 0 and wanted.ndim == 1:
        return np.zeros(0, np.int64)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
        raise InputError(
            f"graph ids must be a list of integers, got {wanted.dtype} {list(wanted.shape)}", field="ids"
        )
    if wanted.min() < 0 or wanted.max() >= num_graphs:
        raise InputError(
            f"graph ids must lie in [0, {num_graphs}), got {wanted.min()}..{wanted.max()}",
            field="ids",
        )
    return wanted.astype(np.int64, copy=False)
