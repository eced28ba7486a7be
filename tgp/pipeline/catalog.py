"""What can be asked for: poolers with their parameters, datasets with their places. Imports nothing heavy."""

from __future__ import annotations

import dataclasses
from typing import Any

from tgp.coarsen.methods import METHODS
from tgp.errors import UnknownNameError
from tgp.poolers._table import POOLERS

__all__ = ["describe_pooler", "list_poolers"]


def list_poolers(*, precoarsenable_only: bool = False) -> list[dict[str, Any]]:
    """Every pooler with its summary and traits; level methods without a layer come last."""
    rows = [{"alias": e.alias, "summary": e.summary, **e.traits} for e in POOLERS]
    layers = {e.alias for e in POOLERS}
    for alias, entry in METHODS.entries.items():
        if alias not in layers:
            traits = {"dense": False, "trainable": False, "loss": False, "precoarsenable": True}
            rows.append({"alias": alias, "summary": entry.summary, **traits})
    return [row for row in rows if row["precoarsenable"] or not precoarsenable_only]


def describe_pooler(name: str) -> dict[str, Any]:
    """One pooler; for those that can be precomputed also the parameters of a level."""
    rows = {row["alias"]: row for row in list_poolers()}
    alias = name.lower()
    if alias not in rows:
        raise UnknownNameError("pooler", name, rows)
    row = rows[alias]
    if row["precoarsenable"]:
        row["parameters"] = _parameters(METHODS[alias].params)
    return row


def _parameters(params: type) -> list[dict[str, Any]]:
    found = []
    for field in dataclasses.fields(params):
        default = field.default_factory() if callable(field.default_factory) else field.default
        required = default is dataclasses.MISSING
        kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
        found.append(
            {"name": field.name, "default": None if required else default, "required": required, "type": kind}
        )
    return found
