"""Arrays whose rows are divided over several files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tgp.kernels.array_types import Array, LongArray
from tgp.store.read.parts import OpenPart

__all__ = ["PieceArray", "StoredArray", "find_in_rows", "iter_blocks", "join_pieces"]


@dataclass(frozen=True, eq=False)
class PieceArray:
    """Read-only array whose rows are divided over several files. Indexing reads the rows that it returns.

    It supports the indexing that readers need: rows are taken by a slice, which gives another ``PieceArray``, or by an array of ids
    or flags, which gives a numpy array. A list of edges, ``[2, E]``, is divided along its last axis: ``array[0]`` and ``array[1]`` are
    the sources and the targets, and ``array[:, rows]`` takes edges. ``numpy.asarray`` copies the whole array to memory.

    Args:
        parts: Open files, in the order of their rows.
        path: Path of the array in each of them.
        bounds: ``[K + 1]`` first row of each file.
        dtype: Stored type.
        tail: Lengths of the other axes.
        axis: Axis of the rows, 0 or -1.
        low: First row.
        high: Row after the last one.
        lead: Position on the first axis, or ``None`` for all.
    """

    parts: tuple[OpenPart, ...]
    path: str
    bounds: LongArray
    dtype: np.dtype[Any]
    tail: tuple[int, ...]
    axis: int
    low: int
    high: int
    lead: int | None = None

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.high - self.low

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        if self.lead is not None:
            return (self.num_rows,)
        return (self.num_rows, *self.tail) if self.axis == 0 else (*self.tail, self.num_rows)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if self.axis == 0 or self.lead is not None:
            if isinstance(key, tuple) and len(key) == 2 and key[0] is Ellipsis and self.ndim == 1:
                key = key[1]
            return self._rows(key)
        if isinstance(key, tuple) and len(key) == 2 and (key[0] is Ellipsis or key[0] == slice(None)):
            return self._rows(key[1])
        if isinstance(key, (int, np.integer)):
            return replace(self, lead=range(self.tail[0])[int(key)])
        raise IndexError(f"a list of edges is indexed by [0], [1] or [:, rows], got {key!r}")

    def _rows(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(self.num_rows)
            if step != 1:
                raise IndexError(f"rows of several files are taken by slices with step 1, got {step}")
            return replace(self, low=self.low + start, high=self.low + max(start, stop))
        ids = np.asarray(key)
        if ids.dtype == np.bool_:
            if ids.shape != (self.num_rows,):
                raise IndexError(f"expected {self.num_rows} flags, got {ids.size}")
            ids = np.flatnonzero(ids)
        return self._take(ids)

    def _take(self, ids: Array) -> Any:
        """Return the rows with some numbers."""
        if not ids.size:
            ids = ids.astype(np.int64)
        if ids.dtype.kind not in "iu" or (self.axis != 0 and self.lead is None and ids.ndim != 1):
            raise IndexError(f"rows are taken by integers or flags, got {ids.dtype}")
        if ids.size and (int(ids.min()) < -self.num_rows or int(ids.max()) >= self.num_rows):
            raise IndexError(
                f"a row is out of range: expected [0, {self.num_rows}), got {ids.min()} to {ids.max()}"
            )
        place = ids.astype(np.int64).ravel()
        place = np.where(place < 0, place + self.num_rows, place) + self.low
        by_rows = self.axis == 0 or self.lead is not None
        tail = () if self.lead is not None else self.tail
        result = np.empty((len(place), *tail) if by_rows else (*tail, len(place)), self.dtype)
        order: Any = None
        if (place[1:] >= place[:-1]).all():
            ends = np.searchsorted(place, self.bounds)
        else:
            owner = (np.searchsorted(self.bounds, place, side="right") - 1).astype(np.int16)
            order = np.argsort(owner, kind="stable")  # a radix sort
            ends = np.searchsorted(owner[order], np.arange(len(self.parts) + 1))
        for k in np.flatnonzero(ends[1:] > ends[:-1]).tolist():
            mine = slice(ends[k], ends[k + 1]) if order is None else order[ends[k] : ends[k + 1]]
            rows, values = place[mine] - self.bounds[k], self.piece(k)
            if by_rows:
                result[mine] = values[rows]
            else:
                result[..., mine] = values[..., rows]
        return result.reshape((*ids.shape, *tail)) if by_rows else result

    def piece(self, number: int) -> Array:
        """Return the array of one file, after a check that the file is unchanged."""
        part = self.parts[number]
        part.check_unchanged()
        values = part.array(self.path)
        return values if self.lead is None else values[self.lead]

    def blocks(self, step: int | None = None) -> Iterator[tuple[int, Array]]:
        """Yield views of the files, front to back.

        Args:
            step: Largest number of rows of a view; those of a file if ``None``.

        Yields:
            Number of the first row, and the rows.
        """
        first = int(np.searchsorted(self.bounds, self.low, side="right")) - 1
        for k in range(max(first, 0), len(self.parts)):
            low, high = max(int(self.bounds[k]), self.low), min(int(self.bounds[k + 1]), self.high)
            if low >= high:
                continue
            values, start = self.piece(k), int(self.bounds[k])
            for begin in range(low, high, step or high - low):
                rows = slice(begin - start, min(begin + (step or high - low), high) - start)
                is_first = self.axis == 0 or self.lead is not None
                yield begin - self.low, values[rows] if is_first else values[..., rows]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("rows of several files must be copied to become one array")
        result = np.empty(self.shape, self.dtype if dtype is None else dtype)
        for low, values in self.blocks():
            if self.axis == 0 or self.lead is not None:
                result[low : low + len(values)] = values
            else:
                result[..., low : low + values.shape[-1]] = values
        return result

    def astype(self, dtype: npt.DTypeLike) -> Array:
        """Return a copy in memory, in another type."""
        return self.__array__(dtype)


StoredArray: TypeAlias = Array | PieceArray
"""Array as it is stored: in one file, or in several."""


def iter_blocks(array: StoredArray, step: int | None = None) -> Iterator[tuple[int, Array]]:
    """Yield views of the rows of a stored array, front to back.

    Args:
        array: Array.
        step: Largest number of rows of a view; those of a file if ``None``. An array in one file is then one view, also an empty one.

    Yields:
        Number of the first row, and the rows.
    """
    if isinstance(array, PieceArray):
        yield from array.blocks(step)
        return
    if step is None:
        yield 0, array
        return
    for low in range(0, len(array), step):
        yield low, array[low : low + step]


def find_in_rows(array: StoredArray, low: LongArray, high: LongArray, value: LongArray) -> LongArray:
    """Return the position of the first number that is not below a value, in each of some ascending rows, by bisection.

    Args:
        array: Vector of numbers.
        low: First position of each row.
        high: Position after each row, which is the result if all numbers are below the value.
        value: Value to find in each row.
    """
    low, high = low.copy(), high.copy()
    while len(is_open := np.flatnonzero(low < high)):
        middle = (low[is_open] + high[is_open]) // 2
        is_less = array[middle] < value[is_open]
        low[is_open] = np.where(is_less, middle + 1, low[is_open])
        high[is_open] = np.where(is_less, high[is_open], middle)
    return low


def join_pieces(parts: Sequence[OpenPart], path: str, axis: int) -> PieceArray:
    """Return the array of that path over some files, which must have the same type and the same other axes.

    Args:
        parts: Open files, in the order of their rows.
        path: Path of the array in each of them.
        axis: Axis of the rows, 0 or -1.
    """
    infos = [part.info(path) for part in parts]
    lengths = [info.shape[axis] for info in infos]
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    shape = infos[0].shape
    tail = shape[1:] if axis == 0 else shape[:-1]
    return PieceArray(tuple(parts), path, bounds, infos[0].dtype, tail, axis, 0, int(bounds[-1]))
