"""Coarsen a table of heterogeneous graphs, see :mod:`tgp.ragged.types`, into levels of the same form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tgp.engine.carry import MAP, CarryRules, CarryStep, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.engine.coarsening import GraphFailure
from tgp.engine.schedule import Schedule
from tgp.engine.type_graph import TypeGraph
from tgp.engine.typed_levels import (
    TypedStep,
    join_relations,
    relation_hierarchy,
    restrict_type,
    run_types,
    sort_edges,
    union_hierarchy,
)
from tgp.errors import GraphError, InputError, UnknownNameError
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged import BlockCSR, Field, GraphTable, Hierarchy, Level
from tgp.ragged.node_attributes import NodeAttributes, RowArray, check_node_values
from tgp.ragged.types import EDGE_TYPE, NODE_TYPE, Relation, TypedEdges, TypedField, TypedNodes, TypeTable

__all__ = ["TypedResult", "coarsen_table", "join_values", "resolve_types", "typed_attributes", "typed_inputs"]


class TypedResult(NamedTuple):
    """Levels of a table of heterogeneous graphs.

    Args:
        hierarchy: Levels of all nodes, with fields for types and relations.
        failures: Graphs that could not be coarsened.
        block: Edges of all relations of the input graphs, for quality figures.
        union: Levels with the contraction of these edges.
    """

    hierarchy: Hierarchy
    failures: list[GraphFailure]
    block: BlockCSR
    union: Hierarchy


class _Graphs:
    """Nodes and edges of a table, divided by type and relation.

    Args:
        table: Graphs.
        types: Names of the types and relations.
    """

    def __init__(self, table: GraphTable, types: TypeTable) -> None:
        self.table, self.types = table, types
        index, self.edge_ptr = table.fields["edge_index"].values, table.fields["edge_index"].ptr
        self.nodes = TypedNodes(table.fields[NODE_TYPE].values, table.node_ptr, len(types.nodes))
        shift = np.repeat(table.node_ptr[:-1], np.diff(self.edge_ptr))
        self.edges = TypedEdges(
            index.astype(np.int64) + shift,
            table.fields[EDGE_TYPE].values,
            self.edge_ptr,
            self.nodes,
            types,
        )

    def weight(self, number: int) -> Field | None:
        """Return the weights of a relation."""
        return self.table.fields.get(self.types.edge_field(number, "edge_weight"))

    def weight_type(self, number: int) -> type:
        """Return the type of the weights of a relation on levels."""
        field = self.weight(number)
        return np.float64 if field is not None and field.values.dtype == np.float64 else np.float32

    def blocks(self) -> list[BlockCSR]:
        """Return the edges of each relation as rows over all nodes."""
        found = []
        for number in range(len(self.types.relations)):
            field = self.weight(number)
            weight = None if field is None else field.values.reshape(-1)
            edges = self.edges.of(number)
            found.append(BlockCSR.from_edge_index(edges, weight, node_ptr=self.table.node_ptr))
        return found

    def type_table(self, number: int) -> GraphTable:
        """Return the nodes of a type with its attributes."""
        ptr = self.nodes.ptrs[number]
        return GraphTable(ptr, self._fields("nodes", number, ptr))

    def relation_table(self, number: int) -> GraphTable:
        """Return the edges of a relation with its attributes, over all nodes."""
        ptr = self.edges.ptrs[number]
        fields = self._fields("edges", number, ptr)
        fields.pop("edge_weight", None)
        chosen = self.table.fields["edge_index"].values[:, self.edges.edge_type == number]
        fields["edge_index"] = Field("edge_index", chosen.astype(np.int64), ptr, -1, shifted=True)
        return GraphTable(self.table.node_ptr, fields)

    def _fields(self, owner: str, number: int, ptr: LongArray) -> dict[str, Field]:
        """Return the attributes of a type or relation with one row for each node or edge."""
        found = {}
        for name, field in self.table.fields.items():
            typed = self.types.parse(name)
            is_own = typed is not None and (typed.owner, typed.number) == (owner, number)
            if typed is not None and is_own and field.form == "rows" and np.array_equal(field.ptr, ptr):
                found[typed.name] = replace(field, name=typed.name, ptr=ptr)
        return found


def resolve_types(rules: CarryRules, table: GraphTable, types: TypeTable) -> tuple[CarryStep, ...]:
    """Return the attributes of the levels of heterogeneous graphs. The rules are the same for all types and relations.

    Args:
        rules: Rules.
        table: All graphs.
        types: Names of the types and relations.

    Returns:
        Steps whose names are those of fields, such as ``nodes/film/x``.

    Raises:
        UnknownNameError: If no type or relation has an attribute.
        InputError: If a reduction does not fit its values, or if edge maps are wanted.
    """
    if not rules:
        return ()
    known = {typed.name for name in table.fields if (typed := types.parse(name)) is not None}
    for name, reduction in rules.reductions:
        if reduction == MAP:
            raise InputError(
                f"stored levels of heterogeneous graphs have no edge map: expected no rule {name}={MAP}",
                field="carry",
                hint=f"leave {name}={MAP} out",
            )
        if name not in known:
            raise UnknownNameError("attribute", name, known)
    graphs, found = _Graphs(table, types), []
    for owner, count in (("nodes", len(types.nodes)), ("edges", len(types.relations))):
        for number in range(count):
            part = graphs.type_table(number) if owner == "nodes" else graphs.relation_table(number)
            own = tuple(pair for pair in rules.reductions if pair[0] in part.fields)
            steps = resolve(CarryRules(rules.auto, own), part)
            if owner == "edges":
                steps = tuple(step for step in steps if step.reduction != "count")
            found += [_rename(step, types, owner, number) for step in steps]
    return tuple(found)


def _rename(step: CarryStep, types: TypeTable, owner: str, number: int) -> CarryStep:
    """Return a step with the names of fields instead of attributes."""

    def full(name: str) -> str:
        return types.node_field(number, name) if owner == "nodes" else types.edge_field(number, name)

    mask = None if step.mask is None else full(step.mask)
    return replace(step, name=full(step.name), source=full(step.input_name), mask=mask)


def _own_steps(steps: Sequence[CarryStep], types: TypeTable, owner: str, number: int) -> list[CarryStep]:
    """Return the steps of one type or relation, with the names of attributes."""

    def short(name: str) -> str:
        typed = types.parse(name)
        assert typed is not None, "steps name fields of types"
        return typed.name

    found = []
    for step in steps:
        typed = types.parse(step.name)
        if typed is not None and (typed.owner, typed.number) == (owner, number):
            mask = None if step.mask is None else short(step.mask)
            found.append(replace(step, name=typed.name, source=short(step.input_name), mask=mask))
    return found


def typed_inputs(types: TypeTable, steps: Sequence[CarryStep], needs: Iterable[str] = ()) -> list[str]:
    """Return the fields that :func:`coarsen_table` needs in addition to ``edge_index``. Weights may not exist.

    Args:
        types: Names of the types and relations.
        steps: Attributes of the levels.
        needs: Attributes of nodes that methods need.
    """
    weights = [types.edge_field(number, "edge_weight") for number in range(len(types.relations))]
    inputs = [step.input_name for step in steps if step.reduction != "count"]
    masks = [step.mask for step in steps if step.mask is not None]
    needed = [types.node_field(number, name) for name in needs for number in range(len(types.nodes))]
    return list(dict.fromkeys([NODE_TYPE, EDGE_TYPE, *weights, *inputs, *masks, *needed]))


def coarsen_table(
    table: GraphTable,
    types: TypeTable,
    schedule: Schedule,
    seed: int = 0,
    *,
    relations: Sequence[Relation],
    type_graph: TypeGraph = "auto",
    steps: Sequence[CarryStep] = (),
) -> TypedResult:
    """Coarsen heterogeneous graphs.

    A level has the fields ``node_type`` and ``edge_type``, the weights of weighted relations, and the attributes that ``steps``
    name. Relations stay apart: a pair of supernodes can have one edge of each relation.

    Args:
        table: Graphs, with the fields that :func:`typed_inputs` names.
        types: Names of the types and relations.
        schedule: Levels, finest first.
        seed: Seed of all random choices.
        relations: Relations on which the supernodes depend.
        type_graph: Edges that methods see.
        steps: Attributes of the levels, from :func:`resolve_types`.

    Raises:
        GraphError: If a coarse weight is out of range.
    """
    graphs, failures = _Graphs(table, types), list[GraphFailure]()
    blocks = graphs.blocks()
    chosen = [types.relations.index(relation) for relation in relations]
    node_type = graphs.nodes.node_type
    attributes = typed_attributes(table, types, schedule.needs)
    typed = run_types(
        blocks, table.node_ptr, node_type, chosen, schedule, seed, type_graph, failures, attributes
    )
    fields: list[dict[str, Field]] = [{} for _ in typed]
    for number in range(len(types.nodes)):
        own = restrict_type(typed, table.node_ptr, node_type, number)
        carried = carry_fields(graphs.type_table(number), own, _own_steps(steps, types, "nodes", number))
        for target, level in zip(fields, carried.levels, strict=True):
            target |= _named(level, types, TypedField("nodes", number, ""))
    for number in range(len(types.relations)):
        dtype = graphs.weight_type(number)
        own = relation_hierarchy(typed, table.node_ptr, number, dtype)
        own_steps = _own_steps(steps, types, "edges", number)
        carried = carry_fields(graphs.relation_table(number), own, own_steps)
        for target, level in zip(fields, carried.levels, strict=True):
            target |= _named(level, types, TypedField("edges", number, ""))
            if level.edge_weight is not None:
                _check_finite(level, types.relations[number])
                name = types.edge_field(number, "edge_weight")
                target[name] = Field(name, level.edge_weight, level.edge_ptr)
    levels = [_union_level(step, found) for step, found in zip(typed, fields, strict=True)]
    block = join_relations(blocks, table.node_ptr)
    failures.sort(key=lambda failure: failure.graph)
    return TypedResult(
        Hierarchy(table.node_ptr, tuple(levels)), failures, block, union_hierarchy(block, typed)
    )


def _named(level: Level, types: TypeTable, owner: TypedField) -> dict[str, Field]:
    """Return the carried attributes of a type or relation by the names of fields."""
    names = {name: types.field(owner._replace(name=name)) for name in level.fields}
    return {names[name]: replace(field, name=names[name]) for name, field in level.fields.items()}


def _check_finite(level: Level, relation: Relation) -> None:
    weight = level.edge_weight
    if weight is not None and not np.isfinite(weight).all():
        raise GraphError(
            f"a coarse weight of relation {'-'.join(relation)} is out of range: expected finite {weight.dtype} numbers",
            hint="scale the edge weights down",
        )


def _union_level(step: TypedStep, fields: dict[str, Field]) -> Level:
    """Return a level of all types with its fields."""
    super_ptr = step.level.super_ptr
    coarse, edge_type = sort_edges(step.blocks, super_ptr)
    own = {
        NODE_TYPE: Field(NODE_TYPE, step.node_type, super_ptr),
        EDGE_TYPE: Field(EDGE_TYPE, edge_type, coarse.edge_ptr),
    }
    return replace(step.level, coarse=coarse, fields={**own, **fields})


def join_values(
    name: str,
    parts: Sequence[Array],
    ptrs: Sequence[LongArray],
    types: Sequence[str],
    node_type: LongArray,
    method: str,
) -> RowArray:
    """Return an attribute for the nodes of all types. Types with fewer columns get columns of zeros.

    Args:
        name: Name of the attribute.
        parts: Values of the nodes of each type.
        ptrs: ``[B + 1]`` offsets of the nodes of each type.
        types: Names of the types.
        node_type: ``[N]`` type of each node.
        method: Method that needs the attribute, for messages.

    Raises:
        InputError: If the values of a type have a wrong type or shape, or a number is not finite.

    Examples:
        >>> parts = [np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0])]
        >>> join_values("x", parts, [np.array([0, 2]), np.array([0, 1])], ["a", "b"], np.array([0, 1, 0]), "fps").tolist()
        [[1.0, 2.0], [5.0, 0.0], [3.0, 4.0]]
    """
    checked = []
    for kind, part, ptr in zip(types, parts, ptrs, strict=True):
        try:
            checked.append(check_node_values(name, part, ptr, method))
        except InputError as error:
            raise InputError(f"node type {kind!r}: {error}", field=name) from error
    width = max((part.shape[1] for part in checked), default=1)
    dtype = np.result_type(*checked) if checked else np.dtype(np.float64)
    found: RowArray = np.zeros((len(node_type), width), dtype)
    for number, part in enumerate(checked):
        found[np.flatnonzero(node_type == number), : part.shape[1]] = part
    return found


def typed_attributes(table: GraphTable, types: TypeTable, needs: Mapping[str, str]) -> NodeAttributes | None:
    """Return the attributes that methods need for the nodes of all types of a table.

    Args:
        table: Heterogeneous graphs, see :mod:`tgp.ragged.types`.
        types: Names of the types and relations.
        needs: Names of attributes, each with the method that needs it.

    Raises:
        InputError: If a type does not have an attribute, or if its values are not valid.
    """
    if not needs:
        return None
    nodes = TypedNodes(table.fields[NODE_TYPE].values, table.node_ptr, len(types.nodes))
    found = {}
    for name, method in needs.items():
        parts = []
        for number, kind in enumerate(types.nodes):
            field = table.fields.get(types.node_field(number, name))
            if (
                field is None
                or (field.form, field.axis) != ("rows", 0)
                or not np.array_equal(field.ptr, nodes.ptrs[number])
            ):
                got = "none" if field is None else "another shape"
                raise InputError(
                    f"{method} needs the node attribute {name!r}: expected a tensor with one row for each node on every node "
                    f"type, got {got} on {kind!r}",
                    field=name,
                    hint=f"add {name!r} to the nodes of type {kind!r}, or use a method that does not need it",
                )
            parts.append(field.values)
        found[name] = join_values(name, parts, nodes.ptrs, types.nodes, nodes.node_type, method)
    return NodeAttributes(found)
