"""Read and respect the arguments that a callable takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from tgp.utils.user_code import is_library_code

__all__ = ["Signature", "accepted", "foo_signature", "base_kwargs"]


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


def base_kwargs(base: type, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return those of ``arguments`` (a constructor's ``locals()``) that the constructor of ``base`` takes.

    Poolers keep their full signatures for their users and hand the arguments of the base class to it.
    """
    return {name: arguments[name] for name in foo_signature(base).args if name in arguments}


_NEW_KEYWORDS = frozenset({"batch_size", "keep_link", "level", "max_num_nodes"})
"""Keywords that tgp 1.0.2 did not pass to stages. Code of the user gets them only if it names them: a method with
``**kwargs`` may pass them on to a function that does not accept them."""

_ACCEPTED: dict[Any, tuple[frozenset[str], bool, bool]] = {}
"""Function -> names of its arguments, whether it takes any other keyword, and whether it is code of the library."""


def _accepted(target: Callable[..., Any]) -> tuple[frozenset[str], bool, bool]:
    """Return the entry of a callable in ``_ACCEPTED``."""
    function = target
    if isinstance(target, nn.Module):
        function = target.__dict__.get("forward", type(target).forward)
    function = getattr(function, "__func__", function)
    found = _ACCEPTED.get(function)
    if found is None:
        signature = foo_signature(function)
        own = is_library_code(function)
        found = _ACCEPTED[function] = (frozenset(signature.args), signature.has_kwargs, own)
    return found


def accepted(target: Callable[..., Any], /, **kwargs: Any) -> dict[str, Any]:
    """Return those keywords that the signature of ``target`` accepts.

    Stages and methods that a user wrote may name fewer arguments than the library can offer. Call it as
    ``target(**accepted(target, ...))``: a function that also called ``target`` would be compiled again for
    every stage.

    Args:
        target: A function, a bound method, or a module, whose ``forward`` is read.
        **kwargs: Everything that can be offered.
    """
    names, takes_any, own = _accepted(target)
    if own and takes_any:
        return kwargs
    refused = _NEW_KEYWORDS if takes_any else kwargs.keys()
    return {name: value for name, value in kwargs.items() if name in names or name not in refused}
