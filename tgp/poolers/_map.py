"""``pooler_map``: a dictionary alias -> pooler class that imports a class when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from tgp.registry import Entry, LazyRegistry

__all__ = ["PoolerMap"]


class PoolerMap(LazyRegistry[type], MutableMapping[str, type], dict):  # type: ignore[type-arg,misc]
    """Pooler classes by alias.

    Behaves as a dictionary: assigning a class registers it, deleting an alias removes it, ``copy`` and ``|`` return
    plain dictionaries. Iterating over aliases imports nothing; values are imported on access.

    Attributes:
        own: Lines of tgp itself.
        revision: Number of changes of the table.
    """

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        super().__init__("pooler", entries, group="tgp.poolers", of=type)
        self.own = {entry.alias: entry for entry in entries}
        self.revision = 0

    def __setitem__(self, alias: str, pooler: type) -> None:
        if not isinstance(pooler, type):
            raise TypeError(
                f"pooler_map[{alias!r}] has the wrong type: expected a class, got {type(pooler).__name__}. "
                "Use get_pooler() to build an object."
            )
        entry = Entry(alias, target_of(pooler), "")
        own = self.own.get(alias)
        self._set(own if own is not None and own.target == entry.target else entry, pooler)

    def __delitem__(self, alias: str) -> None:
        if alias not in self.entries:
            raise KeyError(alias)
        self._drop(alias)

    def _drop(self, alias: str) -> None:
        super()._drop(alias)
        self.revision += 1

    def copy(self) -> dict[str, type]:
        """Return a plain dictionary; imports all poolers."""
        return {alias: self[alias] for alias in self}

    def __or__(self, other: Any) -> Any:
        return self.copy() | dict(other) if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return dict(other) | self.copy() if isinstance(other, Mapping) else NotImplemented

    def __ior__(self, other: Any) -> Any:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def __eq__(self, other: object) -> bool:
        return self.copy() == dict(other) if isinstance(other, Mapping) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def target_of(pooler: type) -> str:
    """Return the place of a class as text: ``"package.module:Class"``."""
    return f"{pooler.__module__}:{pooler.__qualname__}"
