"""Parse conditions such as ``ratio>0.95`` and check them on the figures of a store."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from tgp.errors import InputError
from tgp.inspect.figures import SPECTRAL_FIGURES, Figure, find_figure, level_value
from tgp.inspect.overview import StoreView

__all__ = ["Condition", "check_thresholds", "parse_condition", "stored_figure"]

_OPERATORS: dict[str, Callable[[Any, float], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}

_CONDITION = re.compile(r"\s*(\w[\w .-]*?)\s*(>=|<=|==|!=|>|<)\s*(\S+?)\s*", re.ASCII)


@dataclass(frozen=True)
class Condition:
    """Comparison of a figure with a number.

    Args:
        text: the condition as it was written.
        name: name of the figure, see :func:`tgp.inspect.figures.find_figure`.
        compare: function of a value, or of an array of values, and the bound.
        bound: the number.
    """

    text: str
    name: str
    compare: Callable[[Any, float], Any]
    bound: float


def check_thresholds(view: StoreView, conditions: list[str]) -> Iterator[str]:
    """Find the levels for which a condition holds.

    A condition never holds for a level that does not have the figure, such as the cut of a soft assignment.

    Args:
        view: figures of a store.
        conditions: conditions such as ``ratio>0.95`` or ``dropped nodes > 0``. A figure has the name of its column or its
            key in JSON and CSV, see :func:`tgp.inspect.figures.find_figure`.

    Returns:
        One sentence per level and condition that holds.

    Raises:
        InputError: if a condition cannot be parsed, or no level has the figure.
        UnknownNameError: if there is no such figure.
    """
    parsed = [parse_condition(text) for text in conditions]
    stored = {key for hierarchy in view.hierarchies for level in hierarchy.levels for key in level.metrics}
    return _matches(view, [(condition, stored_figure(condition.name, stored)) for condition in parsed])


def stored_figure(name: str, stored: Collection[str]) -> Figure:
    """Return the figure with a name, and check that a store has it.

    Args:
        name: name of the figure, see :func:`tgp.inspect.figures.find_figure`.
        stored: names of the metrics of the store.

    Raises:
        InputError: if the store does not have the figure.
        UnknownNameError: if there is no such figure.
    """
    figure = find_figure(name, stored)
    if figure.metric and figure.key not in stored:
        if figure.key in SPECTRAL_FIGURES:
            raise InputError(
                f"{figure.key} is computed on request only", field="fail_if", hint="add --spectral"
            )
        raise InputError(
            f"no level of the store has the figure {figure.label!r}: "
            f"expected one of {', '.join(sorted(stored)) or 'the sizes and ratios'}",
            field="fail_if",
            hint="a store that was written without quality figures has only sizes and ratios",
        )
    return figure


def _matches(view: StoreView, conditions: list[tuple[Condition, Figure]]) -> Iterator[str]:
    for hierarchy in view.hierarchies:
        for level in hierarchy.levels:
            for condition, figure in conditions:
                value = level_value(level, figure, hierarchy.failures)
                if value is not None and condition.compare(float(value), condition.bound):
                    place = f"{hierarchy.name}, level {level.level}"
                    yield f"{place}: {figure.label} = {float(value):g} ({condition.text})"


def parse_condition(text: str) -> Condition:
    """Parse a condition.

    Args:
        text: figure, comparison (``>``, ``<``, ``>=``, ``<=``, ``==``, ``!=``) and number.

    Raises:
        InputError: if the text is not a condition.

    Examples:
        >>> condition = parse_condition("dropped nodes > 3")
        >>> condition.name, condition.bound, condition.compare(4, condition.bound)
        ('dropped nodes', 3.0, True)
    """
    match = _CONDITION.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        bound = float(match[3])
        if bound != bound:
            raise ValueError
        return Condition(text.strip(), match[1], _OPERATORS[match[2]], bound)
    except ValueError:
        raise InputError(
            f"expected a condition (figure, comparison, number) such as 'ratio>0.95', got {text!r}",
            field="fail_if",
            hint="'tgp inspect STORE --all' shows the names of the figures",
        ) from None
