"""Levels of heterogeneous graphs: supernodes have nodes of one type, and relations are contracted one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Batch, HeteroData

from tgp.data.attributes import as_tensor
from tgp.data.collate import LevelCountError
from tgp.data.relations import Relation, UnionGraph, parse_relations
from tgp.engine.carry import CarryRules, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.engine.coarsening import coarsen, independent_runs
from tgp.engine.contraction import ConnectParams, ContractOptions, contract
from tgp.engine.methods import METHODS
from tgp.engine.pool_attributes import pool_values
from tgp.engine.schedule import LevelSpec, Schedule
from tgp.engine.type_graph import TypeGraph, connect_types
from tgp.errors import InputError, UnknownNameError
from tgp.ragged import Assignment, BlockCSR, Field, GraphTable, Hierarchy, Level
from tgp.ragged.node_attributes import NodeAttributes, check_node_values
from tgp.select.base_select import SelectOutput

__all__ = ["coarsen_hetero", "join_hetero"]

Ids = npt.NDArray[np.int64]


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
    _check_methods(schedule)
    union = UnionGraph.of(data)
    chosen = parse_relations(relations, union.relations)
    _check_rules(carry, data)
    attributes = _union_attributes(data, union, schedule)
    steps = _run_schedule(union, chosen, schedule, seed, type_graph, attributes)
    assignments = Hierarchy(np.array([0, union.num_nodes]), tuple(step.level for step in steps))
    types = [union.node_type, *(step.node_type for step in steps)]
    levels = [HeteroData() for _ in steps]
    for number, name in enumerate(union.types):
        own = _restrict(assignments, types, number)
        table = GraphTable(own.node_ptr, _fields(data[name], int(own.node_ptr[-1]), skip=("num_nodes",)))
        for level, found in zip(levels, _carry(table, own, carry).levels, strict=True):
            _set_fields(level[name], found)
            level[name].num_nodes = found.assignment.num_supernodes
            level[name].so = _select_output(found.assignment)
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


class _Step(NamedTuple):
    """One level of all types.

    Args:
        level: Assignment of all nodes. Its coarse graph is not used.
        node_type: ``[K]`` type of each supernode.
        blocks: Coarse edges of each relation.
    """

    level: Level
    node_type: Ids
    blocks: dict[Relation, BlockCSR]


def _run_schedule(
    union: UnionGraph,
    chosen: Sequence[Relation],
    schedule: Schedule,
    seed: int,
    type_graph: TypeGraph,
    attributes: NodeAttributes | None,
) -> list[_Step]:
    """Compute the assignments and the coarse edges of all levels."""
    steps: list[_Step] = []
    blocks, node_type = union.blocks(), union.node_type
    for spec, length in independent_runs(schedule):
        guide = connect_types(
            _join([blocks[relation] for relation in chosen], len(node_type)), node_type, type_graph
        )
        part = coarsen(
            replace(guide, attributes=attributes), Schedule((spec,) * length), seed, first_level=len(steps)
        )
        for level, types in _split_types(part, node_type):
            blocks = {
                relation: contract(block, level.assignment, _contract_options(spec))
                for relation, block in blocks.items()
            }
            steps.append(_Step(level, types, blocks))
            if attributes is not None:
                attributes = pool_values(attributes, level.node_ptr, level.assignment)
        node_type = steps[-1].node_type
    return steps


def _union_attributes(data: HeteroData, union: UnionGraph, schedule: Schedule) -> NodeAttributes | None:
    """Return the attributes that methods need for the nodes of all types. Types with fewer columns get columns of zeros."""
    found = {}
    for name, method in schedule.needs.items():
        parts = []
        for kind, size in zip(union.types, np.diff(union.first).tolist(), strict=True):
            value = data[kind].get(name)
            if not isinstance(value, Tensor):
                raise InputError(
                    f"{method} needs the node attribute {name!r}: expected a tensor on every node type, got none on {kind!r}",
                    field=name,
                )
            array = value.detach().cpu().numpy()
            try:
                parts.append(check_node_values(name, array, np.array([0, size]), method))
            except InputError as error:
                raise InputError(f"node type {kind!r}: {error}", field=name) from error
        width = max((part.shape[1] for part in parts), default=1)
        found[name] = np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])
    return NodeAttributes(found) if found else None


def _contract_options(spec: LevelSpec) -> ContractOptions:
    """Return the options of a method without its normalizations, which need one type of nodes."""
    params = spec.params
    if not isinstance(params, ConnectParams):
        return ContractOptions()
    return replace(params.contract_options(), degree_norm=False, edge_weight_norm=False)


def _join(blocks: Sequence[BlockCSR], num_nodes: int) -> BlockCSR:
    """Return the edges of several relations. It is weighted if one of them is weighted."""
    ends = np.concatenate([block.edge_index() for block in blocks] or [np.zeros((2, 0), np.int64)], axis=1)
    weight = None
    if any(block.weight is not None for block in blocks):
        weight = np.concatenate([block.weights_or_ones() for block in blocks])
    return BlockCSR.from_edge_index(ends, weight, num_nodes=num_nodes)


def _check_methods(schedule: Schedule) -> None:
    for spec in schedule:
        method = spec.level_method
        if method.dense or not method.contracts:
            usable = [name for name in METHODS if METHODS[name].contracts and not METHODS[name].dense]
            raise InputError(
                f"{spec.method} cannot coarsen graphs with several types of nodes: expected a method that assigns each node to "
                f"one supernode and contracts edges: {', '.join(usable)}",
                field="poolers",
            )


def _split_types(hierarchy: Hierarchy, node_type: Ids) -> Iterator[tuple[Level, Ids]]:
    """Yield each level with a supernode for each pair of a given supernode and a type, and the types of its supernodes."""
    old = np.arange(len(node_type))  # the given node of each node
    for level in hierarchy.levels:
        cluster = level.assignment.cluster
        assert cluster is not None, "only hard assignments reach this point"
        given = cluster.astype(np.int64)[old]
        width = int(node_type.max(initial=0)) + 1
        keys, new = np.unique(np.where(given < 0, -1, given * width + node_type), return_inverse=True)
        dropped = int(len(keys) > 0 and keys[0] < 0)
        kept = keys[dropped:]
        assignment = Assignment(
            "hard", np.array([0, len(kept)]), (new.reshape(-1) - dropped).astype(np.int32)
        )
        node_ptr = np.array([0, len(old)])
        old, node_type = kept // width, kept % width
        yield Level(level.method, node_ptr, assignment, level.coarse), node_type


def _restrict(hierarchy: Hierarchy, types: Sequence[Ids], number: int) -> Hierarchy:
    """Return the assignments of the nodes of one type, without edges."""
    levels = []
    for level, before, after in zip(hierarchy.levels, types, types[1:], strict=False):
        cluster = level.assignment.cluster
        assert cluster is not None
        place = np.append(np.cumsum(after == number) - 1, -1)  # the last entry is the id of dropped nodes
        own = place[cluster[before == number]].astype(np.int32)
        super_ptr = np.array([0, int((after == number).sum())])
        empty = BlockCSR.from_edge_index(np.zeros((2, 0), np.int64), num_nodes=int(super_ptr[1]))
        given = Assignment("hard", super_ptr, own)
        levels.append(Level(level.method, np.array([0, len(own)]), given, empty))
    return Hierarchy(np.array([0, int((types[0] == number).sum())]), tuple(levels))


def _relation_levels(
    data: HeteroData,
    relation: Relation,
    union: UnionGraph,
    steps: Sequence[_Step],
    carry: CarryRules | None,
) -> tuple[Level, ...]:
    """Return the coarse edges of one relation with their attributes on all levels. Ids count through all types."""
    edges, dtype = union.edges[relation], union.weight_type(relation)
    fields = _fields(data[relation], int(edges.shape[1]), skip=("edge_index", "edge_weight"))
    fields["edge_index"] = Field("edge_index", edges, np.array([0, edges.shape[1]]), -1, shifted=True)
    table = GraphTable(np.array([0, union.num_nodes]), fields)
    levels = [replace(step.level, coarse=step.blocks[relation], weight_dtype=dtype) for step in steps]
    found = _carry(table, Hierarchy(table.node_ptr, tuple(levels)), carry).levels
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


def _select_output(assignment: Assignment) -> SelectOutput:
    """Return the assignment of one type."""
    cluster = assignment.cluster
    assert cluster is not None
    kept = np.flatnonzero(cluster >= 0)
    everywhere = len(kept) == len(cluster)
    return SelectOutput.hard(
        torch.from_numpy(cluster[kept].astype(np.int64)),
        assignment.num_supernodes,
        node_index=None if everywhere else torch.from_numpy(kept),
        num_nodes=len(cluster),
    )
