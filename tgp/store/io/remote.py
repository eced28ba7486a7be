"""Read stores from a web server or from any file system that fsspec supports, with a local cache.

The manifest is downloaded each time a store is opened. A shard is downloaded as a whole when one of its graphs is read
for the first time. It enters the cache after its size and its SHA-256 were compared with the manifest. Its cache path
contains a digest of the manifest, so a store that was rebuilt at the same URL is never mixed with old copies.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from tgp.errors import (
    InputError,
    MissingPackageError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreMissingError,
    TgpError,
)
from tgp.store.format import constants as fmt
from tgp.store.format.pieces import FileRecord
from tgp.store.io.files import LocalFiles, is_full
from tgp.store.io.http_reader import HttpReader
from tgp.store.io.transfer import ADVICE, InterruptedTransferError, Meter, TransferLimits, repeat, too_large
from tgp.text import inert_text

__all__ = ["RemoteFiles", "TransferLimits"]

_BLOCK = 1 << 20
_CONNECTIONS = 4
"""Number of files of a store that are downloaded at the same time."""
_HTTP = re.compile(r"https?:", re.IGNORECASE)
_HTTP_OPTIONS = ("auth", "headers", "redirect_hosts")
_USER = re.compile(r"(?<=://)[^/?#]*@")
_CACHE_FORMAT = "2"
"""Part of each cache path. Version 1 contained copies whose SHA-256 was not compared."""


class RemoteFiles:
    """Files of a store at a URL. Implements :class:`~tgp.store.StoreFiles`.

    A file that is missing, or that does not match the manifest, is reported when it is read. There is no list of the
    remote files.

    Args:
        url: URL with ``http``, ``https``, or another protocol that fsspec supports.
        cache: Directory for downloaded shards. The default is ``$TGP_CACHE`` or ``~/.cache/tgp``. Several processes may
            share it. It may be deleted whenever no process reads from it.
        limits: Limits on the time of transfers and on the number of attempts. Over HTTP, they hold for every byte. Other
            protocols are read in blocks by fsspec, and the limits are checked between two blocks.
        **options: Over HTTP ``headers`` (dict), ``auth`` (user name and password) and ``redirect_hosts`` (other hosts to
            which the server may redirect, by default those in ``$TGP_REDIRECT_HOSTS``). Otherwise the options of the
            fsspec file system.

    Raises:
        InputError: If an option does not exist.
        StoreError: If the URL is not valid.
    """

    def __init__(
        self,
        url: str,
        cache: str | os.PathLike[str] | None = None,
        *,
        limits: TransferLimits | None = None,
        **options: Any,
    ) -> None:
        self.url = url.rstrip("/")
        home = os.environ.get("TGP_CACHE") or Path.home() / ".cache" / "tgp"
        self.cache = Path(home if cache is None else cache)
        self.limits = TransferLimits() if limits is None else limits
        self.options = options
        self._version: str | None = None
        self._expected: dict[str, tuple[int, str]] = {}
        self._source = self._make_source()

    def _make_source(self) -> _Source:
        if not _HTTP.match(self.url):
            return _FsspecReader(self.url, self.limits, self.options)
        unknown = sorted(set(self.options) - set(_HTTP_OPTIONS))
        if unknown:
            raise InputError(
                f"unknown option for HTTP: expected one of {', '.join(_HTTP_OPTIONS)}, got {unknown[0]}",
                field=unknown[0],
            )
        return HttpReader(self.url, self.limits, **self.options)

    def __getstate__(self) -> dict[str, Any]:
        names = ("url", "cache", "limits", "options", "_version", "_expected")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._source = self._make_source()

    @property
    def location(self) -> str:
        """URL of the store without user name, password and query."""
        return self._source.location

    def expect(self, records: Iterable[FileRecord]) -> None:
        """Set the sizes and checksums that the manifest records. They replace those of an earlier call."""
        self._expected = {record.file: (record.size, record.sha256) for record in records}

    def size(self, name: str) -> int:
        """Return the recorded size of a file. The remote file is compared with it when it is downloaded."""
        return self._record(name)[0]

    def read(self, name: str, limit: int) -> bytes:
        def attempt() -> bytes:
            buffer = io.BytesIO()
            self._source.copy(name, limit, buffer.write)
            return buffer.getvalue()

        data = repeat(self.limits, attempt)
        if name == fmt.MANIFEST:
            version = hashlib.sha256(data).hexdigest()[:16]
            if version != self._version:
                self._version, self._expected = version, {}
        return data

    def map(self, name: str) -> npt.NDArray[np.uint8]:
        return self._local_copy(name).map(name)

    def open(self, name: str) -> BinaryIO:
        return self._local_copy(name).open(name)

    def path_of(self, name: str) -> str | None:
        return self._local_copy(name).path_of(name)

    def fetch(self, names: Sequence[str]) -> None:
        """Download the files that have no copy yet, several at a time. The first error stops the other downloads.

        This is done over HTTP only. Connections of other file systems may not be shared by threads.
        """
        stop = Event()
        folder = self._cache_folder()
        missing = [name for name in names if not _has_size(folder / name, self._record(name)[0])]
        if len(missing) < 2 or not isinstance(self._source, HttpReader):
            return  # each file is downloaded when it is opened
        with ThreadPoolExecutor(min(len(missing), _CONNECTIONS)) as pool:
            try:
                running = [pool.submit(self._local_copy, name, stop) for name in missing]
                for download in as_completed(running):
                    download.result()
            except BaseException:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def drop(self, name: str) -> None:
        """Delete the copy of a file, so that it is downloaded again. The remote file may have changed meanwhile."""
        if self._version is not None:
            cached = self._cache_folder() / name
            with _convert_cache_errors(cached.parent):
                cached.unlink(missing_ok=True)

    # Downloads ----------------------------------------------------------------------------------

    def _record(self, name: str) -> tuple[int, str]:
        """Return the recorded size and SHA-256 of a file. Read the manifest if that was not done yet."""
        if self._version is None or not self._expected:
            from tgp.store.format.manifest import read_manifest

            manifest = read_manifest(self)
            self.expect(manifest.files)
        try:
            return self._expected[name]
        except KeyError:
            where = f"{self.location}/{name}"
            raise StoreMissingError(f"{where} is not listed in {fmt.MANIFEST}", path=where) from None

    def _cache_folder(self) -> Path:
        """Return the directory of the copies that belong to the manifest that was read last."""
        address = hashlib.sha256(f"{_CACHE_FORMAT} {self.url}".encode()).hexdigest()[:16]
        return self.cache / address / str(self._version)

    def _local_copy(self, name: str, stop: Event | None = None) -> LocalFiles:
        """Download a file if there is no copy of the recorded size, and return the directory of the copy.

        Args:
            name: Name of the file.
            stop: Event that ends the download with an error.
        """
        record = self._record(name)
        folder = LocalFiles(self._cache_folder())
        if not _has_size(folder.path / name, record[0]):
            self._download(name, record, folder, stop or Event())
        return folder

    def _download(self, name: str, record: tuple[int, str], folder: LocalFiles, stop: Event) -> None:
        """Copy a file into the cache. Repeat it once if the bytes are wrong, because a proxy may return an old file."""
        with _convert_cache_errors(folder.path):
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.remove_stale()
            free = shutil.disk_usage(folder.path).free
            if free < record[0]:
                raise StoreFullError(
                    f"the cache {folder.path} has too little space: expected {record[0]} bytes for {name}, got {free}",
                    path=folder.path,
                    hint="free some space, or set TGP_CACHE to another directory",
                )
        try:
            repeat(self.limits, lambda: self._transfer(name, record, folder, stop, fresh=False))
        except StoreDamagedError:
            repeat(self.limits, lambda: self._transfer(name, record, folder, stop, fresh=True))

    def _transfer(
        self, name: str, record: tuple[int, str], folder: LocalFiles, stop: Event, *, fresh: bool
    ) -> None:
        """Copy a file once. It gets its final name when its size and its SHA-256 were compared with the manifest."""
        size, expected = record
        digest = hashlib.sha256()
        hashed: Future[None] | None = None

        def write(block: memoryview) -> None:
            # A second thread hashes this block while it is written and while the next one is received.
            nonlocal hashed
            if hashed is not None:
                hashed.result()
            if stop.is_set():
                raise StoreError(f"the download of {self.location}/{name} was stopped")
            hashed = hasher.submit(digest.update, block)
            while block:
                block = block[os.write(temporary.descriptor, block) :]

        with (
            ThreadPoolExecutor(1) as hasher,
            _convert_cache_errors(folder.path),
            folder.temporary(name) as temporary,
        ):
            count = self._source.copy(name, size, write, fresh=fresh)
            if hashed is not None:
                hashed.result()
            if count != size or digest.hexdigest() != expected:
                raise self._mismatch(name, size, count)
            try:
                temporary.rename()
            except PermissionError:  # Windows: another process has downloaded and mapped the same file
                if not _has_size(folder.path / name, size):
                    raise

    def _mismatch(self, name: str, size: int, count: int) -> StoreDamagedError:
        where = f"{self.location}/{name}"
        why = (
            "its bytes do not match the checksum" if count == size else f"expected {size} bytes, got {count}"
        )
        return StoreDamagedError(
            f"{where} does not match the manifest: {why}",
            path=where,
            item=name,
            hint="Open the store again if it was being uploaded. Otherwise upload it again.",
        )


def _has_size(path: Path, size: int) -> bool:
    """Return True if a path is a regular file of that size."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


