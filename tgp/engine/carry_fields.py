"""Compute the attributes of the levels of a hierarchy from those of the input graphs."""

from __future__ import annotations

from collections.abc import Sequence

from tgp.engine.carry import CarryStep
from tgp.ragged import GraphTable, Hierarchy

__all__ = ["carry_fields"]


def carry_fields(table: GraphTable, hierarchy: Hierarchy, steps: Sequence[CarryStep]) -> Hierarchy:
    """Return the hierarchy with attributes on its levels.

    Every level is reduced from the input graphs. The result of a graph does not depend on the other graphs.

    Args:
        table: Input graphs, with the attributes that the steps name.
        hierarchy: Levels of the same graphs.
        steps: Attributes of the levels, from :func:`~tgp.engine.carry.resolve`.

    Returns:
        A hierarchy whose levels have ``fields``. The hierarchy itself without steps.
    """
    raise NotImplementedError
