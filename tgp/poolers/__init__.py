"""The poolers by name and by class. Importing this package imports no pooler, and no torch."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from tgp._lazy import lazy_package
from tgp.errors import InputError, ParameterError, UnknownNameError
from tgp.poolers._map import PoolerMap, target_of
from tgp.poolers._table import POOLERS
from tgp.registry import Entry

pooler_map = PoolerMap(POOLERS)
"""Dictionary alias -> class. A class is imported on access; assigning a class registers it."""

pooler_classes: list[str] = [entry.attribute for entry in POOLERS]
"""Names of the pooler classes."""

_SUFFIX = "_u"
_TOLERATED = frozenset({"reduce"})
"""Not a parameter of any pooler, but part of the parameter dictionaries that are shared by all."""


class _MissingArgument(InputError, TypeError):
    """Also a ``TypeError``, as for any call that lacks an argument."""


def get_pooler(pooler_name: str, strict: bool = False, **kwargs: Any) -> Any:
    """Build a pooler by its alias.

    One dictionary of parameters can drive every pooler: names that this pooler does not have are left
    out. A name that no pooler has is most likely a slip, and warned about.

    Args:
        pooler_name: alias, in any case; ``_u`` at the end asks for the unbatched mode of a dense pooler.
        strict: refuse parameters that this pooler does not have.
        **kwargs: parameters of the pooler.

    Raises:
        UnknownNameError: for an unknown alias, or with ``strict`` an unknown parameter.
        TypeError: if a required parameter is missing.
    """
    alias = pooler_name if pooler_name in pooler_map.entries else pooler_name.lower()
    if alias not in pooler_map and alias.endswith(_SUFFIX):
        alias = _unbatched(alias[: -len(_SUFFIX)])
        kwargs.setdefault("batched", False)
    build, names = _class_builder(alias) if _has_class(alias) else _method_builder(alias)
    others = [] if names is None else [name for name in kwargs if name not in names]
    if others and strict:
        raise UnknownNameError(f"parameter of {alias}", others[0], names or [])
    foreign = _known_to_nobody(others)
    if foreign:
        warnings.warn(
            f"No pooler has the parameter(s) {', '.join(foreign)}: ignored for {alias!r}. "
            "Use strict=True to make this an error.",
            UserWarning,
            stacklevel=2,
        )
    return build(**{name: value for name, value in kwargs.items() if name not in others})


Builder = tuple[Callable[..., Any], list[str] | None]
"""A constructor and the names it takes; ``None`` if it takes any."""


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
    """Register a pooler under an alias, for :func:`get_pooler` and everything else that takes an alias.

    A pooler with ``precoarsenable=True`` can also be used in schedules: ``tgp coarsen --pooler alias``.

    Args:
        alias: Name of the pooler, lower-case.
        pooler: The class, or ``"package.module:Class"``, which is imported when it is asked for.
        summary: One line for listings.
        dense: Its assignment is a dense matrix; ``alias_u`` then asks for its unbatched mode.
        trainable: It has learnable parameters.
        loss: It returns auxiliary losses.
        precoarsenable: Its hierarchy depends on the graph alone. The class must define ``precoarsening`` or
            ``multi_level_precoarsening``.
        replace: Replace a pooler of the same alias.

    Returns:
        The line of the table, as the checks of ``tgp.testing`` take it.

    Raises:
        ParameterError: if the alias is taken or cannot stand in a schedule.
    """
    if precoarsenable and _is_own_method(alias):
        raise ParameterError(
            f"{alias!r} is a level method of tgp, which a schedule cannot exchange: expected another alias for a "
            "precoarsenable pooler",
            field="alias",
        )
    target = pooler if isinstance(pooler, str) else target_of(pooler)
    traits = {"dense": dense, "trainable": trainable, "loss": loss, "precoarsenable": precoarsenable}
    given = None if isinstance(pooler, str) else pooler
    return pooler_map.register(Entry(alias, target, summary, traits), replace=replace, given=given)


_ADAPTER = "tgp.data.pooler_method:level_method"


def method_entry(alias: str) -> Entry | None:
    """Return the line that makes a pooler usable as a level of a schedule.

    The engine calls this function for a name that it does not know.

    Args:
        alias: Name of a pooler that was registered with ``precoarsenable=True``, was assigned to ``pooler_map``, or is
            offered by an installed package.

    Returns:
        The line, or ``None`` for poolers of tgp itself and for those that cannot be precomputed.
    """
    entry = pooler_map.find(alias)
    if entry is None or entry.target == getattr(pooler_map.own.get(alias), "target", None):
        return None
    if not (entry.traits.get("precoarsenable") or entry.package or not entry.traits):
        return None
    return dataclasses.replace(entry, adapter=_ADAPTER)


def _is_own_method(alias: str) -> bool:
    """Return True if ``alias`` is a level method of tgp or of the running program."""
    from tgp.engine.methods import METHODS

    method = METHODS.entries.get(alias)
    return method is not None and method.package is None


def _has_class(alias: str) -> bool:
    """Return True if ``alias`` is in the table of classes; a package cannot take the name of a method of tgp."""
    return alias in (pooler_map.entries if _is_own_method(alias) else pooler_map)


def _class_builder(alias: str) -> Builder:
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
    """For a level method that has no class of its own."""
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


def _unbatched(alias: str) -> str:
    """The alias behind ``_u``, if that pooler has an unbatched mode."""
    if alias not in pooler_map:
        raise UnknownNameError("pooler", alias, _all_aliases())
    able = [entry.alias for entry in pooler_map.entries.values() if entry.traits.get("dense")]
    # Of a pooler that an installed package offers only the class can tell.
    if alias not in able and (pooler_map.entry(alias).traits or not _takes_batched(alias)):
        raise InputError(
            f"pooler {alias!r} has no unbatched mode: the suffix '_u' needs one of {', '.join(able)}",
            field="pooler_name",
        )
    return alias


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
def _every_parameter(revision: int) -> frozenset[str] | None:
    """Return the constructor parameters of all poolers, or ``None`` if one cannot be imported here.

    Imports all poolers, so it is only called when there is something to check.

    Args:
        revision: Number of changes of the table; names the cached result.
    """
    from tgp.engine.methods import METHODS
    from tgp.utils.signature import foo_signature

    try:
        of_classes = [foo_signature(pooler_map[alias]).args for alias in pooler_map]
        of_methods = [_method_parameters(alias) for alias in METHODS]
    except ImportError:
        return None
    return _TOLERATED.union(*of_classes, *of_methods)


def _known_to_nobody(names: list[str]) -> list[str]:
    every = _every_parameter(pooler_map.revision) if names else None
    return [] if every is None else sorted(set(names) - every)


def _check_required(alias: str, cls: type, kwargs: dict[str, Any]) -> None:
    import inspect

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


__all__ = [*pooler_classes, "get_pooler", "pooler_classes", "pooler_map", "register_pooler"]

lazy_package(__name__, {entry.attribute: entry.target for entry in POOLERS})
