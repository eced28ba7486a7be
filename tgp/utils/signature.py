"""Read and respect the arguments that a callable takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

__all__ = ["Signature", "accepted_names", "call_accepted", "foo_signature", "pass_on"]


class Signature(NamedTuple):
    """Argument names of a callable and whether it takes ``*args`` / ``**kwargs``."""

    args: list[str]
    has_varargs: bool
    has_kwargs: bool


def foo_signature(foo: Callable[..., Any] | type) -> Signature:
    """Return the arguments that can be passed by name, keyword-only ones included.

    Args:
        foo: A callable; for a class its ``__init__`` is read. A leading ``self`` or ``cls`` is dropped.
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
    """Return those of ``arguments`` (a constructor's ``locals()``) that the constructor of ``base`` takes.

    Poolers keep their full signatures for their users and hand the arguments of the base class to it.
    """
    return {name: arguments[name] for name in foo_signature(base).args if name in arguments}


_ACCEPTED: dict[Any, frozenset[str] | None] = {}
"""Function -> names of its arguments, or ``None`` if it takes any keyword."""


def accepted_names(target: Callable[..., Any]) -> frozenset[str] | None:
    """Return the keywords that a callable accepts, or ``None`` if it accepts any.

    Args:
        target: A function, a bound method, or a module, whose ``forward`` is read.
    """
    function = target
    if isinstance(target, nn.Module):
        function = target.__dict__.get("forward", type(target).forward)
    function = getattr(function, "__func__", function)
    if function not in _ACCEPTED:
        signature = foo_signature(function)
        _ACCEPTED[function] = None if signature.has_kwargs else frozenset(signature.args)
    return _ACCEPTED[function]


def call_accepted(target: Callable[..., Any], /, **kwargs: Any) -> Any:
    """Call ``target`` with those keywords that its signature accepts.

    Stages and methods that a user wrote may name fewer arguments than the library can offer.
    """
    names = accepted_names(target)
    if names is not None:
        kwargs = {name: value for name, value in kwargs.items() if name in names}
    return target(**kwargs)
