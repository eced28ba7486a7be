"""All errors that tgp raises on purpose.

Each class is a :class:`TgpError` and also the builtin class that callers expect (``ValueError``, ``OSError``, ...). The
message says what is wrong, what was expected and what was found. ``hint`` says what to do. Attributes contain the same
facts for programs. The command line turns the classes into exit codes (``tgp_cli._errors``).

A message may quote names from a file of a stranger, and Python prints it to a terminal if the error is not caught.
Therefore control characters in messages are escaped (:func:`tgp.text.inert_text`). Attributes are not changed.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tgp.text import inert_text

__all__ = [
    "TgpError",
    "InputError",
    "UnknownNameError",
    "ParameterError",
    "ScheduleError",
    "GraphError",
    "DatasetError",
    "UserCodeError",
    "MissingPackageError",
    "PackageError",
    "StoreError",
    "StoreMissingError",
    "StoreDamagedError",
    "Difference",
    "StoreMismatchError",
    "StoreVersionError",
    "StoreFullError",
    "nearest",
    "warn_user",
]


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name that is most similar to ``name``, or ``None`` if no name is similar.

    Args:
        name: name that was given.
        valid: names that exist.

    Examples:
        >>> nearest("gracluss", ["ndp", "graclus"])
        'graclus'
    """
    found = difflib.get_close_matches(name.lower(), [str(v) for v in valid], n=1, cutoff=0.5)
    return found[0] if found else None


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning that names the line of the user that called tgp.

    Args:
        message: text of the warning. Control characters are escaped.
        category: class of the warning.
    """
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "tgp":
        level, frame = level + 1, frame.f_back
    warnings.warn(inert_text(message, lines=True), category, stacklevel=level)


class TgpError(Exception):
    """Base class of all errors that tgp raises on purpose.

    Args:
        message: text of the error. Control characters other than line feeds and tabs are escaped.
        hint: what the user can do about it, or ``None``.
    """

    hint: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(inert_text(message, lines=True))
        if hint is not None:
            self.add_hint(hint)

    def add_hint(self, hint: str) -> None:
        """Set the hint of an error that has none. A traceback shows it below the message.

        Args:
            hint: what the user can do about the error.
        """
        self.hint = hint
        if sys.version_info >= (3, 11):
            self.add_note(f"Hint: {inert_text(hint, lines=True)}")


class InputError(TgpError, ValueError):
    """Argument or array with a wrong value, type or shape.

    Args:
        message: text of the error.
        field: name of the argument or array, or ``None``.
        hint: what the user can do about it, or ``None``.
    """

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.field = field


class UnknownNameError(TgpError, ValueError):
    """Name that does not exist in a table, such as the alias of a pooler.

    Args:
        kind: kind of the name in the message, such as ``"pooler"``.
        name: name that was given.
        valid: names that exist. The most similar one is stored as ``nearest``.
        suggest: suggest the most similar name in the message, or the name that is given here. If it is ``False``,
            ``nearest`` is ``None``.
    """

    def __init__(self, kind: str, name: str, valid: Iterable[str], *, suggest: bool | str = True) -> None:
        self.kind = kind
        self.name = name
        self.valid = sorted(str(v) for v in valid)
        self.nearest = (
            suggest if isinstance(suggest, str) else nearest(str(name), self.valid) if suggest else None
        )
        guess = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        super().__init__(f"Unknown {kind} {name!r}.{guess} Valid: {', '.join(self.valid)}.")


class ParameterError(InputError):
    """Parameter of a method or pooler with a wrong value. ``field`` is the name of the parameter."""


class ScheduleError(TgpError, ValueError):
    """Schedule that cannot be read."""


class GraphError(TgpError, ValueError):
    """Graph that cannot be coarsened.

    Args:
        message: text of the error, stored as ``reason``. The text of the exception also contains the graph.
        graph: index of the graph in its block, or ``None``.
        hint: what the user can do about it, or ``None``.
    """

    def __init__(self, message: str, *, graph: int | None = None, hint: str | None = None) -> None:
        super().__init__(message if graph is None else f"{message} (graph {graph})", hint=hint)
        self.reason = message
        self.graph = graph


class DatasetError(TgpError, ValueError):
    """Dataset that cannot be found or read."""


class UserCodeError(DatasetError):
    """Exception in a function of the user that should return graphs. Its cause is that exception.

    Args:
        message: text of the error.
        trace: lines of the traceback, without the frames of tgp.
        hint: what the user can do about it, or ``None``.
    """

    def __init__(self, message: str, *, trace: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.trace = tuple(trace)


class MissingPackageError(TgpError, ImportError):
    """Optional package that is needed and not installed."""


class PackageError(TgpError, ImportError):
    """Pooler or method of another package that cannot be used.

    Args:
        message: text of the error.
        package: name of the package, or ``None``.
        hint: what the user can do about it, or ``None``.
    """

    def __init__(self, message: str, *, package: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.package = package


class StoreError(TgpError, OSError):
    """Store that cannot be read or written.

    Args:
        message: text of the error.
        path: path of the store or of the file in it, or ``None``.
        hint: what the user can do about it, or ``None``.
    """

    def __init__(self, message: str, *, path: str | Path | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = None if path is None else str(path)

    def __str__(self) -> str:
        return str(self.args[0])


class StoreMissingError(StoreError, FileNotFoundError):
    """Path without a complete store."""


class StoreDamagedError(StoreError):
    """File of a store that is truncated, was changed, or has unsafe content.

    Args:
        message: text of the error.
        path: path of the file, or ``None``.
        item: shard, field or key of the manifest that is damaged, or ``None``.
        hint: what the user can do about it, or ``None``.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        item: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.item = item


@dataclass(frozen=True)
class Difference:
    """One difference between a store and a run, or between two runs that write the same store.

    Args:
        what: Name of the setting or of the part of the data: ``"seed"``, ``"params.k"``, ``"graphs"``, ...
        text: The difference in words, without a full stop.
        stored: Value in the store; ``None`` if it has none.
        asked: Value of the run; ``None`` if it has none.
        hierarchy: Name of the hierarchy; ``None`` if the difference does not concern a single one.
        level: Number of the level, from 1; ``None`` if the difference does not concern a single one.
        graph: Index of the first graph that differs; ``None`` if it is not known.
        attribute: Name of the attribute that differs; ``None`` if the difference does not concern one.
    """

    what: str
    text: str
    stored: Any = None
    asked: Any = None
    hierarchy: str | None = None
    level: int | None = None
    graph: int | None = None
    attribute: str | None = None

    def __str__(self) -> str:
        return self.text


class StoreMismatchError(StoreError, ValueError):
    """Store that was made from other data or with other settings.

    Args:
        message: text of the error without the differences, which follow in lines of their own.
        differences: everything that differs.
        path: path of the store, or ``None``.
        hint: what the user can do about it, or ``None``.

    Attributes:
        summary: the message without the differences.
    """

    def __init__(
        self,
        message: str,
        *,
        differences: Sequence[Difference] = (),
        path: str | Path | None = None,
        hint: str | None = None,
    ) -> None:
        self.summary = f"{message}:" if differences else message
        lines = "".join(f"\n  - {inert_text(difference)}" for difference in differences)
        super().__init__(self.summary + lines, path=path, hint=hint)
        self.differences = tuple(differences)


class StoreVersionError(StoreError):
    """Store in a format that this version of tgp cannot read."""


class StoreFullError(StoreError):
    """Write to a store that failed because no disk space is left."""
