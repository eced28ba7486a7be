"""Compute the levels of the graphs of one unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from tgp.engine.carry import CarryStep, input_names
from tgp.engine.coarsening import GraphFailure, coarsen_with_failures
from tgp.engine.schedule import Schedule
from tgp.engine.type_graph import TypeGraph
from tgp.engine.typed_table import coarsen_table, typed_inputs
from tgp.ragged import GraphTable, Hierarchy
from tgp.ragged.types import TypeTable
from tgp.sources.tables import weight_type
from tgp.store import StoreSpec

__all__ = ["coarsen_unit", "needed_fields"]


def coarsen_unit(
    graphs: GraphTable,
    schedule: Schedule,
    spec: StoreSpec,
    name: str,
    *,
    steps: Sequence[CarryStep] = (),
    metrics: bool = False,
) -> tuple[Hierarchy, list[GraphFailure], dict[str, Any] | None]:
    """Return the levels of some graphs, the graphs that failed, and the quality figures.

    Args:
        graphs: Graphs, with the attributes that :func:`needed_fields` names.
        schedule: Levels.
        spec: Specification of the store.
        name: Name of the hierarchy.
        steps: Attributes of the levels.
        metrics: True to compute quality figures. Those of heterogeneous graphs are about the edges of all relations together.
    """
    wanted = spec.hierarchy(name)
    if spec.types is not None:
        hierarchy, failed, block, measured = coarsen_table(
            graphs,
            spec.types,
            schedule,
            wanted.seed,
            relations=wanted.relations or (),
            type_graph=cast(TypeGraph, wanted.type_graph),
            steps=steps,
        )
    else:
        block, dtype = graphs.to_block(schedule.needs), weight_type(graphs)
        hierarchy, failed = coarsen_with_failures(block, schedule, wanted.seed, weight_dtype=dtype)
        measured = hierarchy
    figures = None
    if metrics:
        from tgp.engine.metrics import hierarchy_metrics

        figures = hierarchy_metrics(block, measured)
    if steps and spec.types is None:
        from tgp.engine.carry_fields import carry_fields

        hierarchy = carry_fields(graphs, hierarchy, steps)
    return hierarchy, failed, figures


def needed_fields(
    steps: Sequence[CarryStep], types: TypeTable | None, needs: Iterable[str] = ()
) -> list[str]:
    """Return the attributes of the graphs that coarsening needs in addition to edges and weights.

    Args:
        steps: Attributes of the levels.
        types: Types and relations of heterogeneous graphs, or ``None``.
        needs: Attributes of nodes that methods need.
    """
    if types is not None:
        return typed_inputs(types, steps, needs)
    return list(dict.fromkeys([*input_names(steps), *needs]))
