"""Checks of the values of method parameters, with one wording of the errors."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from tgp.errors import ParameterError

__all__ = ["check_choice", "check_positive", "check_share", "check_whole"]


def check_choice(name: str, value: object, choices: Any, *, hint: str | None = None) -> None:
    """Check that a parameter has one of some values.

    Args:
        name: name of the parameter.
        value: its value.
        choices: type that lists the values, such as ``Literal["auto", "greedy"]``, or the values.
        hint: text that is added to the error.

    Raises:
        ParameterError: if the value is not one of them.
    """
    allowed = get_args(choices) or tuple(choices)
    if value not in allowed:
        raise ParameterError(
            f"{name} is unknown: expected one of {', '.join(map(str, allowed))}, got {value!r}",
            field=name,
            hint=hint,
        )


_LARGEST = 2**63 - 1


def check_whole(
    name: str, value: object, least: int = 1, most: int | None = None, *, optional: bool = False
) -> None:
    """Check that a parameter is a whole number in a range.

    Args:
        name: name of the parameter.
        value: its value.
        least: smallest allowed number.
        most: largest allowed number; ``None`` for the largest number of an array.
        optional: True if ``None`` is allowed.

    Raises:
        ParameterError: if the value is not allowed.
    """
    if optional and value is None:
        return
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not (is_whole and least <= value <= (_LARGEST if most is None else most)):  # type: ignore[operator]
        limits = f">= {least}" if most is None else f"in [{least}, {most}]"
        if most is None and is_whole and value > _LARGEST:  # type: ignore[operator]
            limits = f"in [{least}, 2**63)"
        _refuse(name, f"a whole number {limits}{' or none' if optional else ''}", value)


def check_share(name: str, value: float, *, zero: bool = False, one: bool = True) -> None:
    """Check that a parameter is a number between 0 and 1.

    Args:
        name: name of the parameter.
        value: its value.
        zero: True if 0 is allowed.
        one: True if 1 is allowed.

    Raises:
        ParameterError: if the value is not allowed.
    """
    if not (0.0 < value < 1.0 or (zero and value == 0.0) or (one and value == 1.0)):
        _refuse(name, f"a number in {'[' if zero else '('}0, 1{']' if one else ')'}", value)


def check_positive(name: str, value: float) -> None:
    """Check that a parameter is a finite number above 0.

    Args:
        name: name of the parameter.
        value: its value.

    Raises:
        ParameterError: if the value is not allowed.
    """
    if not (value > 0.0 and math.isfinite(value)):
        _refuse(name, "a finite number > 0", value)


def _refuse(name: str, expected: str, value: object) -> None:
    raise ParameterError(f"{name} is out of range: expected {expected}, got {value!r}", field=name)
