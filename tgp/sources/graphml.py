"""GraphML files as arrays: structure, weights and numeric attributes of nodes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np

from tgp.errors import DatasetError
from tgp.ragged import GraphTable
from tgp.sources.arrays import table_from_arrays

__all__ = ["read_graphml"]

_NUMBERS = {"int": np.int64, "long": np.int64, "float": np.float32, "double": np.float32, "boolean": np.bool_}


def read_graphml(path: Path) -> GraphTable:
    """Read the first graph of a file.

    Nodes are numbered in the order of the file. An undirected edge counts both ways. The edge attribute
    ``weight`` becomes ``edge_weight``; numeric attributes that every node has become columns of that name.
    """
    try:
        root = ET.parse(path).getroot()
    except (ET.ParseError, OSError) as error:
        raise DatasetError(f"{path} is not GraphML: {error}") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    graph = root.find("graph")
    if root.tag != "graphml" or graph is None:
        raise DatasetError(f"{path} is not GraphML: it has no <graph>")
    keys = {
        k.get("id", ""): (k.get("for"), k.get("attr.name", ""), k.get("attr.type", ""))
        for k in root.iter("key")
    }
    ids = {node.get("id"): number for number, node in enumerate(graph.iter("node"))}
    arrays: dict[str, Any] = {"num_nodes": np.array([len(ids)]), **_node_columns(graph, keys)}
    pairs, weights = [], []
    weight_key = next(
        (k for k, (_, name, kind) in keys.items() if name == "weight" and kind in _NUMBERS), None
    )
    for edge in graph.iter("edge"):
        try:
            pair = (ids[edge.get("source")], ids[edge.get("target")])
        except KeyError as error:
            raise DatasetError(f"{path}: an edge names the node {error}, which is not there") from None
        value = next((d.text for d in edge.iter("data") if d.get("key") == weight_key), None)
        directed = edge.get("directed", str(graph.get("edgedefault") == "directed").lower()) == "true"
        for ends in (pair,) if directed or pair[0] == pair[1] else (pair, pair[::-1]):
            pairs.append(ends)
            weights.append(1.0 if value is None else float(value))
    arrays["edge_index"] = np.array(pairs, np.int64).reshape(-1, 2).T
    if weight_key is not None and pairs:
        arrays["edge_weight"] = np.array(weights, np.float32)
    return table_from_arrays(arrays, str(path))


def _node_columns(graph: ET.Element, keys: dict[str, tuple[str | None, str, str]]) -> dict[str, Any]:
    nodes = [{d.get("key"): d.text for d in node.iter("data")} for node in graph.iter("node")]
    columns = {}
    for key, (target, name, kind) in keys.items():
        if target in ("node", "all") and kind in _NUMBERS and nodes and all(n.get(key) for n in nodes):
            texts = [n[key] for n in nodes]
            values = [t == "true" for t in texts] if kind == "boolean" else [float(t) for t in texts if t]
            columns[name] = np.array(values).astype(_NUMBERS[kind])
    return columns
