"""Facts about the attributes of input graphs on which the choice of their reductions depends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from tgp.kernels.array_types import LongArray
from tgp.ragged import Field, GraphTable

__all__ = ["Attribute", "Owner", "ValueKind", "describe_attributes", "split_texts", "value_kind"]

Owner = Literal["node", "edge", "graph"]
ValueKind = Literal["bool", "int", "float", "text", "other"]


@dataclass(frozen=True)
class Attribute:
    """Facts about an attribute of the input graphs on which its reduction depends.

    Args:
        owner: Element that has one row each: ``node``, ``edge``, or ``graph`` for everything else.
        kind: Kind of the values.
        ids: True if the values are ids, which are not carried.
        ambiguous: True if every graph has one node and one row, so that the attribute could belong to the graph.
        ndim: Number of axes.
        rows: Reason in words why the attribute belongs to the graph.
    """

    owner: Owner
    kind: ValueKind
    ids: bool = False
    ambiguous: bool = False
    ndim: int = 1
    rows: str = ""


def value_kind(dtype: npt.DTypeLike) -> ValueKind:
    """Return the kind of values of a NumPy type.

    Args:
        dtype: Type of the values.

    Examples:
        >>> value_kind(np.int16), value_kind(np.float32)
        ('int', 'float')
    """
    kinds: dict[str, ValueKind] = {"b": "bool", "i": "int", "u": "int", "f": "float"}
    return kinds.get(np.dtype(dtype).kind, "other")


def describe_attributes(table: GraphTable, texts: Iterable[str] = ()) -> dict[str, Attribute]:
    """Return the facts about all attributes on which the choice of reductions depends.

    Args:
        table: Input graphs.
        texts: Attributes that may have one text per node or edge. Others that are no tensors belong to the graph.
    """
    edges = table.fields.get("edge_index")
    counts: dict[Owner, LongArray] = {"node": np.diff(table.node_ptr)}
    if edges is not None:
        counts["edge"] = np.diff(edges.ptr)
    chosen = set(texts)
    return {name: _describe(field, counts, name in chosen) for name, field in table.fields.items()}


def _describe(field: Field, counts: dict[Owner, LongArray], is_text: bool) -> Attribute:
    name = field.name
    kind: ValueKind = "text"
    if field.form == "json" and is_text:
        found = split_texts(field)
        if found is None:
            return Attribute("graph", "text", rows="a value that is not a list of texts")
        rows = np.array([len(items) for items in found], np.int64)
    elif field.form != "rows" or field.axis != 0:
        return Attribute("graph", "other", ids=field.shifted)
    else:
        rows, kind = np.diff(field.ptr), value_kind(field.values.dtype)
    fits = [owner for owner, number in counts.items() if np.array_equal(number, rows)]
    if not fits:
        first = {owner: int((number != rows).argmax()) for owner, number in counts.items()}
        graph = max(first.values())
        wanted = " and ".join(f"{number[graph]} {owner}s" for owner, number in counts.items())
        per_graph = "" if (rows == 1).all() else f"{rows[graph]} rows for {wanted} in graph {graph}"
        return Attribute("graph", kind, rows=per_graph)
    owner = fits[0] if len(fits) == 1 or "edge" not in name else "edge"
    return Attribute(
        owner,
        kind,
        ids=field.shifted or "batch" in name,
        ambiguous=owner == "node" and bool((rows == 1).all()),
        ndim=field.values.ndim,
    )


def split_texts(field: Field) -> list[list[str]] | None:
    """Return the texts of each graph of a field of JSON texts, or ``None`` if a value is not a list of texts.

    Args:
        field: Field of the form ``json``.
    """
    raw = field.values.tobytes()
    values = [json.loads(raw[low:high]) for low, high in pairwise(field.ptr.tolist())]
    if all(isinstance(items, list) and all(isinstance(text, str) for text in items) for items in values):
        return values
    return None
