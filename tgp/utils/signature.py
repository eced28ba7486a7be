"""What arguments a callable takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Signature", "foo_signature"]


class Signature(NamedTuple):
    """Argument names of a callable and whether it takes ``*args`` / ``**kwargs``."""

    args: list[str]
    has_varargs: bool
    has_kwargs: bool


def foo_signature(foo: Callable[..., Any] | type) -> Signature:
    """Arguments that can be passed by name, keyword-only ones included.

    Args:
        foo: a callable; for a class its ``__init__`` is read. A leading ``self`` or ``cls`` is dropped.
    """
    target = foo.__init__ if inspect.isclass(foo) else foo  # type: ignore[misc]
    parameters = list(inspect.signature(target).parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    kinds = {p.kind for p in parameters}
    return Signature(
        [p.name for p in parameters if p.kind in named],
        inspect.Parameter.VAR_POSITIONAL in kinds,
        inspect.Parameter.VAR_KEYWORD in kinds,
    )
