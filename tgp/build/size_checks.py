"""Compare the number of nodes of a level with the size that its schedule asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from tgp.build.level_checks import STALL, LevelFigures, Problem, part_text
from tgp.engine.target_size import count_kept
from tgp.kernels.array_types import LongArray

__all__ = ["REPLACED", "check_size"]

REPLACED = ("stalled", "singletons")
"""Kinds of problems of a level that follow from its size, so they are not reported in addition."""

MORE = 1.1
"""Nodes of a level / nodes that were asked for, above which a ratio counts as not reached."""

FEW_GRAPHS = 0.01
"""Share of the graphs below which a number of nodes that is not reached is not reported."""

Sizes = Callable[[int], LongArray]


class _Wish(NamedTuple):
    """Size that a schedule asks for.

    Args:
        text: Parameter as it is written in a schedule, for example ``nodes=10``.
        counts: Number of nodes of each graph; at most those of the level before.
        exact: True for a number of nodes, False for a ratio.
        other: Schedule of a method that merges nodes of different components.
    """

    text: str
    counts: LongArray
    exact: bool
    other: str


def check_size(level: LevelFigures, sizes: Sizes) -> Problem | None:
    """Return the problem of a level that has other sizes than its schedule asks for, or ``None``.

    Args:
        level: Figures of the level.
        sizes: Function from the number of a level to the number of nodes of each graph. Level 0 has the input graphs.
    """
    wish = _read_wish(level, sizes)
    active = level.active
    if wish is None or not active.any():
        return None
    method = level.method.split("+")[-1]
    kept = active & (wish.counts > STALL * level.before)
    if kept.sum() > active.sum() / 2:
        text = (
            f"Level {level.number} ({method}) hardly shrinks {part_text(int(kept.sum()), int(active.sum()), 'graph')}, because "
            f"{wish.text} asks for it: {int(level.nodes[kept].sum()):,} of {int(level.before[kept].sum()):,} nodes remain."
        )
        return Problem("stalled", text, "Ask for fewer nodes, or remove the level.")
    larger = active & (level.nodes > wish.counts)
    nodes, wanted = int(level.nodes[larger].sum()), int(wish.counts[larger].sum())
    if wish.exact:
        missed = larger.sum() > FEW_GRAPHS * active.sum()
    else:
        missed = level.nodes[active].sum() > MORE * wish.counts[active].sum()
    if not missed:
        return None
    where = "" if len(level.nodes) == 1 else f" in {part_text(int(larger.sum()), int(active.sum()), 'graph')}"
    text = f"Level {level.number} ({method}) has {nodes:,} nodes{where} instead of {wanted:,} ({wish.text})."
    return Problem("size", text + _explain(level, larger), _hint(level, wish))


def _explain(level: LevelFigures, larger: npt.NDArray[np.bool_]) -> str:
    """Return a sentence about the connected components of the graphs, if they are the reason."""
    components = level.metrics.get("components_before")
    if components is None:
        return " Many methods keep at least one node of each connected component."
    count = int(components[larger].max())
    if count < 2:
        return ""
    who = "The graph has" if len(level.nodes) == 1 else "These graphs have up to"
    return f" {who} {count:,} connected components, and each keeps at least one node."


def _hint(level: LevelFigures, wish: _Wish) -> str:
    """Say how to reach the size."""
    small = "keep_small=0 merges small components, too. " if _last_params(level).get("keep_small") else ""
    return f"{small}--largest-component leaves one component per graph. {wish.other} also merges nodes of different components."


def _last_params(level: LevelFigures) -> Mapping[str, Any]:
    """Return the parameters of a level, those of the last one if several levels became one."""
    steps = _steps(level.schedule[level.number - 1 : level.number])
    params = steps[-1].get("params") if steps else None
    return params if isinstance(params, Mapping) else {}


def _steps(schedule: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the levels of a stored schedule, with those that became one stored level one by one."""
    return [step for entry in schedule for step in entry.get("levels", [entry])]


def _read_wish(level: LevelFigures, sizes: Sizes) -> _Wish | None:
    """Read the size that the schedule of a store asks for. Its values are not trusted."""
    if level.number > len(level.schedule):
        return None
    params = _last_params(level)
    nodes, ratio, ratios = params.get("nodes"), params.get("ratio"), params.get("ratios")
    before = level.before.astype(np.int64)
    if isinstance(nodes, int) and not isinstance(nodes, bool) and nodes > 0:
        return _Wish(f"nodes={nodes}", np.minimum(before, min(nodes, 2**40)), True, f"partition:k={nodes}")
    composed = "levels" in level.schedule[level.number - 1]
    if composed or any("levels" in entry for entry in level.schedule[: level.number]):
        return None  # ratios refer to a level that is not stored
    if _is_ratio(ratio):
        return _Wish(
            f"ratio={ratio:g}", count_kept(before, float(ratio)), False, f"partition:ratio={ratio:g}"
        )
    if not isinstance(ratios, (list, tuple)) or not ratios or not all(map(_is_ratio, ratios)):
        return None
    entry = level.schedule[level.number - 1]
    same = takewhile(lambda other: other == entry, reversed(level.schedule[: level.number]))
    step = (sum(1 for _ in same) - 1) % len(ratios)
    first = sizes(level.number - 1 - step).astype(np.int64)
    text = f"ratios={'/'.join(f'{value:g}' for value in ratios)}"
    return _Wish(text, np.minimum(before, count_kept(first, float(ratios[step]))), False, "partition")


def _is_ratio(value: object) -> TypeGuard[float]:
    return isinstance(value, float) and 0.0 < value <= 1.0
