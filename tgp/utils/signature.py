"""What arguments a callable takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Signature", "foo_signature", "pass_on"]


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


def pass_on(base: type, arguments: dict[str, Any]) -> dict[str, Any]:
    """Those of ``arguments`` (a constructor's ``locals()``) that the constructor of ``base`` takes.

    Poolers keep their full signatures for their users; what is the base's goes on to the base.
    """
    return {name: arguments[name] for name in foo_signature(base).args if name in arguments}
