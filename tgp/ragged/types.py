"""Types of nodes and relations of heterogeneous graphs that are held as one graph of all nodes.

The table of such graphs has the fields ``edge_index``, ``node_type`` and ``edge_type``. An attribute of a type of nodes is the
field ``nodes/<type>/<name>``, an attribute of a relation the field ``edges/<source>/<relation>/<target>/<name>``. Both have own
offsets. Other fields belong to the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import numpy as np

from tgp.errors import InputError, UnknownNameError
from tgp.kernels.array_types import Array, BoolArray, LongArray
from tgp.ragged.offsets import find_run, offsets, run_ids

__all__ = [
    "EDGE_TYPE",
    "NODE_TYPE",
    "Relation",
    "TypeTable",
    "TypedEdges",
    "TypedField",
    "TypedNodes",
    "check_typed_rows",
    "first_merged_types",
    "is_typed_name",
    "parse_relations",
]

Relation = tuple[str, str, str]

NODE_TYPE, EDGE_TYPE = "node_type", "edge_type"
"""Fields with the number of the type of each node and of the relation of each edge."""

MAX_TYPES = 4096
MAX_TYPE_NAME = 128
"""Largest number of types or relations, and largest length of a name in its encoded form."""

ROW_KEYS = frozenset({"x", "feat", "pos", "n_id", "edge_attr", "edge_weight"})
"""Attributes that must have one row for each node or edge of their type. PyG takes the number of nodes from some of them."""

_NODES, _EDGES = "nodes", "edges"


class TypedField(NamedTuple):
    """Owner and name of an attribute.

    Args:
        owner: ``nodes`` or ``edges``.
        number: Number of the type or relation.
        name: Name of the attribute.
    """

    owner: Literal["nodes", "edges"]
    number: int
    name: str


@dataclass(frozen=True)
class TypeTable:
    """Names of the types of nodes and of the relations of heterogeneous graphs.

    Args:
        nodes: Types of nodes.
        relations: Relations: type of the sources, name, type of the targets.

    Examples:
        >>> types = TypeTable(("film", "actor"), (("film", "has", "actor"),))
        >>> types.edge_field(0, "edge_attr"), types.parse("nodes/actor/x")
        ('edges/film/has/actor/edge_attr', TypedField(owner='nodes', number=1, name='x'))
    """

    nodes: tuple[str, ...]
    relations: tuple[Relation, ...]

    def problem(self) -> str | None:
        """Return what is wrong with the names, or ``None``."""
        if not 0 < len(self.nodes) <= MAX_TYPES or len(self.relations) > MAX_TYPES:
            return (
                f"expected 1 to {MAX_TYPES} types of nodes and at most {MAX_TYPES} relations, got "
                f"{len(self.nodes)} and {len(self.relations)}"
            )
        for name in (*self.nodes, *(relation[1] for relation in self.relations)):
            if not 0 < len(_encode(name)) <= MAX_TYPE_NAME or not name.isprintable():
                return f"expected names of 1 to {MAX_TYPE_NAME} printable characters, got {name[:80]!a}"
        for relation in self.relations:
            for name in (relation[0], relation[2]):
                if name not in self.nodes:
                    return f"relation {'-'.join(relation)} has ends of type {name!r}, which does not exist"
        texts = ["-".join(relation) for relation in self.relations]
        if len(set(self.nodes)) != len(self.nodes) or len(set(texts)) != len(texts):
            return "expected types and relations of different names"
        return None

    @cached_property
    def ends(self) -> LongArray:
        """``[R, 2]`` numbers of the types of the sources and targets of each relation."""
        found = [
            [self.nodes.index(relation[0]), self.nodes.index(relation[2])] for relation in self.relations
        ]
        return np.array(found, np.int64).reshape(-1, 2)

    def node_field(self, number: int, name: str) -> str:
        """Return the field of an attribute of a type of nodes."""
        return f"{_NODES}/{_encode(self.nodes[number])}/{name}"

    def edge_field(self, number: int, name: str) -> str:
        """Return the field of an attribute of a relation."""
        return "/".join([_EDGES, *map(_encode, self.relations[number]), name])

    def field(self, field: TypedField) -> str:
        """Return the field of an attribute."""
        make = self.node_field if field.owner == _NODES else self.edge_field
        return make(field.number, field.name)

    @cached_property
    def _prefixes(self) -> dict[tuple[str, ...], int]:
        found: dict[tuple[str, ...], int] = {}
        for number, name in enumerate(self.nodes):
            found[_NODES, _encode(name)] = number
        for number, names in enumerate(self.relations):
            key = (_EDGES, *map(_encode, names))
            found[key] = number
        return found

    def parse(self, field: str) -> TypedField | None:
        """Return the owner and the name of an attribute; ``None`` if a field belongs to the graph.

        Raises:
            InputError: If the field names a type or relation that does not exist.
        """
        owner = field.partition("/")[0]
        depth = {_NODES: 2, _EDGES: 4}.get(owner)
        if depth is None or "/" not in field:
            return None
        parts = field.split("/", depth)
        number = self._prefixes.get(tuple(parts[:depth])) if len(parts) > depth else None
        if number is None or not parts[depth]:
            raise InputError(f"{field!r} is not an attribute of a type or relation", field=field)
        return TypedField("nodes" if owner == _NODES else "edges", number, parts[depth])

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a manifest."""
        return {"nodes": list(self.nodes), "relations": [list(relation) for relation in self.relations]}


