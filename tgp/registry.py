"""Tables of independent things: names now, imports on access."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tgp.errors import ParameterError, UnknownNameError

__all__ = ["Entry", "LazyRegistry", "load"]

T = TypeVar("T")
_ALIAS = re.compile(r"[a-z][a-z0-9_-]*")


def load(target: str) -> Any:
    """Import ``"package.module:attribute"``."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


@dataclass(frozen=True)
class Entry:
    """One line of a table: everything that is known without importing the target."""

    alias: str
    target: str
    summary: str
    traits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def attribute(self) -> str:
        """Name of the object behind the alias."""
        return self.target.partition(":")[2]


class LazyRegistry(Mapping[str, T], Generic[T]):
    """A mapping alias -> object that imports an object when it is asked for; :meth:`register` adds lines."""

    def __init__(self, kind: str, entries: tuple[Entry, ...]) -> None:
        self.kind = kind
        self.entries: dict[str, Entry] = {entry.alias: entry for entry in entries}
        self._loaded: dict[str, T] = {}

    def __getitem__(self, alias: str) -> T:
        if alias not in self._loaded:
            self._loaded[alias] = load(self.entry(alias).target)
        return self._loaded[alias]

    def entry(self, alias: str) -> Entry:
        """The table line of ``alias``; :class:`UnknownNameError` names the nearest one."""
        try:
            return self.entries[alias]
        except KeyError:
            raise _UnknownKey(self.kind, alias, self.entries) from None

    def register(self, entry: Entry, *, replace: bool = False) -> Entry:
        """Add a line. Nothing is imported until the alias is asked for.

        Args:
            entry: the line; its alias is lower-case, as it stands in schedules and on the command line.
            replace: take the place of a line of the same alias instead of refusing.
        """
        if not _ALIAS.fullmatch(entry.alias) or entry.alias.endswith("_u"):
            raise ParameterError(
                f"alias must be lower-case letters, digits, '_' or '-', must begin with a letter and must not end in '_u', "
                f"got {entry.alias!r}",
                field="alias",
            )
        if not all(entry.target.partition(":")):
            raise ParameterError(
                f"target must be 'package.module:name', got {entry.target!r}", field="target"
            )
        if entry.alias in self.entries and not replace:
            raise ParameterError(
                f"{self.kind} {entry.alias!r} is taken by {self.entries[entry.alias].target}; choose another alias or "
                "pass replace=True",
                field="alias",
            )
        self.entries[entry.alias] = entry
        self._loaded.pop(entry.alias, None)
        return entry

    def __contains__(self, alias: object) -> bool:
        return alias in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"LazyRegistry({self.kind}: {', '.join(self.entries)})"


class _UnknownKey(UnknownNameError, KeyError):
    """Also a ``KeyError``, because a registry is a mapping."""

    def __str__(self) -> str:
        return str(self.args[0])
