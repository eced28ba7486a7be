"""Train, validation and test parts of a published dataset: one table, with a field that says which is which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError
from tgp.ragged import Field, GraphTable

__all__ = ["SPLITS", "join_splits", "mark_graphs", "mark_nodes"]

SPLITS = ("train", "val", "test")
"""The values 0, 1, 2 of the field ``split``; a graph in none of them has -1."""


def join_splits(parts: Sequence[GraphTable]) -> GraphTable:
    """The graphs of the parts one after another, and a field ``split`` with the number of their part."""
    names = [name for name in parts[0].fields if name != "split"]
    for part in parts[1:]:
        missing = set(names) ^ (set(part.fields) - {"split"})
        if missing:
            raise DatasetError(f"the splits have different attributes: {', '.join(sorted(missing))}")
    counts = [part.num_graphs for part in parts]
    table = GraphTable(
        _joined([part.node_ptr for part in parts]),
        {name: _joined_field([part.fields[name] for part in parts]) for name in names},
    )
    return mark_graphs(table, np.repeat(np.arange(len(parts)), counts))


def mark_graphs(table: GraphTable, split: npt.NDArray[Any]) -> GraphTable:
    """Add the field ``split``, one number per graph."""
    field = Field("split", split.astype(np.int64), np.arange(table.num_graphs + 1))
    return GraphTable(table.node_ptr, {**table.fields, "split": field})


def mark_nodes(table: GraphTable, ids: Mapping[str, npt.NDArray[Any]]) -> GraphTable:
    """Add ``train_mask``, ``val_mask`` and ``test_mask`` to the one graph of a table."""
    fields = dict(table.fields)
    for name, nodes in ids.items():
        mask = np.zeros(table.num_nodes, bool)
        mask[nodes] = True
        fields[f"{name}_mask"] = Field(f"{name}_mask", mask, table.node_ptr)
    return GraphTable(table.node_ptr, fields)


def _joined(ptrs: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    counts = np.concatenate([np.diff(ptr) for ptr in ptrs])
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _joined_field(pieces: Sequence[Field]) -> Field:
    first = pieces[0]
    shapes = {
        (p.axis, p.form, p.values.ndim, p.values.shape[1:] if p.axis == 0 else p.values.shape[:-1])
        for p in pieces
    }
    if len(shapes) > 1:
        raise DatasetError(f"the splits have {first.name!r} of different shapes")
    values = np.concatenate([piece.values for piece in pieces], axis=first.axis)
    return Field(first.name, values, _joined([p.ptr for p in pieces]), first.axis, first.form, first.shifted)
