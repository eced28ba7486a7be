"""Read stores from any file system that fsspec supports, with a local cache.

The manifest is downloaded each time a store is opened. A shard is downloaded as a whole when one of its graphs is read
for the first time. Its cache path contains a digest of the manifest, so a store that was rebuilt at the same URL is never
mixed with old copies.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tgp.errors import MissingPackageError, StoreDamagedError, StoreError, StoreFullError, StoreMissingError
from tgp.store.format import constants as fmt
from tgp.store.io.files import LocalFiles, is_full
from tgp.store.io.portable import replace_file

__all__ = ["RemoteFiles"]

_BLOCK = 4 << 20
_ADVICE = "check the address, the network and the credentials"


class RemoteFiles:
    """Files of a store at a URL. Implements :class:`~tgp.store.StoreFiles`.

    Args:
        url: URL that fsspec supports.
        cache: Directory for downloaded shards. The default is ``$TGP_CACHE`` or ``~/.cache/tgp``. Several processes may
            share it. It may be deleted whenever no process reads from it.
        **options: Options of the fsspec file system (credentials, timeouts).
    """

    def __init__(self, url: str, cache: str | os.PathLike[str] | None = None, **options: Any) -> None:
        self.url = url.rstrip("/")
        home = os.environ.get("TGP_CACHE") or Path.home() / ".cache" / "tgp"
        self.cache = Path(home if cache is None else cache)
        self.options = options
        self._version: str | None = None
        self._reset_connection()

    def _reset_connection(self) -> None:
        self._system: tuple[int, Any, str] | None = None
        self._sizes: dict[str, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("url", "cache", "options", "_version")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset_connection()

    @property
    def location(self) -> str:
        return self.url

    def size(self, name: str) -> int:
        cached = self._cache_path(name)
        if cached is not None and cached.is_file():
            return cached.stat().st_size
        found = self._listing().get(name)
        if found is not None:
            return found
        with self._connection(name) as (system, base):
            size = system.info(f"{base}/{name}").get("size")
            return self._size_of_copy(name) if size is None else int(size)

    def read(self, name: str, limit: int) -> bytes:
        with self._connection(name) as (system, base), system.open(f"{base}/{name}", "rb") as file:
            data = bytes(file.read(limit + 1))
        if len(data) > limit:
            raise StoreDamagedError(
                f"{self.url}/{name} is too large: expected at most {limit} bytes",
                path=f"{self.url}/{name}",
                item=name,
            )
        if name == fmt.MANIFEST:
            self._version = hashlib.sha256(data).hexdigest()[:16]
        return data

    def map(self, name: str) -> npt.NDArray[np.uint8]:
        return self._local_copy(name).map(name)

    def open(self, name: str) -> BinaryIO:
        return self._local_copy(name).open(name)

    def path_of(self, name: str) -> str | None:
        return self._local_copy(name).path_of(name)

    def drop(self, name: str) -> None:
        """Delete the copy of a file, so that it is downloaded again. The remote file may have changed meanwhile."""
        cached = self._cache_path(name)
        if cached is not None:
            with _convert_cache_errors(cached):
                cached.unlink(missing_ok=True)

    # Downloads ----------------------------------------------------------------------------------

    def _cache_path(self, name: str) -> Path | None:
        """Return the path for the copy of a file, or ``None`` if the manifest was not read yet."""
        if self._version is None:
            return None
        return self.cache / hashlib.sha256(self.url.encode()).hexdigest()[:16] / self._version / name

    def _local_copy(self, name: str) -> LocalFiles:
        """Download a file if there is no copy of it, and return the directory of the copy."""
        if self._version is None:
            self.read(fmt.MANIFEST, fmt.MAX_MANIFEST_BYTES)
        cached = self._cache_path(name)
        assert cached is not None
        if not cached.is_file():
            self._download(name, cached)
        return LocalFiles(cached.parent)

    def _download(self, name: str, target: Path) -> None:
        """Copy a file into the cache. It gets its final name at the end, so an incomplete copy is never used."""
        with _convert_cache_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".tmp-{secrets.token_hex(8)}")
        try:
            with _convert_cache_errors(temporary), open(temporary, "wb") as file:
                self._copy(name, file, temporary)
            try:
                replace_file(temporary, target)
            except PermissionError:  # Windows: another process has downloaded and mapped the same file
                if not target.is_file():
                    raise
        finally:
            temporary.unlink(missing_ok=True)

    def _copy(self, name: str, target: BinaryIO, temporary: Path) -> None:
        with self._connection(name) as (system, base), system.open(f"{base}/{name}", "rb") as source:
            while block := source.read(_BLOCK):
                with _convert_cache_errors(temporary):
                    target.write(block)

    def _size_of_copy(self, name: str) -> int:
        """Download a file to find its size, for servers that do not report it."""
        with self._local_copy(name).open(name) as file:
            return file.seek(0, os.SEEK_END)

    def _listing(self) -> dict[str, int]:
        """Return the sizes of all files from one request, or an empty dict if the storage cannot list files."""
        if self._sizes is None:
            self._sizes = {}
            with contextlib.suppress(OSError, NotImplementedError), self._connection("") as (system, base):
                for entry in system.ls(base, detail=True):
                    if entry.get("type") == "file" and entry.get("size") is not None:
                        self._sizes[str(entry["name"]).rstrip("/").rpartition("/")[2]] = int(entry["size"])
        return self._sizes

    @contextlib.contextmanager
    def _connection(self, name: str) -> Iterator[tuple[Any, str]]:
        """Yield the file system and the path of the store in it, and convert its errors.

        Each process opens its own file system, because connections do not survive a fork.
        """
        where = f"{self.url}/{name}"
        try:
            if self._system is None or self._system[0] != os.getpid():
                self._system = (os.getpid(), *_connect(self.url, self.options))
            yield self._system[1], self._system[2]
        except (StoreError, MissingPackageError):
            raise
        except FileNotFoundError as error:
            lost = _lost_connection(error)
            if lost is not None:
                raise StoreError(f"{where} cannot be read: {lost}", path=where, hint=_ADVICE) from error
            raise StoreMissingError(f"{where} does not exist", path=where) from error
        except _transport_errors() as error:
            raise StoreError(
                f"{where} cannot be read: {error or type(error).__name__}",
                path=where,
                hint=_ADVICE,
            ) from error


def _lost_connection(error: BaseException) -> BaseException | None:
    """Return the network error that caused a ``FileNotFoundError``, because HTTP file systems raise it for both."""
    client = sys.modules.get("aiohttp")
    kinds: tuple[type[BaseException], ...] = (
        ConnectionError,
        *((client.ClientConnectionError,) if client else ()),
    )
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, kinds):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


@contextlib.contextmanager
def _convert_cache_errors(path: Path) -> Iterator[None]:
    """Convert each ``OSError`` of the cache, so that it is not reported as an error of the network."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        kind = StoreFullError if is_full(error) else StoreError
        raise kind(
            f"the cache {path.parent} cannot be written: {error}",
            path=path.parent,
            hint="set TGP_CACHE to another directory",
        ) from error


def _transport_errors() -> tuple[type[Exception], ...]:
    """Return the types of errors of a broken connection, with those of the HTTP client if it is loaded."""
    client = sys.modules.get("aiohttp")
    return (OSError, asyncio.TimeoutError, *((client.ClientError,) if client else ()))


def _connect(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the fsspec file system of a URL and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingPackageError(
            f"reading {url} needs the package fsspec", hint="pip install 'tgp-coarsen[remote]'"
        ) from error
    try:
        system, path = url_to_fs(url, skip_instance_cache=True, use_listings_cache=False, **options)
    except ImportError as error:
        raise MissingPackageError(f"reading {url} needs another package: {error}") from error
    except ValueError as error:
        raise StoreError(f"{url} cannot be read: {error}", path=url) from error
    return system, str(path).rstrip("/")
