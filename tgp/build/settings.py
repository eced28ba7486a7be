"""Values of settings: their text on the command line, and the short forms that Python callers may use."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tgp.engine.carry import REDUCTIONS, CarryRules
from tgp.engine.schedule import Schedule
from tgp.errors import InputError, ScheduleError
from tgp.input_limits import physical_memory

__all__ = ["REDUCTIONS", "TEXT_PARSERS", "normalize_settings", "parse_levels", "parse_shard", "parse_size"]


def parse_levels(text: str) -> tuple[int, ...]:
    """Parse level numbers separated by commas.

    Args:
        text: Text such as ``"1,3"``.

    Raises:
        InputError: If the text has another form.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"expected levels such as 1,3, got {text!r}", field="only_levels") from None


def parse_shard(text: str) -> tuple[int, int]:
    """Parse the number of a job and the number of jobs.

    Args:
        text: Text ``"i/N"`` with ``0 <= i < N``.

    Raises:
        InputError: If the text has another form.

    Examples:
        >>> parse_shard("3/10")
        (3, 10)
    """
    match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    if match is None:
        raise InputError(f"shard cannot be read: expected i/N such as 0/8, got {text!r}", field="shard")
    job, jobs = int(match[1]), int(match[2])
    if not 0 <= job < jobs:
        raise InputError(f"shard is out of range: expected i/N with 0 <= i < N, got {text!r}", field="shard")
    return job, jobs


_OBJECT_HINT = (
    "name the pooler and its parameters as text, such as 'graclus:order=index*3'; precoarsen and PreCoarsening also "
    "accept pooler objects"
)

LEAST_BYTES_WITHOUT_UNIT = 10**6
"""Smallest number that is read as bytes if it has no unit. Smaller ones are megabytes in which the unit was forgotten."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def parse_size(text: str, field: str = "shard_size") -> int:
    """Parse a number of bytes.

    Args:
        text: Number with a unit: ``64MB``, ``1.5G``, ``64MiB``, ``500B``. A number of at least a million needs none.
        field: Name of the setting, stored in the error.

    Raises:
        InputError: If the text has another form, or the size is 0.

    Examples:
        >>> parse_size("1.5k"), parse_size("1KiB")
        (1500, 1024)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)\s*", text.lower())
    if match is None or (match[3] and not match[2]):
        raise InputError(
            f"{field} cannot be read: expected a size such as 64MB or 1GiB, got {text!r}", field=field
        )
    if not match[2] and not match[4] and float(match[1]) < LEAST_BYTES_WITHOUT_UNIT:
        raise InputError(
            f"{field} needs a unit: expected a size such as {match[1]}MB, got {text!r}",
            field=field,
            hint=f"{match[1]}MB are megabytes; {match[1]}B are bytes",
        )
    factor = 1024 ** "kmgt".index(match[2]) * 1024 if match[3] else _UNITS[match[2]]
    size = int(float(match[1]) * factor)
    if size < 1:
        raise InputError(f"{field} is out of range: expected a positive size, got {text!r}", field=field)
    return size


def parse_memory(text: str) -> int:
    """Return the number of bytes of ``"4GB"``, or four fifths of the memory of the machine or cgroup for ``"auto"``.

    Args:
        text: Size with a unit, or ``auto``.

    Raises:
        InputError: If the text is neither, or the memory is not known.
    """
    if text.strip().lower() == "auto":
        found = physical_memory()
        if found >= 1 << 62:
            raise InputError("the memory of this machine is not known: expected a size", field="memory")
        return found // 5 * 4
    return parse_size(text, field="memory")


TEXT_PARSERS: dict[str, Callable[[str], Any]] = {
    "shard": parse_shard,
    "shard_size": parse_size,
    "max_input": functools.partial(parse_size, field="max_input"),
    "memory": parse_memory,
    "only_levels": parse_levels,
}
"""Settings that may be given as text, although they are not text."""


