"""Cache of compiled kernels on disk. It is optional: without it, kernels are compiled in memory in every process.

numba's own cache ends the program if its directory cannot be written, and it does not notice some damage and some changes.
This one differs in four points:

- A directory that is missing, read-only, full or damaged leads to one warning, and the kernel is compiled in memory.
- An entry is one file with a digest of its content, written under another name and renamed. A damaged file, or a file of
  another signature or version of numba, is not used; it is replaced.
- The digest includes the source of the kernel's module and of all kernel modules that it imports. A kernel is therefore
  compiled again if a function of another file changes, for example after an upgrade of the package.
- The files are pickles, so whoever can write them can run code. A directory for caches that belongs to another user, or that
  every user can write to, is not used. The ``__pycache__`` of the package is as trustworthy as the package itself.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import os
import re
import socket
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numba
from numba.core import caching, config, serialize
from numba.core.runtime.nrt import rtsys

from tgp.kernels._cache_folders import KernelCacheWarning, Locations, refused, user_directory, warn_once

__all__ = ["IS_KNOWN_NUMBA", "KernelCache", "KernelCacheWarning"]

IS_KNOWN_NUMBA: bool = numba.__version__.startswith("0.68.")
"""True if the shortcuts that depend on private names of numba were tested with the installed version. Kernels of other versions
have the same results, but take longer to compile and to load."""

_numba_config, _serialize = cast("Any", config), cast("Any", serialize)  # not annotated

_MAGIC = b"tgp kernel 1\n"
_IMPORT = re.compile(r"^\s*from tgp\.kernels\.(?!_cache)(\w+) import", re.MULTILINE)

CLAIM_SECONDS = 60.0
"""Longest time to wait for another process that compiles the same kernel."""

# -- imports of numba ---------------------------------------------------------------------------------------------


def import_without_blas() -> None:
    """Import numba's implementation of array functions without ``scipy.linalg``, which takes longer than the rest of it.

    numba imports ``scipy.linalg`` only to learn whether it exists. Kernels do not use linear algebra. Other functions of the
    process that do are not affected: numba imports it when it compiles them.
    """
    probed = "scipy.linalg.cython_blas"
    if "numba.np.arraymath" in sys.modules or "scipy.linalg" in sys.modules or _numba_config.DISABLE_JIT:
        return
    sys.modules[probed] = None  # type: ignore[assignment]  # an import of it fails
    try:
        from numba.np import arraymath
    finally:
        del sys.modules[probed]
    arraymath._HAVE_BLAS = importlib.util.find_spec("scipy") is not None


# -- entries ------------------------------------------------------------------------------------------------------


@functools.cache
def hash_sources(path: str) -> bytes:
    """Return a digest of a Python file and of all modules of ``tgp.kernels`` that it imports, directly or not.

    Args:
        path: Source file of a kernel.
    """
    folder = Path(__file__).parent
    found: dict[str, bytes] = {}
    waiting = [Path(path)]
    while waiting:
        file = waiting.pop()
        if str(file) not in found:
            source = file.read_bytes()
            found[str(file)] = hashlib.sha256(source).digest()
            waiting += [folder / f"{name}.py" for name in _IMPORT.findall(source.decode())]
    return hashlib.sha256(b"".join(found[name] for name in sorted(found))).digest()


class KernelCache(caching._Cache):  # type: ignore[misc]
    """Cache of the compiled versions of one function, in the interface that numba's dispatcher expects.

    Args:
        function: Python function of the kernel.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._claims: set[Path] = set()

    @functools.cached_property
    def _files(self) -> Any:
        """Location of the files, found when the kernel is first compiled; ``None`` if no directory can be used."""
        files = None
        try:
            files = cast("Any", Locations)(self._function)
        except (RuntimeError, OSError) as error:
            if not refused:
                in_package = os.path.dirname(inspect.getfile(self._function))
                tried = ", ".join(filter(None, (_numba_config.CACHE_DIR, in_package, user_directory())))
                reason = f" ({error})" if isinstance(error, OSError) else ""
                warn_once(f"expected a writable directory, got none of {tried}{reason}")
        for reason in refused.values():
            warn_once(reason)
        return files

    @property
    def cache_path(self) -> str | None:
        """Directory of the files, or ``None`` if kernels are not cached."""
        return None if self._files is None else self._files.locator.get_cache_path()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled version for a signature, or ``None`` if there is no valid file."""
        found = self._load(sig, target_context)
        if found is None:
            import_without_blas()  # the kernel is compiled next
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        if self._files is None:
            return None
        codegen = target_context.codegen()
        key = self._key(sig, codegen)
        try:
            path = self._path(key)
            if not self._is_intact(path) and not self._wait_for_other(sig, codegen):
                return None
            stored, data = self._numba_file._load_data(path.name)
            if IS_KNOWN_NUMBA:
                # numba would load its whole library here. Machine code only needs the memory manager.
                rtsys.initialize(target_context)
            else:
                import_without_blas()
                target_context.refresh()
            return self._files.rebuild(target_context, data) if stored == key else None
        except Exception:  # noqa: BLE001  # a file of another program; it is compiled again and replaced
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled version to disk. Issue a warning if that is not possible."""
        if self._files is None:
            return
        try:
            if self._files.check_cachable(data):
                self._files.locator.ensure_cache_path()
                key = self._key(sig, data.codegen)
                self._write(self._path(key), _serialize.dumps((key, self._files.reduce(data))))
        except Exception as error:  # noqa: BLE001  # the cache is optional, whatever is wrong with it
            if os.name == "nt" and isinstance(error, PermissionError):
                return  # another process reads or replaces the same file
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            warn_once(f"cannot write to {self.cache_path} ({reason})")

    def contains(self, sig: Any, codegen: Any) -> bool:
        """Return True if a valid file for a signature exists."""
        return self._files is not None and self._is_intact(self._path(self._key(sig, codegen)))

    def claim(self, sig: Any, codegen: Any) -> bool:
        """Announce that this process compiles a signature, so that others wait for it or compile something else.

        A claim is a file that contains the host and the process. It ends with :meth:`release`. A claim of a process that has
        ended is replaced.

        Returns:
            True if no other process compiles the signature, or if claims are not possible.
        """
        if self._files is None:
            return True
        path = self._claim_path(sig, codegen)
        me = f"{socket.gethostname()} {os.getpid()}"
        for _ in range(2):
            try:
                with open(path, "x") as file:
                    file.write(me)
                self._claims.add(path)
                return True
            except FileExistsError:
                owner = _read_claim(path)
                if owner == me:
                    return True
                if not _has_ended(owner):
                    return False
                path.unlink(missing_ok=True)
            except OSError:
                return True
        return False

    def release(self) -> None:
        """Remove the claims of this kernel."""
        while self._claims:
            with contextlib.suppress(OSError, KeyError):  # another thread may remove the last claim
                self._claims.pop().unlink(missing_ok=True)

    def _wait_for_other(self, sig: Any, codegen: Any) -> bool:
        """Claim a signature, or wait for the process that has claimed it; return True if a valid file exists then."""
        deadline = time.monotonic() + CLAIM_SECONDS
        while not self.claim(sig, codegen):
            if time.monotonic() > deadline:  # compile the same again rather than wait for ever
                with contextlib.suppress(OSError):
                    self._claim_path(sig, codegen).unlink(missing_ok=True)
                return False
            time.sleep(0.02)
        return self.contains(sig, codegen)

    def _claim_path(self, sig: Any, codegen: Any) -> Path:
        return self._path(self._key(sig, codegen)).with_suffix(".claim")

    def enable(self) -> None:
        """Do nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Do nothing: the cache is always enabled."""

    def flush(self) -> None:
        """Remove all files of this kernel."""
        if self._files is not None:
            for file in Path(self._files.locator.get_cache_path()).glob(f"{self._files.filename_base}.*"):
                file.unlink(missing_ok=True)

    @functools.cached_property
    def _numba_file(self) -> Any:
        """Reader of numba for the files of this kernel."""
        return cast("Any", caching.IndexDataCacheFile)(self.cache_path, self._files.filename_base, "")

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return sig, codegen.magic_tuple(), self._function.__code__.co_code

    def _path(self, key: tuple[Any, ...]) -> Path:
        name = hashlib.sha256(repr(key[:2]).encode()).hexdigest()[:16]
        return Path(self._files.locator.get_cache_path(), f"{self._files.filename_base}.{name}.nbc")

    def _digest(self, payload: bytes) -> bytes:
        salt = hash_sources(inspect.getfile(self._function)) + numba.__version__.encode()
        return hashlib.sha256(salt + payload).digest()

    def _is_intact(self, path: Path) -> bool:
        """Return True if a file exists, is complete, and was made from the current source."""
        try:
            content = path.read_bytes()
        except OSError:
            return False
        end = len(content) - len(_MAGIC) - 32
        return end > 0 and content[end:] == _MAGIC + self._digest(content[:end])

    def _write(self, path: Path, payload: bytes) -> None:
        """Write a file with a digest at its end, where readers of pickles ignore it."""
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
        try:
            temporary.write_bytes(payload + _MAGIC + self._digest(payload))
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def _read_claim(path: Path) -> str:
    try:
        return path.read_text()[:300]
    except (OSError, ValueError):
        return ""


def _has_ended(owner: str) -> bool:
    """Return True if a claim belongs to a process of this machine that does not exist."""
    host, _, process = owner.rpartition(" ")
    if os.name == "nt" or host != socket.gethostname() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False
