"""Check the arguments that choose the content of a :class:`~tgp.data.PooledDataset`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tgp.errors import DatasetError, InputError, UnknownNameError
from tgp.store.read.reader import StoreReader

__all__ = [
    "as_index",
    "chosen_fields",
    "chosen_hierarchy",
    "chosen_level_fields",
    "chosen_levels",
    "stored_level_fields",
]


def chosen_hierarchy(reader: StoreReader, name: str | None) -> str | None:
    """Return the name of the hierarchy to read; ``None`` if the store has none."""
    if name is not None:
        reader.hierarchy(name)
        return name
    if len(reader.hierarchies) > 1:
        raise DatasetError(
            f"the hierarchy is ambiguous: expected one of {', '.join(reader.hierarchies)}, got None",
            hint=f"PooledDataset(..., hierarchy={next(iter(reader.hierarchies))!r})",
        )
    return next(iter(reader.hierarchies), None)


def chosen_levels(levels: Sequence[int] | None, depth: int, hierarchy: str | None) -> tuple[int, ...]:
    """Return the levels to read, from 1; all if ``None``."""
    if levels is None:
        return tuple(range(1, depth + 1))
    chosen = tuple(int(level) for level in levels)
    if 0 in chosen:
        raise InputError(
            f"levels must start at 1, got {list(chosen)}: level 0 is the input graph, which is always loaded",
            field="levels",
        )
    for level in chosen:
        if not 1 <= level <= depth:
            raise InputError(
                f"hierarchy {hierarchy!r} has no such level: expected levels in [1, {depth}], got {level}",
                field="levels",
            )
    if sorted(set(chosen)) != list(chosen):
        raise InputError(f"levels must be ascending, got {list(chosen)}", field="levels")
    return chosen


def chosen_fields(fields: Collection[str] | None, reader: StoreReader) -> tuple[str, ...] | None:
    """Return the attributes of the graphs to read; ``None`` for all."""
    if fields is None:
        return None
    if isinstance(fields, str):
        raise InputError(f"fields must be a list of names, got the string {fields!r}", field="fields")
    return tuple(reader.field_info(name).name for name in fields)


def chosen_level_fields(
    names: Collection[str] | None, reader: StoreReader, hierarchy: str | None
) -> tuple[str, ...] | None:
    """Return the attributes of the levels to read; ``None`` for all."""
    if names is None:
        return None
    if isinstance(names, str):
        raise InputError(
            f"level_fields must be a list of names, got the string {names!r}", field="level_fields"
        )
    known = stored_level_fields(reader, hierarchy)
    for name in names:
        if name not in known:
            raise UnknownNameError("attribute of the levels", name, known)
    return tuple(names)


def stored_level_fields(reader: StoreReader, hierarchy: str | None) -> list[str]:
    """Return the names of the attributes of the levels in the store."""
    levels = () if hierarchy is None else reader.hierarchy(hierarchy).levels
    return sorted({field.name for level in levels for field in level.fields})


def as_index(idx: Any) -> npt.NDArray[Any]:
    """Return a mask or a list of positions as an array."""
    if isinstance(idx, Tensor):
        idx = idx.cpu().numpy()
    if isinstance(idx, str):
        raise IndexError(f"the index is invalid: expected numbers, a slice or a mask, got {idx!r}")
    index = np.asarray(idx).reshape(-1)
    if index.size == 0:
        return np.zeros(0, np.int64)
    if index.dtype.kind not in "biu":
        raise IndexError(f"the index is invalid: expected numbers, a slice or a mask, got {index.dtype}")
    return index
