"""Stores that keep some levels only: a stored level may be several steps at once.

``graclus*4`` with levels 1 and 3 kept is a hierarchy of two levels, each the composition of two matchings.
In the stored schedule such a level is ``{"method": "graclus+graclus", "levels": [...]}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tgp.engine.schedule import Schedule
from tgp.errors import InputError
from tgp.ragged import Assignment, Hierarchy, Level

__all__ = ["select_levels", "keep_levels", "unfold"]

LevelJson = dict[str, Any]


def select_levels(schedule: Schedule, kept: Sequence[int] | None) -> list[LevelJson]:
    """The stored form of a schedule of which the levels ``kept`` are stored; all if ``None``.

    Raises:
        InputError: a level does not exist, or a dense assignment would have to be composed.
    """
    levels = schedule.to_json()
    if kept is None:
        return levels
    if not kept or list(kept) != sorted(set(kept)) or not 0 <= kept[0] <= kept[-1] < len(levels):
        raise InputError(
            f"the levels to keep must be ascending numbers from 1 to {len(levels)}, got {[k + 1 for k in kept]}",
            field="only_levels",
        )
    dense = {spec.method for spec in schedule if spec.level_method.expected.fixed_k}
    folded, start = [], 0
    for last in kept:
        steps = levels[start : last + 1]
        names = [str(step["method"]) for step in steps]
        if len(steps) > 1 and dense & set(names):
            raise _not_one(start, names, dense & set(names))
        folded.append(steps[0] if len(steps) == 1 else {"method": "+".join(names), "levels": steps})
        start = last + 1
    return folded


def unfold(stored: Sequence[LevelJson]) -> tuple[Schedule, list[int]]:
    """The schedule to run for a stored one, and how many of its steps make each stored level."""
    steps = [level.get("levels", [level]) for level in stored]
    return Schedule.from_json([step for level in steps for step in level]), [len(level) for level in steps]


def _not_one(start: int, names: Sequence[str], dense: set[str]) -> InputError:
    return InputError(
        f"levels {start + 1} to {start + len(names)} ({', '.join(names)}) cannot be stored as one: "
        f"{', '.join(sorted(dense))} has a dense assignment",
        field="only_levels",
        hint="keep each of these levels",
    )


def keep_levels(hierarchy: Hierarchy, lengths: Sequence[int]) -> Hierarchy:
    """Join runs of ``lengths`` levels to one level each.

    Raises:
        InputError: a level has a dense assignment, which its method may not have told :func:`select_levels`.
    """
    if all(length == 1 for length in lengths):
        return hierarchy
    levels, start = [], 0
    for length in lengths:
        run = hierarchy.levels[start : start + length]
        dense = {level.method for level in run if level.assignment.kind != "hard"}
        if length > 1 and dense:
            raise _not_one(start, [level.method for level in run], dense)
        assignment = run[0].assignment
        for level in run[1:]:
            assignment = _compose(assignment, level.assignment)
        method = "+".join(level.method for level in run)
        levels.append(Level(method, run[0].node_ptr, assignment, run[-1].block, run[-1].weight_dtype))
        start += length
    return Hierarchy(hierarchy.node_ptr, tuple(levels))


def _compose(first: Assignment, second: Assignment) -> Assignment:
    """``S = S1 S2`` for hard assignments: a node goes where its supernode goes."""
    assert first.cluster is not None and second.cluster is not None
    inside = first.cluster >= 0
    cluster = np.full(len(first.cluster), -1, np.int32)
    cluster[inside] = second.cluster[first.cluster[inside]]
    weight = None
    if first.weight is not None or second.weight is not None:
        weight = np.ones(len(cluster), np.float32) if first.weight is None else first.weight.copy()
        if second.weight is not None:
            weight[inside] *= second.weight[first.cluster[inside]]
    representative = None
    if first.representative is not None and second.representative is not None:
        representative = first.representative[second.representative]
    return Assignment("hard", second.super_ptr, cluster, weight, representative=representative)
