"""Tables of poolers and level methods that import an object when it is first used.

A table has the entries of tgp, the entries that were registered at run time, and the entry points of installed packages.
Entry points are read when the table is listed, or when it has no entry of the requested name. Nothing of a package is
imported before one of its names is used.
"""

from __future__ import annotations

import dataclasses
import importlib
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tgp.errors import PackageError, ParameterError, UnknownNameError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Entry", "LazyRegistry", "PackageEntries", "find_package_entries", "load"]

T = TypeVar("T")
_ALIAS = re.compile(r"[a-z][a-z0-9_-]*")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def load(target: str) -> Any:
    """Import an object.

    Args:
        target: ``"package.module:attribute"``.

    Examples:
        >>> load("math:pi") > 3
        True
    """
    module, _, attribute = target.partition(":")
    return operator.attrgetter(attribute)(importlib.import_module(module))


@dataclass(frozen=True)
class Entry:
    """Entry of a table: everything that is known without importing the object.

    Args:
        alias: name in the table.
        target: ``"package.module:name"`` of the object.
        summary: one line for listings.
        traits: facts about the object.
        package: installed package that provides the object; ``None`` for entries of tgp and of the running program.
        version: version of that package.
        adapter: ``"package.module:function"`` that makes the object of the table from the entry; ``None`` if the target
            is the object.
    """

    alias: str
    target: str
    summary: str
    traits: Mapping[str, Any] = field(default_factory=dict)
    package: str | None = None
    version: str | None = None
    adapter: str | None = None

    @property
    def attribute(self) -> str:
        """Name of the object in its module."""
        return self.target.partition(":")[2]

    @property
    def origin(self) -> str | None:
        """Package and version as text, or ``None``."""
        return None if self.package is None else f"{self.package} {self.version}"


@dataclass(frozen=True)
class PackageEntries:
    """Entries that installed packages provide for one table.

    Args:
        by_alias: alias in lower case -> entries of this name. There are several if several packages use the name.
        unreadable: messages about packages whose entry points cannot be read.
    """

    by_alias: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()


def find_package_entries(group: str) -> PackageEntries:
    """Read the entry points of a group from all installed packages. No package is imported.

    Args:
        group: name of the group, such as ``"tgp.methods"``.
    """
    select, unreadable = _read_entry_points(tuple(sys.path))
    found: dict[str, tuple[Entry, ...]] = {}
    for point in select(group=group):
        if point.dist is not None:
            about = point.dist.metadata
            summary = about["Summary"] if "Summary" in about else ""  # noqa: SIM401 - there is no get() on 3.10
            target = "".join(point.value.partition("[")[0].split())  # without extras and spaces
            entry = Entry(point.name, target, summary, package=point.dist.name, version=point.dist.version)
            found[point.name.lower()] = (*found.get(point.name.lower(), ()), entry)
    return PackageEntries(found, unreadable)


@lru_cache(maxsize=1)
def _read_entry_points(path: tuple[str, ...]) -> tuple[Callable[..., Iterable[EntryPoint]], tuple[str, ...]]:
    """Read the entry points of all groups, once for each value of ``sys.path``.

    Returns:
        A function that selects entry points by ``group=...``, and messages about packages that cannot be read.
    """
    from importlib import metadata

    try:
        return metadata.entry_points().select, ()
    except (TypeError, ValueError):  # the entry points of one package have the wrong syntax
        pass
    points: list[EntryPoint] = []
    unreadable: list[str] = []
    seen: set[str] = set()
    for distribution in metadata.distributions():
        if distribution.name in seen:  # a second installation on the path, which is not imported
            continue
        seen.add(distribution.name)
        try:
            points.extend(distribution.entry_points)
        except (TypeError, ValueError) as error:
            package = f"{distribution.name} {distribution.version}"
            unreadable.append(f"the entry points of package {package} cannot be read: {error}")
    return metadata.EntryPoints(points).select, tuple(unreadable)


