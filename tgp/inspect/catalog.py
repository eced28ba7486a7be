"""What can be asked for: poolers with their parameters, datasets with their places. Imports nothing heavy."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tgp.engine.methods import METHODS
from tgp.errors import ParameterError, UnknownNameError
from tgp.poolers import pooler_map
from tgp.registry import Entry
from tgp.sources.names import FAMILIES, KnownDataset, default_root, find_raw

__all__ = ["describe_pooler", "hidden_offers", "list_datasets", "list_poolers"]


def list_poolers(*, precoarsenable_only: bool = False) -> list[dict[str, Any]]:
    """Every pooler with its summary, package and traits; level methods without a layer come last.

    Traits of layers of other packages are ``None``: only an import could tell.
    """
    layers, methods = pooler_map.lines(), METHODS.lines()
    both = {(entry.alias, entry.package) for entry in methods}
    rows = [_line(e, precoarsenable=(e.alias, e.package) in both) | dict(e.traits) for e in layers]
    method = {"dense": False, "trainable": False, "loss": False}
    known = {(entry.alias, entry.package) for entry in layers}
    rows += [_line(e, precoarsenable=True) | method for e in methods if (e.alias, e.package) not in known]
    return [row for row in rows if row["precoarsenable"] or not precoarsenable_only]


def _line(entry: Entry, **traits: bool) -> dict[str, Any]:
    unknown = dict.fromkeys(("dense", "trainable", "loss"))
    return {"alias": entry.alias, "summary": entry.summary, "package": entry.origin, **unknown, **traits}


def hidden_offers() -> list[str]:
    """What packages offer and nobody gets: names that are taken, entry points that cannot be read."""
    tables = (pooler_map, METHODS)
    taken = [f"{e.origin} offers {e.alias!r}, but that name is taken" for t in tables for e in t.hidden()]
    return [*taken, *dict.fromkeys(text for t in tables for text in t.offers.unreadable)]


def describe_pooler(name: str) -> dict[str, Any]:
    """Return the facts about one pooler; for those that can be precomputed also the parameters of a level.

    Raises:
        UnknownNameError: if there is no such pooler.
        PackageError: if a package offers it in a way that cannot be used.
    """
    rows = {row["alias"]: row for row in list_poolers()}
    alias = name.lower()
    if alias not in rows:
        raise UnknownNameError("pooler", name, rows)
    row = rows[alias]
    if row["precoarsenable"]:
        row["parameters"] = _parameters(METHODS[alias].params)
    elif pooler_map.entry(alias).package is not None:
        # Only the class can tell if it makes levels.
        with contextlib.suppress(ParameterError):
            row["parameters"] = _parameters(METHODS[alias].params)
            row["precoarsenable"] = True
    return row


def _parameters(params: type) -> list[dict[str, Any]]:
    found, hints = [], get_type_hints(params)
    for field in dataclasses.fields(params):
        default = field.default_factory() if callable(field.default_factory) else field.default
        required = default is dataclasses.MISSING
        kind = _type(hints[field.name])
        found.append(
            {"name": field.name, "default": None if required else default, "required": required, "type": kind}
        )
    return found


def _type(hint: Any) -> str:
    """A type as users write its values: choices instead of the name of a type that lists them."""
    if hint is NoneType:
        return "none"
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return ", ".join(map(_type, get_args(hint)))
    return getattr(hint, "__name__", str(hint))


def list_datasets(
    *, search: str | None = None, local_only: bool = False, root: Path | None = None
) -> list[dict[str, Any]]:
    """Known datasets, built-in ones first; ``local`` says whether no network is needed.

    Args:
        search: only names or collections that contain this, ignoring case.
        local_only: only those that need no network.
        root: where datasets are kept.
    """
    from tgp.sources.builtin import BUILTIN

    place = root or default_root()
    rows: list[dict[str, Any]] = [
        {
            "name": b.name,
            "collection": "built-in",
            "summary": b.summary,
            "local": True,
            "parameters": b.defaults,
        }
        for b in BUILTIN.values()
    ]
    seen: set[str] = set()
    for family in FAMILIES.values():
        for member in family.members:
            name = f"{family.name}/{member}" if member.lower() in seen else member
            seen.add(member.lower())
            here = not family.host or find_raw(KnownDataset(family, member), place) is not None
            rows.append({"name": name, "collection": family.name, "summary": family.summary, "local": here})
    word = (search or "").lower()
    rows = [r for r in rows if word in r["name"].lower() or word in r["collection"].lower()]
    return [r for r in rows if r["local"] or not local_only]
