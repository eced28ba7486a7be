"""Conditions on the figures of a store, such as ``ratio>0.95``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from tgp.errors import InputError, UnknownNameError
from tgp.inspect.overview import ON_REQUEST, LevelView, StoreView

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


def check_thresholds(view: StoreView, conditions: list[str]) -> Iterator[str]:
    """Every level for which a condition such as ``ratio>0.95`` holds, as a sentence.

    A level that does not have the figure (the cut of a soft assignment) never fails.

    Raises:
        InputError: a condition cannot be read.
        UnknownNameError: no level has such a figure.
    """
    parsed = [_condition(text) for text in conditions]
    known = {*_FIGURES, "failures"}.union(
        *(set(level.metrics) for h in view.hierarchies for level in h.levels)
    )
    for _, name, _, _ in parsed:
        if name in ON_REQUEST and name not in known:
            raise InputError(f"{name} is computed on request only", field="fail_if", hint="add --spectral")
        if name not in known:
            raise UnknownNameError("figure", name, known)
    return _misses(view, parsed)


def _misses(
    view: StoreView, parsed: list[tuple[str, str, Callable[[float, float], bool], float]]
) -> Iterator[str]:
    for hierarchy in view.hierarchies:
        for level in hierarchy.levels:
            figures = {**_figures(level), "failures": hierarchy.failures}
            for text, name, compare, bound in parsed:
                value = figures.get(name)
                if value is not None and compare(float(value), bound):
                    yield f"{hierarchy.name}, level {level.level}: {name} = {float(value):g} ({text})"


def _figures(level: LevelView) -> dict[str, Any]:
    fixed = asdict(level)
    return {**{name: fixed[name] for name in _FIGURES}, **level.metrics}


def _condition(text: str) -> tuple[str, str, Callable[[float, float], bool], float]:
    match = _CONDITION.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        bound = float(match[3])
        if bound != bound:
            raise ValueError
        return text.strip(), match[1], _OPERATORS[match[2]], bound
    except ValueError:
        raise InputError(
            f"expected a condition (figure, comparison, number) such as 'ratio>0.95', got {text!r}",
            field="fail_if",
            hint="'tgp inspect STORE --csv' shows the names of the figures",
        ) from None
