"""Write one graph as GraphML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np
import numpy.typing as npt

from tgp.ragged import Level
from tgp.store import FieldInfo
from tgp.text import inert_text, unique_names

__all__ = ["Column", "field_columns", "graphml_text", "own_columns"]


class Column(NamedTuple):
    """Attribute of the nodes or of the edges of a GraphML file.

    Args:
        key: id of the attribute in the file.
        owner: ``node`` or ``edge``.
        name: name of the attribute.
        type: GraphML type of the values.
        values: value of each node or edge as text.
    """

    key: str
    owner: str
    name: str
    type: str
    values: list[str]


def own_columns(cluster: npt.NDArray[Any] | None, weight: npt.NDArray[Any] | None) -> list[Column]:
    """Return the ids of supernodes and the weights of edges, if there are any."""
    found = []
    if cluster is not None:
        found.append(Column("c", "node", "cluster", "long", [str(int(value)) for value in cluster]))
    if weight is not None:
        found.append(Column("w", "edge", "weight", "double", [repr(float(value)) for value in weight]))
    return found


def field_columns(level: Level, infos: Sequence[FieldInfo], graph: int) -> list[Column]:
    """Return the real and boolean attributes of a level for one graph. A column of several has the name ``pos_0``."""
    usable = [info for info in infos if info.form == "rows" and np.dtype(info.dtype).kind in "biuf"]
    widths = [int(np.prod(info.tail, dtype=np.int64)) for info in usable]
    suffixes = ("", *(f"_{column}" for column in range(max(widths, default=0))))
    names = unique_names(
        [info.name for info in usable], inert_text, reserved=("cluster", "weight"), suffixes=suffixes
    )
    found: list[Column] = []
    for info, width in zip(usable, widths, strict=True):
        is_edge = "edge" in info.ptrs and ("node" not in info.ptrs or "edge" in info.name)
        values = level.fields[info.name].item(graph)
        kind = values.dtype.kind
        for column, numbers in enumerate(values.reshape(len(values), width).T.tolist()):
            texts = [str(number).lower() if kind == "b" else repr(number) for number in numbers]
            found.append(
                Column(
                    f"a{len(found)}",
                    "edge" if is_edge else "node",
                    f"{names[info.name]}_{column}" if info.tail else names[info.name],
                    {"b": "boolean", "f": "double"}.get(kind, "long"),
                    texts,
                )
            )
    return found


def graphml_text(count: int, edges: npt.NDArray[Any], columns: list[Column]) -> str:
    """Return the content of a GraphML file.

    Args:
        count: number of nodes.
        edges: ``[2, E]`` edges.
        columns: attributes of nodes and edges.
    """
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
    ]
    for column in columns:
        name = quoteattr(column.name)
        lines.append(
            f'<key id="{column.key}" for="{column.owner}" attr.name={name} attr.type="{column.type}"/>'
        )
    lines.append('<graph edgedefault="directed">')
    of_nodes, of_edges = ([c for c in columns if c.owner == owner] for owner in ("node", "edge"))
    for node in range(count):
        data = "".join(f'<data key="{column.key}">{column.values[node]}</data>' for column in of_nodes)
        lines.append(f"<node id={quoteattr(f'n{node}')}>{data}</node>")
    for number, (a, b) in enumerate(edges.T.tolist()):
        data = "".join(f'<data key="{column.key}">{column.values[number]}</data>' for column in of_edges)
        lines.append(f'<edge source="n{a}" target="n{b}">{data}</edge>')
    return "\n".join([*lines, "</graph>", "</graphml>", ""])
