"""Read graphs from GraphML files."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from tgp.errors import DatasetError
from tgp.input_limits import READ_ERRORS, describe, input_budget
from tgp.kernels.array_types import Array
from tgp.ragged import GraphTable
from tgp.sources.tables import table_from_arrays

__all__ = ["read_graphml"]

MAX_DEPTH = 64
"""Largest number of nested elements. A graph inside a node adds two."""

_CHUNK = 1 << 16
_TYPES: dict[str, type[np.generic]] = {
    "int": np.int64,
    "long": np.int64,
    "float": np.float32,
    "double": np.float32,
    "boolean": np.bool_,
}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_RESERVED = ("", "edge_index", "edge_weight", "num_nodes")

Keys = dict[str, tuple[str | None, str, str]]
"""Id of each key -> kind of element, name and type of the attribute."""


def read_graphml(path: Path) -> GraphTable:
    """Read the first graph of a GraphML file.

    Nodes are numbered in the order of the file. An undirected edge is added in both directions. The edge attribute
    ``weight`` becomes ``edge_weight``. A numeric attribute that every node has becomes an array of the same name.

    Args:
        path: The file.

    Raises:
        DatasetError: If the file is not GraphML, declares entities, nests too deep, or has values that do not fit.
    """
    root = _parse(path)
    graph = root.find("graph")
    if root.tag != "graphml" or graph is None:
        raise DatasetError(f"{path} is not GraphML: it has no <graph>")
    keys = {
        k.get("id", ""): (k.get("for"), k.get("attr.name", ""), k.get("attr.type", ""))
        for k in root.iter("key")
    }
    nodes = list(graph.iter("node"))
    ids = {node.get("id"): number for number, node in enumerate(nodes)}
    if None in ids or len(ids) != len(nodes):
        raise DatasetError(
            f"{path}: expected nodes with different ids, got {len(nodes)} nodes, {len(ids)} ids"
        )
    arrays = {"num_nodes": np.array([len(ids)]), **_node_columns(path, nodes, keys)}
    arrays |= _edge_arrays(path, graph, ids, keys)
    return table_from_arrays(arrays, str(path))


class _TreeReader:
    """Build the elements of a file without its namespaces, and refuse entities and deep nesting."""

    def __init__(self, path: Path) -> None:
        self._path, self._builder, self._depth = path, ET.TreeBuilder(), 0
        parser = expat.ParserCreate(namespace_separator="}")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._builder.data
        parser.EntityDeclHandler = self._refuse_entity
        parser.buffer_text = True
        self.parser = parser

    def close(self) -> ET.Element:
        self.parser.Parse(b"", True)
        return self._builder.close()

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise DatasetError(
                f"{self._path} is not GraphML: expected at most {MAX_DEPTH} nested elements, got more"
            )
        self._builder.start(tag.rpartition("}")[2], attributes)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._builder.end(tag.rpartition("}")[2])

    def _refuse_entity(self, name: str, *_: Any) -> None:
        raise DatasetError(
            f"{self._path} declares the entity {name[:80]!r}: expected GraphML without entities"
        )


def _parse(path: Path) -> ET.Element:
    reader = _TreeReader(path)
    with input_budget() as budget, budget.open(path) as file:
        try:
            while data := file.read(_CHUNK):
                reader.parser.Parse(data, False)
            return reader.close()
        except (*READ_ERRORS, expat.ExpatError) as error:
            if isinstance(error, DatasetError):
                raise
            raise DatasetError(f"{path} is not GraphML: {describe(error)}") from error


def _edge_arrays(path: Path, graph: ET.Element, ids: dict[str | None, int], keys: Keys) -> dict[str, Array]:
    pairs: list[tuple[int, int]] = []
    weights: list[float] = []
    weight_key = next((k for k, (_, name, kind) in keys.items() if name == "weight" and kind in _TYPES), None)
    default = str(graph.get("edgedefault") == "directed").lower()
    for edge in graph.iter("edge"):
        try:
            u, v = ids[edge.get("source")], ids[edge.get("target")]
        except KeyError as error:
            name = str(error)[:80]
            raise DatasetError(f"{path}: an edge refers to node {name}, which does not exist") from None
        text = next((d.text for d in edge.iter("data") if d.get("key") == weight_key), None)
        value = 1.0 if text is None else float(_parse_value(path, "weight", "double", text))
        for ends in ((u, v),) if edge.get("directed", default) == "true" or u == v else ((u, v), (v, u)):
            pairs.append(ends)
            weights.append(value)
    arrays: dict[str, Array] = {"edge_index": np.array(pairs, np.int64).reshape(-1, 2).T}
    if weight_key is not None and pairs:
        arrays["edge_weight"] = np.array(weights, np.float32)
    return arrays


def _node_columns(path: Path, nodes: list[ET.Element], keys: Keys) -> dict[str, Array]:
    texts = [{d.get("key"): d.text for d in node.iter("data")} for node in nodes]
    columns: dict[str, Array] = {}
    for key, (target, name, kind) in keys.items():
        if target in ("node", "all") and kind in _TYPES and texts and all(t.get(key) for t in texts):
            if name in _RESERVED or name.endswith("_ptr") or name in columns:
                raise DatasetError(
                    f"{path}: a node attribute must have a name of its own, got {name[:80]!r}",
                    hint="rename the attribute in the file",
                )
            values = [_parse_value(path, name, kind, t[key] or "") for t in texts]
            columns[name] = np.array(values, _TYPES[kind])
    return columns


def _parse_value(path: Path, name: str, kind: str, text: str) -> float | int | bool:
    """Convert the text of an attribute. Numbers must fit their type."""
    word = text.strip()
    try:
        if kind == "boolean":
            return _BOOLEANS[word.lower()]
        if kind in ("int", "long"):
            number = int(word) if word.lstrip("+-").isdecimal() else float(word)
            if not abs(number) <= np.iinfo(np.int64).max or number != int(number):
                raise ValueError
            return int(number)
        value = float(word)
        if abs(value) > np.finfo(np.float32).max and value not in (float("inf"), float("-inf")):
            raise ValueError
    except (ValueError, KeyError):
        raise DatasetError(f"{path}: expected {name[:80]!r} of type {kind}, got {word[:80]!r}") from None
    return value
