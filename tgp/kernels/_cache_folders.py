"""Directories for the cache of compiled kernels, and the warning about those that cannot be used.

The files of the cache are pickles, so whoever can write them can run code. A directory that belongs to another user, or that
every user can write to, is not used.
"""

from __future__ import annotations

import contextlib
import getpass
import multiprocessing
import os
import stat
import tempfile
import warnings
from typing import Any, cast

from numba.core import caching
from numba.misc import appdirs

__all__ = ["KernelCacheWarning", "Locations", "refused", "user_directory", "warn_once"]

refused: dict[str, str] = {}
"""Directories that are not used because others can write to them, with the reason."""

_state = {"warned": False}


class KernelCacheWarning(UserWarning):
    """Warning that compiled kernels are not kept on disk."""


def warn_once(problem: str, *, problem_is_fatal: bool = True) -> None:
    """Issue a :class:`KernelCacheWarning`, unless this process has issued one already.

    Args:
        problem: Description of the directory that cannot be used.
        problem_is_fatal: False if kernels are cached in a temporary directory.
    """
    # All workers of a pool have the same problem, so only the first one reports it.
    is_first = getattr(multiprocessing.current_process(), "_identity", ()) in ((), (1,))
    if _state["warned"] or not is_first:
        return
    _state["warned"] = True
    title = "compiled kernels are not cached" if problem_is_fatal else "compiled kernels are temporary files"
    effect = "Each process compiles them again, with the same results" if problem_is_fatal else ""
    effect = effect or "They are compiled again if the system removes them"
    advice = "Set NUMBA_CACHE_DIR to a directory that only you can write to"
    warnings.warn_explicit(f"{title}: {problem}. {effect}. {advice}", KernelCacheWarning, "tgp", 1)


def find_unsafe_directory(path: str) -> str | None:
    """Return the reason why other users can change the files of a directory, or ``None`` if they cannot.

    Links are followed. Members of the group of the directory and the system administrator are trusted.

    Args:
        path: Existing directory of cache files, inside a directory for all cache files.
    """
    if os.name == "nt":
        return None
    for folder in (path, os.path.dirname(path)):
        status = os.stat(folder)
        if status.st_uid not in (0, os.geteuid()):
            return f"{folder} belongs to user {status.st_uid}: expected user {os.geteuid()}"
        # In a directory with the sticky bit, others cannot replace a directory that is there.
        is_shared = folder != path and status.st_mode & stat.S_ISVTX
        if status.st_mode & stat.S_IWOTH and not is_shared:
            mode = stat.S_IMODE(status.st_mode)
            return f"every user can write to {folder}: expected mode 700 or 755, got {mode:o}"
    return None


def find_foreign_directory(path: str) -> str | None:
    """Return the reason why a directory in a place that all users share is not used, or ``None`` if it is private.

    Args:
        path: Existing file or directory. Links are refused, because other users can create them.
    """
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is not a directory: expected a directory of this user, got a file or a link"
    if os.name == "nt":
        return None
    if status.st_uid != os.geteuid():
        return f"{path} belongs to user {status.st_uid}: expected user {os.geteuid()}"
    if status.st_mode & 0o077:
        return f"other users can use {path}: expected mode 700, got {stat.S_IMODE(status.st_mode):o}"
    return None


def _user_id() -> str:
    return str(os.geteuid()) if hasattr(os, "geteuid") else getpass.getuser()


class _PrivateDirectory:
    """Locator mixin that refuses directories that other users can write to."""

    def ensure_cache_path(self) -> None:
        """Create the directory if needed, and check that it is writable and private.

        Raises:
            PermissionError: If other users can write to the directory.
        """
        super().ensure_cache_path()  # type: ignore[misc]
        path = self.get_cache_path()  # type: ignore[attr-defined]
        reason = find_unsafe_directory(path)
        if reason is not None:
            refused[path] = reason
            raise PermissionError(reason)


def _locator(name: str) -> Any:
    """Return a locator class of numba. Its name starts with an underscore before version 0.62."""
    return getattr(caching, name, None) or getattr(caching, f"_{name}")


class _ChosenDirectory(_PrivateDirectory, _locator("UserProvidedCacheLocator")):  # type: ignore[misc]
    """Directory that ``NUMBA_CACHE_DIR`` names."""


class _UserDirectory(_PrivateDirectory, _locator("UserWideCacheLocator")):  # type: ignore[misc]
    """Cache directory of the user."""


class _TemporaryDirectory(_locator("UserWideCacheLocator")):  # type: ignore[misc]
    """Private directory of the user among the temporary files, for a home directory that is missing or read-only."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._folder = os.path.join(tempfile.gettempdir(), f"tgp-kernels-{_user_id()}")
        self._cache_path = os.path.join(self._folder, self.get_suitable_cache_subpath(py_file))

    def ensure_cache_path(self) -> None:
        """Create the directory if needed, and check that only this user can change it.

        Raises:
            PermissionError: If the directory belongs to another user, is a link, or others can write to it.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)
        reason = find_foreign_directory(self._folder)
        if reason is not None:
            refused[self._folder] = reason
            raise PermissionError(reason)
        super().ensure_cache_path()
        warn_once(
            f"expected a writable home directory, got none. They are in {self._folder}",
            problem_is_fatal=False,
        )


class Locations(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """Directory and file names of the cache of one kernel."""

    _locator_classes: list[Any] = [
        _ChosenDirectory,
        _locator("InTreeCacheLocator"),
        _UserDirectory,
        _TemporaryDirectory,
    ]


def user_directory() -> str:
    """Return the cache directory of the user."""
    return str(cast("Any", appdirs).AppDirs(appname="numba", appauthor=False).user_cache_dir)
