"""Settings of a run on heterogeneous graphs."""

from __future__ import annotations

from collections.abc import Sequence

from tgp.build.config import CoarsenConfig
from tgp.engine.schedule import Schedule
from tgp.engine.typed_levels import check_methods
from tgp.errors import InputError
from tgp.ragged.types import Relation, TypeTable, parse_relations

__all__ = ["typed_settings"]


def typed_settings(
    config: CoarsenConfig, types: TypeTable | None, schedules: Sequence[Schedule]
) -> tuple[tuple[Relation, ...] | None, str | None]:
    """Return the relations on which supernodes depend and the edges that methods see; ``None`` for one type of nodes.

    Args:
        config: Settings of the run.
        types: Types and relations of the graphs, or ``None``.
        schedules: Schedules of the run.

    Raises:
        InputError: If a setting does not fit to the graphs.
        UnknownNameError: If a relation does not exist.
    """
    if types is None:
        for name in ("relations", "type_graph"):
            if getattr(config, name):
                raise InputError(
                    f"{name} has no effect: expected heterogeneous graphs (HeteroData), got graphs with one type of nodes",
                    field=name,
                    hint=f"leave it out, or give graphs of type HeteroData to use {name}",
                )
        return None, None
    for schedule in schedules:
        check_methods(schedule)
        if schedule.open_ended:
            raise InputError(
                f"{schedule} has no number of levels: expected one for heterogeneous graphs",
                field="poolers",
                hint=f"write {str(schedule).rstrip('*')}*3 for three levels",
            )
    if config.only_levels is not None:
        raise InputError(
            "only_levels is not possible for heterogeneous graphs: expected all levels to be stored",
            field="only_levels",
            hint="read some of them with PooledDataset(..., levels=[2])",
        )
    return parse_relations(config.relations or None, types.relations), config.type_graph or "auto"