@contextlib.contextmanager
def _convert_cache_errors(folder: Path) -> Iterator[None]:
    """Convert each ``OSError`` of the cache, so that it is not reported as an error of the network."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        kind = StoreFullError if is_full(error) else StoreError
        raise kind(
            f"the cache {folder} cannot be written: {error}",
            path=folder,
            hint="set TGP_CACHE to another directory",
        ) from error


class _Source(Protocol):
    """Files below a URL that can be copied."""

    location: str

    def copy(self, name: str, limit: int, write: Callable[[memoryview], Any], *, fresh: bool = False) -> int:
        """Copy a file in blocks and return its size, see :meth:`HttpReader.copy`."""
        ...


class _FsspecReader:
    """Reader of the files below a URL with fsspec. The arguments are those of :class:`RemoteFiles`."""

    def __init__(self, url: str, limits: TransferLimits, options: dict[str, Any]) -> None:
        self.url = url
        self.limits = limits
        self.options = options
        self.location = _USER.sub("***@", url)
        self._secrets = _USER.findall(url)
        self._system: tuple[int, Any, str] | None = None

    def copy(self, name: str, limit: int, write: Callable[[memoryview], Any], *, fresh: bool = False) -> int:
        where = f"{self.location}/{name}"
        meter = Meter(self.limits, where, limit)
        count = 0
        with contextlib.ExitStack() as stack:
            with self._convert_errors(where):
                source = stack.enter_context(self._open(name))
            while True:
                meter.wait()
                with self._convert_errors(where):
                    block = source.read(min(_BLOCK, limit + 1 - count))
                if not block:
                    return count
                count += len(block)
                meter.add(len(block))
                if count > limit:
                    raise too_large(where, limit)
                write(memoryview(block))

    def _open(self, name: str) -> Any:
        """Open a remote file. Each process opens its own file system, because connections do not survive a fork."""
        if self._system is None or self._system[0] != os.getpid():
            self._system = (os.getpid(), *_connect(self.url, self.options))
        _, system, base = self._system
        path = f"{base}/{name}"
        local = "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol)
        if local and os.path.exists(path) and not os.path.isfile(path):
            raise StoreDamagedError(
                f"{path} must be a plain file, got a directory or device", path=path, item=name
            )
        return system.open(path, "rb")

    @contextlib.contextmanager
    def _convert_errors(self, where: str) -> Iterator[None]:
        """Convert all errors of a file system into those of a store."""
        try:
            yield
        except TgpError:
            raise
        except FileNotFoundError as error:
            raise StoreMissingError(f"{where} does not exist", path=where) from self._cause(error)
        except Exception as error:  # noqa: BLE001 - each file system raises errors of its own
            text = inert_text(str(error)[:200]) or type(error).__name__
            for secret in self._secrets:
                text = text.replace(secret, "***@")
            repeatable = isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError))
            kind = InterruptedTransferError if repeatable else StoreError
            raise kind(f"{where} cannot be read: {text}", path=where, hint=ADVICE) from self._cause(error)

    def _cause(self, error: Exception) -> Exception | None:
        """Return the cause to show in a traceback: none if it could contain a password."""
        return None if self._secrets else error


def _connect(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the fsspec file system of a URL and the path in it."""
    shown = _USER.sub("***@", url)
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingPackageError(
            f"reading {shown} needs the package fsspec", hint="pip install 'tgp-coarsen[remote]'"
        ) from error
    try:
        system, path = url_to_fs(url, skip_instance_cache=True, use_listings_cache=False, **options)
    except ImportError as error:
        raise MissingPackageError(f"reading {shown} needs another package: {error}") from error
    return system, str(path).rstrip("/")
