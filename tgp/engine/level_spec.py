"""A level of a schedule: the name of a method and its parameters."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tgp.engine.level_method import LevelMethod, parameter_fields
from tgp.engine.methods import METHODS
from tgp.errors import ParameterError, UnknownNameError
from tgp.registry import Entry
from tgp.values import convert_value, format_value

__all__ = ["JsonLevel", "LevelSpec", "build_level"]

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

        Stores from before a parameter was added thus keep their fingerprint, see :data:`tgp.engine.level_method.ADDED`.
        The level of a method of another package also has the name and version of the package.
        """
        fields, changed = parameter_fields(type(self.params)), self.changed()
        stored = [f.name for f in fields if f.name in changed or not f.metadata.get("added")]
        values = {name: getattr(self.params, name) for name in stored}
        params = {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
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


def build_level(method: str, given: Mapping[str, Any], *, from_text: bool) -> LevelSpec:
    """Return a level with checked parameters.

    Args:
        method: alias of the method.
        given: values of parameters.
        from_text: the values are text that has to be parsed.

    Raises:
        UnknownNameError: if the method or a parameter does not exist.
        ParameterError: if a value is missing or not allowed.
    """
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
    spec = LevelSpec(alias, cls(**values))
    if spec.num_nested and spec.level_method.joint_levels(spec.params) is None:
        raise ParameterError(
            f"{alias} cannot make nested levels: expected one size, got ratios", field="ratios"
        )
    return spec


def _restore_level(entry: Entry, values: dict[str, Any]) -> LevelSpec:
    """Rebuild a pickled level. Registers its method if this process does not have the same one."""
    METHODS.add_missing(entry)
    return LevelSpec(entry.alias, METHODS[entry.alias].params(**values))
