"""Compute attributes of levels when graphs are read, for stores that do not contain them."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.data.attributes import shift_values
from tgp.data.choices import stored_level_fields
from tgp.engine.carry import CarryRules, CarryStep, input_names, resolve_attributes
from tgp.engine.carry_attributes import Attribute, describe_attributes, value_kind
from tgp.engine.carry_fields import carry_fields
from tgp.errors import TgpError
from tgp.ragged import Field, GraphTable, Hierarchy
from tgp.store.format.schema import FieldInfo, HierarchyInfo, PtrKind
from tgp.store.read.batch_layout import FieldColumn
from tgp.store.read.batch_plan import BatchArrays, BatchPlan
from tgp.store.read.reader import StoreReader

__all__ = ["CarryBatchPlan", "missing_steps"]


def missing_steps(reader: StoreReader, info: HierarchyInfo, rules: CarryRules) -> tuple[CarryStep, ...]:
    """Return the attributes of rules that a store does not contain.

    Args:
        reader: Reader of the store.
        info: Description of a hierarchy.
        rules: Rules of the attributes.

    Raises:
        UnknownNameError: If the graphs do not have an attribute of the rules.
        InputError: If a rule does not fit its attribute.
    """
    facts = _describe_store(reader, rules)
    stored: tuple[CarryStep, ...] = ()
    with contextlib.suppress(TgpError):  # rules of another version
        former = CarryRules.parse(info.carry)
        texts = {name for name, _ in former.reductions if reader.field_info(name).is_text}
        known = {name: Attribute("node", "text") for name in texts - {name for name, _ in rules.reductions}}
        stored = resolve_attributes(former, facts | known)
    present = [field.name for level in info.levels for field in level.fields]
    kept = {step for step in stored if step.name in present}
    return tuple(step for step in resolve_attributes(rules, facts) if step not in kept)


def _describe_store(reader: StoreReader, rules: CarryRules) -> dict[str, Attribute]:
    """Return facts about the attributes of the graphs of a store. Only texts that the rules name are read."""
    texts = [name for name, _ in rules.reductions if name in reader.fields and reader.fields[name].is_text]
    facts = {name: _describe_field(info) for name, info in reader.fields.items()}
    if texts:
        names = [*texts, *(["edge_index"] if "edge_index" in reader.fields else [])]
        table = reader.gather_graphs(np.arange(reader.num_graphs), names)
        facts |= {name: describe_attributes(table, texts)[name] for name in texts}
    return facts


def _describe_field(info: FieldInfo) -> Attribute:
    if info.form != "rows" or info.axis != 0:
        return Attribute("graph", "other", ids=info.shifted)
    kind, is_edge = value_kind(info.dtype), "edge" in info.ptrs
    if is_edge and ("node" not in info.ptrs or "edge" in info.name):
        owner: Any = "edge"
    elif "node" in info.ptrs:
        owner = "node"
    else:
        return Attribute("graph", kind, rows="" if "graph" in info.ptrs else "another number of rows")
    ids = info.shifted or "batch" in info.name
    ambiguous = owner == "node" and "graph" in info.ptrs
    return Attribute(owner, kind, ids, ambiguous, 1 + len(info.tail))


class CarryBatchPlan:
    """Gather plan that computes attributes of the levels of each batch.

    The attributes are those that ``tgp coarsen --carry`` stores, bit for bit. They are computed again whenever graphs are
    read, which needs all input attributes of the steps and all levels up to the last one.

    Args:
        plan: Plan that gathers the input attributes of the steps, and all levels up to the last one.
        steps: Attributes to compute.
        fields: Attributes of the input graphs that batches have.
        levels: Positions of the levels that batches have.
    """

    def __init__(
        self, plan: BatchPlan, steps: Sequence[CarryStep], fields: Collection[str], levels: Collection[int]
    ) -> None:
        self.plan = plan
        self.steps = tuple(steps)
        self._layout = copy.copy(plan.layout)
        self._layout.field_columns = [c for c in plan.layout.field_columns if c[0].name in fields]
        self._shown = [n for n, (number, _) in enumerate(plan.layout.levels) if number in levels]
        self._layout.levels = tuple(plan.layout.levels[n] for n in self._shown)
        self._layout.level_columns = [plan.layout.level_columns[n] for n in self._shown]
        steps_shown = (0, *(number + 1 for number, _ in self._layout.levels))
        self._layout.batch_columns = [plan.layout.index["batch", step] for step in steps_shown]
        self._is_complete = False
        self.open_all = plan.open_all
        self.read_ahead = plan.read_ahead
        self.expect_random_order = plan.expect_random_order

    @classmethod
    def open(
        cls,
        reader: StoreReader,
        hierarchy: str,
        levels: Sequence[int],
        fields: Collection[str],
        level_fields: Collection[str] | None,
        steps: Sequence[CarryStep],
    ) -> CarryBatchPlan:
        """Return the plan for some graphs and levels of a store.

        Args:
            reader: Reader of the store.
            hierarchy: Name of the hierarchy.
            levels: Positions of the levels that batches have, ascending.
            fields: Attributes of the input graphs that batches have.
            level_fields: Stored attributes of the levels that batches have; all if ``None``.
            steps: Attributes to compute. They replace stored attributes of the same name.
        """
        names = list(dict.fromkeys([*fields, *input_names(steps)]))
        stored = stored_level_fields(reader, hierarchy) if level_fields is None else level_fields
        kept = [name for name in stored if name not in {step.name for step in steps}]
        plan = reader.batch_plan(hierarchy, range(levels[-1] + 1), names, level_fields=kept)
        return cls(plan, steps, fields, levels)

    def gather(self, ids: npt.ArrayLike) -> BatchArrays:
        """Return the batch of the given graphs; see :meth:`~tgp.store.read.batch_plan.BatchPlan.gather`."""
        arrays = self.plan.gather(ids)
        made = carry_fields(self._table(arrays), self._hierarchy(arrays), self.steps)
        computed = [dict(made.levels[n].fields) for n in self._shown]
        columns, ptrs = list(arrays.columns), [arrays.ptrs]
        added: list[tuple[FieldColumn, ...]] = []
        for found, level in zip(computed, self._base_columns(), strict=True):
            _, supers, edges = level.offsets
            described: list[FieldColumn] = []
            for name, field in found.items():
                owner = next(step.owner for step in self.steps if step.name == name)
                rows, values = supers if owner == "node" else edges, field.values
                if field.form != "rows" or field.shifted:
                    rows = sum(map(len, ptrs))
                    ptrs.append(field.ptr[None])
                if field.shifted:
                    values = shift_values(field, arrays.ptrs[edges][:-1], keep_negative=True)
                described.append((_field_info(field, "node"), len(columns), rows, False))
                columns.append(np.ascontiguousarray(values))
            added.append(tuple(described))
        if not self._is_complete:
            self._complete(added)
        dropped = arrays.dropped
        if dropped is not None:
            dropped = np.concatenate([dropped, np.zeros(len(columns) - len(dropped), dropped.dtype)])
        return BatchArrays(columns, np.concatenate(ptrs), self._layout, dropped)

    def _base_columns(self) -> list[Any]:
        return [self.plan.layout.level_columns[n] for n in self._shown]

    def _complete(self, added: Sequence[tuple[FieldColumn, ...]]) -> None:
        """Add the computed attributes to the layout. They are the same in all batches."""
        self._layout.level_columns = [
            level._replace(fields=(*level.fields, *more))
            for level, more in zip(self._base_columns(), added, strict=True)
        ]
        self._is_complete = True

    def _table(self, arrays: BatchArrays) -> GraphTable:
        """Return the input attributes of the steps, with node ids that are local to each graph."""
        names, fields = input_names(self.steps), arrays.fields
        found = {}
        for name in names:
            field = fields[name]
            if field.shifted:
                field = replace(field, values=shift_values(field, -arrays.node_ptr[:-1]))
            found[name] = field
        return GraphTable(arrays.node_ptr, found)

    @staticmethod
    def _hierarchy(arrays: BatchArrays) -> Hierarchy:
        return Hierarchy(arrays.node_ptr, tuple(replace(level, fields={}) for level in arrays.levels))


def _field_info(field: Field, ptr: PtrKind) -> FieldInfo:
    ptrs: tuple[PtrKind, ...] = (ptr,) if field.form == "rows" and not field.shifted else ("own",)
    dtype, tail = field.values.dtype.name, field.values.shape[1:]
    return FieldInfo(field.name, dtype, tail, 0, field.form, field.shifted, ptrs)
