"""Heterogeneous graphs of a store: divide gathered arrays by type and relation, and make ``HeteroData`` and batches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, HeteroData

from tgp.data.attributes import as_tensor, graph_ids, special_value, type_select_output
from tgp.data.choices import stored_level_fields
from tgp.data.columns import values_by_graph
from tgp.data.convert import NODE_KEYS
from tgp.engine.carry import CarryRules
from tgp.errors import InputError, StoreDamagedError, UnknownNameError
from tgp.kernels.array_types import LongArray
from tgp.ragged import Field, Level
from tgp.ragged.types import (
    EDGE_TYPE,
    NODE_TYPE,
    TypedEdges,
    TypedNodes,
    TypeTable,
    check_typed_rows,
    first_merged_types,
)
from tgp.store.read.batch_plan import BatchArrays
from tgp.store.read.reader import StoreReader

__all__ = ["TypedGraphs", "choose_typed", "choose_typed_fields"]

Owner = tuple[str, int]

NEEDED = ("edge_index", NODE_TYPE, EDGE_TYPE)


def choose_typed(
    reader: StoreReader,
    hierarchy: str | None,
    fields: Collection[str] | None,
    level_fields: Collection[str] | None,
    carry: CarryRules,
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return the fields of heterogeneous graphs and of their levels to read.

    Args:
        reader: Store of heterogeneous graphs.
        hierarchy: Name of the hierarchy, or ``None``.
        fields: Attributes of the graphs; ``None`` for all.
        level_fields: Attributes of the levels; ``None`` for all.
        carry: Rules for attributes that are computed when graphs are read.

    Raises:
        InputError: If there are rules.
        UnknownNameError: If there is no such attribute.
    """
    types = reader.manifest.spec.types
    assert types is not None
    if carry:
        raise InputError(
            "carry is not possible for a store of heterogeneous graphs: expected None",
            field="carry",
            hint="store the attributes of the levels: tgp.coarsen(..., carry=...)",
        )
    of_levels = stored_level_fields(reader, hierarchy)
    return (
        choose_typed_fields(fields, reader.fields, types, ("num_nodes",)),
        choose_typed_fields(level_fields, of_levels, types, ("edge_weight",)),
    )


def choose_typed_fields(
    names: Collection[str] | None, stored: Iterable[str], types: TypeTable, kept: Collection[str]
) -> tuple[str, ...] | None:
    """Return the fields to read.

    Args:
        names: Attributes of any type or relation, such as ``x``, or fields, such as ``nodes/film/x``; ``None`` for all.
        stored: Fields of the graphs or of the levels.
        types: Names of the types and relations.
        kept: Attributes that are always read.

    Raises:
        InputError: If ``names`` is one text.
        UnknownNameError: If there is no such attribute.
    """
    if names is None:
        return None
    if isinstance(names, str):
        raise InputError(f"fields must be a list of names, got the string {names!r}", field="fields")
    short = {name: (typed.name if (typed := types.parse(name)) else name) for name in stored}
    for name in names:
        if name not in short and name not in short.values():
            raise UnknownNameError("attribute", name, {*short, *short.values()})
    wanted = {*names, *kept, *NEEDED}
    return tuple(name for name in short if name in wanted or short[name] in wanted)


@dataclass(frozen=True, eq=False)
class _Part:
    """Input graphs or one level, divided by type and relation.

    Args:
        nodes: Nodes.
        edges: Edges.
        fields: Attributes of each type, of each relation, and of the graphs (``("graph", 0)``).
        clusters: Supernode among those of the same type of each node of a type, by type. Empty for input graphs.
    """

    nodes: TypedNodes
    edges: TypedEdges
    fields: Mapping[Owner, Mapping[str, Field]]
    clusters: Sequence[LongArray] = ()

    def counts(self, number: int) -> list[int]:
        """Return the number of nodes of a type in each graph."""
        found: list[int] = np.diff(self.nodes.ptrs[number]).tolist()
        return found


