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
    "GRAPH_KEYS",
    "LARGE_HINT",
    "ReadOnlyError",
    "as_index",
    "chosen_fields",
    "chosen_hierarchy",
    "chosen_level_fields",
    "chosen_levels",
    "complete_graphs",
    "stored_level_fields",
]

GRAPH_KEYS = frozenset({"x", "y", "pos", "edge_index", "edge_attr", "edge_weight", "pooled_data"})
"""Usual names of attributes of graphs."""

LARGE_HINT = (
    "LevelStore(dataset, level).neighbor_loader(...) reads only the rows of a batch, dataset.as_hierarchy() reads a level when it is "
    "used (of a store that is divided with --shard-edges), and PooledDataset(..., fields=[...], levels=[...]) reads less"
)
"""Advice for graphs that do not fit in memory."""


class ReadOnlyError(InputError, AttributeError):
    """An attribute of the graphs was set on the dataset. Also an ``AttributeError``, which Python raises in such cases."""


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
    if isinstance(levels, (int, str)):
        raise InputError(f"levels must be a list of numbers, such as [1, 2], got {levels!r}", field="levels")
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


def complete_graphs(reader: StoreReader, hierarchy: str | None, failed: str) -> npt.NDArray[np.int64] | None:
    """Return the ids of the graphs that have all levels, or ``None`` if all graphs have.

    Args:
        reader: Reader of the store.
        hierarchy: Hierarchy that is read; ``None`` if no levels are.
        failed: ``"error"`` or ``"skip"``.
    """
    if failed not in ("error", "skip"):
        raise InputError(f"failed must be 'error' or 'skip', got {failed!r}", field="failed")
    if not hierarchy or not reader.hierarchy(hierarchy).failures:
        return None
    records = reader.failures(hierarchy)
    bad = np.unique([record.graph for record in records])
    if failed == "error":
        raise DatasetError(
            f"{len(bad)} of {reader.num_graphs} graphs could not be coarsened; the first is graph {bad[0]}: "
            f"{records[0].reason}",
            hint="pass failed='skip' to leave them out, or see `tgp status` for the reasons",
        )
    return np.setdiff1d(np.arange(reader.num_graphs), bad)
