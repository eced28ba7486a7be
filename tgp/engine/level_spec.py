"""A level of a schedule: the name of a method and its parameters."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tgp.engine.level_method import LevelMethod, parameter_fields
from tgp.engine.methods import METHODS
from tgp.errors import InputError, PackageError, ParameterError, ScheduleError, UnknownNameError
from tgp.registry import Entry
from tgp.values import convert_value, format_value

__all__ = ["JsonLevel", "LevelSpec", "build_level", "check_until", "read_mapping"]

JsonLevel = dict[str, Any]


@dataclass(frozen=True)
class LevelSpec:
    """Method and parameters of one level.

    A pickled level carries its entry of the method table, so that a worker process also finds methods that were
    registered at run time.

    Args:
        method: alias of the method.
        params: instance of the method's parameter class.
        until: size limit. A graph with at most this number of nodes stays as it is; ``None`` if every graph is coarsened.
    """

    method: str
    params: Any
    until: int | None = None

    @classmethod
    def of(cls, method: str, params: Mapping[str, Any] | None = None) -> LevelSpec:
        """Return a level with the given parameters and the defaults of the others.

        Args:
            method: alias of the method.
            params: values of parameters, of the types that the method declares, and optionally ``until``.

        Raises:
            UnknownNameError: if the method or a parameter does not exist.
            ParameterError: if a value is missing or not allowed.
        """
        return build_level(method, dict(params or {}), from_text=False)

    @property
    def level_method(self) -> LevelMethod:
        """Method of the level, imported on first access."""
        return METHODS[self.method]

    @property
    def num_nested(self) -> int:
        """Number of nested levels that the parameter ``ratios`` describes; 0 if it is empty or does not exist.

        A schedule has this number of equal levels, which are computed together.
        """
        return len(getattr(self.params, "ratios", ()))

    def to_json(self) -> JsonLevel:
        """Return the level as a JSON value with all parameters, except added ones that have their default value.

        Stores that were written before a parameter was added keep their fingerprint, see :data:`tgp.engine.level_method.ADDED`.
        The level of a method of another package also has the name and version of the package.
        """
        fields, changed = parameter_fields(type(self.params)), self.changed()
        stored = [f.name for f in fields if f.name in changed or not f.metadata.get("added")]
        values = {name: getattr(self.params, name) for name in stored}
        params = {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
        level: JsonLevel = {"method": self.method, "params": params}
        if self.until is not None:
            level["until"] = self.until
        entry = METHODS.entry(self.method)
        package = {"package": {"name": entry.package, "version": entry.version}}
        return level if entry.package is None else level | package

    def _values(self) -> dict[str, Any]:
        return {field.name: getattr(self.params, field.name) for field in parameter_fields(type(self.params))}

    def __reduce__(self) -> tuple[Any, ...]:
        # A parameter class that was made at run time cannot be pickled. The method table can make it again.
        return _restore_level, (METHODS.entry(self.method), self._values(), self.until)

    def changed(self) -> dict[str, Any]:
        """Return the parameters that differ from their defaults."""
        fields = parameter_fields(type(self.params))
        return {f.name: value for f in fields if (value := getattr(self.params, f.name)) != f.default}

    def __str__(self) -> str:
        shown = self.changed() if self.until is None else self.changed() | {"until": self.until}
        return self.method + "".join(f":{name}={format_value(v)}" for name, v in shown.items())


def build_level(method: str, given: Mapping[str, Any], *, from_text: bool) -> LevelSpec:
    """Return a level with checked parameters.

    Args:
        method: alias of the method.
        given: values of parameters, and optionally ``until``, which every method with a hard assignment has.
        from_text: the values are text that has to be parsed.

    Raises:
        UnknownNameError: if the method or a parameter does not exist.
        ParameterError: if a value is missing or not allowed.
    """
    alias = method.strip().lower()
    try:
        cls = METHODS[alias].params
    except UnknownNameError as error:
        if alias[:1] in tuple("0123456789."):
            error.add_hint(
                "commas separate levels; values of one parameter are separated by /, such as hem:ratios=0.5/0.3; "
                "a level is repeated by graclus*2"
            )
        raise
    fields = {field.name: field for field in parameter_fields(cls)}
    hints = typing.get_type_hints(cls)
    until = None
    if "until" in given and "until" not in fields:
        limit = convert_value(given["until"], int, f"{alias}:until", field="until", from_text=from_text)
        until, given = limit, {name: value for name, value in given.items() if name != "until"}
    for name in given:
        if name not in fields:
            raise _unknown_parameter(alias, str(name), fields)
    for name, field in fields.items():
        no_default = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if no_default and name not in given:
            raise ParameterError(f"{alias} needs parameter {name!r}: write {alias}:{name}=...", field=name)
    values = {
        name: convert_value(value, hints[name], f"{alias}:{name}", field=name, from_text=from_text)
        for name, value in given.items()
    }
    try:
        params = cls(**values)
    except ParameterError as error:
        error.args = (_name_method(alias, error),)
        raise
    spec = LevelSpec(alias, params, until)
    if until is not None:
        check_until(spec)
    if spec.num_nested and spec.level_method.joint_levels(spec.params) is None:
        raise ParameterError(
            f"{alias} cannot make nested levels: expected one size, got ratios", field="ratios"
        )
    return spec


def _name_method(alias: str, error: ParameterError) -> str:
    """Return the text of an error about a parameter with the name of the method, because a schedule has several levels."""
    text = str(error)
    if text.startswith((f"{alias}:", f"{alias} ")):
        return text
    return f"{alias}:{text}" if error.field and text.startswith(error.field) else f"{alias}: {text}"


def check_until(spec: LevelSpec) -> None:
    """Check that the level can leave some graphs as they are.

    Args:
        spec: level with a size limit, or level that is repeated without a number.

    Raises:
        ParameterError: if the limit is not positive, the assignment is dense, equal levels are computed together, or the level
            stands for nested ones.
    """
    method = spec.level_method
    if spec.until is not None and spec.until < 1:
        raise ParameterError(
            f"the size limit of {spec.method} is out of range: expected until of at least 1, got {spec.until}",
            field="until",
        )
    if spec.num_nested:
        raise ParameterError(
            f"{spec} cannot be repeated up to a size: expected one size, got nested levels of fixed sizes",
            field="until",
            hint=f"repeat a single level, such as {spec.method}*, or leave out *",
        )
    reason = "has the same number of supernodes in every graph" if method.dense else None
    if method.joint_levels(spec.params) is not None:
        reason = "computes all equal levels together"
    if reason is not None:
        raise ParameterError(
            f"{spec.method} cannot be repeated up to a size: expected a method that computes single levels with a hard "
            f"assignment, got {spec.method}, which {reason}",
            field="until",
            hint=f"give the number of levels: {spec.method}*3",
        )


def _unknown_parameter(alias: str, name: str, valid: Mapping[str, Any]) -> UnknownNameError:
    """Return the error about a parameter that a method does not have. It names the methods that have it."""
    others = [other for other in METHODS if other != alias and name in _parameter_names(other)]
    # The parameter of another method is hardly a typing error: ratio does not mean resolution, but ratios means ratio.
    similar = [own for own in valid if own.startswith(name) or name.startswith(own)]
    suggest = bool(similar) or not others
    error = UnknownNameError(f"parameter of {alias}", name, valid or ["(none)"], suggest=suggest)
    if name == "nodes" and "k" in valid:
        error.add_hint(f"{alias}:k=... is the number of supernodes of each graph")
    elif others:
        error.add_hint(f"{alias} has no parameter {name}; methods that have it: {', '.join(sorted(others))}")
    return error


def _parameter_names(alias: str) -> list[str]:
    try:
        return [field.name for field in parameter_fields(METHODS[alias].params)]
    except (PackageError, InputError, ImportError):  # an installed package that cannot be used
        return []


def read_mapping(item: object) -> LevelSpec:
    """Read a level from a mapping with ``method`` (or ``pooler`` or ``name``) and the parameters, flat or under ``params``.

    Args:
        item: the mapping, such as the JSON form of a level.

    Raises:
        ScheduleError: if the value does not have this form, or names another version of a package.
        UnknownNameError: if the method or a parameter does not exist.
        ParameterError: if a value is missing or not allowed.
    """
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


def _restore_level(entry: Entry, values: dict[str, Any], until: int | None) -> LevelSpec:
    """Rebuild a pickled level. Registers its method if this process does not have the same one."""
    METHODS.add_missing(entry)
    return LevelSpec(entry.alias, METHODS[entry.alias].params(**values), until)