class TypedGraphs(Sequence[HeteroData]):
    """Heterogeneous graphs of a batch that were read together.

    Args:
        arrays: Arrays of the graphs and of all levels up to the last one that is needed.
        types: Names of the types and relations.
        levels: Positions of the levels that the graphs get.
        location: Location of the store, for messages.

    Raises:
        StoreDamagedError: If types, relations or numbers of rows do not fit together, or if a supernode has nodes of two types.
    """

    def __init__(
        self, arrays: BatchArrays, types: TypeTable, levels: Sequence[int], location: str = ""
    ) -> None:
        self.types, self.levels = types, tuple(levels)
        self._count = len(arrays.node_ptr) - 1
        self._graphs: list[HeteroData] | None = None
        try:
            self._parts = list(self._divide(arrays))
        except InputError as error:
            raise StoreDamagedError(
                f"{location}: {error}", path=location, item=getattr(error, "field", None)
            ) from error

    def _divide(self, arrays: BatchArrays) -> Iterable[_Part]:
        fields = arrays.fields
        edges = fields["edge_index"]
        part = self._make_part(fields, edges.values, edges.ptr, arrays.node_ptr, of_level=False)
        yield part
        for number, level in enumerate(arrays.levels, 1):
            after = self._make_part(
                level.fields, level.edge_index, level.edge_ptr, level.super_ptr, of_level=True
            )
            part = replace(after, clusters=self._clusters(level, part, after, number))
            yield part

    def _make_part(
        self,
        fields: Mapping[str, Field],
        index: LongArray,
        edge_ptr: LongArray,
        node_ptr: LongArray,
        *,
        of_level: bool,
    ) -> _Part:
        types = self.types
        nodes = TypedNodes(fields[NODE_TYPE].values, node_ptr, len(types.nodes))
        edges = TypedEdges(index, fields[EDGE_TYPE].values, edge_ptr, nodes, types)
        check_typed_rows(fields, types, nodes, edges, of_level=of_level)
        owned: dict[Owner, dict[str, Field]] = {}
        for name, field in fields.items():
            if name not in NEEDED:
                typed = types.parse(name)
                owner = ("graph", 0) if typed is None else (typed.owner, typed.number)
                owned.setdefault(owner, {})[name if typed is None else typed.name] = field
        return _Part(nodes, edges, owned)

    def _clusters(self, level: Level, before: _Part, after: _Part, number: int) -> list[LongArray]:
        cluster = level.assignment.cluster
        assert cluster is not None, "the manifest says that levels of heterogeneous graphs are hard"
        wrong = first_merged_types(before.nodes.node_type, after.nodes.node_type, cluster)
        if wrong is not None:
            raise InputError(
                f"level {number} merges nodes of different types: expected supernodes of one type, got another type for "
                f"node {wrong} of the batch",
                field="cluster",
            )
        place = np.append(after.nodes.local, -1)
        return [place[cluster[before.nodes.mask(kind)]] for kind in range(len(self.types.nodes))]

    def _kept(self) -> list[tuple[_Part, _Part]]:
        """Return each level that the graphs get with the nodes that it pools."""
        return [(self._parts[level], self._parts[level + 1]) for level in self.levels]

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> Any:
        return list, (list(self),)

    def __getitem__(self, idx: Any) -> Any:
        if self._graphs is None:
            self._graphs = self._make_graphs(self._parts[0], is_level=False)
            levels = [self._make_levels(before, after) for before, after in self._kept()]
            if levels:
                for graph, own in zip(self._graphs, zip(*levels, strict=True), strict=True):
                    graph["pooled_data"] = list(own)
        return self._graphs[idx]

    def _make_graphs(self, part: _Part, *, is_level: bool) -> list[HeteroData]:
        """Return single graphs without levels."""
        graphs = [HeteroData() for _ in range(self._count)]
        for key, owner in self._owners():
            columns = {name: values_by_graph(f) for name, f in part.fields.get(owner, {}).items()}
            if owner[0] == "nodes" and _needs_num_nodes(part, owner, is_level):
                columns.setdefault("num_nodes", part.counts(owner[1]))
            if owner[0] == "edges":
                ends = part.edges.local(owner[1]) - _starts(self.types, part, owner[1])
                counts = np.diff(part.edges.ptrs[owner[1]]).tolist()
                columns["edge_index"] = list(torch.from_numpy(ends).split(counts, dim=1))
            for graph, row in zip(graphs, zip(*columns.values(), strict=True), strict=bool(columns)):
                store = graph._global_store if key is None else graph[key]
                for name, value in zip(columns, row, strict=True):
                    store[name] = value
        return graphs

    def _make_levels(self, before: _Part, after: _Part) -> list[HeteroData]:
        graphs = self._make_graphs(after, is_level=True)
        for number, name in enumerate(self.types.nodes):
            nodes, supers = before.nodes.ptrs[number], after.nodes.ptrs[number]
            for i, graph in enumerate(graphs):
                own = after.clusters[number][nodes[i] : nodes[i + 1]]
                local = np.where(own < 0, -1, own - supers[i])
                graph[name].so = type_select_output(local, int(supers[i + 1] - supers[i]))
        return graphs

    def to_batch(self) -> Batch:
        """Return the batch of the graphs, as :func:`~tgp.data.hetero.join_hetero` joins them, without work per graph."""
        batch = self._make_batch(self._parts[0], is_level=False)
        levels = []
        for _, after in self._kept():
            level = self._make_batch(after, is_level=True)
            for number, name in enumerate(self.types.nodes):
                supers = int(after.nodes.ptrs[number][-1])
                level[name].so = type_select_output(after.clusters[number], supers)
            levels.append(level)
        if levels:
            batch["pooled_data"] = levels
        return batch

    def _make_batch(self, part: _Part, *, is_level: bool) -> Batch:
        batch = Batch(_base_cls=HeteroData)
        slices: dict[Any, Any] = {}
        incs: dict[Any, Any] = {}
        for key, owner in self._owners():
            fields = part.fields.get(owner, {})
            store = batch._global_store if key is None else batch[key]
            own_slices = slices if key is None else slices.setdefault(key, {})
            own_incs = incs if key is None else incs.setdefault(key, {})
            for name, field in fields.items():
                if name != "num_nodes":
                    store[name] = _batch_value(field)
                    own_slices[name], own_incs[name] = _slices(field), None
            if owner[0] == "nodes":
                if _needs_num_nodes(part, owner, is_level) or "num_nodes" in fields:
                    store._num_nodes = part.counts(owner[1])
                    store["num_nodes"] = int(part.nodes.ptrs[owner[1]][-1])
                store["batch"] = graph_ids(part.nodes.ptrs[owner[1]])
                store["ptr"] = torch.from_numpy(part.nodes.ptrs[owner[1]].copy())
            if owner[0] == "edges":
                store["edge_index"] = torch.from_numpy(part.edges.local(owner[1]))
                own_slices["edge_index"] = torch.from_numpy(part.edges.ptrs[owner[1]].copy())
                ends = self.types.ends[owner[1]]
                starts = np.stack([part.nodes.ptrs[end][:-1] for end in ends], axis=1)
                own_incs["edge_index"] = torch.from_numpy(starts).unsqueeze(-1)  # [B, 2, 1]
        batch._num_graphs, batch._slice_dict, batch._inc_dict = self._count, slices, incs
        return batch

    def _owners(self) -> list[tuple[Any, Owner]]:
        """Return the key of each store of a ``HeteroData`` (``None`` for the graph) with the owner of its attributes."""
        found: list[tuple[Any, Owner]] = [(None, ("graph", 0))]
        found += [(name, ("nodes", number)) for number, name in enumerate(self.types.nodes)]
        return found + [(names, ("edges", number)) for number, names in enumerate(self.types.relations)]


def _needs_num_nodes(part: _Part, owner: Owner, is_level: bool) -> bool:
    """Return True if no attribute tells PyG the number of nodes of a type. Levels always have an explicit number."""
    fields = part.fields.get(owner, {})
    return is_level or not any(f.form == "rows" and n in NODE_KEYS for n, f in fields.items())


def _starts(types: TypeTable, part: _Part, relation: int) -> LongArray:
    """Return the first node of the graph of each edge of a relation, for both ends."""
    counts = np.diff(part.edges.ptrs[relation])
    return np.stack([np.repeat(part.nodes.ptrs[end][:-1], counts) for end in types.ends[relation]])


def _batch_value(field: Field) -> Any:
    return special_value(field)[0] if field.form in ("float", "str", "json") else as_tensor(field.values)


def _slices(field: Field) -> Tensor:
    if field.form == "rows":
        return torch.from_numpy(np.array(field.ptr, np.int64))
    return torch.arange(field.num_graphs + 1)
