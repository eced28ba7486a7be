"""Replace an attribute for the time of a check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["replaced_attribute"]


@contextmanager
def replaced_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set ``owner.name`` to ``value`` and restore the old value afterwards.

    Args:
        owner: Module, class or object that has the attribute.
        name: Name of the attribute.
        value: Value inside of the ``with`` block. Other threads see it, too.

    Examples:
        >>> import math
        >>> with replaced_attribute(math, "pi", 3):
        ...     math.pi
        3
        >>> round(math.pi, 2)
        3.14
    """
    inherited = name not in vars(owner)
    old = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, old)
