"""List poolers with their parameters and datasets, from the registries. Imports nothing heavy."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tgp.engine.level_method import parameter_fields
from tgp.engine.methods import METHODS
from tgp.errors import ParameterError, UnknownNameError
from tgp.inspect.class_docs import (
    Docstring,
    ParameterInfo,
    listed,
    parse_docstring,
    plain_text,
    read_class,
    read_module_docstring,
    sentence,
)
from tgp.poolers import pooler_map
from tgp.registry import Entry
from tgp.sources.families import FAMILIES
from tgp.sources.names import KnownDataset, default_root, find_raw

__all__ = [
    "DatasetInfo",
    "Paper",
    "ParameterInfo",
    "PoolerInfo",
    "describe_pooler",
    "ignored_entry_points",
    "list_datasets",
    "list_poolers",
]


_LEVEL_OPTIONS = ("lift", "s_inv_op", "lift_red_op", "cached", "seed")
"""Options of ``LevelPooling`` that are plain values."""


@dataclass(frozen=True)
class Paper:
    """A paper that describes a method: its title and its address."""

    title: str
    url: str


@dataclass(frozen=True)
class PoolerInfo:
    """A pooler. Traits are ``None`` if they are unknown without importing the pooler.

    The fields after ``precoarsenable`` are only given by :func:`describe_pooler`. Texts are plain, with names and
    formulas in backquotes; they are empty if the docstring of the pooler has no such section.

    Args:
        alias: name of the pooler.
        summary: one line that describes it.
        package: package that provides it, with its version; ``None`` for poolers of tgp.
        dense: True if its assignment is dense.
        trainable: True if it has learnable parameters.
        loss: True if it has a loss of its own.
        precoarsenable: True if ``tgp coarsen`` accepts it.
        parameters: parameters that schedules and ``tgp coarsen`` accept; ``None`` if it cannot be precomputed.
        layer_parameters: parameters that ``get_pooler`` accepts; ``None`` if the class has no readable source.
        target: ``"package.module:Class"`` of the layer; ``None`` for a method without a class of its own.
        good_for: cases for which the pooler is a good choice (section ``Good for`` of the docstring).
        avoid_when: cases in which it should not be used (section ``Avoid when``).
        complexity: time and memory (section ``Complexity``).
        papers: papers that the docstring links to.
        text: the docstring before its first section, in reStructuredText, with formulas.
        example: the section ``Examples``; empty if there is none.
        larger_than_memory: True if ``tgp coarsen --memory`` accepts it; ``None`` if it cannot be precomputed.
        restrictions: values that its parameters must have then, such as ``"order_k=1, no max_size"``.
    """

    alias: str
    summary: str
    package: str | None
    dense: bool | None = None
    trainable: bool | None = None
    loss: bool | None = None
    precoarsenable: bool = False
    parameters: list[ParameterInfo] | None = None
    layer_parameters: list[ParameterInfo] | None = None
    target: str | None = None
    good_for: str | None = None
    avoid_when: str | None = None
    complexity: str | None = None
    papers: list[Paper] | None = None
    text: str | None = None
    example: str | None = None
    larger_than_memory: bool | None = None
    restrictions: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without those that are not given."""
        values = dataclasses.asdict(self)
        later = [field.name for field in dataclasses.fields(self)][7:]
        return {name: value for name, value in values.items() if value is not None or name not in later}


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
    """Describe one pooler with its parameters, its uses, its complexity and its papers.

    The class of a pooler of tgp is read from its source, so torch is not imported.

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
    method = METHODS.entries.get(alias)
    is_own = method is not None and method.package is None  # no package can add a layer of this name
    layer = pooler_map.entries.get(alias) if is_own else pooler_map.find(alias)
    if pooler.precoarsenable:
        pooler = dataclasses.replace(pooler, parameters=_method_parameters(METHODS[alias].params))
        external = METHODS[alias].external_method()
        pooler = dataclasses.replace(
            pooler,
            larger_than_memory=external is not None,
            restrictions=None if external is None else external.describe_restrictions(),
        )
    elif pooler_map.entry(alias).package is not None:
        # A layer of another package may be a level method, too. Only its class can tell.
        with contextlib.suppress(ParameterError):
            parameters = _method_parameters(METHODS[alias].params)
            pooler = dataclasses.replace(pooler, parameters=parameters, precoarsenable=True)
    return _with_class(pooler, layer.target) if layer is not None else _with_method(pooler)


def _with_class(pooler: PoolerInfo, target: str) -> PoolerInfo:
    """Add what the docstring and the constructor of the class say."""
    found = read_class(target)
    if found is None:
        return dataclasses.replace(pooler, target=target)
    pooler = dataclasses.replace(pooler, target=target, layer_parameters=found.arguments)
    return _with_docstring(pooler, found.docstring)


def _with_method(pooler: PoolerInfo) -> PoolerInfo:
    """Add what the module of a method without a class says. ``get_pooler`` builds a ``LevelPooling`` for it."""
    shared = read_class("tgp.src.level:LevelPooling")
    own = pooler.parameters or []
    options = [p for p in shared.arguments if p.name in _LEVEL_OPTIONS] if shared else []
    pooler = dataclasses.replace(pooler, layer_parameters=[*own, *options])
    return _with_docstring(
        pooler, read_module_docstring(METHODS.entry(pooler.alias).target.partition(":")[0])
    )


def _with_docstring(pooler: PoolerInfo, docstring: Docstring) -> PoolerInfo:
    sections = docstring.sections
    return dataclasses.replace(
        pooler,
        good_for=plain_text(sections.get("good for", "")),
        avoid_when=plain_text(sections.get("avoid when", "")),
        complexity=plain_text(sections.get("complexity", "")),
        papers=[Paper(title, url) for title, url in docstring.papers],
        text=docstring.text,
        example=sections.get("examples", ""),
    )


def _method_parameters(params: type) -> list[ParameterInfo]:
    described: dict[str, str] = {}
    for cls in reversed(params.__mro__):
        described.update(parse_docstring(cls.__dict__.get("__doc__")).arguments)
    found, hints = [], get_type_hints(params)
    for field in parameter_fields(params):
        default = field.default_factory() if callable(field.default_factory) else field.default
        required = default is dataclasses.MISSING
        types, choices = _types(hints[field.name])
        found.append(
            ParameterInfo(
                field.name,
                None if required else default,
                required,
                ", ".join(types),
                listed(types, choices),
                sentence(described.get(field.name, "")),
            )
        )
    return found


def _types(hint: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a type as texts (for a literal type, its choices), and the values that can be listed.

    Examples:
        >>> _types(int | None), _types(Literal["sum", "mean"])
        ((('int', 'none'), ('none',)), (('sum', 'mean'), ('sum', 'mean')))
    """
    if hint is NoneType:
        return ("none",), ("none",)
    if hint is bool:
        return ("bool",), ("true", "false")
    if get_origin(hint) is Literal:
        texts = tuple(map(str, get_args(hint)))
        return texts, texts
    if get_origin(hint) in (Union, UnionType):
        parts = [_types(part) for part in get_args(hint)]
        return tuple(t for texts, _ in parts for t in texts), tuple(c for _, values in parts for c in values)
    return (str(getattr(hint, "__name__", hint)),), ()


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
            local = local and (not family.needs or find_spec(family.needs) is not None)
            found.append(DatasetInfo(name, family.name, family.summary, local))
    word = (search or "").lower()
    found = [d for d in found if word in d.name.lower() or word in d.collection.lower()]
    return [d for d in found if d.local or not local_only]
