"""Describe the fields that are written: type, shape, and the offsets that cut them into graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tgp.errors import InputError
from tgp.ragged import Field, GraphTable, Level
from tgp.ragged.types import EDGE_TYPE, NODE_TYPE, is_typed_name
from tgp.store.format.schema import FieldInfo, PtrKind
from tgp.store.write.limits import check_field

__all__ = ["graph_field_info", "level_field_info"]


def graph_field_info(table: GraphTable, entry: Field) -> FieldInfo:
    """Return the schema of a field of the input graphs.

    Args:
        table: Graphs of a unit.
        entry: One of its fields.

    Raises:
        InputError: If it cannot be stored.
    """
    edges = table.fields.get("edge_index")
    fits: dict[str, bool] = {
        "node": np.array_equal(entry.ptr, table.node_ptr),
        "edge": edges is not None and (entry is edges or np.array_equal(entry.ptr, edges.ptr)),
        "graph": np.array_equal(entry.ptr, np.arange(len(table.node_ptr))),
        "own": True,
    }
    info = _field_info(entry, fits)
    check_field(info)
    return info


def level_field_info(level: Level, name: str, number: int, *, typed: bool = False) -> FieldInfo:
    """Return the schema of a field of a level.

    Args:
        level: Level of a unit.
        name: Name of one of its fields.
        number: Position of the level, from 0.
        typed: True for heterogeneous graphs. Attributes of types and relations have own offsets.

    Raises:
        InputError: If it does not belong to the supernodes or to the edges, or cannot be stored.
    """
    entry = level.fields[name]
    has_own = entry.form == "json" or entry.shifted or (typed and is_typed_name(name))
    fits = {
        "node": not has_own and np.array_equal(entry.ptr, level.super_ptr),
        "edge": not has_own and np.array_equal(entry.ptr, level.block.edge_ptr),
        "own": has_own and len(entry.ptr) == len(level.super_ptr),
    }
    if typed and name in (NODE_TYPE, EDGE_TYPE):  # every graph can have as many edges as supernodes
        fits["edge" if name == NODE_TYPE else "node"] = False
    if not any(fits.values()) or entry.values.shape[:1] != (entry.ptr[-1],):
        raise InputError(
            f"level {number + 1}: {name} must have one row for each supernode or for each edge, got "
            f"{len(entry.values)} rows",
            field=name,
        )
    info = _field_info(replace(entry, name=name), fits)
    check_field(info, of_level=True)
    return info


def _field_info(entry: Field, fits: Mapping[str, bool]) -> FieldInfo:
    """Return the schema of a field. ``fits`` tells which kinds of offsets cut it correctly."""
    values = entry.values
    if values.ndim == 0 or entry.axis not in (0, -1):
        raise InputError(
            f"{entry.name}: expected an array with the graphs along axis 0 or -1, got shape {values.shape} and "
            f"axis {entry.axis}",
            field=entry.name,
        )
    tail = values.shape[1:] if entry.axis == 0 else values.shape[:-1]
    ptrs = tuple(p for p in _preferred_ptrs(entry) if fits.get(p))
    dtype = values.dtype.newbyteorder("=").name
    return FieldInfo(entry.name, dtype, tuple(tail), entry.axis, entry.form, entry.shifted, ptrs)


def _preferred_ptrs(entry: Field) -> tuple[PtrKind, ...]:
    """Return the kinds of offsets in the order of preference if several of them fit a field."""
    if "edge" in entry.name:
        return ("edge", "node", "graph", "own")
    if entry.form != "rows":
        return ("graph", "node", "edge", "own")
    return ("node", "edge", "graph", "own")
