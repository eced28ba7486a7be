"""Schedules: the list of level methods and parameters that makes a hierarchy.

The text form of a schedule separates levels by commas, adds parameters with colons, and repeats a level with ``*``::

    ndp,eigen:k=8:num_modes=3,graclus*3

A method with the parameter ``ratios`` makes several nested levels, one for each size::

    hem:ratios=0.5/0.3/0.1

A last level with ``*`` and no number is repeated until every graph is small, and ``until`` sets the size. The number of
levels then depends on the graphs, see :func:`tgp.engine.coarsening.count_levels`::

    ndp,graclus:until=10*

Reading is strict. An unknown method, an unknown parameter or a value of the wrong type is an error that names the closest
valid name. Reading a schedule imports the methods that it names, but no compiled code.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from tgp.engine.level_spec import JsonLevel, LevelSpec, build_level, check_until, read_mapping
from tgp.errors import InputError, ParameterError, ScheduleError
from tgp.values import parse_call

__all__ = ["LevelSpec", "Schedule", "ScheduleLike", "parse_schedule"]

MAX_LEVELS = 64
"""Largest number of levels. Each level is meant to halve the graph, so a larger number is a typing error."""

STALL = 0.95
"""A level, or a graph, that keeps more than this share of its nodes hardly shrinks."""

DEFAULT_UNTIL = 1
"""Size limit of a level that is repeated without a number, if none is given: as far as the method can."""

_LEVEL = re.compile(r"(?P<call>[^:*=]+(?::[^:*]*)*)(?:\*(?P<times>[^:*]*))?")


@dataclass(frozen=True)
class Schedule:
    """The levels of a hierarchy, finest first.

    Args:
        levels: methods and parameters of the levels.
        steps: numbers of consecutive levels that form one level of the hierarchy, see :meth:`keep`; ``None`` if every
            level is kept.
        open_ended: True if the last level is repeated and the number of repetitions is not known yet, see :meth:`close`.

    Raises:
        ScheduleError: if there is no level, or there are too many.
    """

    levels: tuple[LevelSpec, ...]
    steps: tuple[int, ...] | None = None
    open_ended: bool = False

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
        for spec, found in ((spec, len(list(equal))) for spec, equal in groupby(self.levels)):
            if found % (spec.num_nested or 1):
                raise ScheduleError(
                    f"the nested levels of {spec} are incomplete: expected {spec.num_nested} equal levels, got {found}"
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

    @property
    def needs(self) -> dict[str, str]:
        """Attributes of nodes that the levels need, each with the first method that needs it."""
        pairs = [(name, spec.method) for spec in self.levels for name in spec.level_method.needs]
        return dict(reversed(pairs))

    def runs(self) -> list[tuple[LevelSpec, int]]:
        """Return the runs of equal consecutive levels as (level, length).

        Nested levels that the parameters of one level describe are a run of their own.
        """
        runs = []
        for spec, equal in groupby(self.levels):
            found, nested = len(list(equal)), spec.num_nested
            runs += [(spec, nested)] * (found // nested) if nested else [(spec, found)]
        return runs

    def with_until(self, until: int) -> Schedule:
        """Return the open-ended schedule with a size limit.

        Args:
            until: number of nodes below or at which a graph is not coarsened further.

        Raises:
            ScheduleError: if the schedule is not open-ended, or has a limit already.
            ParameterError: if the limit is not positive.
        """
        last = self.levels[-1]
        if not self.open_ended or last.until is not None:
            expected = "no until in its text" if self.open_ended else f"a last level with *, such as {last}*"
            raise ScheduleError(
                f"until cannot be used with the schedule {self}: expected {expected}, got {until}"
            )
        last = replace(last, until=until)
        check_until(last)
        return replace(self, levels=(*self.levels[:-1], last))

    def close(self, times: int) -> Schedule:
        """Return the schedule with a number of repetitions of its open-ended level.

        Args:
            times: number of repetitions, at least 1. There are at most :data:`MAX_LEVELS` levels in total.
        """
        *first, last = self.levels
        limited = last if last.until is not None else replace(last, until=DEFAULT_UNTIL)
        return Schedule((*first, *[limited] * times)[:MAX_LEVELS])

    def keep(self, positions: Sequence[int]) -> Schedule:
        """Return the schedule whose hierarchy has the given levels only.

        A level of that hierarchy composes all levels since the previous one: ``graclus*4`` with positions 1 and 3 has
        two levels, each the composition of two matchings. Levels after the last position are removed, and so are the
        sizes of nested levels (``ratios``).

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
        schedule = Schedule(self._first(starts[-1]), tuple(end - start for start, end in pairwise(starts)))
        for start, group in zip(starts, schedule._groups(), strict=False):
            check_composable(
                [spec.method for spec in group], [spec.level_method.dense for spec in group], start
            )
        return schedule

    def _first(self, count: int) -> tuple[LevelSpec, ...]:
        """Return the first levels. Nested levels are described again if some of them are removed."""
        levels: list[LevelSpec] = []
        for spec, length in self.runs():
            kept = min(length, count - len(levels))
            if 0 < kept < length and spec.num_nested:
                spec = replace(spec, params=replace(spec.params, ratios=spec.params.ratios[:kept]))
            levels += [spec] * kept
        return tuple(levels)

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

        Raises:
            ScheduleError: if the number of levels is not known.
        """
        if self.open_ended:
            raise ScheduleError(
                f"the schedule {self} has no fixed number of levels: expected a number after *, got none",
                hint="tgp coarsen, tgp.coarsen and precoarsen determine the number from all graphs",
            )
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
        levels = tuple(read_mapping(item) for group in groups for item in group)
        return cls(levels, tuple(map(len, groups)) if len(levels) > len(groups) else None)

    def __str__(self) -> str:
        if self.open_ended:
            return ",".join(
                [*([str(Schedule(self.levels[:-1]))] if len(self) > 1 else []), f"{self.levels[-1]}*"]
            )
        return ",".join(
            f"{spec}*{times}" if times > max(spec.num_nested, 1) else str(spec) for spec, times in self.runs()
        )


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
        value = [typing.cast("LevelLike", value)]
    if not isinstance(value, Sequence):
        raise ScheduleError(
            f"a schedule has the wrong type: expected text or a sequence of levels, got {type(value).__name__}"
        )
    value, open_ended = _split_open_end(value)
    levels: list[LevelSpec] = []
    for spec, equal in groupby(spec for item in value for spec in _read_item(item)):
        found = list(equal)
        # A single object stands for all of its nested levels. Several objects are the levels of another schedule.
        levels += found * max(spec.num_nested, 1) if len(found) == 1 else found
    if open_ended:
        check_until(levels[-1])
    return Schedule(tuple(levels), open_ended=open_ended)


def _split_open_end(value: Sequence[Any]) -> tuple[Sequence[Any], bool]:
    """Remove the ``*`` without a number from the last item. Returns the items, and True if there was one."""
    last = value[-1] if value else None
    if not isinstance(last, str) or not last.rstrip().endswith("*"):
        return value, False
    item = last.rpartition(",")[2].strip()
    if item.count("*") > 1:
        raise ScheduleError(f"level {item!r} cannot be read: expected one *, got {item.count('*')}")
    return [*value[:-1], last.rstrip().removesuffix("*")], True


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
        spec = read_mapping(item)
        return [spec] * max(spec.num_nested, 1)
    if _is_pair(item):
        name, params = typing.cast("tuple[str, Mapping[str, Any] | None]", item)
        spec = LevelSpec.of(name, params)
        return [spec] * max(spec.num_nested, 1)
    raise ScheduleError(
        f"a level has the wrong type: expected text, a (name, parameters) pair or a mapping, "
        f"got {type(item).__name__}: {item!r}"
    )


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
        spec = build_level(*_parse_level(found["call"], item), from_text=True)
        if spec.num_nested and found["times"] is not None:
            raise ScheduleError(
                f"level {item!r} cannot be repeated: expected its {spec.num_nested} nested levels once, "
                f"got *{found['times']}",
                hint=f"write it several times: {spec},{spec}",
            )
        levels.extend([spec] * max(spec.num_nested, 1) * _parse_times(found["times"], item))
    return levels


def _parse_times(text: str | None, item: str) -> int:
    if text is None:
        return 1
    if not text.strip():
        raise ScheduleError(
            f"{item!r} has no number after *: expected one for every level but the last of a schedule",
            hint=f"write {item}2, or move {item} to the end",
        )
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
