"""Read the levels of :class:`~tgp.data.PreCoarsening`: text, aliases with parameters, and pooler objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from tgp.engine.methods import METHODS
from tgp.engine.schedule import Schedule, parse_schedule
from tgp.errors import InputError
from tgp.poolers import get_pooler, pooler_map
from tgp.src.base import SRCPooling
from tgp.src.precoarsening import Precoarsenable
from tgp.utils.signature import foo_signature

__all__ = ["LevelKey", "format_level_key", "level_key", "make_pooler", "parse_levels"]

_LEVEL_METHODS = ("multi_level_precoarsening", "precoarsening")
"""Methods that compute levels of a pooler. One of them is enough."""

Level = tuple[Any, dict[str, Any]]
"""Alias or pooler object, and parameters."""

LevelKey = tuple[Any, ...]
"""Identity of a level."""


def parse_levels(poolers: Any) -> list[Level]:
    """Return the single levels of a specification.

    Args:
        poolers: Text such as ``"graclus*3"``, one level, or an iterable of levels, see
            :class:`~tgp.data.PreCoarsening`.

    Returns:
        Alias or pooler, and parameters, of each level.

    Raises:
        ScheduleError: If a text cannot be read.
        UnknownNameError: If a pooler or a parameter of a text does not exist.
        InputError: If a level has another form.

    Examples:
        >>> parse_levels("graclus*2,eigen:k=4")
        [('graclus', {}), ('graclus', {}), ('eigen', {'k': 4})]
    """
    if isinstance(poolers, Schedule):
        return _schedule_levels(poolers)
    if isinstance(poolers, (SRCPooling, str, Mapping)) or _is_pair(poolers):
        poolers = [poolers]
    if not isinstance(poolers, Iterable):
        raise _WrongType(
            f"Pooler config must be text, a pooler or an iterable of levels, got {type(poolers).__name__}"
        )
    return [level for item in poolers for level in _parse_item(item)]


def _parse_item(item: Any) -> list[Level]:
    """Return the levels of one item. Only text and the parameter ``ratios`` can hold several."""
    if isinstance(item, str) and not (item and set(",:*").isdisjoint(item)):
        return _schedule_levels(parse_schedule(item))
    name, params = level = _parse_level(item)
    nested = isinstance(name, str) and isinstance(params.get("ratios"), (list, tuple))
    return [level] * (len(params["ratios"]) or 1 if nested else 1)


def _schedule_levels(schedule: Schedule) -> list[Level]:
    if schedule.steps is not None:
        raise InputError("a schedule that omits levels cannot be used here", field="poolers")
    if schedule.open_ended:
        raise InputError(
            f"the schedule {schedule} has no fixed number of levels: expected a number after *, because a transform sees one "
            "graph at a time, got none",
            field="poolers",
            hint=f"use precoarsen(graphs, {str(schedule)!r}) or tgp.coarsen, which know all graphs",
        )
    limits = [{} if spec.until is None else {"until": spec.until} for spec in schedule]
    return [(spec.method, spec.changed() | limit) for spec, limit in zip(schedule, limits, strict=True)]


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, tuple) and len(value) == 2 and (value[1] is None or isinstance(value[1], Mapping))
    )


def _parse_level(item: Any) -> Level:
    """Return alias or pooler, and parameters."""
    if isinstance(item, (str, SRCPooling)):
        return item, {}
    if isinstance(item, Mapping):
        params = dict(item)
        names = [params.pop(key) for key in ("pooler", "name") if key in params]
        if not names or names[0] is None:
            raise InputError(
                "Pooler config must include a pooler name or instance under 'pooler'", field="poolers"
            )
        return _named(names[0], params)
    if isinstance(item, tuple):
        if not _is_pair(item):
            raise InputError(
                f"Tuple pooler configs must be (pooler, parameters), got {item!r}", field="poolers"
            )
        params = dict(item[1] or {})
        clash = [key for key in ("pooler", "name") if key in params]
        if clash:
            raise InputError(
                f"{item!r} is ambiguous: it can be one level with parameters or two levels, because its mapping has the "
                f"key {clash[0]!r}",
                field="poolers",
                hint="write two levels as a list",
            )
        return _named(item[0], params)
    raise _WrongType(
        f"Pooler config must be a pooler, an alias, a pair or a mapping, got {type(item).__name__}"
    )


class _WrongType(InputError, TypeError):
    """A level has the wrong type. Also a ``TypeError``, which tgp 1.0.2 raised."""


def _named(name: Any, params: dict[str, Any]) -> Level:
    if not isinstance(name, (str, SRCPooling)):
        raise _WrongType(f"Pooler config must be a pooler or an alias, got {type(name).__name__}")
    if isinstance(name, SRCPooling) and params:
        raise InputError(
            f"Cannot provide kwargs together with a pooler instance, got {sorted(params)}", field="poolers"
        )
    return name, params


def level_key(name: Any, params: Mapping[str, Any]) -> LevelKey:
    """Return the identity of a level: alias and parameters, or the pooler object."""
    if isinstance(name, str):
        return ("config", name.lower(), tuple(sorted((key, repr(value)) for key, value in params.items())))
    return ("instance", id(name), type(name).__name__)


def format_level_key(key: LevelKey) -> str:
    """Return the text of a level: alias and parameters, or the class of the pooler object."""
    if key[0] == "instance":
        return f"{key[2]}()"
    shown = ", ".join(f"{name}={value}" for name, value in key[2])
    return f"{key[1]}({shown})" if shown else str(key[1])


def make_pooler(name: Any, params: dict[str, Any], seed: int) -> SRCPooling:
    """Return the pooler of a level, after checking that it can precompute levels.

    Args:
        name: Alias or pooler object.
        params: Parameters of the pooler.
        seed: Seed of random choices, if the level is not a pooler object.

    Raises:
        InputError: If the pooler is trainable, or depends on more than the topology.
    """
    pooler: SRCPooling = (
        get_pooler(name, **_with_defaults(name, params, seed)) if isinstance(name, str) else name
    )
    title = f"{name!r} ({type(pooler).__name__})" if isinstance(name, str) else type(pooler).__name__
    if pooler.is_trainable:
        raise InputError(f"The pooler must not be trainable, got {title}", field="poolers")
    if not (pooler.is_precoarsenable or _defines_levels(pooler)):
        raise InputError(
            f"{title} cannot pre-coarsen: its pooled graph depends on more than the topology", field="poolers"
        )
    return pooler


def _defines_levels(pooler: SRCPooling) -> bool:
    """Return True if a class of the user defines levels without deriving from ``Precoarsenable``."""
    return not isinstance(pooler, Precoarsenable) and any(hasattr(pooler, name) for name in _LEVEL_METHODS)


def _with_defaults(name: str, params: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the parameters with the seed, if the pooler has one, and with the defaults of its method.

    The defaults of a layer can differ from those of its method: a k-MIS layer learns its scores, which is impossible
    before training.
    """
    alias = name if name in pooler_map.entries else name.lower().removesuffix("_u")
    if alias not in pooler_map:
        return {"seed": seed, **params}
    if alias not in METHODS and not any(hasattr(pooler_map[alias], method) for method in _LEVEL_METHODS):
        raise InputError(
            f"The pooler must not be trainable or read features, got {alias!r}; "
            f"use one of {', '.join(METHODS)}",
            field="poolers",
        )
    known = set(foo_signature(pooler_map[alias]).args)
    defaults: dict[str, Any] = {"seed": seed}
    if alias in METHODS:
        fields = dataclasses.fields(METHODS[alias].params)
        defaults |= {
            field.name: field.default for field in fields if field.default is not dataclasses.MISSING
        }
    return {key: value for key, value in defaults.items() if key in known} | params