def is_typed_name(field: str) -> bool:
    """Return True if a field has the name of an attribute of a type of nodes or of a relation.

    Examples:
        >>> is_typed_name("nodes/film/x"), is_typed_name("edges/x"), is_typed_name("x")
        (True, False, False)
    """
    depth = {_NODES: 2, _EDGES: 4}.get(field.partition("/")[0])
    return depth is not None and field.count("/") >= depth


def _encode(name: str) -> str:
    return quote(name, safe=" ")


def parse_relations(
    relations: Iterable[str | Relation] | str | None, known: Sequence[Relation]
) -> tuple[Relation, ...]:
    """Return relations of a heterogeneous graph.

    Args:
        relations: Relations as triples, as text ``"author-writes-paper"``, or by their middle name if only one has it. A text may
            hold several, separated by commas. ``None`` stands for all.
        known: Relations of the graph.

    Raises:
        UnknownNameError: If the graph has no such relation.
        InputError: If several relations have the name.
    """
    if relations is None:
        return tuple(known)
    items = [item.strip() for item in relations.split(",")] if isinstance(relations, str) else list(relations)
    return tuple(dict.fromkeys(_find_relation(item, known) for item in items))


def _find_relation(item: str | Relation, known: Sequence[Relation]) -> Relation:
    names = {"-".join(relation): relation for relation in known}
    text = item if isinstance(item, str) else "-".join(item)
    found = [names[text]] if text in names else [relation for relation in known if relation[1] == text]
    if not found:
        raise UnknownNameError("relation", text, names)
    if len(found) > 1:
        raise InputError(
            f"several relations are called {text!r}: expected one of {', '.join(map('-'.join, found))}",
            field="relations",
        )
    return found[0]


class TypedNodes:
    """Nodes of some graphs, divided by type.

    Args:
        node_type: ``[N]`` type of each node.
        node_ptr: ``[B + 1]`` offsets of the nodes.
        count: Number of types.

    Raises:
        InputError: If a type does not exist.
    """

    def __init__(self, node_type: Array, node_ptr: Array, count: int) -> None:
        self.node_type: LongArray = node_type.astype(np.int64, copy=False)
        self.node_ptr: LongArray = node_ptr.astype(np.int64, copy=False)
        self.count = count
        _check_numbers(self.node_type, self.node_ptr, count, NODE_TYPE)

    @cached_property
    def local(self) -> LongArray:
        """``[N]`` position of each node among the nodes of its type, through all graphs."""
        found = np.empty(len(self.node_type), np.int64)
        for number in range(self.count):
            mask = self.node_type == number
            found[mask] = np.arange(int(np.count_nonzero(mask)))
        return found

    @cached_property
    def ptrs(self) -> list[LongArray]:
        """``[B + 1]`` offsets of the nodes of each type."""
        return _type_offsets(self.node_type, self.node_ptr, self.count)

    def mask(self, number: int) -> BoolArray:
        """Return True for the nodes of a type."""
        found: BoolArray = self.node_type == number
        return found


