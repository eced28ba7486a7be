"""Parse values: text such as ``name:key=value``, and untyped values of a declared type.

Schedules (``graclus:order=degree``), dataset names (``er:num_graphs=4``) and configuration files use these functions.
"""

from __future__ import annotations

import types
import typing
from pathlib import Path
from typing import Any, Literal, Union

from tgp.errors import ParameterError

__all__ = ["convert_value", "format_value", "parse_call", "parse_value"]

_WORDS_OF_TYPES: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false"}
_PLURALS: dict[Any, str] = {int: "whole numbers", float: "numbers"}
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "none": None}


def parse_call(text: str) -> tuple[str, dict[str, str]]:
    """Split ``"name:key=value:key=value"`` into the name and its parameters.

    Args:
        text: Name, followed by any number of ``:key=value``.

    Returns:
        The name and the parameters in the order of the text. The values stay text.

    Raises:
        ParameterError: If a parameter is not written as ``key=value``, or is given twice.

    Examples:
        >>> parse_call("er:num_graphs=4:seed=2")
        ('er', {'num_graphs': '4', 'seed': '2'})
    """
    name, *pairs = (part.strip() for part in text.split(":"))
    given: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            raise ParameterError(
                f"a parameter of {name!r} must be written as name=value, got {pair!r}", field=key or None
            )
        if key in given:
            raise ParameterError(f"parameter {key!r} of {name!r} is given twice", field=key)
        given[key] = value
    return name, given


def parse_value(text: str) -> bool | int | float | str | None:
    """Convert text to a bool, ``None``, an int or a float if it is written like one.

    Args:
        text: A single value. The words ``true``, ``false``, ``none`` and ``null`` are recognized in any case.

    Returns:
        The value, or ``text`` itself if it is none of these.

    Examples:
        >>> [parse_value(text) for text in ("true", "3", "0.5", "none", "train")]
        [True, 3, 0.5, None, 'train']
    """
    word = text.lower()
    if word in _WORDS or word == "null":
        return _WORDS.get(word)
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def format_value(value: object) -> str:
    """Return the text from which :func:`convert_value` reads ``value`` again.

    Examples:
        >>> [format_value(value) for value in (True, None, 0.5, "degree", (0.5, 0.25))]
        ['true', 'none', '0.5', 'degree', '0.5/0.25']
    """
    if isinstance(value, tuple):
        return "/".join(map(format_value, value)) if value else "none"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(value)


def convert_value(
    value: object, hint: Any, label: str, *, field: str | None = None, from_text: bool = False
) -> Any:
    """Check a value against a type annotation and convert it.

    An int is accepted for a float, text for a :class:`~pathlib.Path`, and a list (or a single text) for a
    ``tuple[X, ...]``. No other type is converted. The text of a tuple separates its items by ``/``.

    Args:
        value: The value, or its text.
        hint: Type annotation: a type, a ``Literal``, a ``tuple[X, ...]``, or a union of these.
        label: Name of the value in the error message.
        field: Name of the parameter, stored in the error.
        from_text: ``value`` is text that has to be parsed.

    Raises:
        ParameterError: If the value has none of the allowed types.

    Examples:
        >>> convert_value("0.5", float, "random:ratio", from_text=True)
        0.5
        >>> convert_value(["graclus"], tuple[str, ...], "poolers")
        ('graclus',)
        >>> convert_value("0.5/0.25", tuple[float, ...], "hem:ratios", from_text=True)
        (0.5, 0.25)
    """
    choices = _flatten_hint(hint)
    for kind in choices:
        accepted, converted = _try_convert(value, kind, from_text)
        if accepted:
            return converted
    expected = " or ".join(_describe(kind, from_text) for kind in choices)
    got = repr(value) if from_text else f"{value!r} ({type(value).__name__})"
    raise ParameterError(f"{label} must be {expected.replace('NoneType', 'none')}, got {got}", field=field)


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def _describe(kind: Any, from_text: bool) -> str:
    """Return the name of a type or a literal value for an error message."""
    if from_text and _is_tuple(kind):
        item = typing.get_args(kind)[0]
        return f"{_PLURALS.get(item, item.__name__)} separated by /"
    if from_text and kind in _WORDS_OF_TYPES:
        return _WORDS_OF_TYPES[kind]
    return kind.__name__ if type(kind) is type else repr(kind)


def _flatten_hint(hint: Any) -> list[Any]:
    """Return the types and literal values of a hint.

    ``str`` is last, so that ``none`` is not read as a word. Tuples are before it, so that ``none`` is not read as empty.
    """
    origin = typing.get_origin(hint)
    if origin is Literal:
        return list(typing.get_args(hint))
    if origin in (Union, types.UnionType):
        flat = [kind for part in typing.get_args(hint) for kind in _flatten_hint(part)]
        return sorted(flat, key=lambda kind: 2 if kind is str else _is_tuple(kind))
    return [hint]


def _try_convert(value: object, kind: Any, from_text: bool) -> tuple[bool, Any]:
    """Return True and the converted value, or False and ``None`` if ``value`` is not of ``kind``."""
    if _is_tuple(kind):
        return _try_convert_items(value, kind, from_text)
    if not isinstance(kind, type):
        if from_text and not isinstance(kind, str):
            return value == format_value(kind), kind
        return type(value) is type(kind) and value == kind, kind
    if from_text and kind is not str:
        return _try_parse(str(value), kind)
    if kind is float and type(value) is int:
        return True, float(value)
    if kind is Path and isinstance(value, str):
        return True, Path(value)
    return type(value) is kind, value


def _try_convert_items(value: object, kind: Any, from_text: bool) -> tuple[bool, Any]:
    item, *rest = typing.get_args(kind)
    items = [value] if isinstance(value, str) else value
    if from_text:
        text = str(value)
        items = [] if text.lower() == "none" else [part.strip() for part in text.split("/")]
    if rest != [...] or not isinstance(items, list | tuple):
        return False, None
    converted = [_try_convert(entry, item, from_text) for entry in items]
    return all(accepted for accepted, _ in converted), tuple(result for _, result in converted)


def _try_parse(text: str, kind: type) -> tuple[bool, Any]:
    if kind in (bool, type(None)):
        word = _WORDS.get(text.lower(), text)
        return type(word) is kind, word
    if kind not in (int, float):
        return False, None
    try:
        return True, kind(text)
    except ValueError:
        return False, None
