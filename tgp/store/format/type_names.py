"""Types of nodes and relations in a manifest: parse them, and check that the fields of graphs and levels fit to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tgp.errors import InputError
from tgp.ragged.types import EDGE_TYPE, NODE_TYPE, Relation, TypeTable
from tgp.store.format import constants as fmt
from tgp.store.format.schema import FieldInfo, HierarchyInfo, LevelInfo
from tgp.store.format.strict_json import Document

if TYPE_CHECKING:
    from tgp.store.format.fingerprint import HierarchySpec

__all__ = ["check_type_names", "check_typed_fields", "parse_relation_names", "parse_types"]

_RESERVED = frozenset({"edge_index", "so", "ptr", "pooled_data"})
"""Attributes of types that do not come from fields."""


def parse_relation_names(document: Document, key: str) -> tuple[Relation, ...]:
    """Parse a list of relations, each of which is a list of three names."""
    value = document.values.get(key)
    if not isinstance(value, list) or not all(
        isinstance(names, list) and len(names) == 3 and all(isinstance(name, str) for name in names)
        for names in value
    ):
        raise document.fail(key, "a list of relations, each of them a list of three names")
    return tuple((names[0], names[1], names[2]) for names in value)


def parse_types(document: Document) -> TypeTable | None:
    """Parse the types and relations of a specification or manifest; ``None`` if the graphs have one type of nodes."""
    if "types" not in document.values:
        return None
    entry = Document(document.mapping("types"), f"{document.name}: types")
    return TypeTable(entry.texts("nodes"), parse_relation_names(entry, "relations"))


def check_type_names(types: TypeTable | None, hierarchies: Iterable[HierarchySpec]) -> None:
    """Check the names of types, and that hierarchies name relations of these types.

    Args:
        types: Types and relations, or ``None``.
        hierarchies: Hierarchies of a specification.

    Raises:
        InputError: If a name is not valid.
    """
    problem = None if types is None else types.problem()
    if problem is not None:
        raise InputError(f"the types of nodes and relations are not valid: {problem}", field="types")
    for hierarchy in hierarchies:
        given = hierarchy.relations is not None, hierarchy.type_graph is not None
        if given != (types is not None, types is not None):
            raise InputError(
                f"hierarchy {hierarchy.name!r}: relations and type_graph belong to heterogeneous graphs, and only to them",
                field="relations",
            )
        for relation in hierarchy.relations or ():
            if types is not None and relation not in types.relations:
                raise InputError(
                    f"hierarchy {hierarchy.name!r}: there is no relation {'-'.join(relation)}",
                    field="relations",
                )


def check_typed_fields(
    document: Document,
    types: TypeTable | None,
    fields: Iterable[FieldInfo],
    hierarchies: Mapping[str, HierarchyInfo],
) -> None:
    """Check that the fields of graphs and levels fit to the types of the nodes.

    Args:
        document: Manifest.
        types: Types and relations, or ``None``.
        fields: Fields of the graphs.
        hierarchies: Hierarchies with their levels.

    Raises:
        StoreDamagedError: If a field is missing or wrong.
    """
    problem = None if types is None else _graph_problem(types, list(fields))
    if problem is not None:
        raise document.fail("fields", problem)
    for name, info in hierarchies.items():
        for level in info.levels:
            problem = _plain_problem(level) if types is None else _level_problem(types, level)
            if problem is not None:
                raise document.fail("hierarchies", f"a list in which {name!r} has {problem}")


def _plain_problem(level: LevelInfo) -> str | None:
    """Return what a level of graphs with one type of nodes must have, or ``None``."""
    for info in level.fields:
        own_offsets = info.form == "rows" and "own" in info.ptrs
        if not fmt.is_level_field(info.name) or (own_offsets and info.name != fmt.EDGE_MAP):
            return "fields of supernodes or edges"
    return None


def _graph_problem(types: TypeTable, fields: list[FieldInfo]) -> str | None:
    names = {info.name: info for info in fields}
    if "edge_index" not in names:
        return "a list with edge_index"
    for name, ptr in ((NODE_TYPE, "node"), (EDGE_TYPE, "edge")):
        if not _is_number_field(names.get(name), ptr):
            return f"a list with integers {name!r}, one for each {ptr}"
    for info in fields:
        try:
            typed = types.parse(info.name)
        except InputError:
            return f"a list of attributes of existing types, not {info.name!r}"
        if typed is None:
            if info.name in types.nodes or info.name.endswith("_dict"):
                return f"a list without an attribute of the graph that is called {info.name!r}"
            continue
        if not _is_attribute(typed.name) or info.shifted or info.axis != 0:
            return f"a list of attributes of types that are no ids, not {info.name!r}"
    return None


def _level_problem(types: TypeTable, level: LevelInfo) -> str | None:
    if level.kind != "hard" or level.arrays != ("cluster",):
        return "levels with the assignment 'cluster' and no other optional array"
    names = {info.name: info for info in level.fields}
    for name, ptr in ((NODE_TYPE, "node"), (EDGE_TYPE, "edge")):
        if not _is_number_field(names.pop(name, None), ptr):
            return f"levels with integers {name!r}, one for each {ptr}"
    for name, info in names.items():
        try:
            typed = types.parse(name)
        except InputError:
            typed = None
        if typed is None or not _is_attribute(typed.name) or info.form != "rows" or info.ptrs != ("own",):
            return f"levels with attributes of existing types, not {name!r}"
    return None


def _is_number_field(info: FieldInfo | None, ptr: str) -> bool:
    return (
        info is not None
        and ptr in info.ptrs
        and not info.tail
        and info.form == "rows"
        and not info.shifted
        and np.dtype(info.dtype).kind in "iu"
    )


def _is_attribute(name: str) -> bool:
    """Return True if a type may have an attribute of this name. PyG would count the values of others through a batch."""
    return name not in _RESERVED and not ("index" in name or "batch" in name)
