"""Arguments that a callable accepts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from tgp.utils.user_code import is_library_code

__all__ = ["Signature", "accepted", "foo_signature", "base_kwargs"]


class Signature(NamedTuple):
    """Argument names of a callable, and flags for ``*args`` and ``**kwargs``."""

    args: list[str]
    has_varargs: bool
    has_kwargs: bool


def foo_signature(foo: Callable[..., Any] | type) -> Signature:
    """Return the arguments that can be passed by name, keyword-only ones included.

    Args:
        foo: A callable, or a class for the arguments of its ``__init__``. A leading ``self`` or ``cls`` is removed.

    Examples:
        >>> foo_signature(lambda x, *args, y=1: None)
        Signature(args=['x', 'y'], has_varargs=True, has_kwargs=False)
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
    """Return the arguments that the constructor of ``base`` accepts.

    The constructor of a pooler names all arguments and passes those of the base class on.

    Args:
        base: Base class.
        arguments: ``locals()`` of the constructor of a subclass.
    """
    return {name: arguments[name] for name in foo_signature(base).args if name in arguments}


_NEW_KEYWORDS = frozenset(
    {"batch_size", "edge_attr", "edge_attr_reduce", "keep_link", "level", "max_num_nodes"}
)
"""Keywords that tgp 1.0.2 did not pass to stages. Code of the user gets them only if it names them, because a method with
``**kwargs`` may pass them to a function that does not accept them."""

_ACCEPTED: dict[Any, tuple[frozenset[str], bool, bool]] = {}
"""Argument names of a function, True if it accepts any other keyword, and True if it is code of the library."""


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
    """Return the keywords that the signature of ``target`` accepts.

    Stages and methods of a user may name fewer arguments than the library passes. Call it as
    ``target(**accepted(target, ...))``. A function that also called ``target`` would be compiled again for every
    stage.

    Args:
        target: A function, a bound method, or a module, for the arguments of its ``forward``.
        **kwargs: All available keywords.
    """
    names, takes_any, own = _accepted(target)
    if own and takes_any:
        return kwargs
    refused = _NEW_KEYWORDS if takes_any else kwargs.keys()
    return {name: value for name, value in kwargs.items() if name in names or name not in refused}
