"""Stores that lie elsewhere: any place fsspec can read, with a cache on this machine.

The manifest is read anew at every opening. A shard is fetched whole when one of its graphs is first asked for, and
kept under the digest of the manifest: a store that was rebuilt in its place is never mixed with an old copy.
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
from tgp.store.io.files import LocalFiles, StoreFiles, is_full

__all__ = ["RemoteFiles", "open_files"]

_BLOCK = 4 << 20
_ADVICE = "check the address, the network and the credentials"


def open_files(
    path: str | os.PathLike[str], cache: str | os.PathLike[str] | None = None, **options: Any
) -> StoreFiles:
    """The files of a store: a directory, or a URL with a protocol (``s3://...``, ``https://...``).

    Args:
        path: where the store is.
        cache: folder for fetched shards, see :class:`RemoteFiles`.
        **options: for the file system behind the URL (credentials, timeouts).
    """
    if isinstance(path, str) and "://" in path:
        return RemoteFiles(path, cache, **options)
    return LocalFiles(path)


class RemoteFiles:
    """Files of a store behind a URL.

    Args:
        url: what fsspec understands.
        cache: folder for fetched shards; default ``$TGP_CACHE``, else ``~/.cache/tgp``. Several processes may
            share it. It may be deleted at any time that nobody reads from it.
        **options: for the file system behind the URL.
    """

    def __init__(self, url: str, cache: str | os.PathLike[str] | None = None, **options: Any) -> None:
        self.url = url.rstrip("/")
        home = os.environ.get("TGP_CACHE") or Path.home() / ".cache" / "tgp"
        self.cache = Path(home if cache is None else cache)
        self.options = options
        self._version: str | None = None
        self._forget()

    def _forget(self) -> None:
        self._system: tuple[int, Any, str] | None = None
        self._sizes: dict[str, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("url", "cache", "options", "_version")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    @property
    def location(self) -> str:
        return self.url

    def size(self, name: str) -> int:
        kept = self._kept(name)
        if kept is not None and kept.is_file():
            return kept.stat().st_size
        found = self._listing().get(name)
        if found is not None:
            return found
        with self._talking(name) as (system, base):
            size = system.info(f"{base}/{name}").get("size")
            return self._whole(name) if size is None else int(size)

    def read(self, name: str, limit: int) -> bytes:
        with self._talking(name) as (system, base), system.open(f"{base}/{name}", "rb") as file:
            data = bytes(file.read(limit + 1))
        if len(data) > limit:
            raise StoreDamagedError(
                f"{self.url}/{name} has more than the {limit} bytes that are allowed",
                path=f"{self.url}/{name}",
                item=name,
            )
        if name == fmt.MANIFEST:
            self._version = hashlib.sha256(data).hexdigest()[:16]
        return data

    def map(self, name: str) -> npt.NDArray[np.uint8]:
        return self._fetched(name).map(name)

    def open(self, name: str) -> BinaryIO:
        return self._fetched(name).open(name)

    def path_of(self, name: str) -> str | None:
        return self._fetched(name).path_of(name)

    def drop(self, name: str) -> None:
        """A bad copy is fetched again next time: what it was copied from may have been in the middle of a change."""
        kept = self._kept(name)
        if kept is not None:
            with _keeping(kept):
                kept.unlink(missing_ok=True)

    # Fetching -----------------------------------------------------------------------------------

    def _kept(self, name: str) -> Path | None:
        """Where the copy of a file is or will be; ``None`` before the manifest was read."""
        if self._version is None:
            return None
        return self.cache / hashlib.sha256(self.url.encode()).hexdigest()[:16] / self._version / name

    def _fetched(self, name: str) -> LocalFiles:
        if self._kept(name) is None:
            self.read(fmt.MANIFEST, fmt.MAX_MANIFEST_BYTES)
        kept = self._kept(name)
        assert kept is not None
        if not kept.is_file():
            self._fetch(name, kept)
        return LocalFiles(kept.parent)

    def _fetch(self, name: str, target: Path) -> None:
        """Copy a file into the cache: under another name first, so that a torn copy is never taken for whole."""
        with _keeping(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".tmp-{secrets.token_hex(8)}")
        try:
            with _keeping(temporary), open(temporary, "wb") as file:
                self._copy(name, file, temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    def _copy(self, name: str, target: BinaryIO, temporary: Path) -> None:
        with self._talking(name) as (system, base), system.open(f"{base}/{name}", "rb") as source:
            while block := source.read(_BLOCK):
                with _keeping(temporary):
                    target.write(block)

    def _whole(self, name: str) -> int:
        """The size of a file whose server does not tell it."""
        with self._fetched(name).open(name) as file:
            return file.seek(0, os.SEEK_END)

    def _listing(self) -> dict[str, int]:
        """Sizes of all files in one request, where the storage can list; else empty."""
        if self._sizes is None:
            self._sizes = {}
            with contextlib.suppress(OSError, NotImplementedError), self._talking("") as (system, base):
                for entry in system.ls(base, detail=True):
                    if entry.get("type") == "file" and entry.get("size") is not None:
                        self._sizes[str(entry["name"]).rstrip("/").rpartition("/")[2]] = int(entry["size"])
        return self._sizes

    @contextlib.contextmanager
    def _talking(self, name: str) -> Iterator[tuple[Any, str]]:
        """The file system (one per process: connections do not survive a fork) and the path of the store in it."""
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
    """The network error behind a file that was not found: HTTP file systems report both alike."""
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
def _keeping(path: Path) -> Iterator[None]:
    """Errors of the cache, told apart from those of the network."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        kind = StoreFullError if is_full(error) else StoreError
        raise kind(
            f"the cache {path.parent} cannot be written: {error}",
            path=path.parent,
            hint="set TGP_CACHE to another folder",
        ) from error


def _transport_errors() -> tuple[type[Exception], ...]:
    """What a broken connection raises; HTTP clients have errors of their own."""
    client = sys.modules.get("aiohttp")
    return (OSError, asyncio.TimeoutError, *((client.ClientError,) if client else ()))


def _connect(url: str, options: dict[str, Any]) -> tuple[Any, str]:
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