def normalize_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the short forms of settings: text for a path or a number, one value for a tuple, a mapping for poolers or rules.

    Args:
        values: Fields of :class:`~tgp.build.config.CoarsenConfig`.

    Returns:
        The fields in the types that the class declares.

    Raises:
        InputError: If a value has another type, or a text cannot be read.
    """
    found = dict(values)
    for name, parse in TEXT_PARSERS.items():
        if isinstance(found[name], str):
            found[name] = parse(found[name])
    for name in ("root", "out"):
        found[name] = _as_path(found[name], name)
    if found["carry"] is not None:
        rules = CarryRules.parse(found["carry"])
        found["carry"] = str(rules) if rules else None
    if isinstance(found["dataset"], os.PathLike):
        # A path that is written without a folder could also be a name.
        text = os.fspath(found["dataset"])
        found["dataset"] = text if os.path.dirname(text) else os.path.join(os.curdir, text)
    if isinstance(found["poolers"], Mapping):
        if found["names"]:
            raise InputError(
                "hierarchies are named twice: expected names or a mapping from names to schedules, got both",
                field="names",
            )
        found["names"], found["poolers"] = tuple(found["poolers"]), tuple(found["poolers"].values())
    found["poolers"] = tuple(map(_schedule_text, _as_tuple(found["poolers"], "poolers")))
    found["relations"] = _relation_texts(found["relations"])
    for name in ("names", "exclude", "relations"):
        found[name] = _as_tuple(found[name], name)
        for item in found[name]:
            if not isinstance(item, str):
                raise InputError(f"{name} must hold text, got {item!r} ({type(item).__name__})", field=name)
    if isinstance(found["only_levels"], int):
        found["only_levels"] = (found["only_levels"],)
    elif found["only_levels"] is not None:
        found["only_levels"] = _as_tuple(found["only_levels"], "only_levels")
    return found


def _relation_texts(value: Any) -> Any:
    """Return relations as texts. A text can hold several, separated by commas; a triple is joined by dashes."""
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",") if item.strip())
    triples = [isinstance(i, tuple) and len(i) == 3 and all(isinstance(n, str) for n in i) for i in value]
    return tuple("-".join(i) if joined else i for i, joined in zip(value, triples, strict=True))


def _as_path(value: Any, name: str) -> Path | None:
    if value is None or isinstance(value, Path):
        return value
    if not isinstance(value, (str, os.PathLike)) or isinstance(value, bytes):
        raise InputError(f"{name} must be a directory, got {value!r} ({type(value).__name__})", field=name)
    if "://" in str(value):
        raise InputError(
            f"{name} must be a directory, got the URL {value}",
            field=name,
            hint="write to a directory and copy it; stores can be read from URLs",
        )
    return Path(value)


def _as_tuple(value: Any, name: str) -> tuple[Any, ...]:
    """Return the items of an iterable. Text and a schedule are single items."""
    if isinstance(value, (str, Schedule)):
        return (value,)
    if not isinstance(value, Iterable):
        kind = type(value).__name__
        if hasattr(value, "forward"):
            raise InputError(f"{name} must be text or a list, got {kind}", field=name, hint=_OBJECT_HINT)
        raise InputError(f"{name} must be text or a list, got {value!r} ({kind})", field=name)
    return tuple(value)


def _schedule_text(value: Any) -> str:
    if isinstance(value, Schedule) and value.steps is None:
        return str(value)
    if isinstance(value, str):
        return value
    if hasattr(value, "forward"):
        raise ScheduleError(
            f"a schedule has the wrong type: expected text such as 'graclus*3', got {type(value).__name__}",
            hint=_OBJECT_HINT,
        )
    raise ScheduleError(
        f"a schedule has the wrong type: expected text such as 'graclus*3', got {type(value).__name__}: {value!r}",
        hint="write the levels of a hierarchy as one text, separated by commas: 'ndp,eigen:k=8'",
    )
