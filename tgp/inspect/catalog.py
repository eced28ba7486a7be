"""List poolers with their parameters and datasets, from the registries. Imports nothing heavy."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tgp.engine.level_method import parameter_fields
from tgp.engine.methods import METHODS
from tgp.errors import ParameterError, UnknownNameError
from tgp.poolers import pooler_map
from tgp.registry import Entry
from tgp.sources.families import FAMILIES
from tgp.sources.names import KnownDataset, default_root, find_raw

__all__ = [
    "DatasetInfo",
    "ParameterInfo",
    "PoolerInfo",
    "describe_pooler",
    "ignored_entry_points",
    "list_datasets",
    "list_poolers",
]


@dataclass(frozen=True)
class ParameterInfo:
    """A parameter of a level method.

    Args:
        name: name of the parameter.
        default: default value; ``None`` if the parameter is required.
        required: True if there is no default.
        type: type or choices, in the form in which users write values.
    """

    name: str
    default: Any
    required: bool
    type: str


@dataclass(frozen=True)
class PoolerInfo:
    """A pooler. Traits are ``None`` if they are unknown without importing the pooler.

    Args:
        alias: name of the pooler.
        summary: one line that describes it.
        package: package that provides it, with its version; ``None`` for poolers of tgp.
        dense: True if its assignment is dense.
        trainable: True if it has learnable parameters.
        loss: True if it has a loss of its own.
        precoarsenable: True if ``tgp coarsen`` accepts it.
        parameters: parameters of the level method; only given by :func:`describe_pooler`.
    """

    alias: str
    summary: str
    package: str | None
    dense: bool | None = None
    trainable: bool | None = None
    loss: bool | None = None
    precoarsenable: bool = False
    parameters: list[ParameterInfo] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without the parameters if they are not given."""
        values = dataclasses.asdict(self)
        if self.parameters is None:
            del values["parameters"]
        return values


@dataclass(frozen=True)
class DatasetInfo:
    """A known dataset.

    Args:
        name: name for ``--dataset``.
        collection: collection that it belongs to.
        summary: one line that describes it.
        local: True if it can be opened without a network.
        parameters: parameters of a built-in dataset with their defaults.
    """

    name: str
    collection: str
    summary: str
    local: bool
    parameters: dict[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without the parameters if there are none."""
        values = dataclasses.asdict(self)
        if self.parameters is None:
            del values["parameters"]
        return values


def list_poolers(*, precoarsenable_only: bool = False) -> list[PoolerInfo]:
    """List all poolers, followed by the level methods that have no layer. Imports none of them.

    Args:
        precoarsenable_only: list only poolers that ``tgp coarsen`` accepts.
    """
    layers, methods = pooler_map.all_entries(), METHODS.all_entries()
    method_keys = {(entry.alias, entry.package) for entry in methods}
    layer_keys = {(entry.alias, entry.package) for entry in layers}
    found = [_layer_info(e, precoarsenable=(e.alias, e.package) in method_keys) for e in layers]
    found += [
        PoolerInfo(
            e.alias, e.summary, e.origin, dense=False, trainable=False, loss=False, precoarsenable=True
        )
        for e in methods
        if (e.alias, e.package) not in layer_keys
    ]
    return [pooler for pooler in found if pooler.precoarsenable or not precoarsenable_only]


def _layer_info(entry: Entry, *, precoarsenable: bool) -> PoolerInfo:
    traits = {name: entry.traits.get(name) for name in ("dense", "trainable", "loss")}
    return PoolerInfo(entry.alias, entry.summary, entry.origin, **traits, precoarsenable=precoarsenable)


def ignored_entry_points() -> list[str]:
    """Describe the entry points of other packages that are ignored: their name is taken or they cannot be read."""
    tables = (pooler_map, METHODS)
    taken = [
        f"{e.origin} offers {e.alias!r}, but that name is taken" for t in tables for e in t.ignored_entries()
    ]
    return [*taken, *dict.fromkeys(text for t in tables for text in t.package_entries.unreadable)]


def describe_pooler(name: str) -> PoolerInfo:
    """Describe one pooler, with its parameters if ``tgp coarsen`` accepts it.

    Args:
        name: alias of the pooler, in upper or lower case.

    Raises:
        UnknownNameError: if there is no such pooler.
        PackageError: if the entry point that provides it cannot be used.
    """
    known = {pooler.alias: pooler for pooler in list_poolers()}
    alias = name.lower()
    if alias not in known:
        raise UnknownNameError("pooler", name, known)
    pooler = known[alias]
    if pooler.precoarsenable:
        return dataclasses.replace(pooler, parameters=_parameters(METHODS[alias].params))
    if pooler_map.entry(alias).package is not None:
        # A layer of another package may be a level method, too. Only its class can tell.
        with contextlib.suppress(ParameterError):
            parameters = _parameters(METHODS[alias].params)
            return dataclasses.replace(pooler, parameters=parameters, precoarsenable=True)
    return pooler


def _parameters(params: type) -> list[ParameterInfo]:
    found, hints = [], get_type_hints(params)
    for field in parameter_fields(params):
        default = field.default_factory() if callable(field.default_factory) else field.default
        required = default is dataclasses.MISSING
        kind = _type_text(hints[field.name])
        found.append(ParameterInfo(field.name, None if required else default, required, kind))
    return found


def _type_text(hint: Any) -> str:
    """Return a type as text; for a literal type, its choices.

    Examples:
        >>> _type_text(int | None), _type_text(Literal["sum", "mean"])
        ('int, none', 'sum, mean')
    """
    if hint is NoneType:
        return "none"
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return ", ".join(map(_type_text, get_args(hint)))
    return str(getattr(hint, "__name__", hint))


def list_datasets(
    *, search: str | None = None, local_only: bool = False, root: Path | None = None
) -> list[DatasetInfo]:
    """List the known datasets, built-in datasets first.

    Args:
        search: list only datasets whose name or collection contains this text, ignoring case.
        local_only: list only datasets that can be opened without a network.
        root: folder of the datasets; default ``$TGP_DATA`` or ``./data``.
    """
    from tgp.sources.builtin import BUILTIN

    folder = root or default_root()
    found = [DatasetInfo(b.name, "built-in", b.summary, True, b.defaults) for b in BUILTIN.values()]
    seen: set[str] = set()
    for family in FAMILIES.values():
        for member in family.members:
            name = f"{family.name}/{member}" if member.lower() in seen else member
            seen.add(member.lower())
            local = not family.host or find_raw(KnownDataset(family, member), folder) is not None
            found.append(DatasetInfo(name, family.name, family.summary, local))
    word = (search or "").lower()
    found = [d for d in found if word in d.name.lower() or word in d.collection.lower()]
    return [d for d in found if d.local or not local_only]
