"""Reading ``name:key=value:key=value``."""

from __future__ import annotations

from tgp.errors import ParameterError

__all__ = ["as_literal", "parse_call"]


def parse_call(spec: str) -> tuple[str, dict[str, str]]:
    """Split ``"name:key=value:..."`` into the name and its parameters as text."""
    name, *pairs = spec.split(":")
    given: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ParameterError(f"expected key=value after {name!r}, got {pair!r}", field=key or None)
        if key in given:
            raise ParameterError(f"parameter {key!r} of {name!r} is given twice", field=key)
        given[key] = value.strip()
    return name.strip(), given


def as_literal(text: str) -> bool | int | float | str | None:
    """``true``, ``3``, ``0.5``, ``none`` as Python values; anything else stays text."""
    word = text.lower()
    if word in ("true", "false"):
        return word == "true"
    if word in ("none", "null"):
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
