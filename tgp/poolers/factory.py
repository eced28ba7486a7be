"""Build poolers by alias, and register new ones. No pooler, and no torch, is imported before it is needed."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from tgp.errors import InputError, ParameterError, UnknownNameError
from tgp.poolers.table import pooler_map, target_of
from tgp.registry import Entry

__all__ = ["get_pooler", "method_entry", "register_pooler"]

_UNBATCHED_SUFFIX = "_u"
_SHARED_NAMES = frozenset({"reduce"})
"""Names that no pooler accepts, but that parameter dictionaries for all poolers contain."""

_ADAPTER = "tgp.data.pooler_method:level_method"

Builder = tuple[Callable[..., Any], list[str] | None]
"""A constructor and the names of its parameters, or ``None`` if it accepts any name."""


class _MissingArgument(InputError, TypeError):
    """A required argument is missing. Also a ``TypeError``, as Python itself raises."""


def get_pooler(pooler_name: str, strict: bool = False, **kwargs: Any) -> Any:
    """Build a pooler by its alias.

    The same dictionary of parameters can be passed to every pooler: parameters that a pooler does not have are
    ignored. If no pooler has a parameter, a warning is issued, because the name is probably misspelled.

    Args:
        pooler_name: Alias, in upper or lower case. The suffix ``_u`` selects the unbatched mode of a dense pooler.
        strict: Raise an error for parameters that this pooler does not have.
        **kwargs: Parameters of the pooler.

    Returns:
        The pooler.

    Raises:
        UnknownNameError: If the alias is unknown, or with ``strict`` if a parameter is unknown.
        InputError: If the suffix ``_u`` is used with a pooler that has no unbatched mode.
        TypeError: If a required parameter is missing.

    Examples:
        >>> pooler = get_pooler("topk", in_channels=4, ratio=0.5, k=10)  # k is ignored: only other poolers have it
        >>> type(pooler).__name__
        'TopkPooling'
    """
    if not isinstance(pooler_name, str):
        raise InputError(
            f"pooler_name must be text such as 'topk', got {type(pooler_name).__name__}", field="pooler_name"
        )
    alias = pooler_name if pooler_name in pooler_map.entries else pooler_name.lower()
    if alias not in pooler_map and alias.endswith(_UNBATCHED_SUFFIX):
        alias = alias[: -len(_UNBATCHED_SUFFIX)]
        _check_unbatched_mode(alias)
        kwargs.setdefault("batched", False)
    build, names = _class_builder(alias) if _has_class(alias) else _method_builder(alias)
    ignored = [] if names is None else [name for name in kwargs if name not in names]
    if ignored and strict:
        raise UnknownNameError(f"parameter of {alias}", ignored[0], names or [])
    unknown = _names_unknown_to_all_poolers(ignored)
    if unknown:
        warnings.warn(
            f"No pooler has the parameter(s) {', '.join(unknown)}: ignored for {alias!r}. "
            "Use strict=True to make this an error.",
            UserWarning,
            stacklevel=2,
        )
    return build(**{name: value for name, value in kwargs.items() if name not in ignored})


def register_pooler(
    alias: str,
    pooler: type | str,
    summary: str = "",
    *,
    dense: bool = False,
    trainable: bool = True,
    loss: bool = False,
    precoarsenable: bool = False,
    replace: bool = False,
) -> Entry:
    """Register a pooler under an alias, for :func:`get_pooler` and for everything else that accepts an alias.

    A pooler with ``precoarsenable=True`` can also be used in schedules: ``tgp coarsen --pooler alias``.

    Args:
        alias: Name of the pooler, in lower case.
        pooler: The class, or ``"package.module:Class"``, which is imported on first use.
        summary: One line for listings.
        dense: The assignment is a dense matrix. ``alias_u`` then selects the unbatched mode.
        trainable: The pooler has learnable parameters.
        loss: The pooler returns auxiliary losses.
        precoarsenable: The hierarchy depends on the graph alone. The class must define ``precoarsening`` or
            ``multi_level_precoarsening``.
        replace: Replace a pooler of the same alias.

    Returns:
        The entry of the table, as the checks of ``tgp.testing`` expect it.

    Raises:
        ParameterError: If the alias is already registered or cannot be written in a schedule.
    """
    if precoarsenable and _is_own_method(alias):
        raise ParameterError(
            f"{alias!r} is a level method of tgp, which a pooler cannot replace in schedules: expected another alias "
            "for a precoarsenable pooler",
            field="alias",
        )
    if not isinstance(pooler, (str, type)):
        raise ParameterError(
            f"pooler must be a class or 'package.module:Class', got an object of {type(pooler).__name__}",
            field="pooler",
        )
    target = pooler if isinstance(pooler, str) else target_of(pooler)
    traits = {"dense": dense, "trainable": trainable, "loss": loss, "precoarsenable": precoarsenable}
    given = None if isinstance(pooler, str) else pooler
    return pooler_map.register(Entry(alias, target, summary, traits), replace=replace, loaded=given)


def method_entry(alias: str) -> Entry | str | None:
    """Return the entry that makes a pooler usable as a level of a schedule.

    The engine calls this function for a name that is not a level method.

    Args:
        alias: Name of a pooler that was registered with ``precoarsenable=True``, was assigned to ``pooler_map``, or is
            provided by an installed package.

    Returns:
        The entry. For a pooler of tgp that cannot be precomputed, a hint that says so. ``None`` for other names and for
        poolers of others that cannot be precomputed.
    """
    entry = pooler_map.find(alias)
    if entry is None:
        return None
    if entry.target == getattr(pooler_map.own.get(alias), "target", None):
        return (
            f"{alias} is trained with the model and used as a layer; "
            "'tgp poolers --precoarsenable' lists the poolers that can be precomputed."
        )
    if not (entry.traits.get("precoarsenable") or entry.package or not entry.traits):
        return None
    return dataclasses.replace(entry, adapter=_ADAPTER)


def _is_own_method(alias: str) -> bool:
    """Return True if ``alias`` is a level method of tgp or of the running program."""
    from tgp.engine.methods import METHODS

    method = METHODS.entries.get(alias)
    return method is not None and method.package is None


def _has_class(alias: str) -> bool:
    """Return True if ``alias`` names a pooler class. A package cannot use the name of a level method of tgp."""
    return alias in (pooler_map.entries if _is_own_method(alias) else pooler_map)


def _class_builder(alias: str) -> Builder:
    """Return the builder of a pooler class."""
    from tgp.utils.signature import foo_signature

    cls = pooler_map[alias]
    signature = foo_signature(cls)

    def build(**kwargs: Any) -> Any:
        try:
            return cls(**kwargs)
        except TypeError:
            _check_required(alias, cls, kwargs)
            raise

    return build, None if signature.has_kwargs else signature.args


def _method_builder(alias: str) -> Builder:
    """Return the builder of a level method that has no pooler class."""
    from tgp.engine.methods import METHODS

    if alias not in METHODS:
        raise UnknownNameError("pooler", alias, _all_aliases())
    from tgp.src.level import LevelPooling
    from tgp.utils.signature import foo_signature

    params = _method_parameters(alias)
    options = [name for name in foo_signature(LevelPooling).args if name not in ("method", "params")]

    def build(**kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in params if name in kwargs}
        return LevelPooling(alias, given, **kwargs)

    return build, [*params, *options]


def _check_unbatched_mode(alias: str) -> None:
    """Check that ``alias`` names a pooler with an unbatched mode."""
    if alias not in pooler_map:
        raise UnknownNameError("pooler", alias, _all_aliases())
    able = [entry.alias for entry in pooler_map.entries.values() if entry.traits.get("dense")]
    # The entry of an installed package has no traits. Only its class shows if it has an unbatched mode.
    if alias not in able and (pooler_map.entry(alias).traits or not _takes_batched(alias)):
        raise InputError(
            f"pooler {alias!r} has no unbatched mode: the suffix '_u' needs one of {', '.join(able)}",
            field="pooler_name",
        )


def _takes_batched(alias: str) -> bool:
    from tgp.utils.signature import foo_signature

    return "batched" in foo_signature(pooler_map[alias]).args


def _all_aliases() -> list[str]:
    from tgp.engine.methods import METHODS

    return sorted({*pooler_map, *METHODS})


def _method_parameters(alias: str) -> list[str]:
    from tgp.engine.methods import METHODS

    return [f.name for f in dataclasses.fields(METHODS[alias].params)]


@cache
def _parameters_of_all_poolers(revision: int) -> frozenset[str] | None:
    """Return the constructor parameters of all poolers, or ``None`` if a pooler cannot be imported.

    This imports all poolers, so it is only called if there is a name to check.

    Args:
        revision: ``pooler_map.revision``. A change of the table makes a new entry in the cache.
    """
    from tgp.engine.methods import METHODS
    from tgp.utils.signature import foo_signature

    try:
        of_classes = [foo_signature(pooler_map[alias]).args for alias in pooler_map]
        of_methods = [_method_parameters(alias) for alias in METHODS]
    except ImportError:
        return None
    return _SHARED_NAMES.union(*of_classes, *of_methods)


def _names_unknown_to_all_poolers(names: list[str]) -> list[str]:
    known = _parameters_of_all_poolers(pooler_map.revision) if names else None
    return [] if known is None else sorted(set(names) - known)


def _check_required(alias: str, cls: type, kwargs: dict[str, Any]) -> None:
    """Check that ``kwargs`` has a value for every parameter of ``cls`` without a default."""
    missing = [
        name
        for name, p in inspect.signature(cls).parameters.items()
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and name not in kwargs
    ]
    if missing:
        raise _MissingArgument(
            f"Missing required argument(s) for pooler '{alias}' ({cls.__name__}): {', '.join(missing)}",
            field=missing[0],
        ) from None