class TypedEdges:
    """Edges of some graphs, divided by relation.

    Args:
        edge_index: ``[2, E]`` ends of each edge. Ids count through all graphs.
        edge_type: ``[E]`` relation of each edge.
        edge_ptr: ``[B + 1]`` offsets of the edges.
        nodes: Nodes of the graphs.
        types: Names of the types and relations.

    Raises:
        InputError: If a relation does not exist, or if an end of an edge has another type than its relation says.
    """

    def __init__(
        self,
        edge_index: Array,
        edge_type: Array,
        edge_ptr: Array,
        nodes: TypedNodes,
        types: TypeTable,
    ) -> None:
        self.edge_index: LongArray = edge_index.astype(np.int64, copy=False)
        self.edge_type: LongArray = edge_type.astype(np.int64, copy=False)
        self.edge_ptr: LongArray = edge_ptr.astype(np.int64, copy=False)
        self.nodes = nodes
        self.count = len(types.relations)
        _check_numbers(self.edge_type, self.edge_ptr, self.count, EDGE_TYPE)
        if len(self.edge_type):
            wrong = nodes.node_type[self.edge_index] != types.ends[self.edge_type].T
            if wrong.any():
                edge = int(np.argmax(wrong.any(axis=0)))
                graph = find_run(self.edge_ptr, edge)
                raise InputError(
                    f"{EDGE_TYPE} of graph {graph} does not fit: an end of an edge of relation "
                    f"{'-'.join(types.relations[int(self.edge_type[edge])])} has another type",
                    field=EDGE_TYPE,
                )

    @cached_property
    def ptrs(self) -> list[LongArray]:
        """``[B + 1]`` offsets of the edges of each relation."""
        return _type_offsets(self.edge_type, self.edge_ptr, self.count)

    def of(self, number: int) -> LongArray:
        """Return the edges of a relation. Ids count through all graphs and types."""
        return self.edge_index[:, self.edge_type == number]

    def local(self, number: int) -> LongArray:
        """Return the edges of a relation. Ids count the nodes of the type of each end, through all graphs."""
        return self.nodes.local[self.of(number)]


def _check_numbers(numbers: LongArray, ptr: LongArray, count: int, name: str) -> None:
    if len(numbers) != int(ptr[-1]):
        raise InputError(f"{name} must hold {int(ptr[-1])} numbers, got {len(numbers)}", field=name)
    wrong = (numbers < 0) | (numbers >= count)
    if wrong.any():
        row = int(np.argmax(wrong))
        graph = find_run(ptr, row)
        raise InputError(
            f"{name} of graph {graph} is out of range: expected numbers in [0, {count}), got {int(numbers[row])}",
            field=name,
        )


def _type_offsets(numbers: LongArray, ptr: LongArray, count: int) -> list[LongArray]:
    graphs = len(ptr) - 1
    graph = run_ids(ptr)
    table = np.bincount(graph * count + numbers, minlength=graphs * count).reshape(graphs, count)
    return [offsets(table[:, number]) for number in range(count)]


def first_merged_types(before: Array, after: Array, cluster: Array) -> int | None:
    """Return the first node whose supernode has another type, or ``None``.

    Args:
        before: ``[N]`` type of each node.
        after: ``[K]`` type of each supernode.
        cluster: ``[N]`` supernode of each node, -1 if it was dropped. Ids count through all graphs.
    """
    kept = cluster >= 0
    wrong = np.zeros(len(cluster), bool)
    wrong[kept] = after[cluster[kept]] != before[kept]
    return int(np.argmax(wrong)) if wrong.any() else None


def check_typed_rows(
    fields: Mapping[str, Any],
    types: TypeTable,
    nodes: TypedNodes,
    edges: TypedEdges,
    *,
    of_level: bool = False,
) -> None:
    """Check that attributes of types and relations have one row for each of their nodes and edges.

    Args:
        fields: Fields of the graphs or of a level (:class:`~tgp.ragged.Field`) by name.
        types: Names of the types and relations.
        nodes: Nodes of the graphs or of the level.
        edges: Their edges.
        of_level: True to check all attributes, False for those of :data:`ROW_KEYS` and ``num_nodes``.

    Raises:
        InputError: If an attribute has another number of rows.
    """
    for name, entry in fields.items():
        owner = types.parse(name)
        if owner is None:
            continue
        expected = (nodes if owner.owner == _NODES else edges).ptrs[owner.number]
        if owner.name == "num_nodes" and entry.form == "int":
            if not np.array_equal(entry.values, np.diff(expected)):
                raise InputError(f"{name} is not the number of nodes of its type", field=name)
        elif (of_level or (owner.name in ROW_KEYS and entry.form == "rows")) and not (
            len(entry.ptr) == len(expected) and np.array_equal(entry.ptr, expected)
        ):
            raise InputError(
                f"{name} has the wrong length: expected one row for each of {expected[-1]} nodes or edges of its type, "
                f"got {entry.ptr[-1]}",
                field=name,
            )
