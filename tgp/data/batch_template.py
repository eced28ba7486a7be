"""Templates of batches: everything about the batches of a dataset that does not depend on their graphs.

A batch consists of PyG objects with tens of attributes. Their names, order, forms and offsets follow from the layout of the
dataset. A :class:`BatchTemplate` computes them once. Filling it takes one tensor per array and a few dictionary updates per
level. What only splitting a batch into graphs needs is computed when it is first read, see
:class:`~tgp.data.fast_data.Splits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgp.data.attributes import as_tensor, graph_ids, select_output, shift_values, special_value
from tgp.data.collate import IDS_OR_NONE
from tgp.data.columns import is_joined_last, values_by_graph
from tgp.data.convert import NODE_KEYS
from tgp.data.fast_data import ONE_PER_GRAPH, Splits, clone_with
from tgp.kernels.array_types import Array
from tgp.ragged import Assignment, Field, GraphTable, Level
from tgp.select.base_select import SelectOutput
from tgp.store.read.batch_layout import FieldColumn, Layout
from tgp.store.read.batch_plan import BatchArrays

__all__ = ["BatchTemplate", "FieldPlan", "LevelPlan", "describe_layout", "describe_table"]


class FieldPlan(NamedTuple):
    """Attribute of the input graphs.

    Args:
        name: Name of the attribute.
        column: Position of its values in the arrays of a batch.
        rows: Row of the offsets that delimit it.
        axis: Axis along which graphs are concatenated.
        form: Form of the value of one graph, see :data:`tgp.ragged.FieldForm`.
        shifted: True if the values are node ids, or ids of edges of a level.
        ndim: Number of axes of the values.
    """

    name: str
    column: int
    rows: int
    axis: int
    form: Any
    shifted: bool
    ndim: int

    @property
    def is_plain(self) -> bool:
        """True if the attribute is the tensor of its values."""
        if self.form in ("str", "json", "float"):
            return False
        return not self.counts_graphs

    @property
    def counts_graphs(self) -> bool:
        """True if PyG counts the values through the batch, because the name contains 'batch'."""
        return not self.shifted and "batch" in self.name and self.form in ("rows", "stacked")


class LevelPlan(NamedTuple):
    """Pooled level of a batch. ``None`` stands for an array that is not read.

    Args:
        method: Name of the level method.
        kind: Kind of the assignment.
        rows: Rows of the offsets of nodes, supernodes and edges.
        node_batch: Column with the graph of each node that is pooled.
        batch: Column with the graph of each supernode.
        edge_index: Column of the edges.
        edge_weight: Column of the weights of the edges.
        assignment: Columns of the arrays of an :class:`~tgp.ragged.Assignment`, in the order of its arguments.
        fields: Attributes of the supernodes and edges.
    """

    method: str
    kind: Any
    rows: tuple[int, int, int]
    node_batch: int
    batch: int
    edge_index: int
    edge_weight: int | None
    assignment: tuple[int | None, ...]
    fields: tuple[FieldPlan, ...] = ()


class BatchTemplate:
    """Template of the batches of one layout.

    Args:
        fields: Attributes of the input graphs.
        levels: Pooled levels, finest first.
        batch: Column with the graph of each node of the input graphs.
        prototype: Batch without attributes.
    """

    def __init__(
        self, fields: Sequence[FieldPlan], levels: Sequence[LevelPlan], batch: int, prototype: Data
    ) -> None:
        self.batch = batch
        self._prototype = prototype
        self.fields = [plan for plan in fields if plan.name not in ("num_nodes", "ptr")]
        names = {plan.name for plan in fields}
        counted = any(plan.name in NODE_KEYS and plan.form == "rows" for plan in fields)
        self._has_num_nodes = "num_nodes" in names or not counted
        self._slices = {
            plan.name: ONE_PER_GRAPH if plan.form in ("str", "json") else plan.rows for plan in self.fields
        }
        self._incs = {plan.name: 0 if plan.shifted and plan.is_plain else None for plan in self.fields}
        self._forms = {plan.name: form for plan in self.fields if (form := _form(plan))}
        self._values = [(plan.name, plan.column, None if plan.is_plain else plan) for plan in self.fields]
        self.levels = [_LevelTemplate(level) for level in levels]

    def fill(self, arrays: BatchArrays, key: str = "pooled_data") -> Any:
        """Return a batch.

        Args:
            arrays: Arrays of the graphs and levels. Node ids count through the batch.
            key: Attribute for the levels.
        """
        columns, totals = arrays.columns, arrays.totals
        graphs = arrays.ptrs.shape[1] - 1
        ptrs = torch.from_numpy(arrays.ptrs)
        made: dict[int, Tensor] = {}
        mapping: dict[str, Any] = {}
        by_graph: dict[str, list[Any]] = {}
        incs: Mapping[str, Any] = self._incs
        for name, column, plan in self._values:
            if plan is None:
                mapping[name] = as_tensor(columns[column])
                continue
            field = Field(
                plan.name, columns[plan.column], arrays.ptrs[plan.rows], plan.axis, plan.form, plan.shifted
            )
            value, shift, parts = special_value(field)
            mapping[plan.name] = value
            if shift is not None:
                incs = {**incs, plan.name: shift}
            if parts is not None:
                by_graph[plan.name] = parts
        if self._has_num_nodes:
            mapping["num_nodes"] = totals[0]
        made[self.batch] = mapping["batch"] = torch.from_numpy(columns[self.batch])
        mapping["ptr"] = torch.from_numpy(arrays.ptrs[0])
        if self.levels:
            mapping[key] = [self._fill_level(level, arrays, ptrs, made, graphs) for level in self.levels]
        splits = Splits(ptrs, self._slices, incs, 0 if self._has_num_nodes else None, None)
        private = {"_forms": self._forms, "_by_graph": by_graph, "_num_graphs": graphs, "_splits": splits}
        return clone_with(self._prototype, mapping, private)

    def _fill_level(
        self, level: _LevelTemplate, arrays: BatchArrays, ptrs: Tensor, made: dict[int, Tensor], graphs: int
    ) -> Any:
        plan, columns = level.plan, arrays.columns
        mapping: dict[str, Any] = {"edge_index": as_tensor(columns[plan.edge_index])}
        if plan.edge_weight is not None:
            mapping["edge_weight"] = as_tensor(columns[plan.edge_weight])
        for field in plan.fields:
            value = columns[field.column]
            mapping[field.name] = as_tensor(value) if field.is_plain else _texts(field, arrays)
        made[plan.batch] = mapping["batch"] = torch.from_numpy(columns[plan.batch])
        node_batch = made.get(plan.node_batch)
        if node_batch is None:  # the levels between this one and the one before were not read
            node_batch = made[plan.node_batch] = torch.from_numpy(columns[plan.node_batch])
        so = level.assignment(arrays, node_batch, graphs)
        if so is not None:
            if plan.kind != "hard":
                mapping["mask"] = so.out_mask
            mapping["so"] = so
        supers = plan.rows[1]
        mapping["num_nodes"] = arrays.totals[supers]
        mapping["ptr"] = torch.from_numpy(arrays.ptrs[supers])
        splits = Splits(ptrs, level.slices, level.incs, supers, plan.rows[:2])
        private = {"_forms": level.forms, "_num_graphs": graphs, "_splits": splits}
        return clone_with(self._prototype, mapping, private)


class _LevelTemplate:
    """Parts that the batches of one level have in common.

    Args:
        plan: Description of the level.
    """

    def __init__(self, plan: LevelPlan) -> None:
        self.plan = plan
        _, supers, edges = plan.rows
        cluster, _, soft, theta, representative = plan.assignment
        self.slices = {"edge_index": edges}
        self.incs: dict[str, int | None] = {"edge_index": supers}
        if plan.edge_weight is not None:
            self.slices["edge_weight"], self.incs["edge_weight"] = edges, None
        for field in plan.fields:
            self.slices[field.name] = field.rows if field.is_plain else ONE_PER_GRAPH
            self.incs[field.name] = edges if field.shifted else None
        self.forms = {field.name: IDS_OR_NONE for field in plan.fields if field.shifted}
        self.slices["batch"], self.incs["batch"] = supers, ONE_PER_GRAPH
        self._has_assignment = cluster is not None or soft is not None
        if self._has_assignment and plan.kind != "hard":
            self.slices["mask"], self.incs["mask"] = ONE_PER_GRAPH, None
        self._state: dict[str, Any] | None = None
        if plan.kind == "hard" and cluster is not None and theta is None and representative is None:
            empty = torch.zeros(0, dtype=torch.int64)
            self._state = SelectOutput.hard(empty, 0, batch_size=0).__dict__

    def assignment(self, arrays: BatchArrays, node_batch: Tensor, graphs: int) -> SelectOutput | None:
        """Return the assignment of a batch, or ``None`` if the level is read without it."""
        if not self._has_assignment:
            return None
        cluster, weight = self.plan.assignment[:2]
        nodes, supers, _ = self.plan.rows
        if self._state is None or cluster is None or arrays.has_dropped(cluster):
            return self._converted(arrays, node_batch, graphs)
        so = SelectOutput.__new__(SelectOutput)
        state = so.__dict__
        state.update(self._state)
        state["_cluster_index"] = as_tensor(arrays.columns[cluster])
        if weight is not None:
            state["_weight"] = as_tensor(arrays.columns[weight])
        state["_num_nodes"], state["_num_supernodes"] = arrays.totals[nodes], arrays.totals[supers]
        state["batch"], state["batch_size"] = node_batch, graphs
        state["_extra_args"] = set()
        return so

    def _converted(self, arrays: BatchArrays, node_batch: Tensor, graphs: int) -> SelectOutput:
        """Return an assignment of any kind."""
        nodes, supers, _ = self.plan.rows
        parts = [None if column is None else arrays.columns[column] for column in self.plan.assignment]
        given = Assignment(self.plan.kind, arrays.ptrs[supers], *parts)
        return select_output(given, self.plan.method, arrays.ptrs[nodes], node_batch, graphs)


def _texts(plan: FieldPlan, arrays: BatchArrays) -> list[Any]:
    """Return an attribute of JSON texts: one value per graph."""
    ptr = arrays.ptrs[plan.rows]
    return values_by_graph(Field(plan.name, arrays.columns[plan.column], ptr, form=plan.form))


def _form(plan: FieldPlan) -> str | None:
    """Return the form of an attribute that a batch stores in another form than a graph, or ``None``."""
    if plan.form in ("int", "float", "bool", "stacked"):
        return str(plan.form)
    if (
        plan.form not in ("str", "json")
        and plan.axis == -1
        and plan.ndim > 1
        and not is_joined_last(plan.name)
    ):
        return "columns"
    return None


# -- descriptions of arrays -----------------------------------------------------------------------------------------


def describe_layout(layout: Layout) -> tuple[list[FieldPlan], list[LevelPlan], int]:
    """Return the fields and levels of the batches of a dataset, and the column with the graph of each node.

    Args:
        layout: Layout of the arrays, with node ids that count through the batch.
    """
    fields = _field_plans(layout.field_columns)
    levels = []
    for (number, _), found in zip(layout.levels, layout.level_columns, strict=True):
        before, after = layout.index["batch", number], layout.index["batch", number + 1]
        info = found.info
        arrays = (found.edge_index, found.edge_weight, found.assignment, _field_plans(found.fields))
        levels.append(LevelPlan(info.method, info.kind, found.offsets, before, after, *arrays))
    return list(fields), levels, layout.index["batch", 0]


def _field_plans(columns: Sequence[FieldColumn]) -> tuple[FieldPlan, ...]:
    return tuple(
        FieldPlan(info.name, column, rows, info.axis, info.form, info.shifted, 1 + len(info.tail))
        for info, column, rows, _ in columns
    )


def _level_values(field: Field, edge_ptr: Array) -> Array:
    """Return the values of an attribute of a level in a batch."""
    return shift_values(field, edge_ptr[:-1], keep_negative=True) if field.shifted else field.values


def describe_table(
    table: GraphTable, levels: Sequence[Level]
) -> tuple[BatchArrays, tuple[list[FieldPlan], list[LevelPlan], int]]:
    """Return flat arrays as those of a batch, and their description.

    Args:
        table: Input graphs. Node ids are local to each graph.
        levels: Pooled levels. Ids count through the batch.
    """
    columns: list[Any] = [graph_ids(table.node_ptr).numpy()]
    ptrs: list[Any] = [table.node_ptr]

    def add(array: Any) -> int:
        columns.append(array)
        return len(columns) - 1

    def add_offsets(ptr: Any) -> int:
        ptrs.append(ptr)
        return len(ptrs) - 1

    def plan_field(name: str, field: Field, values: Any) -> FieldPlan:
        rows = add_offsets(field.ptr)
        return FieldPlan(name, add(values), rows, field.axis, field.form, field.shifted, values.ndim)

    fields = []
    for name, field in table.fields.items():
        values = shift_values(field, table.node_ptr[:-1]) if field.shifted else field.values
        fields.append(plan_field(name, field, values))
    described = []
    nodes, node_batch = 0, 0
    for level in levels:
        if not np.array_equal(level.node_ptr, ptrs[nodes]):
            nodes, node_batch = add_offsets(level.node_ptr), add(graph_ids(level.node_ptr).numpy())
        given, edges = level.assignment, level.edges
        supers, edge_rows = add_offsets(given.super_ptr), add_offsets(edges.edge_ptr)
        batch = add(graph_ids(given.super_ptr).numpy())
        cluster = None if given.cluster is None else given.cluster.astype(np.int64, copy=False)
        parts = (cluster, given.weight, given.soft, given.theta, given.representative)
        described.append(
            LevelPlan(
                level.method,
                given.kind,
                (nodes, supers, edge_rows),
                node_batch,
                batch,
                add(edges.edge_index),
                None if edges.edge_weight is None else add(edges.edge_weight),
                tuple(None if part is None else add(part) for part in parts),
                tuple(
                    plan_field(name, field, _level_values(field, edges.edge_ptr))
                    for name, field in level.fields.items()
                ),
            )
        )
        nodes, node_batch = supers, batch
    return BatchArrays(columns, np.array(ptrs, np.int64)), (fields, described, 0)
