"""Check the types of nodes and the relations of the graphs and levels of one shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tgp.errors import InputError
from tgp.kernels.array_types import Array, LongArray
from tgp.ragged import Field
from tgp.ragged.offsets import find_run
from tgp.ragged.types import (
    EDGE_TYPE,
    NODE_TYPE,
    TypedEdges,
    TypedNodes,
    check_typed_rows,
    first_merged_types,
)
from tgp.store.contraction_check import first_wrong_contraction, is_plain_sum, unit_edges, unit_ids
from tgp.store.format.codec import restore
from tgp.store.format.manifest import Manifest
from tgp.store.format.schema import FieldInfo, LevelInfo
from tgp.store.read.contents import GraphsPart, HierarchyPart, level_field_path
from tgp.store.read.parts import OpenPart

__all__ = ["TypedUnit"]


class TypedUnit:
    """Graphs of a shard, and then their levels one after the other, divided by type and relation.

    Args:
        graphs: Graphs of the shard. Their edges were checked.
        manifest: Manifest of the store.

    Raises:
        StoreDamagedError: If types, relations or numbers of rows do not fit together.
    """

    def __init__(self, graphs: GraphsPart, manifest: Manifest) -> None:
        types = manifest.spec.types
        assert types is not None and graphs.edge_ptr is not None, "the manifest was checked"
        self.types = types

        def offsets_of(info: FieldInfo) -> Array:
            path = graphs.ptrs[info.name]
            return graphs.array(path) if path else np.arange(graphs.count + 1)

        fields = _read_fields(graphs, manifest.fields, graphs.path, offsets_of)
        index = graphs.array(graphs.path("edge_index"))
        with _damage_of(graphs, "/fields"):
            self._set(fields, index, graphs.edge_ptr, graphs.node_ptr, of_level=False)

    def _set(
        self,
        fields: Mapping[str, Field],
        index: Array,
        edge_ptr: Array,
        node_ptr: Array,
        *,
        of_level: bool,
    ) -> None:
        """Divide the nodes and edges of the next level. Ids of ``index`` are local to their graph."""
        self.fields, self.index = fields, index
        self.nodes = TypedNodes(fields[NODE_TYPE].values, node_ptr, len(self.types.nodes))
        edge_type = fields[EDGE_TYPE].values
        starts: LongArray = node_ptr[:-1].astype(np.int64)
        ends: LongArray = edge_ptr.astype(np.int64)
        shift = np.repeat(starts, np.diff(ends))
        self.edges = TypedEdges(index.astype(np.int64) + shift, edge_type, edge_ptr, self.nodes, self.types)
        check_typed_rows(fields, self.types, self.nodes, self.edges, of_level=of_level)

    def check_level(
        self, part: HierarchyPart, number: int, level: LevelInfo, schedule: dict[str, Any]
    ) -> None:
        """Check the next level. Its ids were checked.

        Args:
            part: Levels of the shard.
            number: Position of the level.
            level: Its schema.
            schedule: Its entry in the schedule.

        Raises:
            StoreDamagedError: If types, relations or numbers of rows do not fit together, if a supernode has nodes of two types,
                or if the edges of a relation are not the contraction of its finer edges.
        """
        base, fine = f"/levels/{number}", (self.nodes, self.edges, self.fields, self.index)
        if not part.record.nodes[number] and level_field_path(number, NODE_TYPE) not in part.present:
            return  # all graphs failed

        def offsets_of(info: FieldInfo) -> Array:
            if info.ptr == "own":
                return part.array(level_field_path(number, info.name, "ptr"))
            return part.node_ptrs[number + 1] if info.ptr == "node" else part.edge_ptrs[number]

        fields = _read_fields(part, level.fields, lambda name: level_field_path(number, name), offsets_of)
        local = part.array(f"{base}/cluster")
        cluster = unit_ids(local, part.node_ptrs[number], part.node_ptrs[number + 1])
        with _damage_of(part, f"{base}/fields"):
            index = part.array(f"{base}/edge_index")
            self._set(fields, index, part.edge_ptrs[number], part.node_ptrs[number + 1], of_level=True)
        wrong = first_merged_types(fine[0].node_type, self.nodes.node_type, cluster)
        if wrong is not None:
            graph = find_run(fine[0].node_ptr, wrong)
            raise part.damaged(
                f"{base}/cluster", f"merges nodes of different types (row {graph} of the shard)"
            )
        if not is_plain_sum(schedule):
            return
        for relation, names in enumerate(self.types.relations):
            weight = self.types.edge_field(relation, "edge_weight")
            before, after = (
                unit_edges(
                    index[:, edges.edge_type == relation],
                    found[weight].values.reshape(-1) if weight in found else None,
                    edges.ptrs[relation],
                    nodes.node_ptr,
                )
                for nodes, edges, found, index in (fine, (self.nodes, self.edges, self.fields, self.index))
            )
            dtype = fields[weight].values.dtype.name if weight in fields else None
            row = first_wrong_contraction(before, after, local, schedule["params"], dtype)
            if row is not None or (weight in fine[2]) != (weight in fields):
                raise part.damaged(
                    f"{base}/edge_index",
                    f"is not the contraction of the finer edges of {'-'.join(names)} (row {row} of the shard)",
                )


def _read_fields(
    part: OpenPart,
    infos: Iterable[FieldInfo],
    path: Callable[[str], str],
    offsets_of: Callable[[FieldInfo], Array],
) -> dict[str, Field]:
    """Return the fields that decide about types and rows: values of types and weights, offsets of all others."""
    found = {}
    for info in infos:
        if info.name == "edge_index":
            continue
        ptr = offsets_of(info).astype(np.int64)
        values = restore(part.array(path(info.name)), info.dtype)
        found[info.name] = Field(info.name, values, ptr, info.axis, info.form)
    return found


@contextmanager
def _damage_of(part: OpenPart, path: str) -> Iterator[None]:
    """Report types that do not fit as damage of a file."""
    try:
        yield
    except InputError as error:
        raise part.damaged(f"{path}/{error.field or ''}".rstrip("/"), str(error)) from error
