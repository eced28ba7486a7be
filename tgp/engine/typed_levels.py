"""Coarsen heterogeneous graphs: supernodes have nodes of one type, and relations are contracted one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tgp.engine.coarsening import GraphFailure, coarsen, coarsen_with_failures, independent_runs
from tgp.engine.contraction import ConnectParams, ContractOptions, contract
from tgp.engine.level_steps import pool_values
from tgp.engine.methods import METHODS
from tgp.engine.schedule import LevelSpec, Schedule
from tgp.engine.type_graph import TypeGraph, connect_types
from tgp.errors import InputError
from tgp.kernels.array_types import BoolArray, LongArray
from tgp.ragged import Assignment, BlockCSR, Hierarchy, Level
from tgp.ragged.node_attributes import NodeAttributes
from tgp.ragged.offsets import offsets

__all__ = [
    "TypedStep",
    "check_methods",
    "join_relations",
    "relation_hierarchy",
    "restrict_type",
    "run_types",
    "sort_edges",
    "union_hierarchy",
]


class TypedStep(NamedTuple):
    """One level of all types.

    Args:
        spec: Method of the level.
        level: Assignment of all nodes. Its coarse graph is not used.
        node_type: ``[K]`` type of each supernode.
        blocks: Coarse edges of each relation.
    """

    spec: LevelSpec
    level: Level
    node_type: LongArray
    blocks: tuple[BlockCSR, ...]


def check_methods(schedule: Schedule) -> None:
    """Check that the methods of a schedule can be used for graphs with several types of nodes.

    Args:
        schedule: Levels.

    Raises:
        InputError: If a method does not assign each node to one supernode, or does not contract edges.
    """
    for spec in schedule:
        method = spec.level_method
        if method.dense or not method.contracts:
            usable = [name for name in METHODS if METHODS[name].contracts and not METHODS[name].dense]
            raise InputError(
                f"{spec.method} cannot coarsen graphs with several types of nodes: expected a method that assigns each node to "
                f"one supernode and contracts edges: {', '.join(usable)}",
                field="poolers",
            )


def run_types(
    blocks: Sequence[BlockCSR],
    node_ptr: LongArray,
    node_type: LongArray,
    chosen: Sequence[int],
    schedule: Schedule,
    seed: int = 0,
    type_graph: TypeGraph = "auto",
    failures: list[GraphFailure] | None = None,
    attributes: NodeAttributes | None = None,
) -> list[TypedStep]:
    """Compute the assignments and the coarse edges of all levels.

    All types are coarsened at once, on a graph in which only nodes of the same type are connected, see
    :func:`~tgp.engine.type_graph.connect_types`. Each relation is then contracted by the supernodes of its two types. Normalizations
    of weights by a method are not applied to relations. The result of a graph does not depend on the other graphs.

    Args:
        blocks: Edges of each relation, over the nodes of all types.
        node_ptr: ``[B + 1]`` offsets of the nodes.
        node_type: ``[N]`` type of each node.
        chosen: Numbers of the relations on which the supernodes depend. All relations are contracted.
        schedule: Levels, finest first; see :func:`check_methods`.
        seed: Seed of all random choices.
        type_graph: Edges that methods see.
        failures: List to which graphs that fail are added. If it is ``None``, such a graph is an error.
        attributes: Attributes of all nodes that methods need. Supernodes have the means of their members.
    """
    steps: list[TypedStep] = []
    current = tuple(blocks)
    for spec, length in independent_runs(schedule):
        guide = connect_types(join_relations([current[i] for i in chosen], node_ptr), node_type, type_graph)
        guide, plan = replace(guide, attributes=attributes), Schedule((spec,) * length)
        types = node_type if spec.level_method.joins_components else np.zeros_like(node_type)
        part, found = _coarsen_apart(guide, types, plan, seed, len(steps), failures is not None)
        if failures is not None:
            failures += found
        for level, new_type in _split_types(part, node_type):
            current = tuple(contract(block, level.assignment, _contract_options(spec)) for block in current)
            steps.append(TypedStep(spec, level, new_type, current))
            if attributes is not None:
                attributes = pool_values(attributes, level.node_ptr, level.assignment)
        node_type, node_ptr = steps[-1].node_type, steps[-1].level.super_ptr
    return steps


def _coarsen_apart(
    guide: BlockCSR, node_type: LongArray, plan: Schedule, seed: int, first_level: int, safely: bool
) -> tuple[Hierarchy, list[GraphFailure]]:
    """Coarsen the nodes of each type of a graph as a graph of their own.

    Args:
        guide: Graphs whose edges connect nodes of one type.
        node_type: ``[N]`` type of each node; all 0 if the nodes of a graph belong together.
        plan: Levels of one method.
        seed: Seed of all random choices.
        first_level: Number of the first level.
        safely: Return graphs that fail instead of raising an error.
    """
    width = int(node_type.max(initial=0)) + 1
    order, apart = np.arange(guide.num_nodes), guide
    if width > 1:
        group = guide.graph_of_node().astype(np.int64) * width + node_type
        order = np.argsort(group, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        node_ptr = offsets(np.bincount(group, minlength=guide.num_graphs * width))
        apart = BlockCSR.from_edge_index(place[guide.edge_index()], guide.weight, node_ptr=node_ptr)
        attributes = None if guide.attributes is None else guide.attributes.take(order)
        apart = replace(apart, attributes=attributes)
    failures: list[GraphFailure] = []
    if safely:
        part, failures = coarsen_with_failures(apart, plan, seed, first_level=first_level)
    else:
        part = coarsen(apart, plan, seed, first_level=first_level)
    if width == 1:
        return part, failures
    failures = list(
        {f.graph // width: replace(f, graph=f.graph // width) for f in reversed(failures)}.values()
    )
    failed = np.isin(np.arange(len(apart.node_ptr) - 1) // width, [failure.graph for failure in failures])
    return Hierarchy(guide.node_ptr, tuple(_join_types(part, guide.node_ptr, width, place, failed))), failures


def _join_types(
    part: Hierarchy, node_ptr: LongArray, width: int, place: LongArray, failed: BoolArray
) -> Iterator[Level]:
    """Yield the levels of whole graphs from those of their types, without edges.

    Args:
        part: Levels of the types of each graph.
        node_ptr: ``[B + 1]`` offsets of the nodes of whole graphs.
        width: Number of types.
        place: ``[N]`` position of each node in the graphs of the types.
        failed: ``[B * width]`` True for the types of graphs that failed. They lose all supernodes.
    """
    rows = place
    for level in part.levels:
        cluster = level.assignment.cluster
        assert cluster is not None, "only hard assignments reach this point"
        kept = ~np.repeat(failed, np.diff(level.super_ptr))
        new_id = np.append(
            np.where(kept, np.cumsum(kept) - 1, -1), -1
        )  # the last entry is that of dropped nodes
        super_ptr = offsets(kept)[level.super_ptr[::width]]
        joined = Assignment("hard", super_ptr, new_id[cluster[rows]].astype(np.int32))
        empty = BlockCSR.from_edge_index(np.zeros((2, 0), np.int64), node_ptr=super_ptr)
        yield Level(level.method, node_ptr, joined, empty)
        node_ptr, rows = super_ptr, np.flatnonzero(kept)


def join_relations(blocks: Sequence[BlockCSR], node_ptr: LongArray) -> BlockCSR:
    """Return the edges of several relations as one graph. It is weighted if one of them is weighted.

    Args:
        blocks: Edges of each relation.
        node_ptr: ``[B + 1]`` offsets of the nodes.
    """
    ends = np.concatenate([block.edge_index() for block in blocks] or [np.zeros((2, 0), np.int64)], axis=1)
    weight = None
    if any(block.weight is not None for block in blocks):
        weight = np.concatenate([block.weights_or_ones() for block in blocks])
    return BlockCSR.from_edge_index(ends, weight, node_ptr=node_ptr)


def _contract_options(spec: LevelSpec) -> ContractOptions:
    """Return the options of a method without its normalizations, which need one type of nodes."""
    params = spec.params
    if not isinstance(params, ConnectParams):
        return ContractOptions()
    return replace(params.contract_options(), degree_norm=False, edge_weight_norm=False)


def _split_types(hierarchy: Hierarchy, node_type: LongArray) -> Iterator[tuple[Level, LongArray]]:
    """Yield each level with a supernode for each pair of a given supernode and a type, and the types of its supernodes."""
    old = np.arange(len(node_type))  # the given node of each node
    node_ptr = hierarchy.node_ptr
    for level in hierarchy.levels:
        cluster = level.assignment.cluster
        assert cluster is not None, "only hard assignments reach this point"
        given = cluster.astype(np.int64)[old]
        width = int(node_type.max(initial=0)) + 1
        keys, new = np.unique(np.where(given < 0, -1, given * width + node_type), return_inverse=True)
        dropped = int(len(keys) > 0 and keys[0] < 0)
        kept = keys[dropped:]
        old, node_type = kept // width, kept % width
        super_ptr = np.searchsorted(old, level.super_ptr).astype(np.int64)
        assignment = Assignment("hard", super_ptr, (new.reshape(-1) - dropped).astype(np.int32))
        yield Level(level.method, node_ptr, assignment, level.coarse), node_type
        node_ptr = super_ptr


def restrict_type(
    steps: Sequence[TypedStep], node_ptr: LongArray, node_type: LongArray, number: int
) -> Hierarchy:
    """Return the assignments of the nodes of one type, without edges.

    Args:
        steps: Levels of all types.
        node_ptr: ``[B + 1]`` offsets of the nodes of the input graphs.
        node_type: ``[N]`` their types.
        number: Number of the type.
    """
    own = node_type == number
    first = ptr = _own_offsets(own, node_ptr)
    levels = []
    for step in steps:
        cluster = step.level.assignment.cluster
        assert cluster is not None
        after = step.node_type == number
        place = np.append(np.cumsum(after) - 1, -1)  # the last entry is the id of dropped nodes
        super_ptr = _own_offsets(after, step.level.super_ptr)
        given = Assignment("hard", super_ptr, place[cluster[own]].astype(np.int32))
        empty = BlockCSR.from_edge_index(np.zeros((2, 0), np.int64), node_ptr=super_ptr)
        levels.append(Level(step.level.method, ptr, given, empty))
        own, ptr = after, super_ptr
    return Hierarchy(first, tuple(levels))


def _own_offsets(own: BoolArray, ptr: LongArray) -> LongArray:
    """Return the offsets of the marked rows."""
    found: LongArray = np.concatenate([[0], np.cumsum(own)])[ptr].astype(np.int64)
    return found


def relation_hierarchy(
    steps: Sequence[TypedStep], node_ptr: LongArray, number: int, weight_dtype: npt.DTypeLike
) -> Hierarchy:
    """Return all nodes with the coarse edges of one relation.

    Args:
        steps: Levels of all types.
        node_ptr: ``[B + 1]`` offsets of the nodes of the input graphs.
        number: Number of the relation.
        weight_dtype: Type of its weights.
    """
    levels = [replace(s.level, coarse=s.blocks[number], weight_dtype=weight_dtype) for s in steps]
    return Hierarchy(node_ptr, tuple(levels))


def union_hierarchy(block: BlockCSR, steps: Sequence[TypedStep]) -> Hierarchy:
    """Return all nodes with the contraction of the edges of all relations together, for quality figures.

    Args:
        block: Edges of all relations of the input graphs.
        steps: Levels of all types.
    """
    levels: list[Level] = []
    coarse = block
    for step in steps:
        coarse = contract(coarse, step.level.assignment, _contract_options(step.spec))
        levels.append(replace(step.level, coarse=coarse))
    return Hierarchy(block.node_ptr, tuple(levels))


def sort_edges(blocks: Sequence[BlockCSR], super_ptr: LongArray) -> tuple[BlockCSR, LongArray]:
    """Return the edges of all relations as unweighted rows, and the relation of each edge.

    Edges of a row are ordered by relation. The edges of one relation keep their order.

    Args:
        blocks: Edges of each relation.
        super_ptr: ``[B + 1]`` offsets of the nodes.
    """
    ends = np.concatenate([block.edge_index() for block in blocks], axis=1)
    relation = np.repeat(np.arange(len(blocks)), [block.num_edges for block in blocks])
    order = np.argsort(ends[0], kind="stable")
    indptr = offsets(np.bincount(ends[0], minlength=int(super_ptr[-1])))
    return BlockCSR(indptr, ends[1, order].astype(np.int32), None, super_ptr), relation[order]
