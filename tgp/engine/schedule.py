"""Which methods make which levels: strict reading and writing of schedules.

    ndp,eigen:k=8:num_modes=3,graclus*3

Levels are separated by commas, parameters follow a colon, ``*3`` repeats a level. Nothing is
guessed: an unknown method or parameter, or a value of the wrong type, is an error that names the
nearest valid one. Reading a schedule imports the methods it names and nothing compiled.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tgp.engine.methods import METHODS
from tgp.engine.level_method import LevelMethod
from tgp.errors import ParameterError, ScheduleError, UnknownNameError
from tgp.registry import Entry
from tgp.values import convert_value, format_value, parse_call

__all__ = ["LevelSpec", "Schedule", "ScheduleLike", "parse_schedule"]

MAX_LEVELS = 64
"""More is a slip of the finger: every level at least tries to halve the graph."""

_LEVEL = re.compile(r"(?P<name>[^:*=]+)(?P<params>(?::[^:*]*)*)(?:\*(?P<times>[^:*]*))?")


@dataclass(frozen=True)
class LevelSpec:
    """One level: the alias of a method and its resolved parameters."""

    method: str
    params: Any

    @classmethod
    def of(cls, method: str, params: Mapping[str, Any] | None = None) -> LevelSpec:
        """Build from typed values, filling in defaults.

        Raises:
            UnknownNameError: for a method or parameter that does not exist.
            ParameterError: for a value that is missing or not allowed.
        """
        return _build(method, dict(params or {}), from_text=False)

    @property
    def level_method(self) -> LevelMethod:
        """The method behind the alias."""
        return METHODS[self.method]

    def to_json(self) -> dict[str, Any]:
        """Alias and every parameter, defaults included; for a method of another package also its name and version."""
        line = {"method": self.method, "params": dataclasses.asdict(self.params)}
        entry = METHODS.entry(self.method)
        return line if entry.package is None else line | {"package": _package(entry)}

    def __str__(self) -> str:
        shown = [
            f":{f.name}={format_value(value)}"
            for f in dataclasses.fields(self.params)
            if (value := getattr(self.params, f.name)) != f.default
        ]
        return self.method + "".join(shown)


@dataclass(frozen=True)
class Schedule:
    """The levels of a hierarchy, finest first."""

    levels: tuple[LevelSpec, ...]

    def __post_init__(self) -> None:
        if not self.levels:
            raise ScheduleError("A schedule needs at least one level, got none.")
        if len(self.levels) > MAX_LEVELS:
            raise ScheduleError(f"A schedule holds at most {MAX_LEVELS} levels, got {len(self.levels)}.")

    def __len__(self) -> int:
        return len(self.levels)

    def __iter__(self) -> Iterator[LevelSpec]:
        return iter(self.levels)

    def __getitem__(self, level: int) -> LevelSpec:
        return self.levels[level]

    def runs(self) -> list[tuple[LevelSpec, int]]:
        """Equal consecutive levels as (level, how many)."""
        out: list[tuple[LevelSpec, int]] = []
        for spec in self.levels:
            if out and out[-1][0] == spec:
                out[-1] = (spec, out[-1][1] + 1)
            else:
                out.append((spec, 1))
        return out

    def to_json(self) -> list[dict[str, Any]]:
        """Resolved levels as JSON values, every parameter written out."""
        return [spec.to_json() for spec in self.levels]

    @classmethod
    def from_json(cls, value: str | Sequence[Mapping[str, Any]]) -> Schedule:
        """Read what :meth:`to_json` gave, as JSON text or as parsed values."""
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except json.JSONDecodeError as error:
                raise ScheduleError(f"A schedule must be JSON here: {error}.") from error
        if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
            raise ScheduleError(f"A schedule must be a list of levels, got {type(value).__name__}.")
        return cls(tuple(_from_mapping(item) for item in value))

    def __str__(self) -> str:
        return ",".join(f"{spec}*{n}" if n > 1 else str(spec) for spec, n in self.runs())


LevelLike = str | LevelSpec | Mapping[str, Any] | tuple[str, Mapping[str, Any] | None]
ScheduleLike = Schedule | LevelLike | Sequence[LevelLike]


def parse_schedule(value: ScheduleLike) -> Schedule:
    """Read a schedule from text, a level, or a sequence of levels.

    A level is text (``"kmis:order_k=2"``), a :class:`LevelSpec`, a pair ``(name, parameters or None)``, or a
    mapping with ``method`` (or ``pooler`` or ``name``) and the parameters, flat or under ``params``.

    Raises:
        ScheduleError: if the text cannot be read.
        UnknownNameError: for a method or parameter that does not exist; names the nearest.
        ParameterError: for a value of the wrong type or out of range.

    Examples:
        >>> str(parse_schedule("graclus,graclus,nopool"))
        'graclus*2,nopool'
    """
    if isinstance(value, Schedule):
        return value
    if isinstance(value, (str, LevelSpec, Mapping)) or _is_pair(value):
        return Schedule(tuple(_levels(value)))
    if not isinstance(value, Sequence):
        raise ScheduleError(f"A schedule must be text or a sequence of levels, got {type(value).__name__}.")
    return Schedule(tuple(spec for item in value for spec in _levels(item)))


def _is_pair(value: object) -> bool:
    """``("ndp", {...})`` is one level, any other tuple a sequence of levels."""
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and (value[1] is None or isinstance(value[1], Mapping))
    )


def _levels(item: object) -> list[LevelSpec]:
    if isinstance(item, str):
        return _from_text(item)
    if isinstance(item, LevelSpec):
        return [item]
    if isinstance(item, Mapping):
        return [_from_mapping(item)]
    if _is_pair(item):
        name, params = typing.cast("tuple[str, Mapping[str, Any] | None]", item)
        return [LevelSpec.of(name, params)]
    raise ScheduleError(
        f"A level must be text, a (name, parameters) pair or a mapping, got {type(item).__name__}: {item!r}."
    )


def _from_mapping(item: object) -> LevelSpec:
    if not isinstance(item, Mapping):
        raise ScheduleError(f"A level must be a mapping here, got {type(item).__name__}: {item!r}.")
    rest = dict(item)
    named = [key for key in ("method", "pooler", "name") if key in rest]
    if len(named) != 1:
        raise ScheduleError(
            f"A level needs one of 'method', 'pooler' or 'name', got keys {sorted(map(str, rest))}."
        )
    name = rest.pop(named[0])
    if not isinstance(name, str):
        raise ScheduleError(f"The name of a level must be text, got {type(name).__name__}: {name!r}.")
    nested = rest.pop("params", None)
    if nested is not None and not isinstance(nested, Mapping):
        raise ScheduleError(f"'params' of level {name!r} must be a mapping, got {type(nested).__name__}.")
    if nested is not None and "package" in rest:
        _check_package(name, rest.pop("package"))
    return LevelSpec.of(name, {**rest, **(nested or {})})


def _package(entry: Entry) -> dict[str, str | None]:
    return {"name": entry.package, "version": entry.version}


def _check_package(name: str, wanted: object) -> None:
    """Refuse to make a level with another package, or another version of it, than the one that a schedule names."""
    alias = name.strip().lower()
    entry = METHODS.find(alias)
    if entry is None or _package(entry) != wanted:
        made = " ".join(map(str, wanted.values())) if isinstance(wanted, Mapping) else repr(wanted)
        here = "is not installed" if entry is None else f"is of {entry.origin or 'tgp or the program'} here"
        raise ScheduleError(f"Level {name!r} is of package {made}; {name!r} {here}.")


def _from_text(text: str) -> list[LevelSpec]:
    if not text.strip():
        raise ScheduleError("A schedule needs at least one level, got empty text. Example: ndp,graclus*2")
    out: list[LevelSpec] = []
    for number, part in enumerate(text.split(","), start=1):
        item = part.strip()
        if not item:
            raise ScheduleError(f"Level {number} of {text!r} is empty: a comma too many.")
        found = _LEVEL.fullmatch(item)
        if found is None:
            raise ScheduleError(
                f"Level {number} of {text!r} cannot be read: {item!r}. "
                "Expected name, name:parameter=value or name:parameter=value*times."
            )
        times = _times(found["times"], item)
        spec = _build(*_parse_level(found["name"] + found["params"], item), from_text=True)
        out.extend([spec] * times)
    return out


def _times(text: str | None, item: str) -> int:
    if text is None:
        return 1
    if not re.fullmatch(r"\s*[0-9]+\s*", text) or not 1 <= int(text) <= MAX_LEVELS:
        raise ScheduleError(
            f"The number after * in {item!r} must be 1 to {MAX_LEVELS}, got {text.strip()!r}."
        )
    return int(text)


def _parse_level(call: str, item: str) -> tuple[str, dict[str, str]]:
    try:
        name, params = parse_call(call)
    except ParameterError as error:
        raise ScheduleError(f"Level {item!r} cannot be read: {error}.") from error
    for key, value in params.items():
        if not value:
            raise ScheduleError(f"Level {item!r} cannot be read: expected name=value, got '{key}='.")
    return name, params


def _build(method: str, given: Mapping[str, Any], *, from_text: bool) -> LevelSpec:
    alias = method.strip().lower()
    METHODS.entry(alias)
    cls = METHODS[alias].params
    fields = {f.name: f for f in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    for name in given:
        if name not in fields:
            raise UnknownNameError(f"parameter of {alias}", str(name), fields or ["(none)"])
    for name, field in fields.items():
        no_default = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if no_default and name not in given:
            raise ParameterError(f"{alias} needs parameter {name!r}: write {alias}:{name}=...", field=name)
    values = {
        name: convert_value(value, hints[name], f"{alias}:{name}", field=name, from_text=from_text)
        for name, value in given.items()
    }
    return LevelSpec(alias, cls(**values))
