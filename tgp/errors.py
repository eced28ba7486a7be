"""Every error tgp raises on purpose.

Each class is a :class:`TgpError` and also the builtin that callers expect (``ValueError``,
``OSError``, ...). The text says what was expected, what came, where, and what to do; the
fields carry the same facts for programs. The command line turns classes into exit codes in one
place (``tgp_cli._errors``).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = [
    "TgpError",
    "InputError",
    "UnknownNameError",
    "ParameterError",
    "ScheduleError",
    "GraphError",
    "DatasetError",
    "MissingPackageError",
    "PackageError",
    "StoreError",
    "StoreMissingError",
    "StoreDamagedError",
    "StoreMismatchError",
    "StoreVersionError",
    "StoreFullError",
    "nearest",
]


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name closest to ``name``, or ``None`` if nothing is close."""
    found = difflib.get_close_matches(name.lower(), [str(v) for v in valid], n=1, cutoff=0.5)
    return found[0] if found else None


class TgpError(Exception):
    """Base of all errors raised on purpose. ``hint`` is the next thing to try."""

    hint: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class InputError(TgpError, ValueError):
    """An argument or array is not what it must be; ``field`` names it."""

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.field = field


class UnknownNameError(TgpError, ValueError):
    """A name that no table knows."""

    def __init__(self, kind: str, name: str, valid: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.valid = sorted(str(v) for v in valid)
        self.nearest = nearest(str(name), self.valid)
        guess = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        super().__init__(f"Unknown {kind} {name!r}.{guess} Valid: {', '.join(self.valid)}.")


class ParameterError(InputError):
    """A parameter of a method has a bad value."""


class ScheduleError(TgpError, ValueError):
    """A list of levels cannot be read."""


class GraphError(TgpError, ValueError):
    """One graph could not be coarsened. ``graph`` is its index in the block, ``reason`` the message without it."""

    def __init__(self, message: str, *, graph: int | None = None, hint: str | None = None) -> None:
        super().__init__(message if graph is None else f"{message} (graph {graph})", hint=hint)
        self.reason = message
        self.graph = graph


class DatasetError(TgpError, ValueError):
    """A dataset cannot be found or read."""


class MissingPackageError(TgpError, ImportError):
    """An optional package is needed and absent."""


class PackageError(TgpError, ImportError):
    """What another package offers to tgp cannot be used; ``package`` names it."""

    def __init__(self, message: str, *, package: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.package = package


class StoreError(TgpError, OSError):
    """Something is wrong with a store; ``path`` says where."""

    def __init__(self, message: str, *, path: str | Path | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = None if path is None else str(path)

    def __str__(self) -> str:
        return str(self.args[0])


class StoreMissingError(StoreError, FileNotFoundError):
    """There is no (complete) store at this path."""


class StoreDamagedError(StoreError):
    """A file is torn, altered or hostile. ``item`` names the shard, field or manifest key."""

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


class StoreMismatchError(StoreError, ValueError):
    """A store exists and was made from something else. ``differences`` lists what differs."""

    def __init__(
        self,
        message: str,
        *,
        differences: Sequence[str] = (),
        path: str | Path | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.differences = tuple(differences)


class StoreVersionError(StoreError):
    """The store was written by a format this version does not read."""


class StoreFullError(StoreError):
    """No space left while writing."""
