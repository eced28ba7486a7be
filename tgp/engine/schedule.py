"""Schedules: the list of level methods and parameters that makes a hierarchy.

The text form of a schedule separates levels by commas, adds parameters with colons, and repeats a level with ``*``::

    ndp,eigen:k=8:num_modes=3,graclus*3

Reading is strict. An unknown method, an unknown parameter or a value of the wrong type is an error that names the closest
valid name. Reading a schedule imports the methods that it names, but no compiled code.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from tgp.engine.level_method import LevelMethod, parameter_fields
from tgp.engine.methods import METHODS
from tgp.errors import InputError, ParameterError, ScheduleError, UnknownNameError
from tgp.registry import Entry
from tgp.values import convert_value, format_value, parse_call

__all__ = ["LevelSpec", "Schedule", "ScheduleLike", "parse_schedule"]

MAX_LEVELS = 64
"""Largest number of levels. Each level is meant to halve the graph, so a larger number is a typing error."""

_LEVEL = re.compile(r"(?P<call>[^:*=]+(?::[^:*]*)*)(?:\*(?P<times>[^:*]*))?")

JsonLevel = dict[str, Any]


@dataclass(frozen=True)
class LevelSpec:
    """Method and parameters of one level.

    A pickled level carries its entry of the method table, so that a worker process also finds methods that were
    registered at run time.

    Args:
        method: alias of the method.
        params: instance of the method's parameter class.
    """

    method: str
    params: Any

    @classmethod
    def of(cls, method: str, params: Mapping[str, Any] | None = None) -> LevelSpec:
        """Return a level with the given parameters and the defaults of the others.

        Args:
            method: alias of the method.
            params: values of parameters, of the types that the method declares.

        Raises:
            UnknownNameError: if the method or a parameter does not exist.
            ParameterError: if a value is missing or not allowed.
        """
        return _build_level(method, dict(params or {}), from_text=False)

    @property
    def level_method(self) -> LevelMethod:
        """Method of the level, imported on first access."""
        return METHODS[self.method]

    def to_json(self) -> JsonLevel:
        """Return the level as a JSON value with all parameters, except added ones that have their default value.

        Stores from before a parameter was added thus keep their fingerprint, see :data:`tgp.engine.level_method.ADDED`.
        The level of a method of another package also has the name and version of the package.
        """
        fields, changed = parameter_fields(type(self.params)), self.changed()
        stored = [f.name for f in fields if f.name in changed or not f.metadata.get("added")]
        params = {name: getattr(self.params, name) for name in stored}
        level, entry = {"method": self.method, "params": params}, METHODS.entry(self.method)
        package = {"package": {"name": entry.package, "version": entry.version}}
        return level if entry.package is None else level | package

    def _values(self) -> dict[str, Any]:
        return {field.name: getattr(self.params, field.name) for field in parameter_fields(type(self.params))}

    def __reduce__(self) -> tuple[Any, ...]:
        # A parameter class that was made at run time cannot be pickled. The method table can make it again.
        return _restore_level, (METHODS.entry(self.method), self._values())

    def changed(self) -> dict[str, Any]:
        """Return the parameters that differ from their defaults."""
        fields = parameter_fields(type(self.params))
        return {f.name: value for f in fields if (value := getattr(self.params, f.name)) != f.default}

    def __str__(self) -> str:
        return self.method + "".join(f":{name}={format_value(v)}" for name, v in self.changed().items())


@dataclass(frozen=True)
class Schedule:
    """The levels of a hierarchy, finest first.

    Args:
        levels: methods and parameters of the levels.
        steps: numbers of consecutive levels that form one level of the hierarchy, see :meth:`keep`; ``None`` if every
            level is kept.

    Raises:
        ScheduleError: if there is no level, or there are too many.
    """

    levels: tuple[LevelSpec, ...]
    steps: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.levels) <= MAX_LEVELS:
            raise ScheduleError(
                f"a schedule has the wrong length: expected at least one level and at most {MAX_LEVELS}, "
                f"got {len(self.levels)}"
            )
        if self.steps is not None and (sum(self.steps) != len(self.levels) or min(self.steps) < 1):
            raise ScheduleError(
                f"steps do not fit the schedule: expected positive numbers whose sum is {len(self.levels)}, "
                f"got {list(self.steps)}"
            )

    def __len__(self) -> int:
        return len(self.levels)

    def __iter__(self) -> Iterator[LevelSpec]:
        return iter(self.levels)

    def __getitem__(self, level: int) -> LevelSpec:
        return self.levels[level]

    @property
    def revision(self) -> int:
        """Largest revision of the methods."""
        return max(spec.level_method.revision for spec in self.levels)

    def runs(self) -> list[tuple[LevelSpec, int]]:
        """Return the runs of equal consecutive levels as (level, length)."""
        return [(spec, len(list(equal))) for spec, equal in groupby(self.levels)]

    def keep(self, positions: Sequence[int]) -> Schedule:
        """Return the schedule whose hierarchy has the given levels only.

        A level of that hierarchy composes all levels since the previous one: ``graclus*4`` with positions 1 and 3 has
        two levels, each the composition of two matchings. Levels after the last position are removed.

        Args:
            positions: ascending positions of levels, from 0 on.

        Raises:
            InputError: if a level does not exist, or a dense assignment would have to be composed.

        Examples:
            >>> parse_schedule("graclus*5").keep([1, 3]).steps
            (2, 2)
        """
        kept = list(positions)
        if not kept or kept != sorted(set(kept)) or not 0 <= kept[0] <= kept[-1] < len(self):
            raise InputError(
                f"the levels to keep are wrong: expected ascending numbers from 1 to {len(self)}, "
                f"got {[position + 1 for position in kept]}",
                field="only_levels",
            )
        starts = [0, *(position + 1 for position in kept)]
        schedule = Schedule(self.levels[: starts[-1]], tuple(end - start for start, end in pairwise(starts)))
        for start, group in zip(starts, schedule._groups(), strict=False):
            check_composable(
                [spec.method for spec in group], [spec.level_method.dense for spec in group], start
            )
        return schedule

    def _groups(self) -> list[tuple[LevelSpec, ...]]:
        """Return, for each stored level, the consecutive steps of the schedule that it combines."""
        groups, start = [], 0
        for length in self.steps or (1,) * len(self):
            groups.append(self.levels[start : start + length])
            start += length
        return groups

    def to_json(self) -> list[JsonLevel]:
        """Return the schedule as JSON values, one for each level of the hierarchy.

        A level that composes several has the form ``{"method": "graclus+graclus", "levels": [...]}``.
        """
        stored: list[JsonLevel] = []
        for group in self._groups():
            levels = [spec.to_json() for spec in group]
            composed = {"method": "+".join(spec.method for spec in group), "levels": levels}
            stored.append(levels[0] if len(levels) == 1 else composed)
        return stored

    @classmethod
    def from_json(cls, value: str | Sequence[Mapping[str, Any]]) -> Schedule:
        """Read a schedule in the form of :meth:`to_json`.

        Args:
            value: JSON text, or the parsed values.

        Raises:
            ScheduleError: if the value does not have this form, or names another version of a package.
            UnknownNameError: if a method or parameter does not exist.
            ParameterError: if a value is missing or not allowed.
        """
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except json.JSONDecodeError as error:
                raise ScheduleError(f"a schedule is not valid JSON: {error}") from error
        if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
            raise ScheduleError(f"a schedule has the wrong type: expected a list, got {type(value).__name__}")
        groups = [item.get("levels", [item]) if isinstance(item, Mapping) else [item] for item in value]
        levels = tuple(_from_mapping(item) for group in groups for item in group)
        return cls(levels, tuple(map(len, groups)) if len(levels) > len(groups) else None)

    def __str__(self) -> str:
        return ",".join(f"{spec}*{times}" if times > 1 else str(spec) for spec, times in self.runs())


LevelLike = str | LevelSpec | Mapping[str, Any] | tuple[str, Mapping[str, Any] | None]
ScheduleLike = Schedule | LevelLike | Sequence[LevelLike]


def check_composable(methods: Sequence[str], dense: Sequence[bool], start: int) -> None:
    """Check that consecutive levels can be composed to one level.

    Args:
        methods: methods of the levels.
        dense: True for each level with a dense assignment.
        start: position of the first of the levels.

    Raises:
        InputError: if there are several levels and one of them is dense.
    """
    wrong = sorted({method for method, is_dense in zip(methods, dense, strict=True) if is_dense})
    if len(methods) > 1 and wrong:
        raise InputError(
            f"levels {start + 1} to {start + len(methods)} ({', '.join(methods)}) cannot be stored as one level: "
            f"{', '.join(wrong)} has a dense assignment",
            field="only_levels",
            hint="keep each of these levels",
        )


def parse_schedule(value: ScheduleLike) -> Schedule:
    """Read a schedule from text, a level, or a sequence of levels.

    Args:
        value: a schedule in one of these forms. A level is text (``"kmis:order_k=2"``), a :class:`LevelSpec`, a pair
            ``(name, parameters or None)``, or a mapping with ``method`` (or ``pooler`` or ``name``) and the parameters,
            flat or under ``params``.

    Raises:
        ScheduleError: if the text cannot be read.
        UnknownNameError: if a method or parameter does not exist; the message names the closest one.
        ParameterError: if a value has the wrong type or is out of range.

    Examples:
        >>> str(parse_schedule("graclus,graclus,nopool"))
        'graclus*2,nopool'
        >>> str(parse_schedule([("graclus", {"order": "index"}), "nopool"]))
        'graclus:order=index,nopool'
    """
    if isinstance(value, Schedule):
        return value
    if isinstance(value, (str, LevelSpec, Mapping)) or _is_pair(value):
        return Schedule(tuple(_read_item(value)))
    if not isinstance(value, Sequence):
        raise ScheduleError(
            f"a schedule has the wrong type: expected text or a sequence of levels, got {type(value).__name__}"
        )
    return Schedule(tuple(spec for item in value for spec in _read_item(item)))


def _is_pair(value: object) -> bool:
    """Return True for ``(name, parameters)``. Any other tuple is a sequence of levels."""
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and (value[1] is None or isinstance(value[1], Mapping))
    )


def _read_item(item: object) -> list[LevelSpec]:
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
        f"a level has the wrong type: expected text, a (name, parameters) pair or a mapping, "
        f"got {type(item).__name__}: {item!r}"
    )


def _from_mapping(item: object) -> LevelSpec:
    if not isinstance(item, Mapping):
        raise ScheduleError(
            f"a level has the wrong type: expected a mapping, got {type(item).__name__}: {item!r}"
        )
    rest = dict(item)
    named = [key for key in ("method", "pooler", "name") if key in rest]
    if len(named) != 1:
        raise ScheduleError(
            f"a level has no method: expected one of 'method', 'pooler' or 'name', got keys {sorted(map(str, rest))}"
        )
    name = rest.pop(named[0])
    if not isinstance(name, str):
        raise ScheduleError(f"the name of a level must be text, got {type(name).__name__}: {name!r}")
    nested = rest.pop("params", None)
    if nested is not None and not isinstance(nested, Mapping):
        raise ScheduleError(f"'params' of level {name!r} must be a mapping, got {type(nested).__name__}")
    if nested is not None and "package" in rest:
        _check_package(name, rest.pop("package"))
    return LevelSpec.of(name, {**rest, **(nested or {})})


def _check_package(name: str, expected: object) -> None:
    """Check that a level has the package and version that its JSON form names."""
    entry = METHODS.find(name.strip().lower())
    if entry is not None and {"name": entry.package, "version": entry.version} == expected:
        return
    wanted = " ".join(map(str, expected.values())) if isinstance(expected, Mapping) else repr(expected)
    found = "it is not installed" if entry is None else f"got {entry.origin or 'tgp or the running program'}"
    raise ScheduleError(f"level {name!r} has the wrong package: expected {wanted}, {found}")


def _from_text(text: str) -> list[LevelSpec]:
    if not text.strip():
        raise ScheduleError("the schedule is empty: expected at least one level, such as ndp,graclus*2")
    levels: list[LevelSpec] = []
    for number, part in enumerate(text.split(","), start=1):
        item = part.strip()
        if not item:
            raise ScheduleError(f"level {number} of {text!r} is empty: there is a comma too many")
        found = _LEVEL.fullmatch(item)
        if found is None:
            raise ScheduleError(
                f"level {number} of {text!r} cannot be read: expected name, name:parameter=value or "
                f"name:parameter=value*times, got {item!r}"
            )
        spec = _build_level(*_parse_level(found["call"], item), from_text=True)
        levels.extend([spec] * _parse_times(found["times"], item))
    return levels


def _parse_times(text: str | None, item: str) -> int:
    if text is None:
        return 1
    if not re.fullmatch(r"\s*[0-9]+\s*", text) or not 1 <= int(text) <= MAX_LEVELS:
        raise ScheduleError(
            f"the number after * in {item!r} is wrong: expected 1 to {MAX_LEVELS}, got {text.strip()!r}"
        )
    return int(text)


def _parse_level(call: str, item: str) -> tuple[str, dict[str, str]]:
    try:
        name, params = parse_call(call)
    except ParameterError as error:
        raise ScheduleError(f"level {item!r} cannot be read: {error}") from error
    for key, value in params.items():
        if not value:
            raise ScheduleError(f"level {item!r} cannot be read: expected name=value, got '{key}='")
    return name, params


def _build_level(method: str, given: Mapping[str, Any], *, from_text: bool) -> LevelSpec:
    alias = method.strip().lower()
    cls = METHODS[alias].params
    fields = {field.name: field for field in parameter_fields(cls)}
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


def _restore_level(entry: Entry, values: dict[str, Any]) -> LevelSpec:
    """Rebuild a pickled level. Registers its method if this process does not have the same one."""
    METHODS.add_missing(entry)
    return LevelSpec(entry.alias, METHODS[entry.alias].params(**values))
