"""Check conditions such as ``ratio>0.95`` on the figures of a store."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tgp.build.summary import LevelSummary
from tgp.errors import InputError, UnknownNameError
from tgp.inspect.overview import SPECTRAL_METRICS, StoreView

__all__ = ["check_thresholds"]

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}

_CONDITION = re.compile(r"\s*(\w+)\s*(>=|<=|==|!=|>|<)\s*(\S+?)\s*", re.ASCII)

_FIGURES = (
    "bytes",
    "cluster_largest",
    "cluster_mean",
    "edge_ratio",
    "edges",
    "nodes",
    "ratio",
    "stalled",
    "stalled_graphs",
)
"""Numbers of a level that are not metrics."""


@dataclass(frozen=True)
class _Condition:
    text: str
    figure: str
    compare: Callable[[float, float], bool]
    bound: float


def check_thresholds(view: StoreView, conditions: list[str]) -> Iterator[str]:
    """Find the levels for which a condition holds.

    A condition never holds for a level that does not have the figure, such as the cut of a soft assignment.

    Args:
        view: figures of a store.
        conditions: conditions such as ``ratio>0.95``.

    Returns:
        One sentence per level and condition that holds.

    Raises:
        InputError: if a condition cannot be parsed.
        UnknownNameError: if no level has such a figure.
    """
    parsed = [_parse(text) for text in conditions]
    metrics = (level.metrics for hierarchy in view.hierarchies for level in hierarchy.levels)
    known = {*_FIGURES, "failures"}.union(*metrics)
    for condition in parsed:
        if condition.figure in SPECTRAL_METRICS and condition.figure not in known:
            raise InputError(
                f"{condition.figure} is computed on request only", field="fail_if", hint="add --spectral"
            )
        if condition.figure not in known:
            raise UnknownNameError("figure", condition.figure, known)
    return _matches(view, parsed)


def _matches(view: StoreView, conditions: list[_Condition]) -> Iterator[str]:
    for hierarchy in view.hierarchies:
        for level in hierarchy.levels:
            figures = {**_figures(level), "failures": hierarchy.failures}
            for condition in conditions:
                value = figures.get(condition.figure)
                if value is not None and condition.compare(float(value), condition.bound):
                    place = f"{hierarchy.name}, level {level.level}"
                    yield f"{place}: {condition.figure} = {float(value):g} ({condition.text})"


def _figures(level: LevelSummary) -> dict[str, float | None]:
    return {**{name: getattr(level, name) for name in _FIGURES}, **level.metrics}


def _parse(text: str) -> _Condition:
    match = _CONDITION.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        bound = float(match[3])
        if bound != bound:
            raise ValueError
        return _Condition(text.strip(), match[1], _OPERATORS[match[2]], bound)
    except ValueError:
        raise InputError(
            f"expected a condition (figure, comparison, number) such as 'ratio>0.95', got {text!r}",
            field="fail_if",
            hint="'tgp inspect STORE --csv' shows the names of the figures",
        ) from None
