"""Tables of independent things: names now, imports on access.

A table knows what tgp brings, what is registered at run time, and what installed packages offer as entry points.
Entry points are looked for when a name is asked for that the table does not have, or when it is listed; nothing of a
package is imported before its name is used.
"""

from __future__ import annotations

import dataclasses
import importlib
import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from tgp.errors import PackageError, ParameterError, UnknownNameError

__all__ = ["Entry", "LazyRegistry", "Offers", "load", "offered"]

T = TypeVar("T")
_ALIAS = re.compile(r"[a-z][a-z0-9_-]*")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_EXTRAS = re.compile(r"\s*\[.*\]\s*$")


def load(target: str) -> Any:
    """Import ``"package.module:attribute"``."""
    module, _, attribute = target.partition(":")
    return operator.attrgetter(attribute)(importlib.import_module(module))


@dataclass(frozen=True)
class Entry:
    """One line of a table: everything that is known without importing the target.

    Args:
        alias: Name in the table.
        target: ``"package.module:name"`` of the object.
        summary: One line for listings.
        traits: Facts about the object.
        package: Installed package that offers the object; ``None`` for lines of tgp and of the running program.
        version: Version of that package.
        adapter: ``"package.module:function"`` that makes the object of the table from this line; ``None`` if it is
            the target itself.
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
        """Package and version as text."""
        return None if self.package is None else f"{self.package} {self.version}"


@dataclass(frozen=True)
class Offers:
    """What installed packages offer to one table.

    ``entries`` has a line per alias and package; ``unreadable`` says which packages have entry points that cannot be
    read.
    """

    entries: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()


def offered(group: str) -> Offers:
    """Entry points of ``group`` in all installed packages; reads text files, imports none of the packages."""
    from importlib import metadata

    names: dict[str, str] = {}
    for distribution in metadata.distributions():
        try:
            text = distribution.read_text("entry_points.txt")
        except UnicodeDecodeError:
            continue
        if text and f"[{group}]" in text and (name := distribution.metadata["Name"]):
            names.setdefault(re.sub(r"[-_.]+", "-", name).lower(), name)
    found: dict[str, tuple[Entry, ...]] = {}
    unreadable = []
    for name in names.values():
        first = metadata.distribution(name)  # of several on the path, the one that is imported
        try:
            lines = _section(first.read_text("entry_points.txt") or "", group)
        except ValueError as error:
            unreadable.append(f"the entry points of package {name} {first.version} cannot be read: {error}")
            continue
        summary = first.metadata["Summary"] or ""
        for alias, target in lines.items():
            entry = Entry(alias, target, summary, package=name, version=first.version)
            found[alias.lower()] = (*found.get(alias.lower(), ()), entry)
    return Offers(found, tuple(unreadable))


def _section(text: str, group: str) -> dict[str, str]:
    """Name -> target of one section of an ``entry_points.txt``."""
    import configparser

    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error).replace("\n", " ")) from error
    found = parser.items(group) if parser.has_section(group) else []
    return {name: re.sub(r"\s", "", _EXTRAS.sub("", value)) for name, value in found}


class LazyRegistry(Mapping[str, T], Generic[T]):
    """A mapping alias -> object that imports an object when it is asked for; :meth:`register` adds lines.

    Args:
        kind: what the objects are called in messages.
        entries: the lines of tgp itself. Packages cannot take their names.
        group: entry points of this name in other packages are lines, too.
        of: what an object of another package must be an instance of.
        fallback: ``"package.module:function"`` that returns the line of an alias which neither the table nor a
            package has, or ``None``. Such lines can be looked up; they are not listed.
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
        self._offers: Offers | None = None

    def __getitem__(self, alias: str) -> T:
        if alias not in self._loaded:
            entry = self.entry(alias)
            found = cast("T", _object_of(entry)) if entry.package is None else self._import(entry)
            if alias not in self:  # a line of the fallback, which may change
                return found
            self._loaded[alias] = found
        return self._loaded[alias]

    def find(self, alias: str) -> Entry | None:
        """Return the line of ``alias``, or ``None`` if there is none."""
        try:
            return self.entry(alias)
        except _UnknownKey:
            return None

    def entry(self, alias: str) -> Entry:
        """Return the line of ``alias``.

        Raises:
            UnknownNameError: no line has this alias; the message names the nearest one.
            PackageError: a package offers this name in a way that cannot be used.
        """
        if alias in self.entries:
            return self.entries[alias]
        found = self.offers.entries.get(alias, ())
        if not found:
            other = None if self.fallback is None else load(self.fallback)(alias)
            if other is not None:
                return cast("Entry", other)
            raise _UnknownKey(self.kind, alias, self, "; ".join(self.offers.unreadable))
        if len(found) > 1:
            packages = " and ".join(f"{entry.origin} ({entry.target})" for entry in found)
            raise PackageError(
                f"{self.kind} {alias!r} is offered by more than one package: {packages}",
                package=found[0].package,
                hint="uninstall all but one of them",
            )
        problem = _problem(found[0])
        if problem:
            raise self._unusable(found[0], problem)
        return found[0]

    @property
    def offers(self) -> Offers:
        """What installed packages offer, also under names that are taken; looked up once."""
        if self._offers is None:
            self._offers = Offers() if self.group is None else offered(self.group)
        return self._offers

    def lines(self) -> list[Entry]:
        """All lines; where packages clash, the lines of each."""
        offers = [entry for key in self if key not in self.entries for entry in self.offers.entries[key]]
        return [*self.entries.values(), *offers]

    def hidden(self) -> list[Entry]:
        """Lines of packages that nobody gets, because the name is taken."""
        return [
            entry
            for alias, found in self.offers.entries.items()
            for entry in found
            if alias in self.entries and self.entries[alias].target != entry.target
        ]

    def register(self, entry: Entry, *, replace: bool = False, given: Any = None) -> Entry:
        """Add a line. Nothing is imported until the alias is looked up.

        Args:
            entry: the line; its alias is lower-case, as it stands in schedules and on the command line.
            replace: replace a line of the same alias instead of refusing.
            given: the object itself, if it exists already: a class that was defined in a function or a notebook
                cannot be imported.
        """
        problem = _problem(entry)
        if problem:
            raise ParameterError(problem, field=problem.partition(" ")[0])
        offers = [] if entry.alias in self.entries else self.offers.entries.get(entry.alias, ())
        same = [offer for offer in offers if offer.target == entry.target]
        if same:  # a package may say the same twice, as an entry point and when it is imported
            entry = dataclasses.replace(entry, package=same[0].package, version=same[0].version)
        taken = [*offers, *([self.entries[entry.alias]] if entry.alias in self.entries else [])]
        if taken and not same and not replace:
            owner = taken[0].target + (f" of package {taken[0].origin}" if taken[0].origin else "")
            raise ParameterError(
                f"{self.kind} {entry.alias!r} is taken by {owner}; choose another alias or pass replace=True",
                field="alias",
            )
        self._set(entry, given)
        return entry

    def _set(self, entry: Entry, given: Any = None) -> None:
        """Add a line without checks."""
        self._drop(entry.alias)
        self.entries[entry.alias] = entry
        if given is not None:
            self._loaded[entry.alias] = given

    def _drop(self, alias: str) -> None:
        """Remove a line and what was loaded for it."""
        self.entries.pop(alias, None)
        self._loaded.pop(alias, None)

    def _import(self, entry: Entry) -> T:
        """Return the object that a package offers."""
        from importlib import metadata

        try:
            version = metadata.version(str(entry.package))
            # A worker of a cluster is told the line by a process that may have another version installed.
            if version != entry.version:
                raise self._unusable(entry, f"version {version} is installed here")
            found = _object_of(entry)
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

    def _unusable(self, entry: Entry, why: str) -> PackageError:
        return PackageError(
            f"{self.kind} {entry.alias!r} of package {entry.origin} cannot be used: {why}",
            package=entry.package,
        )

    def __contains__(self, alias: object) -> bool:
        return alias in self.entries or alias in self.offers.entries

    def __iter__(self) -> Iterator[str]:
        yield from self.entries
        yield from (alias for alias in self.offers.entries if alias not in self.entries)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"LazyRegistry({self.kind}: {', '.join(self)})"


def _object_of(entry: Entry) -> Any:
    return load(entry.target) if entry.adapter is None else load(entry.adapter)(entry)


def _problem(entry: Entry) -> str | None:
    """Return what is wrong with a line, or ``None``."""
    if not _ALIAS.fullmatch(entry.alias) or entry.alias.endswith("_u"):
        return (
            "alias must be lower-case letters, digits, '_' or '-', must begin with a letter and must not end in '_u', "
            f"got {entry.alias!r}"
        )
    if not all(entry.target.partition(":")) or (entry.package and not _TARGET.fullmatch(entry.target)):
        return f"target must be 'package.module:name', got {entry.target!r}"
    return None


class _UnknownKey(UnknownNameError, KeyError):
    """Also a ``KeyError``, because a registry is a mapping."""

    def __init__(self, kind: str, name: str, valid: Mapping[str, Any], hint: str = "") -> None:
        super().__init__(kind, name, valid)
        self.hint = hint or None

    def __str__(self) -> str:
        return str(self.args[0])
