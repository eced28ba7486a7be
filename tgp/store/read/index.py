"""Global graph ids -> shards and rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import InputError

__all__ = ["Selection", "as_ids", "locate"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Selection:
    """Where the graphs of a batch are.

    Args:
        count: graphs in the batch.
        units: the shards that are needed, ascending.
        rows: per shard, the graphs' rows in it, in the order of the batch.
        order: batch position of each graph in the order of shards; ``None`` if that is the batch's order.
        run: the graphs follow one another in one shard, so all their rows lie together.
    """

    count: int
    units: tuple[int, ...]
    rows: tuple[Ids, ...]
    order: Ids | None = None
    run: bool = False

    @cached_property
    def pairs(self) -> list[Ids]:
        """Per shard: ``[2, n]`` where the first and last offsets of its graphs are."""
        return [np.stack((rows, rows + 1)) for rows in self.rows]

    @cached_property
    def back(self) -> Ids | None:
        """Place in the order of shards of each graph of the batch."""
        if self.order is None:
            return None
        back = np.empty_like(self.order)
        back[self.order] = np.arange(len(back))
        return back

    @cached_property
    def cuts(self) -> Ids:
        """Offsets of the shards in the order of shards."""
        cuts = np.zeros(len(self.rows) + 1, np.int64)
        cuts[1:] = np.cumsum([len(rows) for rows in self.rows])
        return cuts

    def shard_of(self, position: int) -> int:
        """Which of the needed shards a graph of the batch comes from (an index into ``units``)."""
        place = position if self.back is None else int(self.back[position])
        return int(np.searchsorted(self.cuts, place, side="right")) - 1


def locate(bounds: npt.NDArray[np.int64], ids: npt.ArrayLike) -> Selection:
    """Find graphs by their ids, in any order, repeated or not."""
    wanted = as_ids(ids, int(bounds[-1]))
    unit = np.searchsorted(bounds, wanted, side="right") - 1
    if len(wanted) == 0:
        return Selection(0, (0,), (wanted,), run=True)
    first = int(unit[0])
    if (unit == first).all():
        run = bool((wanted[1:] - wanted[:-1] == 1).all())
        return Selection(len(wanted), (first,), (wanted - bounds[first],), run=run)
    order = None
    if (unit[1:] < unit[:-1]).any():
        order = np.argsort(unit, kind="stable")
        unit, wanted = unit[order], wanted[order]
    cuts = np.flatnonzero(np.diff(unit)) + 1
    starts, ends = [0, *cuts.tolist()], [*cuts.tolist(), len(unit)]
    units = tuple(int(unit[s]) for s in starts)
    rows = tuple(wanted[s:e] - bounds[u] for u, s, e in zip(units, starts, ends, strict=True))
    return Selection(len(wanted), units, rows, order)


def as_ids(ids: Any, num_graphs: int) -> Ids:
    """Ids as a vector of int64, or an error that says what is wrong with them."""
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
