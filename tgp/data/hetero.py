"""Levels of heterogeneous graphs: supernodes have nodes of one type, and relations are contracted one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, HeteroData

from tgp.data.attributes import as_tensor, type_select_output
from tgp.data.collate import LevelCountError
from tgp.data.hetero_table import UnionGraph
from tgp.engine.carry import CarryRules, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.engine.schedule import Schedule
from tgp.engine.type_graph import TypeGraph
from tgp.engine.typed_levels import TypedStep, check_methods, relation_hierarchy, restrict_type, run_types
from tgp.engine.typed_table import join_values
from tgp.errors import InputError, UnknownNameError
from tgp.ragged import Field, GraphTable, Hierarchy, Level
from tgp.ragged.node_attributes import NodeAttributes
from tgp.ragged.types import Relation, parse_relations
from tgp.select.base_select import SelectOutput

__all__ = ["coarsen_hetero", "join_hetero"]


def coarsen_hetero(
    data: HeteroData,
    schedule: Schedule,
    seed: int = 0,
    *,
    carry: CarryRules | None = None,
    relations: Iterable[str | Relation] | str | None = None,
    type_graph: TypeGraph = "auto",
) -> list[HeteroData]:
    """Return the levels of a heterogeneous graph.

    All types are coarsened at once, on a graph in which only nodes of the same type are connected, see
    :func:`~tgp.engine.type_graph.connect_types`. So no supernode has nodes of two types. Each relation is then contracted by the
    supernodes of its two types. Parallel edges of one relation are merged; relations stay apart. Normalizations of weights by a
    method are not applied to relations.

    Args:
        data: Graph, not a batch.
        schedule: Levels, finest first. Methods must assign each node to one supernode and contract edges.
        seed: Seed of all random choices.
        carry: Rules for the attributes of nodes and edges, the same for all types.
        relations: Relations on which the supernodes depend, see :func:`parse_relations`. All relations are contracted.
        type_graph: Edges that methods see, see :data:`~tgp.engine.type_graph.TypeGraph`.

    Returns:
        Levels. Each node type has ``so``, ``num_nodes`` and carried attributes, each relation ``edge_index``, ``edge_weight`` (if
        the input has it) and carried attributes.

    Raises:
        DatasetError: If the graph is not valid.
        InputError: If a method cannot be used.
    """
    check_methods(schedule)
    union = UnionGraph.of(data)
    chosen = parse_relations(relations, union.relations)
    _check_rules(carry, data)
    blocks = union.blocks()
    node_ptr = np.array([0, union.num_nodes])
    steps = run_types(
        list(blocks.values()),
        node_ptr,
        union.node_type,
        [union.relations.index(relation) for relation in chosen],
        schedule,
        seed,
        type_graph,
        attributes=_union_attributes(data, union, schedule),
    )
    types = [union.node_type, *(step.node_type for step in steps)]
    levels = [HeteroData() for _ in steps]
    for number, name in enumerate(union.types):
        own = restrict_type(steps, node_ptr, union.node_type, number)
        table = GraphTable(own.node_ptr, _fields(data[name], int(own.node_ptr[-1]), skip=("num_nodes",)))
        for level, found in zip(levels, _carry(table, own, carry).levels, strict=True):
            _set_fields(level[name], found)
            level[name].num_nodes = found.assignment.num_supernodes
            assert found.assignment.cluster is not None
            level[name].so = type_select_output(found.assignment.cluster, found.assignment.num_supernodes)
    local = [{name: np.cumsum(t == i) - 1 for i, name in enumerate(union.types)} for t in types[1:]]
    for relation in union.relations:
        source, _, target = relation
        for level, found, ids in zip(
            levels, _relation_levels(data, relation, union, steps, carry), local, strict=True
        ):
            ends, store = found.edge_index, level[relation]
            store.edge_index = torch.from_numpy(np.stack([ids[source][ends[0]], ids[target][ends[1]]]))
            if found.edge_weight is not None:
                store.edge_weight = as_tensor(found.edge_weight)
            _set_fields(store, found)
    return levels


def join_hetero(
    graphs: Sequence[HeteroData], follow_batch: Any = None, exclude_keys: Any = None, key: str = "pooled_data"
) -> Batch:
    """Join heterogeneous graphs into a batch, level by level.

    Args:
        graphs: Graphs. Levels are joined if the first graph has them.
        follow_batch, exclude_keys: See ``torch_geometric.data.Batch``.
        key: Attribute that holds the levels.

    Returns:
        A batch. Its levels are batches, too, with one assignment for each node type.

    Raises:
        LevelCountError: If the graphs have different numbers of levels.
    """
    excluded = [*(exclude_keys or ()), key]
    batch = Batch.from_data_list(list(graphs), follow_batch, excluded)
    if key not in graphs[0] or key in (exclude_keys or ()):
        return batch
    counts = {len(graph[key]) for graph in graphs}
    if len(counts) > 1:
        raise LevelCountError(
            f"the graphs have different numbers of levels: expected one number, got {sorted(counts)}",
            field=key,
        )
    levels = []
    for parts in zip(*(graph[key] for graph in graphs), strict=True):
        level = Batch.from_data_list(list(parts), exclude_keys=["so"])
        for name in level.node_types:
            level[name].so = SelectOutput.cat([part[name].so for part in parts])
        levels.append(level)
    batch[key] = levels
    return batch


def _union_attributes(data: HeteroData, union: UnionGraph, schedule: Schedule) -> NodeAttributes | None:
    """Return the attributes that methods need for the nodes of all types. Types with fewer columns get columns of zeros."""
    found = {}
    for name, method in schedule.needs.items():
        parts = []
        for kind in union.types:
            value = data[kind].get(name)
            if not isinstance(value, Tensor):
                raise InputError(
                    f"{method} needs the node attribute {name!r}: expected a tensor on every node type, got none on {kind!r}",
                    field=name,
                )
            parts.append(value.detach().cpu().numpy())
        ptrs = [np.array([0, size]) for size in np.diff(union.first).tolist()]
        found[name] = join_values(name, parts, ptrs, union.types, union.node_type, method)
    return NodeAttributes(found) if found else None


def _relation_levels(
    data: HeteroData,
    relation: Relation,
    union: UnionGraph,
    steps: Sequence[TypedStep],
    carry: CarryRules | None,
) -> tuple[Level, ...]:
    """Return the coarse edges of one relation with their attributes on all levels. Ids count through all types."""
    edges, dtype = union.edges[relation], union.weight_type(relation)
    fields = _fields(data[relation], int(edges.shape[1]), skip=("edge_index", "edge_weight"))
    fields["edge_index"] = Field("edge_index", edges, np.array([0, edges.shape[1]]), -1, shifted=True)
    table = GraphTable(np.array([0, union.num_nodes]), fields)
    own = relation_hierarchy(steps, table.node_ptr, union.relations.index(relation), dtype)
    found = _carry(table, own, carry).levels
    return tuple(
        replace(level, fields={name: f for name, f in level.fields.items() if name != "num_members"})
        for level in found
    )


def _check_rules(carry: CarryRules | None, data: HeteroData) -> None:
    """Check that every rule names an attribute of some type or relation."""
    known = {name for store in (*data.node_stores, *data.edge_stores) for name in store}
    for name, _ in carry.reductions if carry else ():
        if name not in known:
            raise UnknownNameError("attribute", name, known)


def _carry(table: GraphTable, hierarchy: Hierarchy, carry: CarryRules | None) -> Hierarchy:
    """Apply the rules that name attributes of a table."""
    if not carry:
        return hierarchy
    known = tuple(pair for pair in carry.reductions if pair[0] in table.fields)
    return carry_fields(table, hierarchy, resolve(CarryRules(carry.auto, known), table))


def _set_fields(store: Any, level: Level) -> None:
    for name, field in level.fields.items():
        store[name] = as_tensor(field.values)


def _fields(store: Mapping[str, Any], rows: int, skip: Sequence[str]) -> dict[str, Field]:
    """Return the tensors of a type with one row for each node or edge."""
    return {
        name: Field(name, value.detach().cpu().numpy(), np.array([0, rows]))
        for name, value in store.items()
        if isinstance(value, Tensor) and value.dim() and value.size(0) == rows and name not in skip
    }
