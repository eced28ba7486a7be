"""Convert heterogeneous graphs of PyG to the graph of all their nodes, and to a table of such graphs, see :mod:`tgp.ragged.types`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch_geometric.data import HeteroData

from tgp.data.columns import AttributeProblems, check_presence, field_of_values
from tgp.errors import DatasetError, InputError
from tgp.kernels.array_types import LongArray
from tgp.ragged import BlockCSR, Field, GraphTable
from tgp.ragged.offsets import offsets, run_ids
from tgp.ragged.types import (
    EDGE_TYPE,
    NODE_TYPE,
    Relation,
    TypedEdges,
    TypedNodes,
    TypeTable,
    check_typed_rows,
    is_typed_name,
)

__all__ = ["UnionGraph", "hetero_to_table"]


def hetero_to_table(graphs: Sequence[Any], excluded: Collection[str] = ()) -> GraphTable:
    """Return all attributes of heterogeneous graphs as a table with types.

    Args:
        graphs: Graphs with the same types and relations, at least one.
        excluded: Attributes to leave out, of all types and relations.

    Raises:
        DatasetError: If the graphs have different types or relations, or if an attribute is wrong or cannot be stored.
    """
    types = _common_types(graphs)
    unions = []
    for number, graph in enumerate(graphs):
        try:
            unions.append(UnionGraph.of(graph, types.nodes, types.relations))
        except DatasetError as error:
            raise DatasetError(f"graph {number}: {error}", hint=error.hint) from error
    sizes = np.array([np.diff(union.first) for union in unions])  # [B, T]
    counts = np.array([[union.edges[r].shape[1] for r in types.relations] for union in unions])  # [B, R]
    node_ptr, edge_ptr = offsets(sizes.sum(axis=1)), offsets(counts.sum(axis=1))
    ends = [union.edges[relation] for union in unions for relation in types.relations]
    fields = {
        "edge_index": Field("edge_index", np.concatenate(ends, axis=1), edge_ptr, -1, shifted=True),
        NODE_TYPE: Field(NODE_TYPE, _repeat_numbers(sizes), node_ptr),
        EDGE_TYPE: Field(EDGE_TYPE, _repeat_numbers(counts), edge_ptr),
    }
    problems = AttributeProblems()
    owners: list[tuple[Any, Any]] = [(name, ("nodes", i)) for i, name in enumerate(types.nodes)]
    owners += [(relation, ("edges", i)) for i, relation in enumerate(types.relations)]
    for key, (owner, number) in owners:
        rows = [graph[key]._mapping for graph in graphs]
        make = types.node_field if owner == "nodes" else types.edge_field
        found = _fields(rows, excluded, problems, is_edge=owner == "edges")
        fields |= {make(number, name): replace(f, name=make(number, name)) for name, f in found.items()}
    own = _fields([graph._global_store._mapping for graph in graphs], excluded, problems)
    problems.report()
    for name in own:
        if name in fields or is_typed_name(name) or name.endswith("_dict"):
            raise DatasetError(
                f"attribute {name!r} of the graphs cannot be stored: expected another name, because stores use this one",
                hint="rename it, or leave it out with exclude (on the command line: --exclude)",
            )
    table = GraphTable(node_ptr, {**fields, **own}, types)
    _check_rows(table, types)
    return table


def _common_types(graphs: Sequence[Any]) -> TypeTable:
    first = graphs[0]
    types = TypeTable(tuple(first.node_types), tuple(first.edge_types))
    for number, graph in enumerate(graphs):
        if not isinstance(graph, HeteroData):
            raise DatasetError(
                f"graph {number} has another type than graph 0: expected HeteroData, got {type(graph).__name__}"
            )
        for kind, expected, got in (
            ("types of nodes", types.nodes, graph.node_types),
            ("relations", types.relations, graph.edge_types),
        ):
            if set(expected) != set(got):
                odd = sorted(map(_name, set(expected) ^ set(got)))
                raise DatasetError(
                    f"graph {number} has other {kind} than graph 0: {odd[0]!r} is not in both. All graphs need the same metadata",
                    hint="add the missing type without nodes (num_nodes = 0) or the missing relation without edges",
                )
    problem = types.problem() if types.relations else "expected at least one relation, got none"
    if problem is not None:
        raise DatasetError(
            f"the types of nodes and relations of HeteroData cannot be stored: {problem}",
            hint="add a relation, or store graphs with one type of nodes: data = data.to_homogeneous()",
        )
    return types


def _name(value: Any) -> str:
    return value if isinstance(value, str) else "-".join(value)


def _repeat_numbers(counts: Any) -> Any:
    """Return the number of the column of each element, graph by graph."""
    numbers = np.tile(np.arange(counts.shape[1]), len(counts))
    return np.repeat(numbers, counts.reshape(-1))


def _fields(
    rows: Sequence[Mapping[str, Any]],
    excluded: Collection[str],
    problems: AttributeProblems,
    *,
    is_edge: bool = False,
) -> dict[str, Field]:
    """Return the attributes of one type, of one relation, or of the graphs."""
    found = {}
    for name in dict.fromkeys(key for row in rows for key in row):
        if name in excluded or (is_edge and name == "edge_index"):
            continue
        with problems.collect(name):
            check_presence(name, rows)
            if "index" in name or "batch" in name or name in ("so", "ptr"):
                raise DatasetError(f"attribute {name!r} holds ids, which heterogeneous stores cannot hold")
            found[name] = field_of_values(name, [row[name] for row in rows], None)
    return found


def _check_rows(table: GraphTable, types: TypeTable) -> None:
    """Check the numbers of rows of attributes, and that weights are finite numbers."""
    nodes = TypedNodes(table.fields[NODE_TYPE].values, table.node_ptr, len(types.nodes))
    index = table.fields["edge_index"]
    shift = np.repeat(table.node_ptr[:-1], np.diff(index.ptr))
    edges = TypedEdges(index.values + shift, table.fields[EDGE_TYPE].values, index.ptr, nodes, types)
    try:
        check_typed_rows(table.fields, types, nodes, edges)
    except InputError as error:
        raise DatasetError(str(error)) from error
    for number, relation in enumerate(types.relations):
        field = table.fields.get(types.edge_field(number, "edge_weight"))
        if field is None:
            continue
        values = field.values
        if field.form != "rows" or values.size != len(values) or values.dtype.kind not in "iuf":
            raise DatasetError(
                f"edge_weight of relation {'-'.join(relation)} has the wrong shape: expected one real number per edge, got "
                f"{values.dtype} {list(values.shape)}"
            )
        if not np.isfinite(values).all():
            raise DatasetError(
                f"edge_weight of relation {'-'.join(relation)} must hold finite numbers, got nan or infinity",
                hint="remove these edges or replace their weights, or leave all weights out with --exclude edge_weight",
            )


class UnionGraph(NamedTuple):
    """All nodes of a heterogeneous graph as one graph, type by type.

    Args:
        types: Names of the node types.
        relations: Names of the relations.
        first: ``[T + 1]`` first node of each type.
        edges: Edges of each relation ``[2, E]``. Ids count through all types.
        weights: Weights of each relation, or ``None``.
    """

    types: list[str]
    relations: list[Relation]
    first: LongArray
    edges: dict[Relation, LongArray]
    weights: dict[Relation, Any]

    @classmethod
    def of(
        cls, data: HeteroData, types: Sequence[str] | None = None, relations: Sequence[Relation] | None = None
    ) -> UnionGraph:
        """Read the nodes and edges of a heterogeneous graph.

        Args:
            data: Graph, not a batch.
            types: Order of the types of nodes; that of the graph if ``None``.
            relations: Order of the relations; that of the graph if ``None``.

        Raises:
            DatasetError: If the graph is a batch, or if nodes or edges are missing or wrong.
        """
        if any("batch" in store for store in data.node_stores):
            raise DatasetError(
                "the graph is a batch: expected one heterogeneous graph",
                hint="coarsen graphs before they are joined",
            )
        types = list(data.node_types if types is None else types)
        relations = list(data.edge_types if relations is None else relations)
        sizes = []
        for name in types:
            size = data[name].num_nodes
            if size is None:
                raise DatasetError(
                    f"the number of nodes of type {name!r} is not known: expected 'x' or 'num_nodes', got neither"
                )
            sizes.append(int(size))
        first = offsets(sizes)
        edges, weights = {}, {}
        for relation in relations:
            index = data[relation].get("edge_index")
            if not isinstance(index, Tensor) or index.dim() != 2 or index.size(0) != 2:
                raise DatasetError(
                    f"relation {'-'.join(relation)} has no edges: expected an edge_index of shape [2, E]"
                )
            ends = index.detach().cpu().numpy().astype(np.int64)
            for row, kind in zip(ends, (relation[0], relation[2]), strict=True):
                if kind not in types:
                    raise DatasetError(
                        f"relation {'-'.join(relation)} has ends of type {kind!r}, which the graph does not have"
                    )
                size = sizes[types.index(kind)]
                if len(row) and not (row.min() >= 0 and row.max() < size):
                    raise DatasetError(
                        f"relation {'-'.join(relation)} has a wrong id: expected ids of type {kind!r} in [0, {size}), got "
                        f"{row.min()} to {row.max()}"
                    )
                row += first[types.index(kind)]
            edges[relation] = ends
            weight = data[relation].get("edge_weight")
            weights[relation] = None if weight is None else weight.detach().cpu().flatten().numpy()
        return cls(types, relations, first, edges, weights)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all types."""
        return int(self.first[-1])

    def weight_type(self, relation: Relation) -> Any:
        """Return the type of the weights of a relation."""
        weight = self.weights[relation]
        return np.float64 if weight is not None and weight.dtype == np.float64 else np.float32

    @property
    def node_type(self) -> LongArray:
        """``[N]`` type of each node."""
        return run_ids(self.first)

    def blocks(self) -> dict[Relation, BlockCSR]:
        """Return the edges of each relation as rows over all nodes."""
        return {
            relation: BlockCSR.from_edge_index(ends, self.weights[relation], num_nodes=self.num_nodes)
            for relation, ends in self.edges.items()
        }