class LazyRegistry(Mapping[str, T], Generic[T]):
    """Mapping from an alias to an object, which is imported on first access.

    Args:
        kind: name of the objects in messages, such as ``"pooler"``.
        entries: entries of tgp. Packages cannot replace them.
        group: group of entry points with which other packages add entries; ``None`` if they cannot.
        of: class of which the objects of other packages must be instances.
        fallback: ``"package.module:function"`` that returns the entry of an alias which is neither in the table nor
            provided by a package, a hint why there is none, or ``None``. Such entries can be looked up, but are not listed.

    Examples:
        >>> numbers = LazyRegistry("number", (Entry("pi", "math:pi", "Circle"), Entry("e", "math:e", "Growth")))
        >>> list(numbers), round(numbers["pi"], 2)
        (['pi', 'e'], 3.14)
    """

    def __init__(
        self,
        kind: str,
        entries: tuple[Entry, ...],
        *,
        group: str | None = None,
        of: type = object,
        fallback: str | None = None,
    ) -> None:
        self.kind = kind
        self.group = group
        self.of = of
        self.fallback = fallback
        self.entries: dict[str, Entry] = {entry.alias: entry for entry in entries}
        self._loaded: dict[str, T] = {}
        self._package_entries: PackageEntries | None = None

    def __getitem__(self, alias: str) -> T:
        if alias not in self._loaded:
            entry = self.entry(alias)
            found = cast("T", _load_entry(entry)) if entry.package is None else self._load_from_package(entry)
            if alias not in self:  # an entry of the fallback, which can change
                return found
            self._loaded[alias] = found
        return self._loaded[alias]

    def find(self, alias: str) -> Entry | None:
        """Return the entry of ``alias``, or ``None`` if there is none.

        Args:
            alias: name in the table.

        Raises:
            PackageError: if a package provides the name in a way that cannot be used.
        """
        try:
            return self.entry(alias)
        except _UnknownKey:
            return None

    def entry(self, alias: str) -> Entry:
        """Return the entry of ``alias``.

        Args:
            alias: name in the table.

        Raises:
            UnknownNameError: if there is no such entry; the message names the closest one.
            PackageError: if a package provides the name in a way that cannot be used.
        """
        if alias in self.entries:
            return self.entries[alias]
        found = self.package_entries.by_alias.get(alias, ())
        if not found:
            other = None if self.fallback is None else load(self.fallback)(alias)
            if isinstance(other, Entry):
                return other
            hints = [*self.package_entries.unreadable, *([other] if other else ())]
            raise _UnknownKey(self.kind, alias, self, "; ".join(hints))
        if len(found) > 1:
            packages = " and ".join(f"{entry.origin} ({entry.target})" for entry in found)
            raise PackageError(
                f"{self.kind} {alias!r} is provided by more than one package: {packages}",
                package=found[0].package,
                hint="uninstall all but one of them",
            )
        problem = _find_problem(found[0])
        if problem:
            raise self._unusable(found[0], problem)
        return found[0]

    @property
    def package_entries(self) -> PackageEntries:
        """Entries of installed packages, including those whose name is taken. They are read once."""
        if self._package_entries is None:
            self._package_entries = (
                PackageEntries() if self.group is None else find_package_entries(self.group)
            )
        return self._package_entries

    def all_entries(self) -> list[Entry]:
        """Return all entries. A name that several packages use has an entry for each of them."""
        by_alias = self.package_entries.by_alias
        return [
            *self.entries.values(),
            *(e for a, found in by_alias.items() if a not in self.entries for e in found),
        ]

    def ignored_entries(self) -> list[Entry]:
        """Return the entries of packages that are ignored because their name is already registered."""
        return [
            entry
            for alias, found in self.package_entries.by_alias.items()
            for entry in found
            if alias in self.entries and self.entries[alias].target != entry.target
        ]

    def register(self, entry: Entry, *, replace: bool = False, loaded: T | None = None) -> Entry:
        """Add an entry. Nothing is imported until the alias is looked up.

        Args:
            entry: the entry. Its alias is in lower case, because schedules and the command line use lower case.
            replace: replace an entry of the same alias. Without it, an alias that is taken is an error.
            loaded: the object, if it exists already. A class that was defined in a function or a notebook cannot be
                imported.

        Returns:
            The entry that was added. It names the package if a package provides the same target.

        Raises:
            ParameterError: if the alias or the target is not valid, or the alias is taken.
        """
        problem = _find_problem(entry)
        if problem:
            raise ParameterError(problem, field=problem.partition(" ")[0])
        provided = () if entry.alias in self.entries else self.package_entries.by_alias.get(entry.alias, ())
        same = [other for other in provided if other.target == entry.target]
        if same:  # a package can have an entry point and register the object when it is imported
            entry = dataclasses.replace(entry, package=same[0].package, version=same[0].version)
        taken = [*provided, *([self.entries[entry.alias]] if entry.alias in self.entries else [])]
        if taken and not same and not replace:
            owner = taken[0].target + (f" of package {taken[0].origin}" if taken[0].origin else "")
            raise ParameterError(
                f"{self.kind} {entry.alias!r} is taken by {owner}",
                field="alias",
                hint="choose another alias or pass replace=True",
            )
        self._set(entry, loaded)
        return entry

    def add_missing(self, entry: Entry) -> None:
        """Add an entry of another process, unless this process has an entry of that name.

        The entry of another process has priority over entry points that differ from it: if another version of the
        package is installed here, looking up the alias raises an error.

        Args:
            entry: the entry as the other process has it.
        """
        if entry.alias in self.entries:
            return
        try:
            known = self.find(entry.alias)
        except PackageError:
            known = None
        if known != entry:
            self.entries[entry.alias] = entry

    def _set(self, entry: Entry, loaded: T | None = None) -> None:
        """Add an entry without checks."""
        self._drop(entry.alias)
        self.entries[entry.alias] = entry
        if loaded is not None:
            self._loaded[entry.alias] = loaded

    def _drop(self, alias: str) -> None:
        """Remove an entry and the object that was loaded for it."""
        self.entries.pop(alias, None)
        self._loaded.pop(alias, None)

    def _load_from_package(self, entry: Entry) -> T:
        from importlib import metadata

        try:
            version = metadata.version(str(entry.package))
            # An entry can come from another process, in which another version of the package is installed.
            if version != entry.version:
                raise self._unusable(entry, f"version {version} is installed here")
            found = _load_entry(entry)
        except (PackageError, ParameterError):
            raise
        except (Exception, SystemExit) as error:
            raise self._unusable(
                entry, f"{entry.target} cannot be imported: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(found, self.of):
            raise self._unusable(
                entry, f"{entry.target} must be a {self.of.__name__}, got {type(found).__name__}"
            )
        return cast("T", found)

    def _unusable(self, entry: Entry, reason: str) -> PackageError:
        return PackageError(
            f"{self.kind} {entry.alias!r} of package {entry.origin} cannot be used: {reason}",
            package=entry.package,
        )

    def __contains__(self, alias: object) -> bool:
        return alias in self.entries or alias in self.package_entries.by_alias

    def __iter__(self) -> Iterator[str]:
        yield from self.entries
        yield from (alias for alias in self.package_entries.by_alias if alias not in self.entries)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"LazyRegistry({self.kind}: {', '.join(self)})"


def _load_entry(entry: Entry) -> Any:
    return load(entry.target) if entry.adapter is None else load(entry.adapter)(entry)


def _find_problem(entry: Entry) -> str | None:
    """Return a message if the alias or the target of an entry is not valid, else ``None``."""
    if not _ALIAS.fullmatch(entry.alias) or entry.alias.endswith("_u"):
        return (
            "alias is not valid: expected lower-case letters, digits, '_' or '-', a letter at the start and no '_u' at "
            f"the end, got {entry.alias!r}"
        )
    if not all(entry.target.partition(":")) or (entry.package and not _TARGET.fullmatch(entry.target)):
        return f"target is not valid: expected 'package.module:name', got {entry.target!r}"
    return None


class _UnknownKey(UnknownNameError, KeyError):
    """Unknown alias. It is also a ``KeyError``, because a registry is a mapping."""

    def __init__(self, kind: str, name: str, valid: Mapping[str, Any], hint: str = "") -> None:
        super().__init__(kind, name, valid)
        if hint:
            self.add_hint(hint)

    def __str__(self) -> str:
        return str(self.args[0])
